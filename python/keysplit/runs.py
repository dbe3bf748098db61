"""Run simulations in threads, as many at a time as a memory limit allows."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from operator import index
from typing import Any, Protocol, SupportsIndex, TypeVar

from keysplit.progress import watch

MEMORY = 5 * 10**9
"""Default memory limit, in bytes, of simulations that run together."""

LEAST_MEMORY = 10**8
"""The smallest limit that `compare` accepts."""

MOST_THREADS = 256
"""The largest number of threads that `simulate` accepts."""

MOST_KEYS, MOST_GROUPS = 10**7, 10**8
"""The maximum of keys, and of groups of a key and 64 workers; beyond, a simulation keeps a sample."""

_GROUP_BYTES = 100  # at most, in a hash table that has just grown
_ROUTER_BYTES = 4096  # per worker and source: sketch, ring and loads, as measured
_FIXED_BYTES = 15 * 10**6  # messages held, and new pairs

ResultType = TypeVar("ResultType", covariant=True)


class Simulation(Protocol[ResultType]):
    """The part of `keysplit.simulation.Simulation` that this module uses."""

    workers: int
    """The maximum number of workers at a time."""
    sources: int

    def add(self, keys: Any, weights: Any = None, threads: int = 1) -> int:
        """Send the next messages, on at most `threads` threads, and return their number."""

    def finish(self) -> ResultType:
        """End the stream."""


def is_chunked(keys: Any) -> bool:
    """Return whether a stream comes in chunks: from an iterator, or a function that makes an iterator."""
    return isinstance(keys, Iterator) or callable(keys)


def choose(simulations: Sequence[Simulation[Any]], memory: int, keys: int, messages: int | None) -> list[int]:
    """Choose the simulations to run together next: as many as fit, smallest first, at least one.

    A simulation counts 100 bytes per key and 64 workers (at most the messages, or 1e8), 4 kB per worker and
    source, and 15 MB.

    Args:
        simulations: all simulations still to run.
        memory: bytes that the chosen simulations may use together.
        keys: maximum number of keys of the stream.
        messages: the length of the stream; None if unknown.

    Returns:
        Their indices in `simulations`, ascending.
    """

    def needed(place: int) -> int:
        workers, sources = simulations[place].workers, simulations[place].sources
        groups = min(keys * -(-workers // 64), MOST_GROUPS if messages is None else messages, MOST_GROUPS)
        return _GROUP_BYTES * groups + _ROUTER_BYTES * workers * sources + _FIXED_BYTES

    chosen: list[int] = []
    for place in sorted(range(len(simulations)), key=needed):
        memory -= needed(place)
        if chosen and memory < 0:
            break
        chosen.append(place)
    return sorted(chosen)


def count_threads(threads: int | None) -> int:
    """Check and return a number of threads; None means the number of processors this process may use."""
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

    The first pass is planned for the maximum number of keys of a stream of this length, later passes for the
    actual number. Results do not depend on the number of threads.

    Args:
        simulations: new simulations, to which nothing was sent.
        keys: a column, an iterator of columns, or a function that makes an iterator.
        threads: the number of threads: simulations run in parallel, and if there are fewer simulations, their
            sources do, too. With more than one thread, the next chunk is read meanwhile.
        weights: the weights of a column's messages; 1 by default.
        messages: the length of the stream; None if unknown.
        memory: bytes that the simulations may use together.
        progress: whether to show the progress, see `keysplit.progress.watch`.

    Returns:
        One result per simulation, in the same order.
    """
    results: dict[int, Any] = {}
    waiting = list(range(len(simulations)))
    most_keys, chunks = MOST_KEYS, None
    sent = 0  # messages, to all simulations
    with watch(progress) as report, ThreadPoolExecutor(threads) as pool:

        def advance(more: int) -> None:
            nonlocal sent
            sent += more
            report(sent / len(simulations), messages)

        while waiting:
            chosen = choose([simulations[each] for each in waiting], memory, most_keys, messages)
            together = [waiting[place] for place in chosen]
            waiting = [each for each in waiting if each not in together]
            chunks = chunks or _repeatable(keys, repeats=bool(waiting))
            # a single simulation of a column runs in this thread, so that Ctrl-C stops it
            in_pool = threads > 1 and (len(together) > 1 or is_chunked(keys))
            running = [simulations[each] for each in together]
            _send(chunks(), weights, running, threads, pool if in_pool else None, advance)
            results.update((each, simulations[each].finish()) for each in together)
            first = results[together[0]]
            messages, most_keys = first.messages, first.distinct_keys if first.exact_keys else MOST_KEYS
    return [results[place] for place in range(len(simulations))]


def _send(
    chunks: Iterable[Any],
    weights: Any,
    simulations: Sequence[Simulation[Any]],
    threads: int,
    pool: ThreadPoolExecutor | None,
    advance: Callable[[int], None],
) -> None:
    own = threads if len(simulations) <= threads else 1
    running: list[Future[int]] = []
    for chunk in chunks:
        if pool is None:
            for simulation in simulations:
                advance(simulation.add(chunk, weights, own))
        else:  # the next chunk is read while this one is processed
            _gather(running, advance)
            running = [pool.submit(each.add, chunk, weights, own) for each in simulations]
    _gather(running, advance)


def _gather(running: Sequence[Future[int]], advance: Callable[[int], None]) -> None:
    """Wait for all tasks; after an error, start no other tasks."""
    try:
        for each in running:
            advance(each.result())
    except BaseException:
        for each in running:
            each.cancel()
        raise


def _repeatable(keys: Any, *, repeats: bool) -> Callable[[], Iterable[Any]]:
    """Return a function that returns all chunks at every call; a column is one chunk."""
    if callable(keys):
        return keys  # type: ignore[no-any-return]
    if not isinstance(keys, Iterator):
        return lambda: (keys,)
    return _kept(keys) if repeats else lambda: keys


def _kept(chunks: Iterator[Any]) -> Callable[[], Iterator[Any]]:
    """Save chunks that can be read only once to a temporary file during the first pass."""
    file, count = tempfile.TemporaryFile(), 0  # noqa: SIM115 (read by later passes)

    def replay() -> Iterator[Any]:
        nonlocal count
        file.seek(0)
        for _ in range(count):
            yield pickle.load(file)  # this process wrote it
        for chunk in chunks:
            if hasattr(chunk, "__arrow_c_stream__") and not hasattr(
                chunk, "__len__"
            ):  # can be read only once
                import pyarrow as pa

                chunk = pa.chunked_array(chunk)
            pickle.dump(chunk, file, protocol=pickle.HIGHEST_PROTOCOL)
            count += 1
            yield chunk

    return replay
