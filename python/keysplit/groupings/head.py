"""Groupings that find the head, the frequent keys, with a sketch: Round-Robin, D-Choices, W-Choices."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class _HeadGrouping(Grouping):
    """A grouping that treats frequent keys differently: its parameters for finding them."""

    paper = "Nasir et al. 2016"
    adapts_to = ("skew",)
    threshold: float | None = None
    sketch_capacity: int | None = None
    distinct: bool = False


@dataclass(frozen=True, kw_only=True)
class RoundRobinHead(_HeadGrouping):
    """Round-Robin head: frequent keys to the workers in turn, the others to the lesser of two candidates.

    Guarantees: the messages of frequent keys are spread evenly over all workers, at most 1 apart for each
    source; a key that was never frequent is on at most two workers.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates and of the first turn, 0 to 2**64 - 1.
        threshold: Share of the messages from which a key is frequent, above 0 and at most 1; 1/(5n) if None.
        sketch_capacity: Counters of the SpaceSaving sketch; the larger of 1000 and 10/threshold if None.
        distinct: Whether the two candidates of a key must be different workers.

    Source: Nasir et al., When Two Choices Are Not Enough (ICDE 2016), section III-B.

    Deviations: none; the authors' program keeps 100 counters whatever the threshold.

    Example:
        >>> import keysplit as ks
        >>> ks.RoundRobinHead(workers=4).router().route(["a"] * 5).tolist()
        [0, 1, 2, 3, 0]
    """

    name = "round_robin"
    workers_per_key = "n"


@dataclass(frozen=True, kw_only=True)
class DChoices(_HeadGrouping):
    """D-Choices: frequent keys to the least loaded of d candidates, d as small as balance allows.

    Guarantees: at most d workers at a time for a key that is frequent, two for one that never was; d is the
    smallest number for which no set of frequent keys must overload the workers it may go to by more than
    ``tolerance`` of all messages (a necessary condition, close to what is needed). All workers where no
    smaller d does.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        threshold: Share of the messages from which a key is frequent, above 0 and at most 1; 1/(5n) if None.
        tolerance: Imbalance that is accepted, as a share of all messages, above 0 and at most 1.
        sketch_capacity: Counters of the SpaceSaving sketch; the larger of 1000 and 10/threshold if None.
        distinct: Whether the candidates of a key must be different workers.

    Source: Nasir et al., When Two Choices Are Not Enough (ICDE 2016), Algorithm 1 and section IV-A.

    Deviations: d is solved on a schedule (at growing distances, at least every 10,000 messages), not for
    every message; the authors' program checks fewer prefixes of the head and lets d fall to 1.

    Example:
        >>> import keysplit as ks
        >>> keys = ks.streams.zipf(1.4, keys=10_000, messages=100_000, seed=1)
        >>> router = ks.DChoices(workers=50).router()
        >>> _ = router.route(keys)
        >>> 2 < len(router.candidates(0)) < 50
        True
    """

    name = "d_choices"
    workers_per_key = "d"
    tolerance: float = 1e-4


@dataclass(frozen=True, kw_only=True)
class WChoices(_HeadGrouping):
    """W-Choices: frequent keys to the least loaded of all workers, the others to the lesser of two.

    Guarantees: a key that was never frequent is on at most two workers. On the papers' streams the imbalance
    is the least of its family: a few messages, whatever the skew.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        threshold: Share of the messages from which a key is frequent, above 0 and at most 1; 1/(5n) if None.
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
    workers_per_key = "n"
