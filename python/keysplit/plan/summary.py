"""The summary of one pass over the keys of all rows or of a sample."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from keysplit.plan.rules import Floats, Integers


@dataclass(frozen=True)
class Sample:
    """The counted rows, if they are a sample.

    Guarantees: each row was drawn at random, regardless of its position and key, so estimates are unbiased
    for any order of rows. The share of a key, or of a worker, is within `error_of` of the true share with the
    probability `confidence`. Weights are assumed to be as unequal as those of the drawn rows.

    Args:
        rows: Rows that were counted.
        fraction: The counted rows as a fraction of all rows, 0 to 1.
        effective: The effective sample size: so many equally likely rows of equal weight have the same error.
        confidence: The probability that a share is within its error, 0 to 1.

    Example:
        >>> from keysplit.plan import Sample
        >>> sample = Sample(rows=60_000, fraction=0.01, effective=50_000.0)
        >>> round(sample.error_of(0.05), 4)
        0.0019
    """

    rows: int
    fraction: float
    effective: float
    confidence: float = 0.95

    def error_of(self, share: float) -> float:
        """The error of a share of the total, 0 to 1, in either direction.

        The error is `z sqrt(share (1 - share) / effective)`, with z = 1.96 for 95 per cent.
        """
        return self.deviations() * math.sqrt(max(share * (1 - share), 0.0) / max(self.effective, 1.0))

    def deviations(self, shares: int = 1) -> float:
        """The error in standard deviations, if this many shares are to be within their errors at once."""
        return NormalDist().inv_cdf(1 - (1 - self.confidence) / 2 / shares)


@dataclass(frozen=True)
class Summary:
    """The summary of one pass over the keys.

    Args:
        total: Weight of all rows.
        hashes: Hashes of frequent keys by descending count, equal counts by hash; int64, shape (H,).
        counts: Upper bound on the weight of each of these keys; float64, shape (H,).
        errors: Upper bound on the error of ``counts``; float64, shape (H,).
        buckets: Exact weight of all rows per bucket, frequent keys included; float64, shape (B,) with B a
            power of two.
        sample: The counted rows, if not all rows were counted; then the weights are unbiased estimates.
        heaviest: Weight of the heaviest counted row of each of ``hashes``; float64, shape (H,). None if
            unknown, for instance if all rows weigh 1.
    """

    total: float
    hashes: Integers
    counts: Floats
    errors: Floats
    buckets: Floats
    sample: Sample | None = None
    heaviest: Floats | None = None

    def with_buckets(self, bits: int) -> Summary:
        """The summary with 2**bits buckets: buckets are merged, or a bucket's rare keys spread over several.

        Example:
            >>> import numpy as np
            >>> from keysplit.plan import Summary
            >>> hashes, counts = np.array([2**62]), np.array([6.0])
            >>> summary = Summary(10.0, hashes, counts, np.zeros(1), np.array([8.0, 2.0]))
            >>> summary.with_buckets(2).buckets.tolist()
            [1.0, 7.0, 1.0, 1.0]
        """
        size, old = 2**bits, len(self.buckets)
        if size <= old:
            return replace(self, buckets=self.buckets.reshape(size, -1).sum(axis=1))
        _, rare = weights_of(self, np.arange(len(self.hashes)))
        weights = self.counts - self.errors
        own = np.bincount(bucket_of(self.hashes, bits), weights, minlength=size)
        return replace(self, buckets=np.repeat(rare * (old / size), size // old) + own)


def bucket_bits(workers: int) -> int:
    """The number b of bits of a key's hash that give its bucket; there are 2**b buckets.

    Args:
        workers: Number of workers, 1 to 65,536.

    Returns:
        The b that gives at least 64 buckets per worker, from 12 to 17.

    Example:
        >>> from keysplit.plan import bucket_bits
        >>> [bucket_bits(n) for n in (1, 64, 65, 65_536)]
        [12, 12, 13, 17]
    """
    return min(17, max(12, (64 * workers - 1).bit_length()))


def bucket_of(hashes: Integers, bits: int) -> Integers:
    """The bucket of each hash: its first bits.

    Args:
        hashes: Hashes of keys; int64, taken as unsigned.
        bits: Number of bits, 1 to 63.

    Returns:
        Numbers of buckets, 0 to 2**bits - 1; int64.

    Example:
        >>> import numpy as np
        >>> from keysplit.plan import bucket_of
        >>> bucket_of(np.array([0, 2**62, -1]), 12)
        array([   0, 1024, 4095])
    """
    return (hashes.view(np.uint64) >> np.uint64(64 - bits)).astype(np.int64)


def weights_of(summary: Summary, head: Integers) -> tuple[Floats, Floats]:
    """The guaranteed weight of each head key, and the rest of each bucket."""
    weights = summary.counts[head] - summary.errors[head]
    size = len(summary.buckets)
    buckets = bucket_of(summary.hashes[head], size.bit_length() - 1)
    return weights, np.maximum(summary.buckets - np.bincount(buckets, weights, minlength=size), 0.0)
