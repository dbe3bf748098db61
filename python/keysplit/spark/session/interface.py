"""What the rest of keysplit may ask a Spark session beyond Spark's public API, and in which words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType, StructType


class Session(Protocol):
    """A classic session or one of Spark Connect."""

    @property
    def slots(self) -> int | None:
        """How many tasks run at once; None where that may change or nobody knows."""

    def setting(self, name: str) -> str | None:
        """Return the value of a setting; None if there is none, or if nobody may read it."""

    def settings(self, defaults: Iterable[tuple[str, str]]) -> list[str]:
        """Return the values of settings, given by their names and what they are where Spark has none."""

    def arrow(self, df: DataFrame) -> pa.Table:
        """Run a query in one job and return its rows; without rows the types may be others."""

    def determinism(self, df: DataFrame, trusted: frozenset[str], anew: str | None = None) -> "Determinism":
        """Return which columns of a DataFrame have the same values when tasks are retried; run nothing.

        Args:
            df: the DataFrame.
            trusted: names of functions of the user that are functions of their arguments alone.
            anew: what plans the query anew, as a stream does when a micro-batch is run again: clocks and
                tables may say something else then. None if only tasks are retried.
        """

    def is_deterministic(self, df: DataFrame) -> bool:
        """Say whether Spark finds all expressions of a query deterministic; False if nobody knows."""

    def disorder(self, df: DataFrame, deterministic: bool) -> str | None:
        """Return why rows may come in another order when a task is retried, None if they do not.

        It is Spark's physical plan that says so: a broadcast is no shuffle.

        Args:
            df: the rows; the same ones come again.
            deterministic: whether the values are the same, too, wherever rows are sorted by all columns.
                Such a sort then gives them their order back.
        """

    def beyond_a_scan(self, df: DataFrame) -> str | None:
        """Return what makes reading a DataFrame dear: a shuffle or Python; None if it is a scan."""

    def size(self, df: DataFrame) -> int | None:
        """Return how many bytes Spark takes a DataFrame for, None if nobody may ask; it runs nothing."""

    def joins_by_broadcast(self, df: DataFrame) -> bool:
        """Say whether Spark would compute a join, the topmost of a query, by a broadcast of one side.

        Args:
            df: the query.
            joined: the join, if it is the whole query: it may be answered sooner then.
        """

    def joining(
        self,
        plain: DataFrame,
        left: DataFrame,
        right: DataFrame,
        on: Sequence[str],
        where: Column | None = None,
    ) -> "Joining":
        """Take apart `plain`, which is `left.join(right, on, how)`; `where` must hold besides."""

    def schema_of(self, df: DataFrame) -> StructType:
        """Return the schema of a DataFrame, which must not be changed: `df.schema` may copy it each time."""

    def schema(self, ddl: str) -> StructType:
        """Return a schema written as DDL, as `createDataFrame` reads it."""


class ByChance(str):
    """Why values may differ: an expression that Spark itself knows not to be deterministic makes them."""

    __slots__ = ()


class Joining(Protocol):
    """A join on names, whose rows are to be computed in another way."""

    left: DataFrame
    right: DataFrame
    """The sides; in a join of a DataFrame with itself, they have no columns in common."""
    keeps_columns: bool
    """Whether `left["k"]` and `right["k"]` may be selected from the result whatever its rows are made of."""

    where: Column | None
    """What must hold of two rows besides equal keys; None if nothing."""

    def join(self, left: DataFrame, right: DataFrame, kind: str, also: str | None = None) -> DataFrame:
        """Join rows made of both sides on the keys, by the condition, and on a column that both have got."""

    def with_keys_of_right(self, rows: DataFrame, types: Sequence[DataType]) -> DataFrame:
        """Return rows of an inner join with the keys, of these types, that a right join shows."""

    def result(self, rows: DataFrame, drop: Sequence[str]) -> DataFrame:
        """Return the columns of Spark's own join; `drop` names what `rows`, which `join` made, have more."""

    def again(self, side: DataFrame) -> DataFrame:
        """Return a side to read it once more: columns that users select are those of the other reading."""


@dataclass(frozen=True)
class Determinism:
    """What is known of a query whose tasks may be retried. Reasons are noun phrases."""

    rows: str | None
    """Why there may be other rows; None if they differ at most in columns that do not count."""
    columns: Sequence[str | None] | None
    """For each column why its values may differ, None if they do not; None if nothing is known."""
    order: str | None
    """Why the rows may come in another order, as far as the query says before Spark has planned it."""
    functions: frozenset[str]
    """The names of the functions of the user in the query."""
    again: str | None = None
    """Why another query that reads the same may see other rows; None if it does not."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of a query plan, or an expression in one."""

    kind: str
    """Its class, with the package."""
    fields: Mapping[str, Any]
    """What it was made from, as JSON."""
    children: "tuple[Node, ...]"

    @property
    def name(self) -> str:
        """Its class, without the package."""
        return self.kind.rpartition(".")[2]


def tree_of(nodes: list[dict[str, Any]]) -> Node:
    """Make a tree of Spark's list of its nodes, a node before its children.

    Raises:
        LookupError: if it is no such list.
    """
    waiting: list[Node] = []
    for each in reversed(nodes):
        if not isinstance(each, dict) or "class" not in each or each["num-children"] > len(waiting):
            raise LookupError("the plan cannot be read")
        children = tuple(waiting.pop() for _ in range(each["num-children"]))
        waiting.append(Node(each["class"], each, children))
    if len(waiting) != 1:
        raise LookupError("the plan cannot be read")
    return waiting[0]


@dataclass(frozen=True)
class RecordedExecution:
    """An execution of SQL that a session remembers; times are milliseconds since 1970."""

    id: int
    root: int | None
    description: str
    start_ms: int
    end_ms: int | None
    stages: frozenset[int]
    conf: Mapping[str, str]


class Records(Protocol):
    """What a session remembers of its stages, tasks and plans."""

    def event_log(self) -> str | None:
        """Return where the session's own event log is, None if it writes none or keeps its end back."""

    def application(self) -> dict[str, Any]:
        """Return the name, id, version, start and now in milliseconds, and settings."""

    def executors(self) -> list[dict[str, Any]]:
        """Return the executors that are alive, as Spark's REST interface does."""

    def stages(self) -> list[dict[str, Any]]:
        """Return the stages, as Spark's REST interface does."""

    def tasks(self, stage: int, attempt: int) -> list[dict[str, Any]]:
        """Return the tasks of a stage, as Spark's REST interface does."""

    def executions(self) -> Iterator[RecordedExecution]:
        """Return the executions of SQL."""

    def plan(self, execution: int) -> dict[str, Any]:
        """Return the plan of an execution, as event logs hold it."""

    def largest(self, execution: int) -> dict[int, tuple[int, int, float, float]]:
        """Return for each accumulator the stage and task with the largest value, that value, and the sum."""
