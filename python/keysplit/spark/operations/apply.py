"""`apply`: a Python function over parts of each key's rows, and one that merges what it found."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, NullType, StringType, StructField, StructType

from keysplit.spark import carry
from keysplit.spark.engine.placement import placed_for_groups
from keysplit.spark.operations.route import built, routed
from keysplit.spark.options import (
    Engine,
    GroupingOrName,
    Mode,
    Options,
    Request,
    Trusted,
    by_name,
    check,
    quoted,
    refuse_stream,
)
from keysplit.spark.plans import Plan
from keysplit.spark.session import versions

Function = Callable[..., Any]


@by_name
def apply(
    df: DataFrame,
    key: str | Sequence[str],
    partial: Function,
    merge: Function,
    schema: str | StructType,
    *,
    partial_schema: str | StructType | None = None,
    format: Literal["pandas", "arrow"] = "pandas",
    workers: int | None = None,
    grouping: GroupingOrName = "d_choices",
    plan: Plan | None = None,
    mode: Mode = "planned",
    worker_column: str | None = None,
    row_id: str | Sequence[str] | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    engine: Engine | None = None,
    trust: Trusted = (),
    allow_inexact: bool = False,
) -> DataFrame:
    """Compute `df.groupBy(key).applyInPandas(lambda rows: merge(partial(rows)), schema)` in parts.

    A key's rows are spread over several workers. `partial` is called with the rows of each key on each
    worker, then `merge` once for each key, with the results of all its parts one below the other, in any
    order. The result is that of the whole group if the two functions compose:
    `merge(partial(a) + partial(b))` equals `merge(partial(a + b))` for all rows a and b of a key, where +
    puts rows below each other. Keys are those of `groupBy`: null is one, NaN another, and -0.0 is 0.0.

    Args:
        df: a batch DataFrame, classic or of Spark Connect.
        key: a column name, or a list of them; null is a key.
        partial: takes the rows of a key on a worker, with all columns of `df`, and returns any number of rows
            with the columns of `partial_schema`. With two arguments it takes the key as a tuple first. Both
            as in Spark's `applyInPandas`.
        merge: takes what `partial` returned for a key, with or without the key before it as `partial` does,
            and returns rows with the columns of `schema`. It is not called for a key of which `partial`
            returned no row.
        schema: the columns of the result, as DDL such as "word string, n long" or a StructType.
        partial_schema: the columns of what `partial` returns; `schema` if left out. Between the two functions
            the rows go through Spark: `merge` sees a column of these types as `applyInPandas` shows it.
        format: "pandas", or "arrow" if the functions take and return `pyarrow.Table`, as in `applyInArrow`
            (from Spark 4.0 on).
        workers: the number of workers, 1..=65536. Leave it out with a plan or a grouping object.
        grouping: a name such as "d_choices", or a grouping such as `DChoices(workers=50)`; `route` lists the
            names.
        plan: a plan made before by `plan`. Without one, a pass over `df` makes one at the call.
        mode: "planned" or "online"; `route` explains them.
        worker_column: its name in plans and in the Spark UI; a free one if left out. It is not in the result.
            The functions do not see it.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. If left out, the
            columns of `df` that are proved to come again the same when a task is retried.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            left out.
        seed: the seed of the hashes, 0 if left out. Leave it out with a plan or a grouping object.
        capacities: the relative speed of each worker, above 0; equal if left out. For mode "planned".
        engine: "rust" routes in Rust over Arrow, "columns" by plain Column expressions without Python on the
            executors; both give a row the same worker. If left out, "rust" counts the keys for a plan and
            "columns" routes. For mode "planned".
        trust: columns of `df` and functions (UDFs or their names) that give the same values when a task is
            retried, on your word; docs/exactness.md says what depends on it.
        allow_inexact: True to route online downstream of a shuffle all the same: a retried task may then lose
            or duplicate rows without an error.

    Returns:
        The rows that `merge` returned for all keys.

    Raises:
        TypeError: as `route`, or if a function or a schema is of another type.
        ValueError: as `route`, or if a schema cannot be read, if `format` is unknown, if `df` is a stream.

    Source:
        "The Power of Both Choices" (Nasir et al., ICDE 2015), section III-A: partial results of each worker,
        merged by key.

    Deviations:
        As `route`.

    Example:
        >>> def longest(rows):  # doctest: +SKIP
        ...     return rows.nlargest(1, "length")
        >>> result = kss.apply(df, "word", longest, longest, df.schema, workers=8)  # doctest: +SKIP
    """
    options = Options(
        workers=workers,
        grouping=grouping,
        plan=plan,
        mode=mode,
        worker_column=worker_column,
        row_id=row_id,
        weight=weight,
        seed=seed,
        capacities=capacities,
        engine=engine,
        trust=trust,
        allow_inexact=allow_inexact,
    )
    request = check(df, key, options)
    calls = [_called(name, function) for name, function in (("partial", partial), ("merge", merge))]
    if format not in ("pandas", "arrow"):
        raise ValueError(f"format must be 'pandas' or 'arrow', got {format!r}")
    method = {"pandas": "applyInPandas", "arrow": "applyInArrow"}[format]
    if format == "arrow" and not versions.has_apply_in_arrow(df):
        raise ValueError(f"format must be 'pandas' before Spark 4.0, got {format!r}")
    refuse_stream(df)
    for name, type_ in zip(request.keys, request.key_types, strict=True):
        _refuse_uncarried(name, type_, request.columns.fold)
    result_type = _struct(df, "schema", schema)
    part_type = result_type if partial_schema is None else _struct(df, "partial_schema", partial_schema)

    taken = {request.columns.fold(name) for name in part_type.names}
    names = [_free(f"key_{at}", taken, request.columns.fold) for at in range(len(request.keys))]
    types = request.key_types
    texts = [
        carry.text(F.col(name), type_)
        for name, type_ in zip(request.keys, types, strict=True)
        if not carry.is_steady(type_)
    ]
    # Where Python finds each key to hand on: Spark gives it the worker, the keys, then the texts.
    text_places = iter(range(1 + len(names), 1 + len(names) + len(texts)))
    places = {
        name: 1 + at if carry.is_steady(type_) else next(text_places)
        for at, (name, type_) in enumerate(zip(names, types, strict=True))
    }
    carried = [
        StructField(name, type_ if carry.is_steady(type_) else StringType())
        for name, type_ in zip(names, types, strict=True)
    ]

    in_part, in_merge = (_in_arrow, _in_arrow_merge) if format == "arrow" else (_in_pandas, _in_pandas_merge)

    def build(request: Request) -> DataFrame:
        rows = placed_for_groups(routed(request), request.worker_column, request.workers)
        grouped = rows.groupBy(quoted(request.worker_column), *request.keys, *texts)
        parts = getattr(grouped, method)(
            in_part(calls[0], request.worker_column, places, part_type.names),
            StructType([*part_type.fields, *carried]),
        )
        keys = [
            F.col(name) if carry.is_steady(type_) else carry.value(F.col(name), type_).alias(name)
            for name, type_ in zip(names, types, strict=True)
        ]
        parts = parts.select(*(F.col(quoted(name)) for name in part_type.names), *keys)
        return getattr(parts.groupBy(*names), method)(in_merge(calls[1], names), result_type)

    return built(request, build)


# The functions that these four return go to the executors, which need no keysplit for them: they use nothing
# of this file.


def _in_pandas(partial: Function, worker: str, places: dict[str, int], names: list[str]) -> Function:
    last = 1 + len(places)

    def part(key: Any, rows: Any) -> Any:
        del rows[worker]
        result = partial(key[1:last], rows)
        if not isinstance(result, pd.DataFrame) or len(result.columns) == 0:
            return result
        result = result.copy(deep=False)
        if len(result.columns) == len(names) and not any(isinstance(name, str) for name in result.columns):
            result.columns = names
        for name, place in places.items():
            value = None if pd.isna(key[place]) else key[place]
            result[name] = pd.Series([value] * len(result), index=result.index, dtype=object)
        return result

    return part


def _in_pandas_merge(merge: Function, names: list[str]) -> Function:
    def whole(key: Any, parts: Any) -> Any:
        for name in names:
            del parts[name]
        return merge(key, parts)

    return whole


def _in_arrow(partial: Function, worker: str, places: dict[str, int], names: list[str]) -> Function:
    last = 1 + len(places)

    def part(key: Any, rows: Any) -> Any:
        result = partial(key[1:last], rows.drop_columns([worker]))
        if not isinstance(result, pa.Table) or result.num_columns == 0:
            return result
        for name, place in places.items():
            value = key[place]
            result = result.append_column(pa.field(name, value.type), pa.repeat(value, result.num_rows))
        return result

    return part


def _in_arrow_merge(merge: Function, names: list[str]) -> Function:
    def whole(key: Any, parts: Any) -> Any:
        return merge(key, parts.drop_columns(names))

    return whole


def _called(argument: str, function: Any) -> Function:
    """Check a function of the user and return one that takes the key and the rows."""
    if not callable(function):
        raise TypeError(f"{argument} must be a function, got {type(function).__name__}")
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # one written in C may not say
        parameters = inspect.signature(lambda rows: rows).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in positional)
    rest = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    asked = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    if needed == 2 and not asked:
        return lambda key, rows: function(key, rows)
    if needed > 2 or asked or not (positional or rest):
        raise TypeError(f"{argument} must take (rows) or (key, rows), got one that takes {needed} arguments")
    return lambda key, rows: function(rows)


def _struct(df: DataFrame, argument: str, schema: Any) -> StructType:
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, str):
        raise TypeError(f"{argument} must be a StructType or DDL, got {type(schema).__name__}")
    try:
        return df.sparkSession.createDataFrame([], schema).schema
    except PySparkException as error:
        raise ValueError(f"{argument} must be DDL such as 'word string, n long', got {schema!r}") from error


def _refuse_uncarried(name: str, type_: DataType, fold: Callable[[str], str]) -> None:
    """Raise TypeError if keys of a type cannot be handed from `partial` to `merge`."""
    kinds = [type_]
    while kinds:
        kind = kinds.pop()
        fields = getattr(kind, "fields", [])
        kinds += [field.dataType for field in fields]
        kinds += [kind.elementType] if isinstance(kind, ArrayType) else []
        if len({fold(field.name) for field in fields}) < len(fields):
            raise TypeError(
                "key must not hold structs with two fields of one name in kss.apply, got "
                f"{name!r} of type {type_.simpleString()}"
            )
        if isinstance(kind, NullType) and kind is not type_:
            raise TypeError(
                f"key must not hold void fields in kss.apply, got {name!r} of type {type_.simpleString()}"
            )


def _free(name: str, taken: set[str], fold: Callable[[str], str]) -> str:
    while fold(name) in taken:
        name += "_"
    return name
