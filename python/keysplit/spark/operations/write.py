"""`write`: a partitioned write whose hot partitions are written by several tasks."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter

from keysplit.spark.engine.placement import placed
from keysplit.spark.operations.route import routed
from keysplit.spark.options import check, column_type, is_data_frame, key_names, quoted, refuse_stream


def write(
    df: DataFrame,
    partition_by: str | Sequence[str],
    *,
    workers: int | None = None,
    grouping: Any = "cut_to_fit",
    **options: Any,
) -> DataFrameWriter:
    """Place the rows by a plan on the partition columns, and return the writer that writes them so.

    A hot partition is written by several tasks at once, a rare one by exactly one. With "cut_to_fit" all
    tasks together write at most one file a partition and workers - 1 more, as a task writes a partition into
    one file (unless `maxRecordsPerFile` cuts it). A plain `df.write.partitionBy(...)` writes up to tasks
    times partitions files; behind `df.repartition(n, *partition_by)` it writes one file a partition, but one
    task writes all of a hot one while the others wait.

    Null and the empty string are two keys, of which Spark makes one directory: it may get a file of each.

    Args:
        df: a batch DataFrame, classic or of Spark Connect.
        partition_by: the partition columns, a name or a list of names, taken literally as in `partitionBy`.
        workers: as `route`; also the number of tasks that write.
        grouping: as `route`. The other groupings split a hot partition more often than "cut_to_fit".
        options: all other arguments of `route`. With `weight="bytes"` tasks get equally many bytes instead of
            rows, which suits a write best. The worker column is not written.

    Returns:
        The writer of the placed rows, `partitionBy` being set: go on with `.mode(...)`, `.parquet(path)`.

    Raises:
        TypeError: as `route`.
        ValueError: as `route`, or if `df` is streaming.

    Source:
        As `CutToFit`.

    Deviations:
        As `plan`.

    Example:
        >>> writer = kss.write(df, "country", workers=8, weight="bytes")  # doctest: +SKIP
        >>> writer.mode("overwrite").parquet(path)  # doctest: +SKIP
    """
    if not is_data_frame(df):
        raise TypeError(f"df must be a Spark DataFrame, got {type(df).__name__}")
    refuse_stream(df)
    names = key_names(partition_by, "partition_by")
    keys = [quoted(name) for name in names]
    for key in keys:
        column_type(df, "partition_by", key)
    given = {**options, "workers": workers}
    if options.get("plan") is None or grouping != "cut_to_fit":
        given["grouping"] = grouping
    request = check(df, keys, given)
    rows = placed(routed(request), request.worker_column, request.workers).drop(request.worker_column)
    return rows.write.partitionBy(*names)
