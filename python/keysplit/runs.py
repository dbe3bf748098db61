"""Schedules simulations so that those running together stay within a memory limit."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from operator import index
from typing import IO, Any, Protocol, SupportsIndex, TypeVar

from keysplit.progress import watch

MEMORY = 5 * 10**9
"""Default memory limit, in bytes, of simulations that run together."""

LEAST_MEMORY = 10**8
"""The smallest limit that `compare` accepts."""

MOST_THREADS = 256
"""The largest number of threads that `simulate` accepts."""

MOST_KEYS, MOST_GROUPS = 10**7, 10**8  # per simulation; beyond these it samples the keys

# Entries of the two hash tables in rust/core/src/state/replicas.rs, and how much of the places they may fill.
_KEY_BYTES, _KEY_FILL = 32, (3, 4)
_GROUP_BYTES, _GROUP_FILL = 25, (7, 8)  # with its control byte
_WORKERS_PER_KEY, _WORKERS_PER_GROUP = 128, 64  # in an entry
_LEAST_PLACES = 128  # of a table, all parts together
_FIXED_BYTES = 15 * 10**6  # per simulation: messages held, and new pairs
_ROUTER_BYTES = 4096  # per worker and source: sketch, ring and loads, as measured


@dataclass(frozen=True)
class Footprint:
    """The maximum memory of a simulation.

    Attributes:
        workers: the maximum number of workers at a time.
        sources: the number of routers.
        most_keys: the maximum number of keys that it keeps.
        most_groups: the maximum number of groups of a key and 64 workers that it keeps.
    """

    workers: int
    sources: int
    most_keys: int
    most_groups: int

    @classmethod
    def within(cls, memory: int | None, *, workers: int, sources: int, messages: int | None) -> Footprint:
        """Return the largest one whose tables fit into this many bytes; None is no limit.

        Example:
            >>> Footprint.within(None, workers=50, sources=5, messages=None).most_keys
            10000000
            >>> Footprint.within(200_000_000, workers=50, sources=5, messages=None).most_keys
            2500000
        """
        found = cls(workers, sources, MOST_KEYS, MOST_GROUPS)
        while memory is not None and found.table_bytes(MOST_KEYS, messages) > memory:
            # groups first: as many keys as possible are counted exactly
            halves_groups = found.most_groups > 2 * found.most_keys and workers > _WORKERS_PER_KEY
            keys = found.most_keys if halves_groups else found.most_keys // 2
            found = cls(workers, sources, keys, found.most_groups // 2)
        return found

    def table_bytes(self, keys: int, messages: int | None) -> int:
        """Return the maximum bytes of the key tables, for a stream with this many keys and messages."""
        most = self.most_groups if messages is None else messages
        keys = min(keys, self.most_keys, most)
        # per key: those that are not in its own entry
        more_groups = -(-self.workers // _WORKERS_PER_GROUP) - 1 if self.workers > _WORKERS_PER_KEY else 0
        groups = min(keys * more_groups, self.most_groups - keys, most)
        return _grown(keys, _KEY_BYTES, _KEY_FILL) + _grown(groups, _GROUP_BYTES, _GROUP_FILL)

    def total_bytes(self, keys: int, messages: int | None) -> int:
        """Return the maximum bytes of the whole simulation."""
        return self.table_bytes(keys, messages) + _FIXED_BYTES + _ROUTER_BYTES * self.workers * self.sources


def _grown(entries: int, size: int, fill: tuple[int, int]) -> int:
    """Bytes of a hash table while it grows to this many entries: its parts grow one after the other."""
    if entries <= 0:
        return 0
    part, whole = fill
    filled = entries * 11 // 10  # some parts have more entries than others
    places = 1 << (-(-filled * whole // part) - 1).bit_length()  # a power of two
    return max(places, _LEAST_PLACES) * size * 9 // 8


class Result(Protocol):
    """What this module needs of a result: see `SimulationResult`."""

    @property
    def messages(self) -> int:
        """The length of the stream."""

    @property
    def distinct_keys(self) -> int:
        """Its number of keys."""

    @property
    def exact_keys(self) -> bool:
        """Whether that number is exact."""


ResultType = TypeVar("ResultType", bound=Result, covariant=True)


class Simulation(Protocol[ResultType]):
    """What this module needs of a simulation: see `keysplit.simulation`."""

    @property
    def footprint(self) -> Footprint:
        """Its maximum memory."""

    def add(self, keys: Any, weights: Any = None, threads: int = 1) -> int:
        """Send the next messages, on at most so many threads; return their number."""

    def finish(self) -> ResultType:
        """End the stream."""


def is_chunked(keys: Any) -> bool:
    """Return whether a stream comes in chunks: from an iterator, or a function that makes one."""
    return isinstance(keys, Iterator) or callable(keys)


def choose(footprints: Sequence[Footprint], memory: int, keys: int, messages: int | None) -> list[int]:
    """Choose the simulations to run together next: as many as fit, smallest first, at least one.

    Args:
        footprints: of all simulations still to run.
        memory: bytes that they may use together.
        keys: maximum number of keys of the stream.
        messages: its length, None if unknown.

    Returns:
        Their indices in `footprints`, ascending.

    Example:
        >>> small, large = (Footprint(workers, 1, MOST_KEYS, MOST_GROUPS) for workers in (10, 1000))
        >>> choose([large, small, large, small], 2 * 10**9, 10**7, 10**7)
        [1, 3]
        >>> choose([large, small, large, small], 2 * 10**9, 10_000, 10**7)
        [0, 1, 2, 3]
    """
    needed = [each.total_bytes(keys, messages) for each in footprints]
    chosen: list[int] = []
    left = memory
    for place in sorted(range(len(needed)), key=needed.__getitem__):
        left -= needed[place]
        if chosen and left < 0:
            break
        chosen.append(place)
    return sorted(chosen)


def count_threads(threads: int | None) -> int:
    """Check a number of threads and return it; None is the number of processors that this process may use."""
    if threads is None:
        return min(_processors(), MOST_THREADS)
    allowed = f"in 1..={MOST_THREADS}"
    if isinstance(threads, bool) or not isinstance(threads, SupportsIndex):
        raise TypeError(f"threads must be an integer {allowed}, got {threads!r}")
    if not 1 <= index(threads) <= MOST_THREADS:
        raise ValueError(f"threads must be {allowed}, got {threads!r}")
    return index(threads)


def _processors() -> int:
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(
    simulations: Sequence[Simulation[ResultType]],
    keys: Any,
    *,
    threads: int,
    weights: Any = None,
    messages: int | None = None,
    memory: int = MEMORY,
    progress: bool | None = None,
) -> list[ResultType]:
    """Send a stream through all simulations, as many at a time as fit into `memory`.

    The first run is planned for the maximum number of keys of a stream of this length, later runs for its
    actual number. Results do not depend on the number of threads.

    Args:
        simulations: none has begun.
        keys: a column, an iterator of columns, or a function that makes one.
        threads: the number of threads: simulations run side by side, and if there are fewer of them, the
            sources of each do. With more than one, the next chunk is read meanwhile.
        weights: of a column; default 1.
        messages: the length of the stream, None if unknown.
        memory: bytes that the simulations may use together.
        progress: whether to show it, see `keysplit.progress.watch`.

    Returns:
        One result per simulation, in the same order.
    """
    results: dict[int, ResultType] = {}
    waiting = list(range(len(simulations)))
    most_keys, again = MOST_KEYS, None
    sent = 0  # messages, to all simulations
    with watch(progress) as report, ThreadPoolExecutor(threads) as pool:

        def advance(more: int) -> None:
            nonlocal sent
            sent += more
            report(sent / len(simulations), messages)

        while waiting:
            chosen = choose([simulations[each].footprint for each in waiting], memory, most_keys, messages)
            together = [waiting[place] for place in chosen]
            waiting = [each for each in waiting if each not in together]
            running = [simulations[each] for each in together]
            if not is_chunked(keys):
                found = _finish_each(pool, threads, running, keys, weights, advance)
            else:
                if again is None:
                    again = _repeatable(keys, repeats=bool(waiting))
                found = _finish_together(pool, threads, running, again(), advance)
            results.update(zip(together, found, strict=True))
            messages = found[0].messages
            most_keys = found[0].distinct_keys if found[0].exact_keys else MOST_KEYS
    return [results[place] for place in range(len(simulations))]


def _finish_each(
    pool: ThreadPoolExecutor,
    threads: int,
    simulations: Sequence[Simulation[ResultType]],
    keys: Any,
    weights: Any,
    advance: Callable[[int], None],
) -> list[ResultType]:
    own = threads if len(simulations) <= threads else 1

    def finish(simulation: Simulation[ResultType]) -> ResultType:
        simulation.add(keys, weights, own)
        return simulation.finish()

    if len(simulations) == 1 or threads == 1:  # in this thread, which Ctrl-C reaches
        found: Iterable[ResultType] = map(finish, simulations)
    else:
        found = _gathered([pool.submit(finish, simulation) for simulation in simulations])
    results = []
    for result in found:
        results.append(result)
        advance(result.messages)
    return results


def _finish_together(
    pool: ThreadPoolExecutor,
    threads: int,
    simulations: Sequence[Simulation[ResultType]],
    chunks: Iterable[Any],
    advance: Callable[[int], None],
) -> list[ResultType]:
    own = threads if len(simulations) <= threads else 1
    running: list[Future[int]] = []
    for chunk in chunks:
        if threads == 1:
            for simulation in simulations:
                advance(simulation.add(chunk))
        else:  # the next chunk is read while this one is processed
            advance(sum(_gathered(running)))
            running = [pool.submit(simulation.add, chunk, None, own) for simulation in simulations]
    advance(sum(_gathered(running)))
    return [simulation.finish() for simulation in simulations]


def _gathered(running: Sequence[Future[Any]]) -> list[Any]:
    """Return all results; after an error, nothing more is started."""
    try:
        return [each.result() for each in running]
    except BaseException:
        for each in running:
            each.cancel()
        raise


def _repeatable(keys: Any, *, repeats: bool) -> Callable[[], Iterable[Any]]:
    """Return a function that replays the chunks at every call."""
    if callable(keys):
        return keys  # type: ignore[no-any-return]
    if not repeats:
        return lambda: keys
    kept = _Kept(keys)
    return lambda: kept


class _Kept:
    """Chunks that can be read only once, saved to a temporary file during the first pass."""

    def __init__(self, chunks: Iterator[Any]) -> None:
        self._chunks, self._count = chunks, 0
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (it is read by later runs)

    def __iter__(self) -> Iterator[Any]:
        self._file.seek(0)
        for _ in range(self._count):
            yield pickle.load(self._file)  # written by this process
        for chunk in self._chunks:
            column = _picklable(chunk)
            pickle.dump(column, self._file, protocol=pickle.HIGHEST_PROTOCOL)
            self._count += 1
            yield column


def _picklable(chunk: Any) -> Any:
    """Return a chunk that can be reread: a one-shot stream becomes an Arrow column."""
    if hasattr(chunk, "__arrow_c_stream__") and not hasattr(chunk, "__len__"):
        import pyarrow as pa

        return pa.chunked_array(chunk)
    return chunk
