"""Several groupings on the same stream, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

from keysplit.display import Shown, as_frame
from keysplit.groupings import GROUPINGS, Grouping, grouping
from keysplit.progress import check_progress
from keysplit.runs import LEAST_MEMORY, MEMORY, count_threads, run
from keysplit.simulation import Event, Simulation, SimulationResult

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison", "compare", "pareto", "to_frame"]


class Comparison(list["SimulationResult"], Shown):
    """The results of `compare`: a list that shows itself in notebooks, as a frame, a plot and a report."""


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

    Simulations run in parallel, and if there are fewer than ``threads``, so do the sources of each. If they
    may not fit into ``memory`` together, they run in groups, one after another. A stream in chunks is read
    once per group, with two chunks in memory; its number of keys is known after the first group, so the
    second is usually the last. Results do not depend on which simulations run together.

    Args:
        keys: The stream: a column of keys or an iterator of columns, as for
            [`simulate`][keysplit.simulate]; or a function that returns such an iterator and is called once
            per group. An iterator's chunks are kept in a temporary file if a second group may need them.
        workers: A number of workers, or several.
        groupings: Names, or groupings, whose number of workers is replaced; default all of ``ks.GROUPINGS``.
        sources: Number of sources, 1 to 65,536.
        seed: Seed of the simulations and of groupings that are given by name.
        memory: Bytes that the simulations running together may use, at least 1e8; the stream comes on top. A
            simulation counts 100 bytes for each key and 64 workers (at most the messages, or 1e8), 4 kB for
            each worker and source, and 15 MB. One that does not fit runs alone.
        service_time_s: As in ``simulate``; so are the other arguments.
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
        progress: Whether to show a progress bar, as in ``simulate``. For a column it advances with each
            simulation.

    Returns:
        A result for each number of workers and grouping: all groupings on the first number of workers, then
        all on the second, and so on. The list shows itself in notebooks.

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
    if isinstance(memory, bool) or not isinstance(memory, SupportsIndex):
        raise TypeError(f"memory must be a whole number of bytes, at least {LEAST_MEMORY}, got {memory!r}")
    if index(memory) < LEAST_MEMORY:
        raise ValueError(f"memory must be at least {LEAST_MEMORY} bytes, got {memory!r}")
    check_progress(progress)
    threads = count_threads(threads)
    simulations = [
        Simulation(
            _sized(each, number, seed),
            keys,
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
        )
        for number in numbers
        for each in chosen
    ]
    length = simulations[0].messages if simulations else None
    return Comparison(
        run(
            simulations,
            keys,
            threads=threads,
            weights=weights,
            messages=length,
            memory=memory,
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
        ``latency_max_s``). It has the columns of the timing model if any result has one.

    Raises:
        ImportError: If pandas is not installed.
        TypeError: If it is no list of results.

    Example:
        >>> import keysplit as ks
        >>> results = ks.compare([1, 1, 2, 3], workers=2, groupings=["shuffle", "key"])
        >>> ks.to_frame(results)[["grouping", "workers", "sources", "messages"]].values.tolist()
        [['shuffle', 2, 5, 4], ['key', 2, 5, 4]]
    """
    return as_frame(map(scalars, _checked(results)), "to_frame")


def _checked(results: Sequence[SimulationResult]) -> list[SimulationResult]:
    found = list(results) if isinstance(results, Iterable) else [None]
    if not all(isinstance(each, SimulationResult) for each in found):
        raise TypeError(f"results must be a list of simulation results, got {type(results).__name__}")
    return found


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


def pareto(results: Sequence[SimulationResult]) -> list[bool]:
    """Return which results are on the Pareto front of imbalance and replication.

    Args:
        results: Results of [`compare`][keysplit.compare].

    Returns:
        For each result, whether no other one on the same number of workers is as good in both and better in
        one.

    Raises:
        TypeError: If it is no list of results.

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

    found = _checked(results)
    return [not any(beats(other, result) for other in found) for result in found]
