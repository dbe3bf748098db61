"""The demo on a terminal: its progress and its results."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from keysplit.demo.drift import HOT_FOR, WORKERS, Drift
from keysplit.demo.groups import Groups
from keysplit.demo.run import Comparison
from keysplit.demo.stream import Stream

BARS = " ▁▂▃▄▅▆▇█"
TOP_KEYS = 8


class Progress:
    """Shows progress on standard error: in place on a terminal, one line per step elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._what = ""

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Show the current step until the context ends."""
        if not self._console.is_terminal:
            self._console.print(f"{escape(what)} ...", soft_wrap=True)
            yield
            return
        self._what = what
        with self._console.status(escape(what)) as self._status:
            yield
        self._status = None

    def stage(self, done: int, tasks: int) -> None:
        """Show how many tasks of Spark's current stage are done."""
        status = self._status
        if status is not None:
            filled = 24 * done // tasks
            bar = "━" * filled + "[dim]" + "━" * (24 - filled) + "[/dim]"
            status.update(f"{escape(self._what)}  {bar} {done} of {tasks} tasks")


def announce(stream: Stream, *, workers: int, service_time_s: float) -> None:
    """Print what is about to run."""
    console = Console(highlight=False)
    what = f"the exact distribution of {stream.value}" if stream.value else "a count"
    console.print(
        f"[bold]{stream.rows:,} {escape(stream.title)}[/bold]: "
        f"{escape(what)} per {escape(stream.key)}, on {workers} workers."
    )
    if service_time_s:
        console.print(
            f"Emulated: each row keeps its worker busy for {service_time_s * 1e3:g} ms, so that a cluster's "
            "worth of workers fits on one machine. The rows, their routing and the results are real."
        )
    console.print()


def show(result: Comparison) -> None:
    """Print what was measured."""
    console = Console(highlight=False)
    console.print(_summary(result))
    if console.encoding.lower().startswith("utf"):
        _print_loads(console, result)
    console.print(_keys(result))
    console.print(cost(result), style="dim")
    console.print()
    console.print(unemulated(result.groups))
    console.print()
    if result.drift is not None:
        console.print(drifting(result.drift))
        console.print()


def cost(result: Comparison) -> str:
    """Describe in a sentence or two what splitting the keys costs."""
    keys = len(result.expected)
    return (
        f"The cost of splitting: {result.split.parts:,} partial results for {keys:,} keys, "
        f"{result.split.parts / keys:.1f} per key. A second shuffle merges them by key. Hash grouping makes "
        "one per key. The wall time of keysplit's run includes the routing and the merge."
    )


def unemulated(groups: Groups) -> str:
    """Describe in a few sentences what was measured without emulation."""
    equal = "The results are equal" if groups.equal else "THE RESULTS DIFFER"
    return (
        f"Without emulation, on this machine: one pandas function over {groups.groups:,} small groups "
        f"({groups.rows:,} rows). groupBy().applyInPandas() takes {groups.spark_s:.1f} s, kss.apply() "
        f"{groups.keysplit_s:.1f} s, {groups.ratio:.2f} of it. {equal}."
    )


def drifting(drift: Drift) -> str:
    """Describe in a few sentences what a stream whose keys change went through."""
    equal = "Each row arrived once" if drift.equal else "ROWS WERE LOST OR DOUBLED"
    return (
        f"As a stream of {len(drift.split)} micro-batches, with other frequent keys every {HOT_FOR}: by hash "
        f"the busiest of {WORKERS} workers has {drift.hashed_mean:.2f} times its fair share, by a plan that "
        f"adapts {drift.split_mean:.2f} times, from the third micro-batch after a change on. {equal}."
    )


def _summary(result: Comparison) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("")
    table.add_column("Spark's hash", justify="right", style="red")
    table.add_column(f"keysplit {result.grouping}", justify="right", style="green")
    wrong = result.wrong()

    def row(name: str, cells: list[str], style: str = "") -> None:
        table.add_row(name, *cells, style=style)

    runs = result.runs
    row("busy time of the slowest worker", [f"{run.busy_s.max():.2f} s" for run in runs])
    row("mean busy time per worker", [f"{run.busy_s.mean():.2f} s" for run in runs])
    row("slowest over mean", [f"{run.busy_ratio:.2f}" for run in runs], "bold")
    row("rows of the busiest worker over mean", [f"{run.rows_ratio:.2f}" for run in runs])
    row("workers without rows", [f"{int((run.rows == 0).sum())} of {result.workers}" for run in runs])
    row("wall time of the run", [f"{run.wall_s:.1f} s" for run in runs], "bold")
    row("partial results to merge", [f"{run.parts:,}" for run in runs])
    row("results equal to NumPy's", ["NO" if run.label in wrong else "yes, all" for run in runs])
    return table


def _print_loads(console: Console, result: Comparison) -> None:
    most = max(float(run.busy_s.max()) for run in result.runs)
    console.print(f"  [bold]Busy time, one mark per worker[/bold] (full height: {most:.2f} s)")
    for run, colour in zip(result.runs, ("red", "green"), strict=True):
        heights = np.ceil(run.busy_s / most * (len(BARS) - 1)).astype(int)
        console.print(
            f"  [{colour}]{''.join(BARS[h] for h in heights)}[/{colour}] {run.label}", overflow="fold"
        )
    console.print()


def _keys(result: Comparison) -> Table:
    value = result.stream.value
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column(escape(f"most frequent {result.stream.key}"), overflow="ellipsis", no_wrap=True)
    for name in ("share", "rows", "on workers", *(("median", "95 %") if value else ())):
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    hashed, split = (run.served for run in result.runs)
    for answer in result.top(TOP_KEYS):
        cells = [
            escape(result.name_of(answer.first)),
            f"{answer.rows / result.stream.rows:.1%}",
            f"{answer.rows:,}",
            f"{len(hashed.get(answer.first, {}))} → {len(split.get(answer.first, {}))}",
        ]
        if value:
            cells += ["-" if q is None else str(q) for q in (answer.quantile(0.5), answer.quantile(0.95))]
        table.add_row(*cells)
    return table
