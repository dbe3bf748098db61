"""D-Choices: its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import HeadGrouping


@dataclass(frozen=True, kw_only=True)
class DChoices(HeadGrouping):
    """D-Choices: frequent keys to the least loaded of d candidates, d as small as balance allows.

    Guarantees: at most d workers at a time for a frequent key, two for a key that was never frequent. d is
    the smallest number for which no set of frequent keys necessarily overloads its workers by more than
    ``tolerance`` of all messages (a necessary condition, close to a sufficient one). If no smaller d
    suffices, d is all workers.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        threshold: Share of the messages at which a key is frequent, above 0 and at most 1; 1/(5n) if None.
        tolerance: Accepted imbalance, as a fraction of all messages, above 0 and at most 1.
        sketch_capacity: Counters of the SpaceSaving sketch; the larger of 1000 and 10/threshold if None.
        distinct: Whether the candidates of a key must be different workers.

    Source: Nasir et al., When Two Choices Are Not Enough (ICDE 2016), Algorithm 1 and section IV-A.

    Deviations: d is solved on a schedule (at growing intervals of at most 10,000 messages), not for every
    message; the authors' program checks fewer prefixes of the head and lets d fall to 1.

    Example:
        >>> import keysplit as ks
        >>> keys = ks.streams.zipf(1.4, keys=10_000, messages=100_000, seed=1)
        >>> router = ks.DChoices(workers=50).router()
        >>> _ = router.route(keys)
        >>> 2 < len(router.candidates(0)) < 50
        True
    """

    name = "d_choices"
    sends_to = "hot key: the least loaded of its d candidates; others: as `partial_key`"
    workers_per_key = "d"
    tolerance: float = 1e-4
