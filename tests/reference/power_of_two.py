"""Power of two choices: the less loaded of two workers drawn for each message, whatever its key."""

from .hashing import draw, halves
from .model import Model


class PowerOfTwoChoices(Model):
    def options(self, h: int, weight: float) -> list[int]:
        return halves(draw(self.seed, self.source, self.position), self.workers)
