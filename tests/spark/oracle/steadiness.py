"""Proves which columns of a query have the same values when tasks are retried, from its analysed plan.

A column is steady if it is made by sources, operators and expressions that are known to be, and by nothing
else: what is not in a list here counts against it. Reasons are noun phrases, for error messages.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from keysplit.spark.identity.known import ByChance
from keysplit.spark.tasks import ASKING
from oracle import expressions as of
from oracle.interface import Node, Steadiness, tree_of
from oracle.steady_expressions import (
    Scope,
    columns_in,
    has_exact_type,
    id_of,
    is_collated,
    text_of,
)
from oracle.written import Written

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
_CATALYST = "org.apache.spark.sql.catalyst."
_PASSING = frozenset(
    (
        "CollectMetrics",
        "EventTimeWatermark",
        "ResolvedHint",
        "Subquery",
        "SubqueryAlias",
        "UpdateEventTimeWatermarkColumn",
        "View",
    )
)
# Expressions that hold a plan.
_SUBQUERIES = (".Exists", ".ListQuery", ".ScalarSubquery", ".InSubquery")
# Leaves that a micro-batch reads again as they were: the stream itself, and rows of the program.
_FIXED = ("Streaming", "LocalRelation", "LogicalRDD", "Range")
_SHUFFLING = frozenset(("RebalancePartitions", "RepartitionByExpression"))
# A micro-batch that is made by these alone depends on no state, and passes no shuffle.
_STATELESS = _PASSING | {
    "Expand",
    "Filter",
    "Generate",
    "MapInArrow",
    "MapInPandas",
    "Project",
    "PythonMapInArrow",
    "Union",
}
# Fields that name a function of the user: one of Python, one of the JVM, an aggregate of either kind.
_NAMES = ("name", "udfName", "aggregatorName", "udafName")
# A function of the user over many rows at once.
_OVER_ROWS = frozenset(
    (
        "FlatMapCoGroupsInArrow",
        "FlatMapCoGroupsInPandas",
        "FlatMapGroupsInArrow",
        "FlatMapGroupsInPandas",
        "MapInArrow",
        "MapInPandas",
        "PythonMapInArrow",
    )
)

Source = tuple[str | None, str | None]
"""Why the rows of a source may differ when it is read again, and why their order may; None if they do not."""


class Leaves(Protocol):
    """What is known of the leaves of a plan."""

    def of(self, node: Node, output: list[int]) -> Source:
        """Say whether the rows of a leaf, and their order, may differ when it is read again."""

    def again(self, node: Node, output: list[int]) -> str | None:
        """Say why another query that reads a leaf may see other rows, as it reads other columns or later."""

    def partitioned(self, node: Node, output: list[int]) -> str | None:
        """Say what may put the rows of a leaf into other partitions when it is read twice."""

    def behind(self, node: Node, output: list[int]) -> "tuple[Written, Leaves] | None":
        """Return the plan of the micro-batch whose rows a leaf has, and its leaves; None for other rows."""

    def is_checkpoint(self, node: Node, output: list[int]) -> bool:
        """Say whether a leaf has the rows of a checkpoint: a new driver computes them once more."""

    @property
    def has_caches(self) -> bool:
        """Whether rows of the plan may be cached."""

    @property
    def limits_keep_order(self) -> bool:
        """Whether Spark computes every limit of a sort as one operator."""

    @property
    def is_deterministic(self) -> bool:
        """Whether Spark finds all expressions of the plan deterministic."""

    @property
    def sums_try(self) -> bool:
        """Whether a sum that overflows may be null, as `try_sum` is."""

    @property
    def sums_fail(self) -> bool:
        """Whether all sums that overflow are errors."""


@dataclass(frozen=True)
class _Rows:
    """What is known of the rows that an operator returns."""

    output: list[int]
    """The numbers of its columns, in order."""
    columns: Mapping[int, str | None]
    """For each column why its values may differ, None if they do not."""
    rows: str | None = None
    """Why there may be other rows, whatever their values."""
    order: str | None = None
    """Why they may come in another order."""
    sorted: bool = False
    """Whether they are in a total order across all partitions."""

    def lost(self, why: str) -> "_Rows":
        """Return them in an order that may be another one."""
        return replace(self, order=why, sorted=False)


@dataclass
class Proof:
    """Goes through an analysed plan.

    Attributes:
        leaves: says what is known of the leaves of the plan.
        trusted: names of functions of the user that are trusted.
        anew: what plans the query anew, None if only tasks are retried.
        twice: whether one query reads the rows twice, maybe in other partitions.
        functions: names of all functions of the user that were met.
        has_python: whether functions of Python have a part in the plan.
        again: why the rows may be others where the query is read once more; None if they are not.
        by_place: whether something depends on the partitions of rows, and on their order in them.
        of_files: the numbers of columns that say in which file, and where in it, a row is.
    """

    leaves: "Leaves"
    trusted: frozenset[str]
    anew: str | None = None
    twice: bool = False
    functions: set[str] = field(default_factory=set)
    has_python: bool = False
    again: str | None = None
    by_place: bool = False
    of_files: set[int] = field(default_factory=set)
    _has_subqueries: bool = False
    _types: dict[int, Any] = field(default_factory=dict)
    _collated: bool = False
    _ctes: dict[int, _Rows] = field(default_factory=dict)

    def of(self, plan: Written) -> Steadiness:
        """Return what is proved of a plan and its columns."""
        self._collated, self.has_python = plan.has_collations, plan.has_python
        self._has_subqueries = any(map(plan.mentions, _SUBQUERIES))
        try:
            if self._collated:  # else no type is asked for
                self._types.update(_types_in(plan.nodes))
            found = self._plan(tree_of(plan.nodes), {})
            lost = found.rows or "a column that keysplit cannot find"
            columns = {place: found.columns.get(each, lost) for place, each in plan.columns.items()}
        except (LookupError, TypeError, ValueError, RecursionError):
            return unreadable(self.functions)
        functions = frozenset(self.functions)
        return Steadiness(found.rows, columns, found.order, functions, self.again, self.by_place)

    @property
    def sums_try(self) -> bool:
        """Whether a sum that overflows may be null, as `try_sum` is."""
        return self.leaves.sums_try

    @property
    def sums_fail(self) -> bool:
        """Whether all sums that overflow are errors."""
        return self.leaves.sums_fail

    @property
    def hides_files(self) -> str | None:
        """What keeps Spark from knowing which file a row is of; None if nothing does."""
        if self.has_python:
            return "Python functions, for which Spark reads ahead"
        return "cached rows, which are of no file" if self.leaves.has_caches else None

    def _plan(self, root: Node, outer: Mapping[int, str | None]) -> _Rows:
        done: list[_Rows] = []
        for node in _after_children(root):
            first = len(done) - len(node.children)
            below = done[first:]
            del done[first:]
            done.append(self._operator(node, below, outer))
        return done[0]

    def _operator(self, node: Node, below: list[_Rows], outer: Mapping[int, str | None]) -> _Rows:
        name = node.name if node.kind == _LOGICAL + node.name else ""
        if not node.children:
            # Spark may evaluate a subquery as a part of the query around it, in the order of its rows.
            found = self._leaf(node, name)
            return found.lost(found.order or "a subquery") if outer else found
        if self._has_subqueries and _holds_a_subquery(node.fields):
            # Spark makes joins of them, below the expressions of the operator and above its rows
            below = [each.lost(each.order or "a subquery") for each in below]
            return self._made(node, name, below, outer).lost("a subquery")
        return self._made(node, name, below, outer)

    def _made(self, node: Node, name: str, below: list[_Rows], outer: Mapping[int, str | None]) -> _Rows:
        child = below[0]
        scope = Scope(self, {**outer, **_merged(below)}, _first(each.rows for each in below), child.order)
        if name == "CollectMetrics":
            return replace(child, sorted=False)  # a limit on top of it collects rows as they arrive
        if name in _PASSING:
            return child
        if name in _OVER_ROWS:
            return self._over_rows(node, below, scope)
        if name in _SHUFFLING:
            return self._repartitioned(node, child, scope)
        method = _OPERATORS.get(name)
        if method is None:
            return _unknown(node, below, f"the operator {node.name}, which keysplit does not know")
        return method(self, node, below, scope)

    def _leaf(self, node: Node, name: str) -> _Rows:
        if name == "OneRowRelation":
            return _Rows([], {}, order=self.anew)
        if name == "CTERelationRef":
            return self._cte(node)
        if node.kind == _CATALYST + "catalog.HiveTableRelation":
            output = [id_of(each) for part in ("dataCols", "partitionCols") for each in node.trees(part)]
        else:
            output = _ids(node.fields["output"])
        behind = self.leaves.behind(node, output)
        if behind is not None:
            return self._micro_batch(*behind, output)
        values, order = self.leaves.of(node, output)
        if self.twice:
            order = order or self.leaves.partitioned(node, output)
        self.again = self.again or self.leaves.again(node, output)
        if self.anew and values is None and not self._is_fixed(node, output):
            values = f"a table beside the stream, which may have changed downstream of {self.anew}"
        columns = dict.fromkeys(output, values)
        if self.anew and values is None:
            of_files = _of_files(node.fields["output"])
            self.of_files |= of_files
            columns |= dict.fromkeys(of_files, of.block_of_file(self.anew))
        return _Rows(output, columns, values, order or values or self.anew)

    def _is_fixed(self, node: Node, output: list[int]) -> bool:
        return node.name.startswith(_FIXED) and not self.leaves.is_checkpoint(node, output)

    def _micro_batch(self, plan: Written, leaves: "Leaves", output: list[int]) -> _Rows:
        """Return what is known of the rows that `foreachBatch` is given: Spark passes them on as an RDD."""
        root = tree_of(plan.nodes)
        if root.name == "WriteToMicroBatchDataSourceV1":
            root = root.children[0]
        self.has_python = self.has_python or plan.has_python
        for each in _after_children(root):
            if each.children and each.name not in _STATELESS:
                return _of_output(output, f"the operator {each.name} in the stream")
        if plan.has_collations:
            return _of_output(output, "collated strings in the stream")
        proof = Proof(leaves, self.trusted, functions=self.functions, has_python=plan.has_python)
        found = proof._plan(root, {})
        columns = dict(zip(output, (found.columns[each] for each in found.output), strict=True))
        return _Rows(output, columns, found.rows, found.order)

    def _cte(self, node: Node) -> _Rows:
        output = [id_of(each) for each in node.trees("output")]
        found = self._ctes.get(node.fields["cteId"])
        if found is None or len(found.output) != len(output) or node.fields.get("recursive"):
            return _of_output(output, "a recursive query")
        columns = {to: found.columns[from_] for to, from_ in zip(output, found.output, strict=True)}
        # Spark computes one with expressions that are not deterministic once, and deals its rows out.
        why = None if self.leaves.is_deterministic else _first(columns.values())
        rows = found.rows or (why and f"a common table expression of rows with {why}")
        return _Rows(output, columns, rows, "a common table expression")

    def _with_cte(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        plan: int = node.fields["plan"]
        return below[plan]

    def _cte_def(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        self._ctes[node.fields["id"]] = below[0]
        return below[0]

    def _project(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        expressions = node.trees("projectList")
        found = _named(below[0], expressions, scope)
        # Of others Spark may make an operator between a sort and a limit, which then collects rows as they
        # arrive.
        return found if all(map(_is_a_column, expressions)) else replace(found, sorted=False)

    def _filter(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        # A total order need not outlive it: a limit on top of it collects rows as they arrive.
        return replace(below[0], rows=below[0].rows or scope.all(node.trees("condition")), sorted=False)

    def _join(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        left, right = below
        kind = node.fields["joinType"]
        kind = str(kind.get("object") or kind.get("product-class")).rpartition(".")[2].rstrip("$")
        condition = scope.all(node.trees("condition")) if node.fields.get("condition") else None
        rows = left.rows or right.rows or condition
        if kind in ("LeftSemi", "LeftAnti"):
            return _Rows(left.output, left.columns, rows, "a join")
        if kind not in ("Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter"):
            return _unknown(node, below, f"a join of kind {kind}, which keysplit does not know")
        return _Rows([*left.output, *right.output], {**left.columns, **right.columns}, rows, "a join")

    def _lateral(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        left = below[0]
        subquery = node.trees("right")[0]
        right = self._plan(subquery.trees("plan")[0], scope.columns)
        condition = (
            scope.inside(right.columns).all(node.trees("condition")) if node.fields.get("condition") else None
        )
        joined = scope.all(subquery.trees("joinCond")) if subquery.fields.get("joinCond") else None
        rows = left.rows or right.rows or condition or joined
        return _Rows([*left.output, *right.output], {**left.columns, **right.columns}, rows, "a join")

    def _union(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        first = below[0]
        if any(len(each.output) != len(first.output) for each in below):
            return _unknown(node, below, "a union that keysplit cannot read")
        columns = {
            place: _first(each.columns[each.output[at]] for each in below)
            for at, place in enumerate(first.output)
        }
        return _Rows(
            first.output, columns, _first(each.rows for each in below), _first(each.order for each in below)
        )

    def _set(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        values = _first(each for side in below for each in side.columns.values())
        rows = _first(each.rows for each in below) or values
        return replace(below[0].lost("a set operation"), rows=rows, columns=self._one_of_equal(below[0]))

    def _aggregate(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        child, keys = below[0], node.trees("groupingExpressions")
        collated = [key for key in keys if is_collated(key)]
        # The value that stands for a group of equal ones may be any of them. A key may be written in another
        # way than it is used, so all columns of it count, but for those that are keys themselves.
        plain = {id_of(key) for key in keys if key.name == "AttributeReference" and not is_collated(key)}
        within = {each for key in collated for each in columns_in(key)} - plain
        inside = replace(scope, order="a groupBy", collated=tuple(map(text_of, collated)), within=within)
        found = _named(child, node.trees("aggregateExpressions"), inside)
        return replace(found.lost("a groupBy"), rows=child.rows or scope.all(keys))

    def _distinct(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        child = below[0]
        rows = child.rows or _first(child.columns.values())
        return replace(child.lost("a distinct"), rows=rows, columns=self._one_of_equal(child))

    def _deduplicate(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        child, keys = below[0], node.trees("keys")
        kept = {id_of(key) for key in keys if has_exact_type(key)}
        rows = child.rows or scope.all(keys)
        columns = {
            each: why if each in kept else why or "dropDuplicates, which keeps one of several rows"
            for each, why in child.columns.items()
        }
        return replace(child.lost("a dropDuplicates"), rows=rows, columns=columns)

    def _one_of_equal(self, child: _Rows) -> dict[int, str | None]:
        """Return the columns of rows of which one stands for all that are equal."""
        return {
            each: why
            if self._is_plain(each)
            else why or "strings that may be collated, one of several that are equal"
            for each, why in child.columns.items()
        }

    def _is_plain(self, column: int) -> bool:
        if not self._collated:
            return True  # of equal floats Spark makes one value
        type_ = self._types.get(column)
        return type_ is not None and "collat" not in json.dumps(type_).lower()

    def _window(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        child = below[0]
        new = {id_of(each): scope.all([each]) for each in node.trees("windowExpressions")}
        rows = child.rows or scope.all(node.trees("partitionSpec"))
        return _Rows([*child.output, *new], {**child.columns, **new}, rows, "a window")

    def _generate(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        child = below[0]
        if node.fields["unrequiredChildIndex"]:
            raise LookupError("an optimised plan")
        why = scope.all(node.trees("generator"))
        new = {id_of(each): why for each in node.trees("generatorOutput")}
        return replace(
            child,
            output=[*child.output, *new],
            columns={**child.columns, **new},
            rows=child.rows or why,
            sorted=False,
        )

    def _expand(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        output = [id_of(each) for each in node.trees("output")]
        if node.fields["projections"] is None:  # those of unpivot are not written down
            child = below[0]
            why = "an unpivot"
            return _Rows(
                output, {each: child.columns.get(each, why) for each in output}, child.rows, child.order
            )
        lists = [[tree_of(each) for each in projection] for projection in node.fields["projections"]]
        if any(len(each) != len(output) for each in lists):
            raise LookupError("projections of another length")
        columns = {place: _first(scope.all([each[at]]) for each in lists) for at, place in enumerate(output)}
        return _Rows(output, columns, below[0].rows, below[0].order)

    def _sort(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        child = below[0]
        keys = [each.children[0] for each in node.trees("order")]
        if node.fields["global"]:  # values decide in which partition a row is
            child = replace(child, rows=child.rows or scope.all(keys))
        by = {id_of(key) for key in keys if key.name == "AttributeReference" and has_exact_type(key)}
        steady = not child.rows and not any(child.columns[each] for each in child.output)
        if not (steady and by.issuperset(child.output)):
            return child.lost("a sort")
        # Rows that such a sort finds equal are equal.
        order = self.anew
        if self.twice:
            order = child.order or (
                "a sort, whose ranges Spark samples again" if node.fields["global"] else None
            )
        return replace(child, order=order, sorted=bool(node.fields["global"]))

    def _offset(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        # Without a limit on top Spark may collect rows of a total order as they arrive.
        return self._limit(node, [replace(below[0], sorted=False)], scope)

    def _limit(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        child = below[0]
        ordered = child.sorted and self.leaves.limits_keep_order
        chosen = None if ordered else "a limit or an offset without a total order"
        return replace(child, rows=child.rows or chosen, order=child.order or chosen)

    def _local_limit(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        child = below[0]
        if child.sorted:  # a global limit is on top of it
            return child
        self.by_place = True
        return replace(child, rows=child.rows or (child.order and f"a limit downstream of {child.order}"))

    def _sample(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        child = below[0]
        self.by_place = True
        rows = child.rows or (child.order and f"a sample downstream of {child.order}")
        return replace(child, rows=rows, sorted=False)

    def _repartition(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        child = below[0]
        if node.fields["shuffle"]:
            return _dealt(child)
        order = child.order or ("a coalesce" if self.twice else None)  # by where the rows are then
        return replace(child, order=order, sorted=False)

    def _repartitioned(self, node: Node, child: _Rows, scope: Scope) -> _Rows:
        by = node.trees("partitionExpressions")
        if not by:
            return _dealt(child)
        why = scope.all(by)
        return replace(child.lost("a shuffle (repartition)"), rows=child.rows or why)

    def _attach_sequence(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        child, new = below[0], id_of(node.trees("sequenceAttr")[0])
        why = "an index that depends on the order of rows"
        return replace(child, output=[new, *child.output], columns={new: why, **child.columns})

    def _over_rows(self, node: Node, below: list[_Rows], scope: Scope) -> _Rows:
        function = node.trees("functionExpr")[0]
        why = self.function(function) or _first(
            each for child in below for each in (child.rows, *child.columns.values())
        )
        return _of_output([id_of(each) for each in node.trees("output")], why, "a function over rows")

    def function(self, node: Node) -> str | None:
        """Return why a function of the user is not steady; None if it is trusted."""
        name = next((found for each in _NAMES if (found := node.fields.get(each))), node.name)
        name = name if isinstance(name, str) else node.name
        if name.startswith(ASKING):
            return "a plan that changes while the stream runs"
        self.functions.add(name)
        kind = "Python function" if node.name.startswith(("Python", "PrettyPython")) else "function"
        if name in self.trusted:
            return None
        why = f"the {kind} {name!r}, which is not trusted"
        return ByChance(why) if node.fields.get("udfDeterministic") is False else why

    def subquery(self, node: Node, columns: Mapping[int, str | None]) -> str | None:
        """Return why the answer of a subquery may differ."""
        found = self._plan(node.trees("plan")[0], columns)
        return found.rows or _first(found.columns[each] for each in found.output)


def unreadable(functions: Iterable[str] = ()) -> Steadiness:
    """Return that nothing is proved of a plan in which these functions of the user were met."""
    why = "a query plan that keysplit cannot read"
    return Steadiness(why, None, why, frozenset(functions))


_Method = Callable[[Proof, Node, list[_Rows], Scope], _Rows]
_OPERATORS: dict[str, _Method] = {
    "Aggregate": Proof._aggregate,
    "AttachDistributedSequence": Proof._attach_sequence,
    "CTERelationDef": Proof._cte_def,
    "Deduplicate": Proof._deduplicate,
    "DeduplicateWithinWatermark": Proof._deduplicate,
    "Distinct": Proof._distinct,
    "Except": Proof._set,
    "Expand": Proof._expand,
    "Filter": Proof._filter,
    "Generate": Proof._generate,
    "GlobalLimit": Proof._limit,
    "Intersect": Proof._set,
    "Join": Proof._join,
    "LateralJoin": Proof._lateral,
    "LocalLimit": Proof._local_limit,
    "Offset": Proof._offset,
    "Project": Proof._project,
    "Repartition": Proof._repartition,
    "Sample": Proof._sample,
    "Sort": Proof._sort,
    "Tail": Proof._limit,
    "Union": Proof._union,
    "Window": Proof._window,
    "WithCTE": Proof._with_cte,
}


def _is_a_column(node: Node) -> bool:
    if node.name == "Alias":
        node = node.children[0]
    return node.name in ("AttributeReference", "Literal")


def _holds_a_subquery(value: Any) -> bool:
    """Say whether a subquery has a part in the expressions that JSON of an operator holds."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(each)
        elif isinstance(each, Mapping):
            if str(each.get("class")).endswith(_SUBQUERIES):
                return True
            waiting.extend(part for part in each.values() if isinstance(part, list | Mapping))
    return False


