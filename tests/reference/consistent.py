"""Consistent grouping: power of random choices onto bins, which move from busy workers to idle ones."""

import math
from collections.abc import Sequence
from typing import Any

from .clock import ClockedModel
from .power_of_random import Bins


class ConsistentGrouping(ClockedModel):
    def __init__(
        self, *, virtual_workers: int = 10, epsilon: float = 0.01, slot_s: float = 1.0, **common: Any
    ) -> None:
        super().__init__(**common)
        self.bins = Bins(virtual_workers * self.workers, epsilon)
        self.owner = [bin % self.workers for bin in range(virtual_workers * self.workers)]
        # The bins of each worker, the last one on top.
        self.stacks: list[list[int]] = [[] for _ in range(self.workers)]
        for bin, worker in enumerate(self.owner):
            self.stacks[worker].append(bin)
        self.slot_s = slot_s
        self.last_slot: list[int | None] = [None] * self.workers
        self.busy: list[int] = []
        self.idle: list[int] = []

    def options(self, h: int, weight: float) -> list[int]:
        return [self.owner[self.bins.throw(h, weight)]]

    def observe(
        self,
        now: float | None = None,
        busy: Sequence[int] | None = None,
        idle: Sequence[int] | None = None,
        **feedback: Any,
    ) -> None:
        super().observe(now=now, **feedback)
        for worker in busy or []:
            self.signal(worker, self.busy, self.idle)
        for worker in idle or []:
            self.signal(worker, self.idle, self.busy)
        while self.busy and self.idle:
            self.look()

    def signal(self, worker: int, own: list[int], other: list[int]) -> None:
        slot = math.floor(self.time / self.slot_s)
        if slot == self.last_slot[worker]:
            return
        self.last_slot[worker] = slot
        if worker in other:
            other.remove(worker)
        if worker not in own:
            own.append(worker)

    def look(self) -> None:
        """Pair the first busy and the first idle worker, unless the busy one has nothing to spare."""
        busy = self.busy.pop(0)
        if len(self.stacks[busy]) > 1:
            idle = self.idle.pop(0)
            moved = self.stacks[busy].pop()
            self.stacks[idle].append(moved)
            self.owner[moved] = idle
