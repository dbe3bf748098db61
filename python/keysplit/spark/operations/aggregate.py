"""`aggregate`: groupBy(key).agg(...), plainly or by way of the workers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame

from keysplit.spark.aggregates import AGGREGATES, BY_NAME, reason_for_plain, refusal_of
from keysplit.spark.checks import check_columns
from keysplit.spark.frame import without
from keysplit.spark.operations.building import built
from keysplit.spark.operations.repartition import routed_and_placed
from keysplit.spark.options import (
    Engine,
    GroupingOrName,
    Mode,
    Options,
    PlanOrPath,
    Refresh,
    Request,
    Sample,
    Trusted,
    check,
)
from keysplit.spark.session import CalledAggregate, session_of
from keysplit.spark.ways import Way, took


def aggregate(
    df: DataFrame,
    key: str | Sequence[str],
    *columns: Column,
    workers: int | None = None,
    grouping: GroupingOrName = "d_choices",
    plan: PlanOrPath | None = None,
    refresh: Refresh = "auto",
    sample: Sample = "auto",
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
) -> DataFrame:
    """Compute `df.groupBy(key).agg(*columns)`: by default plain Spark's own query.

    Spark combines the rows of a key in each map task, before its shuffle: a hot key is split already. Placing
    rows first makes no aggregate faster. So the result is Spark's own query, without a plan or a job.

    With `force` or `mode="online"`, the rows are routed and placed, Spark aggregates them on each worker by
    key, and the partial results are merged in a last shuffle by key. Rows, column names, types and nulls
    equal those of the plain `groupBy`, bit for bit, except what depends on the order of tasks in Spark, too:
    last digits of floats, the order of list elements, the choice among ties, and results of sketches within
    their accuracy.

    Args:
        df: a DataFrame, classic or of Spark Connect; `plan` must be given for a streaming one.
        key: a column name, or a list of them; null is a key.
        columns: aggregates, with DISTINCT and FILTER or without, and expressions of them: all of Spark's own
            but first, last, any_value and histogram_numeric. docs/spark.md lists them.
        workers: the number of workers, 1..=65536. Leave it out with a plan or a grouping object.
        grouping: a name such as "d_choices", or a grouping such as `DChoices(workers=50)`; `route` lists the
            names.
        plan: a plan made before by `plan`, or the path or URL of one: read if it is there, made and saved if
            not. Without one, it is made at the call, of a sample of the rows. The first run by a plan that
            was made for other data warns.
        refresh: what to do with a plan that is kept at a path: "auto" makes it anew once the loads of the
            workers no longer fit it, "never" keeps it, "always" makes it anew now.
        sample: the part of the rows that a plan is made from, above 0, up to 1; "auto" takes as many as it
            needs. A sample moves load, never a result.
        force: True to place the rows by the plan all the same. It may help where a few input partitions hold
            all rows.
        mode: "planned" or "online"; `route` explains them. Downstream of a shuffle "online" is allowed where
            Spark notices that a retried task gave other rows (by default from 4.2 on): the result is exact
            then, or the job is stopped.
        worker_column: its name in plans and in the Spark UI; a free one if left out. It is not in the result.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. If left out, the
            columns of `df` that provably have the same values when a task is retried.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            left out.
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
        One row per key: the key columns, then `columns`.

    Raises:
        TypeError: as `route`, or if one of `columns` is no Column.
        ValueError: as `route`, if there are no columns, or if an aggregate cannot be merged. On Spark Connect
            functions that were registered under a name for SQL are not seen.

    Source:
        "The Power of Both Choices" (Nasir et al., ICDE 2015), section III-A: partial results of each worker,
        merged by key.

    Deviations:
        As `route`.

    Example:
        >>> result = kss.aggregate(df, "word", F.median("length"), workers=8)  # doctest: +SKIP
    """
    if columns and isinstance(columns[0], int):
        raise TypeError(f"workers must be given by name, after the columns: workers={columns[0]}")
    check_columns(columns)
    options = Options(
        workers=workers,
        grouping=grouping,
        plan=plan,
        refresh=refresh,
        sample=sample,
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
    request = check(df, key, options)
    plain = df.groupBy(*request.keys).agg(*columns)
    called = session_of(df).aggregates(plain, columns)
    refuse_unmergeable(called)
    if request.mode == "planned" and not request.force:
        return took(plain, Way("plain", reason_for_plain(names_of(called))))
    if request.mode == "online" and request.query.rolls_back:
        request = replace(request, allow_inexact=True)
    elif request.mode == "online":
        request = replace(request, query=replace(request.query, merges=True))

    # The partitions are the workers, so Spark's own partial aggregation is the one by (worker, key), and the
    # worker column is not needed any more: without it `*` means the same columns as in `df`.
    def build(request: Request) -> DataFrame:
        rows = routed_and_placed(request)
        result = session_of(df).aggregated(plain, df, rows)
        if result is not None:
            return result
        rows = without(rows, df, request.worker_column)
        return session_of(df).with_schema_of(rows.groupBy(*request.keys).agg(*columns), plain)

    return built(request, build)


def refuse_unmergeable(called: Sequence[CalledAggregate]) -> None:
    """Raise ValueError if the partial results of an aggregate cannot be merged."""
    for each in called:
        refusal = refusal_of(each.kind, each.name)
        if refusal is not None:
            raise ValueError(refusal.format(" ".join(each.text().split())))


def names_of(called: Sequence[CalledAggregate]) -> Iterator[tuple[str, bool]]:
    """Yield the names of aggregates in SQL, and whether they are with DISTINCT."""
    for each in called:
        if each.kind:
            known = AGGREGATES.get(each.kind)
            yield known.names[0] if known else each.kind, each.distinct
        elif (
            each.name is not None and each.name in BY_NAME
        ):  # on Spark Connect there are functions of rows among them
            yield each.name, each.distinct
