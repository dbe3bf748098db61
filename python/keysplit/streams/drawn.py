"""Random streams: Zipf's law and the papers' variants of it."""

from __future__ import annotations

from collections.abc import Iterator
from operator import index
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 1 << 20
"""Messages drawn at a time."""

# Floats are exact for whole numbers up to it.
_MOST_KEYS = 1 << 53
# The largest array.
_MOST_MESSAGES = (1 << 60) - 1
# Keys that a table may have, of 8 bytes each.
_MOST_IN_TABLE = 1 << 28
# The size if there are more keys: an integral gives the shares of the remaining ones to 13 digits.
_HEAD = 1 << 20


def zipf(exponent: float, keys: int, messages: int, seed: int = 0) -> NDArray[np.int64]:
    """Draw a stream whose key i (from 0) has a share proportional to 1 / (i + 1)**exponent.

    Args:
        exponent: Skew z, at least 0; 0 makes all keys equally frequent.
        keys: Number of distinct keys that may occur, 1 to 2^53. Up to 2^28, a table holds 8 bytes per key.
        messages: Length of the stream, at least 0.
        seed: Seed of the draws, at least 0.

    Returns:
        Keys from 0 (the most frequent) to ``keys - 1``; int64, shape ``(messages,)``. A longer stream starts
        with the messages of a shorter one.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If a count is not an integer.

    Source: the stream ZF of Nasir et al., When Two Choices Are Not Enough (ICDE 2016), Table I.

    Deviations: none.

    Example:
        >>> import numpy as np
        >>> keys = zipf(2.0, keys=10_000, messages=100_000, seed=1)
        >>> round(float(np.mean(keys == 0)), 2)
        0.61
    """
    blocks = zipf_chunks(exponent, keys, messages, seed)
    stream, end = np.empty(messages, dtype=np.int64), 0
    for block in blocks:
        start, end = end, end + len(block)
        stream[start:end] = block
    return stream


def zipf_chunks(exponent: float, keys: int, messages: int, seed: int = 0) -> Iterator[NDArray[np.int64]]:
    """Draw the stream of [`zipf`][keysplit.streams.zipf] in blocks, for streams larger than memory.

    Args:
        exponent: Skew z, at least 0; 0 makes all keys equally frequent.
        keys: Number of distinct keys that may occur, as in [`zipf`][keysplit.streams.zipf].
        messages: Length of the stream, at least 0.
        seed: Seed of the draws, at least 0.

    Returns:
        An iterator of int64 arrays of about a million messages each; the last array is shorter.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If a count is not an integer.

    Example:
        >>> import numpy as np
        >>> blocks = list(zipf_chunks(1.4, keys=100, messages=3_000_000, seed=1))
        >>> bool((np.concatenate(blocks) == zipf(1.4, keys=100, messages=3_000_000, seed=1)).all())
        True
    """
    if isinstance(exponent, bool) or not isinstance(exponent, int | float | np.number):
        raise TypeError(f"exponent must be a number of at least 0, got {exponent!r}")
    if not 0 <= exponent < np.inf:
        raise ValueError(f"exponent must be finite and at least 0, got {exponent!r}")
    check_counts(keys=(keys, 1, _MOST_KEYS), messages=(messages, 0, _MOST_MESSAGES), seed=(seed, 0))
    z, keys = float(exponent), index(keys)
    head = keys if keys <= _MOST_IN_TABLE else _HEAD
    cumulated = np.arange(1, head + 1, dtype=np.float64)
    np.power(cumulated, -z, out=cumulated)
    np.cumsum(cumulated, out=cumulated)
    tail = None if head == keys else _Tail(z, head, keys, float(cumulated[-1]))
    cumulated /= cumulated[-1] if tail is None else tail.total
    generator = np.random.Generator(np.random.PCG64(seed))
    lengths = (min(BLOCK, messages - start) for start in range(0, messages, BLOCK))
    cells = _Cells(cumulated)
    if tail is None:
        return (cells.search(generator.random(length)) for length in lengths)
    return (tail.search(cells, generator.random(length)) for length in lengths)


