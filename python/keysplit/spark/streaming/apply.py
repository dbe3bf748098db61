"""`streaming.apply`: Python functions over the rows of each key of a stream, with hot keys in parts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
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
from keysplit.spark.checks import by_name, period_of, refuse_batch
from keysplit.spark.frame import Columns
from keysplit.spark.keys import key_hash, key_kinds
from keysplit.spark.names import quoted
from keysplit.spark.place import placed
from keysplit.spark.request import Request
from keysplit.spark.slices.conversion import settings_of
from keysplit.spark.streaming import blobs
from keysplit.spark.streaming.adapt import Adapt
from keysplit.spark.streaming.engine import is_session_window, watermark_ms, with_watermark
from keysplit.spark.streaming.placing import StreamRequest, built, check, routed
from keysplit.spark.streaming.slots import slot

_TIMEOUTS = {"event": "EventTimeTimeout", "processing": "ProcessingTimeTimeout"}
# The columns after those of the DataFrame.
_MARKS = ["hash", "slot", "begin", "end"]


@by_name
def apply(
    df: DataFrame,
    key: str | Sequence[str],
    function: Function,
    schema: str | StructType,
    *,
    merge: Function,
    plan: Plan | Adapt,
    partial_schema: str | StructType | None = None,
    combine: Function | None = None,
    window: Column | None = None,
    every: str | timedelta | None = None,
    clock: Literal["processing", "event"] | None = None,
    format: Literal["pandas", "arrow"] = "pandas",
) -> DataFrame:
    """Compute `merge(function(rows))` for the rows of each key of a stream, with hot keys in parts.

    In each micro-batch each worker calls `function` with its rows of each key. Each worker keeps its results,
    and all workers pass them to `merge` at the same time:

    - with `window`, when the watermark has passed the window. `merge` is called once for each window and key,
        with the partial results of all rows. The result equals `df.groupBy(window, key).applyInPandas(lambda
        rows: merge(function(rows)))` in a batch, over the rows that are not too late for the watermark;
    - with `every`, in the first micro-batch of a new period: `merge` is called for each key that has rows
        since the last call, with the partial results of these rows. Each row counts once, so a result covers
        the rows since the previous result;
    - with neither of these, in the same micro-batch.

    Each row is in exactly one call of `merge`, even after failures and restarts. The functions compose as in
    `kss.apply`: `merge(function(a) + function(b))` equals `merge(function(a + b))`.

    The state is one value for each worker and window: a table of partial results, which each batch with rows
    for that worker and window rewrites. A query may restart from its checkpoint with a different plan, number
    of workers or functions, and with more columns in `partial_schema`, which are null in old partial results.

    Args:
        df: a streaming DataFrame, classic or of Spark Connect.
        key: a column name, or a list of names; null is a key.
        function: takes a worker's rows of a key in one micro-batch, with all columns of `df`, and returns any
            number of rows with the columns of `partial_schema`. A function of two arguments gets the key as a
            tuple first; with `window` the tuple begins with the window.
        schema: the columns of the result, as DDL such as "word string, n long" or a StructType.
        merge: takes the rows that `function` returned for a key, with or without the key first, and returns
            rows with the columns of `schema`. It is not called for a key without partial results.
        plan: as in `streaming.route`. When the plan changes, no state moves.
        partial_schema: the columns that `function` returns; `schema` if omitted.
        combine: takes partial results of a key, with or without the key first, and returns fewer rows with
            the same columns, such that `merge(combine(a) + b)` equals `merge(a + b)`. It is called whenever a
            worker's state has doubled. Without `combine`, partial results are concatenated, and state grows
            with each micro-batch until it is merged.
        window: `F.window(...)` of the time, tumbling or sliding, or the column of the time itself. Rows
            without it are dropped.
        every: a period of whole milliseconds, such as "5 minutes" or a timedelta. With `window`, `every`
            divides long windows: each time the watermark has passed a further period, the window's rows so
            far go to `merge`. A window no longer than the period is not divided. No row is dropped.
        clock: without `window`, the clock of the period: "processing", the default, is the time at which a
            micro-batch begins, and "event" is the watermark. With "processing" Spark runs micro-batches
            without rows continuously unless the trigger limits it, and `availableNow` does not end.
        format: "pandas", or "arrow" if the functions take and return `pyarrow.Table` (Spark 4.0 or later).

    Returns:
        The rows that `merge` returned. Write it in append mode. With `window` or `every`, `df`
        must not come from an aggregation.

    Raises:
        TypeError: as in `streaming.route`, or if a function, schema, period or `window` has the wrong type.
        ValueError: as in `streaming.route`; if `df` is a batch; if there is no watermark, which `window` and
            `clock="event"` need; if arguments exclude each other; if a schema or a period cannot be read; if
            a column has a type that Spark does not pass to Arrow functions.

    Source:
        "The Power of Both Choices" (Nasir et al., ICDE 2015), sections III-A and V-A: partial results of each
        worker, which sends them on every T seconds, merged by key.

    Deviations:
        As in `Adapt`. Periods end with micro-batches.

    Example:
        >>> visitors = kss.streaming.apply(  # doctest: +SKIP
        ...     events.withWatermark("at", "10 minutes"),
        ...     "user",
        ...     sketch,
        ...     "user string, visitors long",
        ...     merge=merged_sketch,
        ...     partial_schema="sketch binary",
        ...     window=F.window("at", "1 hour"),
        ...     plan=plan,
        ... )
    """
    refuse_batch(df, ": kss.apply takes batches")
    request = check(df, key, plan)
    if format not in ("pandas", "arrow"):
        raise ValueError(f"format must be 'pandas' or 'arrow', got {format!r}")
    if format == "arrow" and not versions.has_apply_in_arrow(df):
        raise ValueError(f"format must be 'pandas' before Spark 4.0, got {format!r}")
    if clock not in (None, *_TIMEOUTS):
        raise ValueError(f"clock must be 'processing' or 'event', got {clock!r}")
    if clock is not None and (window is not None or every is None):
        raise ValueError(
            "clock must be omitted without every, and with window, where the watermark is the clock"
        )
    period = period_of("every", every)
    period_ms = None if period is None else period // timedelta(milliseconds=1)
    every_ms, ttl_ms = (period_ms, None) if window is None else (None, period_ms)
    clock = clock or "processing"

    result_type = struct(df, "schema", schema)
    part_type = result_type if partial_schema is None else struct(df, "partial_schema", partial_schema)
    settings = settings_of(request.query.setting)

    def call(name: str, of: Any, returned: StructType, goes_on: bool) -> slices.Call:
        return slices.Call(of, takes_key(name, of), returned, format, settings, goes_on)

    first, second = call("function", function, part_type, True), call("merge", merge, result_type, False)
    between = None if combine is None else call("combine", combine, part_type, True)
    reason = uncarried(request, StructType([*result_type, *part_type]))
    if reason is not None:
        raise ValueError(f"df and schemas must have types that Spark passes to Arrow functions, {reason}")

    if combine is not None and window is None and every is None:
        raise ValueError("combine must be omitted without window or every: nothing is kept between batches")
    for name, type_ in zip(request.keys, request.key_types, strict=True):
        refuse_uncut(name, type_, request.columns.fold)
    if window is not None and not versions.is_column(window):
        raise TypeError(f"window must be a column such as F.window('at', '5 minutes'), got {window!r}")
    groups = _Groups.of(request, window)
    delay = None if window is None and clock == "processing" else _delay(df, groups.window)

    cut = groups.cut
    layout = blobs.Layout(
        first,
        groups.kinds,
        len(cut.carried) - len(groups.kinds),
        tuple(cut.carried_cuts),
        request.workers,
        tuple(name.lower() for name in request.keys),
        settings["timezone"],
    )
    rule = blobs.Rule(clock if window is None else "event", every_ms, ttl_ms, between)

    def build(request: StreamRequest) -> DataFrame:
        rows = groups.rows(request)
        if window is None and every is None:
            parts = mapped(
                rows, request.columns, over(blobs.packed_to_merge, layout, groups.places()), _TO_MERGE
            )
        else:
            pack = over(blobs.packed, layout, groups.places("begin", "end", "slot"))
            parts = _kept(mapped(rows, request.columns, pack, _TO_KEEP), rule, layout, delay)
        parts = placed(parts, "bucket", layout.buckets)
        return parts.mapInArrow(over(blobs.merged, second, layout), result_type)

    return built(request, build)


_TO_MERGE = StructType([StructField("bucket", IntegerType()), StructField("blob", BinaryType())])
_TO_KEEP = StructType(
    [
        StructField("begin", LongType()),
        StructField("end", LongType()),
        StructField("slot", IntegerType()),
        StructField("blob", BinaryType()),
    ]
)


def _kept(parts: DataFrame, rule: blobs.Rule, layout: blobs.Layout, delay: int | None) -> DataFrame:
    """Keep the workers' state, and return the partial results that are due to be merged."""
    if delay is not None:
        # Spark finds the rows of ended windows, which it drops, by the column with the watermark.
        # pandas has no times after 2262; periods have no window end.
        end = F.least(F.timestamp_micros("end"), F.timestamp_seconds(F.lit(9_200_000_000)))
        end = F.when(F.lit(rule.every_ms is None), end)
        parts = parts.select("*", with_watermark(end, "late", delay))
    names = ["begin", "end", "slot"]
    if rule.every_ms is not None:
        # Spark compares the types of the state at a restart; with the window the state would not be found.
        names[0] = "begin_without_window"
        # `withColumn` of Spark Connect would drop the metadata of the watermark
        parts = parts.select("*", F.col("begin").cast("int").alias(names[0]))
    gone = parts.groupBy(*names).applyInPandasWithState(
        blobs.keeper(rule, layout), _TO_MERGE, "state binary", "append", _TIMEOUTS[rule.clock]
    )
    # Spark's own shuffle cannot take these rows until an expression has converted them.
    return gone.select(F.coalesce("bucket", F.lit(0)).alias("bucket"), "blob")


