"""One table of Spark's aggregates: what each leaves open when its partial results are merged in any order."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType


class LeavesOpen(Enum):
    """What the order in which rows and partial results arrive may change in an answer."""

    NOTHING = "nothing"
    """The rows of a group decide the answer. Sums of floats are the exception: their last digits."""
    LAST_DIGITS = "the last digits"
    """It computes with doubles, in another order."""
    ORDER = "the order of elements"
    TIES = "which of several that tie"
    SKETCH = "which of the answers within its accuracy, and the bytes of a sketch"
    ROW = "the answer"
    """It takes whatever row comes first, or last."""
    ACCURACY = "the answer, without a bound"


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of Spark.

    Attributes:
        names: its names in SQL.
        leaves_open: what the order of rows may change.
        stream: the function with which `streaming.aggregate` computes it in two steps; None if it cannot.
    """

    names: tuple[str, ...]
    leaves_open: LeavesOpen
    stream: str | None = None

    @property
    def refusal(self) -> str | None:
        """Why its partial results cannot be merged, with a place for its SQL; None if they can."""
        return _REFUSALS.get(self.leaves_open)

    @property
    def is_steady(self) -> bool:
        """Whether a group of the same rows has the same answer, to the bit, whatever their order.

        That holds if what it aggregates has no floats (their sums depend on the order, and 0.0 equals -0.0)
        and no collated strings (of equal ones any may be the answer), inside other types either.
        """
        return self.leaves_open is LeavesOpen.NOTHING


_REFUSALS = {
    LeavesOpen.ROW: ("columns must not depend on the order of rows, got {}: use min, max, min_by or max_by"),
    LeavesOpen.ACCURACY: (
        "columns must have a bounded error, got {}, of which Spark promises none: use percentile_approx"
    ),
}
_FOREIGN = "columns must be Spark's own aggregates that can be merged, got {}: kss.apply takes your functions"


def _table() -> Mapping[str, Aggregate]:
    # Spark's class -> its names in SQL, one per kind; a star marks what streams compute in two steps.
    kinds = {
        LeavesOpen.NOTHING: {
            "Average": "avg* mean try_avg",
            "BitAndAgg": "bit_and*",
            "BitOrAgg": "bit_or*",
            "BitXorAgg": "bit_xor*",
            "BitmapAndAgg": "bitmap_and_agg",
            "BitmapConstructAgg": "bitmap_construct_agg",
            "BitmapOrAgg": "bitmap_or_agg",
            "BoolAnd": "bool_and* every",
            "BoolOr": "bool_or* some any",
            "Count": "count*",
            "CountIf": "count_if*",
            "CountMinSketchAgg": "count_min_sketch",
            "HyperLogLogPlusPlus": "approx_count_distinct",
            "Max": "max*",
            "Median": "median",
            "Min": "min*",
            "Percentile": "percentile",
            "PercentileCont": "percentile_cont",
            "PercentileDisc": "percentile_disc",
            "RegrAvgX": "regr_avgx",
            "RegrAvgY": "regr_avgy",
            "RegrCount": "regr_count",
            "SchemaOfVariantAgg": "schema_of_variant_agg",
            "Sum": "sum* try_sum",
        },
        LeavesOpen.LAST_DIGITS: {
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
            "StddevSamp": "stddev std stddev_samp",
            "VariancePop": "var_pop",
            "VarianceSamp": "variance var_samp",
            "VectorAvg": "vector_avg",
            "VectorSum": "vector_sum",
        },
        LeavesOpen.ORDER: {
            "CollectList": "collect_list* array_agg",
            "CollectSet": "collect_set*",
            "CollectUnion": "collect_union",
            "ListAgg": "listagg string_agg",
        },
        LeavesOpen.TIES: {
            "MaxBy": "max_by",
            "MaxMinByK": "max_by min_by",
            "MinBy": "min_by",
            "Mode": "mode",
        },
        LeavesOpen.SKETCH: {
            "ApproxTopK": "approx_top_k",
            "ApproxTopKAccumulate": "approx_top_k_accumulate",
            "ApproxTopKCombine": "approx_top_k_combine",
            "ApproximatePercentile": "percentile_approx approx_percentile",
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
        },
        LeavesOpen.ROW: {
            "AnyValue": "any_value",
            "First": "first first_value",
            "Last": "last last_value",
        },
        LeavesOpen.ACCURACY: {"HistogramNumeric": "histogram_numeric"},
    }
    table = {}
    for leaves_open, classes in kinds.items():
        for class_, text in classes.items():
            names = tuple(text.replace("*", "").split())
            table[class_] = Aggregate(names, leaves_open, names[0] if "*" in text else None)
    return MappingProxyType(table)


AGGREGATES: Mapping[str, Aggregate] = _table()
"""Spark's class for each aggregate -> what is known of it. What is not in it is the user's, or unknown."""

BY_NAME: Mapping[str, Aggregate] = MappingProxyType(
    {name: aggregate for aggregate in AGGREGATES.values() for name in aggregate.names}
)
"""The same by the name in SQL."""


def refusal_of(kind: str | None, name: str | None) -> str | None:
    """Return why the partial results of an aggregate cannot be merged, with a place for its SQL.

    Args:
        kind: Spark's class; None on Spark Connect, which shows none.
        name: its name in SQL; None for a function of the user.

    Returns:
        The refusal; None if they can be merged. Without a class, a name that is not in the table passes: it
        may be a function of rows.
    """
    known = AGGREGATES.get(kind) if kind else BY_NAME.get(name or "")
    if known is None:
        return _FOREIGN if kind or name is None else None
    return known.refusal