def _named(child: _Rows, trees: list[Node], scope: Scope) -> _Rows:
    found = {}
    for each in trees:
        found[id_of(each)] = scope.all([each])
    return replace(child, output=[id_of(each) for each in trees], columns=found)


def _dealt(child: _Rows) -> _Rows:
    """Return rows that are dealt out to partitions in turn, which Spark does in an order of their values."""
    why = _first(child.columns[each] for each in child.output)
    rows = child.rows or (why and f"a repartition without columns of rows with {why}")
    return replace(child.lost("a shuffle (repartition)"), rows=rows)


def _unknown(node: Node, below: list[_Rows], why: str) -> _Rows:
    if "output" in node.fields:
        return _of_output([id_of(each) for each in node.trees("output")], why)
    return _of_output([each for child in below for each in child.output], why)


def _of_output(output: list[int], why: str | None, order: str | None = None) -> _Rows:
    return _Rows(output, dict.fromkeys(output, why), why, order or why)


def _merged(below: list[_Rows]) -> dict[int, str | None]:
    return {each: why for child in below for each, why in child.columns.items()}


def _first(found: Iterable[str | None]) -> str | None:
    return next((each for each in found if each is not None), None)


def _ids(attributes: list[list[dict[str, Any]]]) -> list[int]:
    """Return the numbers of the columns of a leaf, of which there may be thousands, without trees of them."""
    if any(len(each) != 1 for each in attributes):
        raise LookupError("the columns of a source cannot be read")
    return [int(attribute["exprId"]["id"]) for (attribute,) in attributes]


