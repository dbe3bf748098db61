"""`repartition`: move rows to the partition with their worker's number."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from keysplit.plan import Plan
from keysplit.spark.checks import by_name
from keysplit.spark.place import placed
from keysplit.spark.request import Request, check
from keysplit.spark.route import routed
from keysplit.spark.strategy import built


@by_name
def repartition(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    plan: Plan | None = None,
    workers: int | None = None,
    worker_column: str = "worker",
) -> DataFrame:
    """Route the rows and move each into the partition with its worker's number.

    Every row has `spark_partition_id() == worker`, with adaptive execution on or off. From Spark 4.1 on, a
    following group or window by (worker, key) needs no further shuffle. A later `repartition`, `coalesce` or
    `union` moves the rows again.

    Args:
        df: as `route`.
        key: as `route`.
        plan: as `route`.
        workers: as `route`; also the number of partitions.
        worker_column: the name of the new column.

    Returns:
        The rows of `df` with the worker column, in `workers` partitions.

    Raises:
        TypeError: as `route`.
        ValueError: as `route`.

    Source:
        As `route`.

    Deviations:
        As `kss.plan`.

    Example:
        >>> placed = kss.repartition(df, "word", workers=8)  # doctest: +SKIP
        >>> counts = placed.groupBy("worker", "word").count()  # doctest: +SKIP
    """
    return built(check(df, key, plan, workers, worker_column=worker_column), routed_and_placed, tried=True)


def routed_and_placed(request: Request, keep: bool = True) -> DataFrame:
    """Route and place the rows of a request with a plan; `keep` says whether to keep the worker column."""
    return placed(routed(request), request.worker_column, request.workers, keep)
