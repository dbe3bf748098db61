"""The base of the groupings that treat the head, the frequent keys, differently."""

from __future__ import annotations

from dataclasses import dataclass

from keysplit.groupings.base import Grouping


@dataclass(frozen=True, kw_only=True)
class HeadGrouping(Grouping):
    """A grouping that treats frequent keys differently: its parameters for finding them."""

    paper = "Nasir et al. 2016"
    adapts_to = ("skew",)
    threshold: float | None = None
    sketch_capacity: int | None = None
    distinct: bool = False
