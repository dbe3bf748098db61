"""Key grouping: the hashed worker."""

from .hashing import candidates
from .model import Model


class KeyGrouping(Model):
    def options(self, h: int, weight: float) -> list[int]:
        return candidates(h, self.workers, 1)
