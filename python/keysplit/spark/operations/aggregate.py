"""`aggregate`: groupBy(key).agg(...) by way of the workers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from pyspark.sql import Column, DataFrame

from keysplit.spark.aggregates import refusal_of
from keysplit.spark.engine.placement import placed
from keysplit.spark.operations.route import routed
from keysplit.spark.options import Options, check
from keysplit.spark.session import session_of, versions


def aggregate(
    df: DataFrame, key: str | Sequence[str], *columns: Column, **options: Unpack[Options]
) -> DataFrame:
    """Compute `df.groupBy(key).agg(*columns)`, a key's rows being spread over several workers first.

    The rows are routed and placed, Spark aggregates them on each worker by key, and the partial results are
    merged in a last shuffle by key. Rows, column names, types and nulls equal those of the plain `groupBy`,
    bit for bit, but for what Spark itself leaves open when its tasks finish in another order: the last digits
    of what is computed with floats, the order of elements in lists, which of several that tie, and which of
    the answers within the accuracy of a sketch.

    Args:
        df: as `route`.
        key: as `route`.
        columns: aggregates, with DISTINCT and FILTER or without, and expressions of them: all of Spark's own
            but first, last, any_value and histogram_numeric. docs/spark.md lists them.
        options: all other arguments of `route`. Above a shuffle, mode "online" is allowed where Spark notices
            that a task which ran again gave other rows (by default from 4.2 on): the result is exact then, or
            the job is stopped. The worker column is not in the result; its name is for
            plans and the Spark UI, and a free one is chosen if left out.

    Returns:
        One row a key: the key columns, then `columns`.

    Raises:
        TypeError: as `route`, or if one of `columns` is no Column.
        ValueError: as `route`, if there are no columns, or if an aggregate cannot be merged. On Spark Connect
            functions that were registered under a name for SQL are not seen.

    Source:
        "The Power of Both Choices" (Nasir et al., ICDE 2015), section III-A: partial results of each worker,
        merged by key.

    Deviations:
        As `route`.

    Example:
        >>> result = kss.aggregate(df, "word", F.median("length"), workers=8)  # doctest: +SKIP
    """
    request = check(df, key, options)
    if not columns:
        raise ValueError("columns must hold at least one aggregate, got none")
    for column in columns:
        if not versions.is_column(column):
            raise TypeError(f"columns must be aggregates such as F.sum('x'), got {type(column).__name__}")
    plain = df.groupBy(*request.keys).agg(*columns)
    for each in session_of(df).aggregates(plain, columns):
        refusal = refusal_of(each.kind, each.name)
        if refusal is not None:
            raise ValueError(refusal.format(" ".join(each.text().split())))
    if request.mode == "online" and request.query.rolls_back:
        request = replace(request, allow_inexact=True)
    # The partitions are the workers, so Spark's own partial aggregation is the one by (worker, key), and the
    # worker column is not needed any more: without it `*` means the same columns as in `df`.
    rows = placed(routed(request), request.worker_column, request.workers)
    return rows.drop(request.worker_column).groupBy(*request.keys).agg(*columns)
