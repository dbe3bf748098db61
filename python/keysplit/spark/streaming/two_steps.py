"""An aggregation of a stream in two stateful steps: by window, key and worker, then by window and key."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from keysplit.spark.aggregates import AGGREGATES, BY_NAME
from keysplit.spark.names import quoted
from keysplit.spark.operations.route import routed
from keysplit.spark.options import Request
from keysplit.spark.session import AggregateColumn, session_of
from keysplit.spark.session.times import watermark_ms
from keysplit.spark.streaming.sessions import refuse_session
from keysplit.spark.streaming.slots import slot

_BYTES = (IntegralType, DecimalType, BooleanType, DateType, TimestampType, TimestampNTZType, BinaryType)
_STREAMED = tuple(sorted({each.stream for each in AGGREGATES.values() if each.stream}))


def refuse_two_steps(
    df: DataFrame, window: Column | None, plain: DataFrame, columns: Sequence[Column]
) -> None:
    """Raise ValueError if an aggregation cannot be computed in two steps.

    Args:
        df: the rows.
        window: the window, None if there is none.
        plain: `df.groupBy(window, key).agg(*columns)`.
        columns: its aggregates.
    """
    if window is None:
        raise ValueError(
            "window must be given with split_state=True, got None: the second of two stateful steps waits "
            "until the watermark has passed a window"
        )
    fields = plain.schema.fields
    if len(fields) == len(columns):
        raise ValueError("spark.sql.retainGroupColumns must be true with split_state=True, got false")
    refuse_session(fields[0], " with split_state=True")
    if df.isStreaming and watermark_ms(fields[0]) is None:
        raise ValueError(
            "df must have a watermark on the time of the window with split_state=True, got none: call "
            "df.withWatermark before"
        )
    _calls(df, plain, columns)


def in_two_steps(request: Request, window: Column, plain: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Aggregate the rows of a request; arguments as `refuse_two_steps`, which has passed them."""
    fields = plain.schema.fields
    results, calls = fields[-len(columns) :], _calls(request.df, plain, columns)
    names = [f"result{at}" for at in range(len(columns))]
    keys = [f"key{at}" for at in range(len(request.keys))]

    rows = routed(request)
    span = request.columns.free("keysplit_window", request.worker_column)
    # `withColumn` of Spark Connect would drop what says that there is a watermark
    rows = rows.select("*", window.alias(span))
    by = [
        F.col(span).alias("window"),
        *(F.col(key).alias(name) for key, name in zip(request.keys, keys, strict=True)),
    ]
    own = slot(F.hash(span, *request.keys), F.col(quoted(request.worker_column)), request.workers)
    partial = rows.groupBy(*by, own.alias("slot")).agg(
        *(
            part
            for call, name, field in zip(calls, names, results, strict=True)
            for part in _parts(call, name, field)
        )
    )
    types = {field.name: field.dataType for field in partial.schema}
    merged = partial.groupBy("window", *keys).agg(
        *(each for call, name in zip(calls, names, strict=True) for each in _merged(call, name, types)),
        F.count("slot").alias("slots"),
    )
    # Spark 4.3 makes one step of a sum of counts and of what it counts, unless the second asks for the slots.
    merged = merged.filter("slots > 0")
    finished = [
        *(F.col(name) for name in ("window", *keys)),
        *(_finished(call, name, types) for call, name in zip(calls, names, strict=True)),
    ]
    return merged.select(
        *(
            column.alias(field.name, metadata=field.metadata)
            for column, field in zip(finished, fields, strict=True)
        )
    )


def _calls(df: DataFrame, plain: DataFrame, columns: Sequence[Column]) -> list[AggregateColumn]:
    results = plain.schema.fields[-len(columns) :]
    calls = session_of(df).calls(plain, columns)
    return [_call(call, field) for call, field in zip(calls, results, strict=True)]


