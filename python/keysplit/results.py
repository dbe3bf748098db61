"""The result of a simulation: figures, and how they are shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keysplit.groupings import Grouping
from keysplit.plan import BALANCED
from keysplit.show.console import marks
from keysplit.show.shown import Shown
from keysplit.show.view import Card, Entry, Panel, Timing, View
from keysplit.text import (
    WIDTH,
    describe_stream,
    format_count,
    format_imbalance,
    format_key,
    format_ratio,
    format_seconds,
    format_share,
)

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["SimulationResult", "pareto"]

FIGURES = ("grouping", "workers", "busiest/mean", "imbalance", "workers per key", "partial results")
"""The titles of the figures that `ranked` returns."""

_Floats: TypeAlias = NDArray[np.float64]
_Positions: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulationResult(Shown):
    """The result of a simulation. Arrays per worker have an entry for every number ever assigned.

    Args:
        params: The grouping.
        sources: Number of sources.
        messages: Length of the stream.
        loads: Sum of the weights that all sources sent to each worker; float64.
        imbalance: (max - mean) / sum of the loads.
        relative_imbalance: (max - mean) / mean of the loads.
        load_stddev: Standard deviation of the loads in per cent of their sum.
        mean_imbalance: Mean over the samples of the imbalance so far.
        distinct_keys: Number of distinct keys.
        memory: Sum over the keys of the number of workers that each was sent to: the partial states to keep.
        replication: ``memory / distinct_keys``; nan for an empty stream.
        exact_keys: Whether the previous three figures count every key. Beyond 1e7 keys they are estimates
            from a uniform sample, with a standard error of 0.05 per cent for ``distinct_keys``.
        imbalance_over_time: Numbers of messages so far, and the imbalance of the loads at that point.
        latency_s: Seconds from arrival to finish: ``mean``, ``p50``, ``p95``, ``p99``, ``max``. Percentiles
            are up to 0.1 per cent low. Like all fields that follow, it is None without a timing model.
        throughput_per_s: Messages over ``makespan_s``.
        makespan_s: Time at which the last message was finished.
        queue_over_time: Numbers of messages so far, and each worker's queue at that point, in messages of
            weight 1; float64, shape ``(samples, numbers)``.
        latency_over_time: The same for the mean latency since the previous sample; nan where nothing was
            sent.
        utilisation: Share of ``makespan_s`` for which each worker was busy; float64. Work counts at the
            worker's speed when it was sent, so the share may exceed 1 if a worker became faster.
    """

    params: Grouping
    sources: int
    messages: int
    loads: _Floats
    imbalance: float
    relative_imbalance: float
    load_stddev: float
    mean_imbalance: float
    distinct_keys: int
    memory: int
    replication: float
    exact_keys: bool
    imbalance_over_time: tuple[_Positions, _Floats]
    latency_s: dict[str, float] | None = None
    throughput_per_s: float | None = None
    makespan_s: float | None = None
    queue_over_time: tuple[_Positions, _Floats] | None = None
    latency_over_time: tuple[_Positions, _Floats] | None = None
    utilisation: _Floats | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types: arrays are lists, nan is None.

        Returns:
            The fields by name; ``params`` is the grouping's name with its parameters.
        """
        found = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {**found, "params": {"name": self.params.name, **asdict(self.params)}}

    @property
    def busiest(self) -> float:
        """The load of the busiest worker as a multiple of the mean."""
        return 1 + self.relative_imbalance

    @property
    def verdict(self) -> str:
        """The verdict as a single line."""
        workers, name = f"{self.params.workers:,}", self.params.name
        if self.latency_s is not None:
            latency = format_seconds(self.latency_s["p99"])
            return f"with {name}, {workers} workers serve 99 % of the messages within {latency}"
        return f"with {name}, max/mean load of {workers} workers is {format_ratio(self.busiest)}"

    def _view(self) -> View:
        return view_of(self)

    def __repr__(self) -> str:
        figures = {
            "messages": f"{self.messages:,}",
            "imbalance": f"{self.imbalance:.3g}",
            "replication": f"{self.replication:.4g}",
        }
        if self.latency_s is not None:
            figures["throughput_per_s"] = f"{self.throughput_per_s:.4g}"
            figures["p99_latency_s"] = f"{self.latency_s['p99']:.4g}"
        shown = ", ".join(f"{name} {value}" for name, value in figures.items())
        sources = "1 source" if self.sources == 1 else f"{self.sources} sources"
        return f"<SimulationResult of {self.params!r}, {sources}: {shown}>"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def pareto(results: Sequence[SimulationResult]) -> list[bool]:
    """Return which results are on the Pareto front of imbalance and replication.

    Args:
        results: Results of [`compare`][keysplit.compare].

    Returns:
        For each result, whether no other on the same number of workers is as good in both and better in one.

    Raises:
        TypeError: If ``results`` is not a list of results.

    Example:
        >>> import keysplit as ks
        >>> keys = ks.streams.zipf(1.4, keys=1_000, messages=10_000, seed=1)
        >>> results = ks.compare(keys, workers=10, groupings=["key", "ring", "shuffle"], sources=1)
        >>> ks.pareto(results)
        [True, False, True]
    """

    def beats(one: SimulationResult, other: SimulationResult) -> bool:
        pairs = [(one.imbalance, other.imbalance), (one.replication, other.replication)]
        return (
            one.params.workers == other.params.workers
            and all(ours <= theirs for ours, theirs in pairs)
            and any(ours < theirs for ours, theirs in pairs)
        )

    found = check_results(results)
    return [not any(beats(other, result) for other in found) for result in found]


