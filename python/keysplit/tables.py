"""Comparisons and single simulations on an 80-column terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keysplit.comparison import pareto
from keysplit.profiling.model import Advice, Prediction, describe_stream
from keysplit.profiling.planned import advise_on
from keysplit.text import (
    WIDTH,
    format_count,
    format_imbalance,
    format_ratio,
    format_seconds,
    format_share,
)

if TYPE_CHECKING:
    from keysplit.simulation import SimulationResult

_BARS = " ▁▂▃▄▅▆▇█"


def print_comparison(
    console: Console,
    results: Sequence[SimulationResult],
    title: str,
    advice: Mapping[int, Advice] | None = None,
) -> None:
    """Print a comparison: for each number of workers the verdict, and the groupings, most balanced first.

    Args:
        console: the terminal.
        results: the simulations.
        title: a description of the stream.
        advice: what to do, by number of workers, if the keys were counted.
    """
    console.print(Text(f"{_head(title, results[0])}\n", style="bold"))
    for workers, some in sort_by_workers(results).items():
        found = advise_on(some) if advice is None else advice[workers]
        console.print(Text(format_count(workers, "worker"), style="bold"))
        found.print_on(console)
        console.print(_ranked(some, found))
        console.print()
    console.print(
        Text("* Pareto front: nothing is as good in both imbalance and replication and better in one of them")
    )


def print_result(
    console: Console, result: SimulationResult, title: str, baseline: SimulationResult | None = None
) -> None:
    """Print one simulation, with that of key grouping beside it if there is one."""
    console.print(Text(f"{_head(title, result)}\n", style="bold"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    if baseline is not None:
        table.add_column(overflow="fold", style="dim")
        table.add_row("", Text(result.params.name, style="bold"), Text("key, hash partitioning"))
    others = iter(()) if baseline is None else (value for _, value in list_figures(baseline))
    for name, value in list_figures(result):
        table.add_row(name, Text(value), *([] if baseline is None else [Text(next(others))]))
    console.print(table)
    if console.encoding.lower().startswith("utf"):
        marks = _marks(result.loads, WIDTH - 2)
        console.print()
        console.print(Text(f"Loads, {_what_a_mark_is(len(result.loads), len(marks))}:\n{marks}"))


def list_figures(result: SimulationResult) -> list[tuple[str, str]]:
    """Return the figures of a simulation, each with its name."""
    loads, busiest = result.loads, Prediction.of(result).busiest
    imbalances = (format_imbalance(result.imbalance), format_imbalance(result.mean_imbalance))
    rows = [
        ("grouping", repr(result.params)),
        ("max/mean load", f"{busiest:.3f}: {loads.max():,.0f} of {loads.mean():,.1f}"),
        ("imbalance", f"{imbalances[0]} at the end, {imbalances[1]} on average"),
        ("load stddev", f"{format_share(result.load_stddev / 100)} of all load"),
        ("replication", f"{result.replication:.3f} workers per key"),
        ("partial results", f"{result.memory:,}"),
    ]
    latency_s = result.latency_s
    if latency_s:
        latencies = (f"{name} {format_seconds(value)}" for name, value in latency_s.items())
        rows.append(("latency", ", ".join(latencies)))
        rows.append(("throughput", f"{result.throughput_per_s:,.1f} messages per second"))
        rows.append(("makespan", format_seconds(result.makespan_s)))
    if result.utilisation is not None:
        busy = np.asarray(result.utilisation)
        rows.append(
            (
                "utilisation",
                "{} on average, {} to {}".format(*map(format_share, (busy.mean(), busy.min(), busy.max()))),
            )
        )
    return rows


def sort_by_workers(results: Sequence[SimulationResult]) -> dict[int, list[SimulationResult]]:
    """Return the results per number of workers, the most balanced and cheapest first."""
    found: dict[int, list[SimulationResult]] = {}
    for result in results:
        found.setdefault(result.params.workers, []).append(result)
    return {
        workers: sorted(some, key=lambda result: (result.imbalance, result.memory))
        for workers, some in found.items()
    }


def _ranked(results: Sequence[SimulationResult], advice: Advice) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("grouping", no_wrap=True, min_width=18)
    for name in ("busiest/mean", "imbalance", "replication", "partials"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    if advice.planned and advice.recommended:
        plan = advice.planned[advice.recommended]
        label = Text(f"{advice.recommended}, planned", style="bold")
        table.add_row("", label, format_ratio(plan.busiest), format_imbalance(plan.imbalance), "", "", "")
    for rank, (result, front) in enumerate(zip(results, pareto(results), strict=True), 1):
        name = result.params.name
        table.add_row(
            str(rank),
            Text(name, style="bold" if name == advice.online else ""),
            format_ratio(Prediction.of(result).busiest),
            format_imbalance(result.imbalance),
            f"{result.replication:.2f}",
            f"{result.memory:,}",
            "*" if front else "",
        )
    return table


def _head(title: str, result: SimulationResult) -> str:
    keys = f"{'' if result.exact_keys else 'about '}{format_count(result.distinct_keys, 'key')}"
    return describe_stream(title, result.messages, keys, result.sources)


def _marks(loads: Any, most: int) -> str:
    """Draw the loads as text marks; if there are too many, the busiest of neighbours."""
    busiest = np.array([part.max() for part in np.array_split(loads, min(most, len(loads)))])
    heights = np.ceil(busiest / max(busiest.max(), 1e-300) * (len(_BARS) - 1)).astype(int)
    return "".join(_BARS[height] for height in heights)


def _what_a_mark_is(workers: int, marks: int) -> str:
    if workers == marks:
        return "a mark per worker"
    return f"a mark per {workers / marks:.1f} workers, the busiest of them"
