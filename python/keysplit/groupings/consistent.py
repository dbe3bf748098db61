"""Consistent grouping (CG): its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class ConsistentGrouping(Grouping):
    """Consistent grouping (CG): power of random choices over virtual workers, which busy workers give up.

    Guarantees: no virtual worker exceeds (1 + epsilon) of the virtual workers' mean load, rounded up, so a
    worker's load follows the number of its virtual workers. That number follows the signals of the workers;
    the total never changes, and every worker keeps at least one. Messages sent earlier are not moved.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        virtual_workers: Virtual workers that each worker starts with, 1 to 2**26/n. More virtual workers
            follow the workers' speeds more finely but more slowly.
        epsilon: How far a virtual worker's load may exceed the mean, as a fraction of the mean, above 0 and
            at most 1000.
        slot_s: Length of a time slot in seconds, 1e-6 to 1e12; one signal per worker and slot is accepted.
        messages_per_s: Messages per second, 1e-6 to 1e12, at which time advances when the caller passes no
            ``now``.

    Source: Nasir et al., Load Balancing for Skewed Streams on Heterogeneous Cluster (arXiv 1705.09073),
    sections 5.2 and 5.3; the ideal number of virtual workers in section 6.1.2.

    Deviations: the paper leaves open which virtual worker moves; here it is the one acquired last; keys reach
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
    sends_to = "the owner of the first virtual worker that has room; busy workers hand theirs to idle ones"
    paper = "Nasir et al. 2017"
    adapts_to = ("skew", "drift", "unequal workers")
    workers_per_key = "n"
    feedback = ("busy", "idle")
    virtual_workers: int = 10
    epsilon: float = 0.01
    slot_s: float = 1.0
    messages_per_s: float = 1000.0
