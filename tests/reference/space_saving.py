"""SpaceSaving: counters in slots, a plain search for every step."""

from typing import Any


class SpaceSaving:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.keys: list[Any] = []
        self.counts: list[float] = []
        self.errors: list[float] = []
        self.total = 0.0

    def update(self, key: Any, weight: float = 1) -> None:
        self.total += weight
        if key in self.keys:
            self.counts[self.keys.index(key)] += weight
        elif len(self.keys) < self.capacity:
            self.keys.append(key)
            self.counts.append(float(weight))
            self.errors.append(0.0)
        else:
            smallest = min(self.counts)
            slot = self.counts.index(smallest)
            self.keys[slot] = key
            self.counts[slot] = smallest + weight
            self.errors[slot] = smallest

    def floor(self) -> float:
        """The most that a key without a counter can have."""
        return min(self.counts) if len(self.keys) == self.capacity else 0.0

    def estimate(self, key: Any) -> tuple[float, float]:
        if key in self.keys:
            slot = self.keys.index(key)
            return self.counts[slot], self.errors[slot]
        return self.floor(), self.floor()

    def counters(self) -> list[tuple[Any, float, float]]:
        return list(zip(self.keys, self.counts, self.errors, strict=True))

    def merge(self, other: "SpaceSaving") -> None:
        a, b = self.floor(), other.floor()
        merged = []
        for key, count, error in self.counters():
            if key in other.keys:
                other_count, other_error = other.estimate(key)
                merged.append((key, count + other_count, error + other_error))
            else:
                merged.append((key, count + b, error + b))
        for key, count, error in other.counters():
            if key not in self.keys:
                merged.append((key, count + a, error + a))
        merged.sort(key=lambda counter: -counter[1])
        merged = merged[: self.capacity]
        self.keys = [key for key, _, _ in merged]
        self.counts = [count for _, count, _ in merged]
        self.errors = [error for _, _, error in merged]
        self.total += other.total
