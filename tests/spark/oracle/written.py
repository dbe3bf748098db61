"""An analysed plan of the JVM as JSON, as far as it decides the values of some of its columns.

Spark takes long to write down a plan of thousands of columns. Where operators neither make nor choose rows by
columns that nobody asks for, these are left out.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oracle.expressions import PACKAGE
from oracle.jvm import java_class, java_object, mapped, numbers, sequence, values_of, zipped

_SQL = "org.apache.spark.sql."
_LOGICAL = _SQL + "catalyst.plans.logical."
# Leaves all of whose columns are as steady as the first one.
_ALIKE = frozenset(
    _SQL + name
    for name in (
        "catalyst.plans.logical.LocalRelation",
        "catalyst.plans.logical.Range",
        "execution.datasources.LogicalRelation",
        "execution.datasources.v2.DataSourceV2Relation",
    )
)
# What counts of expressions wherever they stand: functions of the user by their names, subqueries as joins.
_COUNTING = ("PLAN_EXPRESSION", "PYTHON_UDF", "SCALA_UDF")

_PATTERNS = _SQL + "catalyst.trees.TreePattern"

# Stands between attributes as text, and in no name.
_BETWEEN = "\0keysplit\0"
# What ends an attribute as text: its number, maybe that it is a BIGINT, and how late its rows may be.
_NUMBER = re.compile(r"#(\d+)L?(-T\d+ms)?\Z")

_Nodes = list[dict[str, Any]]


@dataclass(frozen=True)
class Written:
    """A plan, or the part of it that some columns depend on."""

    nodes: _Nodes
    """Its operators, each before its children."""
    texts: tuple[str, ...]
    """All that Spark has written for it."""
    columns: Mapping[int, int]
    """The numbers of the columns that it is for, by their places."""
    leaves: Mapping[tuple[str, int], Any] = field(default_factory=dict)
    """Leaves of the JVM, by their class and the number of their first column, as far as they are at hand."""

    def mentions(self, name: str) -> bool:
        """Say whether a text is in what Spark has written."""
        return any(name in each for each in self.texts)

    @property
    def has_python(self) -> bool:
        """Whether functions of Python have a part in the plan."""
        return self.mentions("PythonUD")

    @property
    def has_collations(self) -> bool:
        """Whether collated strings have; all names of theirs hold this word."""
        return any("collat" in each.lower() for each in self.texts)


def whole(plan: Any) -> Written:
    """Return all of a plan.

    Raises:
        Py4JError: if Spark cannot write it down.
        ValueError: if what it has written cannot be read.
    """
    writer = _Writer()
    nodes = writer.read(plan)
    return Written(nodes, tuple(writer.texts), dict(enumerate(_numbers_of(plan.output()))))


def of_columns(plan: Any, places: Sequence[int]) -> Written:
    """Return what decides the rows of a plan, and the values of its columns at some places.

    Errors are those of `whole`.
    """
    writer = _Writer()
    kind = _kind_of(plan)
    if kind in _ALIKE:  # nothing else has these columns: any numbers do
        return Written([writer.leaf(kind, plan, places)], (), {at: at for at in places}, writer.leaves)
    if plan.containsAnyPattern(values_of(_PATTERNS, _COUNTING)):
        return whole(plan)
    asked = mapped(numbers(places), plan.output())
    columns = dict(zip(places, _numbers_of(asked), strict=True))
    nodes: _Nodes = []
    waiting = [(plan, _around(asked).references())]
    while waiting:
        found, below = writer.operator(*waiting.pop())
        nodes += found
        waiting += reversed(below)
    return Written(nodes, tuple(writer.texts), columns, writer.leaves)


_Below = list[tuple[Any, Any]]
"""Plans below an operator, each with the set of its attributes that are needed."""


class _Writer:
    """Writes down operators, and keeps all texts and the leaves that it does not write whole."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.leaves: dict[tuple[str, int], Any] = {}

    def read(self, tree: Any) -> _Nodes:
        """Return the nodes of a tree, all of it."""
        text = str(tree.toJSON())
        self.texts.append(text)
        nodes: _Nodes = json.loads(text)
        return nodes

    def operator(self, plan: Any, needed: Any) -> tuple[_Nodes, _Below]:
        """Return an operator, of whose columns a set is needed, and what is to be written after it."""
        kind = _kind_of(plan)
        write = _OPERATORS.get(kind)
        if write is not None:
            fields, below = write(self, plan, needed)
            return [{"class": kind, "num-children": len(below), **fields}], below
        if kind in _ALIKE:
            return [self.leaf(kind, plan, _numbers_of(needed.toSeq()))], []
        return self.read(plan), []

    def leaf(self, kind: str, plan: Any, numbers: Iterable[int]) -> dict[str, Any]:
        """Return a leaf as far as its columns of some numbers go, behind one that stands for all others."""
        first = -1 - len(self.leaves)
        self.leaves[kind, first] = plan
        output = [[{"exprId": {"id": each}}] for each in (first, *numbers)]
        return {"class": kind, "num-children": 0, "output": output}

    def passing(self, plan: Any, needed: Any) -> tuple[dict[str, Any], _Below]:
        """Return the fields of an operator that passes its rows on, and what is below it."""
        return {}, [(plan.child(), needed)]

    def project(self, plan: Any, needed: Any) -> tuple[dict[str, Any], _Below]:
        """Do as `passing`, for a projection: of each row it makes one row."""
        expressions, read = self._expressions(_made(plan, plan.projectList(), needed))
        return {"projectList": expressions}, [(plan.child(), read)]

    def aggregate(self, plan: Any, needed: Any) -> tuple[dict[str, Any], _Below]:
        """Do as `passing`, for an aggregation: its keys alone make and choose rows."""
        keys, read = self._expressions(plan.groupingExpressions())
        expressions, more = self._expressions(_made(plan, plan.aggregateExpressions(), needed))
        fields = {"groupingExpressions": keys, "aggregateExpressions": expressions}
        return fields, [(plan.child(), _united(read, more))]

    def filter(self, plan: Any, needed: Any) -> tuple[dict[str, Any], _Below]:
        """Do as `passing`, for a filter."""
        condition, read = self._expressions(sequence(plan.condition()))
        return {"condition": condition}, [(plan.child(), _united(needed, read))]

    def join(self, plan: Any, needed: Any) -> tuple[dict[str, Any], _Below]:
        """Do as `passing`, for a join, with and without a condition."""
        fields: dict[str, Any] = {"joinType": {"object": str(plan.joinType().getClass().getName())}}
        if plan.condition().isDefined():
            fields["condition"], read = self._expressions(sequence(plan.condition().get()))
            needed = _united(needed, read)
        sides = plan.left(), plan.right()
        return fields, [(side, needed.intersect(side.outputSet())) for side in sides]

    def _expressions(self, values: Any) -> tuple[list[_Nodes], Any]:
        """Return the nodes of each of some expressions, a sequence of Scala, and the attributes they read."""
        # They come over in one call.
        around = _around(values)
        return _cut(self.read(around)), around.references()


