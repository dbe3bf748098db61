"""FISH: its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class Fish(Grouping):
    """FISH: recently hot keys get workers by frequency; a message goes to the one that would serve it first.

    Guarantees: while the set of workers does not change, a key that was never hot is on at most two workers.
    A hot key is on d workers, and d grows with its frequency. Counts from one epoch ago are weighted by
    ``decay``. A worker that joins or leaves moves few keys, because candidates are on a ring.

    Args:
        workers: Number of workers at the start n, 1 to 65,536.
        seed: Seed of the keys' hashes and of the ring's points, 0 to 2**64 - 1.
        epoch_messages: Messages of an epoch, 1 to 2**32.
        decay: Factor by which counts are multiplied after each epoch, 0 (forget all) to 1 (forget nothing).
        threshold: Share of the recent messages above which a key is hot, above 0 and at most 1; 1/(4n) if
            None.
        deviations: Standard deviations by which the count of a hot key exceeds that of a key whose share is
            ``threshold``, 0 to 1000, so that few keys are hot by chance.
        sketch_capacity: Counters of the sketch of frequencies, 1 to 2**28.
        interval_s: Seconds after which the workers' backlogs are estimated again, 1e-6 to 1e12.
        virtual_nodes: Points of a worker on the ring, 1 to 2**26/n.
        messages_per_s: Messages per second, 1e-6 to 1e12, at which time advances when the caller passes no
            ``now``.

    Source: Huang, Efficient Time-Evolving Stream Processing at Scale (arXiv 1806.00760), sections 4 and 5,
    Algorithms 1 to 3.

    Deviations: the paper calls every key above ``threshold`` hot. The rule for d (halved for each halving of
    the frequency) and the smallest d of a hot key are our reading, because the formulas are missing in the
    text available to us. Small parts of decayed counts are dropped. The grouping's page lists the other
    deviations.

    Example:
        >>> import keysplit as ks
        >>> router = ks.Fish(workers=2).router()
        >>> router.observe(service_time_s=[0.25, 0.75])  # the first worker is three times as fast
        >>> _ = router.route(["a"] * 400)
        >>> router.loads
        array([300., 100.])
    """

    name = "fish"
    sends_to = "the one of the key's d workers that would serve it first; d depends on the recent frequency"
    paper = "Huang 2018"
    adapts_to = ("skew", "drift", "unequal workers", "changing workers")
    workers_per_key = "d"
    feedback = ("service_time_s",)
    elastic = True
    epoch_messages: int = 1000
    decay: float = 0.2
    threshold: float | None = None
    deviations: float = 3.0
    sketch_capacity: int = 1000
    interval_s: float = 10.0
    virtual_nodes: int = 100
    messages_per_s: float = 1000.0

    @classmethod
    def _meant(cls, parameters: dict[str, Any], version: int) -> dict[str, Any]:
        """Before version 3 all keys above the threshold were hot."""
        return {"deviations": 0.0, **parameters} if version < 3 else parameters
