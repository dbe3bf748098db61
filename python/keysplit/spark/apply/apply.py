"""`apply`: Python functions over the rows of each key, in sorted partitions that are cut into groups."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    LongType,
    StructField,
    StructType,
)

from keysplit.plan import Plan
from keysplit.spark import slices, versions
from keysplit.spark.apply.functions import (
    Cut,
    Function,
    mapped,
    over,
    refuse_uncut,
    struct,
    takes_key,
    uncarried,
)
from keysplit.spark.checks import by_name, refuse_stream, type_name
from keysplit.spark.expr.hashes import plan_hash
from keysplit.spark.place import placed
from keysplit.spark.request import Request, check, check_way
from keysplit.spark.route import routed
from keysplit.spark.slices.conversion import settings_of
from keysplit.spark.strategy import Way, built, keys_are, took, way_of

_METHODS = {"pandas": "applyInPandas", "arrow": "applyInArrow"}
_CUT = "groups are cut from sorted partitions"


@by_name
def apply(
    df: DataFrame,
    key: str | Sequence[str],
    function: Function,
    schema: str | StructType,
    *,
    merge: Function | None = None,
    partial_schema: str | StructType | None = None,
    format: Literal["pandas", "arrow"] = "pandas",
    plan: Plan | None = None,
    workers: int | None = None,
    way: Literal["plain", "slices", "place"] | None = None,
) -> DataFrame:
    """Compute `df.groupBy(key).applyInPandas(...)` from sorted partitions, with hot keys in parts.

    `apply(df, key, function, schema)` returns the same rows as `df.groupBy(key).applyInPandas(function,
    schema)`: `function` sees the same frames, keys and types, and its results and errors are handled in the
    same way. All groups of a task go through one stream, while Spark opens one per group. No plan and no
    number of workers are needed.

    `apply(df, key, function, schema, merge=merge)` computes the same for `lambda rows:
    merge(function(rows))`, in parts. The rows of a hot key are spread over several workers. Each worker calls
    `function` with its rows of each key. Then `merge` is called once for each key, with the concatenated
    results of all parts in any order. If the plan does not split a key, its worker calls both functions. The
    result equals that of the whole group if the two functions compose: `merge(function(a) + function(b))`
    equals `merge(function(a + b))` for all rows a and b of a key, where + concatenates.

    Keys are as in `groupBy`: null and NaN are keys, and -0.0 is 0.0. The rows of a group have no order.

    Args:
        df: a batch DataFrame, classic or of Spark Connect.
        key: a column name, or a list of names; null is a key.
        function: takes rows of one key (all of them, or one worker's part) with all columns of `df`, and
            returns any number of rows with the columns of `schema`, or of `partial_schema` if `merge` is
            given. A function of two arguments gets the key as a tuple first, as in Spark's `applyInPandas`.
        schema: the columns of the result, as DDL such as "word string, n long" or a StructType.
        merge: takes the rows that `function` returned for a key, with or without the key first, like
            `function`, and returns rows with the columns of `schema`. It is not called for keys for which
            `function` returned no rows. Without `merge` no key is split.
        partial_schema: the columns that `function` returns if `merge` is given; `schema` if omitted. Between
            the functions the rows pass through Spark, so `merge` sees these types as in `applyInPandas`.
        format: "pandas", or "arrow" if the functions take and return `pyarrow.Table`, as in `applyInArrow`
            (Spark 4.0 or later).
        plan: a plan that `kss.plan` made or loaded. Without `merge` its grouping must be "distribution_aware"
            or "key", which do not split keys. A plan with `group_weight` balances many small groups.
        workers: instead of a plan, the number of workers, 1..=65536. With `merge`, keysplit makes a plan from
            a sample of the rows, with the defaults of `kss.plan`. Without `merge`, Spark's own hash places
            the keys in this many partitions. If omitted, Spark's number of shuffle partitions applies, and
            adaptive execution combines small partitions, which is faster for few rows.
        way: "plain" for Spark's own `applyInPandas`, "slices" for groups cut from partitions by Spark's hash,
            "place" to use the plan even if hashing is as good; if omitted, keysplit chooses.

    Returns:
        The rows that `merge`, or the only function, returned for all keys.

    Raises:
        TypeError: as in `route`, or if a function or a schema has the wrong type.
        ValueError: as in `route`, or if a schema cannot be read, if `format` is unknown, if `df` is a stream,
            or if a plan for one function splits keys.

    Source:
        "The Power of Both Choices" (Nasir et al., ICDE 2015), section III-A: partial results per worker,
        merged by key.

    Deviations:
        As in `route`.

    Example:
        >>> def longest(rows):  # doctest: +SKIP
        ...     return rows.nlargest(1, "length")
        >>> result = kss.apply(df, "word", longest, df.schema)  # doctest: +SKIP
        >>> result = kss.apply(df, "word", longest, df.schema, merge=longest, workers=8)  # doctest: +SKIP
    """
    refuse_stream(df, remedy=": kss.streaming.apply takes streams")
    check_way(way, ("plain", "slices", "place"))
    if merge is not None and not callable(merge):
        raise TypeError(f"merge must be a function, got {type_name(merge)}")
    planned = merge is not None or plan is not None
    if way == "place" and not planned:
        raise ValueError("way must be 'plain', 'slices' or None without plan and merge, got 'place'")
    # without a plan only the key is checked
    request = check(df, key, plan, 1 if workers is None and not planned else workers, way=way)
    if format not in ("pandas", "arrow"):
        raise ValueError(f"format must be 'pandas' or 'arrow', got {format!r}")
    if format == "arrow" and not versions.has_apply_in_arrow(df):
        raise ValueError(f"format must be 'pandas' before Spark 4.0, got {format!r}")
    if merge is None:
        asked = planned or workers is not None
        return _whole(request, function, schema, format, partial_schema, asked)
    return _in_parts(request, function, merge, schema, format, partial_schema)


def _whole(
    request: Request, function: Any, schema: Any, format: str, partial_schema: Any, asked: bool
) -> DataFrame:
    """Build the query for one function; `asked` says whether the caller gave the number of workers."""
    df, plan = request.df, request.plan
    if partial_schema is not None:
        raise ValueError("partial_schema only applies with merge: omit it, or pass merge")
    if plan is not None and plan.splits:
        raise ValueError(
            "plan must not split keys without merge: pass merge, or a plan with "
            f"grouping='distribution_aware', got a plan with {plan.grouping.name!r}"
        )
    with_key = _takes_key_in_spark(function)
    result_type = struct(df, "schema", schema)
    reason = "as way='plain' requires" if request.way == "plain" else uncarried(request, result_type)
    if reason is None and versions.takes_iterator(function, format):
        reason = "the function takes an iterator"
    rows = _Rows(df, request.keys, request.workers if asked else None)
    if reason is not None:
        return took(rows.in_spark(format, function, result_type), Way("plain", reason))
    call = slices.Call(function, with_key, result_type, format, settings_of(request.query.setting))
    cut = Cut.of(request)
    run = over(slices.whole, call, cut.places)

    def hashed() -> DataFrame:
        return mapped(rows.by_hash(cut), request.columns, run, result_type)

    if plan is None or request.way == "slices":
        return took(hashed(), Way("slices", f"Spark's own hash places whole keys; {_CUT}"))

    def build(request: Request) -> tuple[DataFrame, Way]:
        way = Way("slices", f"a plan by {request.params.name} places whole keys; {_CUT}")
        return mapped(rows.by_plan(request, cut), request.columns, run, result_type), way

    return _sliced(built(request, build, hashed))


def _in_parts(
    request: Request, function: Any, merge: Any, schema: Any, format: str, partial_schema: Any
) -> DataFrame:
    """Build the query for two functions."""
    df = request.df
    take_keys = [takes_key(name, each) for name, each in (("function", function), ("merge", merge))]
    for name, type_ in zip(request.keys, request.key_types, strict=True):
        refuse_uncut(name, type_, request.columns.fold)
    result_type = struct(df, "schema", schema)
    part_type = result_type if partial_schema is None else struct(df, "partial_schema", partial_schema)
    reason = uncarried(request, StructType([*result_type, *part_type]))
    if request.way == "plain":
        reason = "as way='plain' requires"
    rows = _Rows(df, request.keys, request.workers)
    if reason is not None:
        whole = _composed(function, merge, *take_keys)
        return took(rows.in_spark(format, whole, result_type), Way("plain", reason))

    settings = settings_of(request.query.setting)
    first = slices.Call(function, take_keys[0], part_type, format, settings, goes_on=True)
    second = slices.Call(merge, take_keys[1], result_type, format, settings)
    cut = Cut.of(request)
    in_one_stage = over(slices.finished, first, second, cut.places)

    def build(request: Request) -> tuple[DataFrame, Way]:
        plan = request.plan
        assert plan is not None
        if not plan.splits:
            way = Way("slices", f"the plan splits no key; {_CUT}")
            return mapped(rows.by_plan(request, cut), request.columns, in_one_stage, result_type), way
        split = np.array([each.hash for each in plan.split_keys])
        hash_place = cut.width
        placed_rows = rows.by_plan(request, cut, request.columns.free("_hash", request.worker_column))
        fields = [StructField("", LongType()), StructField("", BooleanType())]
        fields += [*result_type, *part_type, *cut.carried]
        staged = mapped(
            placed_rows,
            request.columns,
            over(slices.in_parts, first, second, cut.places, hash_place, split),
            StructType([StructField(f"_{at}", field.dataType) for at, field in enumerate(fields)]),
        )
        cuts = [f"_{at + 2 + len(result_type) + len(part_type)}" for at in cut.carried_cuts]
        parts = staged.repartition(request.workers, F.col("_0")).sortWithinPartitions(*cuts)
        result = parts.mapInArrow(over(slices.merged, first, second, cut.places), result_type)
        keys = keys_are(len(split))
        return result, Way("slices", f"{keys} split, all others are finished in the first stage; {_CUT}")

    def hashed() -> DataFrame:
        return mapped(rows.by_hash(cut), request.columns, in_one_stage, result_type)

    if request.way == "slices":
        return took(hashed(), Way("slices", f"as way='slices' requires; {_CUT}"))
    return _sliced(built(request, build, hashed))


def _sliced(result: DataFrame) -> DataFrame:
    """Name the way to group the rows if a plan would not help."""
    way = way_of(result)
    return took(result, Way("slices", f"{way.why}; {_CUT}")) if way.name == "plain" else result


@dataclass(frozen=True)
class _Rows:
    """The rows of a DataFrame, by key. If given, `workers` is the number of tasks, whatever the size."""

    df: DataFrame
    keys: list[str]
    workers: int | None

    def in_spark(self, format: str, function: Any, schema: StructType) -> DataFrame:
        """Let Spark itself apply a function to each group."""
        rows = self.df if self.workers is None else self.df.repartition(self.workers, *map(F.col, self.keys))
        result: DataFrame = getattr(rows.groupBy(*self.keys), _METHODS[format])(function, schema)
        return result

    def by_hash(self, cut: Cut) -> DataFrame:
        """Return the rows partitioned by Spark's own hash, sorted by key, to be cut."""
        keys = [F.col(name) for name in self.keys]
        rows = self.df.select("*", *cut.extra) if cut.extra else self.df
        rows = rows.repartition(*keys) if self.workers is None else rows.repartition(self.workers, *keys)
        return rows.sortWithinPartitions(*keys)

    def by_plan(self, request: Request, cut: Cut, hash_column: str | None = None) -> DataFrame:
        """Return the rows on their workers, sorted by key; a named hash of the key is the last column."""
        worker = request.worker_column
        hashes = [] if hash_column is None else [plan_hash(request).alias(hash_column)]
        rows = routed(request).select("*", *cut.extra, *hashes)
        rows = placed(rows, worker, request.workers, keep=False)
        return rows.sortWithinPartitions(*(F.col(name) for name in self.keys))


def _composed(partial: Function, merge: Function, partial_takes_key: bool, merge_takes_key: bool) -> Function:
    """Return a function over a whole group that needs no keysplit on the executors."""

    def whole(key: Any, rows: Any) -> Any:
        parts = partial(key, rows) if partial_takes_key else partial(rows)
        if len(parts) == 0:
            return parts.slice(0, 0).select([]) if hasattr(parts, "num_rows") else parts.iloc[:0, :0]
        return merge(key, parts) if merge_takes_key else merge(parts)

    return whole


def _takes_key_in_spark(function: Any) -> bool:
    """Check a function and return whether Spark would call it with the key before the rows."""
    if not callable(function):
        raise TypeError(f"function must be callable, got {type_name(function)}")
    taken = len(inspect.getfullargspec(function).args)
    if taken not in (1, 2):
        raise TypeError(f"function must take (rows) or (key, rows), got a function of {taken} arguments")
    return taken == 2
