"""What the groupings that tell head from tail share: a sketch, the threshold, two candidates for the tail."""

import math
from abc import abstractmethod
from typing import Any

from .hashing import candidates
from .model import Model
from .space_saving import SpaceSaving


class HeadModel(Model):
    def __init__(
        self,
        *,
        threshold: float | None = None,
        sketch_capacity: int | None = None,
        distinct: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.q = 5 * self.workers if threshold is None else 1 / threshold
        capacity = max(1000, math.ceil(10 * self.q)) if sketch_capacity is None else sketch_capacity
        self.sketch = SpaceSaving(capacity)
        self.distinct = distinct

    def options(self, h: int, weight: float) -> list[int]:
        self.sketch.update(h, weight)
        count, _ = self.sketch.estimate(h)
        if count * self.q >= self.sketch.total:
            return self.head(h)
        return candidates(h, self.workers, 2, self.distinct)

    @abstractmethod
    def head(self, h: int) -> list[int]:
        """The workers that a message of the head may go to, in the order that settles ties."""