def scalars(result: SimulationResult) -> dict[str, Any]:
    """Return the scalar figures of a result, by the names of their columns in `to_frame`."""
    row = {"grouping": result.params.name, "workers": result.params.workers}
    for field in fields(result):
        value = getattr(result, field.name)
        if isinstance(value, int | float):
            row[field.name] = value
        elif field.name == "latency_s" and value is not None:
            row |= {f"latency_{name}_s": seconds for name, seconds in value.items()}
    return row


def ranked(result: SimulationResult) -> tuple[str, ...]:
    """Return the figures of a result as a row of the table of `FIGURES`."""
    return (
        result.params.name,
        f"{result.params.workers:,}",
        format_ratio(result.busiest),
        format_imbalance(result.imbalance),
        f"{result.replication:.2f}",
        f"{result.memory:,}",
    )


def about(result: SimulationResult) -> tuple[str, str, str]:
    """Return short texts on what was simulated: messages, keys and sources."""
    keys = f"{'' if result.exact_keys else 'about '}{format_count(result.distinct_keys, 'key')}"
    return format_count(result.messages, "message"), keys, format_count(result.sources, "source")


def check_results(results: Any) -> list[SimulationResult]:
    """Return results as a list.

    Raises:
        TypeError: if `results` is not a list of results.
    """
    found: list[Any] = list(results) if isinstance(results, Iterable) else [None]
    if not all(isinstance(each, SimulationResult) for each in found):
        raise TypeError(f"results must be a list of simulation results, got {type(results).__name__}")
    return found


def sort_by_workers(results: Sequence[SimulationResult]) -> dict[int, list[SimulationResult]]:
    """Return the results for each number of workers, the most balanced and cheapest first."""
    found: dict[int, list[SimulationResult]] = {}
    for result in results:
        found.setdefault(result.params.workers, []).append(result)
    return {
        workers: sorted(some, key=lambda result: (result.imbalance, result.memory))
        for workers, some in found.items()
    }


