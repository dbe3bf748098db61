"""The modules that pickles of version 1 name: groupings stood in one for each family then."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType

from keysplit.groupings.base import Grouping

_FAMILIES = ("adaptive", "baselines", "bounded", "head", "learned")


def keep_modules(groupings: Iterable[type[Grouping]]) -> None:
    """Let every former module name the groupings, so that pickles find them.

    Args:
        groupings: The classes.
    """
    for family in _FAMILIES:
        name = f"keysplit.groupings.{family}"
        module = sys.modules.setdefault(name, ModuleType(name, __doc__))
        for grouping in groupings:
            setattr(module, grouping.__name__, grouping)
