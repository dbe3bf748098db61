"""`streaming.repartition`: the rows of a stream in the partition of their worker."""

import os
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame

from keysplit.spark.checks import by_name, check_state
from keysplit.spark.operations.building import built
from keysplit.spark.operations.repartition import routed_and_placed
from keysplit.spark.options import (
    AdaptOrAuto,
    Engine,
    GroupingOrName,
    Mode,
    Options,
    PlanOrPath,
    Trusted,
    check,
)


@by_name
def repartition(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    plan: PlanOrPath | None = None,
    adapt: AdaptOrAuto | None = None,
    mode: Mode = "planned",
    state: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    grouping: GroupingOrName = "d_choices",
    worker_column: str = "worker",
    row_id: str | Sequence[str] | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    engine: Engine | None = None,
    trust: Trusted = (),
    observed: bool = False,
) -> DataFrame:
    """Route the rows of a stream and move each into the partition that has its worker's number.

    Every row of a micro-batch has `spark_partition_id() == worker`. With `adapt` the plan changes while the
    stream runs, as `streaming.route` explains; the number of partitions stays.

    Args:
        df: as `streaming.route`.
        key: as `streaming.route`.
        plan: as `streaming.route`.
        adapt: as `streaming.route`.
        mode: as `streaming.route`.
        state: as `streaming.route`.
        workers: the number of workers and of partitions, 1..=65536. Leave it out with a plan or a grouping
            object.
        grouping: as `plan`. Leave it out with a plan.
        worker_column: the name of the new column.
        row_id: as `streaming.route`.
        weight: as `streaming.route`.
        seed: as `streaming.route`.
        capacities: as `streaming.route`.
        engine: as `streaming.route`.
        trust: as `streaming.route`.
        observed: as `streaming.route`.

    Returns:
        The rows of `df` with the worker column, in `workers` partitions.

    Raises:
        TypeError: as `streaming.route`.
        ValueError: as `streaming.route`.

    Source:
        As `Adapt`.

    Deviations:
        As `Adapt`.

    Example:
        >>> placed = kss.streaming.repartition(events, "word", workers=8, adapt="auto")  # doctest: +SKIP
    """
    check_state(mode, state)
    options = Options(
        plan=plan,
        adapt=adapt,
        mode=mode,
        state=state,
        workers=workers,
        grouping=grouping,
        worker_column=worker_column,
        row_id=row_id,
        weight=weight,
        seed=seed,
        capacities=capacities,
        engine=engine,
        trust=trust,
        observed=observed,
    )
    return built(check(df, key, options), routed_and_placed)
