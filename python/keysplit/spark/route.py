"""`route`: add the worker of each row."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame

from keysplit.plan import Plan
from keysplit.spark.checks import by_name
from keysplit.spark.expr import columns
from keysplit.spark.expr.hashes import plan_hash, plan_hash_in_sql, row_hash_in_sql
from keysplit.spark.request import Request, check
from keysplit.spark.strategy import built


@by_name
def route(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    plan: Plan | None = None,
    workers: int | None = None,
    worker_column: str = "worker",
) -> DataFrame:
    """Add a column with the worker of each row.

    The worker is a function of the row's key, its identity and the plan. So the result is exact even when
    tasks are retried, even downstream of shuffles, on every version of Spark. No Python runs on the
    executors.

    Args:
        df: a DataFrame of a classic session or of Spark Connect; a streaming DataFrame needs a plan.
        key: a column name, or a list of names, as in `kss.plan`; null is a key.
        plan: a plan that `kss.plan` made or loaded, with its grouping, its weight and its `row_id`.
        workers: instead of a plan, the number of workers, 1..=65536: the operation then makes a plan from a
            sample of the rows, with the defaults of `kss.plan`. A worker is a task's partition.
        worker_column: the name of the new column.

    Returns:
        The rows of `df` with one more column, INT, from 0 to workers - 1.

    Raises:
        TypeError: if an argument has a wrong type, or the key holds maps.
        ValueError: if an argument has a wrong value; if rows that would be split have no deterministic
            columns.

    Source:
        docs/plans.md.

    Deviations:
        As in `kss.plan`.

    Example:
        >>> routed = kss.route(df, "word", workers=8)  # doctest: +SKIP
    """
    return built(check(df, key, plan, workers, worker_column=worker_column), routed, tried=True)


def routed(request: Request) -> DataFrame:
    """Add the worker column to the DataFrame of a request that has a plan."""
    return columns.with_worker(request.df, *by_plan(request), request.worker_column)


def by_plan(request: Request) -> tuple[Plan, str | Column, str | None]:
    """Return the plan of a request, and the hashes that determine a row's worker."""
    plan = request.plan
    assert plan is not None
    row = row_hash_in_sql(request) if plan.splits else None
    return plan, plan_hash_in_sql(request) or plan_hash(request), row
