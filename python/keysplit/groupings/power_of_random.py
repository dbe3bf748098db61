"""Power of random choices (PoRC): its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class PowerOfRandomChoices(Grouping):
    """Power of random choices (PoRC): the first of a key's candidates whose load is below its capacity.

    Guarantees: when a message arrives, the load of its worker is below (1 + epsilon) times the mean load,
    rounded up. This holds at every moment, for any keys. A key whose first candidate has room stays there. A
    hot key spills over to its further candidates, eventually to all workers.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        epsilon: How far a load may exceed the mean, as a fraction of the mean, above 0 and at most 1000. A
            larger value keeps keys on fewer workers.

    Source: Nasir et al., Load Balancing for Skewed Streams on Heterogeneous Cluster (arXiv 1705.09073),
    section 5.1.

    Deviations: after 64 n candidates the least loaded of all workers takes the message (the paper's sequence
    has no end). The capacity is a whole number, so weights should be about 1 or more.

    Example:
        >>> import keysplit as ks
        >>> router = ks.PowerOfRandomChoices(workers=10).router()
        >>> _ = router.route(["a"] * 1000)
        >>> bool(router.loads.max() <= 101)  # 1.01 * 1000 / 10
        True
    """

    name = "power_of_random"
    sends_to = "the first of the key's candidates that has room"
    paper = "Nasir et al. 2017"
    adapts_to = ("skew", "drift")
    workers_per_key = "n"
    epsilon: float = 0.01
