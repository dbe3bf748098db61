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
    """Why the rows may differ; None if they differ at most in columns that do not count."""
    columns: Sequence[str | None] | None
    """For each column why its values may differ, or None if they do not; just None if nothing is known."""
    order: str | None
    """Why the rows may come in a different order, as far as is known before Spark has planned the query."""
    functions: frozenset[str]
    """The names of the user's functions in the query."""
    again: str | None = None
    """Why a second query that reads the same sources may see different rows; None if it does not."""


def names_in(text: str) -> frozenset[str]:
    """Return the names listed in a text, such as the known classes of Spark."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of a query plan, or an expression in one."""

    kind: str
    """The node's class, with the package."""
    fields: Mapping[str, Any]
    """The JSON from which the node was made."""
    children: "tuple[Node, ...]"

    @property
    def name(self) -> str:
        """The node's class, without the package."""
        return self.kind.rpartition(".")[2]


def tree_of(nodes: list[dict[str, Any]]) -> Node:
    """Make a tree from Spark's list of its nodes, where each node comes before its children.

    Raises:
        LookupError: if the list does not describe a tree.
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
