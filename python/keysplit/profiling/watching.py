"""Streams that are counted while something else reads them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Protocol

from keysplit._core import SpaceSaving
from keysplit.profiling.model import TopKey

__all__ = ["Frequent", "as_column", "pieces", "watched"]

_COUNTERS = 1000
_MESSAGES = 1 << 20  # of a column at a time


class Counter(Protocol):
    """Counts keys."""

    def update(self, keys: Any) -> None:
        """Count the keys of a column."""


class Frequent:
    """Counts keys to name the most frequent ones: in memory that does not grow, with errors."""

    def __init__(self) -> None:
        self._sketch = SpaceSaving(_COUNTERS)

    def update(self, keys: Any) -> None:
        """Count the keys of a column."""
        self._sketch.update(keys)

    def top(self, most: int) -> list[TopKey]:
        """Return up to so many of the most frequent keys, those only that are certain to be frequent."""
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


def watched(keys: Any, *counters: Counter) -> Any:
    """Return a stream of the same kind, whose keys are counted on the first pass."""

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
