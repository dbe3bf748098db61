"""The groupings' parameters: one frozen dataclass each, and the registry of their names.

Parameters say what a grouping is; the state of one source is a router, made from them by
[`Grouping.router`][keysplit.groupings.Grouping.router]. Equal parameters are equal objects; they print as the
code that makes them, pickle, and are checked when they are made.
"""

from __future__ import annotations

from typing import Any

from keysplit.groupings.adaptive import DynamicKeyGrouping, Fish, FlexD
from keysplit.groupings.base import Grouping
from keysplit.groupings.baselines import KeyGrouping, PartialKeyGrouping, PowerOfTwoChoices, ShuffleGrouping
from keysplit.groupings.bounded import (
    BoundedRingGrouping,
    ConsistentGrouping,
    PowerOfRandomChoices,
    RingGrouping,
)
from keysplit.groupings.head import DChoices, RoundRobinHead, WChoices
from keysplit.groupings.learned import Dalton, DistributionAwareKeyGrouping, PStream

__all__ = [
    "GROUPINGS",
    "BoundedRingGrouping",
    "ConsistentGrouping",
    "DChoices",
    "Dalton",
    "DistributionAwareKeyGrouping",
    "DynamicKeyGrouping",
    "Fish",
    "FlexD",
    "Grouping",
    "KeyGrouping",
    "PStream",
    "PartialKeyGrouping",
    "PowerOfRandomChoices",
    "PowerOfTwoChoices",
    "RingGrouping",
    "RoundRobinHead",
    "ShuffleGrouping",
    "WChoices",
    "grouping",
]

GROUPINGS: dict[str, type[Grouping]] = {
    each.name: each
    for each in (
        ShuffleGrouping,
        KeyGrouping,
        PartialKeyGrouping,
        PowerOfTwoChoices,
        RingGrouping,
        BoundedRingGrouping,
        PowerOfRandomChoices,
        RoundRobinHead,
        DChoices,
        WChoices,
        ConsistentGrouping,
        Fish,
        FlexD,
        DynamicKeyGrouping,
        DistributionAwareKeyGrouping,
        PStream,
        Dalton,
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
