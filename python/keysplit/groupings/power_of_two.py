"""Power of two choices (PoTC): its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class PowerOfTwoChoices(Grouping):
    """Power of two choices (PoTC): the less loaded of two workers drawn at random for every message.

    Guarantees: the largest load is within O(log log n) messages of the mean with high probability, for any
    keys. Every key may be on every worker.

    Source: Nasir et al., Load Balancing for Skewed Streams on Heterogeneous Cluster (arXiv 1705.09073),
    sections 4.3 and 6.1.1.

    Deviations: the draws come from a counter (seed, source, position of the message), so they are repeatable.

    Example:
        >>> import keysplit as ks
        >>> router = ks.PowerOfTwoChoices(workers=10).router()
        >>> len(set(router.route(["a"] * 100).tolist()))
        10
    """

    name = "power_of_two"
    sends_to = "the less loaded of two drawn at random"
    paper = "Nasir et al. 2017"
    adapts_to = ("skew", "drift")
    workers_per_key = "n"
