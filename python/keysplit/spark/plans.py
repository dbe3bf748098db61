"""A plan: which worker each row of each key goes to, decided once and the same for ever."""

from __future__ import annotations

import base64
import json
import os
import tempfile
import zlib
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keysplit.metrics import relative_imbalance
from keysplit.planning import PLANS, Placement, Summary, alias_cells, bucket_bits, expected_loads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from keysplit.spark.drift import Drift

FORMAT = "keysplit plan"
VERSION = 1


@dataclass(frozen=True)
class FrequentKey:
    """A key that a plan places by itself.

    Attributes:
        key: its values as text, one a key column; None is null.
        hash: its hash, which is what a row is compared with.
        count: weight of its rows, an upper bound.
        error: by how much `count` may be too large.
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
        return cls(grouping, key, key_types, float(summary.total), tuple(head), tail, buckets, capacities)

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
        return json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "grouping": {"name": self.grouping.name, **asdict(self.grouping)},
                "key": self.key,
                "key_types": self.key_types,
                "total": self.total,
                "head": [asdict(each) for each in self.head],
                "tail": _packed(self.tail.astype("<u4")),
                "buckets": _packed(self.buckets.astype("<f8")),
                "capacities": self.capacities,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Make a plan of what `to_json` gave.

        Raises:
            ValueError: if it is no plan, a damaged one, or one of a later version.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ValueError(f"text must be a plan as JSON, got {text[:40]!r}") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"text must be a plan that keysplit wrote, got {text[:40]!r}")
        if data.get("version") != VERSION:
            raise ValueError(f"version of the plan must be {VERSION}, got {data.get('version')!r}")
        try:
            grouping = dict(data["grouping"])
            head = tuple(
                FrequentKey(
                    tuple(each["key"]),
                    int(each["hash"]),
                    float(each["count"]),
                    float(each["error"]),
                    tuple(map(int, each["workers"])),
                    tuple(map(float, each["shares"])),
                )
                for each in data["head"]
            )
            capacities = data["capacities"]
            plan = cls(
                grouping=PLANS[grouping.pop("name")](**grouping),
                key=tuple(data["key"]),
                key_types=tuple(data["key_types"]),
                total=float(data["total"]),
                head=head,
                tail=_unpacked(data["tail"], "<u4").astype(np.uint32),
                buckets=_unpacked(data["buckets"], "<f8").astype(np.float64),
                capacities=None if capacities is None else tuple(map(float, capacities)),
            )
            sound = plan._is_sound()
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise ValueError(f"plan is damaged: {type(error).__name__}: {error}") from error
        if not sound:
            raise ValueError("plan is damaged: its workers, shares or buckets do not fit its grouping")
        return plan

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to a file as JSON, the whole of it or nothing."""
        path = Path(path)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(self.to_json())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan that `save` wrote.

        Raises:
            OSError: if the file cannot be read.
            ValueError: as `from_json`.
        """
        return cls.from_json(Path(path).read_text(encoding="utf-8"))

    def compare(self, other: Plan) -> str:
        """Say in a few lines what is different in another plan: parameters, frequent keys, buckets.

        Raises:
            TypeError: if `other` is no plan.
        """
        if not isinstance(other, Plan):
            raise TypeError(f"other must be a Plan, got {type(other).__name__}")
        lines = [
            f"{name}: {mine!r}, the other has {theirs!r}"
            for name, mine, theirs in (
                ("grouping", self.grouping, other.grouping),
                ("key", self.key, other.key),
                ("key types", self.key_types, other.key_types),
                ("weight of all rows", self.total, other.total),
                ("capacities", self.capacities, other.capacities),
            )
            if mine != theirs
        ]
        mine, theirs = ({each.hash: each for each in plan.head} for plan in (self, other))
        for title, keys in (
            ("frequent keys that only this plan has", [mine[h] for h in mine if h not in theirs]),
            ("frequent keys that only the other has", [theirs[h] for h in theirs if h not in mine]),
            (
                "frequent keys with other workers",
                [mine[h] for h in mine if h in theirs and mine[h].workers != theirs[h].workers],
            ),
        ):
            if keys:
                names = ", ".join(each.text for each in keys[:5]) + (", ..." if len(keys) > 5 else "")
                lines.append(f"{title}: {len(keys)} ({names})")
        if len(self.tail) != len(other.tail):
            lines.append(f"buckets: {len(self.tail)}, the other has {len(other.tail)}")
        elif moved := int((self.tail != other.tail).sum()):
            lines.append(f"buckets with another worker: {moved} of {len(self.tail)}")
        return "\n".join(lines) or "the plans are equal"

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
        from keysplit.spark.drift import measure

        return measure(self, df, list(self.key) if key is None else key, weight, engine)

    def __str__(self) -> str:
        shown = [
            f"  {each.text}: {each.count / self.total:.2%} of the weight, "
            f"{len(each.workers)} worker{'s' if len(each.workers) > 1 else ''}"
            for each in self.head[:10]
        ]
        rest = len(self.head) - len(shown)
        if rest:
            shown.append(f"  ... and {rest} more")
        level = f"{1 + relative_imbalance(self.loads):.3f} times the mean" if self.total else "no rows"
        return "\n".join(
            [
                f"Plan {self.grouping.name} of {', '.join(self.key)} for {self.workers} workers, "
                f"seed {self.grouping.seed}",
                f"  made from a weight of {self.total:,.0f}; expected load of the busiest worker: {level}",
                f"  {len(self.head)} frequent keys, {len(self.tail)} buckets of other keys",
                *shown,
            ]
        )

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_json())

    def _is_sound(self) -> bool:
        n = self.workers
        return (
            len(self.tail) == len(self.buckets) == 2 ** bucket_bits(n)
            and bool((self.tail < n).all())
            and bool(np.isfinite(self.buckets).all())
            and len({each.hash for each in self.head}) == len(self.head)
            and all(
                -(2**63) <= each.hash < 2**63
                and len(each.workers) == len(each.shares) == len(set(each.workers)) > 0
                and all(0 <= worker < n for worker in each.workers)
                and all(share > 0 for share in each.shares)
                and abs(sum(each.shares) - 1) < 1e-6
                for each in self.head
            )
            and (self.capacities is None or len(self.capacities) == n)
        )


def _packed(numbers: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(numbers.tobytes())).decode()


def _unpacked(text: str, type_: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), type_)
