"""Consistent hashing with bounded loads: its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class BoundedRingGrouping(Grouping):
    """Consistent hashing with bounded loads: the next worker on the ring whose load is below its capacity.

    Guarantees: when a message arrives, the load of its worker is below (1 + epsilon) times the mean load,
    rounded up. This holds at every moment, for any keys. Loads count from the last time a worker joined or
    left. A key whose worker has room stays there. A hot key spills over clockwise, eventually to all workers.

    Args:
        workers: Number of workers at the start n, 1 to 65,536.
        seed: Seed of the keys' hashes and of the points, 0 to 2**64 - 1.
        virtual_nodes: Points of a worker on the ring, 1 to 2**26/n.
        epsilon: How far a load may exceed the mean, as a fraction of the mean, above 0 and at most 1000. A
            larger value keeps keys on fewer workers.

    Source: Mirrokni, Thorup, Zadimoghaddam, Consistent Hashing with Bounded Loads (arXiv 1608.01350); epsilon
    as in Nasir et al., Load Balancing for Skewed Streams on Heterogeneous Cluster (arXiv 1705.09073),
    sections 4.2 and 7.2.

    Deviations: the mean is over the messages sent so far, including the current message. Adding or removing a
    worker restarts the count of loads; the original moves stored objects instead.

    Example:
        >>> import keysplit as ks
        >>> router = ks.BoundedRingGrouping(workers=4, epsilon=0.25).router()
        >>> _ = router.route(["a"] * 1000)
        >>> bool(router.loads.max() <= 313)  # 1.25 * 1000 / 4, rounded up
        True
    """

    name = "bounded_ring"
    sends_to = "the next worker on a ring that has room"
    paper = "Mirrokni et al. 2016"
    adapts_to = ("skew", "drift", "changing workers")
    workers_per_key = "n"
    elastic = True
    virtual_nodes: int = 100
    epsilon: float = 0.01
