"""`repartition`: rows in the partition that has their worker's number."""

from collections.abc import Sequence
from typing import Unpack

from pyspark.sql import DataFrame

from keysplit.spark.engine.placement import placed
from keysplit.spark.operations.route import routed
from keysplit.spark.options import Options, check


def repartition(df: DataFrame, key: str | Sequence[str], **options: Unpack[Options]) -> DataFrame:
    """Route the rows and move each into the partition that has its worker's number.

    Every row has `spark_partition_id() == worker`, with adaptive execution on or off. What groups or windows
    by (worker, key) after it needs no further shuffle from Spark 4.1 on. A later `repartition`, `coalesce`
    or `union` moves the rows again.

    Args:
        df: as `route`.
        key: as `route`.
        options: all other arguments of `route`; `workers` is also the number of partitions.

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
    request = check(df, key, {"worker_column": "worker", **options})
    return placed(routed(request), request.worker_column, request.workers)
