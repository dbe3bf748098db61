"""Consistent hashing: the worker of the next point on the ring."""

from typing import Any

from .circle import walk
from .elastic import ElasticModel


class RingGrouping(ElasticModel):
    def __init__(self, *, virtual_nodes: int = 100, **common: Any) -> None:
        super().__init__(**common)
        self.virtual_nodes = virtual_nodes

    def options(self, h: int, weight: float) -> list[int]:
        return [next(walk(h, self.seed, self.present, self.virtual_nodes))]
