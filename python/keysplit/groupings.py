"""The groupings' parameters: one frozen dataclass each, and the registry of their names.

Parameters say what a grouping is; the state of one source is a router, made from them by
[`Grouping.router`][keysplit.Grouping.router]. Equal parameters are equal objects; they print as the code that
makes them, pickle, and are checked when they are made.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from keysplit import _core


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """What all groupings have in common.

    Args:
        workers: Number of workers, 1 to 65,536. Workers are numbered from 0.
        seed: Seed of all hashes and random draws, 0 to 2**64 - 1. Sources that share a stream take the same
        seed.

    Raises:
        ValueError: If a parameter is outside its range; the message names it, its value and the range.
        TypeError: If a parameter is of the wrong type.
    """

    name: ClassVar[str]
    """Name in the registry [`GROUPINGS`][keysplit.GROUPINGS]."""

    workers: int
    seed: int = 0

    def __post_init__(self) -> None:
        """Check every parameter, and make NumPy's numbers Python's."""
        if not hasattr(self, "name"):
            raise TypeError(f"{type(self).__name__} is only what groupings share: use a class in GROUPINGS")
        parameters = self._parameters()
        _core.check(self.name, parameters)
        for name, value in parameters.items():
            if isinstance(value, np.generic):
                object.__setattr__(self, name, value.item())

    def _parameters(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def router(self, source: int = 0, snapshot: bytes | None = None) -> _core.Router:
        """Make the state of one source.

        Args:
            source: Number of the source, 0 to 2**32 - 1. It decides where this source starts to take turns
                and what it draws at random; everything else depends on the seed alone.
            snapshot: What ``Router.snapshot`` gave for the same parameters and source. The new router
                continues exactly as that one would have.

        Returns:
            A router that has sent nothing yet, or what the snapshot says.

        Raises:
            ValueError: If the snapshot is damaged or of another grouping, other parameters or another source.

        Example:
            >>> import keysplit as ks
            >>> first = ks.ShuffleGrouping(workers=3).router(source=1)
            >>> _ = first.route([1, 2])
            >>> second = ks.ShuffleGrouping(workers=3).router(source=1, snapshot=first.snapshot())
            >>> first.route([3]) == second.route([3])
            array([ True])
        """
        return _core.Router(self.name, self._parameters(), source, snapshot)


@dataclass(frozen=True, kw_only=True)
class ShuffleGrouping(Grouping):
    """Shuffle grouping (SG): messages go to the workers in turn, whatever their key.

    Guarantees: the numbers of messages of any two workers differ by at most 1 for each source. Every key
    may be on every worker. Weights do not matter for the choice.

    Source: the baseline of all the papers, e.g. Nasir et al., When Two Choices Are Not Enough (ICDE 2016),
    section II-B.

    Deviations: the first turn depends on seed and source, so that several sources do not march in step.

    Example:
        >>> import keysplit as ks
        >>> ks.ShuffleGrouping(workers=3).router().route(["a", "a", "a", "a"]).tolist()
        [0, 1, 2, 0]
    """

    name = "shuffle"


@dataclass(frozen=True, kw_only=True)
class KeyGrouping(Grouping):
    """Key grouping (KG): all messages of a key go to one worker, chosen by hash.

    Guarantees: one worker a key, for ever, the same at every source. The worker of the most frequent key gets
    at least that key's share of all messages.

    Source: the baseline of all the papers, e.g. Nasir et al., When Two Choices Are Not Enough (ICDE 2016),
    section II-B.

    Deviations: none.

    Example:
        >>> import keysplit as ks
        >>> ks.KeyGrouping(workers=10).router().route(["a", "b", "a"]).tolist()
        [7, 6, 7]
    """

    name = "key"


@dataclass(frozen=True, kw_only=True)
class PartialKeyGrouping(Grouping):
    """Partial key grouping (PKG) and Greedy-d: the least loaded of a key's first ``choices`` candidates.

    Guarantees: at most ``choices`` workers a key. With two choices the imbalance stays bounded, with high
    probability, while no key has more than 1/(5n) of the messages; above 2/n the two workers of the hottest
    key drown.

    Args:
        workers: Number of workers, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        choices: Candidates a key, 1 to 65,536; 2 is PKG, 1 is key grouping.
        distinct: Whether a key's candidates must be different workers, as in Apache Storm. The analyses let
        two coincide.

    Source: Nasir et al., The Power of Both Choices (ICDE 2015); Greedy-d in When Two Choices Are Not Enough
    (ICDE 2016), section III-B.

    Deviations: none; equal loads are decided by the order of the candidates.

    Example:
        >>> import keysplit as ks
        >>> ks.PartialKeyGrouping(workers=10).router().route(["a"] * 4).tolist()
        [7, 8, 7, 8]
    """

    name = "partial_key"
    choices: int = 2
    distinct: bool = False


@dataclass(frozen=True, kw_only=True)
class PowerOfTwoChoices(Grouping):
    """Power of two choices (PoTC): the less loaded of two workers drawn at random for every message.

    Guarantees: largest load within O(log log n) messages of the mean with high probability, whatever the
    keys. Every key may be on every worker.

    Source: Nasir et al., Load Balancing for Skewed Streams on Heterogeneous Cluster (arXiv 1705.09073),
    sections 4.3 and 6.1.1.

    Deviations: the draws come from a counter (seed, source, position of the message), so they are repeatable.

    Example:
        >>> import keysplit as ks
        >>> router = ks.PowerOfTwoChoices(workers=10).router()
        >>> len(set(router.route(["a"] * 100).tolist()))
        10
    """

    name = "power_of_two"


@dataclass(frozen=True, kw_only=True)
class _HeadGrouping(Grouping):
    """A grouping that treats frequent keys differently: its parameters for finding them."""

    threshold: float | None = None
    sketch_capacity: int | None = None
    distinct: bool = False


@dataclass(frozen=True, kw_only=True)
class RoundRobinHead(_HeadGrouping):
    """Round-Robin head: frequent keys to the workers in turn, the others to the lesser of two candidates.

    Guarantees: the messages of frequent keys are spread evenly over all workers, at most 1 apart for each
    source; a key that was never frequent is on at most two workers.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates and of the first turn, 0 to 2**64 - 1.
        threshold: Share of the messages from which a key is frequent, above 0 and at most 1; 1/(5n) if None.
        sketch_capacity: Counters of the SpaceSaving sketch; the larger of 1000 and 10/threshold if None.
        distinct: Whether the two candidates of a key must be different workers.

    Source: Nasir et al., When Two Choices Are Not Enough (ICDE 2016), section III-B.

    Deviations: none; the authors' program keeps 100 counters whatever the threshold.

    Example:
        >>> import keysplit as ks
        >>> ks.RoundRobinHead(workers=4).router().route(["a"] * 5).tolist()
        [0, 1, 2, 3, 0]
    """

    name = "round_robin"


@dataclass(frozen=True, kw_only=True)
class DChoices(_HeadGrouping):
    """D-Choices: frequent keys to the least loaded of d candidates, d as small as balance allows.

    Guarantees: at most d workers at a time for a key that is frequent, two for one that never was; d is the
    smallest number for which no set of frequent keys must overload the workers it may go to by more than
    ``tolerance`` of all messages (a necessary condition, close to what is needed). All workers where no
    smaller d does.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        threshold: Share of the messages from which a key is frequent, above 0 and at most 1; 1/(5n) if None.
        tolerance: Imbalance that is accepted, as a share of all messages, above 0 and at most 1.
        sketch_capacity: Counters of the SpaceSaving sketch; the larger of 1000 and 10/threshold if None.
        distinct: Whether the candidates of a key must be different workers.

    Source: Nasir et al., When Two Choices Are Not Enough (ICDE 2016), Algorithm 1 and section IV-A.

    Deviations: d is solved on a schedule (at growing distances, at least every 10,000 messages), not for
    every message; the authors' program checks fewer prefixes of the head and lets d fall to 1.

    Example:
        >>> import keysplit as ks
        >>> keys = ks.streams.zipf(1.4, keys=10_000, messages=100_000, seed=1)
        >>> router = ks.DChoices(workers=50).router()
        >>> _ = router.route(keys)
        >>> 2 < len(router.candidates(0)) < 50
        True
    """

    name = "d_choices"
    tolerance: float = 1e-4


@dataclass(frozen=True, kw_only=True)
class WChoices(_HeadGrouping):
    """W-Choices: frequent keys to the least loaded of all workers, the others to the lesser of two.

    Guarantees: a key that was never frequent is on at most two workers. On the papers' streams the imbalance
    is the least of its family: a few messages, whatever the skew.

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the candidates, 0 to 2**64 - 1.
        threshold: Share of the messages from which a key is frequent, above 0 and at most 1; 1/(5n) if None.
        sketch_capacity: Counters of the SpaceSaving sketch; the larger of 1000 and 10/threshold if None.
        distinct: Whether the two candidates of a key of the tail must be different workers.

    Source: Nasir et al., When Two Choices Are Not Enough (ICDE 2016), Algorithm 1 and section III-B.

    Deviations: none; equal loads go to the lowest worker number.

    Example:
        >>> import keysplit as ks
        >>> ks.WChoices(workers=4).router().route(["a"] * 6).tolist()
        [0, 1, 2, 3, 0, 1]
    """

    name = "w_choices"


GROUPINGS: dict[str, type[Grouping]] = {
    each.name: each
    for each in (
        ShuffleGrouping,
        KeyGrouping,
        PartialKeyGrouping,
        PowerOfTwoChoices,
        RoundRobinHead,
        DChoices,
        WChoices,
    )
}
"""Every grouping by its registry name."""


def grouping(name: str, *, workers: int, **parameters: Any) -> Grouping:
    """Make a grouping from its registry name.

    Args:
        name: One of the names in [`GROUPINGS`][keysplit.GROUPINGS].
        workers: Number of workers, 1 to 65,536.
        **parameters: The other parameters of the grouping's class.

    Returns:
        The grouping, equal to one made by its class.

    Raises:
        ValueError: If there is no such grouping (the message lists the names) or a parameter is out of range.
        TypeError: If the grouping has no such parameter, or one is of the wrong type.

    Example:
        >>> import keysplit as ks
        >>> ks.grouping("partial_key", workers=8, choices=3)
        PartialKeyGrouping(workers=8, seed=0, choices=3, distinct=False)
    """
    if not isinstance(name, str):
        raise TypeError(f"grouping must be a name, got {name!r}")
    if name not in GROUPINGS:
        raise ValueError(f"grouping must be one of {', '.join(GROUPINGS)}, got {name!r}")
    return GROUPINGS[name](workers=workers, **parameters)
