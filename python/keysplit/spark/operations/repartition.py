"""`repartition`: rows in the partition that has their worker's number."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame

from keysplit.spark.checks import by_name
from keysplit.spark.engine import columns
from keysplit.spark.engine.placement import placed
from keysplit.spark.operations.building import built
from keysplit.spark.operations.route import by_plan, routed
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
def repartition(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    workers: int | None = None,
    grouping: GroupingOrName = "d_choices",
    plan: PlanOrPath | None = None,
    refresh: Refresh = "auto",
    sample: Sample = "auto",
    force: bool = False,
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
    """Route the rows and move each into the partition that has its worker's number.

    Every row has `spark_partition_id() == worker`, with adaptive execution on or off. What groups or windows
    by (worker, key) after it needs no further shuffle from Spark 4.1 on. A later `repartition`, `coalesce`
    or `union` moves the rows again.

    Args:
        df: a DataFrame, classic or of Spark Connect; `plan` must be given for a streaming one.
        key: a column name, or a list of them; null is a key.
        workers: the number of workers and of partitions, 1..=65536. Leave it out with a plan or a grouping
            object.
        grouping: a name such as "d_choices", or a grouping such as `DChoices(workers=50)`; `route` lists the
            names.
        plan: a plan made before by `plan`, or the path or URL of one: read if it is there, made and saved if
            not. Without one, it is made at the call, of a sample of the rows. The first run by a plan that
            was made for other data warns.
        refresh: what to do with a plan that is kept at a path: "auto" makes it anew once the loads of the
            workers no longer fit it, "never" keeps it, "always" makes it anew now.
        sample: the part of the rows that a plan is made from, above 0, up to 1; "auto" takes as many as it
            needs. A sample moves load, never a result.
        force: of no effect: the rows always go where the plan says. All operations that place rows take it.
        mode: "planned" or "online"; `route` explains them.
        worker_column: the name of the new column.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. If left out, the
            columns of `df` that provably have the same values when a task is retried.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            left out.
        seed: the seed of the hashes, 0 if left out. Leave it out with a plan or a grouping object.
        capacities: the relative speed of each worker, above 0; equal if left out. For mode "planned".
        engine: "rust" routes in Rust over Arrow, "columns" by plain Column expressions without Python on the
            executors; both give a row the same worker. If left out, "rust" counts the keys for a plan and
            "columns" routes. For mode "planned".
        trust: columns of `df` and functions (UDFs or their names) that give the same values when a task is
            retried, on your word; docs/exactness.md says what depends on it.
        allow_inexact: True to route online although a retried task may have other rows or another order: it
            may then lose or duplicate rows without an error.

    Returns:
        The rows of `df` with the worker column, in `workers` partitions.

    Raises:
        TypeError: as `route`.
        ValueError: as `route`.

    Source:
        As `route`.

    Deviations:
        As `route`.

    Example:
        >>> placed = kss.repartition(df, "word", workers=8)  # doctest: +SKIP
        >>> counts = placed.groupBy("worker", "word").count()  # doctest: +SKIP
    """
    options = Options(
        workers=workers,
        grouping=grouping,
        plan=plan,
        refresh=refresh,
        sample=sample,
        force=force,
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
    return built(check(df, key, options), routed_and_placed, tried=True)


def routed_and_placed(request: Request, keep: bool = True) -> DataFrame:
    """Route the rows of a request that has a plan, or needs none, and place them.

    Args:
        request: the request.
        keep: whether the rows have their worker afterwards.
    """
    by_columns = request.mode == "planned" and request.adapt is None and request.engine != "rust"
    if by_columns and not (request.is_counted or request.observed):
        return columns.placed_with_worker(request.df, *by_plan(request), request.worker_column, keep)
    return placed(routed(request), request.worker_column, request.workers, keep)
