"""`streaming.route`: a worker for each row of a stream."""

import os
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame

from keysplit.spark.checks import by_name, check_state
from keysplit.spark.operations.building import built
from keysplit.spark.operations.route import routed
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
def route(
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
    """Add a column that says which worker each row of a stream goes to.

    With a plan alone the worker of a row is the same for ever. With `adapt` the plan changes while the stream
    runs: after each micro-batch the driver learns from what the batch has counted, and publishes a new plan
    when it pays; `Adapt` states the rule. All rows of a micro-batch go by one plan, in all attempts at its
    tasks; the first attempt at a micro-batch writes down which one, and a restart finds that. No Python
    runs on the executors; docs/measured.md has what adapting costs.

    Mode "online" is exact where a micro-batch that is attempted again has the same rows in the same order:
    files, Kafka, rate and memory streams with nothing but projections and filters upstream. All else is
    refused. Each attempt at a micro-batch begins with the state after the one before. A stream from Kafka
    must still have the columns `topic` and `partition` of its source, no other source, and no operator or
    option that is not known to leave a partition to one task: a router belongs to a partition of the topic.

    Args:
        df: a streaming DataFrame. With `adapt` one of a classic session; or a batch, to try a plan out.
        key: a column, or a list of columns; keys are equal where `groupBy` says so, and null is a key. A
            name such as "a.b" is the field b of column a; where there is none, the column of this very name.
        plan: a plan that `plan` has made of a batch of such rows, or the path or URL of one. With `adapt`
            the first one; if left out, the stream begins with all rows of a key on one worker.
        adapt: "auto" for `Adapt()`, or an `Adapt`, which says how the plan changes; None to keep it.
        mode: "planned", or "online": each partition of a micro-batch is one source of the papers, whose
            router routes its rows in their order and goes on from micro-batch to micro-batch. All groupings
            may be named, and none of `plan`, `adapt`, `row_id` and `capacities`.
        state: in mode "online" the folder, or its URL, where routers leave their state after each
            micro-batch: next to the checkpoint, reachable by all executors. Queries may share one; a new
            checkpoint is a new query, and begins with empty routers.
        workers: the number of workers, 1..=65536. Leave it out with a plan or a grouping object.
        grouping: as `plan`. Leave it out with a plan.
        worker_column: the name of the new column.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. If left out, the
            columns of `df` that provably have the same values when a task is retried.
        weight: the load of a row, with `adapt`: a numeric column, an expression, or "bytes" (see
            `row_bytes`); 1 per row if left out. With a plan that was made by a weight give the same one.
            In mode "online" a weight that is null, NaN or below 0 stops the query.
        seed: the seed of the hashes, 0 if left out. Leave it out with a plan or a grouping object.
        capacities: the relative speed of each worker, above 0; equal if left out. Leave it out with a plan.
        engine: "columns", the default, routes by plain Column expressions, "rust" in Rust over Arrow. `adapt`
            needs "columns".
        trust: columns of `df` and functions (UDFs or their names) that give the same values when a task is
            retried, on your word; docs/exactness.md says what depends on it.
        observed: True to have the rows of each worker counted in each micro-batch, for
            `streaming.observe`, where a plan stays or routers are online: Spark then generates no code for
            this step. A plan that adapts counts them anyway.

    Returns:
        The rows of `df` with one more column, INT, from 0 to workers - 1.

    Raises:
        TypeError: if an argument has a wrong type.
        ValueError: if an argument has a wrong value; if there is neither a plan nor `adapt`; if rows that
            would be split have no steady identity; in mode "online", if rows may come in another order.
        FileNotFoundError: if there is no plan at the path, as none is made of a stream.

    Source:
        As `Adapt`.

    Deviations:
        As `Adapt`.

    Example:
        >>> routed = kss.streaming.route(events, "word", workers=8, adapt="auto")  # doctest: +SKIP
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
    return built(check(df, key, options), routed)
