"""The command `keysplit`."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

import keysplit as ks

INTERRUPTED = 130
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
MOST_DEMO_WORKERS = 256
WIDTH = 80


class OneLineErrors(click.Group):
    """A group of commands that reports what goes wrong in one line on standard error, without a traceback.

    Exit codes: 0, 1 for a failure that is nobody's mistake, 2 for bad usage or bad input, 130 for Ctrl-C.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that the arguments name."""
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            click.echo(f"keysplit: {' '.join(error.format_message().split())}", err=True)
            code = error.exit_code
        except click.Abort:
            code = INTERRUPTED
        if standalone_mode:
            sys.exit(code)
        return code


@click.group(cls=OneLineErrors, invoke_without_command=True, context_settings=SETTINGS)
@click.version_option(ks.__version__, prog_name="keysplit")
@click.pass_context
def main(context: click.Context) -> None:
    """Skew-aware stream partitioning: split the hot keys over several workers, and keep the results exact."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@main.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the table of the documentation.")
def groupings(name: str | None, as_json: bool, as_markdown: bool) -> None:
    """List the groupings, or tell the parameters of one: `keysplit groupings fish`."""
    import json

    from keysplit.groupings import overview

    if as_markdown:
        if name is not None or as_json:
            raise click.UsageError("--markdown goes without a name and without --json")
        click.echo(overview.markdown(), nl=False)
        return
    if name is not None and name not in ks.GROUPINGS:
        raise click.UsageError(f"grouping must be one of {', '.join(ks.GROUPINGS)}, got {name!r}")
    if as_json:
        told = [overview.describe(each) for each in ks.GROUPINGS] if name is None else overview.describe(name)
        click.echo(json.dumps(told, indent=2))
    elif name is None:
        _show_groupings()
    else:
        _show_grouping(overview.describe(name))


def _show_groupings() -> None:
    from rich.console import Console
    from rich.table import Table

    from keysplit.groupings.overview import LEGEND

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("workers\na key", no_wrap=True)
    table.add_column("adapts to", min_width=len("changing workers"))
    table.add_column("feedback", no_wrap=True)
    table.add_column("paper")
    for name, kind in ks.GROUPINGS.items():
        adapts_to, feedback = ", ".join(kind.adapts_to), ", ".join(kind.feedback)
        table.add_row(name, kind.workers_per_key, adapts_to, feedback, kind.paper)
    console = Console(highlight=False)
    console.width = max(WIDTH, console.width)  # narrower, a column would be lost
    console.print(table)
    click.echo()
    _show("workers a key", "at most; " + ", ".join(f"{short}: {long}" for short, long in LEGEND.items()))
    _show("feedback", "the arguments of Router.observe that it uses, besides now")
    click.echo("`keysplit groupings NAME` tells the parameters and the paper of one.")


def _show_grouping(about: dict[str, Any]) -> None:
    from keysplit.groupings.overview import LEGEND

    click.echo(click.wrap_text(f"{about['name']}: {about['summary']}", WIDTH) + "\n")
    most = about["workers_per_key"]
    _show("class", about["class"])
    _show("parameters", "workers")
    for name, value in {"seed": 0, **about["parameters"]}.items():
        _show("", f"{name} = {value}")
    _show("workers a key", f"at most {most}" + (f": {LEGEND[most]}" if most in LEGEND else ""))
    _show("adapts to", ", ".join(about["adapts_to"]) or "nothing")
    _show("feedback", ", ".join(about["feedback"]) or "none")
    _show("elastic", "yes" if about["elastic"] else "no")
    _show("source", about["source"])


def _show(label: str, text: str) -> None:
    click.echo(click.wrap_text(text, WIDTH, f"{label:<15}", " " * 15))


def _in_range(low: float, high: float | None = None, why: str = "") -> Callable[..., Any]:
    """Make a callback that refuses a number out of range in the words that the library uses."""

    def check(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
        name = str(parameter.name).replace("_", "-")
        if value is not None and not (low <= value and (high is None or value <= high)):
            allowed = f"at least {low}" if high is None else f"in {low}..={high}"
            raise click.UsageError(f"{name} must be {allowed}{why}, got {value}")
        return value

    return check


@main.command()
@click.option(
    "--input",
    "input_",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Parquet, CSV or text (a word is a key); flights from New York if left out.",
)
@click.option("--key", metavar="COLUMN", help="Column to group by; for the flights: carrier.")
@click.option(
    "--value",
    metavar="COLUMN",
    help="Column of whole numbers to summarise by key; for the flights: arr_delay.",
)
@click.option("--rows", type=int, callback=_in_range(1), help="Take the first so many rows only.")
@click.option(
    "--workers",
    type=int,
    default=32,
    show_default=True,
    callback=_in_range(1, MOST_DEMO_WORKERS, " (each is a Python process)"),
    help="Workers, all at work at the same time.",
)
@click.option(
    "--grouping",
    default="d_choices",
    show_default=True,
    help="What keysplit routes by: see `keysplit groupings`.",
)
@click.option(
    "--sources",
    type=int,
    default=5,
    show_default=True,
    callback=_in_range(1, MOST_DEMO_WORKERS),
    help="Tasks that route, each by what it has sent itself.",
)
@click.option(
    "--service-time-ms",
    type=float,
    default=0.25,
    show_default=True,
    callback=_in_range(0, 1000),
    help="Emulated service time of a row; 0 for none.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("keysplit-demo.html"),
    show_default=True,
    metavar="PATH",
    help="Where the HTML report goes.",
)
@click.option(
    "--json",
    "json_",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PATH",
    help="Write the figures as JSON, too.",
)
def demo(
    input_: Path | None,
    key: str | None,
    value: str | None,
    rows: int | None,
    workers: int,
    grouping: str,
    sources: int,
    service_time_ms: float,
    report: Path,
    json_: Path | None,
) -> int:
    """Run a skewed stream through Spark twice, hashed by Spark and routed by keysplit, and compare.

    The job: for every key the exact distribution of a value, computed row by row in Python. Each row keeps
    its worker busy for an emulated service time, so that a cluster's worth of workers fits on one machine.
    """
    try:
        from keysplit.demo import report as page
        from keysplit.demo import run, stream, terminal

        run.check_packages()
        for path in filter(None, (report, json_)):
            if not path.absolute().parent.is_dir():
                raise FileNotFoundError(f"the folder of {path} must exist")
        if input_ is None:
            rows_in = stream.flights(key=key or "carrier", value=value or "arr_delay", rows=rows)
        else:
            rows_in = stream.read(input_, key=key, value=value, rows=rows)
        run.check_grouping(rows_in, workers=workers, grouping=grouping)
        run.check_java()
    except (ImportError, OSError, TypeError, ValueError) as error:
        raise click.UsageError(_text(error)) from error
    service_time_s = service_time_ms / 1000
    terminal.announce(rows_in, workers=workers, service_time_s=service_time_s)
    try:
        result = run.compare(
            rows_in,
            workers=workers,
            grouping=grouping,
            sources=sources,
            service_time_s=service_time_s,
            progress=terminal.Progress(),
        )
    except run.SparkFailed as error:
        raise click.ClickException(f"Spark failed: {error}") from error
    terminal.show(result)
    try:
        page.write(result, report)
        click.echo(f"Report: {report}")
        if json_ is not None:
            page.write_json(result, json_)
            click.echo(f"Figures: {json_}")
    except OSError as error:
        raise click.UsageError(_text(error)) from error
    wrong = result.wrong()
    if wrong:
        told = [f"{label}: {len(names)} keys, the first is {names[0]}" for label, names in wrong.items()]
        raise click.ClickException(f"the results are NOT equal to NumPy's: {'; '.join(told)}")
    return 0


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}"
    return str(error) or type(error).__name__


if __name__ == "__main__":
    main()
