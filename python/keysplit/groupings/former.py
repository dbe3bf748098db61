"""Former modules, one per family of groupings, which pickles of version 1 refer to."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType

from keysplit.groupings.base import Grouping

_FAMILIES = ("adaptive", "baselines", "bounded", "head", "learned")


def keep_modules(groupings: Iterable[type[Grouping]]) -> None:
    """Export the groupings from every former module, so that old pickles load.

    Args:
        groupings: The classes.
    """
    for family in _FAMILIES:
        name = f"keysplit.groupings.{family}"
        module = sys.modules.setdefault(name, ModuleType(name, __doc__))
        for grouping in groupings:
            setattr(module, grouping.__name__, grouping)
