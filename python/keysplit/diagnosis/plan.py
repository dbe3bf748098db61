"""Physical plans from event logs: trees of operators, cut into the fragments that a stage runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

# The stages that write and read a shuffle share the metrics of one operator.
_WRITTEN = ("shuffle bytes written", "shuffle records written", "shuffle write time", "data size")
_WRAPPERS = (
    "WholeStageCodegen",
    "InputAdapter",
    "AdaptiveSparkPlan",
    "ResultQueryStage",
    "TableCacheQueryStage",
    "ShuffleQueryStage",
    "CommandResult",
    "ColumnarToRow",
)
_IDENTIFIER = re.compile(r"#\d+L?$")
_NORMALISED = re.compile(r"^knownfloatingpointnormalized\(normalizenanandzero\((.*)\)\)$")


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator of a plan.

    Attributes:
        name: Spark's name for the operator, such as "SortMergeJoin".
        text: Spark's description of the operator, a single line.
        metrics: the names of the operator's metrics, by the ids of their accumulators.
        children: the operators that this operator reads.
    """

    name: str
    text: str = field(repr=False)
    metrics: Mapping[int, str] = field(repr=False)
    children: tuple[Operator, ...] = field(repr=False)

    @property
    def is_exchange(self) -> bool:
        """Whether the operator is a shuffle or a broadcast, where stages end."""
        return self.name.endswith("Exchange") or self.name.startswith(("Subquery", "ReusedSubquery"))

    @property
    def is_cache(self) -> bool:
        """Whether the operator reads a cache, which other stages may have computed."""
        return self.name.startswith(("InMemoryTableScan", "Scan In-memory"))

    @property
    def all(self) -> Iterator[Operator]:
        """This operator and all upstream operators."""
        yield self
        for child in self.children:
            yield from child.all

    @property
    def partitions(self) -> int:
        """The number of partitions that a shuffle hashes into; 0 if it does not hash."""
        found = re.search(r"hashpartitioning\(.*?, (\d+)\)(?:,|$)", self.text)
        return 0 if found is None else int(found[1])

    @property
    def partitioning(self) -> tuple[str, ...]:
        """The columns by which a shuffle hashes; none if it does not hash."""
        found = re.search(r"hashpartitioning\(", self.text)
        if found is None:
            return ()
        inside = next(iter(_groups(self.text[found.end() - 1 :], "(", ")")), "")
        return tuple(column_name(each) for each in split(inside)[:-1])

    @property
    def functions(self) -> list[str]:
        """The members of the first bracketed list in the operator's text, with the numbers of columns."""
        return split(next(_groups(self.text, "[", "]"), ""))

    @property
    def lists(self) -> list[tuple[str, ...]]:
        """The bracketed column lists in the operator's text, in order."""
        return [column_names(each) for each in _groups(self.text, "[", "]")]


@dataclass(frozen=True, eq=False)
class Fragment:
    """The operators that the tasks of a stage run, between shuffles.

    Attributes:
        root: the last operator.
        operators: all operators, in the order in which they run.
        inputs: the shuffles that the fragment reads.
        output: the shuffle or broadcast that the fragment fills; None if it returns or writes the result.
    """

    root: Operator
    operators: tuple[Operator, ...]
    inputs: tuple[Operator, ...]
    output: Operator | None

    def first(self, *names: str) -> Operator | None:
        """Return the first operator to run whose name begins with one of these."""
        return next((each for each in self.operators if each.name.startswith(names)), None)


def read_plan(info: Mapping[str, Any]) -> Operator:
    """Read a plan from its form in event logs, without operators that only wrap other operators."""
    children = tuple(read_plan(each) for each in info.get("children") or ())
    name = str(info.get("nodeName", "")).strip()
    if len(children) == 1 and name.split(" (")[0].split("(")[0].strip() in _WRAPPERS:
        inner = children[0]
        metrics = _metrics(info)
        return Operator(inner.name, inner.text, {**metrics, **inner.metrics}, inner.children)
    return Operator(name, str(info.get("simpleString", "")), _metrics(info), children)


def _metrics(info: Mapping[str, Any]) -> dict[int, str]:
    return {int(each["accumulatorId"]): str(each["name"]) for each in info.get("metrics") or ()}


def fragments(root: Operator) -> Iterator[Fragment]:
    """Cut a plan into fragments, one per stage."""
    waiting: list[tuple[Operator, Operator | None]] = [(root, None)]
    while waiting:
        top, output = waiting.pop()
        if top.is_exchange:
            waiting += [(child, top) for child in top.children]
            continue
        operators: list[Operator] = []
        inputs: list[Operator] = []
        _collect(top, operators, inputs, waiting)
        yield Fragment(top, tuple(operators), tuple(inputs), output)


def _collect(
    operator: Operator,
    operators: list[Operator],
    inputs: list[Operator],
    beyond: list[tuple[Operator, Operator | None]],
) -> None:
    """Add an operator and the operators upstream of it in the stage; the rest belongs to other stages."""
    for child in operator.children:
        if operator.is_cache:
            beyond.append((child, None))
        elif child.is_exchange:
            beyond += [(each, child) for each in child.children]
            if child.name.endswith("Exchange") and not child.name.startswith("Broadcast"):
                inputs.append(child)
        else:
            _collect(child, operators, inputs, beyond)
    operators.append(operator)


def fragment_of(root: Operator, accumulators: set[int]) -> Fragment | None:
    """Return the fragment that a stage ran, by the accumulators that its tasks filled; None if none fits."""
    best, most = None, 0
    for fragment in fragments(root):
        known = {id_ for operator in fragment.operators for id_ in operator.metrics}
        for shuffle in fragment.inputs:
            known |= {id_ for id_, name in shuffle.metrics.items() if name not in _WRITTEN}
        if fragment.output is not None:
            known |= {id_ for id_, name in fragment.output.metrics.items() if name in _WRITTEN}
        if (shared := len(known & accumulators)) > most:
            best, most = fragment, shared
    return best


def column_name(text: str) -> str:
    """Return the name of a column without the number that Spark appends: `user#12` becomes user.

    Names that PySpark would misread get backticks. Expressions lose their numbers.
    """
    name, numbered = _IDENTIFIER.subn("", text.strip())
    if match := _NORMALISED.match(name):
        return column_name(match[1])
    if numbered:
        return name if re.fullmatch(r"[^.`()]+", name) else "`" + name.replace("`", "``") + "`"
    return re.sub(r"#\d+L?", "", name)


def column_names(text: str) -> tuple[str, ...]:
    """Return the names in a list of columns."""
    return tuple(map(column_name, split(text)))


def is_column(name: str) -> bool:
    """Whether a result of `column_name` is the name of a column or of a field."""
    return re.fullmatch(r"`(?:[^`]|``)+`|[^`()]+", name) is not None


def literal_name(name: str) -> str:
    """Return the name of a column without backticks."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def split(text: str) -> list[str]:
    """Cut a list at the commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _groups(text: str, opening: str, closing: str) -> Iterator[str]:
    """Return what is inside each outermost pair of parentheses."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        if letter == opening:
            depth += 1
            start = at + 1 if depth == 1 else start
        elif letter == closing and depth:
            depth -= 1
            if not depth:
                yield text[start:at]
