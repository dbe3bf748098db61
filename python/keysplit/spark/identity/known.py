"""The result for a query whose tasks may be retried, and the tree of its plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class ByChance(str):
    """Why values may differ: an expression that is nondeterministic by Spark's own account."""

    __slots__ = ()


@dataclass(frozen=True)
class Determinism:
    """What is known about a query whose tasks may be retried. Reasons are noun phrases."""

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


def names_in(text: str) -> frozenset[str]:
    """Return the names listed in a text, such as the known classes of Spark."""
    return frozenset(text.split())


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
    """Make a tree from Spark's list of its nodes, in which a node comes before its children.

    Raises:
        LookupError: if it is not such a list.
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