def entries_of(
    results: Sequence[SimulationResult], keys: Sequence[tuple[Any, float, float, float]] = ()
) -> list[Entry]:
    """Return the entries of a page for results on one number of workers.

    Args:
        results: the simulations.
        keys: the frequent keys with their counts, errors and shares, to name what causes a load.
    """
    return [
        Entry(
            name=result.params.name,
            label="key, hash partitioning" if result.params.name == "key" else result.params.name,
            loads=np.asarray(result.loads, float),
            busiest=result.busiest,
            balanced=result.busiest <= BALANCED,
            imbalance=result.imbalance,
            partials=result.memory,
            replication=result.replication,
            mean_imbalance=result.mean_imbalance,
            over_time=(result.imbalance_over_time[0].tolist(), result.imbalance_over_time[1].tolist()),
            front=front,
            keys=_keys_of(result.params, keys) if result.params.name == "key" else {},
        )
        for result, front in zip(results, pareto(results), strict=True)
    ]


def _keys_of(
    hashing: Grouping, keys: Sequence[tuple[Any, float, float, float]]
) -> Mapping[int, Sequence[tuple[str, float]]]:
    """Return each worker's frequent keys with hash partitioning, where a key has one worker."""
    try:
        workers = hashing.router().route([key for key, *_ in keys]).tolist()
    except (TypeError, ValueError):  # an unsupported type of key, such as a time in nanoseconds
        return {}
    found: dict[int, list[tuple[str, float]]] = {}
    for (key, count, error, _), worker in zip(keys, workers, strict=True):
        found.setdefault(worker, []).append((format_key(key), count - error))
    return found


def view_of(
    result: SimulationResult,
    baseline: SimulationResult | None = None,
    keys: Sequence[tuple[Any, float, float, float]] = (),
) -> View:
    """Return the view of a simulation.

    Args:
        result: the simulation.
        baseline: key grouping on the same stream, to compare with.
        keys: as in `entries_of`.
    """
    panels, cards, timing = [], [], None
    if result.loads.any():
        both = sort_by_workers([result] if baseline is None else [result, baseline])
        entries = entries_of(both[result.params.workers], keys)
        best = next(entry for entry in entries if entry.name == result.params.name)
        panels = [
            Panel(result.params.workers, result.messages, entries, best, result.verdict, named=bool(keys))
        ]
    if result.latency_s is not None and result.queue_over_time is not None:
        positions, queues = result.queue_over_time
        times = {name: format_seconds(value) for name, value in result.latency_s.items()}
        what = f"latency, median and 99th percentile; {result.throughput_per_s:,.0f} messages per second"
        cards = [Card(times["p50"], f"p99 {times['p99']}", what)]
        timing = Timing(positions.tolist(), np.asarray(queues, float), np.asarray(result.utilisation, float))
    return View(
        f"Simulation of {result.params.name} on {format_count(result.params.workers, 'worker')}",
        result.verdict,
        FIGURES,
        [ranked(result)],
        {result.params.name: np.asarray(result.loads, float)},
        "messages",
        [scalars(result)],
        panels=panels,
        about=about(result),
        cards=cards,
        figures=list_figures(result),
        timing=timing,
    )


def print_result(
    console: Console, result: SimulationResult, title: str, baseline: SimulationResult | None = None
) -> None:
    """Print one simulation, next to key grouping if that was simulated too."""
    from rich.table import Table
    from rich.text import Text

    console.print(Text(f"{describe_stream(title, *about(result))}\n", style="bold"))
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
        # with too many workers, each bar is the busiest of several neighbours
        loads = [part.max() for part in np.array_split(result.loads, min(WIDTH - 2, len(result.loads)))]
        console.print()
        what = _what_a_mark_is(len(result.loads), len(loads))
        console.print(Text(f"Loads, {what}:\n{marks(loads, max(loads))}"))


def list_figures(result: SimulationResult) -> list[tuple[str, str]]:
    """Return the figures of a simulation, each with a name."""
    loads, busiest = result.loads, result.busiest
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


def _what_a_mark_is(workers: int, marks: int) -> str:
    if workers == marks:
        return "a mark per worker"
    return f"a mark per {workers / marks:.1f} workers, the busiest of them"
