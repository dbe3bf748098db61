"""`write`: a partitioned write whose hot partitions are written by several tasks."""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, DataFrameWriter
from pyspark.sql.types import ArrayType, MapType, NullType, StructType

from keysplit.spark.checks import by_name, key_names, refuse_other_frames, refuse_stream
from keysplit.spark.frame import Columns
from keysplit.spark.names import quoted
from keysplit.spark.operations.building import built
from keysplit.spark.operations.few_rows import fitted
from keysplit.spark.operations.repartition import routed_and_placed
from keysplit.spark.options import (
    Engine,
    GroupingOrName,
    Mode,
    Options,
    PlanOrPath,
    Refresh,
    Sample,
    Trusted,
    check,
)
from keysplit.spark.ways import took, way_of


@by_name
def write(
    df: DataFrame,
    partition_by: str | Sequence[str],
    *,
    workers: int | None = None,
    grouping: GroupingOrName = "cut_to_fit",
    plan: PlanOrPath | None = None,
    refresh: Refresh = "auto",
    sample: Sample = "auto",
    rows_per_file: int | None = None,
    force: bool = False,
    mode: Mode = "planned",
    worker_column: str | None = None,
    row_id: str | Sequence[str] | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    engine: Engine | None = None,
    trust: Trusted = (),
    allow_inexact: bool = False,
) -> DataFrameWriter:
    """Place the rows by a plan on the partition columns, and return the writer that writes them so.

    A hot partition is written by several tasks at once, a rare one by exactly one. With "cut_to_fit" all
    tasks together write at most one file per partition and tasks - 1 more, as a task writes a partition
    into one file (unless `maxRecordsPerFile` cuts it). There are as many tasks as workers, or fewer where the
    rows are few, as `rows_per_file` says; `explain` says how many. A plain `df.write.partitionBy(...)` writes
    up to tasks times partitions files; after `df.repartition(n, *partition_by)` it writes one file per
    partition, but one task writes all of a hot one while the others wait.

    Null and the empty string are two keys, of which Spark makes one directory: it may get a file of each.

    Args:
        df: a batch DataFrame, classic or of Spark Connect.
        partition_by: the partition columns, a name or a list of names, taken literally as in `partitionBy`.
        workers: the most tasks that write, 1..=65536. Leave it out with a plan or a grouping object.
        grouping: a name, or a grouping object; `route` lists the names. The others split a hot partition more
            often than "cut_to_fit". With a plan, that of the plan counts.
        plan: a plan made before by `plan`, or the path or URL of one: read if it is there, made and saved if
            not. Without one, it is made at the call, of a sample of the rows. The first run by a plan that
            was made for other data warns.
        refresh: what to do with a plan that is kept at a path: "auto" makes it anew once the loads of the
            workers no longer fit it, "never" keeps it, "always" makes it anew now.
        sample: the part of the rows that a plan is made from, above 0, up to 1; "auto" takes as many as it
            needs. A sample moves load, never a result.
        rows_per_file: the least rows for which a task is worth its file. Where there are not so many for each
            worker, the rows go by a plan for fewer tasks, made of what the plan was made from, which balances
            files beside rows: for as many tasks as the rows fill, in full waves of those that run at once, so
            never fewer than these. How many rows there are the plan says, or the last run by a plan at a
            path. If left out, it is 100,000 in local mode; elsewhere nobody knows how many tasks will run at
            once, and all workers write. With `capacities` they always do.
        force: True to write with all workers, however few the rows are.
        mode: "planned" or "online"; `route` explains them.
        worker_column: its name in plans and in the Spark UI; a free one if left out. It is not written.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. If left out, the
            columns of `df` that provably have the same values when a task is retried.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            left out. With "bytes" tasks get equally many bytes instead of rows, which suits a write best.
        seed: the seed of the hashes, 0 if left out. Leave it out with a plan or a grouping object.
        capacities: the relative speed of each worker, above 0; equal if left out. For mode "planned".
        engine: "rust" routes in Rust over Arrow, "columns" by plain Column expressions without Python on the
            executors; both give a row the same worker. If left out, "rust" counts the keys for a plan and
            "columns" routes. For mode "planned".
        trust: columns of `df` and functions (UDFs or their names) that give the same values when a task is
            retried, on your word; docs/exactness.md says what depends on it.
        allow_inexact: True to route online although a retried task may have other rows or another order: it
            may then lose or duplicate rows without an error.

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
    refuse_other_frames(df)
    refuse_stream(df, remedy=": kss.streaming.write takes streams")
    names = key_names(partition_by, "partition_by")
    options = Options(
        workers=workers,
        grouping=grouping,
        plan=plan,
        refresh=refresh,
        sample=sample,
        rows_per_file=rows_per_file,
        force=force,
        mode=mode,
        worker_column=worker_column,
        row_id=row_id,
        weight=weight,
        seed=seed,
        capacities=capacities,
        engine=engine,
        trust=trust,
        allow_inexact=allow_inexact,
    )
    keys = list(map(quoted, names))
    request = check(df, keys, options, "cut_to_fit", partial(refuse_as_folders, names))
    rows = built(request, partial(routed_and_placed, keep=False), tried=True, fit=fitted)
    return took(rows.write.partitionBy(*names), way_of(rows))


def refuse_as_folders(names: Sequence[str], columns: Columns) -> None:
    """Raise an error if the columns of these names cannot be those of a partitioned write."""
    keys = list(map(quoted, names))
    for key, field in zip(keys, columns.fields_of("partition_by", keys), strict=True):
        type_ = field.dataType
        if isinstance(type_, NullType):
            raise TypeError(f"partition_by must name columns that have a type, got {key!r} of nulls alone")
        if isinstance(type_, ArrayType | MapType | StructType):
            raise TypeError(
                f"partition_by must name columns without arrays, maps and structs, got {key!r} of type "
                f"{type_.simpleString()}"
            )
    if len(names) == len(columns.names):
        raise ValueError(f"partition_by must leave a column for the files, got all of them: {names}")
