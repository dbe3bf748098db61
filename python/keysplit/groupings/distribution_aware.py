"""Distribution-aware key grouping: its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class DistributionAwareKeyGrouping(Grouping):
    """Distribution-aware key grouping: learns the frequencies once, then assigns each key one worker.

    Guarantees: for each source, one worker per key after the learning messages, and one worker, perhaps a
    different one, before. The heaviest keys, and buckets of the other keys, are placed one after another on
    the least loaded worker. No key is split, so the worker of the hottest key gets at least that key's share
    of the messages.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the keys' hashes, 0 to 2**64 - 1.
        learning_messages: Number of messages from which the frequencies are learned, 1 to 2**53.
        threshold: Share of the learning messages at which a key is placed individually, 2**-27 to 1; 1/(5n)
            if None.
        buckets: Number of buckets into which the other keys are hashed, 1 to 2**26; 2n if None.

    Source: Rivetti, Querzoni, Anceaume, Busnel, Sericola, Efficient Key Grouping for Near-Optimal Load
    Balancing in Stream Processing Systems (DEBS 2015).

    Deviations: learning messages are routed by key grouping; the authors' program drops them. A mixing hash
    replaces the 2-universal hash. The sketch is SpaceSaving with an error of half the threshold, as in the
    paper.

    Example:
        >>> import keysplit as ks
        >>> keys = ks.streams.zipf(1.0, keys=10_000, messages=100_000, seed=1)
        >>> router = ks.DistributionAwareKeyGrouping(workers=10).router()
        >>> workers = router.route(keys)
        >>> ks.metrics.replication(keys[10_000:], workers[10_000:])
        1.0
    """

    name = "distribution_aware"
    sends_to = "the worker assigned by a plan that is learned from the first messages"
    paper = "Rivetti et al. 2015"
    workers_per_key = "2"
    learning_messages: int = 10_000
    threshold: float | None = None
    buckets: int | None = None
