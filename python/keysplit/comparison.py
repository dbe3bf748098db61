"""Compare several groupings on the same stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from keysplit.groupings import GROUPINGS, Grouping, grouping
from keysplit.profiling.model import Advice, TopKey, join_advice
from keysplit.profiling.planned import advise_on
from keysplit.results import (
    FIGURES,
    SimulationResult,
    about,
    check_results,
    pareto,
    ranked,
    scalars,
    sort_by_workers,
)
from keysplit.runs import MEMORY
from keysplit.show.console import make_table
from keysplit.show.shown import Shown, as_frame
from keysplit.show.view import View
from keysplit.simulation import Event, simulate_all
from keysplit.text import describe_stream, format_count, format_imbalance, format_ratio

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

__all__ = ["Comparison", "compare", "print_comparison", "to_frame", "view_of"]


class Comparison(list["SimulationResult"], Shown):
    """The results of `compare`: a list that shows itself in notebooks and as a frame, a plot or a report."""

    def _view(self) -> View:
        return view_of(self)


def compare(
    keys: Any,
    workers: int | Sequence[int],
    groupings: Sequence[str | Grouping] | None = None,
    *,
    sources: int = 5,
    seed: int = 0,
    memory: int = MEMORY,
    service_time_s: float | Sequence[float] | None = None,
    arrival_rate_per_s: float | None = None,
    capacities: Sequence[float] | None = None,
    events: Sequence[Event] = (),
    samples: int = 100,
    weights: Any = None,
    messages: int | None = None,
    in_flight: int | None = None,
    feedback_interval_s: float = 1.0,
    busy_above: float = 0.85,
    idle_below: float = 0.75,
    threads: int | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Simulate several groupings on several numbers of workers, all on the same stream.

    Simulations run in parallel. If there are fewer simulations than ``threads``, the sources of each run in
    parallel, too. If they may not fit into ``memory`` together, they run in groups, one after another. A
    stream in chunks is read once per group, with two chunks in memory; its number of keys is known after the
    first group, so the second is usually the last. Results do not depend on which simulations run together.

    Args:
        keys: The stream: a column of keys or an iterator of columns, as for [`simulate`][keysplit.simulate];
            or a function that returns such an iterator, called once per group. An iterator's chunks are kept
            in a temporary file if a second group may need them.
        workers: A number of workers, or several.
        groupings: Names, or groupings, whose number of workers is replaced; by default all ``ks.GROUPINGS``.
        sources: Number of sources, 1 to 65,536.
        seed: Seed of the simulations and of groupings that are given by name.
        memory: Bytes that the simulations running together may use, at least 1e8; the stream needs memory in
            addition. A simulation counts 100 bytes for each key and 64 workers (at most the messages, or
            1e8), 4 kB for each worker and source, and 15 MB. A simulation that does not fit runs alone.
        service_time_s: As in ``simulate``, like all arguments that follow.
        arrival_rate_per_s: Messages that arrive per second.
        capacities: Relative speeds, one per worker.
        events: Changes during the stream.
        samples: Number of points at which figures are sampled.
        weights: What each message adds to the load of its worker.
        messages: The length of a stream that comes in chunks, if known.
        in_flight: Messages in the system, without ``arrival_rate_per_s``.
        feedback_interval_s: Interval at which workers report to the sources.
        busy_above: Utilisation above which a worker reports that it is busy.
        idle_below: Utilisation below which a worker reports that it is idle.
        threads: Number of threads.
        progress: Whether to show a progress bar, as in ``simulate``. With a column, it advances per
            simulation.

    Returns:
        A result for each number of workers and grouping: all groupings on the first number of workers, then
        all on the second, and so on. Notebooks show the list.

    Raises:
        TypeError: As in ``simulate``.
        ValueError: As in ``simulate``, or if there is no such grouping.

    Example:
        >>> import keysplit as ks
        >>> keys = ks.streams.zipf(1.4, keys=1_000, messages=10_000, seed=1)
        >>> results = ks.compare(keys, workers=[5, 10], groupings=["key", ks.PartialKeyGrouping(workers=1)])
        >>> names = [(result.params.name, result.params.workers) for result in results]
        >>> names
        [('key', 5), ('partial_key', 5), ('key', 10), ('partial_key', 10)]
        >>> ks.pareto(results)
        [True, True, True, True]
    """
    numbers = list(workers) if isinstance(workers, Iterable) else [workers]
    chosen = list(GROUPINGS) if groupings is None else list(groupings)
    if isinstance(groupings, str):
        raise TypeError(f"groupings must be a list of names or groupings, got {groupings!r}")
    return Comparison(
        simulate_all(
            [_sized(each, number, seed) for number in numbers for each in chosen],
            keys,
            memory=memory,
            sources=sources,
            seed=seed,
            service_time_s=service_time_s,
            arrival_rate_per_s=arrival_rate_per_s,
            capacities=capacities,
            events=events,
            samples=samples,
            weights=weights,
            messages=messages,
            in_flight=in_flight,
            feedback_interval_s=feedback_interval_s,
            busy_above=busy_above,
            idle_below=idle_below,
            threads=threads,
            progress=progress,
        )
    )


