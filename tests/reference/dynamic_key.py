"""Dynamic key grouping: the hottest of three generations of keys get more workers, one at a time."""

import math
from dataclasses import dataclass
from typing import Any

from .clock import ClockedModel
from .hashing import candidates
from .model import least_loaded


@dataclass(eq=False)
class Item:
    h: int
    choices: int
    count: float = 0.0
    last_seen: float = 0.0
    checked: float | None = None


Space = list[Item]


def order(item: Item) -> tuple[float, float, int]:
    return -item.count, -item.last_seen, item.h


class DynamicKeyGrouping(ClockedModel):
    def __init__(
        self,
        *,
        expected_keys: int = 100,
        warm_up_s: float = 15.0,
        teenage_interval_s: float = 15.0,
        old_interval_s: float = 60.0,
        check_interval_s: float = 0.0,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.old: Space = []
        self.teenage: Space = []
        self.baby: Space = []
        tenth, four_tenths = expected_keys // 10, 4 * expected_keys // 10
        self.old_size, self.teenage_size = max(1, tenth), max(1, four_tenths)
        self.baby_size = max(1, expected_keys - tenth - four_tenths)
        self.warm_up_s, self.check_interval_s = warm_up_s, check_interval_s
        self.teenage_interval_s, self.old_interval_s = teenage_interval_s, old_interval_s
        self.teenage_due: float | None = None
        self.old_due: float | None = None
        self.sent = 0.0
        share = 100 / self.workers
        self.threshold = share + math.sqrt(share)
        self.most = min(self.workers, math.floor(100 / self.threshold) + 1)

    def options(self, h: int, weight: float) -> list[int]:
        self.promote_what_is_due()
        item = self.find(h)
        item.count += weight
        item.last_seen = self.time
        self.scale(item)
        self.sent += weight
        return self.workers_of(item)

    def workers_of(self, item: Item) -> list[int]:
        first = candidates(item.h, self.workers, 1)[0]
        return [(first + i) % self.workers for i in range(item.choices)]

    def find(self, h: int) -> Item:
        for item in self.old + self.teenage + self.baby:
            if item.h == h:
                return item
        item = Item(h, choices=min(2, self.workers))
        self.baby.append(item)
        return item

    # Scaling out and down

    def scale(self, item: Item) -> None:
        limit = self.threshold * self.sent / 100
        assert self.start is not None
        while True:
            options = self.workers_of(item)
            best = least_loaded(self.loads, options)
            if (
                self.time - self.start > self.warm_up_s
                and self.loads[best] >= limit
                and item in self.old
                and item.choices < self.most
                and (item.checked is None or self.time - item.checked >= self.check_interval_s)
            ):
                item.checked = self.time
                following = (options[0] + item.choices) % self.workers
                if self.loads[following] < self.loads[best]:
                    item.choices += 1
                return
            below = [worker for worker in options if self.loads[worker] < limit]
            if item.choices <= 2 or len(below) < 2:
                return
            item.choices -= 1

    # Generations

    def promote_what_is_due(self) -> None:
        assert self.start is not None
        if self.teenage_due is None or self.old_due is None:
            self.teenage_due = self.start + self.teenage_interval_s
            self.old_due = self.start + self.old_interval_s
        if self.time >= self.teenage_due:
            self.baby = sorted(self.baby, key=order)[: self.baby_size]
            promote(self.baby, self.teenage, self.teenage_size)
            self.teenage_due = later(self.teenage_due, self.time, self.teenage_interval_s)
        if self.time >= self.old_due:
            promote(self.teenage, self.old, self.old_size)
            self.old_due = later(self.old_due, self.time, self.old_interval_s)


def later(due: float, time: float, interval_s: float) -> float:
    return due + (math.floor((time - due) / interval_s) + 1) * interval_s


def promote(source: Space, destination: Space, size: int) -> None:
    while source and len(destination) < size:
        move(min(source, key=order), source, destination)
    for _ in range(len(destination)):
        if not source:
            return
        first, last = min(source, key=order), max(destination, key=order)
        if first.count <= last.count:
            return
        move(first, source, destination)
        move(last, destination, source)


def move(item: Item, source: Space, destination: Space) -> None:
    source.remove(item)
    destination.append(item)
