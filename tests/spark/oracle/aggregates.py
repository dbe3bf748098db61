"""One table of Spark's aggregates.

It says what each leaves open when its partial results are merged in any order, and how its state grows.
"""

import re
from collections.abc import Iterable, Mapping
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


class State(Enum):
    """How much of a group a partial result holds."""

    SMALL = "a few numbers, or a sketch"
    VALUES = "each distinct value, once"
    """Every aggregate with DISTINCT, too."""
    ROWS = "a value of each row"


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of Spark.

    Attributes:
        names: its names in SQL.
        leaves_open: what the order of rows may change.
        state: what a partial result holds.
        stream: the function with which `streaming.aggregate` computes it in two steps; None if it cannot.
    """

    names: tuple[str, ...]
    leaves_open: LeavesOpen
    state: State
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
# Names in a reason.
_SHOWN = 4
_FOREIGN = "columns must be Spark's own aggregates that can be merged, got {}: kss.apply takes your functions"


def _table() -> Mapping[str, Aggregate]:
    # Spark's class -> its names in SQL, one per kind; a star marks what streams compute in two steps, an
    # equals sign what holds the values of a group, a plus sign what holds its rows.
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
            "Median": "median=",
            "Min": "min*",
            "Percentile": "percentile=",
            "PercentileCont": "percentile_cont=",
            "PercentileDisc": "percentile_disc=",
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
            "CollectList": "collect_list*+ array_agg",
            "CollectSet": "collect_set*=",
            "CollectUnion": "collect_union=",
            "ListAgg": "listagg+ string_agg",
        },
        LeavesOpen.TIES: {
            "MaxBy": "max_by",
            "MaxMinByK": "max_by min_by",
            "MinBy": "min_by",
            "Mode": "mode=",
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
            names = tuple(re.sub(r"[*=+]", "", text).split())
            state = State.VALUES if "=" in text else State.ROWS if "+" in text else State.SMALL
            table[class_] = Aggregate(names, leaves_open, state, names[0] if "*" in text else None)
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


def reason_for_plain(called: Iterable[tuple[str, bool]]) -> str:
    """Return why Spark's own query is the best for aggregates of its own.

    Spark aggregates the rows of a key where they lie, before its shuffle: the rows of a hot key are split
    already. What is merged after it is the same whatever has been split before, so placing the rows first
    costs a shuffle of all rows and saves nothing. docs/measured.md has the figures.

    Args:
        called: the name of each aggregate, and whether it is with DISTINCT.
    """
    names: list[str] = []
    grows: list[str] = []
    for name, distinct in called:
        shown = f"{name} distinct" if distinct else name
        known = BY_NAME.get(name)
        into = grows if distinct or (known and known.state is not State.SMALL) else names
        if shown not in into:
            into.append(shown)
    if not grows:
        return f"Spark combines {_listed(names) or 'aggregates'} before its shuffle"
    return (
        f"Spark combines {_listed(names + grows)} before its shuffle, and what {_listed(grows)} "
        "must merge after it does not depend on how rows are split"
    )


def _listed(names: list[str]) -> str:
    shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 1], f"{len(names) - _SHOWN + 1} more"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
