"""Counters for the rows of each worker; if there are many workers, neighbours share a counter."""

import numpy as np

from keysplit.spark.names import in_sql

MOST_COUNTS = 4096
"""The maximum number of counters in a run. If workers are at least twice as many, neighbours share one."""


def workers_per_count(workers: int) -> int:
    """Return how many neighbouring workers share a counter: a power of two."""
    return 1 << max(0, (workers - 1).bit_length() - (MOST_COUNTS - 1).bit_length())


def counters(workers: int) -> int:
    """Return the number of counters."""
    return -(-workers // workers_per_count(workers))


def counter_in_sql(worker_column: str, workers: int) -> str:
    """Return the number of a worker's counter, INT, in SQL."""
    each = workers_per_count(workers)
    worker = in_sql(worker_column)
    return worker if each == 1 else f"shiftright({worker}, {each.bit_length() - 1})"


def together(values: np.ndarray, workers: int) -> np.ndarray:
    """Add up the values of workers that share a counter.

    Args:
        values: a value per worker, for at most `workers` workers.
        workers: the number of workers with counters.
    """
    return np.add.reduceat(values, np.arange(0, len(values), workers_per_count(workers)))
