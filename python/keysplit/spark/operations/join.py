"""`join`: a join whose hot keys are spread over several workers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.spark.engine.columns import is_split, workers_of
from keysplit.spark.engine.placement import placed
from keysplit.spark.hashes import plan_hash
from keysplit.spark.keys import key_hash, key_kinds
from keysplit.spark.names import in_sql, path_in_sql
from keysplit.spark.operations.route import built, routed
from keysplit.spark.options import (
    Columns,
    Engine,
    GroupingOrName,
    Options,
    Request,
    Side,
    Trusted,
    analysed,
    by_name,
    check,
    key_names,
    quoted,
    refuse_other_frames,
    refuse_stream,
)
from keysplit.spark.plans import Plan
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


How = Literal[
    "inner",
    "left",
    "leftouter",
    "left_outer",
    "right",
    "rightouter",
    "right_outer",
    "full",
    "outer",
    "fullouter",
    "full_outer",
    "semi",
    "leftsemi",
    "left_semi",
    "anti",
    "leftanti",
    "left_anti",
]


@by_name
def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    how: How = "inner",
    *,
    split: Side | None = None,
    workers: int | None = None,
    grouping: GroupingOrName = "d_choices",
    plan: Plan | None = None,
    mode: Literal["planned"] = "planned",
    worker_column: str | None = None,
    row_id: str | Sequence[str] | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    engine: Engine | None = None,
    trust: Trusted = (),
) -> DataFrame:
    """Compute `left.join(right, on, how)`, the rows of a hot key being spread over several workers.

    One side is split: a plan made of its keys says which worker each of its rows goes to. A row of the other
    side goes to all workers of its key: to one for a rare key, to several for a hot one. Then Spark joins on
    the key and the worker. Rows, columns, their order, types and nulls equal those of the plain join.

    The key columns of both frames may be selected from the result, as `left["k"]` and `right["k"]`, but for
    those of the right one in left and full joins with `split="right"`.

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
        workers: the number of workers, 1..=65536. Leave it out with a plan or a grouping object.
        grouping: a name such as "d_choices", or a grouping such as `DChoices(workers=50)`; `route` lists the
            names.
        plan: a plan made before from the side that is split. Without one, a pass over that side makes one at
            the call.
        mode: always "planned": a join has no online mode.
        worker_column: its name in plans and in the Spark UI; a free one if left out. It is not in the result.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. If left out, the
            columns of the side that is split that are proved to come again the same when a task is retried.
        weight: the load of a row of the side that is split: a numeric column, an expression, or "bytes" (see
            `row_bytes`); 1 per row if left out.
        seed: the seed of the hashes, 0 if left out. Leave it out with a plan or a grouping object.
        capacities: the relative speed of each worker, above 0; equal if left out. For mode "planned".
        engine: "rust" routes in Rust over Arrow, "columns" by plain Column expressions without Python on the
            executors; both give a row the same worker. If left out, "rust" counts the keys for a plan and
            "columns" routes. For mode "planned".
        trust: columns of the side that is split and functions (UDFs or their names) that give the same values
            when a task is retried, on your word; docs/exactness.md says what depends on it.

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
    hot = _split(split, kind)
    if mode != "planned":
        raise ValueError(f"mode must be 'planned' in join, got {mode!r}")
    sides = {"left": left, "right": right}
    for side, df in sides.items():
        refuse_other_frames(df, side)
        refuse_stream(df, side)
    names = [quoted(name) for name in key_names(on, "on")]
    columns = {side: Columns(df) for side, df in sides.items()}
    types = _key_types(names, columns)
    options = Options(
        workers=workers,
        grouping=grouping,
        plan=plan,
        worker_column=worker_column,
        row_id=row_id,
        weight=weight,
        seed=seed,
        capacities=capacities,
        engine=engine,
        trust=trust,
    )
    request = check(sides[hot], names, options)
    # What is wrong with the join is said before a plan takes its jobs.
    analysed(left.join(right, key_names(on), kind))
    # Both sides and the result get these columns, and in the end they are dropped by name.
    worker, *own = (
        columns["left"].free(name, columns["right"])
        for name in (
            request.worker_column,
            *(f"{request.worker_column}_{end}" for end in ("there", "found", *range(len(names)))),
        )
    )
    other = "left" if hot == "right" else "right"

    def build(request: Request) -> DataFrame:
        return _joined(request, sides, hot, other, kind, key_names(on), types[other], own)

    return built(replace(request, worker_column=worker), build)


