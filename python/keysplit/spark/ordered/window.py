"""`window`: window functions whose hot keys are split by ranges of their order."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keysplit.diagnosis.windows import ENDS, RANKS, SHIFTS, SUMS
from keysplit.plan import Plan
from keysplit.spark import versions
from keysplit.spark.checks import refuse_other_frames, refuse_stream, type_name
from keysplit.spark.frame import Columns, analysed
from keysplit.spark.identity import Query
from keysplit.spark.jvm import memory, size
from keysplit.spark.jvm import slots as slots_of
from keysplit.spark.names import in_sql, quoted
from keysplit.spark.ordered.calls import Call, Spec, Unsplit, Windows
from keysplit.spark.ordered.parse import windows_of
from keysplit.spark.ordered.split import by_ranges
from keysplit.spark.ordered.unordered import by_aggregate
from keysplit.spark.plan import make
from keysplit.spark.request import GROUPING, Request, check, check_way, params_of, trusted_by
from keysplit.spark.strategy import Way, keys_are, reason_for_no_plan, reason_for_plain, took
from keysplit.text import format_count

# From so many task slots on a second look at the rows of hot keys is worth its time.
_MANY = 8
# What a window holds of rows over Spark's estimate of them: files are compressed, and the sort and the window
# each hold all rows of a key. It was 3.6 to 5.6 for Parquet files.
_HELD = 6


def window(
    df: DataFrame,
    *columns: Column,
    plan: Plan | None = None,
    workers: int | None = None,
    way: str | None = None,
) -> DataFrame:
    """Compute window functions; the rows of a hot key are divided among workers by ranges of their order.

    Spark sorts all rows of a key in one task. Here each worker sorts one range of a hot key's order. What
    other ranges contribute (counts, sums, minima, maxima, single rows) comes from further scans of the key,
    order and argument columns. Rows of neighbouring ranges that frames reach are copied.

    The result is that of `df.select("*", *columns)`, with two exceptions. Floats are added in a different
    order. If rows have equal order values, Spark's own results of `row_number`, `ntile`, `lag`, `lead`,
    `first`, `last`, `nth_value` and ROWS frames depend on the order in which it reads them; here it may be
    another order.

    These can be split:

    - `row_number`, `rank`, `dense_rank`, `percent_rank`, `cume_dist`, `ntile`, `lag` and `lead`;
    - `sum`, `count`, `min`, `max`, `avg` (not of decimals), `first` and `last`, up to the current row, from
        the current row on, or over the whole key;
    - `nth_value` up to the current row or over the whole key, unless it ignores nulls;
    - these and most other aggregates of Spark over a fixed number of rows before and after, and all of
        these aggregates but `first`, `last` and `nth_value` in a window without an order.

    A call may hold functions of several windows: one window is split, and Spark computes the others after it.

    `df` is read a second time, so its key, order and argument columns must be deterministic. Calling `window`
    runs jobs that count rows and compute partial sums.

    Args:
        df: a batch DataFrame.
        columns: columns with window functions, as in `df.select`.
        plan: a plan that `kss.plan` made or loaded for the key of the window. If its `order_by` is the order
            of the window, the order is not sampled again.
        workers: in place of a plan, the number of workers, 1..=65536: a plan is made from a sample of the
            rows. Each worker is one partition.
        way: "plain" for Spark's own windows, "place" to split hot keys even if that saves nothing; if
            left out, keysplit chooses, and `explain` says why.

    Returns:
        The rows of `df` with the columns.

    Raises:
        TypeError: if an argument has a wrong type.
        ValueError: if an argument has a wrong value; if `way` is "place" and a function cannot be split.

    Source:
        US patents 9158812 and 9183252 (Oracle): windows by ranges of the partition and order keys.

    Deviations:
        Ranges are cut by the values of a sample, so rows of equal order are never divided.

    Example:
        >>> w = Window.partitionBy("word").orderBy("length")  # doctest: +SKIP
        >>> gap = F.col("length") - F.lag("length").over(w)  # doctest: +SKIP
        >>> found = kss.window(df, F.row_number().over(w).alias("n"), gap, workers=200)  # doctest: +SKIP
    """
    refuse_other_frames(df)
    refuse_stream(df)
    check_way(way, ("plain", "place"))
    if not columns:
        raise ValueError("columns must contain at least one column, such as F.row_number().over(w), got none")
    for column in columns:
        if not versions.is_column(column):
            raise TypeError(
                f"columns must be Columns such as F.row_number().over(w), got {type_name(column)}"
            )
    if way != "plain" or workers is not None:
        params_of(plan, workers, GROUPING, df)
    plain = analysed(df.select("*", *columns))
    if way == "plain":
        return took(plain, Way("plain", "as way='plain' requires"))
    try:
        windows = windows_of(df, plain)
        rows, why = _split(windows, plan, workers, way)
        result = windows.finish(rows)
    except Unsplit as reason:
        if way is not None:
            raise ValueError(f"way must be 'plain' or None here, got {way!r}: {reason}") from None
        return took(plain, Way("plain", str(reason)))
    return took(result, Way("place", why))


def _split(windows: Windows, plan: Any, workers: Any, way: str | None) -> tuple[DataFrame, str]:
    base, calls = windows.base, list(map(_with_columns_once, windows.calls))
    spec = _spec_of(calls)
    chosen = [at for at, call in enumerate(calls) if _belongs(call, spec)]
    others = [at for at in range(len(calls)) if at not in chosen]
    results = windows.results
    keys = [quoted(name) for name in spec.partition]
    if not keys:
        if plan is not None:
            raise ValueError("plan must be None for windows without partitionBy: pass workers")
        constant = Columns(base).free("everything", *results)
        base, spec = base.select("*", F.lit(0).alias(constant)), spec._replace(partition=(constant,))
        keys = [constant]
    own = [replace(calls[at], spec=spec, frame=calls[at].frame) for at in chosen]
    names = frozenset(windows.named.get(name, name) for name in trusted_by(plan))
    request = check(base, keys, plan, workers, way=way, query=Query(base, names))
    request, added = _planned(request, own)
    its_results = [results[at] for at in chosen]
    assert request.plan is not None
    if spec.order:
        rows, what = by_ranges(request, own, its_results)
        why = f"{keys_are(len(request.plan.split_keys))} split into {what}"
    else:
        rows = by_aggregate(request, own, its_results)
        hot = format_count(len(request.plan.split_keys), "hot key")
        why = f"results of {hot} are aggregated, then joined to the rows by a broadcast"
    rows = rows.select("*", *(F.expr(calls[at].plain).alias(results[at]) for at in others))
    if others:
        why += f"; Spark then computes {format_count(len(others), 'function')} of other windows"
    why += added
    kept = [in_sql(name) for name in windows.base.columns]
    rows = rows.select(
        *(F.expr(name) for name in kept),
        *(F.col(name).cast(call.type) for name, call in zip(results, calls, strict=True)),
    )
    return rows, why


def _planned(request: Request, calls: Sequence[Call]) -> tuple[Request, str]:
    """Return a request with a plan, made if there is none, and an addition to the reason for splitting.

    Raises:
        Unsplit: if splitting would not pay, and the request names no way.
    """
    chooses, slots = request.way is None, slots_of(request.df)
    sorted_, room = (size(request.df) or 0) * _HELD, memory(request.df)
    if chooses and request.plan is None:
        reason = reason_for_no_plan(request.workers, slots)
        if reason is not None and (room is None or sorted_ <= room):
            raise Unsplit(reason)
    plan = request.plan or make(request)[0]
    request = replace(request, plan=plan)
    if not chooses:
        return request, ""
    sorted_ = int(sorted_ * plan.hash_busiest / plan.workers)
    spills = room is not None and sorted_ > room
    reason = reason_for_plain(plan, None if spills else slots)
    if reason is None and not plan.splits:
        reason = "no key is hot"
    dense = any(call.function == "dense_rank" for call in calls)
    if reason is None and dense and slots is not None and slots < _MANY and not spills:
        reason = f"dense_rank needs one more pass over the rows, too slow with {slots} tasks at once"
    if reason is not None:
        raise Unsplit(reason)
    if not spills or room is None:
        return request, ""
    sizes = f"{sorted_ / 1e6:.0f} MB in {room / 1e6:.0f} MB of memory"
    return request, f"; Spark's own window would sort about {sizes}"


def _spec_of(calls: Sequence[Call]) -> Spec:
    """Return the window to split: one with an order if possible, with the most functions."""
    why: dict[Spec, str | None] = {}
    for call in calls:
        why[call.spec] = why.get(call.spec) or _why_whole(call)
    fit = [spec for spec, reason in why.items() if reason is None]
    if not fit:
        raise Unsplit(next(reason for reason in why.values() if reason))
    return max(fit, key=lambda spec: (bool(spec.order), sum(_belongs(call, spec) for call in calls)))


def _why_whole(call: Call) -> str | None:
    if call.spec.order:
        return call.why_whole
    if call.frame.is_whole and call.function not in ENDS | RANKS | SHIFTS:
        return None
    return f"{call.name} depends on an order, and its window has none"


def _with_columns_once(call: Call) -> Call:
    return replace(call, spec=call.spec._replace(partition=tuple(dict.fromkeys(call.spec.partition))))


def _belongs(call: Call, spec: Spec) -> bool:
    """Return whether a function is computed with a window: the same window, or its key without an order."""
    if call.spec == spec:
        return True
    same_key = call.spec.partition == spec.partition and not call.spec.order
    return same_key and call.frame.is_whole and call.function in SUMS and call.why_whole is None