def _of_files(attributes: list[list[dict[str, Any]]]) -> set[int]:
    """Return the numbers of the columns that say in which file, and where in it, a row is."""
    found = set()
    for (attribute,) in attributes:
        kind = attribute.get("dataType")
        fields = kind.get("fields", []) if isinstance(kind, dict) else []
        # Spark's JSON does not say which columns are hidden.
        is_named_so = fields and attribute.get("name") == "_metadata"
        if is_named_so or any(each["name"].startswith("file_block_") for each in fields):
            found.add(int(attribute["exprId"]["id"]))
    return found


def _types_in(value: Any) -> Iterator[tuple[int, Any]]:
    """Yield the number and the type of each column that is named in JSON of a plan."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(each)
            for new, old in itertools.pairwise(each):
                if isinstance(new, dict) and new.get("class") == of.PACKAGE + "Alias" and "dataType" in old:
                    yield new["exprId"]["id"], old["dataType"]
        elif isinstance(each, dict):
            if each.get("class") == of.PACKAGE + "AttributeReference":
                yield each["exprId"]["id"], each["dataType"]
            waiting.extend(part for part in each.values() if isinstance(part, list))


def _after_children(root: Node) -> Iterator[Node]:
    """Yield the nodes of a tree, each after its children."""
    waiting = [(root, False)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            yield node
        else:
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(node.children))
