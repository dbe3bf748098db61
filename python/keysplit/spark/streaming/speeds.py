"""How fast workers are, by how long their tasks took."""

import numpy as np

# Batches of a run that say nothing: Java compiles code, Python starts, caches are empty.
_FIRST = 2
# Tasks that ran for less say little: the start of a task counts for more than its rows.
_LEAST_S = 0.05
# A worker is slow or fast if its time per row differs from that of the others by this factor.
_CLEAR = 1.3
# So many measurements in a row must say so.
_REPEATED = 3
# What is left of a difference after a batch that does not confirm it, and after one that says nothing of it.
_REFUTED, _UNKNOWN = 0.5, 0.9


class Speeds:
    """The relative speed of each worker, measured by the time per row of its tasks.

    It is 1 for a worker whose time per row is about that of the median worker, so that a task's fixed cost
    does not make workers with few rows look slow. A worker counts as slow or fast once three measurements in
    a row say so clearly, by the least of them. What later batches do not confirm fades to 1.

    Args:
        workers: the number of workers.
    """

    def __init__(self, workers: int) -> None:
        self._times: np.ndarray = np.zeros(workers)  # logarithms of relative times per row
        self._last: np.ndarray = np.zeros((_REPEATED, workers))  # the last measurements, as logarithms
        self._left_out = 0

    def add(self, rows: np.ndarray, times: np.ndarray) -> None:
        """Add a batch.

        Args:
            rows: the rows of each worker.
            times: how long the tasks of each ran, in seconds.
        """
        if self._left_out < _FIRST:
            self._left_out += 1
            return
        known = (rows > 0) & (times >= _LEAST_S)
        if known.sum() < 2:
            known[:] = False
        else:
            per_row = np.log(times[known] / rows[known])
            self._last[:, known] = np.roll(self._last[:, known], -1, axis=0)
            self._last[-1, known] = per_row - np.median(per_row)
        least = np.abs(self._last).min(axis=0) * np.sign(self._last[-1])
        alike = (np.sign(self._last) == np.sign(self._last[-1])).all(axis=0)
        clear = known & alike & (np.abs(least) >= np.log(_CLEAR))
        self._times *= np.where(known, _REFUTED, _UNKNOWN)
        self._times[clear] = least[clear]

    @property
    def relative(self) -> np.ndarray:
        """The relative speeds, float64."""
        speeds: np.ndarray = np.exp(-self._times)
        return speeds
