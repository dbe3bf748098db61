"""`ks.profile`: how skewed the keys of a stream are, how they change, and which grouping would help."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from operator import index
from typing import Any, SupportsIndex

from keysplit._core import SpaceSaving
from keysplit.comparison import compare
from keysplit.groupings import grouping
from keysplit.profiling.advice import LEAST_DRIFT, Cost, describe_drift
from keysplit.profiling.model import Profile, TopKey
from keysplit.profiling.planned import Advising, Keys
from keysplit.profiling.watching import as_column, pieces, watched
from keysplit.profiling.windows import Window, Windows, expect_overlap, measure_overlap
from keysplit.runs import MEMORY, is_chunked
from keysplit.simulation import SimulationResult

__all__ = ["SHORT_LIST", "profile"]

SHORT_LIST = ("key", "partial_key", "d_choices", "w_choices", "fish")
"""The groupings that a profile tries: hash partitioning, and what helps against skew and drift."""

_HOT_KEY_MESSAGES = 10  # the least of a hot key in a window: fewer may be chance
_MOST_HOT_KEYS = 5000  # in a window; 1/(5n) for up to 1000 workers
_COUNTERS_PER_HOT_KEY = 10  # of a sketch: its error is at most a tenth of the threshold
_LEAST_COUNTERS = 1000
_STANDARD_ERROR = 5e-4  # of a number of keys that is estimated from 1e7, at most: see docs/simulation.md


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

    It takes one pass over the stream, unless the simulations do not fit into `memory` together. Memory does
    not grow with the stream, except for the pairs of key and worker (see `simulate`). A count is never
    underestimated, and overestimated by at most a tenth of the threshold. A key is *hot* in a window if its
    count there is at least the threshold's part of the messages: 1/(5n), n being the largest number of
    workers, but never below 1/5000. No such key is missed; a key with up to a tenth less may also count as
    hot. Windows have at least ten messages for each hot key, so that no key is hot by chance.

    The advice: on Spark, keys are planned; the loads of every plan are computed from the counts of the same
    pass. Loads are *balanced* if the busiest worker has at most 1.1 times the mean. If hash partitioning is
    balanced, no action is needed. Otherwise the balanced plan with the fewest copies of keys is recommended,
    or the most balanced one if none is balanced. A recommendation also requires that the busiest worker with
    hash partitioning has more than 1.1 times the load of the recommended plan's busiest worker.
    `keysplit.spark.profile` goes by the same rule. For stream engines, which see messages in the order of
    arrival, the groupings of the short list (`key`, `partial_key`, `d_choices`, `w_choices`, and `fish` if
    the frequent keys change) are simulated, and chosen among in the same way.

    Args:
        keys: a column of keys as in `Router.route`, an iterator over such columns, or a function that makes
            one.
        workers: the number of workers, 1 to 65,536, or several.
        sources: tasks that route, each by its own load estimate; 5 as in the papers.
        top: number of most frequent keys to return and to compare between windows; at least 1.
        windows: maximum number of windows, at least 1; up to twice as many if the length is not known.
        messages: the length of the stream, if `keys` is an iterator and it is known.
        memory: bytes that the simulations running together may use, as in `compare`.
        key: the name of the key column, or a list of them, for the line to paste.
        seconds_per_row: what a message costs, above 0. The verdict gives times then, in the place of a ratio:
            arithmetic from the loads.
        cores: how many tasks run at once, at least 1, for the same; one per worker if left out. With fewer
            cores than workers a plan is recommended only if it saves time on these.
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
    for name, value in (("sources", sources), ("top", top), ("windows", windows)):
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise TypeError(f"{name} must be an integer of at least 1, got {value!r}")
        if index(value) < 1:
            raise ValueError(f"{name} must be at least 1, got {value!r}")
    key = (key,) if isinstance(key, str) else key
    if not isinstance(key, Sequence) or not all(isinstance(name, str) for name in key):
        raise TypeError(f"key must be a column name or a list of column names, got {key!r}")
    cost = Cost(seconds_per_row, cores)
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
    results = compare(
        watched(keys, collected, counted),
        workers=numbers,
        groupings=list(SHORT_LIST),
        sources=sources,
        memory=memory,
        messages=messages,
        threads=threads,
        progress=progress,
    )
    if not collected.all:
        raise ValueError("keys must hold at least one message, got none")
    return _profile(
        numbers,
        sources,
        top,
        1 / hot_keys,
        collected,
        results,
        Advising(counted, tuple(key), cost),
    )


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
    advising: Advising,
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
            advising.advise(
                [result for result in results if result.params.workers == number],
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
