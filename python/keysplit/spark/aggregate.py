"""`aggregate`: groupBy(key).agg(...) by way of the workers."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame

from keysplit.spark.arguments import check
from keysplit.spark.placement import placed
from keysplit.spark.routing import routed

# Spark's class for each aggregate whose answer depends on which rows a group has and not on their order, and
# that Spark computes in parts and merges.
_SUPPORTED = {
    "Average": "avg",
    "BitAndAgg": "bit_and",
    "BitOrAgg": "bit_or",
    "BitXorAgg": "bit_xor",
    "BoolAnd": "bool_and",
    "BoolOr": "bool_or",
    "Count": "count",
    "CountIf": "count_if",
    "HyperLogLogPlusPlus": "approx_count_distinct",
    "Max": "max",
    "Median": "median",
    "Min": "min",
    "Percentile": "percentile",
    "Sum": "sum",
}
_SUPPORTED_SORTED = {"CollectList": "collect_list", "CollectSet": "collect_set"}


def aggregate(
    df: DataFrame,
    key: str | Sequence[str],
    *columns: Column,
    workers: int | None = None,
    grouping: Any = "d_choices",
    plan: Any = None,
    mode: str = "planned",
    worker_column: str | None = None,
    row_id: Any = None,
    weight: str | None = None,
    seed: int | None = None,
    allow_inexact: bool = False,
) -> DataFrame:
    """Compute `df.groupBy(key).agg(*columns)`, a key's rows being spread over several workers first.

    The rows are routed and placed, Spark aggregates them on each worker by key, and the partial results are
    merged in a last shuffle by key. Rows, column names, types and nulls equal those of the plain `groupBy`,
    bit for bit for whole numbers, decimals, strings, dates and booleans. Sums and averages of floats are
    added in another order and may differ in the last digits, as they do between two runs of Spark itself.

    Args:
        df: as `route`.
        key: as `route`.
        columns: aggregates, and expressions of them: sum, count, min, max, avg, median, percentile, count_if,
            approx_count_distinct, bool_and, bool_or, bit_and, bit_or, bit_xor, with DISTINCT and FILTER or
            without, and sort_array of collect_list or collect_set.
        workers: as `route`.
        grouping: as `route`.
        plan: as `route`.
        mode: as `route`.
        worker_column: the name of the worker column while the job runs, for plans and the Spark UI; it is
            not in the result. A free name is chosen if left out.
        row_id: as `route`.
        weight: as `route`.
        seed: as `route`.
        allow_inexact: as `route`.

    Returns:
        One row a key: the key columns, then `columns`.

    Raises:
        TypeError: as `route`, or if one of `columns` is no Column.
        ValueError: as `route`, if there are no columns, or if an aggregate is not supported.

    Source:
        "The Power of Both Choices" (Nasir et al., ICDE 2015), section III-A: partial results of each worker,
        merged by key.

    Deviations:
        As `route`.

    Example:
        >>> result = kss.aggregate(df, "word", F.median("length"), workers=8, mode="online")  # doctest: +SKIP
    """
    request = check(
        df,
        key,
        workers=workers,
        grouping=grouping,
        plan=plan,
        mode=mode,
        worker_column=worker_column,
        row_id=row_id,
        weight=weight,
        seed=seed,
        allow_inexact=allow_inexact,
    )
    if not columns:
        raise ValueError("columns must hold at least one aggregate, got none")
    for column in columns:
        if not isinstance(column, Column):
            raise TypeError(f"columns must be aggregates such as F.sum('x'), got {type(column).__name__}")
    _refuse_unsupported(df.groupBy(*request.keys).agg(*columns))
    # The partitions are the workers, so Spark's own partial aggregation is the one by (worker, key), and the
    # worker column is not needed any more: without it `*` means the same columns as in `df`.
    rows = placed(routed(request), request.worker_column, request.params.workers)
    return rows.drop(request.worker_column).groupBy(*request.keys).agg(*columns)


def _refuse_unsupported(result: DataFrame) -> None:
    plan = result._jdf.queryExecution().analyzed()
    while plan.getClass().getSimpleName() != "Aggregate":
        plan = plan.children().apply(0)
    expressions = plan.aggregateExpressions()
    nodes = [("", expressions.apply(i)) for i in range(expressions.size())]
    while nodes:
        parent, node = nodes.pop()
        kind = node.getClass().getSimpleName()
        if kind == "AggregateExpression":
            _refuse(node, parent)
            continue
        children = node.children()
        nodes.extend((kind, children.apply(i)) for i in range(children.size()))


def _refuse(aggregate_expression: Any, parent: str) -> None:
    function = aggregate_expression.aggregateFunction()
    kind = function.getClass().getSimpleName()
    if kind in _SUPPORTED or (kind in _SUPPORTED_SORTED and parent == "SortArray"):
        return
    sql = aggregate_expression.sql()
    if kind in _SUPPORTED_SORTED:
        raise ValueError(f"columns must not depend on the order of rows, got {sql}: use sort_array({sql})")
    names = ", ".join([*_SUPPORTED.values(), *(f"sort_array({name})" for name in _SUPPORTED_SORTED.values())])
    raise ValueError(f"columns must use these aggregates: {names}; got {sql}")
