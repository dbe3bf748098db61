"""Groupings that follow the recent frequencies of keys: FISH, FlexD, dynamic key grouping."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class Fish(Grouping):
    """FISH: a recent hot key gets workers by its frequency, a message the one that would serve it first.

    Guarantees: a key that was never hot is on at most two workers while the workers stay; a hot one on d, the
    more the hotter it is. What was frequent ``epoch_messages`` ago counts for ``decay`` of what is frequent
    now. A worker that comes or goes moves few keys, because candidates lie on a ring.

    Args:
        workers: Number of workers at the start n, 1 to 65,536.
        seed: Seed of the keys' hashes and of the ring's points, 0 to 2**64 - 1.
        epoch_messages: Messages of an epoch, 1 to 2**32.
        decay: What counts are multiplied with after each epoch, 0 (forget all) to 1 (forget nothing).
        threshold: Share of the recent messages above which a key is hot, above 0 and at most 1; 1/(4n) if
            None.
        sketch_capacity: Counters of the sketch of frequencies, 1 to 2**28.
        interval_s: Seconds after which the workers' backlogs are estimated anew, 1e-6 to 1e12.
        virtual_nodes: Points of a worker on the ring, 1 to 2**26/n.
        messages_per_s: Messages in a second, 1e-6 to 1e12, by which time goes on when the caller passes no
            ``now``.

    Source: Huang, Efficient Time-Evolving Stream Processing at Scale (arXiv 1806.00760), sections 4 and 5,
    Algorithms 1 to 3.

    Deviations: the rule for d (halved for each halving of the frequency) and the smallest d of a hot key are
    our reading, because the formulas are lost in the text that we have. Small parts of decayed counts are
    dropped. The grouping's page has the others.

    Example:
        >>> import keysplit as ks
        >>> router = ks.Fish(workers=2).router()
        >>> router.observe(service_time_s=[0.25, 0.75])  # the first worker is three times as fast
        >>> _ = router.route(["a"] * 400)
        >>> router.loads
        array([300., 100.])
    """

    name = "fish"
    paper = "Huang 2018"
    adapts_to = ("skew", "drift", "unequal workers", "changing workers")
    workers_per_key = "d"
    feedback = ("service_time_s",)
    elastic = True
    epoch_messages: int = 1000
    decay: float = 0.2
    threshold: float | None = None
    sketch_capacity: int = 1000
    interval_s: float = 10.0
    virtual_nodes: int = 100
    messages_per_s: float = 1000.0


@dataclass(frozen=True, kw_only=True)
class FlexD(Grouping):
    """FlexD: segments routed by statistics of their own; a hot key gains workers, each harder than the last.

    Guarantees: a key below the threshold in a segment goes to one worker, chosen by hash. A hot key gains its
    next worker only when its frequency reaches a bar that grows by ``growth`` with each of them, so the
    number of its workers grows with the logarithm of its frequency. Cuts of the stream change nothing at ends
    of segments; elsewhere they may, because a segment ends with its batch.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the keys' hashes, 0 to 2**64 - 1.
        segment_messages: Messages of a segment, 1 to 2**32.
        threshold: Share of a segment from which a key is hot, above 0 and at most 1; 1/(5n) if None.
        growth: What a key's bar is multiplied with for each worker that joins, above 1 and at most 1e6.
        sketch_capacity: Counters of a segment's SpaceSaving sketch, 1 to 2**28; the larger of 1000 and
            10/threshold if None.
        table_keys: Keys that stay in the table of hot keys when it is cleaned, 1 to 2**28.
        clean_interval_s: Seconds between two cleanings, 1e-6 to 1e12.
        messages_per_s: Messages in a second, 1e-6 to 1e12, by which time goes on when the caller passes no
            ``now``.

    Source: Liu, Wang, Zhou, Mao, Adaptive Key Partitioning in Distributed Stream Processing (2024), section
    4, Algorithm 1.

    Deviations: a key's bar starts at the threshold, not at its frequency: with the statistics of a whole
    segment a steady key would never rise above its own. Each router has a scheduler of its own, and a call
    assigns all its messages and holds nothing back. The grouping's page has the others.

    Example:
        >>> import keysplit as ks
        >>> keys = ks.streams.zipf(1.4, keys=10_000, messages=100_000, seed=1)
        >>> workers = ks.FlexD(workers=50).router().route(keys)
        >>> len(set(workers[keys == 0].tolist())) > 2  # workers of the hottest key
        True
    """

    name = "flexd"
    paper = "Liu et al. 2024"
    adapts_to = ("skew", "drift")
    workers_per_key = "n"
    feedback = ("loads",)
    segment_messages: int = 10_000
    threshold: float | None = None
    growth: float = 1.5
    sketch_capacity: int | None = None
    table_keys: int = 50_000
    clean_interval_s: float = 600.0
    messages_per_s: float = 1000.0


@dataclass(frozen=True, kw_only=True)
class DynamicKeyGrouping(Grouping):
    """Dynamic key grouping (DKG): two workers a key, and more for old, heavy keys whose workers are full.

    Guarantees: at most floor(100/L_s) + 1 workers a key, where L_s = 100/n + sqrt(100/n) per cent is the load
    from which a worker counts as full: 8 of 10, 30 of 50, 51 of 100. Two for all keys that did not become
    old.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the keys' hashes, 0 to 2**64 - 1.
        expected_keys: Keys that the three spaces hold, 1 to 2**28: a tenth old, four tenths teenage, the rest
            baby.
        warm_up_s: Seconds from the start in which no key gains a worker, 0 to 1e12.
        teenage_interval_s: Seconds between two promotions from baby to teenage, 1e-6 to 1e12.
        old_interval_s: Seconds between two promotions from teenage to old, 1e-6 to 1e12.
        check_interval_s: Seconds after an attempt to gain a worker before the key's next one, 0 to 1e12.
        messages_per_s: Messages in a second, 1e-6 to 1e12, by which time goes on when the caller passes no
            ``now``.

    Source: Dalabasmaz, Can, Dynamic Key Grouping: A Load Balancing Algorithm for Distributed Stream
    Processing Engines, section 4, Algorithms 1 to 6.

    Deviations: cycles run before the next message, not in a thread, and several that have passed run once.
    The maximum of workers a key is enforced for every key. The grouping's page has the others.

    Example:
        >>> import keysplit as ks
        >>> [ks.DynamicKeyGrouping(workers=n).max_workers_per_key for n in (5, 10, 20, 50, 100)]  # Table 1
        [5, 8, 14, 30, 51]
    """

    name = "dynamic_key"
    paper = "Dalabasmaz, Can"
    adapts_to = ("skew",)
    workers_per_key = "w"
    expected_keys: int = 100
    warm_up_s: float = 15.0
    teenage_interval_s: float = 15.0
    old_interval_s: float = 60.0
    check_interval_s: float = 0.0
    messages_per_s: float = 1000.0
