"""PStream: sampled coin tosses find the hot keys, whose messages go to one worker after the other."""

import math
from collections import Counter
from typing import Any

from .hashing import candidates, draw, first_turn, place
from .model import Model


class PStream(Model):
    def __init__(
        self,
        *,
        coins: int = 6,
        most_coins: int = 16,
        decay: float = 0.01,
        filter_counters: int = 16_384,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.coins, self.most_coins, self.filter_counters = coins, most_coins, filter_counters
        self.period = math.floor(1 / decay)
        self.bitmaps: dict[int, int] = {}
        self.recorded: set[int] = set()
        self.filter: Counter[int] = Counter()
        self.entries = 0
        self.hot_messages = 0

    def options(self, h: int, weight: float) -> list[int]:
        heads = trailing_zeros(draw(self.seed, self.source, self.position))
        if heads >= self.coins:
            self.enter(h, min(heads, self.most_coins))
        if all(self.filter[counter] > 0 for counter in self.counters(h)):
            turn = first_turn(self.seed, self.source, self.workers) + self.hot_messages
            self.hot_messages += 1
            return [turn % self.workers]
        return candidates(h, self.workers, 1)

    def enter(self, h: int, bit: int) -> None:
        self.bitmaps[h] = self.bitmaps.get(h, 0) | 1 << bit
        if self.bitmaps[h].bit_count() >= 2 and h not in self.recorded:
            self.recorded.add(h)
            self.filter.update(self.counters(h))
        self.entries += 1
        if self.entries % self.period == 0:
            self.age()

    def age(self) -> None:
        self.bitmaps = {h: bitmap >> 1 for h, bitmap in self.bitmaps.items()}
        for h in [h for h, bitmap in self.bitmaps.items() if bitmap == 0]:
            del self.bitmaps[h]
            if h in self.recorded:
                self.recorded.remove(h)
                self.filter.subtract(self.counters(h))

    def counters(self, h: int) -> list[int]:
        """The key's places in the filter; one that comes twice counts twice."""
        return [place(h, self.seed, 10, i, self.filter_counters) for i in range(4)]


def trailing_zeros(x: int) -> int:
    return 64 if x == 0 else (x & -x).bit_length() - 1
