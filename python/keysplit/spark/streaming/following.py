"""Let an online grouping, which routes the drawn rows of batches, choose the workers of frequent keys."""

import time

import numpy as np

from keysplit.groupings import Grouping
from keysplit.plan import Summary
from keysplit.spark.streaming.learning import Batch

# A worker is busy or idle if its load is this much above or below its fair share.
_BUSY, _IDLE = 1.1, 0.9


class Following:
    """A router of an online grouping that gets the drawn rows of each micro-batch.

    The grouping keeps its memory of keys: FISH its epochs and their decay, dynamic key grouping its counts
    and promotions, PStream its synopsis, Dalton its values. The grouping also gets its feedback, as measured
    in the last batch: FISH gets each worker's time per message, consistent grouping gets busy and idle
    workers. Its choice of a key's workers applies to all rows of the next batches. Its choice among these
    workers for each row does not apply: the plan gives each worker a share instead.

    Args:
        params: the grouping.
    """

    def __init__(self, params: Grouping) -> None:
        self.params = params
        self._router = params.router(source=0)
        self._workers: dict[int, np.ndarray] = {}

    def add(self, batch: Batch, loads: np.ndarray, speeds: np.ndarray) -> None:
        """Route the drawn rows of a batch, and pass on its measurements.

        Args:
            batch: the batch.
            loads: each worker's load in the batch; none if several workers share a counter.
            speeds: the relative speed of each worker.
        """
        now = time.monotonic()
        if len(loads) == self._router.workers and loads.any():
            relative = loads / speeds * (speeds.sum() / loads.sum())
            self._router.observe(
                now=now,
                busy=np.flatnonzero(relative > _BUSY).tolist(),
                idle=np.flatnonzero(relative < _IDLE).tolist(),
                service_time_s=(1 / speeds).tolist(),
            )
        if not len(batch.hashes):
            return
        weights = batch.amounts / batch.repeats.min()  # a row counts for the rows that it stands for
        workers = self._router.route(batch.hashes, weights=weights, now=now)
        pairs = np.unique(np.stack([batch.hashes, workers.astype(np.int64)]), axis=1)
        starts = np.flatnonzero(np.diff(pairs[0], prepend=pairs[0, 0] - 1))
        groups = np.split(pairs[1], starts[1:])
        self._workers = dict(zip(pairs[0][starts].tolist(), groups, strict=True))

    def candidates(self, summary: Summary) -> list[np.ndarray]:
        """Return the workers to which each of a summary's keys was routed in the last batch."""
        return [
            self._workers[hash_]
            if hash_ in self._workers
            else np.unique(self._router.candidates(hash_)).astype(np.int64)
            for hash_ in summary.hashes.tolist()
        ]
