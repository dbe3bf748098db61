"""`profile`: how skewed the keys of a stream are, how they change, and which grouping would help."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from keysplit._core import SpaceSaving
from keysplit.advice import busiest, outcome, recommend, verdict
from keysplit.groupings import grouping
from keysplit.simulation import SimulationResult, compare
from keysplit.windows import Window, Windows, overlaps, steady_overlap

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SHORT_LIST", "Advice", "Profile", "TopKey", "profile"]

SHORT_LIST = ("key", "partial_key", "d_choices", "w_choices", "fish")
"""The groupings that a profile tries: hash grouping, and what helps against skew and drift."""

_DRIFT = 0.1  # of the overlap of windows is lost to drift
_HOT_KEY_MESSAGES = 10  # a hot key has at least so many in a window: fewer come about by chance
_MOST_HOT_KEYS = 5000  # in a window; 1/(5n) for up to 1000 workers
_COUNTERS_A_HOT_KEY = 10  # of a sketch: its error is at most a tenth of the threshold
_LEAST_COUNTERS = 1000
_MESSAGES = 1 << 20  # of a column are looked at in one go
_STANDARD_ERROR = 5e-4  # of an estimated number of keys, at most: see docs/simulation.md


@dataclass(frozen=True, kw_only=True)
class TopKey:
    """A frequent key, and when it was hot.

    Attributes:
        key: its value.
        count: its messages, an upper bound.
        error: by how much `count` may be too large.
        share: `count` as a part of all messages.
        shares: its part of the messages of each window, a lower bound.
        hot: the numbers of the windows in which it was hot, ascending.
        age_messages: how long it stayed hot: from the start of the first of these windows to the end of the
            last.
        age_share: the same as a part of the stream.
    """

    key: Any
    count: int
    error: int
    share: float
    shares: tuple[float, ...] = field(repr=False)
    hot: tuple[int, ...] = field(repr=False)
    age_messages: int
    age_share: float

    @property
    def certain(self) -> bool:
        """Whether the key has at least half of `count`: of others it is not known that they are frequent."""
        return 2 * self.error <= self.count


@dataclass(frozen=True, eq=False, kw_only=True)
class Advice:
    """What to do for one number of workers.

    Attributes:
        workers: the number of workers.
        results: what each grouping of the short list did, by its name.
        recommended: the grouping to take, None where there is nothing to gain.
        verdict: what to do, in words.
    """

    workers: int
    results: Mapping[str, SimulationResult] = field(repr=False)
    recommended: str | None
    verdict: str

    @property
    def imbalance(self) -> float:
        """The imbalance of hash grouping: (largest - mean) / sum of the loads."""
        return self.results["key"].imbalance


@dataclass(frozen=True, eq=False, kw_only=True)
class Profile:
    """How skewed the keys of a stream are, how they change, and which grouping would help.

    Attributes:
        messages: the length of the stream.
        distinct_keys: how many different keys it has.
        distinct_keys_error: the standard error of that, at most; 0 where it is exact.
        threshold: a key is hot in a window if it has at least this part of its messages.
        windows: where each window starts, and at last where the stream ends, in messages.
        top: the most frequent keys of the whole stream, the most frequent first.
        hot: all keys that were hot in some window, the most frequent in the whole stream first.
        overlap: how much the most frequent keys of neighbouring windows have in common: their mean Jaccard
            index.
        overlap_of_any: the same of any two windows.
        steady_overlap: what both would be if the messages came in random order.
        drifts: whether the frequent keys change: `overlap_of_any` is below `steady_overlap` by more than 0.1.
        sources: the number of sources in the simulations.
        advice: for each number of workers, what to do.
    """

    messages: int
    distinct_keys: int
    distinct_keys_error: float
    threshold: float
    windows: tuple[int, ...] = field(repr=False)
    top: tuple[TopKey, ...] = field(repr=False)
    hot: tuple[TopKey, ...] = field(repr=False)
    overlap: float
    overlap_of_any: float
    steady_overlap: float
    drifts: bool
    sources: int
    advice: tuple[Advice, ...]

    @property
    def verdict(self) -> str:
        """What to do, in words: a line for each number of workers."""
        if len(self.advice) == 1:
            return self.advice[0].verdict
        return "\n".join(f"{each.workers:,} workers: {each.verdict}" for each in self.advice)

    @property
    def drift(self) -> str:
        """How the frequent keys change, in words."""
        if len(self.windows) < 3:
            return "too short to see a change of the frequent keys: all messages are in one window"
        if self.steady_overlap <= _DRIFT:
            return (
                "too even to see a change of the frequent keys: if messages came in random order, "
                f"windows would have {self.steady_overlap:.0%} of them in common"
            )
        compared = (
            f"of {len(self.windows) - 1} windows, neighbours have {self.overlap:.0%} of their most frequent "
            f"keys in common and any two {self.overlap_of_any:.0%}, {self.steady_overlap:.0%} if messages "
            "came in random order"
        )
        change = "the frequent keys change" if self.drifts else "the frequent keys stay"
        if not self.hot:
            return f"{change}: {compared}. No key is hot in any window"
        half = float(np.median([each.age_share for each in self.hot]))
        ages = (
            "most of them all the time" if half == 1 else f"half of them for at most {half:.0%} of the stream"
        )
        return f"{change}: {compared}. {len(self.hot):,} keys are hot in some window, {ages}"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it in terms that JSON has; keys that JSON lacks as text."""
        return {
            "messages": self.messages,
            "distinct_keys": self.distinct_keys,
            "distinct_keys_error": self.distinct_keys_error,
            "threshold": self.threshold,
            "windows": list(self.windows),
            "top": [_key_dict(each) for each in self.top],
            "hot": [_key_dict(each) for each in self.hot],
            "overlap": self.overlap,
            "overlap_of_any": self.overlap_of_any,
            "steady_overlap": self.steady_overlap,
            "drifts": self.drifts,
            "drift": self.drift,
            "sources": self.sources,
            "advice": [
                {
                    "workers": each.workers,
                    "imbalance": each.imbalance,
                    "recommended": each.recommended,
                    "verdict": each.verdict,
                    "results": {name: result.to_dict() for name, result in each.results.items()},
                }
                for each in self.advice
            ],
        }

    def __str__(self) -> str:
        from rich.console import Console

        from keysplit import tables

        console = Console(width=tables.WIDTH, file=io.StringIO(), record=True, color_system=None)
        tables.print_profile(console, self)
        return "\n".join(line.rstrip() for line in console.export_text().splitlines())