class _Tail:
    """The keys after the table of the first keys: key i (from 1) has the integral of x**-z over i -/+ 1/2.

    Args:
        z: the exponent.
        head: the number of keys in the table.
        keys: the number of all keys.
        weight: the sum of i**-z over the keys in the table.

    Attributes:
        total: the sum over all keys.
    """

    def __init__(self, z: float, head: int, keys: int, weight: float) -> None:
        self._slope, self._low, self._keys, self._weight = 1 - z, head + 0.5, keys, weight
        # The integral from `low` to x is scale * expm1(slope * log(x / low)) / slope, which is exact near z =
        # 1.
        self._scale = self._low**self._slope
        width = np.log((keys + 0.5) / self._low)
        area = np.expm1(self._slope * width) / self._slope if self._slope else width
        self.total = weight + float(self._scale * area)

    def search(self, head: _Cells, draws: np.ndarray) -> np.ndarray:
        """Return the keys (from 0) for draws from [0, 1), int64."""
        results = head.search(draws)
        behind = np.flatnonzero(results == int(self._low))
        if len(behind):
            area = np.maximum(draws[behind] * self.total - self._weight, 0.0) / self._scale
            width = np.log1p(self._slope * area) / self._slope if self._slope else area
            keys = np.ceil(self._low * np.exp(width) - 0.5).astype(np.int64) - 1
            results[behind] = np.clip(keys, int(self._low), self._keys - 1)
        return results


class _Cells:
    """`np.searchsorted(cumulated, draws, side="right")` for many draws of [0, 1), using a table.

    The interval is cut into cells. If a cell contains no value of `cumulated`, all its draws have the same
    result. Frequent keys fill most cells, so few draws need a search.

    Args:
        cumulated: the values, ascending, float64.
    """

    NUMBER = 1 << 16  # a power of two, so that a draw's cell is exact

    def __init__(self, cumulated: np.ndarray) -> None:
        edges = np.searchsorted(cumulated, np.arange(self.NUMBER + 1) / self.NUMBER, side="right")
        self._cumulated, self._results = cumulated, edges[:-1]
        self._is_cut = edges[:-1] != edges[1:]
        self._pays = bool(self._is_cut.mean() < 0.5)

    def search(self, draws: np.ndarray) -> np.ndarray:
        """Return the results, int64."""
        if not self._pays:
            return np.searchsorted(self._cumulated, draws, side="right")
        cells = (draws * self.NUMBER).astype(np.intp)
        results = self._results[cells]
        cut = np.flatnonzero(self._is_cut[cells])
        results[cut] = np.searchsorted(self._cumulated, draws[cut], side="right")
        return results


def zipf_exponent(keys: int, top_share: float) -> float:
    """Find the exponent of the Zipf distribution whose most frequent key has a given share.

    Args:
        keys: Number of distinct keys, 2 to 2^53.
        top_share: Share of the most frequent key, at least ``1 / keys`` and at most 0.999.

    Returns:
        The exponent z, for [`zipf`][keysplit.streams.zipf]: the share is met with a relative error of at most
        1e-6.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If keys is not an integer or the share is not a number.

    Source: ours, by bisection. The papers state the share of the hottest key, not the exponent.

    Example:
        >>> round(zipf_exponent(10_000, 0.0932), 3)
        0.979
    """
    check_counts(keys=(keys, 2, _MOST_KEYS))
    check_number("top_share", top_share, 1 / keys, 0.999)
    low, high = 0.0, 32.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 / _harmonic(keys, middle) < top_share else (low, middle)
    return (low + high) / 2


def zipf_evolving(
    exponent: float,
    keys: int,
    messages: int,
    seed: int = 0,
    *,
    first: float = 0.8,
    shift: int | None = None,
) -> NDArray[np.int64]:
    """Draw a Zipf stream whose hot keys change at some point.

    Before that point, key i (from 0) has a share proportional to 1 / (i + 1)**exponent, as in
    [`zipf`][keysplit.streams.zipf]. After that point, the order of the keys is reversed, so that the last key
    is the most frequent, or shifted.

    Args:
        exponent: Skew z, at least 0.
        keys: Number of distinct keys that may occur, as in [`zipf`][keysplit.streams.zipf].
        messages: Length of the stream, at least 0.
        seed: Seed of the draws, at least 0.
        first: Fraction of the stream before the change, 0 to 1.
        shift: Number of keys by which the order is shifted: after the change, key ``(i + shift) % keys`` is
            as frequent as key i was. None to reverse the order.

    Returns:
        Keys from 0 to ``keys - 1``; int64, shape ``(messages,)``.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If an argument is of the wrong type.

    Source: the time-evolving stream ZF of Efficient Time-Evolving Stream Processing at Scale (arXiv
    1806.00760), section 6.1, which reverses the order after 0.8 of the stream.

    Deviations: none; the shift is ours.

    Example:
        >>> import numpy as np
        >>> keys = zipf_evolving(2.0, keys=1_000, messages=10_000, seed=1)
        >>> hottest = [int(np.bincount(part).argmax()) for part in (keys[:8_000], keys[8_000:])]
        >>> hottest
        [0, 999]
    """
    check_number("first", first, 0, 1)
    if shift is not None:
        check_counts(shift=(shift, 0))
    stream = zipf(exponent, keys, messages, seed)
    rest = stream[round(messages * first) :]
    rest[:] = keys - 1 - rest if shift is None else (rest + shift % keys) % keys
    return stream


