"""Proves which expressions have the same values when tasks are retried, from what is proved of their columns.

What is not in a list of `expressions` counts against an expression. Reasons are noun phrases, for errors.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from keysplit.spark.identity.known import ByChance
from oracle import expressions as of
from oracle.aggregates import AGGREGATES
from oracle.interface import Node

# Types of which two values that are equal are one value.
_EXACT = (
    "binary",
    "boolean",
    "byte",
    "date",
    "integer",
    "long",
    "short",
    "string",
    "timestamp",
    "timestamp_ntz",
)


# How a text begins that has a date: by a year, alone or with a month.
_DATE = re.compile(r"\s*[+-]?\d{4,7}(-|\s*$)")

# Decimals of so many digits leave room for ten more in the buffer of a sum.
_DIGITS_OF_SUMS = 28
# From so many digits on Spark averages decimals as such (its optimizer's rule DecimalAggregates).
_DIGITS_OF_AVERAGES = 12


class InQuery(Protocol):
    """What an expression depends on beyond the rows of its operator."""

    anew: str | None
    """What plans the query anew, None if only tasks are retried."""

    by_place: bool
    """Whether something depends on the partitions of rows, and on their order in them."""

    of_files: set[int]
    """The columns that say in which file, and where in it, a row is."""

    @property
    def hides_files(self) -> str | None:
        """What keeps Spark from knowing which file a row is of; None if nothing does."""

    @property
    def sums_try(self) -> bool:
        """Whether a sum that overflows may be null, as `try_sum` is."""

    @property
    def sums_fail(self) -> bool:
        """Whether all sums that overflow are errors."""

    def function(self, node: Node) -> str | None:
        """Return why a function of the user is not steady; None if it is trusted."""

    def subquery(self, node: Node, columns: Mapping[int, str | None]) -> str | None:
        """Return why the answer of a subquery may differ."""


@dataclass(frozen=True)
class Scope:
    """What expressions of an operator see."""

    query: InQuery
    columns: Mapping[int, str | None]
    """For each column, by its number, why its values may differ, None if they do not."""
    rows: str | None
    """Why there may be other rows."""
    order: str | None
    """Why they may come in another order."""
    collated: tuple[str, ...] = ()
    """Grouping keys that hold collated strings, as text."""
    within: Collection[int] = ()
    """The columns in them."""

    def inside(self, columns: Mapping[int, str | None]) -> "Scope":
        """Return the scope that has some more columns."""
        return replace(self, columns={**self.columns, **columns})

    def all(self, trees: Iterable[Node]) -> str | None:
        """Return why a value of some expressions may differ when a task is retried, None if none does."""
        waiting = list(trees)
        while waiting:
            node = waiting.pop()
            if self.collated and text_of(node) in self.collated:
                return "a grouping key of collated strings"
            why, more = self._one(node)
            if why is not None:
                return why
            waiting.extend(more)
        return None

    def _one(self, node: Node) -> tuple[str | None, Iterable[Node]]:
        """Return why an expression is not steady in itself, and the expressions that it depends on."""
        name = node.kind.removeprefix(of.PACKAGE) if node.kind.startswith(of.PACKAGE) else ""
        short = node.name
        if name == "AttributeReference":
            if id_of(node) in self.within:
                return "a grouping key of collated strings", ()
            return self.columns.get(id_of(node), "a column that keysplit cannot find"), ()
        if name == "OuterReference":
            return None, node.trees("e")
        if name == "aggregate.AggregateExpression":
            return self._aggregate(node), ()
        if name == "WindowExpression":
            return self._window(node), ()
        if name in ("ScalarSubquery", "Exists", "ListQuery"):
            return self.query.subquery(node, self.columns), node.children
        if name == "InSubquery":
            return None, node.children
        if name in ("PythonUDF", "ScalaUDF"):
            return self.query.function(node), node.children
        if name in of.WITHOUT_ORDER and _is_collected(node.children[0]):
            return self._inputs(node.children[0]), node.children[1:]
        if node.kind == of.OF_SQL:
            return None, node.children
        if name == "objects.StaticInvoke" and _is_padding(node):
            return None, node.children
        if self.query.anew and name in of.BY_CLOCK:
            return f"{of.BY_CLOCK[name]} downstream of {self.query.anew}", ()
        if self.query.anew and name in of.READING_TIMES and not _is_time_of_its_own(node):
            return f"a time of the clock as text downstream of {self.query.anew}", ()
        if name == "GetStructField" and self._is_of_file(node):
            return None, ()
        if name and short in of.OF_ARGUMENTS and not name.startswith("objects."):
            return None, node.children
        if name.startswith("InputFile") and self.query.hides_files:
            return f"{of.BY_ORDER[name]} beside {self.query.hides_files}", ()
        if name in of.BY_ORDER:
            self.query.by_place = True
            return self.order and ByChance(f"{of.BY_ORDER[name]} downstream of {self.order}"), node.children
        return f"the expression {short}, which keysplit does not know", ()

    def _is_of_file(self, node: Node) -> bool:
        """Say whether a field is one of the hidden column of a file that do not depend on its blocks."""
        (column,) = node.children
        if not self.query.anew or column.name != "AttributeReference":
            return False
        is_hidden = id_of(column) in self.query.of_files
        if not is_hidden or self.columns.get(id_of(column)) != of.block_of_file(self.query.anew):
            return False
        fields = column.fields["dataType"]["fields"]
        return fields[node.fields["ordinal"]]["name"] in of.OF_FILE

    def _aggregate(self, node: Node) -> str | None:
        function = node.children[0]
        name = function.name
        if name in ("PythonUDAF", "PythonUDF", "ScalaUDAF", "ScalaAggregator"):
            why = self.query.function(function)
        elif not function.kind.startswith(of.PACKAGE):
            why = f"the aggregate {name}, which keysplit does not know"
        elif name not in AGGREGATES or not AGGREGATES[name].is_steady:
            why = f"the aggregate {name}, which may depend on the order of rows"
        elif name not in of.OF_ALL_TYPES and not all(map(has_exact_type, _summed(function))):
            why = f"the aggregate {name} of a type other than whole numbers, decimals, dates or plain strings"
        elif name in of.ADDING_DOUBLES and not all(map(_is_added_exactly, function.children)):
            why = f"the aggregate {name}, which adds doubles"
        elif name in of.SUMS and self._may_overflow(function):
            why = f"the aggregate {name}, which gives null if it overflows in the order of the rows"
        else:
            why = None
        return why or self._inputs(node)

    def _inputs(self, node: Node) -> str | None:
        """Return why the values that an aggregate sees may differ, in any order; None if they do not."""
        inputs = [*node.children[0].children, *node.children[1:]]
        return self.rows or replace(self, collated=(), within=()).all(inputs)

    def _may_overflow(self, function: Node) -> bool:
        """Say whether the order of the rows may decide whether a sum is null."""
        if self.query.sums_try:
            return True
        value = function.children[0]
        # the digits of what is computed with decimals are not written down
        most = 0 if value.children and value.name != "Cast" else _DIGITS_OF_SUMS
        return any(each > most for each in _digits_in(value)) and not self.query.sums_fail

    def _window(self, node: Node) -> str | None:
        function, spec = node.children[0], node.children[1]
        whole = _covers_equal_rows(spec.children[-1])
        if function.name == "AggregateExpression":
            why = self._aggregate(function) if whole else "a window function over a number of rows"
        elif function.kind.startswith(of.PACKAGE) and function.name in of.BY_RANK:
            why = self.all(function.children)
        else:
            why = f"the window function {function.name}, which may depend on the order of rows"
        return why or self.rows or self.all(spec.children[:-1])


def _is_collected(node: Node) -> bool:
    """Say whether it is an array of values that an aggregate has collected, and equal ones are one value."""
    if node.kind != of.PACKAGE + "aggregate.AggregateExpression":
        return False
    function = node.children[0]
    known = function.kind.startswith(of.PACKAGE) and function.name in of.COLLECTING
    return known and all(map(has_exact_type, function.children))


def _summed(function: Node) -> tuple[Node, ...]:
    """Return what an aggregate looks at in each row: for percentiles all but which and how often."""
    return function.children[:1] if function.name.startswith("Percentile") else function.children


def _covers_equal_rows(frame: Node) -> bool:
    """Say whether a window's frame has either all of several equal rows or none."""
    if "RangeFrame" in json.dumps(frame.fields.get("frameType")):
        return True
    return [each.name for each in frame.children] == ["UnboundedPreceding$", "UnboundedFollowing$"]


