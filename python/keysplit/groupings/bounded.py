"""Groupings of consistent hashing and bounded loads: rings, power of random choices, consistent grouping."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class RingGrouping(Grouping):
    """Consistent hashing: a key goes to the next worker on a ring, where each worker has many points.

    Guarantees: one worker a key while the workers stay. A worker that leaves loses its keys and no other key
    moves; one that comes takes the keys it wins and no other key moves. Loads play no part, so a hot key
    drowns its worker.

    Args:
        workers: Number of workers at the start n, 1 to 65,536.
        seed: Seed of the keys' hashes and of the points, 0 to 2**64 - 1.
        virtual_nodes: Points of a worker on the ring, 1 to 2**26/n. More share the ring out more evenly: a
            worker's part of it deviates by about 1/sqrt(virtual_nodes) of its fair part.

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
    paper = "Karger et al. 1997"
    adapts_to = ("changing workers",)
    workers_per_key = "1"
    elastic = True
    virtual_nodes: int = 100


@dataclass(frozen=True, kw_only=True)
class BoundedRingGrouping(Grouping):
    """Consistent hashing with bounded loads: the next worker on the ring whose load is below its capacity.

    Guarantees: when a message arrives, the load of its worker is below (1 + epsilon) of the mean load,
    rounded up, at every moment, whatever the keys; loads being what was sent since a worker last came or
    went. A key whose worker has room stays there; a hot one spills over clockwise, in the end to all workers.

    Args:
        workers: Number of workers at the start n, 1 to 65,536.
        seed: Seed of the keys' hashes and of the points, 0 to 2**64 - 1.
        virtual_nodes: Points of a worker on the ring, 1 to 2**26/n.
        epsilon: How far a load may exceed the mean, as a share of the mean, above 0 and at most 1000. A
            larger one keeps keys on fewer workers.

    Source: Mirrokni, Thorup, Zadimoghaddam, Consistent Hashing with Bounded Loads (arXiv 1608.01350); epsilon
    as in Nasir et al., Load Balancing for Skewed Streams on Heterogeneous Cluster (arXiv 1705.09073),
    sections 4.2 and 7.2.

    Deviations: the mean is that of the messages sent so far, this one included. Adding or removing a worker
    starts the count of loads anew, where the original moves stored objects.

    Example:
        >>> import keysplit as ks
        >>> router = ks.BoundedRingGrouping(workers=4, epsilon=0.25).router()
        >>> _ = router.route(["a"] * 1000)
        >>> bool(router.loads.max() <= 313)  # 1.25 * 1000 / 4, rounded up
        True
    """

    name = "bounded_ring"
    paper = "Mirrokni et al. 2016"
    adapts_to = ("skew", "drift", "changing workers")
    workers_per_key = "n"
    elastic = True
    virtual_nodes: int = 100
    epsilon: float = 0.01


@dataclass(frozen=True, kw_only=True)
class PowerOfRandomChoices(Grouping):
    """Power of random choices (PoRC): the first of a key's candidates whose load is below its capacity.

    Guarantees: when a message arrives, the load of its worker is below (1 + epsilon) of the mean load,
    rounded up, at every moment, whatever the keys. A key whose first candidate has room stays there; a hot
    one spills over to workers of its own choice, in the end to all.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        epsilon: How far a load may exceed the mean, as a share of the mean, above 0 and at most 1000. A
            larger one keeps keys on fewer workers.

    Source: Nasir et al., Load Balancing for Skewed Streams on Heterogeneous Cluster (arXiv 1705.09073),
    section 5.1.

    Deviations: after 64 n candidates the least loaded of all workers takes the message (the paper has no
    end). The capacity is a whole number of weight, so weights should be about 1 or more.

    Example:
        >>> import keysplit as ks
        >>> router = ks.PowerOfRandomChoices(workers=10).router()
        >>> _ = router.route(["a"] * 1000)
        >>> bool(router.loads.max() <= 101)  # 1.01 * 1000 / 10
        True
    """

    name = "power_of_random"
    paper = "Nasir et al. 2017"
    adapts_to = ("skew", "drift")
    workers_per_key = "n"
    epsilon: float = 0.01


@dataclass(frozen=True, kw_only=True)
class ConsistentGrouping(Grouping):
    """Consistent grouping (CG): power of random choices over virtual workers, which busy workers give up.

    Guarantees: no virtual worker exceeds (1 + epsilon) of the virtual workers' mean load, rounded up, so a
    worker's load follows the number of its virtual workers. That number follows the signals of the workers;
    the total never changes and no worker is left without one. Messages sent earlier stay where they are.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        virtual_workers: Virtual workers that each worker starts with, 1 to 2**26/n. More follow the workers'
            speeds more finely and more slowly.
        epsilon: How far the load of a virtual worker may exceed the mean, as a share of it, above 0 and at
            most 1000.
        slot_s: Length of a time slot in seconds, 1e-6 to 1e12; of each worker one signal a slot is accepted.
        messages_per_s: Messages in a second, 1e-6 to 1e12, by which time goes on when the caller passes no
            ``now``.

    Source: Nasir et al., Load Balancing for Skewed Streams on Heterogeneous Cluster (arXiv 1705.09073),
    sections 5.2 and 5.3; the ideal number of virtual workers in section 6.1.2.

    Deviations: which virtual worker moves is open in the paper, here the one acquired last; keys reach
    virtual workers by numbered hashes, not on a circle. Candidates end as in power of random choices.

    Example:
        >>> import keysplit as ks
        >>> router = ks.ConsistentGrouping(workers=2).router()
        >>> router.observe(now=0.0, busy=[0], idle=[1])  # one of the 2 * 10 virtual workers moves
        >>> _ = router.route(list(range(2000)))
        >>> (router.loads / 100).round()
        array([ 9., 11.])
    """

    name = "consistent"
    paper = "Nasir et al. 2017"
    adapts_to = ("skew", "drift", "unequal workers")
    workers_per_key = "n"
    feedback = ("busy", "idle")
    virtual_workers: int = 10
    epsilon: float = 0.01
    slot_s: float = 1.0
    messages_per_s: float = 1000.0
