"""Rows per worker as one aggregate: a count-min sketch in which no two workers share a counter."""

import math
import struct
from functools import lru_cache

import numpy as np

from keysplit.spark.names import in_sql

MOST_COUNTS = 4096
"""Counters of a run. From twice as many workers on, neighbouring workers share one."""

_LOW = (1 << 31) - 1
# Any confidence below one half makes a sketch of one row.
_CONFIDENCE = "0.4D"
# Java's java.util.Random, by which the sketch draws its multiplier.
_MULTIPLIER, _STEP, _STATE = 0x5DEECE66D, 0xB, (1 << 48) - 1
_SEEDS = 1 << 18


def workers_per_count(workers: int) -> int:
    """Return how many neighbouring workers share a counter, a power of two."""
    return 1 << max(0, (workers - 1).bit_length() - (MOST_COUNTS - 1).bit_length())


def counters(workers: int) -> int:
    """Return how many counters there are."""
    return -(-workers // workers_per_count(workers))


def counter_in_sql(worker_column: str, workers: int) -> str:
    """Return the number of a worker's counter, INT, in SQL."""
    each = workers_per_count(workers)
    worker = in_sql(worker_column)
    return worker if each == 1 else f"shiftright({worker}, {each.bit_length() - 1})"


def together(values: np.ndarray, workers: int) -> np.ndarray:
    """Add up the values of workers that share a counter.

    Args:
        values: one per worker, at most as many as `workers`.
        workers: how many the counters are for.
    """
    return np.add.reduceat(values, np.arange(0, len(values), workers_per_count(workers)))


def counting(worker_column: str, workers: int) -> str:
    """Return the aggregate, in SQL, that counts the rows of each worker.

    Its state has a counter per worker, so it stays small however many rows and tasks there are. It is
    deterministic, as `DataFrame.observe` demands.
    """
    error, seed = _free_of_collisions(counters(workers))
    counter = counter_in_sql(worker_column, workers)
    return f"count_min_sketch({counter}, {error!r}D, {_CONFIDENCE}, {seed})"


def counted(sketch: bytes, workers: int) -> np.ndarray:
    """Return the rows of each counter, int64, from the bytes of the sketch.

    Raises:
        ValueError: if it is not the sketch that `counting` asks for.
    """
    # Spark's CountMinSketch.Version.V1: version, total, depth, width, a multiplier per row, then the rows.
    try:
        version, total, depth, width, multiplier = struct.unpack_from(">iqiiq", sketch)
        table = np.frombuffer(sketch, ">i8", width, struct.calcsize(">iqiiq")).astype(np.int64)
    except (struct.error, ValueError) as error:
        raise ValueError(f"the counts of a run cannot be read: {error}") from error
    rows: np.ndarray = table[_columns(multiplier, width, counters(workers)) % width]
    if version != 1 or depth != 1 or rows.sum() != total:
        raise ValueError("the counts of a run cannot be read: Spark has made another sketch")
    return rows


@lru_cache(maxsize=64)
def _free_of_collisions(counts: int) -> tuple[float, int]:
    """Return the relative error and the seed of a sketch whose hash tells 0 .. counts - 1 apart."""
    error = 2 / counts
    width = math.ceil(2 / error)
    seeds = np.arange(_SEEDS, dtype=np.uint64)
    states = ((seeds ^ np.uint64(_MULTIPLIER)) * np.uint64(_MULTIPLIER) + np.uint64(_STEP)) & np.uint64(
        _STATE
    )
    multipliers = (states >> np.uint64(17)).astype(np.int64) % _LOW
    # A small multiplier without a divisor in common with the width gives each number a column of its own.
    small = (multipliers * counts <= _LOW) & (np.gcd(multipliers, width) == 1) & (multipliers > 0)
    return error, int(np.flatnonzero(small)[0])


def _columns(multiplier: int, width: int, counts: int) -> np.ndarray:
    product = np.arange(counts, dtype=np.int64) * multiplier
    return ((product + (product >> 32)) & _LOW) % width
