"""FISH: recently hot keys get more workers on the ring; the one that will be free first takes the message."""

import math
import sys
from collections.abc import Sequence
from typing import Any

from .circle import walk
from .clock import ClockedModel
from .elastic import ElasticModel
from .space_saving import SpaceSaving


class Fish(ClockedModel, ElasticModel):
    def __init__(
        self,
        *,
        epoch_messages: int = 1000,
        decay: float = 0.2,
        threshold: float | None = None,
        deviations: float = 3.0,
        sketch_capacity: int = 1000,
        interval_s: float = 10.0,
        virtual_nodes: int = 100,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.epoch_messages, self.decay, self.threshold = epoch_messages, decay, threshold
        self.deviations = deviations
        self.virtual_nodes = virtual_nodes
        self.sketch = SpaceSaving(sketch_capacity)
        self.remembered: list[int] = []  # M of each slot of the sketch
        self.epoch_weight = 0.0
        self.next_look, self.top, self.least = 0, 0.0, 2
        self.earlier = 0.0  # messages, decayed
        self.waiting = Waiting(self.present, interval_s)

    def arrive(self, now: float | None) -> None:
        super().arrive(now)
        self.waiting.pass_time(self.start, self.time)

    def observe(
        self,
        now: float | None = None,
        service_time_s: float | Sequence[float] | None = None,
        **feedback: Any,
    ) -> None:
        super().observe(now=now, **feedback)
        if now is None:  # else it has passed: a second call may find one more interval, by rounding
            self.waiting.pass_time(self.start, self.time)
        if service_time_s is not None:
            self.waiting.learn(service_time_s)

    def options(self, h: int, weight: float) -> list[int]:
        if self.position > 0 and self.position % self.epoch_messages == 0:
            self.earlier = (self.earlier + self.epoch_messages) * self.decay
            if self.decay < 1:
                self.forget()
            self.epoch_weight = 0.0
        self.epoch_weight += weight
        self.count(h, weight)
        choices = self.choices(h)
        if choices == self.workers:
            return self.present
        found: dict[int, None] = {}  # in the order in which they were met
        for worker in walk(h, self.seed, self.present, self.virtual_nodes):
            if len(found) == choices:
                break
            found[worker] = None
        return list(found)

    def choose(self, options: list[int], weight: float) -> int:
        waiting = [self.waiting.waiting_time(worker) for worker in options]
        worker = options[waiting.index(min(waiting))]
        self.waiting.sent[worker] += weight
        return worker

    # Epoch counting

    def forget(self) -> None:
        mean = self.epoch_weight / self.epoch_messages
        self.sketch.counts = [decayed(count, self.decay, mean) for count in self.sketch.counts]
        self.sketch.errors = [decayed(error, self.decay, mean) for error in self.sketch.errors]
        self.sketch.total = lowered(self.sketch.total, self.decay)
        self.next_look = 0

    def count(self, h: int, weight: float) -> None:
        had_a_counter = h in self.sketch.keys
        self.sketch.update(h, weight)
        if len(self.remembered) < len(self.sketch.keys):
            self.remembered.append(0)
        if not had_a_counter:
            self.remembered[self.sketch.keys.index(h)] = 0

    # Classification of the hot keys

    def hot(self, count: float) -> bool:
        q = 4 * self.workers if self.threshold is None else min(1 / self.threshold, sys.float_info.max)
        recent = self.earlier + (self.position % self.epoch_messages + 1)
        return count * q > self.sketch.total * (1 + self.deviations * math.sqrt(q / recent))

    def choices(self, h: int) -> int:
        """The number of workers of the message that was just counted."""
        n = self.workers
        if self.position >= self.next_look:
            self.look()
        slot = self.sketch.keys.index(h)
        count = self.sketch.counts[slot]
        if not self.hot(count):
            return min(2, n)
        halvings = exponent(max(self.top, count) / count)
        d = max(n >> min(halvings, 31), self.least)
        self.remembered[slot] = min(n, max(self.remembered[slot], d))
        return self.remembered[slot]

    def look(self) -> None:
        """Look at the whole head anew."""
        self.top = max(self.sketch.counts)
        number, head = 0, 0.0
        for count in self.sketch.counts:
            if self.hot(count):
                number += 1
                head += count
        self.least = 2
        if number > 0:
            self.least = max(2, math.ceil(self.workers * (head / self.sketch.total) / number))
        self.next_look = self.position + 1 + min(self.position // 8, self.epoch_messages // 4)

    # Workers that come and go

    def add_worker(self) -> int:
        worker = super().add_worker()
        self.waiting.add(worker, [other for other in self.present if other != worker])
        self.next_look = 0
        return worker

    def remove_worker(self, worker: int) -> None:
        super().remove_worker(worker)
        self.waiting.remove(worker)
        self.next_look = 0


class Waiting:
    """How long a message would wait at each present worker."""

    def __init__(self, workers: list[int], interval_s: float) -> None:
        self.backlog = dict.fromkeys(workers, 0.0)
        self.sent = dict.fromkeys(workers, 0.0)
        self.service_time_s = dict.fromkeys(workers, 1.0)
        self.interval_s = interval_s
        self.begin: float | None = None

    def pass_time(self, start: float | None, time: float) -> None:
        """Take from the backlogs what was done in the intervals that have ended."""
        if self.begin is None:
            self.begin = start
        if self.begin is None or time - self.begin < self.interval_s:
            return
        elapsed = math.floor((time - self.begin) / self.interval_s) * self.interval_s
        self.begin += elapsed
        for worker, service_time_s in self.service_time_s.items():
            left = (self.backlog[worker] + self.sent[worker]) - elapsed / service_time_s
            self.backlog[worker] = max(0.0, left)
            self.sent[worker] = 0.0

    def learn(self, service_time_s: float | Sequence[float]) -> None:
        for worker in self.service_time_s:
            one_value = isinstance(service_time_s, int | float)
            self.service_time_s[worker] = service_time_s if one_value else service_time_s[worker]

    def waiting_time(self, worker: int) -> float:
        return (self.backlog[worker] + self.sent[worker]) * self.service_time_s[worker]

    def add(self, worker: int, others: list[int]) -> None:
        total = 0.0
        for other in others:
            total += self.service_time_s[other]
        self.service_time_s[worker] = total / len(others)
        smallest = min(self.waiting_time(other) for other in others)
        self.backlog[worker] = smallest / self.service_time_s[worker]
        self.sent[worker] = 0.0

    def remove(self, worker: int) -> None:
        for table in (self.backlog, self.sent, self.service_time_s):
            del table[worker]


def exponent(x: float) -> int:
    """floor(log2(x)) of a number above 0, exact."""
    return 1024 if math.isinf(x) else math.frexp(x)[1] - 1


def lowered(amount: float, decay: float) -> float:
    return amount * decay if decay else 0.0  # of infinity, too


def decayed(count: float, decay: float, mean: float) -> float:
    """What an epoch leaves of a count: whole sixteenths of the mean weight, where those are exact."""
    left = lowered(count, decay)
    if 2.0**-900 < mean < 2.0**900:
        grain = 2.0 ** exponent(mean) / 16
        if left / grain < 2**53:
            return math.floor(left / grain) * grain
    return left
