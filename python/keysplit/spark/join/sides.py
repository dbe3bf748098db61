"""The sides of a join: the side that a plan splits, and the other side."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.plan import FrequentKey, Plan
from keysplit.spark.identity import Query
from keysplit.spark.join.columns import Joining
from keysplit.spark.keys import key_hash, key_hash_in_sql
from keysplit.spark.names import in_sql, path_in_sql, quoted
from keysplit.spark.request import Request


@dataclass(frozen=True)
class Sides:
    """A join with one side that is split.

    Attributes:
        request: the request of the side that is split, with a plan and the DataFrame of `joining`.
        query: the query of the other side.
        joining: the join that is rewritten.
        hot: the side that is split, "left" or "right".
        kind: inner, left, right, full, semi or anti.
        types: the key types on the other side.
        own: unused column names.
    """

    request: Request
    query: Query
    joining: Joining
    hot: str
    kind: str
    types: Sequence[DataType]
    own: Sequence[str]

    @property
    def plan(self) -> Plan:
        """The plan of the side that is split."""
        plan = self.request.plan
        assert plan is not None
        return plan

    @property
    def other(self) -> str:
        """The side that is not split, "left" or "right"."""
        return "left" if self.hot == "right" else "right"

    @property
    def others(self) -> DataFrame:
        """The rows of the side that is not split."""
        return self.joining.left if self.hot == "right" else self.joining.right

    @property
    def keeps_others(self) -> bool:
        """Whether unmatched rows of the side that is not split are returned."""
        return self.kind in (self.other, "full")

    @property
    def null_key(self) -> str:
        """Whether a row's key has a null, in SQL: such a row matches nothing."""
        return " OR ".join(f"{path_in_sql(name)} IS NULL" for name in self.request.keys)

    @property
    def hash(self) -> Column:
        """The hash of a key on the side that is split."""
        return key_hash(self.request.keys, self.request.key_types, self.request.params.seed)

    @property
    def others_hash(self) -> Column:
        """The hash of a key on the other side; equal keys have equal hashes."""
        return key_hash(self.request.keys, self.types, self.request.params.seed)

    def of(self, keys: Sequence[FrequentKey], rows: DataFrame) -> "Halves":
        """Divide the rows of the side that is split: rows with some keys, and all other rows.

        Rows with a null key match nothing, so they may be in either part.
        """
        nulls = self.null_key if any(None in each.key for each in keys) else None
        return self._cut(keys, rows, self.request.key_types, nulls)

    def others_of(self, keys: Sequence[FrequentKey]) -> "Halves":
        """Divide the rows of the other side: rows with some keys, and all other rows."""
        return self._cut(keys, self.others, self.types, None)

    def _cut(
        self, keys: Sequence[FrequentKey], rows: DataFrame, types: Sequence[DataType], nulls: str | None
    ) -> "Halves":
        names, seed, added = self.request.keys, self.request.params.seed, []
        hash_ = key_hash_in_sql(names, types, seed)
        if hash_ is None:
            rows = rows.select("*", key_hash(names, types, seed).alias(self.own[0]))
            hash_, added = in_sql(self.own[0]), [self.own[0]]
        hashes = [f"{each.hash}L" for each in keys if None not in each.key]
        terms = [f"{hash_} IN ({', '.join(hashes)})"] if hashes else []
        # no term is null
        return Halves(rows, " OR ".join([*terms, *([nulls] if nulls else [])]) or "false", added)

    def join(self, rows: DataFrame, others: DataFrame, kind: str, also: str | None = None) -> DataFrame:
        """Join rows of both sides on the keys, the condition, and an added column."""
        left, right = (others, rows) if self.hot == "right" else (rows, others)
        return self.joining.join(left, right, kind, also)

    def met(self, others: DataFrame, rows: DataFrame, kind: str, found: str) -> DataFrame:
        """Join rows of the other side with the few distinct keys in these rows of the split side.

        Args:
            others: the rows of the other side.
            rows: the rows of the split side.
            kind: "left" or "left_anti".
            found: the name of a column that is TRUE if a row matches.
        """
        # Under their own names the keys would hide those of the other side in the result.
        names = self.own[-len(self.request.keys) :]
        pairs = list(zip(self.request.keys, names, strict=True))
        rows = rows.filter(f"NOT ({self.null_key})")  # there may be many keys without a match
        keys = self._distinct(rows.select(*(F.col(key).alias(name) for key, name in pairs)))
        # By a condition, as a join on names would move the keys to the front.
        same = reduce(and_, (F.col(key) == F.col(quoted(name)) for key, name in pairs))
        return others.join(F.broadcast(keys.withColumn(found, F.lit(True))), same, kind)

    def _distinct(self, keys: DataFrame) -> DataFrame:
        """Return the distinct keys, of which there are few."""
        if key_hash_in_sql(self.request.keys, self.request.key_types, 0) is None:
            return keys.distinct()  # Spark cannot collect a set of collated strings
        # `distinct` alone would run a task per shuffle partition. Over a set in one task it needs no shuffle,
        # and merges the keys that a join finds equal.
        found = keys.agg(F.collect_set(F.struct("*")).alias(self.own[0]))
        return found.select(F.inline(in_sql(self.own[0]))).distinct()

    def result(self, rows: DataFrame) -> DataFrame:
        """Return the columns of Spark's own join."""
        return self.joining.result(rows, [self.request.worker_column, *self.own])


@dataclass(frozen=True)
class Halves:
    """Rows divided into two parts.

    Attributes:
        rows: the rows of both parts.
        chosen: whether a row is in the first part, in SQL; never null.
        added: the extra columns of `rows`.
    """

    rows: DataFrame
    chosen: str
    added: Sequence[str]

    @property
    def first(self) -> DataFrame:
        """The rows with the chosen keys."""
        return self._without_added(self.rows.filter(self.chosen))

    @property
    def second(self) -> DataFrame:
        """All other rows."""
        return self._without_added(self.rows.filter(f"NOT ({self.chosen})"))

    def _without_added(self, rows: DataFrame) -> DataFrame:
        return rows.drop(*self.added) if self.added else rows
