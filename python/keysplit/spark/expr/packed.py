"""The tables of a plan packed into whole numbers for Spark."""

from typing import NamedTuple

import numpy as np
from pyspark.sql import DataFrame

from keysplit.plan import Tables

LOW = (1 << 32) - 1
"""The half of a row's hash that is compared with the cut of a cell."""
LENGTH_BITS = 20
"""The bits of a run with the number of a key's cells; the higher bits have the position of the first."""


def runs_of(starts: np.ndarray, lengths: np.ndarray, first: np.ndarray | None = None) -> np.ndarray:
    """Return the start and the number of each frequent key's cells, packed into one number.

    Args:
        starts: the position of the first cell.
        lengths: the number of cells.
        first: the first worker of each key. If given, the number of an unsplit key is -1 - worker: its rows
            need neither cells nor an identity.
    """
    runs: np.ndarray = starts.astype(np.int64) << LENGTH_BITS | lengths.astype(np.int64)
    return runs if first is None else np.where(lengths == 1, -1 - first.astype(np.int64), runs)


def cells_of(tables: Tables) -> np.ndarray:
    """Return the cells: the cut, the first worker and the second worker in 32, 16 and 16 bits.

    A cut of 2**32, which exceeds every number, is written as 2**32 - 1 with the first worker twice.
    """
    whole = tables.cuts > LOW
    cuts = np.where(whole, LOW, tables.cuts).astype(np.uint64)
    first = tables.first.astype(np.uint64)
    second = np.where(whole, tables.first, tables.second).astype(np.uint64)
    return (cuts << np.uint64(32) | first << np.uint64(16) | second).view(np.int64)


class Lookup(NamedTuple):
    """The tables of a plan as SQL expressions."""

    df: DataFrame
    """The rows, perhaps with columns of the tables."""
    tail: str
    """The worker of the bucket of a row's key, INT."""
    run: str
    """The run of a frequent key as `runs_of` returns it with `first`, BIGINT, null for other keys; empty if
    no key is frequent."""
    cells: str
    """The array with the runs; empty if no cells were requested."""
    names: tuple[str, ...] = ()
    """The columns to drop at the end."""
