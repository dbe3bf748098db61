"""`streaming.repartition`: move each row of a stream to the partition with its worker's number."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from keysplit.plan import Plan
from keysplit.spark.checks import by_name
from keysplit.spark.streaming.adapt import Adapt
from keysplit.spark.streaming.placing import built, check, routed_and_placed


@by_name
def repartition(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    plan: Plan | Adapt,
    worker_column: str = "worker",
) -> DataFrame:
    """Route the rows of a stream and move each row to the partition with its worker's number.

    Every row of a micro-batch has `spark_partition_id() == worker`. With an `Adapt` the plan changes while
    the stream runs; the number of partitions stays the same.

    Args:
        df: as in `streaming.route`.
        key: as in `streaming.route`.
        plan: as in `streaming.route`.
        worker_column: the name of the new column.

    Returns:
        The rows of `df` with the worker column, in one partition per worker.

    Raises:
        TypeError: as in `streaming.route`.
        ValueError: as in `streaming.route`.

    Source:
        As in `Adapt`.

    Deviations:
        As in `Adapt`.

    Example:
        >>> placed = kss.streaming.repartition(events, "word", plan=kss.streaming.Adapt(8))  # doctest: +SKIP
    """
    return built(check(df, key, plan, worker_column=worker_column), routed_and_placed)
