"""FlexD: each segment is routed with its own statistics, and hot keys get more workers step by step."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .clock import ClockedModel
from .hashing import candidates, hash_key
from .model import least_loaded
from .space_saving import SpaceSaving


@dataclass
class Entry:
    """What the tables hold of a key."""

    workers: list[int]
    threshold: float
    last_hot: int = 0


class FlexD(ClockedModel):
    def __init__(
        self,
        *,
        segment_messages: int = 10_000,
        threshold: float | None = None,
        growth: float = 1.5,
        sketch_capacity: int | None = None,
        table_keys: int = 50_000,
        clean_interval_s: float = 600.0,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.segment_messages, self.growth = segment_messages, growth
        self.threshold = 1 / (20 * self.workers) if threshold is None else threshold
        self.capacity = (
            max(1000, math.ceil(10 / self.threshold)) if sketch_capacity is None else sketch_capacity
        )
        self.table_keys, self.clean_interval_s = table_keys, clean_interval_s
        self.clean_due: float | None = None
        self.table: dict[int, Entry] = {}
        self.others = [0.0] * self.workers
        self.segment = -1
        self.segment_share = 0.0
        self.sketch = SpaceSaving(self.capacity)

    def observe(
        self, now: float | None = None, loads: Sequence[float] | None = None, **feedback: Any
    ) -> None:
        super().observe(now=now, **feedback)
        if loads is not None:
            self.others = list(loads)

    def route(self, key: object, weight: float = 1, now: float | None = None) -> int:
        return self.route_batch([key], [weight], now)[0]

    def route_batch(
        self, keys: Sequence[object], weights: Sequence[float] | None = None, now: float | None = None
    ) -> list[int]:
        weights = [1] * len(keys) if weights is None else weights
        answer = []
        for begin in range(0, len(keys), self.segment_messages):
            segment = slice(begin, begin + self.segment_messages)
            self.collect(keys[segment], weights[segment], now)
            for key, weight in zip(keys[segment], weights[segment], strict=True):
                answer.append(super().route(key, weight, now))
        return answer

    def candidates(self, key: object) -> list[int]:
        twin = copy.deepcopy(self)
        worker = twin.route(key)
        entry = twin.table.get(hash_key(key, self.seed))
        if entry is None:
            return [worker]
        workers = entry.workers if len(entry.workers) < self.workers else list(range(self.workers))
        if entry.last_hot < twin.segment:  # not hot by one message alone
            workers = list(dict.fromkeys([worker, *workers]))
        return workers

    def collect(self, keys: Sequence[object], weights: Sequence[float], now: float | None) -> None:
        """Begin a segment: see all its messages before the first is sent."""
        self.arrive(now)
        assert self.start is not None
        if self.clean_due is None:
            self.clean_due = self.start + self.clean_interval_s
        if self.time >= self.clean_due or len(self.table) >= 2 * self.table_keys:
            self.clean()
        self.segment += 1
        self.segment_share = len(keys) / self.segment_messages
        self.sketch = SpaceSaving(self.capacity)
        for key, weight in zip(keys, weights, strict=True):
            self.sketch.update(hash_key(key, self.seed), weight)

    def clean(self) -> None:
        def worth(part: tuple[int, Entry]) -> tuple[int, float, int]:
            h, entry = part
            return -entry.last_hot, -entry.threshold, h

        self.table = dict(sorted(self.table.items(), key=worth)[: self.table_keys])
        self.clean_due = self.time + self.clean_interval_s

    def frequency(self, h: int) -> float:
        if self.sketch.total == 0:
            return 0.0
        count, _ = self.sketch.estimate(h)
        return count / self.sketch.total * self.segment_share

    def options(self, h: int, weight: float) -> list[int]:
        frequency = self.frequency(h)
        if frequency < self.threshold:
            self.chosen = candidates(h, self.workers, 1)[0]
            return [self.chosen]
        loads = [own + other for own, other in zip(self.loads, self.others, strict=True)]
        everyone = list(range(self.workers))
        entry = self.table.get(h)
        if entry is None:
            self.chosen = least_loaded(loads, everyone)
            entry = self.table[h] = Entry([self.chosen], self.threshold)
        elif len(entry.workers) == self.workers:
            self.chosen = least_loaded(loads, everyone)
        elif frequency < entry.threshold:
            self.chosen = least_loaded(loads, entry.workers)
        else:
            self.chosen = least_loaded(loads, [w for w in everyone if w not in entry.workers])
            entry.workers.append(self.chosen)
            entry.threshold *= self.growth
        entry.last_hot = self.segment
        return everyone if len(entry.workers) == self.workers else list(entry.workers)

    def choose(self, options: list[int], weight: float) -> int:
        return self.chosen
