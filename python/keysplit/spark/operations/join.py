"""`join`: a join whose hot keys are spread over several workers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.spark.engine.columns import is_split, workers_of
from keysplit.spark.engine.placement import placed
from keysplit.spark.hashes import plan_hash
from keysplit.spark.keys import key_hash, key_kinds
from keysplit.spark.operations.route import planned, routed
from keysplit.spark.options import (
    Options,
    Request,
    check,
    column_type,
    free_name,
    is_data_frame,
    key_names,
    quoted,
    refuse_stream,
)
from keysplit.spark.session import versions

# Spark's spellings, without underscores and in lower case, as Spark reads them.
_KINDS = {
    "inner": "inner",
    "left": "left",
    "leftouter": "left",
    "right": "right",
    "rightouter": "right",
    "full": "full",
    "outer": "full",
    "fullouter": "full",
    "semi": "semi",
    "leftsemi": "semi",
    "anti": "anti",
    "leftanti": "anti",
}


def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    how: str = "inner",
    *,
    split: str | None = None,
    **options: Unpack[Options],
) -> DataFrame:
    """Compute `left.join(right, on, how)`, the rows of a hot key being spread over several workers.

    One side is split: a plan made of its keys says which worker each of its rows goes to. A row of the other
    side goes to all workers of its key: to one for a rare key, to several for a hot one. Then Spark joins on
    the key and the worker. Rows, columns, their order, types and nulls equal those of the plain join.

    Split the side that has the hot keys. A key that is hot on both sides is split on one of them only. Rows
    of the other side whose key is null meet nothing and are never copied.

    From Spark 4.1 on both sides are placed by worker, and the join itself shuffles nothing. Before, it
    shuffles them by key and worker, which spreads hot keys as widely, but two workers may share a task.

    Args:
        left: a batch DataFrame, classic or of Spark Connect.
        right: another one, or the same.
        on: a column, or a list of columns, that both sides have with the same types; whole numbers may differ
            in their width. Names are taken literally, dots and backticks included, as Spark does here.
        how: inner, left, right, full, semi or anti, in any of Spark's spellings.
        split: the side that is split, "left" or "right"; if left out, "right" for a right join and "left" for
            all others. Semi and anti joins split the left one.
        options: all other arguments of `route`, for the side that is split; the mode is always "planned". The
            worker column is not in the result: its name is made free on both sides.

    Returns:
        The rows that `left.join(right, on, how)` has.

    Raises:
        TypeError: as `route`; if `on` is a Column expression, or its types differ between the sides.
        ValueError: as `route`; if `how`, `split` or `mode` has another value, or a side is streaming.

    Source:
        "Practical Skew Handling in Parallel Joins" (DeWitt, Naughton, Schneider, Seshadri, VLDB 1992): the
        subset-replicate technique.

    Deviations:
        The paper splits ranges of sorted keys by a sample. Here a plan splits keys by shares of their rows.

    Example:
        >>> sales = kss.join(orders, customers, "customer", "left", workers=8)  # doctest: +SKIP
    """
    kind = _kind(how)
    split = _split(split, kind)
    names, types = _checked(left, right, on, options)
    sides = {"left": left, "right": right}
    request = check(sides[split], names, options)
    # Both sides and the result get the column, and in the end it is dropped by name.
    both = left.crossJoin(right)
    request = planned(replace(request, worker_column=free_name(both, request.worker_column)))
    worker = request.worker_column
    there, found = (free_name(both, f"{worker}_{name}") for name in ("there", "found"))
    plan = request.plan
    assert plan is not None

    other = "left" if split == "right" else "right"
    copies = sides[other]
    workers = workers_of(plan, key_hash(names, types[other], request.params.seed))
    # A join drops null keys first. Were a worker nullable, Spark would compute it once more for that.
    rows = routed(request).withColumn(worker, F.coalesce(quoted(worker), F.lit(0)))
    once = kind in (other, "full") and plan.splits
    if once:
        request.query.refuse_unrepeatable(request.keys, f"as a {kind} join needs its keys first")
        # A row of the other side that matches nothing must come out once. Without a match anywhere it is not
        # copied; with one, its copies on workers where it has none are dropped after the join.
        copies = copies.join(
            F.broadcast(_split_keys(request).withColumn(found, F.lit(True))), key_names(on), "left"
        )
        workers = F.when(F.col(quoted(found)), workers).otherwise(F.slice(workers, 1, 1))
        rows = rows.withColumn(there, F.lit(True))
    elif kind in ("semi", "anti"):
        copies = copies.select(*names).distinct().withColumn(found, F.lit(True))
    if kind not in (other, "full"):
        for name in names:
            copies = copies.filter(F.col(name).isNotNull())
    copies = copies.withColumn(worker, F.explode(workers))

    sides = {split: _placed(rows, request), other: _placed(copies, request)}
    # Spark pushes a semi or anti join below the placing. Keys being distinct, these are the same.
    as_ = {"semi": "inner", "anti": "left"}.get(kind, kind)
    joined = sides["left"].join(sides["right"], [*key_names(on), worker], as_)
    if once:
        joined = joined.filter(F.col(quoted(there)).isNotNull() | F.col(quoted(found)).isNull())
    if kind == "anti":
        joined = joined.filter(F.col(quoted(found)).isNull())
    return joined.drop(worker, there, found)


def _split_keys(request: Request) -> DataFrame:
    # At most a few for each worker: only a key that the plan places by itself may have several workers.
    plan = request.plan
    assert plan is not None
    rows = request.df.filter(is_split(plan, plan_hash(request)))
    return rows.select(*request.keys).distinct()


def _placed(df: DataFrame, request: Request) -> DataFrame:
    # Before 4.1 Spark cannot see how rows lie: placed or not, the join would shuffle them by key and worker.
    if not versions.has_repartition_by_id(df):
        return df
    return placed(df, request.worker_column, request.workers)


def _kind(how: Any) -> str:
    if not isinstance(how, str):
        raise TypeError(f"how must be a string, got {type(how).__name__}")
    kind = _KINDS.get(how.lower().replace("_", ""))
    if kind is None:
        raise ValueError(f"how must be inner, left, right, full, semi or anti, got {how!r}")
    return kind


def _split(split: Any, kind: str) -> str:
    if split is None:
        return "right" if kind == "right" else "left"
    if split not in ("left", "right"):
        raise ValueError(f"split must be 'left' or 'right', got {split!r}")
    if split == "right" and kind in ("semi", "anti"):
        raise ValueError("split must be 'left' in semi and anti joins, got 'right'")
    return str(split)


def _checked(left: Any, right: Any, on: Any, options: Options) -> tuple[list[str], dict[str, list[DataType]]]:
    """Return the key columns, quoted, and their types on both sides."""
    sides = {"left": left, "right": right}
    for side, df in sides.items():
        if not is_data_frame(df):
            raise TypeError(f"{side} must be a Spark DataFrame, got {type(df).__name__}")
        refuse_stream(df, side)
    mode = options.get("mode", "planned")
    if mode != "planned":
        raise ValueError(f"mode must be 'planned' in join, got {mode!r}")
    names = [quoted(name) for name in key_names(on, "on")]
    types = {side: [column_type(df, "on", name) for name in names] for side, df in sides.items()}
    for mine, theirs in zip(types["left"], types["right"], strict=True):
        if key_kinds([mine]) != key_kinds([theirs]):
            raise TypeError(
                f"on must have the same type on both sides, got {mine.simpleString()} and "
                f"{theirs.simpleString()}: cast one of them"
            )
    return names, types
