"""`write`: write to partitions, with several tasks for hot partitions."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, DataFrameWriter
from pyspark.sql.types import ArrayType, MapType, NullType, StructType

from keysplit.plan import Plan
from keysplit.spark.checks import by_name, check_whole, key_names, refuse_other_frames, refuse_stream
from keysplit.spark.few_rows import fitted
from keysplit.spark.frame import Columns
from keysplit.spark.names import quoted
from keysplit.spark.ordered.files import in_ranges, sorted_
from keysplit.spark.ordered.order import order_of
from keysplit.spark.plan import OrderBy
from keysplit.spark.repartition import routed_and_placed
from keysplit.spark.request import Request, check, check_way
from keysplit.spark.strategy import Build, Way, built, took, way_of


@by_name
def write(
    df: DataFrame,
    partition_by: str | Sequence[str],
    *,
    plan: Plan | None = None,
    workers: int | None = None,
    rows_per_file: int | None = None,
    sort_by: OrderBy | None = None,
    way: str | None = None,
) -> DataFrameWriter:
    """Place the rows by a plan for the partition columns, and return a writer for the rows.

    Several tasks at once write a hot partition, and exactly one task writes a rare partition. With
    "cut_to_fit", the default here, all tasks together write at most one file per partition plus tasks - 1,
    because a task writes a partition into one file (unless `maxRecordsPerFile` splits the file). There are as
    many tasks as workers, or fewer if there are few rows, see `rows_per_file`; `explain` tells how many. A
    plain `df.write.partitionBy(...)` writes up to tasks times partitions files. After `df.repartition(n,
    *partition_by)` it writes one file per partition, but a single task writes a whole hot partition while the
    other tasks wait.

    Null and the empty string are two keys but one directory in Spark, which may get a file for each key.

    Args:
        df: a batch DataFrame, classic or of Spark Connect.
        partition_by: the partition columns, a name or a list of names, taken literally as in `partitionBy`.
        plan: a plan that `kss.plan` made or loaded. `grouping="cut_to_fit"` and `weight="bytes"` are best for
            a write; other groupings split a hot partition more often.
        workers: instead of a plan, the maximum number of writing tasks, 1..=65536: a plan with "cut_to_fit"
            is made from a sample of the rows.
        rows_per_file: the smallest number of rows that makes a task worth its file. If there are fewer rows
            per worker, a plan for fewer tasks, made from the same counts, places the rows. That plan also
            balances files: each file counts as 10,000 rows. The number of tasks follows from the rows,
            rounded to full waves of concurrent tasks, so there is at least one wave. If omitted, the number
            is 100,000 in local mode; elsewhere the number of task slots is unknown, and all workers write. If
            the plan has capacities, all workers always write.
        sort_by: the order of the rows in each file: a column name, a column such as `F.desc("ts")`, or a list
            of these. The files of a hot partition then hold ranges of this order that do not overlap, so
            readers skip files and rows by their statistics. The ranges come from the plan if it has cuts of
            this order (`order_by` of `kss.plan`), or else from a sample of the hot partitions. Rows of one
            value stay in one file, so a hot partition with few values is written to few files. With
            `way="plain"` each file is sorted, and ranges overlap.
        way: "plain" for Spark's own write, "place" to write with all workers even if there are few rows; if
            omitted, keysplit chooses.

    Returns:
        The writer of the placed rows, with `partitionBy` set: continue with `.mode(...)`, `.parquet(path)`.

    Raises:
        TypeError: as in `route`.
        ValueError: as in `route`, or if `df` is streaming.

    Source:
        As in `CutToFit`.

    Deviations:
        As in `kss.plan`.

    Example:
        >>> writer = kss.write(df, "country", workers=8)  # doctest: +SKIP
        >>> writer.mode("overwrite").parquet(path)  # doctest: +SKIP
    """
    refuse_other_frames(df)
    refuse_stream(df, remedy=": kss.streaming.write takes streams")
    check_way(way, ("plain", "place"))
    if rows_per_file is not None:
        check_whole("rows_per_file", rows_per_file, 1)
    names = key_names(partition_by, "partition_by")
    request = check(
        df,
        list(map(quoted, names)),
        plan,
        workers,
        way=way,
        grouping="cut_to_fit",
        refuse=partial(refuse_as_folders, names),
    )
    if sort_by is not None:
        request = replace(request, order=order_of(request.columns, "sort_by", sort_by))
        _refuse_order(request, names)
    if way == "plain":
        rows = df if request.order is None else sorted_(df, request, names)
        return took(rows.write.partitionBy(*names), Way("plain", "as way='plain' requires"))
    build: Build = partial(routed_and_placed, keep=False)
    build = build if request.order is None else partial(in_ranges, names=names)
    rows = built(request, build, tried=True, fit=partial(fitted, rows_per_file=rows_per_file))
    return took(rows.write.partitionBy(*names), way_of(rows))


def _refuse_order(request: Request, names: Sequence[str]) -> None:
    """Raise ValueError if an order cannot divide the rows of a partition."""
    folders, order = set(map(request.columns.fold, names)), [each.name for each in request.order or ()]
    if folders & set(map(request.columns.fold, order)):
        raise ValueError(f"sort_by must name no columns of partition_by, which is {names}, got {order}")
    if request.way != "plain":
        request.query.refuse_other_order(list(map(quoted, order)))


def refuse_as_folders(names: Sequence[str], columns: Columns) -> None:
    """Raise an error if these columns cannot partition a write."""
    keys = list(map(quoted, names))
    for key, field in zip(keys, columns.fields_of("partition_by", keys), strict=True):
        type_ = field.dataType
        if isinstance(type_, NullType):
            raise TypeError(f"partition_by must name columns with a type, got {key!r}, which is void")
        if isinstance(type_, ArrayType | MapType | StructType):
            raise TypeError(
                f"partition_by must name columns without arrays, maps and structs, got {key!r} of type "
                f"{type_.simpleString()}"
            )
    if len(names) == len(columns.names):
        raise ValueError(f"partition_by must leave a column for the files, got all columns: {names}")
