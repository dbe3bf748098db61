"""Read the windows in columns from Spark's analysed plan. This room's private calls are all here."""

from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, _parse_datatype_json_string

from keysplit.diagnosis.windows import KNOWN, RANKS, SHIFTS
from keysplit.spark.jvm import (
    PACKAGE,
    dataset,
    is_connect,
    items,
    java_class,
    java_object,
    kind_of,
    plan_of,
    sequence,
)
from keysplit.spark.names import free_names, in_sql
from keysplit.spark.ordered import connect
from keysplit.spark.ordered.calls import Call, Frame, Order, Spec, Unsplit, Windows

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
_FUNCTIONS = {
    "RowNumber": "row_number",
    "Rank": "rank",
    "DenseRank": "dense_rank",
    "PercentRank": "percent_rank",
    "CumeDist": "cume_dist",
    "NTile": "ntile",
    "Lag": "lag",
    "Lead": "lead",
    "First": "first",
    "Last": "last",
}
_IGNORING = ("First", "Last", "NthValue", "Lag", "Lead")


def windows_of(df: DataFrame, plain: DataFrame) -> Windows:
    """Read the windows of `plain`, which is `df.select("*", *columns)`.

    Raises:
        Unsplit: if there is one that keysplit does not know.
    """
    if is_connect(df):
        return connect.read(df, plain)
    try:
        return _read(df, plain)
    except Py4JError as error:
        raise Unsplit("keysplit cannot read the windows from this version of Spark's query plan") from error


def frozen(df: DataFrame) -> DataFrame:
    """Run a small query and return its result as a local DataFrame, with exact values of every type."""
    if is_connect(df):
        return connect.frozen(df)
    plan = plan_of(df)
    rows = df._jdf.queryExecution().executedPlan().executeCollect()
    local = java_class(f"{_LOGICAL}LocalRelation")
    local = _made(local, plan.output(), sequence(*rows))
    return DataFrame(dataset(df).ofRows(df.sparkSession._jsparkSession, local), df.sparkSession)


def _made(kind: Any, output: Any, rows: Any) -> Any:
    """Return a local relation with these rows; its further arguments depend on the version of Spark."""
    none = java_object("scala.None")
    try:
        return kind(output, rows, False, none)
    except (Py4JError, TypeError):
        return kind(output, rows, False)


def _read(df: DataFrame, plain: DataFrame) -> Windows:
    node, projects, nodes = plan_of(plain), [], []
    while kind_of(node) == "Project":
        projects.append(node)
        node = node.child()
    while kind_of(node) == "Window":
        nodes.append(node)
        node = node.child()
    if not nodes:
        raise Unsplit("columns have no window function over the rows of df")
    spark = df.sparkSession
    output = items(node.output())
    names, named = _names(df, output)
    base = DataFrame(dataset(df).ofRows(spark._jsparkSession, node), spark)
    # columns of `df` keep their ids, by which the user may name them in the result
    base = base if base.columns == names else base.toDF(*names)
    reader = _Reader({each.exprId().id(): name for each, name in zip(output, names, strict=True)}, base)
    found = [
        (alias, reader.call(alias.child(), each))
        for each in reversed(nodes)
        for alias in items(each.windowExpressions())
    ]
    targets = [*output, *(alias for alias, _ in found)]

    def finish(rows: DataFrame) -> DataFrame:
        # what the user's expressions are made of, by its ids: these expressions are taken as they are
        plan = plan_of(rows)
        columns = map(_as, items(plan.output()), targets)
        plan = java_class(f"{_LOGICAL}Project")(sequence(*columns), plan)
        for project in reversed(projects):
            plan = project.withNewChildren(sequence(plan))
        return DataFrame(dataset(df).ofRows(spark._jsparkSession, plan), spark)

    results = free_names(base, "result", list(map(str, range(len(found)))))
    return Windows(base, named, [call for _, call in found], results, finish)


def _as(source: Any, target: Any) -> Any:
    """Return a column under the name and id of another one."""
    if source.exprId().id() == target.exprId().id():
        return source
    metadata = java_class("scala.Some")(target.metadata())
    return java_class(f"{PACKAGE}Alias")(
        source, target.name(), target.exprId(), target.qualifier(), metadata, sequence()
    )


