"""A key's workers and shares as a table in which one look-up finds the worker of a row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keysplit.planning.rules import Floats, Integers


def alias_cells(workers: Integers, shares: Floats) -> tuple[Integers, NDArray[np.uint32], NDArray[np.uint32]]:
    """A table in which one look-up finds the worker of a row, with probabilities equal to the shares.

    Draw one of the cells, all equally likely, and a number below 2**32: the cell's first worker if the number
    is below its cut, else its second.

    Guarantees: the probability of every worker is its share within 2**-32. There are as many cells as
    workers.

    Args:
        workers: Workers of one key, distinct; int64.
        shares: The share of its rows per worker, with sum 1; float64.

    Returns:
        Cuts, 0 to 2**32, int64; first workers and second workers, uint32.

    Source: Walker, An Efficient Method for Generating Discrete Random Variables with General Distributions
    (ACM Transactions on Mathematical Software 3(3), 1977).

    Deviations: whole numbers, so that the table is the same on every machine.

    Example:
        >>> import numpy as np
        >>> from keysplit.planning import alias_cells
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
