"""Show the demo's progress and results on a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from keysplit.demo.run import Comparison
from keysplit.show.console import marks


@contextmanager
def step(what: str) -> Iterator[None]:
    """Show the current step on standard error: in place on a terminal, otherwise on a separate line."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        with console.status(escape(what)):
            yield
    else:
        console.print(f"{escape(what)} ...", soft_wrap=True)
        yield


def announce(*, rows: int, workers: int, service_time_s: float) -> None:
    """Print what is about to run."""
    emulated = (
        f" Emulated: each row keeps its worker busy for {service_time_s * 1e3:g} ms, so that a cluster's "
        "worth of workers fits on one machine. The rows, their routing and the results are real."
    )
    Console(highlight=False).print(
        f"[bold]{rows:,} flights from New York in 2013[/bold]: the exact distribution of arrival delays per "
        f"airline, on {workers} workers.{emulated if service_time_s else ''}\n"
    )


def show(result: Comparison) -> None:
    """Print what was measured."""
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("")
    table.add_column("Spark's hash", justify="right", style="red")
    table.add_column(f"keysplit {result.grouping}", justify="right", style="green")
    wrong, runs = result.wrong(), result.runs
    rows = {
        "busy time of the slowest worker": [f"{run.busy_s.max():.2f} s" for run in runs],
        "slowest over mean": [f"{run.ratios[0]:.2f}" for run in runs],
        "rows of the busiest worker over mean": [f"{run.ratios[1]:.2f}" for run in runs],
        "workers without rows": [f"{int((run.rows == 0).sum())} of {result.workers}" for run in runs],
        "wall time of the run": [f"{run.wall_s:.1f} s" for run in runs],
        "partial results to merge": [f"{len(run.parts):,}" for run in runs],
        "results equal to PyArrow's": ["NO" if run.label in wrong else "yes, all" for run in runs],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    console = Console(highlight=False)
    console.print(table)
    if not console.encoding.lower().startswith("utf"):
        return
    most = max(float(run.busy_s.max()) for run in result.runs)
    console.print(f"  [bold]Busy time, one mark per worker[/bold] (full height: {most:.2f} s)")
    for run, colour in zip(result.runs, ("red", "green"), strict=True):
        console.print(f"  [{colour}]{marks(run.busy_s, most)}[/{colour}] {run.label}", overflow="fold")
