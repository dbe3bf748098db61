"""Shuffle grouping: one worker after the other."""

from .hashing import first_turn
from .model import Model


class ShuffleGrouping(Model):
    def options(self, h: int, weight: float) -> list[int]:
        return [(first_turn(self.seed, self.source, self.workers) + self.position) % self.workers]
