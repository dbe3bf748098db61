"""The simulator: what a grouping makes of a stream, without a cluster.

Sources get the messages in turn and route them, each on its own; where service times are given, workers serve
queues and let the sources know how they fare. docs/simulation.md defines every figure to the bit.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keysplit import _core
from keysplit.groupings import GROUPINGS, Grouping, grouping

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "AddWorker",
    "RemoveWorker",
    "SetCapacity",
    "SimulationResult",
    "compare",
    "pareto",
    "simulate",
    "to_frame",
]

_Floats: TypeAlias = NDArray[np.float64]
_Positions: TypeAlias = NDArray[np.int64]

_MOST_KEYS, _MOST_GROUPS = 10**7, 10**8  # beyond them replication is that of a sample of the keys


@dataclass(frozen=True)
class AddWorker:
    """A worker comes. It gets the lowest number that no present worker has.

    Args:
        position: Before the message of this position (from 0) arrives.
        capacity: Its relative speed, 1e-12 to 1e12; only the timing model uses it.
    """

    position: int
    capacity: float = 1.0


@dataclass(frozen=True)
class RemoveWorker:
    """A worker goes. It finishes what it was sent.

    Args:
        position: Before the message of this position (from 0) arrives.
        worker: Its number.
    """

    position: int
    worker: int


@dataclass(frozen=True)
class SetCapacity:
    """A worker becomes slower or faster, also for what waits in its queue.

    Args:
        position: Before the message of this position (from 0) arrives.
        worker: Its number.
        capacity: Its relative speed from then on, 1e-12 to 1e12.
    """

    position: int
    worker: int
    capacity: float


Event: TypeAlias = AddWorker | RemoveWorker | SetCapacity


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulationResult:
    """What came of a simulation. Arrays a worker have a place for every number that a worker ever had.

    Args:
        params: The grouping.
        sources: Number of sources.
        messages: Length of the stream.
        loads: Sum of the weights sent to each worker, by all sources; float64.
        imbalance: (max - mean) / sum of the loads.
        relative_imbalance: (max - mean) / mean of the loads.
        load_stddev: Standard deviation of the loads in per cent of their sum.
        mean_imbalance: Mean over the samples of the imbalance so far.
        distinct_keys: Number of different keys.
        memory: Sum over the keys of the different workers that each has met: the partial states to keep.
        replication: ``memory / distinct_keys``; nan for an empty stream.
        exact_keys: Whether the last three count every key. Beyond 1e7 keys they are estimates from a fair
            sample, with a standard error of 0.05 per cent for ``distinct_keys``.
        imbalance_over_time: Numbers of messages so far, and the imbalance of the loads then.
        latency_s: Seconds from arrival to finish: ``mean``, ``p50``, ``p95``, ``p99``, ``max``. Percentiles
            are up to 0.1 per cent low. Like all that follows, it is None without a timing model.
        throughput_per_s: Messages over ``makespan_s``.
        makespan_s: When the last message was finished.
        queue_over_time: Numbers of messages so far, and what waits at each worker then, in messages of weight
            1; float64, shape ``(samples, numbers)``.
        latency_over_time: The same of the mean latency since the sample before; nan where nothing was sent.
        utilisation: Part of ``makespan_s`` that each worker was at work; float64. Work counts at the pace at
            which it was sent: above 1 is possible where a worker became faster.
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
        """Give all fields as plain values, ready for JSON: arrays are lists, nan is None.

        Returns:
            The fields by name; ``params`` is the grouping's name with its parameters.
        """
        found = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {**found, "params": {"name": self.params.name, **asdict(self.params)}}

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
        return f"<SimulationResult of {self.params!r}, {self.sources} sources: {shown}>"


