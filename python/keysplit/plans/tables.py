"""The tables of a plan, in which the worker of a row is looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keysplit import _core
from keysplit.planning import alias_cells
from keysplit.plans.frequent import FrequentKey


@dataclass(frozen=True)
class Tables:
    """A plan as all engines read it; docs/plans.md defines what they do with it."""

    tail: np.ndarray
    hashes: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    cuts: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, head: Sequence[FrequentKey], tail: np.ndarray) -> Tables:
        """Make the tables of the frequent keys and of the worker of each bucket, uint32."""
        cells = [alias_cells(np.array(each.workers), np.array(each.shares)) for each in head]
        lengths = np.array([len(each.workers) for each in head], np.uint32)
        joined = [
            np.concatenate([cell[part] for cell in cells]) if cells else np.empty(0, type_)
            for part, type_ in enumerate((np.int64, np.uint32, np.uint32))
        ]
        return cls(
            tail=tail,
            hashes=np.array([each.hash for each in head], np.int64),
            starts=(np.cumsum(lengths) - lengths).astype(np.uint32),
            lengths=lengths,
            cuts=joined[0].astype(np.int64),
            first=joined[1].astype(np.uint32),
            second=joined[2].astype(np.uint32),
        )

    def in_rust(self) -> _core.PlanTable:
        """Return the same tables in Rust."""
        return _core.PlanTable(
            self.tail, self.hashes, self.starts, self.lengths, self.cuts, self.first, self.second
        )
