"""`keysplit demo`: a real skewed stream through Spark, twice."""

from pathlib import Path

import click

from keysplit.cli.errors import bad_output, bad_usage
from keysplit.cli.options import number, sources_option, writable

MOST_DEMO_WORKERS = 256


@click.command()
@click.option(
    "--input",
    "input_",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Parquet, CSV or text (a word is a key); default: flights from New York.",
)
@click.option("--key", metavar="COLUMN", help="Column to group by; for the flights: carrier.")
@click.option(
    "--value",
    metavar="COLUMN",
    help="Column of integers to summarise per key; for the flights: arr_delay.",
)
@number("--rows", type=int, low=1, help="Use only the first N rows.")
@number(
    "--workers",
    default=32,
    low=1,
    high=MOST_DEMO_WORKERS,
    why=" (each is a Python process)",
    help="Number of workers, all running at once.",
)
@click.option(
    "--grouping",
    default="d_choices",
    show_default=True,
    help="keysplit's grouping: see `keysplit groupings`.",
)
@sources_option(MOST_DEMO_WORKERS)
@number(
    "--service-time-ms",
    default=0.25,
    low=0,
    high=1000,
    help="Emulated service time per row; 0 for none.",
)
@number(
    "--batches",
    default=60,
    low=0,
    high=1000,
    help="Micro-batches of the stream whose keys drift, one per second; 0 for none.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("keysplit-demo.html"),
    show_default=True,
    callback=writable,
    metavar="PATH",
    help="Path of the HTML report.",
)
@click.option(
    "--json",
    "json_",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=writable,
    metavar="PATH",
    help="Also write the figures as JSON.",
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
    batches: int,
    report: Path,
    json_: Path | None,
) -> int:
    """Run a skewed stream through Spark twice, hashed by Spark and routed by keysplit, and compare.

    The job: for every key the exact distribution of a value, computed row by row in Python. Each row keeps
    its worker busy for an emulated service time, so that a cluster's worth of workers fits on one machine.
    """
    with bad_usage():
        from keysplit.demo import report as page
        from keysplit.demo import run, stream, terminal

        run.check_packages()
        if input_ is None:
            rows_in = stream.flights(key=key or "carrier", value=value or "arr_delay", rows=rows)
        else:
            rows_in = stream.read(input_, key=key, value=value, rows=rows)
        run.check_grouping(rows_in, workers=workers, grouping=grouping)
        run.check_java()
    service_time_s = service_time_ms / 1000
    terminal.announce(rows_in, workers=workers, service_time_s=service_time_s)
    try:
        result = run.compare(
            rows_in,
            workers=workers,
            grouping=grouping,
            sources=sources,
            service_time_s=service_time_s,
            batches=batches,
            progress=terminal.Progress(),
        )
    except run.SparkFailed as error:
        raise click.ClickException(f"Spark failed: {error}") from error
    terminal.show(result)
    with bad_output(report):
        page.write(result, report)
    click.echo(f"Report: {report}")
    if json_ is not None:
        with bad_output(json_):
            page.write_json(result, json_)
        click.echo(f"Figures: {json_}")
    wrong = result.wrong()
    if wrong:
        unequal = [f"{label}: {len(names)} keys, the first is {names[0]}" for label, names in wrong.items()]
        raise click.ClickException(f"the results are NOT equal to NumPy's: {'; '.join(unequal)}")
    if not result.groups.equal:
        raise click.ClickException("the results over small groups are NOT equal to those of applyInPandas")
    if result.drift is not None and not result.drift.equal:
        raise click.ClickException("the stream has NOT written each row once")
    return 0
