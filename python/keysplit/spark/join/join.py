"""`join`: a join that spreads hot keys over several workers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pyspark.sql import Column, DataFrame

from keysplit.plan import Plan
from keysplit.spark import jvm
from keysplit.spark.checks import by_name, key_names, refuse_other_frames, refuse_stream
from keysplit.spark.costs import joins_by_broadcast
from keysplit.spark.frame import Columns, analysed
from keysplit.spark.identity import Query, of_other_side
from keysplit.spark.join.arguments import (
    How,
    condition_of,
    key_types_of,
    kind_of,
    refuse_condition,
    split_of,
)
from keysplit.spark.join.choice import joined, refuse_way
from keysplit.spark.join.columns import joining_of
from keysplit.spark.join.sides import Sides
from keysplit.spark.names import quoted
from keysplit.spark.request import Request, check, check_way, trusted_by
from keysplit.spark.strategy import Way, built, reason_for_no_plan_of_a_join, took


@by_name
def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    how: How = "inner",
    *,
    condition: Column | str | None = None,
    plan: Plan | None = None,
    workers: int | None = None,
    split: Literal["left", "right"] | None = None,
    way: Literal["plain", "place", "broadcast"] | None = None,
) -> DataFrame:
    """Compute `left.join(right, on, how)` with the rows of hot keys spread over the cluster.

    Rows, columns, their order, types and nulls equal those of the plain join. Columns of both frames can be
    selected from the result in the same way: `left["k"]`, `right["k"]`.

    The side with the hot keys is split, by a plan of its keys. `explain` says which way was taken:

    - "broadcast": rows of hot keys are not shuffled, and the other side's rows of these keys are broadcast.
        Spark joins all other rows, and the result is the union of both. This way is taken if the broadcast
        rows fit `spark.sql.autoBroadcastJoinThreshold`, which one job counts, and if both sides, which are
        read twice, are plain scans with deterministic keys. On Spark Connect a union hides which side a
        column is from, so there this way is taken only on request.
    - "place": the plan says which worker a row goes to. A row of the other side goes to all workers of its
        key: one for a rare key, several for a hot key. Then Spark joins on the key and the worker. From Spark
        4.1 on both sides are placed by worker, and the join itself needs no shuffle. Older versions shuffle
        by key and worker, which spreads hot keys as widely, but two workers may share a task.
    - "plain": Spark's own join, if it broadcasts a side or if splitting does not help. With at most two task
        slots, no plan is made and this way is taken if Spark estimates the side to split at 24 MiB or less.

    Args:
        left: a batch DataFrame, classic or of Spark Connect.
        right: another DataFrame, or the same one.
        on: a column, or a list of columns, that both sides have with the same types; integers may differ in
            width. Names are taken literally, dots and backticks included, as Spark does here.
        how: inner, left, right, full, semi or anti, in any of Spark's spellings.
        condition: a condition on two rows in addition to equal keys: a column such as `left["x"] <
            right["y"]` or `F.col("x") < F.col("y")`, or SQL text. It is part of the join: a left join keeps
            the rows for which it never holds. Full joins take no condition. With a condition, left and right
            joins must split the side in their name.
        split: the side to split, "left" or "right"; if omitted, "right" for a right join and "left" for all
            other joins. Semi and anti joins can split only the left one.
        plan: a plan of the keys of the side that is split, which `kss.plan` made or loaded.
        workers: instead of a plan, the number of workers, 1..=65536. keysplit then makes a plan from a sample
            of the rows, with the defaults of `kss.plan`, if that can pay off.
        way: "plain", "place" or "broadcast", see above; if omitted, keysplit chooses the cheapest.

    Returns:
        The rows that `left.join(right, on, how)` has.

    Raises:
        TypeError: as in `route`; if `on` is a Column expression, or its types differ between the sides; if
            `condition` is neither a column nor a string.
        ValueError: as in `route`; if `how`, `split` or `way` has another value, if a side is streaming; if
            `way` is "broadcast" and rows or keys of a side may differ when it is read twice.

    Source:
        "Practical Skew Handling in Parallel Joins" (DeWitt, Naughton, Schneider, Seshadri, VLDB 1992): the
        subset-replicate technique. "Handling data skew in parallel joins in shared-nothing systems" (Xu,
        Kostamaa, Zhou, Chen, SIGMOD 2008): partial redistribution and partial duplication, the way
        "broadcast".

    Deviations:
        DeWitt et al. split ranges of sorted keys, found by a sample. Here a plan splits keys by shares of
        their rows. Xu et al. do not move the rows of skewed keys on either side; here this holds only for the
        side that is split.

    Example:
        >>> sales = kss.join(orders, customers, "customer", "left", workers=8)  # doctest: +SKIP
    """
    kind = kind_of(how)
    hot = split_of(split, kind)
    where = condition_of(condition)
    if where is not None:
        refuse_condition(kind, hot)
    sides = {"left": left, "right": right}
    for side, df in sides.items():
        refuse_other_frames(df, side)
        refuse_stream(df, side, remedy=": kss.streaming.join takes streams")
    names = [quoted(name) for name in key_names(on, "on")]
    other = "left" if hot == "right" else "right"
    check_way(way, ("plain", "place", "broadcast"))
    of_hot = Query(sides[hot], trusted_by(plan), sides[other], hot)
    fold = of_hot.fold
    columns = {side: Columns(df, fold) for side, df in sides.items()}
    types = key_types_of(names, columns)
    request = check(sides[hot], names, plan, workers, way=way, query=of_hot)
    query = Query(sides[other], of_other_side(request.query), sides[hot], other)
    query.warn_of_keys_by_chance(names)
    plain = on_keys = left.join(right, key_names(on), kind)
    if where is not None:
        asked = joining_of(on_keys, left, right, key_names(on), where)
        plain = asked.result(asked.join(asked.left, asked.right, kind), ())
    if way == "plain":
        return took(analysed(plain), Way("plain", "as way='plain' requires"))
    if way is None:
        # Spark's estimate of a side takes less time than its plan
        unplanned = reason_for_no_plan_of_a_join(jvm.slots(sides[hot]), jvm.size(sides[hot]))
        # Spark broadcasts no side of a full join
        if unplanned is None and kind != "full" and joins_by_broadcast(plain):
            unplanned = "Spark broadcasts one side whole, and shuffles nothing"
        if unplanned is not None:
            return took(plain, Way("plain", unplanned))
    # Errors in the join are raised before a plan runs jobs, also those found in its physical plan.
    analysed(plain)
    joining = joining_of(on_keys, left, right, key_names(on), where)
    # Both sides and the result get these columns, which are dropped by name at the end.
    worker, *own = (
        columns["left"].free(name, columns["right"])
        for name in (
            request.worker_column,
            *(f"{request.worker_column}_{end}" for end in ("there", "found", *range(len(names)))),
        )
    )
    refuse_way(way, request, query)

    def build(request: Request) -> tuple[DataFrame, Way]:
        # The plan is made from the user's DataFrame, the query from the one that Spark analysed.
        df = joining.left if hot == "left" else joining.right
        both = Sides(
            request=replace(request, df=df),
            query=query,
            joining=joining,
            hot=hot,
            kind=kind,
            types=types[other],
            own=own,
        )
        return joined(both, plain, way)

    # Spark has analysed the plain join.
    return built(replace(request, worker_column=worker), build, tried=True)
