"""Consistent hashing with bounded loads: the next worker on the ring that is below its capacity."""

from typing import Any

from .capacity import capacity
from .circle import walk
from .elastic import ElasticModel
from .model import least_loaded


class BoundedRingGrouping(ElasticModel):
    def __init__(self, *, virtual_nodes: int = 100, epsilon: float = 0.01, **common: Any) -> None:
        super().__init__(**common)
        self.virtual_nodes, self.epsilon = virtual_nodes, epsilon
        self.forget()

    def forget(self) -> None:
        self.sent = 0.0
        self.filled = [0.0] * len(self.loads)

    def options(self, h: int, weight: float) -> list[int]:
        limit = capacity(self.epsilon, self.sent, weight, self.workers)
        way = walk(h, self.seed, self.present, self.virtual_nodes)
        worker = next((worker for worker in way if self.filled[worker] < limit), None)
        if worker is None:
            worker = least_loaded(self.filled, self.present)
        self.sent += weight
        self.filled[worker] += weight
        return [worker]

    def add_worker(self) -> int:
        worker = super().add_worker()
        self.forget()
        return worker

    def remove_worker(self, worker: int) -> None:
        super().remove_worker(worker)
        self.forget()
