"""Power of random choices: the first of the key's probes that is below its capacity."""

from itertools import islice
from typing import Any

from .capacity import capacity
from .hashing import sequence
from .model import Model, least_loaded


class Bins:
    """Bins that fill evenly."""

    def __init__(self, number: int, epsilon: float) -> None:
        self.loads = [0.0] * number
        self.epsilon, self.sent = epsilon, 0.0

    def throw(self, h: int, weight: float) -> int:
        """The bin that the message goes to."""
        number = len(self.loads)
        limit = capacity(self.epsilon, self.sent, weight, number)
        probes = islice(sequence(h, number), 64 * number)
        found = next((probe for probe in probes if self.loads[probe] < limit), None)
        if found is None:
            found = least_loaded(self.loads, range(number))
        self.loads[found] += weight
        self.sent += weight
        return found


class PowerOfRandomChoices(Model):
    def __init__(self, *, epsilon: float = 0.01, **common: Any) -> None:
        super().__init__(**common)
        self.bins = Bins(self.workers, epsilon)

    def options(self, h: int, weight: float) -> list[int]:
        return [self.bins.throw(h, weight)]
