"""A plan: the worker of each row of each key, decided once and never changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from keysplit import paths
from keysplit.plan import describe, stored
from keysplit.plan.order import OrderCuts
from keysplit.plan.placement import Placement, expected_loads, place, speeds_of
from keysplit.plan.rules import even_parts
from keysplit.plan.summary import Sample, Summary, bucket_bits
from keysplit.plan.tables import FrequentKey, Tables
from keysplit.show.shown import Shown
from keysplit.show.view import View
from keysplit.text import format_count, format_ratio, format_share


@dataclass(frozen=True, eq=False)
class Plan(Shown):
    """The workers of rows: frequent keys have their own table, all other keys follow their bucket.

    Guarantees: the worker of a row is a function of its key, its identity and the plan. It depends neither on
    the order of rows, nor on tasks, batches, Spark's version or the engine. Plans with equal JSON route
    equally, today and in later versions of keysplit.

    Make a plan with `keysplit.spark.plan`, `Plan.load` or `Plan.from_json`.

    Attributes:
        grouping: the grouping with its parameters, which include the number of workers and the seed.
        key: the names of the key columns that the plan was made from.
        key_types: the types of the key columns; a plan fits keys of the same types. Integers are "bigint".
        total: the weight of all rows that the plan was made from.
        head: the frequent keys, the most frequent first.
        tail: the worker of each bucket of the other keys, uint32.
        buckets: the weight of each bucket, frequent keys included, float64.
        capacities: relative speed of each worker; None if equal.
        row_id: the columns that distinguish the rows of a split key, as in the argument `row_id` of `route`;
            None if they are chosen for each DataFrame.
        sample: the counted rows, if the plan was made from a sample; then the weights are estimates, and
            `sample.error_of(share)` is the error of a share. None if all rows were counted.
        group_weight: the cost of starting a group, in units of row weight; all weights include this cost.
        weighted: whether the plan was made with `weight`; False if the stored plan does not say.
        heaviest: the weight of the heaviest counted row of each key in `head`; None without `weight`, and in
            older stored plans.
        trust: the columns, and the functions with "()" after their names, that the user guarantees to be
            deterministic.
        order: the cuts of an order, with which `window` and `write` divide the rows of split keys; None
            without `order_by`.

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
    sample: Sample | None = None
    group_weight: float = 0.0
    weighted: bool = False
    heaviest: tuple[float, ...] | None = None
    trust: tuple[str, ...] = ()
    order: OrderCuts | None = None

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
        group_weight: float = 0.0,
        weighted: bool = False,
        trust: tuple[str, ...] = (),
        order: OrderCuts | None = None,
    ) -> Plan:
        """Make a plan from a summary and its placement; `texts` maps hashes to keys."""
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
            grouping,
            key,
            key_types,
            float(summary.total),
            tuple(head),
            tail,
            buckets,
            capacities,
            row_id,
            summary.sample,
            group_weight,
            weighted,
            None if summary.heaviest is None else tuple(summary.heaviest[placement.head].tolist()),
            trust,
            order,
        )

    @property
    def workers(self) -> int:
        """The number of workers."""
        return int(self.grouping.workers)

    @cached_property
    def split_keys(self) -> tuple[FrequentKey, ...]:
        """The frequent keys that have more than one worker."""
        return tuple(each for each in self.head if len(each.workers) > 1)

    @property
    def splits(self) -> bool:
        """Whether any key has more than one worker, so that a row's identity matters."""
        return bool(self.split_keys)

    @cached_property
    def loads(self) -> np.ndarray:
        """The weight of the rows that the plan was made from which each worker is expected to get; float64.

        The heaviest row of each frequent key counts whole on one of the key's workers.
        """
        return self.loads_for(self.summary)

    @property
    def summary(self) -> Summary:
        """The summary that the plan was made from, as far as it is stored."""
        return Summary(
            total=self.total,
            hashes=np.array([each.hash for each in self.head], np.int64),
            counts=np.array([each.count for each in self.head], np.float64),
            errors=np.array([each.error for each in self.head], np.float64),
            buckets=self.buckets,
            sample=self.sample,
            heaviest=None if self.heaviest is None else np.array(self.heaviest, np.float64),
        )

    @property
    def busiest(self) -> float:
        """The load that the plan expects of the busiest worker, as a multiple of its fair share."""
        return self._busiest(self.loads)

    @cached_property
    def busiest_bounds(self) -> tuple[float, float]:
        """The bounds on `busiest` for all rows, with the confidence of the sample.

        Both are the same number if all rows were counted. They ignore the variation from assigning a split
        key's rows by hash, about the square root of the row count.

        Source:
            The loads of all workers are within their errors simultaneously (Bonferroni's inequality). A key
            with the share s on a worker adds s^2 times its variance to the variance of the worker's load.
        """
        if self.sample is None or not self.total:
            return self.busiest, self.busiest
        spread = replace(self.summary, heaviest=None)
        shares, squares = (self._loads_for(spread, power) / self.total for power in (1, 2))
        variances = np.maximum(squares - shares**2, 0.0) / max(self.sample.effective, 1.0)
        errors = self.sample.deviations(self.workers) * np.sqrt(variances) * self.total
        low, high = (self._busiest(self.loads + sign * errors) for sign in (-1, 1))
        return max(low, 1.0), high

    @property
    def heaviest_row(self) -> float:
        """The load of the fastest worker if it got the heaviest row of a split key alone, as `busiest`.

        No split makes the busiest worker's load smaller than this. With a sample the figure may be too small,
        because the sample may miss the row. 0 if unknown.
        """
        if self.heaviest is None or not self.splits:
            return 0.0
        pairs = zip(self.head, self.heaviest, strict=True)
        heaviest = max(row for each, row in pairs if len(each.workers) > 1)
        return float(heaviest / self.speeds.max() * self.speeds.sum() / self.total)

    @property
    def hash_busiest(self) -> float:
        """The same as `busiest` for hash partitioning, as in Spark; estimated from the buckets.

        With a sample it is the lower bound, because chance alone makes some of many workers look busy.
        """
        parts = even_parts(len(self.buckets), np.ones(self.workers))
        loads: np.ndarray = np.bincount(parts, self.buckets, minlength=self.workers)
        if self.sample is not None and self.total:
            shares = loads / self.total
            errors = np.sqrt(shares * (1 - shares) / max(self.sample.effective, 1.0))
            loads = (shares - self.sample.deviations(self.workers) * errors) * self.total
        return max(self._busiest(loads), 1.0)

    @property
    def speeds(self) -> np.ndarray:
        """The relative speed of each worker, float64."""
        return np.ones(self.workers) if self.capacities is None else np.array(self.capacities)

    def _busiest(self, loads: np.ndarray) -> float:
        speeds = self.speeds
        return float((loads / speeds).max() * speeds.sum() / self.total) if self.total else 1.0

    def loads_for(self, summary: Summary) -> np.ndarray:
        """Return how much of another summary's weight each worker is expected to get, float64."""
        return self._loads_for(summary)

    def _loads_for(self, summary: Summary, power: int = 1) -> np.ndarray:
        return expected_loads(
            summary,
            np.array([each.hash for each in self.head], np.int64),
            tuple(np.array(each.workers, np.int64) for each in self.head),
            tuple(np.array(each.shares, np.float64) ** power for each in self.head),
            self.tail,
            self.workers,
            self.speeds,
        )

    @cached_property
    def tables(self) -> Tables:
        """The plan in the form that engines read."""
        return Tables.of(self.head, self.tail)

    def to_json(self) -> str:
        """Return the plan as JSON; `from_json` makes an equal plan from it."""
        return stored.write(self._fields())

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Make a plan from the JSON that `to_json` of this or an older keysplit wrote.

        Raises:
            TypeError: if `text` is not a string.
            ValueError: if `text` is not a plan, is damaged, or needs a newer keysplit.
        """
        if not isinstance(text, str | bytes | bytearray):
            raise TypeError(f"text must be what Plan.to_json returned, got {type(text).__name__}")
        return cls(**stored.read(text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON, atomically if the store allows it.

        Args:
            path: a file, or a URL that pyarrow supports: file, s3, gs, abfs, hdfs.

        Raises:
            TypeError: if `path` is not a path.
            OSError: if the file cannot be written: it is a folder, or its folder does not exist.
            ValueError: if `path` is empty, or pyarrow knows no file system for the URL.
        """
        paths.check(path)
        paths.write(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan that `save` wrote.

        Args:
            path: as in `save`.

        Raises:
            TypeError: if `path` is not a path.
            OSError: if the file cannot be read.
            ValueError: as in `from_json`, or if pyarrow knows no file system for the URL.
        """
        paths.check(path)
        return cls.from_json(paths.read(path))

    def with_workers(self, workers: int, capacities: Sequence[float] | None = None) -> Plan:
        """Make a plan for a different number of workers from the same counts.

        Args:
            workers: the number of workers, 1..=65536.
            capacities: the relative speed of each worker, above 0; equal if omitted.

        Returns:
            The plan.

        Raises:
            TypeError: if `workers` is not a whole number, `capacities` are not numbers, or only streams with
                `Adapt` can use the grouping.
            ValueError: if `workers` or `capacities` are out of range.

        Example:
            >>> smaller = plan.with_workers(6)  # doctest: +SKIP
        """
        grouping = replace(self.grouping, workers=workers)
        speeds = None if capacities is None else tuple(speeds_of(capacities, workers).tolist())
        summary = self.summary.with_buckets(bucket_bits(workers))
        return Plan.of(
            summary,
            place(summary, grouping, speeds),
            grouping=grouping,
            key=self.key,
            key_types=self.key_types,
            texts={each.hash: each.key for each in self.head},
            capacities=speeds,
            row_id=self.row_id,
            group_weight=self.group_weight,
            weighted=self.weighted,
            trust=self.trust,
            order=self.order,
        )

    def refuse_other(self, other: Plan, where: str, what: str = "plan") -> None:
        """Raise ValueError if another plan cannot replace this plan in a stream.

        Args:
            other: the other plan.
            where: where this plan is used.
            what: the user's name for the other plan.
        """
        if other.workers > self.workers:
            raise ValueError(
                f"{what} must be for at most the {format_count(self.workers, 'worker')} of {where}, got a "
                f"plan for {other.workers}: begin the query with workers={other.workers}"
            )
        self.refuse_other_keys(other, where, what)

    def refuse_other_keys(self, other: Plan, where: str, what: str = "plan") -> None:
        """Raise ValueError if another plan's key types or seed differ; see `refuse_other`."""
        mine, theirs = ((each.key_types, each.grouping.seed) for each in (self, other))
        if mine != theirs:
            raise ValueError(
                f"{what} must be for keys of {mine[0]} with seed {mine[1]}, like {where}, got a plan for "
                f"keys of {theirs[0]} with seed {theirs[1]}: keep the key and the seed"
            )

    def compare(self, other: Plan) -> str:
        """Describe in a few lines how another plan differs from this one: parameters, frequent keys, buckets.

        Raises:
            TypeError: if `other` is not a plan.
        """
        if not isinstance(other, Plan):
            raise TypeError(f"other must be a Plan, got {type(other).__name__}")
        return describe.compare(self._fields(), other._fields())

    def __str__(self) -> str:
        return describe.describe(self._fields(), self.busiest, self.busiest_bounds, self.heaviest_row)

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.grouping, self.key, self.key_types, self.total))

    def __reduce__(self) -> tuple[Callable[[str], Plan], tuple[str]]:
        """Pickle the plan in its stored form, which later versions of keysplit read."""
        return Plan.from_json, (self.to_json(),)

    def _view(self) -> View:
        name, workers = self.grouping.name, format_count(self.workers, "worker")
        return View(
            f"Plan of {', '.join(self.key)} for {workers} by {name}",
            f"Max/mean load is expected to be {format_ratio(self.busiest)}, and with hash partitioning "
            f"{format_ratio(self.hash_busiest)}. {format_count(len(self.split_keys), 'key')} split.",
            ("frequent key", "share", "workers"),
            [
                (each.text, format_share(each.count / self.total), f"{len(each.workers):,}")
                for each in self.head
            ],
            {self.grouping.name: self.loads},
            "weight",
            [
                {
                    "key": each.text,
                    "count": each.count,
                    "error": each.error,
                    "share": each.count / self.total,
                    "workers": list(each.workers),
                    "shares": list(each.shares),
                }
                for each in self.head
            ],
            ("key", "count", "error", "share", "workers", "shares"),
        )

    def _fields(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}
