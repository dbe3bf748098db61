"""How much a sample of the rows says about all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True)
class Sample:
    """The rows that were counted, where they are not all.

    Guarantees: each row was drawn by chance alone, neither by its place nor by its key, so estimates are
    unbiased however the rows are sorted. The share of a key, or of a worker, is within `error_of` of the true
    one with the probability `confidence`. Weights are taken to be as unequal as those that were drawn.

    Args:
        rows: Rows that were counted.
        fraction: Their part of all rows, 0 to 1.
        effective: Rows that would say as much if all were drawn with the same chance and had equal weights.
        confidence: The probability that a share is within its error, 0 to 1.

    Example:
        >>> from keysplit.planning import Sample
        >>> sample = Sample(rows=60_000, fraction=0.01, effective=50_000.0)
        >>> round(sample.error_of(0.05), 4)
        0.0019
    """

    rows: int
    fraction: float
    effective: float
    confidence: float = 0.95

    def error_of(self, share: float) -> float:
        """By how much a share of the total, 0 to 1, may be wrong, either way.

        It is `z sqrt(share (1 - share) / effective)`, with z = 1.96 for 95 per cent.
        """
        return self.deviations() * math.sqrt(max(share * (1 - share), 0.0) / max(self.effective, 1.0))

    def deviations(self, shares: int = 1) -> float:
        """How many standard deviations the error is, if so many shares are all to be within theirs."""
        return NormalDist().inv_cdf(1 - (1 - self.confidence) / 2 / shares)
