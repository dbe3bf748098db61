"""Shuffle grouping (SG): its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class ShuffleGrouping(Grouping):
    """Shuffle grouping (SG): messages go to the workers in turn, regardless of their key.

    Guarantees: the numbers of messages of any two workers differ by at most 1 for each source. Every key may
    be on every worker. Weights do not affect the choice.

    Source: the baseline of all the papers, e.g. Nasir et al., When Two Choices Are Not Enough (ICDE 2016),
    section II-B.

    Deviations: the first turn depends on seed and source, so that several sources do not move in lockstep.

    Example:
        >>> import keysplit as ks
        >>> ks.ShuffleGrouping(workers=3).router().route(["a", "a", "a", "a"]).tolist()
        [0, 1, 2, 0]
    """

    name = "shuffle"
    sends_to = "the next worker in turn"
    paper = "Nasir et al. 2016"
    adapts_to = ("skew", "drift")
    workers_per_key = "n"
