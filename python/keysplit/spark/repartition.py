"""`repartition`: rows in the partition that has their worker's number."""

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
    """Route the rows and move each into the partition that has its worker's number.

    Every row has `spark_partition_id() == worker`, with adaptive execution on or off. What groups or windows
    by (worker, key) after it needs no further shuffle from Spark 4.1 on. A later `repartition`, `coalesce`
    or `union` moves the rows again.

    Args:
        df: as `route`.
        key: as `route`.
        plan: as `route`.
        workers: as `route`; there are as many partitions.
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
    """Route and place the rows of a request that has a plan; `keep` says if they have their worker then."""
    return placed(routed(request), request.worker_column, request.workers, keep)
