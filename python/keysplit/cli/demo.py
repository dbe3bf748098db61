"""`keysplit demo`: a real skewed stream through Spark, twice."""

from pathlib import Path

import click

from keysplit.cli.errors import bad_output, bad_usage
from keysplit.cli.options import number, writable

MOST_DEMO_WORKERS = 256


@click.command()
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
    help="The grouping of the plan.",
)
@number(
    "--service-time-ms",
    default=0.25,
    low=0,
    high=1000,
    help="Emulated service time per row; 0 for none.",
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
def demo(rows: int | None, workers: int, grouping: str, service_time_ms: float, report: Path) -> int:
    """Run a skewed stream through Spark twice, by Spark's hash and by a plan of keysplit, and compare.

    The job: for every airline the exact distribution of delays, computed row by row in Python. Each row keeps
    its worker busy for an emulated service time, so that a cluster's worth of workers fits on one machine.
    """
    with bad_usage():
        from keysplit.demo import report as page
        from keysplit.demo import run, stream, terminal

        run.check(workers=workers, grouping=grouping)
        table = stream.flights(rows)
    service_time_s = service_time_ms / 1000
    terminal.announce(rows=len(table), workers=workers, service_time_s=service_time_s)
    try:
        result = run.compare(
            table,
            workers=workers,
            grouping=grouping,
            service_time_s=service_time_s,
            step=terminal.step,
        )
    except run.SparkFailed as error:
        raise click.ClickException(f"Spark failed: {error}") from error
    terminal.show(result)
    with bad_output(report):
        page.write(result, report)
    click.echo(f"Report: {report}")
    wrong = result.wrong()
    if wrong:
        unequal = [f"{label}: {len(names)} keys, the first is {names[0]}" for label, names in wrong.items()]
        raise click.ClickException(f"the results are NOT equal to PyArrow's: {'; '.join(unequal)}")
    return 0
