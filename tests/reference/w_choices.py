"""W-Choices: the messages of the head choose among all workers."""

from .head import HeadModel


class WChoices(HeadModel):
    def head(self, h: int) -> list[int]:
        return list(range(self.workers))
