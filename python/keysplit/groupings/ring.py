"""Consistent hashing: its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class RingGrouping(Grouping):
    """Consistent hashing: a key goes to the next worker on a ring, where each worker has many points.

    Guarantees: one worker per key while the set of workers does not change. When a worker leaves, only its
    keys move. When a worker joins, only the keys that it takes over move. Loads are ignored, so a hot key
    overloads its worker.

    Args:
        workers: Number of workers at the start n, 1 to 65,536.
        seed: Seed of the keys' hashes and of the points, 0 to 2**64 - 1.
        virtual_nodes: Points of a worker on the ring, 1 to 2**26/n. More points divide the ring more evenly:
            a worker's part deviates from its fair share by about 1/sqrt(virtual_nodes) of that share.

    Source: Karger et al., Consistent Hashing and Random Trees (STOC 1997); virtual workers as in Nasir et
    al., Load Balancing for Skewed Streams on Heterogeneous Cluster (arXiv 1705.09073), section 4.2.

    Deviations: none; the default of 100 points is ours.

    Example:
        >>> import keysplit as ks
        >>> keys = list(range(1000))
        >>> router = ks.RingGrouping(workers=4).router()
        >>> before = router.route(keys)
        >>> router.remove_worker(2)
        >>> after = router.route(keys)
        >>> set(before[before != after].tolist())  # the keys that have moved were on worker 2
        {2}
    """

    name = "ring"
    sends_to = "the next worker on a ring"
    paper = "Karger et al. 1997"
    adapts_to = ("changing workers",)
    workers_per_key = "1"
    elastic = True
    virtual_nodes: int = 100
