"""W-Choices: its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import HeadGrouping


@dataclass(frozen=True, kw_only=True)
class WChoices(HeadGrouping):
    """W-Choices: frequent keys go to the least loaded of all workers, others to the less loaded of two.

    Guarantees: a key that was never frequent is on at most two workers. On the papers' streams it has the
    lowest imbalance of its family: a few messages, at any skew.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        threshold: Share of the messages at which a key is frequent, above 0 and at most 1; 1/(5n) if None.
        sketch_capacity: Counters of the SpaceSaving sketch; the larger of 1000 and 10/threshold if None.
        distinct: Whether the two candidates of a key of the tail must be different workers.

    Source: Nasir et al., When Two Choices Are Not Enough (ICDE 2016), Algorithm 1 and section III-B.

    Deviations: none; equal loads go to the lowest worker number.

    Example:
        >>> import keysplit as ks
        >>> ks.WChoices(workers=4).router().route(["a"] * 6).tolist()
        [0, 1, 2, 3, 0, 1]
    """

    name = "w_choices"
    sends_to = "hot key: the least loaded of all; others: as `partial_key`"
    workers_per_key = "n"
