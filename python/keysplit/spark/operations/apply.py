"""`apply`: Python functions over the rows of each key, in sorted partitions that are cut into groups."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    LongType,
    StructField,
    StructType,
)

from keysplit.spark import slices
from keysplit.spark.checks import by_name, refuse_stream, type_name
from keysplit.spark.engine.placement import placed
from keysplit.spark.hashes import plan_hash
from keysplit.spark.operations.building import built
from keysplit.spark.operations.functions import (
    Cut,
    Function,
    mapped,
    over,
    refuse_uncut,
    struct,
    takes_key,
    uncarried,
)
from keysplit.spark.operations.route import routed
from keysplit.spark.options import (
    Engine,
    GroupingOrName,
    Mode,
    Options,
    PlanOrPath,
    Refresh,
    Request,
    Sample,
    Trusted,
    check,
)
from keysplit.spark.session import session_of, versions
from keysplit.spark.session.conversion_settings import settings_of
from keysplit.spark.ways import Way, keys_are, took, way_of

_METHODS = {"pandas": "applyInPandas", "arrow": "applyInArrow"}
# Groupings whose plans split no key.
_WHOLE_KEYS = ("distribution_aware", "key")
_ONE_FUNCTION = "with one function, which needs all rows of a key; pass merge to split keys"
_CUT = "groups are cut from sorted partitions"


@by_name
def apply(
    df: DataFrame,
    key: str | Sequence[str],
    partial: Function,
    merge: Function | str | StructType | None = None,
    schema: str | StructType | None = None,
    *,
    partial_schema: str | StructType | None = None,
    format: Literal["pandas", "arrow"] = "pandas",
    workers: int | None = None,
    grouping: GroupingOrName = "d_choices",
    plan: PlanOrPath | None = None,
    refresh: Refresh = "auto",
    sample: Sample = "auto",
    force: bool = False,
    mode: Mode = "planned",
    worker_column: str | None = None,
    row_id: str | Sequence[str] | None = None,
    weight: str | Column | None = None,
    group_weight: float = 0.0,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    engine: Engine | None = None,
    trust: Trusted = (),
    allow_inexact: bool = False,
) -> DataFrame:
    """Compute `df.groupBy(key).applyInPandas(...)` from sorted partitions, hot keys in parts.

    `apply(df, key, function, schema)` returns what `df.groupBy(key).applyInPandas(function, schema)` does: it
    shows `function` the same frames, keys and types, and takes its results and errors in the same way. All
    groups of a task go through one stream, where Spark opens one for each. It needs no plan and no number of
    workers.

    `apply(df, key, partial, merge, schema)` computes the same for `lambda rows: merge(partial(rows))`, in
    parts. The rows of a hot key are spread over several workers. `partial` is called with the rows of each
    key on each worker, then `merge` once for each key, with the results of all its parts one below the other,
    in any order. For keys that the plan does not split both are called where the rows are. The result is that
    of the whole group if the two functions compose: `merge(partial(a) + partial(b))` equals
    `merge(partial(a + b))` for all rows a and b of a key, where + puts rows below each other.

    Keys are those of `groupBy`: null is one, NaN another, and -0.0 is 0.0. The rows of a group come in any
    order.

    Args:
        df: a batch DataFrame, classic or of Spark Connect.
        key: a column name, or a list of them; null is a key.
        partial: takes the rows of a key, all of them or those on a worker, with all columns of `df`, and
            returns any number of rows with the columns of `partial_schema`. With two arguments it takes the
            key as a tuple first. Both as in Spark's `applyInPandas`.
        merge: takes what `partial` returned for a key, with or without the key before it as `partial` does,
            and returns rows with the columns of `schema`. It is not called for a key of which `partial`
            returned no row. If there is one function only, leave it out, or pass the schema in its place.
        schema: the columns of the result, as DDL such as "word string, n long" or a StructType.
        partial_schema: the columns of what `partial` returns; `schema` if left out. Between the two functions
            the rows go through Spark: `merge` sees a column of these types as `applyInPandas` shows it.
        format: "pandas", or "arrow" if the functions take and return `pyarrow.Table`, as in `applyInArrow`
            (from Spark 4.0 on).
        workers: the number of workers, 1..=65536. Leave it out with a plan or a grouping object. With one
            function it may be left out: Spark's own shuffle partitions are the workers then, and adaptive
            execution combines small ones, which is faster for few rows.
        grouping: a name such as "d_choices", or a grouping such as `DChoices(workers=50)`; `route` lists the
            names. With one function "distribution_aware" and "key", which split no key; if left out, Spark's
            own hash places the keys.
        plan: a plan made before by `plan`, or the path or URL of one: read if it is there, made and saved if
            not. Without one, it is made at the call, of a sample of the rows. The first run by a plan that
            was made for other data warns.
        refresh: what to do with a plan that is kept at a path: "auto" makes it anew once the loads of the
            workers no longer fit it, "never" keeps it, "always" makes it anew now.
        sample: the part of the rows that a plan is made from, above 0, up to 1; "auto" takes as many as it
            needs. A sample moves load, never a result.
        force: True to go by the plan even where plain Spark is as good.
        mode: "planned" or "online"; `route` explains them.
        worker_column: its name in plans and in the Spark UI; a free one if left out. It is not in the result.
            The functions do not see it.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. If left out, the
            columns of `df` that provably have the same values when a task is retried.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            left out.
        group_weight: the fixed cost of a group besides its rows, in units of their weight; 0 if left
            out, when only rows are balanced. Leave it out with a plan, which has its own.
        seed: the seed of the hashes, 0 if left out. Leave it out with a plan or a grouping object.
        capacities: the relative speed of each worker, above 0; equal if left out. For mode "planned".
        engine: "rust" routes in Rust over Arrow, "columns" by plain Column expressions without Python on the
            executors; both give a row the same worker. If left out, "rust" counts the keys for a plan and
            "columns" routes. For mode "planned".
        trust: columns of `df` and functions (UDFs or their names) that give the same values when a task is
            retried, on your word; docs/exactness.md says what depends on it.
        allow_inexact: True to route online although a retried task may have other rows or another order: it
            may then lose or duplicate rows without an error.

    Returns:
        The rows that `merge`, or the only function, returned for all keys.

    Raises:
        TypeError: as `route`, or if a function or a schema is of another type.
        ValueError: as `route`, or if a schema cannot be read, if `format` is unknown, if `df` is a stream, or
            if a plan for one function splits keys.

    Source:
        "The Power of Both Choices" (Nasir et al., ICDE 2015), section III-A: partial results of each worker,
        merged by key.

    Deviations:
        As `route`.

    Example:
        >>> def longest(rows):  # doctest: +SKIP
        ...     return rows.nlargest(1, "length")
        >>> result = kss.apply(df, "word", longest, df.schema)  # doctest: +SKIP
        >>> result = kss.apply(df, "word", longest, longest, df.schema, workers=8)  # doctest: +SKIP
    """
    refuse_stream(df, remedy=": kss.streaming.apply takes streams")
    options = Options(
        workers=workers,
        grouping=grouping,
        plan=plan,
        refresh=refresh,
        sample=sample,
        force=force,
        mode=mode,
        worker_column=worker_column,
        row_id=row_id,
        weight=weight,
        group_weight=group_weight,
        seed=seed,
        capacities=capacities,
        engine=engine,
        trust=trust,
        allow_inexact=allow_inexact,
    )
    if schema is None and isinstance(merge, str | StructType):
        merge, schema = None, merge
    if merge is not None and not callable(merge):
        raise TypeError(
            f"merge must be a function, got {type_name(merge)}: the schema of one function is a string or a "
            "StructType"
        )
    is_default = isinstance(grouping, str) and grouping == Options().grouping
    planned = merge is not None or plan is not None or not is_default
    if merge is not None:
        request = check(df, key, options)
    else:
        request = check(df, key, _for_whole_keys(options, planned), _WHOLE_KEYS[0])
    if format not in ("pandas", "arrow"):
        raise ValueError(f"format must be 'pandas' or 'arrow', got {format!r}")
    if format == "arrow" and not versions.has_apply_in_arrow(df):
        raise ValueError(f"format must be 'pandas' before Spark 4.0, got {format!r}")
    if merge is None:
        asked = planned or workers is not None
        return _whole(request, partial, schema, format, partial_schema, planned, asked)
    return _in_parts(request, partial, merge, schema, format, partial_schema)


def _for_whole_keys(options: Options, planned: bool) -> Options:
    """Return options under which no key is split, or raise ValueError if they are for keys that are."""
    if options.mode == "online":
        raise ValueError(f"mode must be 'planned' {_ONE_FUNCTION}, got {options.mode!r}")
    if not planned:
        for name in ("row_id", "weight", "group_weight", "seed", "capacities"):
            given = getattr(options, name)
            if given is not None and not (name == "group_weight" and given == 0):
                raise ValueError(f"{name} belongs to a plan: pass grouping='distribution_aware' with it")
        return replace(options, workers=1 if options.workers is None else options.workers)
    if isinstance(options.grouping, str) and options.grouping == Options().grouping:
        return replace(options, grouping=_WHOLE_KEYS[0])
    grouping: Any = options.grouping
    given = grouping if isinstance(grouping, str) else getattr(grouping, "name", grouping)
    if isinstance(given, str) and given not in _WHOLE_KEYS:
        raise ValueError(f"grouping must be one of {', '.join(_WHOLE_KEYS)} {_ONE_FUNCTION}, got {given!r}")
    return options


def _whole(
    request: Request,
    function: Any,
    schema: Any,
    format: str,
    partial_schema: Any,
    planned: bool,
    asked: bool,
) -> DataFrame:
    """Build the query of one function; `asked` says whether the number of workers was given."""
    df = request.df
    if partial_schema is not None:
        raise ValueError("partial_schema belongs to two functions: leave it out, or pass merge")
    if planned:
        _refuse_split_keys(request)
    with_key = _takes_key_in_spark(function)
    result_type = struct(df, "schema", schema)
    reason = uncarried(request, result_type)
    if versions.takes_iterator(function, format):
        reason = "the function takes an iterator"
    rows = _Rows(df, request.keys, request.workers if asked else None)
    if reason is not None:
        return took(rows.in_spark(format, function, result_type), Way("plain", reason))
    call = slices.Call(function, with_key, result_type, format, settings_of(request.query.session))
    cut = Cut.of(request)
    run = over(slices.whole, call, cut.places)

    def hashed() -> DataFrame:
        return mapped(rows.by_hash(cut), request.columns, run, result_type)

    if not planned:
        return took(hashed(), Way("slices", f"Spark's own hash places whole keys; {_CUT}"))

    def build(request: Request) -> tuple[DataFrame, Way]:
        _refuse_split_keys(request)  # a plan that another process has kept meanwhile
        way = Way("slices", f"a plan by {request.params.name} places whole keys; {_CUT}")
        return mapped(rows.by_plan(request, cut), request.columns, run, result_type), way

    return _sliced(built(request, build, hashed))


def _refuse_split_keys(request: Request) -> None:
    """Raise ValueError if a plan splits keys, or if one that is to be made might."""
    params, plan = request.params, request.plan
    if params.name not in _WHOLE_KEYS if plan is None else plan.splits:
        raise ValueError(
            f"plan must not split keys {_ONE_FUNCTION}: make it with grouping={_WHOLE_KEYS[0]!r}, "
            f"got one with grouping={params.name!r}"
        )


def _in_parts(
    request: Request, partial: Any, merge: Any, schema: Any, format: str, partial_schema: Any
) -> DataFrame:
    """Build the query of two functions."""
    df = request.df
    take_keys = [takes_key(name, each) for name, each in (("partial", partial), ("merge", merge))]
    for name, type_ in zip(request.keys, request.key_types, strict=True):
        refuse_uncut(name, type_, request.columns.fold)
    result_type = struct(df, "schema", schema)
    part_type = result_type if partial_schema is None else struct(df, "partial_schema", partial_schema)
    reason = uncarried(request, StructType([*result_type, *part_type]))
    rows = _Rows(df, request.keys, request.workers)
    if reason is not None:
        whole = _composed(partial, merge, *take_keys)
        return took(rows.in_spark(format, whole, result_type), Way("plain", reason))

    settings = settings_of(request.query.session)
    first = slices.Call(partial, take_keys[0], part_type, format, settings, goes_on=True)
    second = slices.Call(merge, take_keys[1], result_type, format, settings)
    cut = Cut.of(request)
    in_one_stage = over(slices.finished, first, second, cut.places)

    def build(request: Request) -> tuple[DataFrame, Way] | DataFrame:
        plan = request.plan
        if plan is not None and not plan.splits:
            way = Way("slices", f"the plan splits no key; {_CUT}")
            return mapped(rows.by_plan(request, cut), request.columns, in_one_stage, result_type), way
        split = None if plan is None else np.array([each.hash for each in plan.split_keys])
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
        if split is None:
            return result
        keys = keys_are(len(split))
        return result, Way("slices", f"{keys} split, all others are finished in the first stage; {_CUT}")

    def hashed() -> DataFrame:
        return mapped(rows.by_hash(cut), request.columns, in_one_stage, result_type)

    return _sliced(built(request, build, hashed if request.mode == "planned" else None))


def _sliced(result: DataFrame) -> DataFrame:
    """Say how the rows are grouped where a plan would bring nothing."""
    way = way_of(result)
    return took(result, Way("slices", f"{way.why}; {_CUT}")) if way.name == "plain" else result


@dataclass(frozen=True)
class _Rows:
    """The rows of a DataFrame, by key; with a number of workers in so many tasks, whatever their size is."""

    df: DataFrame
    keys: list[str]
    workers: int | None

    def in_spark(self, format: str, function: Any, schema: StructType) -> DataFrame:
        """Return what a function returns for each group, as Spark itself calls it."""
        rows = self.df if self.workers is None else self.df.repartition(self.workers, *map(F.col, self.keys))
        result: DataFrame = getattr(rows.groupBy(*self.keys), _METHODS[format])(function, schema)
        return result

    def by_hash(self, cut: Cut) -> DataFrame:
        """Return the rows where Spark's own hash places their keys, sorted by key, to be cut."""
        keys = [F.col(name) for name in self.keys]
        rows = self.df.select("*", *cut.extra) if cut.extra else self.df
        rows = rows.repartition(*keys) if self.workers is None else rows.repartition(self.workers, *keys)
        return rows.sortWithinPartitions(*keys)

    def by_plan(self, request: Request, cut: Cut, hash_column: str | None = None) -> DataFrame:
        """Return the rows on their workers, sorted by key; the hash of the key is behind if it has a name."""
        worker = request.worker_column
        hashes = [] if hash_column is None else [plan_hash(request).alias(hash_column)]
        rows = routed(request).select("*", *cut.extra, *hashes)
        rows = placed(rows, worker, request.workers, keep=False)
        if not cut.extra:
            fields = [] if hash_column is None else [StructField(hash_column, LongType(), False)]
            session = session_of(self.df)
            schema = StructType([*session.schema_of(self.df).fields, *fields])
            rows = session.with_schema(rows, schema)
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
    """Check a function and say whether Spark would call it with the key before the rows."""
    if not callable(function):
        raise TypeError(f"partial must be a function, got {type_name(function)}")
    taken = len(inspect.getfullargspec(function).args)
    if taken not in (1, 2):
        raise TypeError(f"partial must take (rows) or (key, rows), got one that takes {taken} arguments")
    return taken == 2