def _joined(
    request: Request,
    sides: Mapping[str, DataFrame],
    hot: str,
    other: str,
    kind: str,
    on: Sequence[str],
    types: Sequence[DataType],
    own: Sequence[str],
) -> DataFrame:
    """Join two sides: `types` are those of the keys on the side that is copied, `own` names for columns."""
    plan, worker, names = request.plan, request.worker_column, request.keys
    assert plan is not None
    there, found, *met = own
    copies = sides[other]
    its_workers = workers_of(plan, in_sql(worker))
    once = kind in (other, "full") and plan.splits
    if once:
        request.query.refuse_unrepeatable(request.keys, f"as a {kind} join needs its keys first")
        # A row of the other side that matches nothing must come out once. Without a match anywhere it is not
        # copied; with one, its copies on workers where it has none are dropped after the join. The keys get
        # names of their own: under their own ones they would hide those of the other side in the result.
        keys = _split_keys(request, met).withColumn(found, F.lit(True))
        same = reduce(and_, (F.col(name) == F.col(quoted(key)) for name, key in zip(names, met, strict=True)))
        copies = copies.join(F.broadcast(keys), same, "left")
        its_workers = f"IF({in_sql(found)}, {its_workers}, slice({its_workers}, 1, 1))"
    elif kind in ("semi", "anti"):
        copies = copies.select(*names).distinct().withColumn(found, F.lit(True))
    if kind not in (other, "full"):
        # Null keys meet nothing.
        copies = copies.filter(" AND ".join(f"{path_in_sql(name)} IS NOT NULL" for name in names))
    copies = copies.select("*", key_hash(names, types, request.params.seed).alias(worker))
    copies = copies.withColumn(worker, F.expr(f"explode({its_workers})"))
    rows = routed(request)
    if once:
        rows = rows.select("*", F.lit(True).alias(there))

    both = {hot: _placed(rows, request), other: _placed(copies, request)}
    # Spark pushes a semi or anti join below the placing. Keys being distinct, these are the same.
    as_ = {"semi": "inner", "anti": "left"}.get(kind, kind)
    joined = both["left"].join(both["right"], [*on, worker], as_)
    if once:
        joined = joined.filter(F.col(quoted(there)).isNotNull() | F.col(quoted(found)).isNull())
    if kind == "anti":
        joined = joined.filter(F.col(quoted(found)).isNull())
    return joined.drop(worker, *own)


def _split_keys(request: Request, names: Sequence[str]) -> DataFrame:
    # At most a few for each worker: only a key that the plan places by itself may have several workers.
    plan = request.plan
    assert plan is not None
    keys = (F.col(key).alias(name) for key, name in zip(request.keys, names, strict=True))
    rows = request.df.select(*keys, plan_hash(request).alias(request.worker_column))
    return rows.filter(is_split(plan, in_sql(request.worker_column))).drop(request.worker_column).distinct()


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


def _key_types(names: Sequence[str], columns: dict[str, Columns]) -> dict[str, list[DataType]]:
    """Return the types of the key columns on both sides, if they fit."""
    types = {side: [each.type_of("on", name) for name in names] for side, each in columns.items()}
    for mine, theirs in zip(types["left"], types["right"], strict=True):
        if key_kinds([mine]) != key_kinds([theirs]):
            raise TypeError(
                f"on must have the same type on both sides, got {mine.simpleString()} and "
                f"{theirs.simpleString()}: cast one of them"
            )
    return types
