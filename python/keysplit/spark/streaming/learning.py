"""The driver's memory of a stream: the weights of its keys, and the speeds of its workers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from keysplit.plan import Sample, Summary, bucket_of

MOST_KEYS = 1 << 16
"""The maximum number of keys to remember; the lightest are forgotten first."""

# A key with fewer drawn rows is not frequent: its error exceeds half of its share.
_MET = 16
# A share has changed if the difference exceeds this multiple of its standard deviation.
_DEVIATIONS = 5.0
# First batches of a run to ignore: Java compiles code, Python starts, caches are empty.
_FIRST = 2
# Shorter tasks are ignored: their start takes longer than their rows.
_LEAST_S = 0.05
# A worker is slow or fast if its time per row differs from the others' by this factor.
_CLEAR = 1.3
# This many consecutive measurements must agree.
_REPEATED = 3
# The part of a difference left after a batch that does not confirm it, and after one without a measurement.
_REFUTED, _UNKNOWN = 0.5, 0.9


@dataclass(frozen=True)
class Batch:
    """The counts of a micro-batch.

    Attributes:
        number: the id of the micro-batch.
        rows: the rows of each worker counter, int64.
        hashes: the key hashes of the drawn rows, int64.
        weights: the weight of each drawn row, float64.
        repeats: how many rows each drawn row stands for, float64.
        texts: the values of some of the keys, by hash.
    """

    number: int
    rows: np.ndarray
    hashes: np.ndarray
    weights: np.ndarray
    repeats: np.ndarray
    texts: Mapping[int, tuple[str | None, ...]] = field(default_factory=dict)

    @property
    def amounts(self) -> np.ndarray:
        """The weight that each drawn row stands for."""
        amounts: np.ndarray = self.weights * self.repeats
        return amounts


class Memory:
    """The weight of keys in a stream; older batches count less than newer batches.

    For each later batch, the weights of a batch are multiplied by `decay`. Estimates are unbiased: a drawn
    row stands for 1/chance rows. There are two sums. The *recent* sum restarts if the shares of frequent keys
    in a batch differ from those in memory by more than five standard deviations, unless `decay` is 1. The
    *whole* sum never restarts, so keys that take turns are remembered.

    Args:
        bits: how many bits of a hash give its bucket.
        threshold: the share at which a key counts as frequent.
        decay: the factor on the memory after each batch, 0..=1.

    Attributes:
        threshold: the share at which a key counts as frequent; it may differ between plans.
    """

    def __init__(self, bits: int, threshold: float, decay: float) -> None:
        self._bits, self.threshold, self._decay = bits, threshold, decay
        self._hashes: np.ndarray = np.empty(0, np.int64)
        self._weights: np.ndarray = np.empty((2, 0))  # recent and whole, as below
        self._totals: np.ndarray = np.zeros(2)
        self._squares: np.ndarray = np.zeros(2)  # of the squared weights
        self._buckets: np.ndarray = np.zeros(2**bits)  # recent
        self._texts: dict[int, tuple[str | None, ...]] = {}

    @classmethod
    def of(
        cls,
        summary: Summary,
        texts: Mapping[int, tuple[str | None, ...]],
        threshold: float,
        decay: float,
    ) -> "Memory":
        """Return a memory with a summary's rows; `texts` has the values of the summary's keys, by hash."""
        made = cls(len(summary.buckets).bit_length() - 1, threshold, decay)
        made._texts.update(texts)
        if summary.total > 0:
            order = np.argsort(summary.hashes)
            made._hashes, made._weights = summary.hashes[order], np.tile(summary.counts[order], (2, 1))
            made._buckets = summary.buckets.copy()
            rows = summary.total if summary.sample is None else max(summary.sample.effective, 1.0)
            made._totals[:] = summary.total
            made._squares[:] = summary.total**2 / rows
        return made

    def add(self, batch: Batch) -> None:
        """Remember a batch."""
        if not len(batch.hashes):
            return
        amounts = batch.amounts
        hashes, at = np.unique(batch.hashes, return_inverse=True)
        counts = np.bincount(at, amounts, minlength=len(hashes))
        squares = float((amounts**2).sum())
        begins = self._decay < 1 and self._has_changed(hashes, counts, squares)
        decays = np.array([0.0 if begins else self._decay, self._decay])
        buckets = np.bincount(bucket_of(hashes, self._bits), counts, minlength=len(self._buckets))
        self._buckets = self._buckets * decays[0] + buckets
        self._totals = self._totals * decays + counts.sum()
        self._squares = self._squares * decays**2 + squares
        before = len(self._hashes)
        self._hashes, at = np.unique(np.concatenate([self._hashes, hashes]), return_inverse=True)
        weights = np.zeros((2, len(self._hashes)))
        weights[:, at[:before]] = self._weights * decays[:, np.newaxis]
        weights[:, at[before:]] += counts
        self._weights = weights
        if len(self._hashes) > MOST_KEYS:
            kept = np.sort(np.argpartition(-weights[1], MOST_KEYS)[:MOST_KEYS])
            self._hashes, self._weights = self._hashes[kept], weights[:, kept]
        self._texts.update(batch.texts)
        if len(self._texts) > 2 * MOST_KEYS:
            known = set(self._hashes.tolist())
            self._texts = {hash_: text for hash_, text in self._texts.items() if hash_ in known}

    @property
    def total(self) -> float:
        """The recent weight of all rows."""
        return float(self._totals[0])

    @property
    def effective(self) -> float:
        """The effective sample size of the recent rows, in rows of equal weight."""
        return self.total**2 / float(self._squares[0]) if self._squares[0] else 0.0

    def summary(self) -> Summary:
        """Return the frequent keys, the most frequent first, and the weight of all buckets.

        A key gets the larger of its recent share and its share of the whole. The excess over the recent share
        is added to the key's bucket and to the total, so the plan leaves room for the key's return.
        """
        frequent, counts = np.empty(0, np.int64), np.empty(0)
        if self.total:
            least = np.maximum(self.threshold * self._totals, _MET * self._squares / self._totals)
            is_frequent = self._weights >= least[:, np.newaxis]
            frequent = np.flatnonzero(is_frequent.any(axis=0))
            kept = self._weights[1] * is_frequent[1] * (self._totals[0] / self._totals[1])
            counts = np.maximum(self._weights[0], kept)[frequent]
        order = np.lexsort((self._hashes[frequent], -counts))
        frequent, counts = frequent[order], counts[order]
        hashes, buckets, rows = self._hashes[frequent], self._buckets.copy(), round(self.effective)
        np.add.at(buckets, bucket_of(hashes, self._bits), counts - self._weights[0, frequent])
        return Summary(
            total=float(buckets.sum()),
            hashes=hashes,
            counts=counts,
            errors=np.zeros(len(frequent)),
            buckets=buckets,
            sample=Sample(rows, min(1.0, rows / self.total) if self.total else 0.0, max(self.effective, 1.0)),
        )

    def text_of(self, hash_: int) -> tuple[str | None, ...]:
        """Return a key's values, or its hash if the values have not been drawn yet."""
        return self._texts.get(hash_, (f"hash {hash_ & 0xFFFF_FFFF_FFFF_FFFF:016x}",))

    def _has_changed(self, hashes: np.ndarray, counts: np.ndarray, squares: float) -> bool:
        """Return whether a batch's frequent keys differ from the recent frequent keys."""
        total, weight = self.total, float(counts.sum())
        if not total or not weight:
            return False
        frequent = self._hashes[self._weights[0] >= self.threshold * total]
        every = np.union1d(hashes[counts >= self.threshold * weight], frequent)
        now, before = (
            _shares(every, hashes, counts / weight),
            _shares(every, self._hashes, self._weights[0] / total),
        )
        share = (now + before) / 2
        variances = share * (1 - share) * (squares / weight**2 + 1 / max(self.effective, 1.0))
        return bool((np.abs(now - before) > _DEVIATIONS * np.sqrt(variances) + 1e-12).any())


class Speeds:
    """The relative speed of each worker, measured by the time per row of its tasks.

    The speed is 1 for a worker whose time per row is about the median worker's, so a task's fixed cost does
    not make workers with few rows look slow. A worker counts as slow or fast after three consecutive clear
    measurements, and the smallest difference applies. Without confirmation the speed fades to 1.

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
            times: how long each worker's tasks ran, in seconds.
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


def _shares(wanted: np.ndarray, hashes: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the share of each wanted hash; 0 for a hash that is not among the sorted hashes."""
    if not len(hashes):
        return np.zeros(len(wanted))
    at = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
    found: np.ndarray = np.where(hashes[at] == wanted, shares[at], 0.0)
    return found
