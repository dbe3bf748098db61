"""`ks.profile`: how skewed the keys of a stream are, how they change, and which grouping would help."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations, count, pairwise
from operator import index
from typing import Any, NamedTuple

import numpy as np

from keysplit._core import SpaceSaving
from keysplit.groupings import grouping
from keysplit.profiling.advice import LEAST_DRIFT, Cost, describe_drift
from keysplit.profiling.model import Advice, Profile, TopKey
from keysplit.profiling.planned import Keys, advise_on
from keysplit.results import SimulationResult
from keysplit.runs import MEMORY, is_chunked
from keysplit.simulation import simulate_all
from keysplit.streams.drawn import check_counts

__all__ = ["SHORT_LIST", "profile"]

SHORT_LIST = ("key", "partial_key", "d_choices", "w_choices", "fish")
"""The groupings that a profile tries: hash partitioning, and what helps against skew and drift."""

NAMED_KEYS = 100
"""The number of most frequent keys that charts may name."""

_HOT_KEY_MESSAGES = 10  # least messages of a hot key in a window: fewer may be chance
_MOST_HOT_KEYS = 5000  # in a window; 1/(5n) for up to 1000 workers
_COUNTERS_PER_HOT_KEY = 10  # of a sketch: its error is at most a tenth of the threshold
_LEAST_COUNTERS = 1000
_DRAWS = 10  # of the whole stream
_DRAWN_KEYS = 2000  # are distinguished in a draw; others cannot be among the top keys
_COUNTERS = 1000  # of the keys to name
_MESSAGES = 1 << 20  # of a column at a time
_STANDARD_ERROR = 5e-4  # at most, of a number of keys estimated from 1e7: see docs/simulation.md


def profile(
    keys: Any,
    workers: int | Sequence[int],
    *,
    sources: int = 5,
    top: int = 20,
    windows: int = 20,
    messages: int | None = None,
    memory: int = MEMORY,
    key: str | Sequence[str] = (),
    seconds_per_row: float | None = None,
    cores: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Profile:
    """Report how skewed the keys of a stream are, how they change, and which grouping would help.

    One pass over the stream is enough, unless the simulations do not fit into `memory` together. Memory does
    not grow with the stream, except for the pairs of key and worker (see `simulate`). A count is never
    underestimated, and overestimated by at most a tenth of the threshold. A key is *hot* in a window if its
    share of the window's messages is at least the threshold: 1/(5n), n being the largest number of workers,
    but never below 1/5000. No such key is missed; a key up to a tenth below the threshold may also count as
    hot. Windows are long enough that a hot key has at least ten messages, so that no key is hot by chance.

    The advice: on Spark, use a plan; the loads of every plan are computed from the counts of the same pass.
    Loads are *balanced* if the busiest worker has at most 1.1 times the mean. If hash partitioning is
    balanced, no action is needed. Otherwise the balanced plan with the fewest copies of keys is recommended,
    or the most balanced plan if none is balanced. A recommendation also requires that the busiest worker with
    hash partitioning has more than 1.1 times the load of the recommended plan's busiest worker.
    `keysplit.spark.profile` follows the same rule. Stream engines see messages in the order of arrival. For
    them the groupings of the short list (`key`, `partial_key`, `d_choices`, `w_choices`, and `fish` if the
    frequent keys change) are simulated, and one of these groupings is chosen in the same way.

    Args:
        keys: a column of keys as in `Router.route`, an iterator over such columns, or a function that makes
            such an iterator.
        workers: the number of workers, 1 to 65,536, or several numbers.
        sources: the number of tasks that route, each with its own load estimate; 5 as in the papers.
        top: number of most frequent keys to return and to compare between windows; at least 1.
        windows: maximum number of windows, at least 1; up to twice as many if the length is unknown.
        messages: the length of the stream, if `keys` is an iterator and the length is known.
        memory: bytes that the simulations running together may use, as in `compare`.
        key: the name of the key column, or a list of names, for the line to paste.
        seconds_per_row: the time per message, above 0. If given, the verdict shows times, computed from the
            loads, instead of a ratio.
        cores: the number of concurrent tasks, at least 1; one per worker if omitted. With fewer cores than
            workers a plan is recommended only if it saves time on these cores.
        threads: number of threads, as in `simulate`.
        progress: whether to show a progress bar, as in `simulate`.

    Returns:
        The profile; print it.

    Raises:
        TypeError: a key is of an unsupported type, or a count is not an integer.
        ValueError: an argument is out of range, or the stream is empty.

    Source: threshold of Nasir et al., When Two Choices Are Not Enough (ICDE 2016), section III-A; counts of
    Metwally, Agrawal, El Abbadi (ICDT 2005).

    Deviations: none.

    Example:
        >>> import keysplit as ks
        >>> keys = ks.streams.zipf(1.4, keys=10_000, messages=200_000, seed=1)
        >>> found = ks.profile(keys, workers=50)
        >>> found.top[0].key, round(found.top[0].share, 2), found.drifts, found.advice[0].recommended
        (0, 0.33, False, 'cut_to_fit')
    """
    numbers = _workers(workers)
    check_counts(sources=(sources, 1), top=(top, 1), windows=(windows, 1))
    key = (key,) if isinstance(key, str) else key
    if not isinstance(key, Sequence) or not all(isinstance(name, str) for name in key):
        raise TypeError(f"key must be a column name or a list of column names, got {key!r}")
    advised = partial(advise_on, key=tuple(key), cost=Cost(seconds_per_row, cores))
    hot_keys = min(5 * max(numbers), _MOST_HOT_KEYS)
    if not is_chunked(keys):
        column = as_column(keys)
        if messages is not None and messages != len(column):
            raise ValueError(f"messages must be the length of the stream, {len(column)}, got {messages!r}")
        keys, messages = partial(pieces, column), len(column)
    collected = Windows(
        length=messages,
        most=windows,
        shortest=_HOT_KEY_MESSAGES * hot_keys,
        capacity=max(_LEAST_COUNTERS, _COUNTERS_PER_HOT_KEY * hot_keys),
    )
    if messages == 0:
        raise ValueError("keys must hold at least one message, got none")
    counted = Keys(numbers)
    results = simulate_all(
        [grouping(name, workers=number) for number in numbers for name in SHORT_LIST],
        watched(keys, collected, counted),
        sources=sources,
        memory=memory,
        messages=messages,
        threads=threads,
        progress=progress,
    )
    if not collected.all:
        raise ValueError("keys must hold at least one message, got none")
    return _profile(numbers, sources, top, 1 / hot_keys, collected, results, counted, advised)


def _workers(workers: int | Sequence[int]) -> list[int]:
    numbers = list(workers) if isinstance(workers, Iterable) else [workers]
    if not numbers:
        raise ValueError("workers must hold at least one number, got none")
    for number in numbers:
        grouping("key", workers=number)
    return list(dict.fromkeys(index(number) for number in numbers))


def _profile(
    numbers: Sequence[int],
    sources: int,
    top: int,
    threshold: float,
    collected: Windows,
    results: Sequence[SimulationResult],
    counted: Keys,
    advised: Callable[..., Advice],
) -> Profile:
    windows, whole = collected.all, collected.whole()
    steady = expect_overlap(windows, whole, top)
    neighbours, any_two = measure_overlap(windows, top)
    drifts = any_two < steady - LEAST_DRIFT
    hot: dict[Any, list[int]] = {}
    for number, window in enumerate(windows):
        for key in _hot(window, threshold):
            hot.setdefault(key, []).append(number)
    frequent = [key for key, _, _ in whole.top(top)]
    known = {key: _top_key(key, hot.get(key, []), windows, whole) for key in {*frequent, *hot}}
    ever_hot = tuple(sorted((known[key] for key in hot), key=lambda each: (-each.count, each.hot)))
    hashed = next(result for result in results if result.params.name == "key")
    first = known[frequent[0]]
    return Profile(
        total=windows[-1].stop,
        unit="messages",
        top=[known[key] for key in frequent],
        advice=tuple(
            advised(
                [result for result in results if result.params.workers == number],
                counted.predict(number),
                top=first if first.certain else None,
                without=() if drifts else ("fish",),
            )
            for number in numbers
        ),
        sources=sources,
        distinct_keys=hashed.distinct_keys,
        distinct_keys_error=0.0 if hashed.exact_keys else _STANDARD_ERROR * hashed.distinct_keys,
        threshold=threshold,
        windows=(*(window.start for window in windows), windows[-1].stop),
        hot=ever_hot,
        overlap=neighbours,
        overlap_of_any=any_two,
        steady_overlap=steady,
        drifts=drifts,
        drift=describe_drift(
            windows=len(windows),
            hot=ever_hot,
            overlap=neighbours,
            overlap_of_any=any_two,
            steady_overlap=steady,
            drifts=drifts,
        ),
    )


def _hot(window: Window, threshold: float) -> list[Any]:
    """Return the keys that are hot; the last window may be too narrow for the threshold alone."""
    least = max(threshold * window.messages, _HOT_KEY_MESSAGES)
    most = math.ceil(2 / threshold)  # an upper bound: counts exceed the truth by at most a tenth of it
    return [key for key, count, _ in window.sketch.top(most) if count >= least]


def _top_key(key: Any, hot: Sequence[int], windows: Sequence[Window], whole: SpaceSaving) -> TopKey:
    count, error = whole.estimate(key)
    shares = []
    for window in windows:
        most, too_many = window.sketch.estimate(key)
        shares.append((most - too_many) / window.messages)
    age = windows[hot[-1]].stop - windows[hot[0]].start if hot else 0
    return TopKey(
        key,
        int(count),
        int(error),
        count / whole.total,
        shares=tuple(shares),
        hot=tuple(hot),
        age_messages=age,
        age_share=age / whole.total,
    )


class Window(NamedTuple):
    """A part of the stream.

    Attributes:
        start: the number of the first message, from 0.
        stop: one more than the number of the last message.
        sketch: counts the keys from `start` to `stop`.
    """

    start: int
    stop: int
    sketch: SpaceSaving

    @property
    def messages(self) -> int:
        """The number of messages of the window."""
        return self.stop - self.start


class Windows:
    """Cuts a stream into at most `most` windows of equal width, none of them narrower than `shortest`.

    If the length is known, there are at most `most` windows. Otherwise, whenever the count reaches 2 x
    `most`, neighbours are merged, so there may be up to 2 x `most`. The last window may be narrower.

    Args:
        length: the number of messages in the whole stream; None if unknown.
        most: maximum number of windows, at least 1.
        shortest: minimum number of messages per window, at least 1.
        capacity: counters per window's sketch.

    Source: sketches are merged as in Berinde, Indyk, Cormode, Strauss, Space-optimal Heavy Hitters with
    Strong Error Bounds (TODS 2010).

    Deviations: none.

    Example:
        >>> windows = Windows(length=None, most=2, shortest=3, capacity=10)
        >>> windows.update(["a"] * 8)
        >>> windows.update(["b"] * 8)
        >>> [(each.start, each.stop, each.sketch.top(1)) for each in windows.all]
        [(0, 6, [('a', 6, 0)]), (6, 12, [('b', 4, 0)]), (12, 16, [('b', 4, 0)])]
    """

    def __init__(self, *, length: int | None, most: int, shortest: int, capacity: int) -> None:
        self._most, self._capacity = most, capacity
        self._width = None if length is not None else shortest
        self._cuts: list[int] = []
        if length is not None:
            windows = min(most, max(1, length // shortest))
            self._cuts = [-(-k * length // windows) for k in range(1, windows)]
        self._done: list[Window] = []
        self._start = self._messages = 0
        self._sketch = SpaceSaving(capacity)

    def update(self, keys: Any) -> None:
        """Count the keys of a column that can be sliced."""
        taken = 0
        while taken < len(keys):
            step = int(min(self._stop() - self._messages, len(keys) - taken))
            self._sketch.update(keys[taken : taken + step])
            taken += step
            self._messages += step
            if self._messages == self._stop():
                self._close()

    def _stop(self) -> float:
        """The end of the current window; if the length is known, the last window takes all that remains."""
        if self._width is not None:
            return self._start + self._width
        return self._cuts[len(self._done)] if len(self._done) < len(self._cuts) else math.inf

    def _close(self) -> None:
        self._done.append(Window(self._start, self._messages, self._sketch))
        self._start, self._sketch = self._messages, SpaceSaving(self._capacity)
        if self._width is not None and len(self._done) == 2 * self._most:
            self._done = [_merged(pair) for pair in zip(self._done[::2], self._done[1::2], strict=True)]
            self._width *= 2

    @property
    def all(self) -> list[Window]:
        """The windows so far, the current one last."""
        current = Window(self._start, self._messages, self._sketch)
        return [*self._done, current] if current.messages else list(self._done)

    def whole(self) -> SpaceSaving:
        """Return a sketch of the whole stream so far."""
        sketch = SpaceSaving(self._capacity)
        for window in self.all:
            sketch.merge(window.sketch)
        return sketch


def _merged(pair: Sequence[Window]) -> Window:
    first, second = pair
    first.sketch.merge(second.sketch)
    return Window(first.start, second.stop, first.sketch)


def measure_overlap(windows: Sequence[Window], keys: int) -> tuple[float, float]:
    """The overlap of windows: the mean Jaccard index of their most frequent keys.

    Args:
        windows: the windows, in order.
        keys: how many keys of each window are compared.

    Returns:
        The overlap of neighbours and of any two windows: 0 if all keys changed, 1 if none did; 1 if there are
        fewer than two windows.
    """
    tops = [{key for key, _, _ in window.sketch.top(keys)} for window in windows]
    return _mean_jaccard(pairwise(tops)), _mean_jaccard(combinations(tops, 2))


def expect_overlap(windows: Sequence[Window], whole: SpaceSaving, keys: int) -> float:
    """The overlap of windows if the messages came in random order, estimated from ten seeded draws.

    Args:
        windows: the windows, in order.
        whole: a sketch of the whole stream.
        keys: how many keys of each window are compared.

    Returns:
        From 0 to 1. Usually below 1, because the last of the most frequent keys are hardly more frequent than
        the keys that follow.
    """
    counts = np.array([count - error for _, count, error in whole.top(max(keys, _DRAWN_KEYS))], float)
    if not len(counts) or not counts.sum():
        return 1.0
    shares = np.append(counts, max(whole.total - counts.sum(), 0.0))  # the last: all other keys
    shares /= shares.sum()
    generator = np.random.Generator(np.random.PCG64(0))
    drawn = []
    for _ in range(_DRAWS):
        tops = []
        for window in windows:
            found = generator.multinomial(window.messages, shares)[:-1]
            first = np.argsort(-found - generator.random(len(found)))[:keys]  # ties in random order
            tops.append(set(first[found[first] > 0].tolist()))
        drawn.append(_mean_jaccard(pairwise(tops)))
    return float(np.mean(drawn))


def _mean_jaccard(pairs: Iterable[tuple[set[Any], set[Any]]]) -> float:
    indices = [len(one & other) / max(len(one | other), 1) for one, other in pairs]
    return sum(indices) / len(indices) if indices else 1.0


class Frequent:
    """Counts keys to name the most frequent: in constant memory, with errors."""

    def __init__(self) -> None:
        self._sketch = SpaceSaving(_COUNTERS)

    def update(self, keys: Any) -> None:
        """Count the keys of a column."""
        self._sketch.update(keys)

    def top(self, most: int) -> list[TopKey]:
        """Return up to `most` of the most frequent keys, but only keys that are certain to be frequent."""
        total = max(self._sketch.total, 1.0)
        found = [TopKey(key, count, error, count / total) for key, count, error in self._sketch.top(most)]
        return [key for key in found if key.certain]


def as_column(keys: Any) -> Any:
    """Return a column that can be sliced."""
    if hasattr(keys, "iloc"):  # otherwise pandas may slice by labels
        return keys.reset_index(drop=True)
    if hasattr(keys, "__arrow_c_stream__"):
        import pyarrow as pa

        return pa.chunked_array(keys)
    if hasattr(keys, "__arrow_c_array__"):
        import pyarrow as pa

        return pa.array(keys)
    return keys


def pieces(column: Any) -> Iterator[Any]:
    """Yield a column in pieces."""
    for start in range(0, len(column), _MESSAGES):
        yield column[start : start + _MESSAGES]


def watched(keys: Any, *counters: Any) -> Any:
    """Return a stream of the same kind that counts its keys on the first pass."""

    def counted(chunks: Iterator[Any]) -> Iterator[Any]:
        for chunk in chunks:
            column = as_column(chunk)
            for counter in counters:
                counter.update(column)
            yield column

    if isinstance(keys, Iterator):
        return counted(keys)
    passes = count()
    return lambda: counted(keys()) if next(passes) == 0 else map(as_column, keys())
