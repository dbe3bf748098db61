"""`route`: a worker for each row."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame

from keysplit.spark.engine import columns, native, online
from keysplit.spark.hashes import plan_hash, row_hash
from keysplit.spark.options import Request, check
from keysplit.spark.planner import make
from keysplit.spark.plans import Plan


def route(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    workers: int | None = None,
    grouping: Any = "d_choices",
    plan: Plan | None = None,
    mode: str = "planned",
    worker_column: str = "worker",
    row_id: str | Sequence[str] | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    engine: str | None = None,
    allow_inexact: bool = False,
    trust: Sequence[Any] = (),
) -> DataFrame:
    """Add a column that says which worker each row goes to.

    In mode "planned" the worker is a function of the row's key, its identity and the plan. It is exact when
    tasks run again, above shuffles too, on every version of Spark. In mode "online" each task is a source: it
    routes its rows in their order with a router of its own, as in the papers. That is exact only where the
    rows come again in the same order; where a shuffle below prevents it, it is refused.

    Args:
        df: a DataFrame of a classic session or of Spark Connect. Online mode takes batches of classic
            sessions only; for a streaming DataFrame `plan` must be given.
        key: a column, or a list of columns; keys are equal where `groupBy` says so, and null is a key.
        workers: how many workers there are, 1..=65536. With a plan or a grouping object, leave it out.
        grouping: a name, or a grouping such as `DChoices(workers=50)`. In mode "planned" key, partial_key,
            d_choices, w_choices, round_robin, flexd, distribution_aware or cut_to_fit; in mode "online" any
            in `keysplit.GROUPINGS`.
        plan: a plan made before; without one, `df` is passed over once to make one, at the call.
        mode: "planned" or "online".
        worker_column: the name of the new column.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. Left out, it is all
            columns that are known to have the same values when a task is retried, 32 at most; downstream of
            a shuffle floats and arrays count only if there is nothing else. Rows that are equal in them go
            to one worker.
        weight: the load of a row: the name of a numeric column, an expression, or "bytes" (see `row_bytes`);
            1 a row if left out.
        seed: the seed of the hashes, 0 if left out. With a plan or a grouping object, leave it out.
        capacities: for mode "planned", the relative speed of each worker, above 0; equal if left out.
        engine: for mode "planned": "rust" runs the Rust core over Arrow, "columns" runs plain Column
            expressions, with no Python and nothing of keysplit on the executors. Rows get the same worker
            from both. Left out, keys are counted by "rust" and rows routed by "columns".
        allow_inexact: True to route online above a shuffle all the same: rows may be lost or doubled, without
            an error, when Spark runs a task again.
        trust: names of columns of `df`, and functions of yours in its query or their names, that you know to
            give the same values for the same rows when a task is retried; docs/exactness.md says what that
            means. keysplit trusts Spark's own functions only.

    Returns:
        The rows of `df` with one more column, INT, from 0 to workers - 1.

    Raises:
        TypeError: if an argument has a wrong type, or the key holds maps.
        ValueError: if an argument has a wrong value; if rows that would be split have no steady identity; in
            mode "online", if there is a shuffle below.

    Source:
        Planned: docs/plans.md. Online: "The Power of Both Choices" (Nasir et al., ICDE 2015), section III-B:
        each source balances on its own what it sends itself.

    Deviations:
        Planned: as `plan`. Online: a source is a partition of one job, and forgets its loads when it ends.

    Example:
        >>> routed = kss.route(df, "word", workers=8)  # doctest: +SKIP
    """
    options = dict(locals())
    request = check(options.pop("df"), options.pop("key"), options)
    return routed(request)


def routed(request: Request) -> DataFrame:
    """Add the worker column to the DataFrame of a checked request; `route` says what is guaranteed."""
    if request.mode == "online":
        return online.with_worker(request)
    request = planned(request)
    plan = request.plan
    assert plan is not None
    engine = native if request.engine == "rust" else columns
    row = row_hash(request) if plan.splits else None
    return engine.with_worker(request.df, plan, plan_hash(request), row, request.worker_column)


def planned(request: Request) -> Request:
    """Return the request with a plan, made in one pass over its rows if it has none."""
    if request.plan is not None:
        return request
    return replace(request, plan=make(request))
