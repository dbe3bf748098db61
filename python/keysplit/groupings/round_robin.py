"""Round-Robin head: its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import HeadGrouping


@dataclass(frozen=True, kw_only=True)
class RoundRobinHead(HeadGrouping):
    """Round-Robin head: frequent keys go to the workers in turn, others to the less loaded of two.

    Guarantees: the messages of frequent keys are spread evenly over all workers, at most 1 apart for each
    source; a key that was never frequent is on at most two workers.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates and of the first turn, 0 to 2**64 - 1.
        threshold: Share of the messages at which a key is frequent, above 0 and at most 1; 1/(5n) if None.
        sketch_capacity: Counters of the SpaceSaving sketch; the larger of 1000 and 10/threshold if None.
        distinct: Whether the two candidates of a key must be different workers.

    Source: Nasir et al., When Two Choices Are Not Enough (ICDE 2016), section III-B.

    Deviations: none; the authors' program keeps 100 counters for any threshold.

    Example:
        >>> import keysplit as ks
        >>> ks.RoundRobinHead(workers=4).router().route(["a"] * 5).tolist()
        [0, 1, 2, 3, 0]
    """

    name = "round_robin"
    sends_to = "hot key: the next in turn; others: as `partial_key`"
    workers_per_key = "n"
