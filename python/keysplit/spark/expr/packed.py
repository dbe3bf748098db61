"""The tables of a plan packed into whole numbers, as Spark looks them up."""

from typing import NamedTuple

import numpy as np
from pyspark.sql import DataFrame

from keysplit.plan import Tables

LOW = (1 << 32) - 1
"""The half of a row's hash that is compared with the cut of a cell."""
LENGTH_BITS = 20
"""Bits of a run that hold how many cells a key has; those above them hold where they start."""


def runs_of(starts: np.ndarray, lengths: np.ndarray, first: np.ndarray | None = None) -> np.ndarray:
    """Return where the cells of each frequent key start and how many there are, in one number each.

    Args:
        starts: where they start.
        lengths: how many there are.
        first: the first worker of each key. If it is given, the number of a key that is not split is
            -1 - worker: its rows need neither cells nor an identity.
    """
    runs: np.ndarray = starts.astype(np.int64) << LENGTH_BITS | lengths.astype(np.int64)
    return runs if first is None else np.where(lengths == 1, -1 - first.astype(np.int64), runs)


def cells_of(tables: Tables) -> np.ndarray:
    """Return the cells: cut, first and second worker in 32, 16 and 16 bits.

    A cut of 2**32, below which every number is, is written as one less with the first worker twice.
    """
    whole = tables.cuts > LOW
    cuts = np.where(whole, LOW, tables.cuts).astype(np.uint64)
    first = tables.first.astype(np.uint64)
    second = np.where(whole, tables.first, tables.second).astype(np.uint64)
    return (cuts << np.uint64(32) | first << np.uint64(16) | second).view(np.int64)


class Lookup(NamedTuple):
    """Where an expression finds the tables of a plan, in SQL."""

    df: DataFrame
    """The rows, perhaps with columns of the tables beside them."""
    tail: str
    """The worker of the bucket of a row's key, INT."""
    run: str
    """The run of a frequent key as `runs_of` returns it with `first`, BIGINT, null for all others; empty if
    no key is frequent."""
    cells: str
    """The array in which runs lie; empty if nothing was asked for."""
    names: tuple[str, ...] = ()
    """The columns to drop in the end."""
