"""What the rest of keysplit may ask a Spark session beyond Spark's public API, and in which words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pyspark.sql import Column, DataFrame


class Session(Protocol):
    """A classic session or one of Spark Connect."""

    def setting(self, name: str) -> str | None:
        """Return the value of a setting; None if there is none, or if nobody may read it."""

    def hazards(self, df: DataFrame) -> "Hazards":
        """Look into the query of a DataFrame, run nothing, and say what may differ when tasks are retried."""

    def aggregates(self, result: DataFrame, columns: Sequence[Column]) -> "list[Aggregate]":
        """Return all aggregates in `columns`, where `result` is `df.groupBy(...).agg(*columns)`."""

    def calls(self, result: DataFrame, columns: Sequence[Column]) -> "list[Call]":
        """Return each of `columns`, taken apart as an aggregate; `result` as `aggregates`."""


@dataclass
class Hazards:
    """What was found first of each kind, in words."""

    shuffle: str | None = None
    """A shuffle whose order reaches the top."""
    random: str | None = None
    """A value that depends on the order of rows above a shuffle, or on chance."""
    opaque: str | None = None
    """A function of the user over rows that come out of a shuffle."""
    chosen: str | None = None
    """A choice of rows by chance, or by their order above a shuffle."""


class Aggregate(NamedTuple):
    """An aggregate function that a query calls."""

    kind: str | None
    """Spark's class; None on Spark Connect, which has none."""
    name: str | None
    """Its name in SQL; None for a function of Python."""
    text: Callable[[], str]
    """Makes the call as SQL, or something near it."""


class Call(NamedTuple):
    """A column that an aggregation computes."""

    kind: str | None
    """Spark's class of the aggregate; None on Spark Connect."""
    name: str | None
    """Its name in SQL; None if the column is no bare aggregate."""
    text: str
    """The column as SQL, or something near it."""
    whole: Column
    """The column without its alias."""
    argument: Column
    """What is aggregated; null where a FILTER drops the row."""
    distinct: bool = False
    opaque: bool = False
    """Whether it is a text of SQL, of which nothing else is known."""
    nested: bool = False
    """Whether its arguments call functions. An operator is a function: its arguments are the aggregates."""
    divide: Callable[[Column, Column], Column] | None = None
    """For averages on classic sessions: divides a sum by a count as the average does."""


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

    def trees(self, field: str) -> "list[Node]":
        """Return the plan, or the expressions, that a field holds.

        Raises:
            LookupError: if the field holds none, or some cannot be read.
        """
        value = self.fields.get(field)
        if not isinstance(value, list) or any(not isinstance(each, list | dict) for each in value):
            raise LookupError(f"{self.name} has no {field} that can be read")
        groups = [value] if value and isinstance(value[0], dict) else value
        return [tree_of(group) for group in groups]


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
