"""D-Choices: the messages of the head choose among d candidates, d solved from the head's frequencies."""

from typing import Any

from .hashing import candidates
from .head import HeadModel
from .solver import solve_choices


class DChoices(HeadModel):
    def __init__(self, *, tolerance: float = 1e-4, **params: Any) -> None:
        super().__init__(**params)
        self.tolerance = tolerance
        self.next_solve = 0
        self.d = 0
        self.solves = 0

    def head(self, h: int) -> list[int]:
        if self.position >= self.next_solve:
            total = self.sketch.total
            counts = [count for count in self.sketch.counts if count * self.q >= total]
            self.d = solve_choices(sorted(counts, reverse=True), total, self.workers, self.tolerance)
            self.next_solve = self.position + 1 + min(10000, self.position // 8)
            self.solves += 1
        if self.d >= self.workers:
            return list(range(self.workers))
        return candidates(h, self.workers, self.d, self.distinct)