def columns_in(node: Node) -> Iterator[int]:
    """Yield the numbers of the columns in an expression."""
    if node.name == "AttributeReference":
        yield id_of(node)
    for child in node.children:
        yield from columns_in(child)


def id_of(node: Node) -> int:
    """Return the number of a named expression."""
    return int(node.fields["exprId"]["id"])


def text_of(node: Node) -> str:
    """Return an expression as text that is equal for equal expressions."""
    own = {
        key: value for key, value in node.fields.items() if key not in ("qualifier", "nullable", "metadata")
    }
    return json.dumps(own, sort_keys=True) + "".join(map(text_of, node.children))


def is_collated(node: Node) -> bool:
    """Say whether collated strings have a part in an expression; all names of theirs hold this word."""
    return "collat" in json.dumps(dict(node.fields)).lower() or any(map(is_collated, node.children))


def has_exact_type(node: Node) -> bool:
    """Say whether values of an expression that are equal are one value, and sums of them exact."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each.name in ("AttributeReference", "Literal", "Cast"):
            if not _is_exact(each.fields.get("dataType")):
                return False
        elif each.name == "If":
            waiting.extend(each.children[1:])
        elif each.name == "CaseWhen":
            # conditions and values in turn, then what is left
            whens = len(each.children) // 2 * 2
            waiting.extend([*each.children[1:whens:2], *each.children[whens:]])
        elif each.name in of.KEEPING_EXACT:
            waiting.extend(each.children)
        elif each.name not in of.ALWAYS_EXACT:
            return False
    return True


def _digits_in(node: Node) -> Iterator[int]:
    """Yield the digits of all decimals in an expression; those of a cast alone where it is one."""
    digits = _digits_of(node)
    if digits:
        yield digits
    if node.name != "Cast":
        for child in node.children:
            yield from _digits_in(child)


def _digits_of(node: Node) -> int:
    """Return the digits of the type of an expression, as far as it is written down; 0 if it is no decimal."""
    type_ = node.fields.get("dataType")
    if not (isinstance(type_, str) and type_.startswith("decimal")):
        return 0
    return int(type_.partition("(")[2].partition(",")[0] or 10)


def _is_added_exactly(node: Node) -> bool:
    """Say whether Spark adds values as decimals to average them: of few digits it makes doubles."""
    return _digits_of(node) >= _DIGITS_OF_AVERAGES


def _is_time_of_its_own(node: Node) -> bool:
    """Say whether a function reads no time by the clock, as it may in a constant text without a date."""
    if node.name == "Cast" and not re.search("date|time", str(node.fields.get("dataType"))):
        return True
    if len(node.children) > 1:  # by a format, which has no such words
        return True
    (read,) = node.children
    if read.name == "Literal":
        is_text, text = str(read.fields.get("dataType")).startswith("string"), read.fields.get("value")
        return not is_text or text is None or _DATE.match(text) is not None
    if read.name == "Cast":
        return not str(read.fields.get("dataType")).startswith("string") or _holds(read, of.FOR_ROWS)
    return read.name in of.TIMES or _holds(read, of.FOR_ROWS)


def _holds(node: Node, names: Collection[str]) -> bool:
    return node.name in names or any(_holds(each, names) for each in node.children)


def _is_padding(node: Node) -> bool:
    """Say whether an expression is what Spark does to a CHAR or VARCHAR as it is read or written."""
    of_chars = node.fields.get("staticObject") == of.OF_CHARS
    return of_chars and node.fields.get("functionName") in of.PADDING


def _is_exact(type_: Any) -> bool:
    if isinstance(type_, dict):
        if "collat" in json.dumps(type_).lower():
            return False
        if type_.get("type") == "struct":
            return all(_is_exact(each["type"]) for each in type_["fields"])
        return type_.get("type") == "array" and _is_exact(type_["elementType"])
    return type_ in _EXACT or (isinstance(type_, str) and type_.startswith("decimal"))
