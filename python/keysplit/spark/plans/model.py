"""A plan: which worker each row of each key goes to, decided once and the same for ever."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from pyspark.sql import DataFrame

from keysplit.metrics import relative_imbalance
from keysplit.planning import Placement, Summary, alias_cells, expected_loads
from keysplit.spark.plans import files, stored, text
from keysplit.spark.plans.drift import Drift
from keysplit.spark.plans.frequent import FrequentKey


@dataclass(frozen=True)
class Tables:
    """A plan as both engines read it; docs/plans.md defines what they do with it."""

    tail: np.ndarray
    hashes: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    cuts: np.ndarray
    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True, eq=False)
class Plan:
    """Where rows go: frequent keys by a table of their own, all others by their bucket.

    Guarantees: the worker of a row is a function of its key, its identity and the plan. It depends neither on
    the order of rows, nor on tasks, batches, Spark's version or the engine. Plans with equal JSON route
    equally, today and in later versions of keysplit.

    Make one with `keysplit.spark.plan`, `Plan.load` or `Plan.from_json`.

    Attributes:
        grouping: the grouping with its parameters; it holds the number of workers and the seed.
        key: the names of the key columns that it was made from.
        key_types: their types; a plan fits keys of the same types. Whole numbers are all "bigint".
        total: weight of all rows that it was made from.
        head: the frequent keys, the most frequent first.
        tail: the worker of each bucket of the other keys, uint32.
        buckets: the weight of each bucket, frequent keys included, float64.
        capacities: relative speed of each worker; None if equal.
        row_id: the columns that tell the rows of a split key apart, named as the argument `row_id` of `route`
            names them; None if they follow from the DataFrame that is routed.

    Example:
        >>> plan = kss.plan(df, "word", workers=8)  # doctest: +SKIP
        >>> kss.Plan.from_json(plan.to_json()) == plan  # doctest: +SKIP
        True
    """

    grouping: Any
    key: tuple[str, ...]
    key_types: tuple[str, ...]
    total: float
    head: tuple[FrequentKey, ...]
    tail: np.ndarray = field(repr=False)
    buckets: np.ndarray = field(repr=False)
    capacities: tuple[float, ...] | None = None
    row_id: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        summary: Summary,
        placement: Placement,
        *,
        grouping: Any,
        key: tuple[str, ...],
        key_types: tuple[str, ...],
        texts: dict[int, tuple[str | None, ...]],
        capacities: tuple[float, ...] | None,
        row_id: tuple[str, ...] | None = None,
    ) -> Plan:
        """Make a plan of what a pass found out and where it was placed; `texts` has the keys by hash."""
        head = [
            FrequentKey(
                key=texts[int(summary.hashes[at])],
                hash=int(summary.hashes[at]),
                count=float(summary.counts[at]),
                error=float(summary.errors[at]),
                workers=tuple(workers.tolist()),
                shares=tuple(shares.tolist()),
            )
            for at, workers, shares in zip(placement.head, placement.workers, placement.shares, strict=True)
        ]
        tail, buckets = placement.tail.astype(np.uint32), summary.buckets.astype(np.float64)
        return cls(
            grouping, key, key_types, float(summary.total), tuple(head), tail, buckets, capacities, row_id
        )

    @property
    def workers(self) -> int:
        """The number of workers."""
        return int(self.grouping.workers)

    @property
    def splits(self) -> bool:
        """Whether any key has more than one worker, so that the identity of a row counts."""
        return any(len(each.workers) > 1 for each in self.head)

    @cached_property
    def loads(self) -> np.ndarray:
        """The weight that each worker is expected to get of the rows that the plan was made from, float64."""
        return self.loads_for(
            Summary(
                total=self.total,
                hashes=np.array([each.hash for each in self.head], np.int64),
                counts=np.array([each.count for each in self.head], np.float64),
                errors=np.array([each.error for each in self.head], np.float64),
                buckets=self.buckets,
            )
        )

    def loads_for(self, summary: Summary) -> np.ndarray:
        """Return the weight that each worker is expected to get of other rows, float64."""
        return expected_loads(
            summary,
            np.array([each.hash for each in self.head], np.int64),
            tuple(np.array(each.workers, np.int64) for each in self.head),
            tuple(np.array(each.shares, np.float64) for each in self.head),
            self.tail,
            self.workers,
        )

    @cached_property
    def tables(self) -> Tables:
        """The plan as the engines read it."""
        cells = [alias_cells(np.array(each.workers), np.array(each.shares)) for each in self.head]
        lengths = np.array([len(each.workers) for each in self.head], np.uint32)
        joined = [
            np.concatenate([cell[part] for cell in cells]) if cells else np.empty(0, type_)
            for part, type_ in enumerate((np.int64, np.uint32, np.uint32))
        ]
        return Tables(
            tail=self.tail,
            hashes=np.array([each.hash for each in self.head], np.int64),
            starts=(np.cumsum(lengths) - lengths).astype(np.uint32),
            lengths=lengths,
            cuts=joined[0].astype(np.int64),
            first=joined[1].astype(np.uint32),
            second=joined[2].astype(np.uint32),
        )

    def to_json(self) -> str:
        """Return the plan as JSON; `from_json` is the way back, and gives an equal plan."""
        return stored.write(self._fields())

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Make a plan of what `to_json` gave, in this version of keysplit or an older one.

        Raises:
            ValueError: if it is no plan, a damaged one, or one that only a newer keysplit understands.
        """
        return cls(**stored.read(text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON, the whole of it or nothing where the store allows.

        Args:
            path: a file, or a URL of a file system that pyarrow knows: file, s3, gs, abfs, hdfs.

        Raises:
            OSError: if the file cannot be written.
            ValueError: if pyarrow knows no file system for the URL.
        """
        files.write(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan that `save` wrote.

        Args:
            path: as `save`.

        Raises:
            OSError: if the file cannot be read.
            ValueError: as `from_json`, or if pyarrow knows no file system for the URL.
        """
        return cls.from_json(files.read(path))

    def compare(self, other: Plan) -> str:
        """Say in a few lines what is different in another plan: parameters, frequent keys, buckets.

        Raises:
            TypeError: if `other` is no plan.
        """
        if not isinstance(other, Plan):
            raise TypeError(f"other must be a Plan, got {type(other).__name__}")
        return text.compare(self._fields(), other._fields())

    def drift(
        self, df: DataFrame, key: Any = None, *, weight: Any = None, engine: str | None = None
    ) -> Drift:
        """Measure how far the keys of a DataFrame have drifted from those that the plan was made from.

        It takes one pass over the keys.

        Args:
            df: rows of today.
            key: their key columns; those of the plan if left out.
            weight: as `keysplit.spark.plan`.
            engine: as `keysplit.spark.plan`.

        Returns:
            What has moved, and the loads that the plan gives today.

        Raises:
            TypeError: as `keysplit.spark.plan`.
            ValueError: as `keysplit.spark.plan`.

        Example:
            >>> verdict = plan.drift(df).verdict  # doctest: +SKIP
        """
        from keysplit.spark.drift import measure  # which makes a plan of today to compare with

        return measure(self, df, list(self.key) if key is None else key, weight, engine)

    def __str__(self) -> str:
        return text.describe(self._fields(), 1 + relative_imbalance(self.loads) if self.total else 0.0)

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __reduce__(self) -> tuple[Callable[[str], Plan], tuple[str]]:
        """Pickle the plan in its stored form, which later versions of keysplit read."""
        return Plan.from_json, (self.to_json(),)

    def _fields(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}
