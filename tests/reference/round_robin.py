"""Round-robin head: the messages of the head go to one worker after the other, whatever the loads."""

from typing import Any

from .hashing import first_turn
from .head import HeadModel


class RoundRobinHead(HeadModel):
    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self.head_messages = 0

    def head(self, h: int) -> list[int]:
        turn = first_turn(self.seed, self.source, self.workers) + self.head_messages
        self.head_messages += 1
        return [turn % self.workers]
