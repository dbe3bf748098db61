"""`repartition`: move each row to the partition with its worker's number."""

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
    """Route the rows and move each row to the partition with its worker's number.

    Every row has `spark_partition_id() == worker`, with adaptive execution on or off. Since Spark 4.1,
    grouping or windowing by (worker, key) afterwards needs no further shuffle. A later `repartition`,
    `coalesce` or `union` moves the rows again.

    Args:
        df: as in `route`.
        key: as in `route`.
        plan: as in `route`.
        workers: as in `route`; also the number of partitions.
        worker_column: the name of the new column.

    Returns:
        The rows of `df` with the worker column, in `workers` partitions.

    Raises:
        TypeError: as in `route`.
        ValueError: as in `route`.

    Source:
        As in `route`.

    Deviations:
        As in `kss.plan`.

    Example:
        >>> placed = kss.repartition(df, "word", workers=8)  # doctest: +SKIP
        >>> counts = placed.groupBy("worker", "word").count()  # doctest: +SKIP
    """
    return built(check(df, key, plan, workers, worker_column=worker_column), routed_and_placed, tried=True)


def routed_and_placed(request: Request, keep: bool = True) -> DataFrame:
    """Route and place the rows of a request with a plan; `keep` says whether to keep the worker column."""
    return placed(routed(request), request.worker_column, request.workers, keep)