def simulate(
    params: Grouping,
    keys: Any,
    *,
    sources: int = 1,
    seed: int = 0,
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
) -> SimulationResult:
    """Send a stream through sources that route it by a grouping, and tell how the workers fare.

    Message t goes to source t mod ``sources``; each source has its own router. The inputs decide the result;
    how the stream is cut into chunks does not matter. Memory does not grow with the stream, but for the pairs
    of a key and a worker: all of up to 1e7 keys, a fair sample of more.

    Args:
        params: The grouping, for instance ``ks.DChoices(workers=50)``.
        keys: The stream: a column of keys as ``Router.route`` takes it, or an iterator of such columns, for
            streams that are larger than memory. A chunk is read while the next one is made, so it must stay
            as it is.
        sources: Number of sources, 1 to 65,536.
        seed: Which keys stand for the others where there are too many to keep them all. Everything else
            depends on the seed of ``params``.
        service_time_s: Seconds that a message of weight 1 takes at a worker of capacity 1, 0 to 1e12; one
            number, or one a worker. It turns the timing model on.
        arrival_rate_per_s: Messages that arrive in a second, at equal distances, 1e-6 to 1e12. If None, the
            next message arrives as soon as fewer than ``in_flight`` messages are on their way.
        capacities: Relative speeds, one a worker, 1e-12 to 1e12; 1 each if None.
        events: What happens on the way: [`AddWorker`][keysplit.AddWorker] and
            [`RemoveWorker`][keysplit.RemoveWorker], where the grouping is elastic, and
            [`SetCapacity`][keysplit.SetCapacity], with a timing model.
        samples: At how many points, evenly spread, figures are taken on the way, 0 to 1,000,000. If the
            length of the stream is not known, there are up to twice as many.
        weights: What each message adds to the load of its worker, finite and at least 0; 1 each if None. Only
            for a single column.
        messages: The length of a stream that comes in chunks, where it is known.
        in_flight: See ``arrival_rate_per_s``; 1 to 1e8, 100 a worker if None.
        feedback_interval_s: How often workers tell the sources how they fare, in simulated seconds, 1e-6 to
            1e12.
        busy_above: Utilisation from which a worker tells that it is busy, 0 to 1e12.
        idle_below: Utilisation below which a worker tells that it is idle, 0 to 1e12.

    Returns:
        The figures, those of time only with ``service_time_s``.

    Raises:
        TypeError: If an argument is of the wrong type, or the keys are.
        ValueError: If an argument is out of range, an event cannot happen, or the stream has not as many
            messages as it was said to have.

    Source: sources, round-robin input and the imbalance over time are those of Nasir et al., When Two Choices
    Are Not Enough: Balancing at Scale in Distributed Stream Processing (ICDE 2016), section V; queues,
    capacities and the signals of workers those of Nasir et al., Load Balancing for Skewed Streams on
    Heterogeneous Cluster (arXiv 1705.09073), section 7.

    Deviations: service takes no random time, and all sources hear of the workers at the same time.

    Example:
        >>> import keysplit as ks
        >>> keys = ks.streams.zipf(1.4, keys=10_000, messages=100_000, seed=1)
        >>> hashed = ks.simulate(ks.KeyGrouping(workers=10), keys, sources=5)
        >>> split = ks.simulate(ks.DChoices(workers=10), keys, sources=5)
        >>> round(hashed.imbalance, 2), round(split.imbalance, 2)
        (0.25, 0.0)
        >>> hashed.replication, round(split.replication, 1)
        (1.0, 1.3)
    """
    simulation = _Simulation(
        params,
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
    return _run([simulation], keys, weights)[0]


def compare(
    keys: Any,
    workers: int | Sequence[int],
    groupings: Sequence[str | Grouping] | None = None,
    *,
    sources: int = 5,
    seed: int = 0,
    **options: Any,
) -> list[SimulationResult]:
    """Simulate several groupings on several numbers of workers, all on the same stream.

    They run in parallel, one a processor. A stream in chunks is read once, with two chunks in memory.

    Args:
        keys: The stream, as for [`simulate`][keysplit.simulate].
        workers: A number of workers, or several.
        groupings: Names, or groupings, whose number of workers is replaced; all of ``ks.GROUPINGS`` if None.
        sources: Number of sources, 1 to 65,536.
        seed: Seed of the simulations and of groupings that are given by name.
        **options: The other arguments of [`simulate`][keysplit.simulate].

    Returns:
        A result for each number of workers and grouping: all groupings on the first number of workers, then
        all on the second, and so on.

    Raises:
        TypeError: As ``simulate`` does.
        ValueError: As ``simulate`` does, or if there is no such grouping.

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
    numbers = [workers] if isinstance(workers, int | np.integer) else list(workers)
    chosen = list(GROUPINGS) if groupings is None else list(groupings)
    if isinstance(groupings, str):
        raise TypeError(f"groupings must be a list of names or groupings, got {groupings!r}")
    given = inspect.signature(simulate).bind(None, keys, sources=sources, seed=seed, **options)
    given.apply_defaults()
    simulations = [
        _Simulation(_sized(each, number, seed), keys, **given.kwargs) for number in numbers for each in chosen
    ]
    return _run(simulations, keys, given.kwargs["weights"])


def to_frame(results: Sequence[SimulationResult]) -> pd.DataFrame:
    """Put the single figures of results into a table.

    Args:
        results: What [`compare`][keysplit.compare] gave.

    Returns:
        A pandas DataFrame, a row a result. Latencies have a column each (``latency_mean_s`` to
        ``latency_max_s``); columns of the timing model are there if any result has one.

    Raises:
        ImportError: If pandas is not installed.

    Example:
        >>> import keysplit as ks
        >>> results = ks.compare([1, 1, 2, 3], workers=2, groupings=["shuffle", "key"])
        >>> ks.to_frame(results)[["grouping", "workers", "sources", "messages"]].values.tolist()
        [['shuffle', 2, 5, 4], ['key', 2, 5, 4]]
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame needs pandas: pip install pandas") from error
    rows = []
    for result in results:
        row = {"grouping": result.params.name, "workers": result.params.workers}
        for field in fields(result):
            value = getattr(result, field.name)
            if isinstance(value, int | float):
                row[field.name] = value
            elif field.name == "latency_s" and value is not None:
                row |= {f"latency_{name}_s": seconds for name, seconds in value.items()}
        rows.append(row)
    return pd.DataFrame(rows)


def pareto(results: Sequence[SimulationResult]) -> list[bool]:
    """Tell which results are not beaten in both imbalance and replication.

    Args:
        results: What [`compare`][keysplit.compare] gave.

    Returns:
        For each result whether no other one on as many workers is as good in both and better in one.

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

    return [not any(beats(other, result) for other in results) for result in results]


class _Simulation:
    """A simulation under way."""

    def __init__(
        self,
        params: Grouping,
        keys: Any,
        *,
        sources: int,
        service_time_s: float | Sequence[float] | None,
        capacities: Sequence[float] | None,
        events: Sequence[Event],
        weights: Any,
        messages: int | None,
        **numbers: float | None,
    ) -> None:
        if not isinstance(params, Grouping):
            raise TypeError(f"params must be a grouping such as ks.DChoices(workers=50), got {params!r}")
        length = None if isinstance(keys, Iterator) else _length(keys)
        if isinstance(keys, Iterator) and weights is not None:
            raise ValueError("weights must be None where keys come in chunks")
        if messages is not None and length not in (None, messages):
            raise ValueError(f"messages must be the length of the stream, {length}, got {messages!r}")
        options = {
            **numbers,
            "sources": sources,
            "messages": length if messages is None else messages,
            "most_keys": _MOST_KEYS,
            "most_groups": _MOST_GROUPS,
        }
        self._params, self._sources = params, sources
        self._core = _core.Simulation(
            params.name,
            params._parameters(),
            options,
            service_time_s=service_time_s,
            capacities=capacities,
            events=[_as_tuple(event) for event in events],
        )

    def add(self, keys: Any, weights: Any = None) -> None:
        self._core.add(keys, weights)

    def finish(self) -> SimulationResult:
        found = self._core.finish()
        keys, pairs, factor = found.pop("keys"), found.pop("pairs"), 2 ** found.pop("level")
        positions = found.pop("positions")
        timed: dict[str, Any] = {}
        if "makespan_s" in found:
            makespan_s = found["makespan_s"]
            timed = {
                "throughput_per_s": found["messages"] / makespan_s if makespan_s > 0 else math.nan,
                "queue_over_time": (positions, found.pop("queues")),
                "latency_over_time": (positions, found.pop("latencies_s")),
            }
        return SimulationResult(
            params=self._params,
            sources=int(self._sources),
            distinct_keys=keys * factor,
            memory=pairs * factor,
            replication=pairs / keys if keys else math.nan,
            exact_keys=factor == 1,
            imbalance_over_time=(positions, found.pop("imbalances")),
            **found,
            **timed,
        )


def _run(simulations: list[_Simulation], keys: Any, weights: Any) -> list[SimulationResult]:
    """Send the stream through all simulations, in parallel."""

    def run_all(simulation: _Simulation) -> SimulationResult:
        simulation.add(keys, weights)
        return simulation.finish()

    if not isinstance(keys, Iterator) and len(simulations) == 1:
        return [run_all(simulations[0])]
    pool = ThreadPoolExecutor(getattr(os, "process_cpu_count", os.cpu_count)() or 1)
    try:
        if not isinstance(keys, Iterator):
            return list(pool.map(run_all, simulations))
        running: list[Future[None]] = []
        for chunk in keys:  # the next one is read while this one is at work
            _wait(running)
            running = [pool.submit(simulation.add, chunk) for simulation in simulations]
        _wait(running)
        return [simulation.finish() for simulation in simulations]
    finally:
        pool.shutdown(cancel_futures=True)


def _wait(running: list[Future[None]]) -> None:
    for each in running:
        each.result()


def _sized(each: str | Grouping, workers: int, seed: int) -> Grouping:
    if isinstance(each, Grouping):
        return replace(each, workers=workers)
    return grouping(each, workers=workers, seed=seed)


def _length(keys: Any) -> int | None:
    try:
        return len(keys)
    except TypeError:  # an Arrow stream that can be read once, or no column at all
        return None


def _as_tuple(event: Event) -> tuple[str, int, int | None, float | None]:
    match event:
        case AddWorker():
            return "add", event.position, None, event.capacity
        case RemoveWorker():
            return "remove", event.position, event.worker, None
        case SetCapacity():
            return "set_capacity", event.position, event.worker, event.capacity
    raise TypeError(f"events must be AddWorker, RemoveWorker or SetCapacity, got {event!r}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
