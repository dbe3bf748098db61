"""`streaming.write`: write a stream to partitions, with several tasks for hot partitions."""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from keysplit.plan import Plan
from keysplit.spark.checks import by_name, key_names, refuse_batch
from keysplit.spark.names import quoted
from keysplit.spark.strategy import took, way_of
from keysplit.spark.streaming.adapt import Adapt
from keysplit.spark.streaming.placing import built, check, routed_and_placed
from keysplit.spark.write import refuse_as_folders


@by_name
def write(
    df: DataFrame,
    partition_by: str | Sequence[str],
    *,
    plan: Plan | Adapt,
) -> DataStreamWriter:
    """Place the rows of a stream by a plan for the partition columns, and return a writer for the rows.

    In each micro-batch several tasks at once write a hot partition, and exactly one task writes a rare
    partition. With "cut_to_fit" a micro-batch writes at most one file per partition plus workers - 1. Whether
    each row is written exactly once depends on the sink, not on the placing; docs/streaming.md lists sinks.

    Args:
        df: a streaming DataFrame.
        partition_by: the partition columns, a name or a list of names, taken literally as in `partitionBy`.
        plan: as in `streaming.route`. "cut_to_fit" is best for a write, for instance `Adapt(8,
            grouping="cut_to_fit", weight="bytes")`; other groupings split a hot partition more often.

    Returns:
        The writer of the placed rows, with `partitionBy` set: continue with `.option("checkpointLocation",
        ...)`, `.format(...)`, `.start(path)`.

    Raises:
        TypeError: as in `streaming.route`.
        ValueError: as in `streaming.route`, or if `df` is a batch.

    Source:
        As in `CutToFit`.

    Deviations:
        As in `plan`.

    Example:
        >>> plan = kss.streaming.Adapt(8, grouping="cut_to_fit")  # doctest: +SKIP
        >>> writer = kss.streaming.write(events, "country", plan=plan)  # doctest: +SKIP
        >>> query = writer.option("checkpointLocation", where).start(path)  # doctest: +SKIP
    """
    refuse_batch(df, ": kss.write takes batches")
    names = key_names(partition_by, "partition_by")
    request = check(df, list(map(quoted, names)), plan, refuse=partial(refuse_as_folders, names))
    rows = built(request, partial(routed_and_placed, keep=False))
    return took(rows.writeStream.partitionBy(*names), way_of(rows))
