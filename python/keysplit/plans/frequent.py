"""A key that a plan places by itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FrequentKey:
    """A key that a plan places by itself.

    Attributes:
        key: its values as text, one per key column; None is null. A plan from a sample has the first 256
            bytes of each.
        hash: its hash, which is what a row is compared with.
        count: weight of its rows, an upper bound; in a plan from a sample an estimate, whose error
            `Plan.sample` knows.
        error: by how much `count` may be too large, beside the error of a sample.
        workers: the workers of its rows.
        shares: the part of its rows that each of `workers` gets; the sum is 1.
    """

    key: tuple[str | None, ...]
    hash: int
    count: float
    error: float
    workers: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def text(self) -> str:
        """Its values in one line."""
        return ", ".join("null" if value is None else value for value in self.key)