def profile(
    keys: Any,
    workers: int | Sequence[int],
    *,
    sources: int = 5,
    top: int = 20,
    windows: int = 20,
    messages: int | None = None,
) -> Profile:
    """Say in one pass how skewed the keys of a stream are, how they change, and which grouping would help.

    Memory does not grow with the stream, but for the pairs of key and worker (see `simulate`). A count is
    never too small, and too large by at most a tenth of the threshold. A key is *hot* in a window if its
    count there is at least the threshold's part of the messages: 1/(5n), n being the largest number of
    workers, but never below 1/5000. No key that has that much is missed; one that has a tenth less may count
    as hot. Windows have at least ten messages for each hot key, so that no key is hot by chance.

    The advice: the groupings of the short list (`key`, `partial_key`, `d_choices`, `w_choices`, and `fish`
    where the frequent keys change) are simulated in the same pass. Loads are *level* if the busiest worker
    has at most 1.1 times the mean. If hash grouping is level, no action is needed. Else the grouping with
    the fewest partial results among the level ones is recommended, or the most even one if none is level,
    provided that hash grouping's busiest worker has more than 1.1 times what its busiest worker has.

    Args:
        keys: a column of keys, as `Router.route` takes it, or an iterator over such columns.
        workers: the number of workers, 1 to 65,536, or several.
        sources: tasks that route, each by what it has sent itself; 5 as in the papers.
        top: how many of the most frequent keys to tell, at least 1; so many are also compared from window to
            window.
        windows: how many windows at most, at least 1; up to twice as many where the length is not known.
        messages: the length of the stream, if `keys` is an iterator and it is known.

    Returns:
        The profile; print it.

    Raises:
        TypeError: a key is of a type that no key has, or a count is not an integer.
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
    if isinstance(keys, Iterator):
        chunks = keys
    else:
        column = _column(keys)
        chunks, messages = _pieces(column), len(column)
    collected = Windows(
        length=messages,
        most=windows,
        shortest=_HOT_KEY_MESSAGES * hot_keys,
        capacity=max(_LEAST_COUNTERS, _COUNTERS_A_HOT_KEY * hot_keys),
    )
    if messages == 0:
        raise ValueError("keys must hold at least one message, got none")
    results = compare(
        _watched(chunks, collected),
        workers=numbers,
        groupings=list(SHORT_LIST),
        sources=sources,
        messages=messages,
    )
    if not collected.all:
        raise ValueError("keys must hold at least one message, got none")
    return _profile(numbers, sources, top, 1 / hot_keys, collected, results)


def _workers(workers: int | Sequence[int]) -> list[int]:
    numbers = [workers] if isinstance(workers, SupportsIndex) else list(workers)
    if not numbers:
        raise ValueError("workers must hold at least one number, got none")
    for number in numbers:
        grouping("key", workers=number)
    return list(dict.fromkeys(index(number) for number in numbers))


def _column(keys: Any) -> Any:
    """Return a column that can be sliced."""
    if hasattr(keys, "iloc"):  # pandas, which may slice by labels otherwise
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


def _watched(chunks: Iterable[Any], collected: Windows) -> Iterator[Any]:
    """Hand the chunks on, and count their keys as they pass."""
    for chunk in chunks:
        column = _column(chunk)
        collected.update(column)
        yield column


def _profile(
    numbers: Sequence[int],
    sources: int,
    top: int,
    threshold: float,
    collected: Windows,
    results: Sequence[SimulationResult],
) -> Profile:
    windows, whole = collected.all, collected.whole()
    steady = steady_overlap(windows, whole, top)
    neighbours, any_two = overlaps(windows, top)
    drifts = any_two < steady - _DRIFT
    hot: dict[Any, list[int]] = {}
    for number, window in enumerate(windows):
        for key in _hot(window, threshold):
            hot.setdefault(key, []).append(number)
    told = {key for key, _, _ in whole.top(top)} | set(hot)
    known = {key: _top_key(key, hot.get(key, []), windows, whole) for key in told}
    most = tuple(known[key] for key, _, _ in whole.top(top))
    hashed = next(result for result in results if result.params.name == "key")
    return Profile(
        messages=windows[-1].stop,
        distinct_keys=hashed.distinct_keys,
        distinct_keys_error=0.0 if hashed.exact_keys else _STANDARD_ERROR * hashed.distinct_keys,
        threshold=threshold,
        windows=(*(window.start for window in windows), windows[-1].stop),
        top=most,
        hot=tuple(sorted((known[key] for key in hot), key=lambda each: (-each.count, each.hot))),
        overlap=neighbours,
        overlap_of_any=any_two,
        steady_overlap=steady,
        drifts=drifts,
        sources=sources,
        advice=tuple(_advice(number, results, most[0], drifts) for number in numbers),
    )


def _hot(window: Window, threshold: float) -> list[Any]:
    """Return the keys that are hot; the last window may be too narrow for the threshold alone."""
    least = max(threshold * window.messages, _HOT_KEY_MESSAGES)
    most = math.ceil(2 / threshold)  # there cannot be more: counts are too large by a tenth of it at most
    return [key for key, count, _ in window.sketch.top(most) if count >= least]


def _top_key(key: Any, hot: Sequence[int], windows: Sequence[Window], whole: SpaceSaving) -> TopKey:
    count, error = whole.estimate(key)
    shares = []
    for window in windows:
        most, too_many = window.sketch.estimate(key)
        shares.append((most - too_many) / window.messages)
    age = windows[hot[-1]].stop - windows[hot[0]].start if hot else 0
    return TopKey(
        key=key,
        count=int(count),
        error=int(error),
        share=count / whole.total,
        shares=tuple(shares),
        hot=tuple(hot),
        age_messages=age,
        age_share=age / whole.total,
    )


def _advice(workers: int, results: Sequence[SimulationResult], first: TopKey, drifts: bool) -> Advice:
    by_name = {result.params.name: result for result in results if result.params.workers == workers}
    outcomes = {name: outcome(result) for name, result in by_name.items() if name != "fish" or drifts}
    recommended = recommend(busiest(by_name["key"]), outcomes)
    return Advice(
        workers=workers,
        results=by_name,
        recommended=recommended,
        verdict=verdict(
            by_name["key"],
            by_name.get(recommended or ""),
            first.key,
            first.share if first.certain else None,
        ),
    )


def _key_dict(key: TopKey) -> dict[str, Any]:
    return {
        "key": key.key if key.key is None or isinstance(key.key, bool | int | str) else str(key.key),
        "count": key.count,
        "error": key.error,
        "share": key.share,
        "shares": list(key.shares),
        "hot": list(key.hot),
        "age_messages": key.age_messages,
        "age_share": key.age_share,
    }
