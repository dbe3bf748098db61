"""The worker of a row under a plan, straight from the rule."""

from collections.abc import Sequence
from typing import NamedTuple


class PlanTable(NamedTuple):
    tail: Sequence[int]
    hashes: Sequence[int]
    starts: Sequence[int]
    lengths: Sequence[int]
    cuts: Sequence[int]
    first: Sequence[int]
    second: Sequence[int]

    def worker(self, key: int, row: int) -> int:
        """The worker of a row by the hash of its key and its own, as signed or unsigned numbers."""
        key, row = key % 2**64, row % 2**64
        head = [number % 2**64 for number in self.hashes]
        if key not in head:
            return self.tail[key * len(self.tail) // 2**64]
        run = head.index(key)
        cell = self.starts[run] + row // 2**32 * self.lengths[run] // 2**32
        return self.first[cell] if row % 2**32 < self.cuts[cell] else self.second[cell]

    def route(self, keys: Sequence[int], rows: Sequence[int] | None = None) -> list[int]:
        return [self.worker(key, row) for key, row in zip(keys, rows or [0] * len(keys), strict=True)]