def _names(df: DataFrame, output: Sequence[Any]) -> tuple[list[str], dict[str, str]]:
    """Return a unique name for each column, and those of `df` by their own names if these are unique.

    The names are those of `df` unless some are equal, empty or differ from the plan's.
    """
    columns = df.columns
    names = [str(each.name()) for each in output]
    own = names[: len(columns)] == columns
    if own and all(names) and len({name.lower() for name in names}) == len(names):
        return names, {name: name for name in columns}
    once = {name: f"c{at}" for at, name in enumerate(columns) if own and columns.count(name) == 1}
    return [f"c{at}" for at in range(len(output))], once


class _Reader:
    """Reads windows as `Call`s, with columns and literals in SQL."""

    def __init__(self, names: Mapping[int, str], base: DataFrame) -> None:
        self._names = names
        self._types: dict[str, DataType] = {field.name: field.dataType for field in base.schema.fields}

    def call(self, expression: Any, window: Any) -> Call:
        spec, function = expression.windowSpec(), expression.windowFunction()
        order = tuple(map(self._order, items(window.orderSpec())))
        partition = tuple(map(self._column, items(window.partitionSpec())))
        kind = kind_of(function)
        if kind == "AggregateExpression":
            if function.isDistinct() or function.filter().isDefined():
                raise Unsplit(f"{function.sql()} has a FILTER or DISTINCT")
            function = function.aggregateFunction()
            kind = kind_of(function)
        name = _FUNCTIONS.get(kind) or str(function.prettyName()).lower()
        if name not in KNOWN:
            raise Unsplit(f"kss.window does not support the function {name}")
        arguments, offset = self._arguments(name, function)
        types = tuple(self._types.get(each.strip("`").replace("``", "`")) for each in arguments)
        return Call(
            function=name,
            arguments=arguments,
            argument_types=types,
            spec=Spec(partition, order),
            frame=_frame(spec.frameSpecification(), name),
            type=_parse_datatype_json_string(expression.dataType().json()),
            offset=offset,
            ignores_nulls=kind in _IGNORING and bool(function.ignoreNulls()),
        )

    def _arguments(self, name: str, function: Any) -> tuple[tuple[str, ...], int]:
        if name == "ntile":
            offset = _whole(function.buckets())
            return (str(offset),), offset
        if name in RANKS:
            return (), 0
        if name in SHIFTS:
            offset = _whole(function.inputOffset() if name == "lag" else function.offset())
            children = [self._sql(function.input()), str(offset)]
            default = function.default()
            if not (default.foldable() and default.eval(None) is None):
                children.append(self._sql(default))
            return tuple(children), offset
        if name == "nth_value":
            offset = _whole(function.offset())
            return (self._sql(function.input()), str(offset)), offset
        return tuple(map(self._sql, items(function.children()))), 0

    def _sql(self, expression: Any) -> str:
        if expression.foldable():
            return str(expression.sql())
        return in_sql(self._column(expression))

    def _column(self, expression: Any) -> str:
        if kind_of(expression) == "AttributeReference":
            name = self._names.get(expression.exprId().id())
            if name is not None:
                return name
        raise Unsplit(f"a window uses {expression.sql()}, which is not a column")

    def _order(self, order: Any) -> Order:
        return Order(
            self._column(order.child()),
            ascending=kind_of(order.direction()) == "Ascending$",
            nulls_first=kind_of(order.nullOrdering()) == "NullsFirst$",
        )


def _frame(frame: Any, name: str) -> Frame:
    rows = kind_of(frame.frameType()) == "RowFrame$"
    lower, upper = (_bound(each, rows, name) for each in (frame.lower(), frame.upper()))
    return Frame(rows, lower, upper)


def _bound(bound: Any, rows: bool, name: str) -> int | None:
    kind = kind_of(bound)
    if kind in ("UnboundedPreceding$", "UnboundedFollowing$"):
        return None
    if kind == "CurrentRow$":
        return 0
    if not rows:
        raise Unsplit(f"the frame of {name} is a RANGE with an offset")
    return _whole(bound)


def _whole(expression: Any) -> int:
    return int(expression.eval(None))
