"""Dalton: a hot key learns from rewards which of its workers to prefer."""

import math
from collections import Counter, deque
from typing import Any

from .hashing import candidates, draw, onto, place
from .model import Model

EXACT_KEYS = 10_000
COLUMNS = 8192
NEW_VALUE = -2.0


class HotKey:
    """The workers that a hot key has been given, in order, with what each is worth."""

    def __init__(self, first: int) -> None:
        self.workers = [first]
        self.values = [NEW_VALUE]
        self.last_hot = 0


class Dalton(Model):
    def __init__(
        self,
        *,
        interval_messages: int = 10_000,
        learning_rate: float = 0.1,
        exploration: float = 0.1,
        max_split: int = 6,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.interval_messages, self.learning_rate = interval_messages, learning_rate
        self.exploration, self.max_split = exploration, max_split
        self.split = min(2, max_split)
        self.hot: dict[int, HotKey] = {}
        self.counts: dict[int, float] = {}
        self.count_min: Counter[tuple[int, int]] = Counter()
        self.last = float(interval_messages)
        self.this = 0.0
        self.window: deque[tuple[int, float]] = deque()
        self.window_loads = [0.0] * self.workers
        self.window_all = 0.0

    def options(self, h: int, weight: float) -> list[int]:
        interval = self.position // self.interval_messages
        if self.position > 0 and self.position % self.interval_messages == 0:
            self.begin(interval)
        self.this += weight
        if self.count(h, weight) * self.workers > self.last:
            if h not in self.hot:
                self.hot[h] = HotKey(candidates(h, self.workers, 1)[0])
            self.hot[h].last_hot = interval
        if h not in self.hot:
            worker = candidates(h, self.workers, 1)[0]
            self.slide(worker, weight)
        else:
            worker = self.pick(self.hot[h])
            self.slide(worker, weight)
            self.learn(self.hot[h], worker)
        return [worker]

    def begin(self, interval: int) -> None:
        self.last, self.this = self.this, 0.0
        self.counts.clear()
        self.count_min.clear()
        self.hot = {h: key for h, key in self.hot.items() if key.last_hot >= interval - 1}

    def count(self, h: int, weight: float) -> float:
        if h in self.counts or len(self.counts) < EXACT_KEYS:
            self.counts[h] = self.counts.get(h, 0.0) + weight
            return self.counts[h]
        places = [(i, place(h, self.seed, 11, i, COLUMNS)) for i in range(4)]
        for counter in places:
            self.count_min[counter] += weight  # type: ignore[assignment]
        return min(self.count_min[counter] for counter in places)

    def pick(self, key: HotKey) -> int:
        x = draw(self.seed, self.source, self.position)
        high, low = x >> 32, x & 0xFFFFFFFF
        if high >= self.exploration * 2**32:
            return key.workers[key.values.index(max(key.values))]
        if len(key.workers) >= self.split:
            return key.workers[onto(low, len(key.workers))]
        worker = onto(low, self.workers)
        if worker not in key.workers:
            key.workers.append(worker)
            key.values.append(NEW_VALUE)
            whole = sum(1 for other in self.hot.values() if len(other.workers) >= self.split)
            if 10 * whole >= 7 * len(self.hot) and self.split < self.max_split:
                self.split += 1
        return worker

    def slide(self, worker: int, weight: float) -> None:
        self.window.append((worker, weight))
        self.window_loads[worker] += weight
        self.window_all += weight
        if len(self.window) > self.interval_messages:
            oldest, left = self.window.popleft()
            self.window_loads[oldest] = max(0.0, self.window_loads[oldest] - left)
            self.window_all = max(0.0, self.window_all - left)
        period = self.interval_messages * math.ceil(self.workers / self.interval_messages)
        if (self.position + 1) % period == 0:
            self.window_loads, self.window_all = [0.0] * self.workers, 0.0
            for entered, its_weight in self.window:
                self.window_loads[entered] += its_weight
                self.window_all += its_weight

    def learn(self, key: HotKey, worker: int) -> None:
        load, mean = self.window_loads[worker], self.window_all / self.workers
        most = max(load, mean)
        excess = 0.0 if most == 0 else (load - mean) / most
        reward = -(0.5 * excess + 0.5 * (len(key.workers) / self.workers))
        entry = key.workers.index(worker)
        key.values[entry] = key.values[entry] + self.learning_rate * (reward - key.values[entry])