def _call(call: AggregateColumn, field: StructField) -> AggregateColumn:
    """Return an aggregate with the name of the function that computes it in two steps, or refuse it."""
    if call.opaque:
        raise ValueError(
            f"columns must be made by functions such as F.sum('x') on Spark Connect, got {call.text}"
        )
    if call.name is None:
        raise ValueError(_inside(call.text))
    known = AGGREGATES.get(call.kind) if call.kind else BY_NAME.get(call.name)
    name = None if known is None else known.stream
    # try_sum and try_avg are of the classes of sum and avg.
    if name is None or call.distinct or call.name.startswith("try_"):
        raise ValueError(_inside(call.text) if call.nested else _unsupported(call.text))
    if name == "avg" and isinstance(field.dataType, DecimalType) and call.divide is None:
        raise ValueError(
            f"columns must not hold the avg of a decimal on Spark Connect, got {call.text}: take sum "
            "and count, and divide them in a select after"
        )
    if name == "collect_set" and not _equal_if_alike(field.dataType):
        raise ValueError(
            "columns must hold a collect_set of whole numbers, decimals, booleans, times, binary, strings "
            f"without a collation, or arrays and structs of them, got {call.text}: versions of Spark differ "
            "in which others are equal"
        )
    return call._replace(name=name)


def _equal_if_alike(type_: DataType) -> bool:
    """Say whether values of a type are equal exactly if their bytes are: there is one set of them."""
    if isinstance(type_, ArrayType):
        return _equal_if_alike(type_.elementType)
    if isinstance(type_, StructType):
        return all(_equal_if_alike(field.dataType) for field in type_.fields)
    return isinstance(type_, _BYTES) or type_ == StringType()


def _inside(text: str) -> str:
    return f"columns must be bare aggregates, got {text}: combine them in a following select"


def _unsupported(text: str) -> str:
    return f"columns must use these aggregates, without DISTINCT: {', '.join(_STREAMED)}; got {text}"


def _parts(call: AggregateColumn, name: str, field: StructField) -> list[Column]:
    """Return what the first step aggregates."""
    decimal, argument = isinstance(field.dataType, DecimalType), call.argument
    if call.name != "avg" and not (call.name == "sum" and decimal):
        return [call.whole.alias(name)]
    if isinstance(field.dataType, DoubleType):
        argument = argument.cast("double")  # as avg adds whole numbers
    return [F.sum(argument).alias(f"{name}_sum"), F.count(argument).alias(f"{name}_count")]


def _merged(call: AggregateColumn, name: str, types: dict[str, DataType]) -> list[Column]:
    """Return what the second step makes of the parts."""
    if name not in types:
        return _merged_sum(f"{name}_sum", f"{name}_count", types)
    if call.name in ("count", "count_if"):
        merged = F.coalesce(F.sum(name), F.lit(0))
    elif call.name == "collect_list":
        merged = F.flatten(F.collect_list(name))
    elif call.name == "collect_set":
        merged = F.array_distinct(F.flatten(F.collect_list(name)))
    else:
        merged = getattr(F, str(call.name))(name)
    return [merged.alias(name)]


def _merged_sum(part: str, count: str, types: dict[str, DataType]) -> list[Column]:
    total = F.sum(part)
    if isinstance(types[part], DecimalType):
        # A part that is null for all its numbers has overflowed, and so has the whole.
        lost = F.max(F.col(part).isNull() & (F.col(count) > 0))
        total = F.when(~lost, total).cast(types[part])
    return [total.alias(part), F.sum(count).alias(count)]


def _finished(call: AggregateColumn, name: str, types: dict[str, DataType]) -> Column:
    """Return the result, made of what the second step has merged."""
    if name in types:
        return F.col(name)
    total, count = F.col(f"{name}_sum"), F.col(f"{name}_count")
    if call.name == "sum":
        return total
    if call.divide is None or not isinstance(types[f"{name}_sum"], DecimalType):
        return F.when(count > 0, total / count)
    return F.when(count > 0, call.divide(total, count.cast("decimal(20,0)")))
