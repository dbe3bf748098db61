"""The simulator: how a grouping handles a stream, without a cluster.

Sources get the messages in turn, and each source routes on its own. With service times, workers serve queues
and report to the sources. docs/simulation.md defines every figure to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, SupportsIndex, TypeAlias

from keysplit import _core, runs
from keysplit.groupings import Grouping
from keysplit.progress import check_progress
from keysplit.results import SimulationResult

__all__ = ["AddWorker", "RemoveWorker", "SetCapacity", "simulate", "simulate_all"]


@dataclass(frozen=True)
class AddWorker:
    """A worker joins. It gets the lowest number that no current worker has.

    Args:
        position: Before the message of this position (from 0) arrives.
        capacity: The worker's relative speed, 1e-12 to 1e12; only the timing model uses it.
    """

    position: int
    capacity: float = 1.0


@dataclass(frozen=True)
class RemoveWorker:
    """A worker leaves. It finishes the messages that were sent to it.

    Args:
        position: Before the message of this position (from 0) arrives.
        worker: The worker's number.
    """

    position: int
    worker: int


@dataclass(frozen=True)
class SetCapacity:
    """A worker's speed changes, including for the messages in its queue.

    Args:
        position: Before the message of this position (from 0) arrives.
        worker: The worker's number.
        capacity: The worker's relative speed from then on, 1e-12 to 1e12.
    """

    position: int
    worker: int
    capacity: float


Event: TypeAlias = AddWorker | RemoveWorker | SetCapacity


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
    threads: int | None = None,
    progress: bool | None = None,
) -> SimulationResult:
    """Send a stream through sources that route it by a grouping, and measure the workers.

    Message t goes to source t mod ``sources``; each source has its own router. The result depends only on the
    inputs, not on how the stream is cut into chunks. Memory does not grow with the stream, except for the
    pairs of key and worker: all pairs for up to 1e7 keys, beyond that a uniform sample.

    Args:
        params: The grouping, for instance ``ks.DChoices(workers=50)``.
        keys: The stream: a column of keys as in ``Router.route``, or an iterator of such columns, for streams
            larger than memory, or a function that makes one. A chunk is read while the next chunk is made, so
            it must not be modified.
        sources: Number of sources, 1 to 65,536.
        seed: Seed of the sample of keys, used if there are too many to keep all. Everything else depends on
            the seed of ``params``.
        service_time_s: Seconds that a message of weight 1 takes at a worker of capacity 1, 0 to 1e12; one
            number, or one per worker. It enables the timing model.
        arrival_rate_per_s: Messages per second, at equal intervals, 1e-6 to 1e12. If None, the next message
            arrives as soon as fewer than ``in_flight`` messages are in the system.
        capacities: Relative speeds, one per worker, 1e-12 to 1e12; default 1.
        events: Changes during the stream: [`AddWorker`][keysplit.AddWorker] and
            [`RemoveWorker`][keysplit.RemoveWorker], where the grouping is elastic, and
            [`SetCapacity`][keysplit.SetCapacity], with a timing model.
        samples: Number of evenly spaced points at which figures are sampled, 0 to 1,000,000. If the length of
            the stream is unknown, there are up to twice as many.
        weights: What each message adds to the load of its worker, finite and at least 0; default 1. Only for
            a single column.
        messages: The length of a stream that comes in chunks, if known.
        in_flight: See ``arrival_rate_per_s``; 1 to 1e8, 100 per worker if None.
        feedback_interval_s: Interval at which workers report to the sources, in simulated seconds, 1e-6 to
            1e12.
        busy_above: Utilisation above which a worker reports that it is busy, 0 to 1e12.
        idle_below: Utilisation below which a worker reports that it is idle, 0 to 1e12.
        threads: Number of threads, 1 to 256; by default the number of processors that this process may use.
            With more than one thread, sources run in parallel, and the next chunk is made meanwhile. With a
            timing model, the messages are processed one after another. The result does not depend on the
            number of threads.
        progress: Whether to show a progress bar: by default only in notebooks; if True, on standard error too
            if that is a terminal; if False, nowhere. The bar advances with each chunk.

    Returns:
        The figures, including those of time if ``service_time_s`` is given.

    Raises:
        TypeError: If an argument or the keys have the wrong type.
        ValueError: If an argument is out of range, an event cannot happen, or the stream does not have
            ``messages`` messages.

    Source: sources, round-robin input and the imbalance over time are those of Nasir et al., When Two Choices
    Are Not Enough: Balancing at Scale in Distributed Stream Processing (ICDE 2016), section V; queues,
    capacities and the signals of workers are those of Nasir et al., Load Balancing for Skewed Streams on
    Heterogeneous Cluster (arXiv 1705.09073), section 7.

    Deviations: service times are not random, and all sources get the workers' reports at the same time.

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
    check_progress(progress)
    threads = runs.count_threads(threads)
    simulation = Simulation(
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
    return runs.run(
        [simulation], keys, threads=threads, weights=weights, messages=simulation.messages, progress=progress
    )[0]


class Simulation:
    """A running simulation; it takes the arguments of `simulate`."""

    def __init__(
        self,
        params: Grouping,
        keys: Any,
        *,
        sources: int,
        service_time_s: float | Sequence[float] | None = None,
        capacities: Sequence[float] | None = None,
        events: Sequence[Event] = (),
        weights: Any = None,
        messages: int | None = None,
        **numbers: float | None,
    ) -> None:
        if not isinstance(params, Grouping):
            raise TypeError(
                "params must be a grouping such as ks.DChoices(workers=50), with the keys second, got "
                f"{repr(params) if isinstance(params, str) else type(params).__name__}"
            )
        length = None if runs.is_chunked(keys) else _length(keys)
        if not isinstance(events, Sequence):
            kinds = "AddWorker, RemoveWorker or SetCapacity"
            raise TypeError(f"events must be a list of {kinds}, got {events!r}")
        if runs.is_chunked(keys) and weights is not None:
            raise ValueError("weights must be None if keys come in chunks")
        if messages is not None and length not in (None, messages):
            raise ValueError(f"messages must be the length of the stream, {length}, got {messages!r}")
        self.messages = length if messages is None else messages
        self.workers, self.sources = params.workers + len(events), sources
        options = {
            **numbers,
            "sources": sources,
            "messages": self.messages,
            "most_keys": runs.MOST_KEYS,
            "most_groups": runs.MOST_GROUPS,
        }
        self._params = params
        self._core = _core.Simulation(
            params.name,
            params._parameters(),
            options,
            service_time_s=service_time_s,
            capacities=capacities,
            events=[_as_tuple(event) for event in events],
        )

    def add(self, keys: Any, weights: Any = None, threads: int = 1) -> int:
        """Send the next messages of the stream, on at most `threads` threads, and return their number."""
        return self._core.add(keys, weights, threads)

    def finish(self) -> SimulationResult:
        """End the stream and return all figures."""
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
            sources=int(self.sources),
            distinct_keys=keys * factor,
            memory=pairs * factor,
            replication=pairs / keys if keys else math.nan,
            exact_keys=factor == 1,
            imbalance_over_time=(positions, found.pop("imbalances")),
            **found,
            **timed,
        )


def _length(keys: Any) -> int | None:
    try:
        return len(keys)
    except TypeError:  # an Arrow stream that can be read only once, or not a column
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


def simulate_all(
    groupings: Sequence[Grouping],
    keys: Any,
    *,
    memory: int,
    threads: int | None,
    progress: bool | None,
    weights: Any = None,
    **options: Any,
) -> list[SimulationResult]:
    """Simulate several groupings on the same stream; it takes the arguments of `compare`."""
    if isinstance(memory, bool) or not isinstance(memory, SupportsIndex):
        raise TypeError(
            f"memory must be a whole number of bytes, at least {runs.LEAST_MEMORY}, got {memory!r}"
        )
    if index(memory) < runs.LEAST_MEMORY:
        raise ValueError(f"memory must be at least {runs.LEAST_MEMORY} bytes, got {memory!r}")
    check_progress(progress)
    threads = runs.count_threads(threads)
    simulations = [Simulation(each, keys, weights=weights, **options) for each in groupings]
    return runs.run(
        simulations,
        keys,
        threads=threads,
        weights=weights,
        messages=simulations[0].messages if simulations else None,
        memory=memory,
        progress=progress,
    )
