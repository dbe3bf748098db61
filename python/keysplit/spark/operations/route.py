"""`route`: a worker for each row."""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame

from keysplit.plan import Plan
from keysplit.spark import first_run
from keysplit.spark.adapt import routing
from keysplit.spark.checks import by_name
from keysplit.spark.counting import in_reports
from keysplit.spark.engine import columns, native, online
from keysplit.spark.hashes import plan_hash, plan_hash_in_sql, row_hash_in_sql
from keysplit.spark.operations.building import built
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


@by_name
def route(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    workers: int | None = None,
    grouping: GroupingOrName = "d_choices",
    plan: PlanOrPath | None = None,
    refresh: Refresh = "auto",
    sample: Sample = "auto",
    mode: Mode = "planned",
    worker_column: str = "worker",
    row_id: str | Sequence[str] | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    engine: Engine | None = None,
    trust: Trusted = (),
    allow_inexact: bool = False,
) -> DataFrame:
    """Add a column that says which worker each row goes to.

    In mode "planned" the worker is a function of the row's key, its identity and the plan. It is exact when
    tasks are retried, downstream of shuffles too, on every version of Spark. In mode "online" each task is a
    source: it routes its rows in their order with a router of its own, as in the papers. That is exact only
    if a retried task sees the same rows in the same order; if that is not known, it is refused.

    Args:
        df: a DataFrame of a classic session or of Spark Connect. Online mode takes batches of classic
            sessions only; for a streaming DataFrame `plan` must be given.
        key: a column, or a list of columns; keys are equal where `groupBy` says so, and null is a key. A
            name such as "a.b" is the field b of column a; where there is none, the column of this very name.
        workers: the number of workers, 1..=65536. Leave it out with a plan or a grouping object.
        grouping: a name, or a grouping such as `DChoices(workers=50)`. In mode "planned" key, partial_key,
            d_choices, w_choices, round_robin, flexd, distribution_aware or cut_to_fit; in mode "online" any
            in `keysplit.GROUPINGS`.
        plan: a plan made before by `plan`, or the path or URL of one: read if it is there, made and saved if
            not. Without one, it is made at the call, of a sample of the rows.
        refresh: what to do with a plan that is kept at a path: "auto" makes it anew once the loads of the
            workers no longer fit it, "never" keeps it, "always" makes it anew now.
        sample: the part of the rows that a plan is made from, above 0, up to 1; "auto" takes as many as it
            needs. A sample moves load, never a result.
        mode: "planned" or "online".
        worker_column: the name of the new column.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. If left out, all
            columns that are known to have the same values when a task is retried, 32 at most; downstream of a
            shuffle floats and arrays count only if there is nothing else. Rows that are equal in them go to
            one worker.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            left out.
        seed: the seed of the hashes, 0 if left out. Leave it out with a plan or a grouping object.
        capacities: the relative speed of each worker, above 0; equal if left out. For mode "planned".
        engine: "rust" routes in Rust over Arrow, "columns" by plain Column expressions without Python on the
            executors; both give a row the same worker. If left out, "rust" counts the keys for a plan and
            "columns" routes. For mode "planned".
        trust: names of columns of `df`, and functions of yours in its query or their names, that you know to
            give the same values for the same rows when a task is retried; docs/exactness.md says what that
            means. keysplit trusts Spark's own functions only.
        allow_inexact: True to route online although a retried task may have other rows or another order: it
            may then lose or duplicate rows without an error.

    Returns:
        The rows of `df` with one more column, INT, from 0 to workers - 1.

    Raises:
        TypeError: if an argument has a wrong type, or the key holds maps.
        ValueError: if an argument has a wrong value; if rows that would be split have no steady identity; in
            mode "online", if a retried task may have other rows, keys or weights, or another order.

    Source:
        Planned: docs/plans.md. Online: "The Power of Both Choices" (Nasir et al., ICDE 2015), section III-B:
        each source balances on its own what it sends itself.

    Deviations:
        Planned: as `plan`. Online: a source is a partition of one job, and forgets its loads when it ends.

    Example:
        >>> routed = kss.route(df, "word", workers=8)  # doctest: +SKIP
    """
    options = Options(
        workers=workers,
        grouping=grouping,
        plan=plan,
        refresh=refresh,
        sample=sample,
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
    return built(check(df, key, options), partial(routed, may_stop=True), tried=True)


def routed(request: Request, may_stop: bool = False) -> DataFrame:
    """Add the worker column to the DataFrame of a request that has a plan, or needs none.

    Args:
        request: the request.
        may_stop: whether an action on the result may stop before the last row.
    """
    if request.adapt is not None:
        return routing.routed(request)[0]
    if request.mode == "online":
        rows = online.with_worker(request)
    else:
        engine = native if request.engine == "rust" else columns
        rows = engine.with_worker(request.df, *by_plan(request), request.worker_column)
    if request.observed:
        return in_reports.counted(rows, request)
    if request.mode == "online":
        return rows
    if request.kept is not None and not request.df.isStreaming:
        return request.kept.observed(rows, request.worker_column, request.weight is not None, may_stop)
    # It would keep filters downstream from the scan, and rows that are not moved may be few of all.
    return rows if may_stop else first_run.observed(request, rows)


def by_plan(request: Request) -> tuple[Plan, str | Column, str | None]:
    """Return the plan of a request, and the hashes by which its engines find a row's worker."""
    plan = request.plan
    assert plan is not None
    row = row_hash_in_sql(request) if plan.splits else None
    return plan, plan_hash_in_sql(request) or plan_hash(request), row
