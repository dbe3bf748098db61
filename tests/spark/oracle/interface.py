"""What the former proof found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Steadiness:
    """What is proved of a query whose tasks may be retried. Reasons are noun phrases."""

    rows: str | None
    """Why there may be other rows; None if they differ in unsteady columns at most."""
    columns: Mapping[int, str | None] | None
    """For columns, by their places, why values may differ, None if they do not; None if nothing is known."""
    order: str | None
    """Why the rows may come in another order, as far as the query says before Spark has planned it."""
    functions: frozenset[str]
    """The names of all functions of the user in the query."""
    again: str | None = None
    """Why another query that reads the same may see other rows; None if it does not."""
    by_place: bool = field(default=False, compare=False)
    """Whether something depends on the partitions of rows, and on their order in them."""


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
