"""Partial key grouping: the least loaded of the key's first candidates."""

from typing import Any

from .hashing import candidates
from .model import Model


class PartialKeyGrouping(Model):
    def __init__(self, *, choices: int = 2, distinct: bool = False, **common: Any) -> None:
        super().__init__(**common)
        self.choices, self.distinct = choices, distinct

    def options(self, h: int, weight: float) -> list[int]:
        return candidates(h, self.workers, self.choices, self.distinct)
