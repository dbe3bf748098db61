"""`streaming.write`: the rows of a stream written to partitions, hot ones by several tasks."""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql.streaming import DataStreamWriter

from keysplit.spark.checks import by_name, key_names, refuse_batch
from keysplit.spark.names import quoted
from keysplit.spark.operations.building import built
from keysplit.spark.operations.repartition import routed_and_placed
from keysplit.spark.operations.write import refuse_as_folders
from keysplit.spark.options import AdaptOrAuto, Engine, GroupingOrName, Options, PlanOrPath, Trusted, check
from keysplit.spark.ways import took, way_of


@by_name
def write(
    df: DataFrame,
    partition_by: str | Sequence[str],
    *,
    plan: PlanOrPath | None = None,
    adapt: AdaptOrAuto | None = None,
    workers: int | None = None,
    grouping: GroupingOrName = "cut_to_fit",
    worker_column: str | None = None,
    row_id: str | Sequence[str] | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    engine: Engine | None = None,
    trust: Trusted = (),
    observed: bool = False,
) -> DataStreamWriter:
    """Place the rows of a stream by a plan on the partition columns, and return the writer of them.

    In each micro-batch a hot partition is written by several tasks at once, a rare one by exactly one. With
    "cut_to_fit" a micro-batch writes at most one file per partition and workers - 1 more. Whether
    each row is written exactly once depends on the sink, not on the placing; docs/streaming.md lists sinks.

    Args:
        df: a streaming DataFrame.
        partition_by: the partition columns, a name or a list of names, taken literally as in `partitionBy`.
        plan: as `streaming.route`.
        adapt: as `streaming.route`.
        workers: the number of tasks that write, 1..=65536. Leave it out with a plan or a grouping object.
        grouping: as `plan`; the others split a hot partition more often than "cut_to_fit".
        worker_column: its name in plans and in the Spark UI; a free one if left out. It is not written.
        row_id: as `streaming.route`.
        weight: as `streaming.route`; "bytes" suits a write best.
        seed: as `streaming.route`.
        capacities: as `streaming.route`.
        engine: as `streaming.route`.
        trust: as `streaming.route`.
        observed: as `streaming.route`.

    Returns:
        The writer of the placed rows, `partitionBy` being set: go on with `.option("checkpointLocation",
        ...)`, `.format(...)`, `.start(path)`.

    Raises:
        TypeError: as `streaming.route`.
        ValueError: as `streaming.route`, or if `df` is a batch.

    Source:
        As `CutToFit`.

    Deviations:
        As `plan`.

    Example:
        >>> writer = kss.streaming.write(events, "country", workers=8, adapt="auto")  # doctest: +SKIP
        >>> query = writer.option("checkpointLocation", where).start(path)  # doctest: +SKIP
    """
    refuse_batch(df, ": kss.write takes batches")
    names = key_names(partition_by, "partition_by")
    options = Options(
        plan=plan,
        adapt=adapt,
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
    keys = list(map(quoted, names))
    request = check(df, keys, options, "cut_to_fit", partial(refuse_as_folders, names))
    rows = built(request, partial(routed_and_placed, keep=False))
    return took(rows.writeStream.partitionBy(*names), way_of(rows))
