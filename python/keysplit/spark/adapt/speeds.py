"""How fast workers are, by how long their tasks took."""

import numpy as np

# Tasks that ran for less say little: the start of a task counts for more than its rows.
_LEAST_S = 0.05
# A worker is slow or fast if its time per row differs from that of the others by this factor.
_CLEAR = 1.3
# What a new measurement counts for.
_WEIGHT = 0.5


class Speeds:
    """The relative speed of each worker, measured by the time per row of its tasks.

    It is 1 for a worker whose time per row is about that of the median worker, and follows the measurement
    where the difference is clear, so that a task's fixed cost does not make workers with few rows look slow.

    Args:
        workers: the number of workers.
    """

    def __init__(self, workers: int) -> None:
        self._times = np.ones(workers)

    def add(self, rows: np.ndarray, times: np.ndarray) -> None:
        """Add a batch.

        Args:
            rows: the rows of each worker.
            times: how long the tasks of each ran, in seconds.
        """
        known = (rows > 0) & (times >= _LEAST_S)
        if known.sum() < 2:
            return
        relative = times[known] / rows[known]
        relative /= np.median(relative)
        relative[(relative < _CLEAR) & (relative > 1 / _CLEAR)] = 1.0
        self._times[known] += _WEIGHT * (relative - self._times[known])

    @property
    def relative(self) -> np.ndarray:
        """The relative speeds, float64."""
        speeds: np.ndarray = 1 / self._times
        return speeds