def zipf_drifting(
    exponent: float, keys: int, messages: int, seed: int = 0, *, periods: int = 10
) -> NDArray[np.int64]:
    """Draw a Zipf stream whose hot keys change in each of several periods.

    Args:
        exponent: Skew z, at least 0.
        keys: Number of distinct keys, 1 to 2^28 (the limit exists because the keys' order is held in memory).
        messages: Length of the stream, at least 0.
        seed: Seed of the draws, at least 0.
        periods: Number of equal parts of the stream, at least 1. In the first part, key i (from 0) has a
            share proportional to 1 / (i + 1)**exponent; in each later part the keys' order is drawn again.

    Returns:
        Keys from 0 to ``keys - 1``; int64, shape ``(messages,)``.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If an argument is of the wrong type.

    Source: ours, in place of real streams with drift, which the papers do not include (the cashtags of Nasir
    et al., When Two Choices Are Not Enough, ICDE 2016).

    Example:
        >>> import numpy as np
        >>> keys = zipf_drifting(2.0, keys=1_000, messages=10_000, seed=1, periods=2)
        >>> first, second = (np.bincount(part).argmax() for part in (keys[:5_000], keys[5_000:]))
        >>> bool(first == 0), bool(second == 0)
        (True, False)
    """
    check_counts(periods=(periods, 1), keys=(keys, 1, _MOST_IN_TABLE))
    stream = zipf(exponent, keys, messages, seed)
    orders = np.random.Generator(np.random.PCG64([seed, periods]))
    for period in range(1, periods):
        start, end = (messages * edge // periods for edge in (period, period + 1))
        stream[start:end] = orders.permutation(keys)[stream[start:end]]
    return stream


def zipf_hot_key(
    exponent: float, keys: int, messages: int, seed: int = 0, *, share: float
) -> NDArray[np.int64]:
    """Draw a Zipf stream in which one key has more messages than Zipf's law gives it.

    Args:
        exponent: Skew z, at least 0; 0 makes all other keys equally frequent.
        keys: Number of distinct keys that may occur, as in [`zipf`][keysplit.streams.zipf].
        messages: Length of the stream, at least 0.
        seed: Seed of the draws, at least 0.
        share: Fraction of the messages, drawn at random, whose key is replaced by the hot key 0; 0 to 1. The
            hot key also keeps the messages that Zipf's law gives it.

    Returns:
        Keys from 0 to ``keys - 1``; int64, shape ``(messages,)``. A longer stream starts with the messages of
        a shorter one.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If an argument is of the wrong type.

    Source: the streams country-skew of Dalabasmaz and Can, Dynamic Key Grouping, section 5.1: exponent 0 and
    204 keys, as in the authors' program.

    Deviations: keys are numbers, not the names of countries.

    Example:
        >>> import numpy as np
        >>> keys = zipf_hot_key(0.0, keys=204, messages=10_000, seed=1, share=0.8)
        >>> round(float(np.mean(keys == 0)), 1)
        0.8
    """
    check_number("share", share, 0, 1)
    stream = zipf(exponent, keys, messages, seed)
    generator = np.random.Generator(np.random.PCG64([seed, 1]))
    for start in range(0, messages, BLOCK):
        block = stream[start : start + BLOCK]
        block[generator.random(len(block)) < share] = 0
    return stream


def _harmonic(keys: int, exponent: float) -> float:
    """Sum i**-exponent for i = 1 ... keys: the first terms one by one, the rest by Euler-Maclaurin."""
    exact = min(keys, 10_000)
    total = float(np.sum(np.arange(1, exact + 1, dtype=np.float64) ** -exponent))
    if exact < keys:
        low, high = float(exact), float(keys)
        flat = abs(exponent - 1) < 1e-12
        area = (
            np.log(high / low) if flat else (high ** (1 - exponent) - low ** (1 - exponent)) / (1 - exponent)
        )
        total += float(area) + (high**-exponent - low**-exponent) / 2
    return total


def check_counts(**counts: tuple[int, int] | tuple[int, int, int]) -> None:
    """Raise an error for counts below the minimum, or above the maximum if there is one."""
    for name, (value, least, *most) in counts.items():
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise TypeError(f"{name} must be an integer of at least {least}, got {value!r}")
        if index(value) < least:
            raise ValueError(f"{name} must be at least {least}, got {value!r}")
        if most and index(value) > most[0]:
            raise ValueError(f"{name} must be in {least}..={most[0]}, got {value!r}")


def check_number(name: str, value: float, low: float, high: float) -> None:
    """Raise an error if a number is out of range."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} must be a number in {low:g}..={high:g}, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be in {low:g}..={high:g}, got {value!r}")