@dataclass(frozen=True)
class _Groups:
    """The groups of a stream: its keys, within windows if there are any.

    Attributes:
        window: the window as a column, if there is one.
        keys: the names of the columns by which rows are grouped, beginning with the window.
        kinds: the kinds of these columns' types.
        cut: how rows are cut into groups.
        hash: the hash of the key without the window.
        column: the expression of the window, with its name.
    """

    window: StructField | None
    keys: list[str]
    kinds: tuple[str, ...]
    cut: Cut
    hash: Column
    column: Column | None

    @classmethod
    def of(cls, request: Request, window: Column | None) -> "_Groups":
        """Return the groups of a request."""
        # another plan after a restart may have another seed
        hash_ = key_hash(request.keys, request.key_types, 0)
        field, kinds = None, key_kinds(request.key_types)
        if window is not None:
            window = window.alias(request.columns.free("_window", request.worker_column))
            fields = request.df.groupBy(window).count().schema.fields
            if len(fields) == 1:
                raise ValueError("spark.sql.retainGroupColumns must be true with a window, got false")
            field = fields[0]
            if is_session_window(field):
                raise ValueError(
                    "window must be F.window(...) or the column of the time, got a session window: a single "
                    "worker cannot know where a session ends"
                )
            request = replace(
                request,
                columns=Columns(request.df.select("*", window), request.columns.fold),
                keys=[field.name, *request.keys],
                key_types=[field.dataType, *request.key_types],
            )
            kinds = ["window" if isinstance(field.dataType, StructType) else "time", *kinds]
        return cls(field, request.keys, tuple(kinds), Cut.of(request), hash_, window)

    def rows(self, request: StreamRequest) -> DataFrame:
        """Return the rows on their workers, followed by the columns that `places` names."""
        worker = F.col(quoted(request.worker_column))
        rows = routed(request)
        begin = end = F.lit(0).cast("bigint")
        seed = F.hash(F.lit(0), end)  # the state has an INT in place of `begin`, see `_kept`
        if self.window is not None:
            # `withColumn` of Spark Connect would drop the metadata of the watermark
            rows = rows.select("*", self.column)
            time = F.col(self.window.name)
            rows = rows.filter(time.isNotNull())
            is_span = isinstance(self.window.dataType, StructType)
            begin, end = (F.unix_micros(time[name] if is_span else time) for name in ("start", "end"))
            seed = F.hash(begin, end)
        number = slot(seed, worker, request.workers)
        names = [request.columns.free(mark, request.worker_column) for mark in _MARKS]
        marks = zip([self.hash, number, begin, end], names, strict=True)
        rows = rows.select("*", *self.cut.extra, *(mark.alias(name) for mark, name in marks))
        return placed(rows, request.worker_column, request.workers, keep=False)

    def places(self, *marks: str) -> slices.Places:
        """Return column positions: functions see the DataFrame's; cuts begin with marks and the hash."""
        places, first = self.cut.places, self.cut.width
        seen = list(places.rows)[: None if self.window is None else -1]
        cuts = [first + _MARKS.index(mark) for mark in (*marks, "hash")]
        return slices.Places(list(places.names)[: len(seen)], seen, places.keys, [*cuts, *places.cuts])


def _delay(df: DataFrame, window: StructField | None) -> int:
    """Return the delay of the watermark in milliseconds."""
    fields = df.schema.fields if window is None else [window]
    found = next((delay for delay in map(watermark_ms, fields) if delay is not None), None)
    if found is None:
        where = "for clock='event'" if window is None else "on the time of the window"
        raise ValueError(f"df must have a watermark {where}, got none: call df.withWatermark first")
    return found
