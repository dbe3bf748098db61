"""The clock of a router, and the models whose rules run on it."""

from typing import Any

from .model import Model


class Clock:
    def __init__(self, messages_per_s: float) -> None:
        self.base, self.count, self.step = 0.0, 0, 1 / messages_per_s

    def time(self) -> float:
        return self.base + self.count * self.step

    def move(self, now: float) -> None:
        self.base, self.count = now, 0


class ClockedModel(Model):
    """A model with a clock.

    While `options` runs, `time` is when the message arrives and `start`, the start of the router, is known.
    """

    def __init__(self, *, messages_per_s: float = 1000.0, **common: Any) -> None:
        super().__init__(**common)
        self.clock = Clock(messages_per_s)
        self.time = 0.0
        self.start: float | None = None

    def arrive(self, now: float | None) -> None:
        """A message, or an `observe` with a `now`, comes."""
        if now is not None and (self.start is None or now > self.clock.time()):
            self.clock.move(now)
        self.time = self.clock.time()
        if self.start is None:
            self.start = self.time

    def route(self, key: object, weight: float = 1, now: float | None = None) -> int:
        self.arrive(now)
        worker = super().route(key, weight, now)
        if now is None:
            self.clock.count += 1
        return worker

    def observe(self, now: float | None = None, **feedback: Any) -> None:
        if now is not None:
            self.arrive(now)
        self.time = self.clock.time()
