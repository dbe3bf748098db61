"""Distribution-aware key grouping: learn the distribution, then place every key on one worker for ever."""

import heapq
import math
from typing import Any

from .hashing import candidates, place
from .model import Model
from .space_saving import SpaceSaving


class DistributionAwareKeyGrouping(Model):
    def __init__(
        self,
        *,
        learning_messages: int = 10_000,
        threshold: float | None = None,
        buckets: int | None = None,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.learning_messages = learning_messages
        self.q = 5 * self.workers if threshold is None else 1 / threshold
        self.sketch = SpaceSaving(math.ceil(2 * self.q))
        self.buckets = [0.0] * (2 * self.workers if buckets is None else buckets)
        self.worker_of_key: dict[int, int] = {}
        self.worker_of_bucket: dict[int, int] = {}

    def options(self, h: int, weight: float) -> list[int]:
        if self.position < self.learning_messages:
            self.sketch.update(h, weight)
            self.buckets[self.bucket(h)] += weight
            return candidates(h, self.workers, 1)
        if self.position == self.learning_messages:
            self.plan()
        if h in self.worker_of_key:
            return [self.worker_of_key[h]]
        return [self.worker_of_bucket[self.bucket(h)]]

    def bucket(self, h: int) -> int:
        return place(h, self.seed, 9, 0, len(self.buckets))

    def plan(self) -> None:
        heavy = [(h, count) for h, count, _ in self.sketch.counters() if count * self.q >= self.sketch.total]
        for h, count in heavy:
            self.buckets[self.bucket(h)] = max(0.0, self.buckets[self.bucket(h)] - count)
        parts = [(count, self.worker_of_key, h) for h, count in heavy]
        parts += [(count, self.worker_of_bucket, number) for number, count in enumerate(self.buckets)]
        emptiest = [(0.0, 0, worker) for worker in range(self.workers)]  # sorted, so already a heap
        for count, table, name in sorted(parts, key=lambda part: -part[0]):
            total, held, worker = heapq.heappop(emptiest)
            table[name] = worker
            heapq.heappush(emptiest, (total + count, held + 1, worker))
