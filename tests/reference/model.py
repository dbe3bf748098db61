"""What all models share: one message at a time, the load vector and the rule for ties."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence

from .hashing import hash_key


def least_loaded(loads: Sequence[float], options: Sequence[int]) -> int:
    """The first of the options among those of the smallest load."""
    smallest = min(loads[worker] for worker in options)
    return next(worker for worker in options if loads[worker] == smallest)


class Model(ABC):
    """One source's router, written to be read.

    A grouping says in `options` among which workers, in which order, a message chooses.
    """

    def __init__(self, *, workers: int, seed: int = 0, source: int = 0) -> None:
        self.workers, self.seed, self.source = workers, seed, source
        self.loads = [0.0] * workers
        self.position = 0

    @abstractmethod
    def options(self, h: int, weight: float) -> list[int]:
        """The workers that the next message may go to, in the order that settles ties."""

    def route(self, key: object, weight: float = 1) -> int:
        worker = least_loaded(self.loads, self.options(hash_key(key, self.seed), weight))
        self.loads[worker] += weight
        self.position += 1
        return worker

    def candidates(self, key: object) -> set[int]:
        """Where the key's next message of weight 1 may go."""
        return set(copy.deepcopy(self).options(hash_key(key, self.seed), 1))
