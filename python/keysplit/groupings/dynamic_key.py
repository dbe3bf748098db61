"""Dynamic key grouping (DKG): its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class DynamicKeyGrouping(Grouping):
    """Dynamic key grouping (DKG): two workers per key, and more for old, heavy keys whose workers are full.

    Guarantees: at most floor(100/L_s) + 1 workers per key, where L_s = 100/n + sqrt(100/n) per cent is the
    load at which a worker counts as full: 8 of 10, 30 of 50, 51 of 100. Two for all keys that were never old.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the keys' hashes, 0 to 2**64 - 1.
        expected_keys: Keys that the three spaces hold, 1 to 2**28: a tenth old, four tenths teenage, the rest
            baby.
        warm_up_s: Seconds from the start in which no key gains a worker, 0 to 1e12.
        teenage_interval_s: Seconds between two promotions from baby to teenage, 1e-6 to 1e12.
        old_interval_s: Seconds between two promotions from teenage to old, 1e-6 to 1e12.
        check_interval_s: Seconds after an attempt to gain a worker before the key's next attempt, 0 to 1e12.
        messages_per_s: Messages per second, 1e-6 to 1e12, at which time advances when the caller passes no
            ``now``.

    Source: Dalabasmaz, Can, Dynamic Key Grouping: A Load Balancing Algorithm for Distributed Stream
    Processing Engines, section 4, Algorithms 1 to 6.

    Deviations: cycles run before the next message, not in a thread, and several missed cycles run once. The
    maximum of workers per key is enforced for every key. The grouping's page lists the other deviations.

    Example:
        >>> import keysplit as ks
        >>> [ks.DynamicKeyGrouping(workers=n).max_workers_per_key for n in (5, 10, 20, 50, 100)]  # Table 1
        [5, 8, 14, 30, 51]
    """

    name = "dynamic_key"
    sends_to = "the less loaded of two neighbouring workers; an old, heavy key has more"
    paper = "Dalabasmaz, Can"
    adapts_to = ("skew",)
    workers_per_key = "w"
    expected_keys: int = 100
    warm_up_s: float = 15.0
    teenage_interval_s: float = 15.0
    old_interval_s: float = 60.0
    check_interval_s: float = 0.0
    messages_per_s: float = 1000.0
