"""The frequent keys of a plan, and the look-up tables for the worker of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keysplit import _core
from keysplit.plan.rules import Floats, Integers


@dataclass(frozen=True)
class FrequentKey:
    """A key that a plan places individually.

    Attributes:
        key: the key's values as text, one per key column; None is null. A plan from a sample has at most 256
            bytes of each.
        hash: the key's hash, with which rows are compared.
        count: the weight of the key's rows, an upper bound; in a plan from a sample, an estimate with the
            error of `Plan.sample`.
        error: by how much `count` may be too large, in addition to the error of a sample.
        workers: the workers of the key's rows.
        shares: the share of the key's rows that each of `workers` gets; the sum is 1.
    """

    key: tuple[str | None, ...]
    hash: int
    count: float
    error: float
    workers: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def text(self) -> str:
        """The key's values as text, separated by commas."""
        return ", ".join("null" if value is None else value for value in self.key)


def alias_cells(workers: Integers, shares: Floats) -> tuple[Integers, NDArray[np.uint32], NDArray[np.uint32]]:
    """Make a table in which one look-up finds a row's worker, with probabilities equal to the shares.

    Draw one of the cells, all equally likely, and a number below 2**32. The row goes to the cell's first
    worker if the number is below the cell's cut, otherwise to the second worker.

    Guarantees: the probability of every worker is its share within 2**-32. There are as many cells as
    workers.

    Args:
        workers: Workers of one key, distinct; int64.
        shares: The share of the key's rows per worker, with sum 1; float64.

    Returns:
        Cuts, 0 to 2**32, int64; first workers and second workers, uint32.

    Source: Walker, An Efficient Method for Generating Discrete Random Variables with General Distributions
    (ACM Transactions on Mathematical Software 3(3), 1977).

    Deviations: integers, so that the table is the same on every machine.

    Example:
        >>> import numpy as np
        >>> from keysplit.plan import alias_cells
        >>> cuts, first, second = alias_cells(np.array([3, 8]), np.array([0.25, 0.75]))
        >>> (cuts / 2**32).tolist(), first.tolist(), second.tolist()
        ([0.5, 1.0], [3, 8], [8, 8])
    """
    full, size = 2**32, len(workers)
    parts = (shares / shares.sum() * (size * full)).astype(np.int64)
    parts[np.argmax(parts)] += size * full - parts.sum()
    left = parts.tolist()
    second = list(range(size))
    lacking = [cell for cell in range(size) if left[cell] < full]
    giving = [cell for cell in range(size) if left[cell] > full]
    # An underfull cell is topped up by an overfull one and is then complete.
    while lacking:
        cell, giver = lacking.pop(), giving[-1]
        second[cell] = giver
        left[giver] -= full - left[cell]
        if left[giver] <= full:
            giving.pop()
        if left[giver] < full:
            lacking.append(giver)
    numbers = workers.astype(np.uint32)
    return np.array(left, dtype=np.int64), numbers, numbers[second]


@dataclass(frozen=True)
class Tables:
    """A plan in the form that all engines read; docs/plans.md defines how to use it."""

    tail: np.ndarray
    hashes: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    cuts: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, head: Sequence[FrequentKey], tail: np.ndarray) -> Tables:
        """Make the tables of the frequent keys and of the worker of each bucket, uint32."""
        cells = [alias_cells(np.array(each.workers), np.array(each.shares)) for each in head]
        lengths = np.array([len(each.workers) for each in head], np.uint32)
        joined = [
            np.concatenate([cell[part] for cell in cells]) if cells else np.empty(0, type_)
            for part, type_ in enumerate((np.int64, np.uint32, np.uint32))
        ]
        return cls(
            tail=tail,
            hashes=np.array([each.hash for each in head], np.int64),
            starts=(np.cumsum(lengths) - lengths).astype(np.uint32),
            lengths=lengths,
            cuts=joined[0].astype(np.int64),
            first=joined[1].astype(np.uint32),
            second=joined[2].astype(np.uint32),
        )

    def in_rust(self) -> _core.PlanTable:
        """Return the same tables as an object in Rust."""
        return _core.PlanTable(
            self.tail, self.hashes, self.starts, self.lengths, self.cuts, self.first, self.second
        )
