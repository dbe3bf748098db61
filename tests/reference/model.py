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

    A grouping says in `options` among which workers, in which order, a message chooses. `workers` is the
    number n of the present workers, `present` are their numbers; `loads` has an entry for every number
    ever given.
    """

    def __init__(self, *, workers: int, seed: int = 0, source: int = 0) -> None:
        self.workers, self.seed, self.source = workers, seed, source
        self.present = list(range(workers))
        self.loads = [0.0] * workers
        self.position = 0

    @abstractmethod
    def options(self, h: int, weight: float) -> list[int]:
        """The workers that the next message may go to, in the order that settles ties.

        All that the message changes before it is sent changes here.
        """

    def choose(self, options: list[int], weight: float) -> int:
        """The one of the options that the message goes to."""
        return least_loaded(self.loads, options)

    def route(self, key: object, weight: float = 1, now: float | None = None) -> int:
        """Send one message; with `now` it is a message of a batch that came with this time."""
        self.among = self.options(hash_key(key, self.seed), weight)
        worker = self.choose(self.among, weight)
        self.loads[worker] += weight
        self.position += 1
        return worker

    def route_batch(
        self, keys: Sequence[object], weights: Sequence[float] | None = None, now: float | None = None
    ) -> list[int]:
        """Send the messages of one call of `route`."""
        weights = [1] * len(keys) if weights is None else weights
        return [self.route(key, weight, now) for key, weight in zip(keys, weights, strict=True)]

    def observe(  # noqa: B027 - most groupings need no feedback
        self,
        now: float | None = None,
        busy: Sequence[int] | None = None,
        idle: Sequence[int] | None = None,
        service_time_s: float | Sequence[float] | None = None,
        loads: Sequence[float] | None = None,
    ) -> None:
        """Take feedback."""

    def candidates(self, key: object) -> list[int]:
        """The different workers among which the key's next message would choose, in the order of ties."""
        twin = copy.deepcopy(self)
        twin.route(key)
        return list(dict.fromkeys(twin.among))

    def add_worker(self) -> int:
        raise ValueError("the workers of this grouping are fixed")

    def remove_worker(self, worker: int) -> None:
        raise ValueError("the workers of this grouping are fixed")
