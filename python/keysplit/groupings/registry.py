"""The registry: every grouping of the core, with the class of its parameters."""

from __future__ import annotations

from typing import Any

from keysplit import _core
from keysplit.groupings.base import Grouping, find
from keysplit.groupings.former import keep_modules

GROUPINGS: dict[str, type[Grouping]] = {name: find(name) for name in _core.groupings()}
"""Every grouping by its registry name, in the order of the registry in rust/core/src/groupings/mod.rs."""

keep_modules(GROUPINGS.values())


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
