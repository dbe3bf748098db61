"""`aggregate`: groupBy(key).agg(...) by way of the workers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from pyspark.sql import Column, DataFrame

from keysplit.spark import query
from keysplit.spark.engine.placement import placed
from keysplit.spark.operations.route import routed
from keysplit.spark.options import Options, check
from keysplit.spark.session import session_of, versions

# Spark's class for each aggregate that may be merged -> its name in SQL. Spark itself computes them in parts
# and merges these, in whatever order they arrive; each table says what this leaves open.
# Nothing: which rows a group has decides the answer. Sums of floats are the exception.
_EXACT = {
    "Average": "avg, mean, try_avg",
    "BitAndAgg": "bit_and",
    "BitOrAgg": "bit_or",
    "BitXorAgg": "bit_xor",
    "BitmapAndAgg": "bitmap_and_agg",
    "BitmapConstructAgg": "bitmap_construct_agg",
    "BitmapOrAgg": "bitmap_or_agg",
    "BoolAnd": "bool_and, every",
    "BoolOr": "bool_or, some, any",
    "Count": "count",
    "CountIf": "count_if",
    "CountMinSketchAgg": "count_min_sketch",
    "HyperLogLogPlusPlus": "approx_count_distinct",
    "Max": "max",
    "Median": "median",
    "Min": "min",
    "Percentile": "percentile",
    "PercentileCont": "percentile_cont",
    "PercentileDisc": "percentile_disc",
    "RegrAvgX": "regr_avgx",
    "RegrAvgY": "regr_avgy",
    "RegrCount": "regr_count",
    "Sum": "sum, try_sum",
}
# The last digits: they compute with doubles, in another order.
_FLOATS = {
    "Corr": "corr",
    "CovPopulation": "covar_pop",
    "CovSample": "covar_samp",
    "Kurtosis": "kurtosis",
    "Product": "product",
    "RegrIntercept": "regr_intercept",
    "RegrR2": "regr_r2",
    "RegrSXX": "regr_sxx",
    "RegrSXY": "regr_sxy",
    "RegrSYY": "regr_syy",
    "RegrSlope": "regr_slope",
    "Skewness": "skewness",
    "StddevPop": "stddev_pop",
    "StddevSamp": "stddev, std, stddev_samp",
    "VariancePop": "var_pop",
    "VarianceSamp": "variance, var_samp",
}
# The order of their elements.
_LISTS = {
    "CollectList": "collect_list, array_agg",
    "CollectSet": "collect_set",
    "CollectUnion": "collect_union",
    "ListAgg": "listagg, string_agg",
}
# Which of several rows or values that tie.
_TIES = {"MaxBy": "max_by", "MaxMinByK": "max_by, min_by", "MinBy": "min_by", "Mode": "mode"}
# Which of the answers within their accuracy, and the bytes of a sketch.
_SKETCHES = {
    "ApproxTopK": "approx_top_k",
    "ApproxTopKAccumulate": "approx_top_k_accumulate",
    "ApproxTopKCombine": "approx_top_k_combine",
    "ApproximatePercentile": "percentile_approx, approx_percentile",
    "HllSketchAgg": "hll_sketch_agg",
    "HllUnionAgg": "hll_union_agg",
    "KllMergeAggBigint": "kll_merge_agg_bigint",
    "KllMergeAggDouble": "kll_merge_agg_double",
    "KllMergeAggFloat": "kll_merge_agg_float",
    "KllSketchAggBigint": "kll_sketch_agg_bigint",
    "KllSketchAggDouble": "kll_sketch_agg_double",
    "KllSketchAggFloat": "kll_sketch_agg_float",
    "ThetaIntersectionAgg": "theta_intersection_agg",
    "ThetaSketchAgg": "theta_sketch_agg",
    "ThetaUnionAgg": "theta_union_agg",
    "TupleIntersectionAggDouble": "tuple_intersection_agg_double",
    "TupleIntersectionAggInteger": "tuple_intersection_agg_integer",
    "TupleSketchAggDouble": "tuple_sketch_agg_double",
    "TupleSketchAggInteger": "tuple_sketch_agg_integer",
    "TupleUnionAggDouble": "tuple_union_agg_double",
    "TupleUnionAggInteger": "tuple_union_agg_integer",
}
MERGED = {**_EXACT, **_FLOATS, **_LISTS, **_TIES, **_SKETCHES}

_BY_ORDER = "columns must not depend on the order of rows, got {}: use min, max, min_by or max_by"
_UNBOUNDED = "columns must have a bounded error, got {}, of which Spark promises none: use percentile_approx"
_FOREIGN = "columns must be Spark's own aggregates that can be merged, got {}: kss.apply takes your functions"
# What is refused, by its class and by its names in SQL.
REFUSED = {
    "AnyValue": _BY_ORDER,
    "First": _BY_ORDER,
    "Last": _BY_ORDER,
    "HistogramNumeric": _UNBOUNDED,
    "any_value": _BY_ORDER,
    "first": _BY_ORDER,
    "first_value": _BY_ORDER,
    "last": _BY_ORDER,
    "last_value": _BY_ORDER,
    "histogram_numeric": _UNBOUNDED,
}


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
        known = each.kind in MERGED if each.kind else each.name is not None and each.name not in REFUSED
        if not known:
            text = " ".join(each.text().split())
            raise ValueError(REFUSED.get(str(each.kind or each.name), _FOREIGN).format(text))
    if request.mode == "online" and query.rolls_back(df):
        request = replace(request, allow_inexact=True)
    # The partitions are the workers, so Spark's own partial aggregation is the one by (worker, key), and the
    # worker column is not needed any more: without it `*` means the same columns as in `df`.
    rows = placed(routed(request), request.worker_column, request.workers)
    return rows.drop(request.worker_column).groupBy(*request.keys).agg(*columns)
