"""The order that a caller names in `order_by` or `sort_by`."""

from collections.abc import Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.plan import OrderColumn
from keysplit.spark import versions
from keysplit.spark.frame import Columns
from keysplit.spark.jvm import is_connect, items, kind_of, plan_of, relation_of
from keysplit.spark.names import parts_of, quoted
from keysplit.spark.ordered.calls import Order
from keysplit.spark.ordered.cuts import columns_of, uncut_type
from keysplit.spark.request import Request


def order_of(columns: Columns, argument: str, given: Any) -> tuple[OrderColumn, ...]:
    """Check an order, and return its columns.

    Args:
        columns: the columns of a DataFrame.
        argument: the name of the argument.
        given: a name, a column such as `F.desc("ts")`, or a list of these.

    Raises:
        TypeError: if `given` is something else, or if a column's type cannot be cut into ranges.
        ValueError: if it does not name columns of the DataFrame.
    """
    single = isinstance(given, str) or versions.is_column(given)
    sorts = [given] if single else given
    are_columns = isinstance(sorts, Sequence) and all(
        isinstance(each, str) or versions.is_column(each) for each in sorts
    )
    if not are_columns:
        raise TypeError(
            f"{argument} must be a column name, a column such as F.desc('ts'), or a list of these, "
            f"got {given!r}"
        )
    if not sorts:
        raise ValueError(f"{argument} must name at least one column, got an empty list")
    for each in sorts:
        if isinstance(each, str):
            columns.field_of(argument, each)
    try:
        named = [F.col(columns.path(each)) if isinstance(each, str) else each for each in sorts]
        order = _of_relation(columns, named) if is_connect(columns.df) else _of_plan(columns.df, named)
    except AnalysisException:
        order = [None]
    if None in order:
        raise ValueError(
            f"{argument} must name columns of df, not expressions, got {given!r}; df has {columns.names}"
        )
    found = [each for each in order if each is not None]
    types = [columns.type_of(argument, quoted(each.name)) for each in found]
    uncut = uncut_type(types)
    if uncut is not None:
        raise TypeError(
            f"{argument} must name columns of numbers, strings without collations, binary, booleans, dates "
            f"or timestamps, got a column of type {uncut}"
        )
    return columns_of(found, types)


def order_in(request: Request) -> tuple[list[Order], list[DataType]]:
    """Return the order of a request, and the types of its columns."""
    order = [Order(each.name, each.ascending, each.nulls_first) for each in request.order or ()]
    return order, [request.columns.type_of("order", quoted(each.name)) for each in order]


def _of_plan(df: DataFrame, sorts: Sequence[Any]) -> list[Order | None]:
    """Return the columns by which Spark sorts, None for one that is an expression."""
    plan = plan_of(df.sort(*sorts))
    if kind_of(plan) != "Sort":  # it needs columns that df does not show
        return [None]
    names = {each.exprId().id(): str(each.name()) for each in items(plan_of(df).output())}
    found: list[Order | None] = []
    for each in items(plan.order()):
        column = each.child()
        name = names.get(column.exprId().id()) if kind_of(column) == "AttributeReference" else None
        ascending, first = kind_of(each.direction()), kind_of(each.nullOrdering())
        order = None if name is None else Order(name, ascending == "Ascending$", first == "NullsFirst$")
        found.append(order)
    return found


def _of_relation(columns: Columns, sorts: Sequence[Any]) -> list[Order | None]:
    """Return the same on Spark Connect, whose client cannot resolve names."""
    found: list[Order | None] = []
    for each in relation_of(columns.df.sort(*sorts)).sort.order:
        parts = parts_of(each.child.unresolved_attribute.unparsed_identifier)
        places = columns.places(parts[0]) if len(parts) == 1 else []
        name = columns.names[places[0]] if len(places) == 1 else None
        ascending = each.direction == each.SORT_DIRECTION_ASCENDING
        nulls_first = each.null_ordering == each.SORT_NULLS_FIRST
        found.append(None if name is None else Order(name, ascending, nulls_first))
    return found
