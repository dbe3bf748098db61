"""`streaming.aggregate`: aggregates of a stream, the rows of a key spread over its workers."""

from collections.abc import Sequence

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, DoubleType, StructField

from keysplit.spark.aggregates import AGGREGATES, BY_NAME
from keysplit.spark.operations.route import routed
from keysplit.spark.options import (
    Engine,
    Options,
    Trusted,
    check,
    check_columns,
    quoted,
    type_name,
)
from keysplit.spark.plans import Plan
from keysplit.spark.session import Call, session_of, versions

_STREAMED = tuple(sorted({each.stream for each in AGGREGATES.values() if each.stream}))

_MASK = (1 << 32) - 1


def aggregate(
    df: DataFrame,
    key: str | Sequence[str],
    *columns: Column,
    window: Column,
    plan: Plan,
    row_id: str | Sequence[str] | None = None,
    engine: Engine | None = None,
    worker_column: str | None = None,
    trust: Trusted = (),
) -> DataFrame:
    """Compute `df.groupBy(window, key).agg(*columns)` of a stream, the rows of a key spread over its workers.

    Rows are aggregated by (window, key, worker) first, and these partial results by (window, key): two
    stateful steps, which Spark allows in append mode. The state of a worker lies in the state partition of
    its number, modulo the state partitions: a hot key fills as many of them as it has workers.

    Rows, column names and types equal those of the plain `groupBy` over the rows that are not later than the
    watermark, after failures and restarts, too: bit for bit for whole numbers, decimals, strings, dates and
    booleans. Sums and averages of floats are added in another order, and lists are collected in another.

    Args:
        df: a streaming DataFrame with a watermark on the time of the window; or a batch, to try a job out.
        key: a column name, or a list of them; null is a key.
        columns: aggregates, each by itself: sum, count, min, max, avg, count_if, bool_and, bool_or, bit_and,
            bit_or, bit_xor, collect_list or collect_set, with FILTER or without. On Spark Connect they are
            made by functions such as `F.sum("x")`, not by `F.expr`, and avg is not of decimals.
        window: `F.window(...)` of the time, tumbling or sliding, or the column of the time itself.
        plan: a plan that was made from a batch of such rows. A query that starts again from its checkpoint
            may have another one: partial results are merged by key in any case.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. If left out, the
            columns of `df` that are proved to come again the same when a task is retried.
        engine: "rust" routes in Rust over Arrow, "columns", the default, by plain Column expressions.
        worker_column: its name in plans and in the Spark UI; a free one if left out. It is not in the result.
        trust: columns of `df` and functions (UDFs or their names) that give the same values when a task is
            retried, on your word; docs/exactness.md says what depends on it.

    Returns:
        A row for each window and key when the watermark has passed the window: the window, the key columns,
        then `columns`. Write it in append mode: where a query has two stateful steps, Spark refuses the
        modes update and complete, with an error at its start.

    Raises:
        TypeError: as `route`, or if `window` or one of `columns` is no Column.
        ValueError: as `route`; if there is no watermark; if an aggregate is not supported, or stands inside
            an expression.

    Source:
        "The Power of Both Choices" (Nasir et al., ICDE 2015), section III-A: partial results of each worker,
        merged by key.

    Deviations:
        As `plan`.

    Example:
        >>> counts = kss.streaming.aggregate(  # doctest: +SKIP
        ...     events.withWatermark("at", "10 minutes"),
        ...     "word",
        ...     F.count("*").alias("n"),
        ...     window=F.window("at", "5 minutes"),
        ...     plan=plan,
        ... )
    """
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan that kss.plan made, got {type_name(plan)}")
    check_columns(columns)
    options = Options(
        plan=plan,
        row_id=row_id,
        engine=engine,
        worker_column=worker_column,
        trust=trust,
    )
    request = check(df, key, options)
    if not versions.is_column(window):
        raise TypeError(f"window must be a column such as F.window('at', '5 minutes'), got {window!r}")
    plain = df.groupBy(window, *request.keys).agg(*columns)
    fields = plain.schema.fields
    if len(fields) == len(columns):
        raise ValueError("spark.sql.retainGroupColumns must be true for kss.streaming.aggregate, got false")
    groups, results = fields[: -len(columns)], fields[-len(columns) :]
    _refuse_window(df, groups[0])
    calls = [
        _call(call, field) for call, field in zip(session_of(df).calls(plain, columns), results, strict=True)
    ]
    names = [f"result{at}" for at in range(len(columns))]
    keys = [f"key{at}" for at in range(len(request.keys))]

    rows = routed(request)
    span = request.columns.free("keysplit_window", [request.worker_column])
    # `withColumn` of Spark Connect would drop what says that there is a watermark
    rows = rows.select("*", window.alias(span))
    by = [
        F.col(span).alias("window"),
        *(F.col(key).alias(name) for key, name in zip(request.keys, keys, strict=True)),
    ]
    slot = _slot(F.hash(span, *request.keys), F.col(quoted(request.worker_column)), request.workers)
    partial = rows.groupBy(*by, slot.alias("slot")).agg(
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


def _refuse_window(df: DataFrame, window: StructField) -> None:
    if "spark.sessionWindow" in window.metadata:
        raise ValueError(
            "window must be F.window(...) or the column of the time, got a session window: the rows of one "
            "worker do not tell where a session ends"
        )
    if df.isStreaming and "spark.watermarkDelayMs" not in window.metadata:
        raise ValueError(
            "df must have a watermark on the time of the window, got none: call df.withWatermark before"
        )


def _call(call: Call, field: StructField) -> Call:
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
    return call._replace(name=name)


def _inside(text: str) -> str:
    return f"columns must be aggregates, each by itself, got {text}: aggregate its parts, and select it after"


def _unsupported(text: str) -> str:
    return f"columns must use these aggregates, without DISTINCT: {', '.join(_STREAMED)}; got {text}"


def _parts(call: Call, name: str, field: StructField) -> list[Column]:
    """Return what the first step aggregates."""
    decimal, argument = isinstance(field.dataType, DecimalType), call.argument
    if call.name != "avg" and not (call.name == "sum" and decimal):
        return [call.whole.alias(name)]
    if isinstance(field.dataType, DoubleType):
        argument = argument.cast("double")  # as avg adds whole numbers
    return [F.sum(argument).alias(f"{name}_sum"), F.count(argument).alias(f"{name}_count")]


def _merged(call: Call, name: str, types: dict[str, DataType]) -> list[Column]:
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


def _finished(call: Call, name: str, types: dict[str, DataType]) -> Column:
    """Return the result, made of what the second step has merged."""
    if name in types:
        return F.col(name)
    total, count = F.col(f"{name}_sum"), F.col(f"{name}_count")
    if call.name == "sum":
        return total
    if call.divide is None or not isinstance(types[f"{name}_sum"], DecimalType):
        return F.when(count > 0, total / count)
    return F.when(count > 0, call.divide(total, count.cast("decimal(20,0)")))


def _slot(seed: Column, worker: Column, workers: int) -> Column:
    """Return the INT that Spark's hash, begun with a seed, maps to the worker's number.

    Spark's partition of (window, key, slot) is the hash of the slot, begun with the hash of window and key,
    modulo the partitions: this way it is the worker, modulo the partitions.

    Source:
        The 32-bit MurmurHash3 of four bytes, run backwards: each of its steps is a bijection.
    """
    numbers = np.arange(workers, dtype=np.uint32)
    with np.errstate(over="ignore"):
        h = numbers ^ (numbers >> np.uint32(16))
        h *= np.uint32(_inverse(0xC2B2AE35))
        h ^= (h >> np.uint32(13)) ^ (h >> np.uint32(26))
        h *= np.uint32(_inverse(0x85EBCA6B))
        h ^= (h >> np.uint32(16)) ^ np.uint32(4)
        h = (h - np.uint32(0xE6546B64)) * np.uint32(_inverse(5))
        h = (h >> np.uint32(13)) | (h << np.uint32(19))
    table = F.split(F.lit(",".join(map(str, h.view(np.int32).tolist()))), ",").cast("array<bigint>")
    k = _times(table[worker].bitwiseXOR(seed.cast("bigint")), _inverse(0x1B873593))
    turned = F.shiftleft(k.bitwiseAND(F.lit(_MASK)), 17)
    k = turned.bitwiseOR(F.shiftright(turned, 32))
    return _times(_signed(k), _inverse(0xCC9E2D51)).cast("int")


def _times(number: Column, factor: int) -> Column:
    """Return the product of two numbers of 32 bits with a sign, modulo 2^32 again: nothing overflows."""
    return _signed(number * (factor - (factor >> 31 << 32)))


def _signed(number: Column) -> Column:
    """Return the low 32 bits of a BIGINT as a number with a sign."""
    return F.shiftright(F.shiftleft(number, 32), 32)


def _inverse(number: int) -> int:
    return pow(number, -1, 1 << 32)
