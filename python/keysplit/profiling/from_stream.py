"""`ks.profile`: how skewed the keys of a stream are, how they change, and which grouping would help."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from operator import index
from typing import Any, SupportsIndex

from keysplit import runs
from keysplit._core import SpaceSaving
from keysplit.comparison import compare
from keysplit.groupings import grouping
from keysplit.profiling.advice import LEAST_DRIFT, advise_simulated, describe_drift, recommend_simulated
from keysplit.profiling.model import Advice, Prediction, Profile, TopKey
from keysplit.profiling.windows import Window, Windows, expect_overlap, measure_overlap
from keysplit.runs import MEMORY, Footprint, is_chunked
from keysplit.simulation import SimulationResult

__all__ = ["SHORT_LIST", "profile"]

SHORT_LIST = ("key", "partial_key", "d_choices", "w_choices", "fish")
"""The groupings that a profile tries: hash partitioning, and what helps against skew and drift."""

_HOT_KEY_MESSAGES = 10  # the least of a hot key in a window: fewer may be chance
_MOST_HOT_KEYS = 5000  # in a window; 1/(5n) for up to 1000 workers
_COUNTERS_PER_HOT_KEY = 10  # of a sketch: its error is at most a tenth of the threshold
_LEAST_COUNTERS = 1000
_MESSAGES = 1 << 20  # of a column at a time
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
) -> Profile:
    """Report how skewed the keys of a stream are, how they change, and which grouping would help.

    It takes one pass over the stream, unless the simulations do not fit into `memory` together. Memory does
    not grow with the stream, except for the pairs of key and worker (see `simulate`). A count is never
    underestimated, and overestimated by at most a tenth of the threshold. A key is *hot* in a window if its
    count there is at least the threshold's part of the messages: 1/(5n), n being the largest number of
    workers, but never below 1/5000. No such key is missed; a key with up to a tenth less may also count as
    hot. Windows have at least ten messages for each hot key, so that no key is hot by chance.

    The advice: the groupings of the short list (`key`, `partial_key`, `d_choices`, `w_choices`, and `fish` if
    the frequent keys change) are simulated in the same pass. Loads are *balanced* if the busiest worker has
    at most 1.1 times the mean. If hash partitioning is balanced, no action is needed. Otherwise the balanced
    grouping with the fewest partial results is recommended, or the most balanced one if none is balanced. A
    recommendation also requires that the busiest worker with hash partitioning has more than 1.1 times the
    load of the recommended grouping's busiest worker. If the grouping cannot be planned on Spark, the verdict
    names the best one that can.

    Args:
        keys: a column of keys as in `Router.route`, an iterator over such columns, or a function that makes
            one.
        workers: the number of workers, 1 to 65,536, or several.
        sources: tasks that route, each by its own load estimate; 5 as in the papers.
        top: number of most frequent keys to return and to compare between windows; at least 1.
        windows: maximum number of windows, at least 1; up to twice as many if the length is not known.
        messages: the length of the stream, if `keys` is an iterator and it is known.
        memory: bytes that the simulations may take together, as in `compare`.

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
        (0, 0.33, False, 'd_choices')
    """
    numbers = _workers(workers)
    for name, value in (("sources", sources), ("top", top), ("windows", windows)):
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise TypeError(f"{name} must be an integer of at least 1, got {value!r}")
        if index(value) < 1:
            raise ValueError(f"{name} must be at least 1, got {value!r}")
    hot_keys = min(5 * max(numbers), _MOST_HOT_KEYS)
    if not is_chunked(keys):
        column = _column(keys)
        keys, messages = partial(_pieces, column), len(column)
    collected = Windows(
        length=messages,
        most=windows,
        shortest=_HOT_KEY_MESSAGES * hot_keys,
        capacity=max(_LEAST_COUNTERS, _COUNTERS_PER_HOT_KEY * hot_keys),
    )
    if messages == 0:
        raise ValueError("keys must hold at least one message, got none")
    results = compare(
        _watched(keys, collected),
        workers=numbers,
        groupings=list(SHORT_LIST),
        sources=sources,
        memory=memory,
        messages=messages,
    )
    if not collected.all:
        raise ValueError("keys must hold at least one message, got none")
    kept = Footprint.within(memory, workers=numbers[0], sources=sources, messages=messages).most_keys
    return _profile(
        numbers,
        sources,
        top,
        1 / hot_keys,
        collected,
        results,
        _STANDARD_ERROR * math.sqrt(runs.MOST_KEYS / kept),
    )


def _workers(workers: int | Sequence[int]) -> list[int]:
    numbers = [workers] if isinstance(workers, SupportsIndex) else list(workers)
    if not numbers:
        raise ValueError("workers must hold at least one number, got none")
    for number in numbers:
        grouping("key", workers=number)
    return list(dict.fromkeys(index(number) for number in numbers))


def _column(keys: Any) -> Any:
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


def _pieces(column: Any) -> Iterator[Any]:
    for start in range(0, len(column), _MESSAGES):
        yield column[start : start + _MESSAGES]


def _watched(keys: Any, collected: Windows) -> Any:
    """Return a stream of the same kind, whose keys are counted on the first pass."""

    def watched(chunks: Iterator[Any]) -> Iterator[Any]:
        for chunk in chunks:
            column = _column(chunk)
            collected.update(column)
            yield column

    if isinstance(keys, Iterator):
        return watched(keys)
    passes = count()
    return lambda: watched(keys()) if next(passes) == 0 else map(_column, keys())


def _profile(
    numbers: Sequence[int],
    sources: int,
    top: int,
    threshold: float,
    collected: Windows,
    results: Sequence[SimulationResult],
    standard_error: float,
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
        advice=tuple(_advise(number, results, first, drifts) for number in numbers),
        sources=sources,
        distinct_keys=hashed.distinct_keys,
        distinct_keys_error=0.0 if hashed.exact_keys else standard_error * hashed.distinct_keys,
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


def _advise(workers: int, results: Sequence[SimulationResult], first: TopKey, drifts: bool) -> Advice:
    some = [result for result in results if result.params.workers == workers]
    without = () if drifts else ("fish",)
    return Advice(
        workers=workers,
        predicted={result.params.name: Prediction.of(result) for result in some},
        recommended=recommend_simulated(some, without=without),
        verdict=advise_simulated(some, top=first if first.certain else None, without=without),
        results={result.params.name: result for result in some},
    )
