"""A stream in windows: which keys are frequent in each, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from keysplit._core import SpaceSaving

__all__ = ["Window", "Windows", "expect_overlap", "measure_overlap"]

_DRAWS = 10  # of the whole stream
_DRAWN_KEYS = 2000  # are distinguished in a draw; others cannot be among the first few


class Window(NamedTuple):
    """A part of the stream.

    Attributes:
        start: the number of the first message, from 0.
        stop: one more than the number of the last.
        sketch: counts the keys between the two.
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

    If the length is unknown, windows start with the width `shortest`; whenever there are twice `most`,
    neighbours are merged and the width doubles. There are up to twice `most` in the end, the last narrower.

    Args:
        length: messages of the whole stream, None if unknown.
        most: maximum number of windows, at least 1.
        shortest: minimum number of messages per window, at least 1.
        capacity: counters per window's sketch.

    Source: sketches are merged as by Berinde, Indyk, Cormode, Strauss, Space-optimal Heavy Hitters with
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
        """The end of the current window; with a known length, the last one takes all that remain."""
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
        keys: how many keys of each are compared.

    Returns:
        That of neighbours and that of any two: 0 if all keys changed, 1 if none did; 1 if there are fewer
        than two windows.
    """
    tops = [{key for key, _, _ in window.sketch.top(keys)} for window in windows]
    return _mean_jaccard(pairwise(tops)), _mean_jaccard(combinations(tops, 2))


def expect_overlap(windows: Sequence[Window], whole: SpaceSaving, keys: int) -> float:
    """What `measure_overlap` would be if the messages came in random order, estimated from ten seeded draws.

    Args:
        windows: the windows, in order.
        whole: a sketch of the whole stream.
        keys: how many keys of each are compared.

    Returns:
        From 0 to 1. Below 1, because the last of the most frequent keys are hardly more frequent than the
        next ones.
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