# Of these the columns that are left out decide nothing. Others are written down whole.
_OPERATORS: dict[str, Callable[[_Writer, Any, Any], tuple[dict[str, Any], _Below]]] = {
    _LOGICAL + "Aggregate": _Writer.aggregate,
    _LOGICAL + "Filter": _Writer.filter,
    _LOGICAL + "Join": _Writer.join,
    _LOGICAL + "Project": _Writer.project,
    _LOGICAL + "SubqueryAlias": _Writer.passing,
    _LOGICAL + "View": _Writer.passing,
}


def _kind_of(plan: Any) -> str:
    return str(plan.getClass().getName())


def _around(values: Any) -> Any:
    """Return one expression around all of some expressions, a sequence of Scala."""
    return java_class(f"{PACKAGE}Coalesce")(values)


def _made(plan: Any, expressions: Any, needed: Any) -> Any:
    """Return those of the expressions of an operator, one for each column, that make a set of columns."""
    made = java_object(f"{PACKAGE}AttributeMap").apply(zipped(plan.output(), expressions))
    return mapped(needed.toSeq(), made)


def _numbers_of(attributes: Any) -> list[int]:
    """Return the numbers of attributes.

    Raises:
        ValueError: if one cannot be read.
    """
    size = attributes.size()
    texts = str(attributes.mkString(_BETWEEN)).split(_BETWEEN) if size else []
    found = [int(each[1]) for each in map(_NUMBER.search, texts) if each]
    if len(found) != len(texts) or len(found) != size:
        raise ValueError(f"the attributes {texts} cannot be read")
    return found


def _united(one: Any, other: Any) -> Any:
    return getattr(one, "$plus$plus")(other)


def _cut(nodes: _Nodes) -> list[_Nodes]:
    """Return the nodes of each child of the first one."""
    found, at = [], 1
    for _ in range(nodes[0]["num-children"]):
        start, missing = at, 1
        while missing:
            missing += nodes[at]["num-children"] - 1
            at += 1
        found.append(nodes[start:at])
    return found