def _sized(each: str | Grouping, workers: int, seed: int) -> Grouping:
    if isinstance(each, Grouping):
        return replace(each, workers=workers)
    return grouping(each, workers=workers, seed=seed)


def to_frame(results: Sequence[SimulationResult]) -> pd.DataFrame:
    """Put the scalar figures of results into a table.

    Args:
        results: Results of [`compare`][keysplit.compare].

    Returns:
        A pandas DataFrame, one row per result and one column per latency (``latency_mean_s`` to
        ``latency_max_s``). The columns of the timing model are there if any result has a timing model.

    Raises:
        ImportError: If pandas is not installed.
        TypeError: If ``results`` is not a list of results.

    Example:
        >>> import keysplit as ks
        >>> results = ks.compare([1, 1, 2, 3], workers=2, groupings=["shuffle", "key"])
        >>> ks.to_frame(results)[["grouping", "workers", "sources", "messages"]].values.tolist()
        [['shuffle', 2, 5, 4], ['key', 2, 5, 4]]
    """
    return as_frame(map(scalars, check_results(results)), "to_frame")


def view_of(
    results: Sequence[SimulationResult],
    advice: Mapping[int, Advice] | None = None,
    keys: Sequence[TopKey] = (),
) -> View:
    """Return the view of a comparison.

    Args:
        results: the simulations.
        advice: what to do, by number of workers, if the keys were counted.
        keys: the frequent keys, to name those that cause a load.
    """
    groups = sort_by_workers(results)
    found = {workers: advise_on(some) for workers, some in groups.items()} if advice is None else advice
    shown = [found[workers] for workers in groups]
    loads: dict[str, np.ndarray] = {}
    for each in shown[:1]:
        some = groups[each.workers]
        named = {result.params.name: np.asarray(result.loads, float) for result in some}
        wanted = ("key", each.recommended or each.online or some[0].params.name)
        loads = {name: named[name] for name in wanted if name in named}
    routed = bool(results) and all(result.loads.any() for result in results)
    return View(
        f"Comparison of {len(results)} simulations",
        join_advice(shown, "verdict"),
        FIGURES,
        [ranked(result) for some in groups.values() for result in some],
        loads,
        "messages",
        list(map(scalars, results)),
        line=next((each.line for each in shown), ""),
        details=join_advice(shown, "details"),
        panels=[each.panel(groups[each.workers], keys) for each in shown] if routed else (),
        about=about(results[0]) if results else (),
    )


def print_comparison(
    console: Console,
    results: Sequence[SimulationResult],
    title: str,
    advice: Mapping[int, Advice],
) -> None:
    """Print a comparison: for each number of workers the verdict, and the groupings, most balanced first.

    Args:
        console: the terminal.
        results: the simulations.
        title: a description of the stream.
        advice: what to do, by number of workers.
    """
    from rich.text import Text

    console.print(Text(f"{describe_stream(title, *about(results[0]))}\n", style="bold"))
    for workers, some in sort_by_workers(results).items():
        console.print(Text(format_count(workers, "worker"), style="bold"))
        advice[workers].print_on(console)
        console.print(_ranked(some, advice[workers]))
        console.print()
    console.print(
        Text("* Pareto front: nothing is as good in both imbalance and replication and better in one of them")
    )


def _ranked(results: Sequence[SimulationResult], advice: Advice) -> Table:
    from rich.text import Text

    rows: list[tuple[str | Text, ...]] = []
    if advice.planned and advice.recommended:
        plan = advice.planned[advice.recommended]
        label = Text(f"{advice.recommended}, planned", style="bold")
        rows.append(("", label, format_ratio(plan.busiest), format_imbalance(plan.imbalance), "", "", ""))
    for rank, (result, front) in enumerate(zip(results, pareto(results), strict=True), 1):
        name, _, busiest, *others = ranked(result)
        label = Text(name, style="bold" if name == advice.online else "")
        rows.append((str(rank), label, busiest, *others, "*" if front else ""))
    columns = ("", "grouping", "busiest/mean", "imbalance", "replication", "partials", "")
    return make_table(columns, rows, text=1, least_width=18)
