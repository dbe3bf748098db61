"""`streaming.aggregate`: aggregates of a stream, plainly or by way of the workers."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame

from keysplit.spark.aggregates import reason_for_plain
from keysplit.spark.checks import check_columns, check_flag, ways_to_a_plan
from keysplit.spark.frame import analysed
from keysplit.spark.operations.aggregate import names_of, refuse_unmergeable
from keysplit.spark.operations.building import built
from keysplit.spark.operations.repartition import routed_and_placed
from keysplit.spark.options import (
    AdaptOrAuto,
    Engine,
    GroupingOrName,
    Options,
    PlanOrPath,
    Request,
    Trusted,
    check,
    check_without_plan,
)
from keysplit.spark.session import session_of, versions
from keysplit.spark.session.times import is_session
from keysplit.spark.streaming.two_steps import in_two_steps, refuse_two_steps
from keysplit.spark.ways import Way, took

_MERGES_SESSIONS = "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition"


def aggregate(
    df: DataFrame,
    key: str | Sequence[str],
    *columns: Column,
    window: Column | None = None,
    plan: PlanOrPath | None = None,
    adapt: AdaptOrAuto | None = None,
    force: bool = False,
    split_state: bool = False,
    workers: int | None = None,
    grouping: GroupingOrName = "d_choices",
    worker_column: str | None = None,
    row_id: str | Sequence[str] | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    engine: Engine | None = None,
    trust: Trusted = (),
    observed: bool = False,
) -> DataFrame:
    """Compute `df.groupBy(window, key).agg(*columns)` of a stream: by default plain Spark's own query.

    Spark aggregates the rows of a key where they lie, before its shuffle: of a hot key one row per task is
    shuffled, in each micro-batch, and its state is one row per window. Placing rows first makes no
    aggregate faster, so the result is Spark's own query, without a plan. Every output mode, aggregate and
    window that Spark has works, without a window and without a watermark, too.

    With `force`, the rows are routed and placed by the plan, Spark aggregates them on each worker by window
    and key, and merges the partial results in its one stateful step. That works as widely as plain Spark, in
    all output modes.

    With `split_state`, the state itself is spread: rows are aggregated by (window, key, worker), and these
    results by (window, key), in two stateful steps, which Spark allows in append mode alone. The state of a
    worker lies in the state partition of its number, modulo the state partitions: a hot key fills as many of
    them as it has workers. It is for state that grows with a key's rows, such as that of collect_list.

    Rows, column names and types equal those of the plain `groupBy` over the same stream, after failures and
    restarts, too: bit for bit for whole numbers, decimals, strings, dates and booleans. Sums and averages of
    floats are added in another order, and lists are collected in another.

    Args:
        df: a streaming DataFrame; or a batch, to try a job out. Where Spark asks for a watermark, declare it
            before.
        key: a column name, or a list of them; null is a key.
        columns: aggregates and expressions of them, as `groupBy` takes them. With `force` all of Spark's own
            but first, last, any_value and histogram_numeric. With `split_state` bare ones only: sum, count,
            min, max, avg, count_if, bool_and, bool_or, bit_and, bit_or, bit_xor, collect_list or collect_set
            (of types whose values are equal only if they are alike: no floats, no collations), with FILTER or
            without; on Spark Connect made by functions such as `F.sum("x")`, not by `F.expr`, and avg is not
            of decimals.
        window: `F.window(...)` of the time, tumbling or sliding, `F.session_window(...)`, the column of the
            time itself, or None for no window. `split_state` needs one, with a watermark on its time, and
            takes no session window.
        plan: a plan that was made from a batch of such rows, or the path or URL of one; None where rows are
            not placed, or where `adapt` makes it. A query that starts again from its checkpoint may have
            another one: partial results are merged by key in any case.
        adapt: "auto" or an `Adapt`: how the plan changes while the stream runs; None to keep it. Of effect
            with `force` or `split_state`.
        force: True to place the rows by the plan all the same. It may help where a few source partitions hold
            all rows. A query may change it when it starts again from its checkpoint: the state is the same.
        split_state: True to spread the state of a hot key over its workers. A query must keep it: Spark
            refuses a checkpoint with another state.
        workers: as `streaming.route`.
        grouping: as `streaming.route`.
        worker_column: its name in plans and in the Spark UI; a free one if left out. It is not in the result.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. If left out, the
            columns of `df` that provably have the same values when a task is retried.
        weight: as `streaming.route`.
        seed: as `streaming.route`.
        capacities: as `streaming.route`.
        engine: "columns", the default, routes by plain Column expressions, "rust" in Rust over Arrow. `adapt`
            needs "columns".
        trust: columns of `df` and functions (UDFs or their names) that give the same values when a task is
            retried, on your word; docs/exactness.md says what depends on it.
        observed: as `streaming.route`.

    Returns:
        A row for each window and key: the window, the key columns, then `columns`; when it comes out is
        what the output mode says. docs/streaming.md has a table of them.

    Raises:
        TypeError: as `route`, or if `window` or one of `columns` is no Column.
        ValueError: as `route`; if `force` or `split_state` is without a plan and `adapt`, or both are True;
            with one of them, if an aggregate is not supported; with `split_state`, if there is no window or
            no watermark, or if an aggregate stands inside an expression.

    Source:
        "The Power of Both Choices" (Nasir et al., ICDE 2015), section III-A: partial results of each worker,
        merged by key.

    Deviations:
        As `plan`.

    Example:
        >>> counts = kss.streaming.aggregate(  # doctest: +SKIP
        ...     events.withWatermark("at", "10 minutes"),
        ...     "word",
        ...     F.count("*").alias("n"),
        ...     window=F.window("at", "5 minutes"),
        ... )
    """
    check_columns(columns)
    if window is not None and not versions.is_column(window):
        raise TypeError(f"window must be a column such as F.window('at', '5 minutes'), got {window!r}")
    check_flag("force", force)
    check_flag("split_state", split_state)
    if force and split_state:
        raise ValueError("split_state must be False with force=True, which aggregates in one step, got True")
    options = Options(
        plan=plan,
        adapt=adapt,
        force=force,
        workers=workers,
        grouping=grouping,
        worker_column=worker_column,
        row_id=row_id,
        weight=weight,
        seed=seed,
        capacities=capacities,
        engine=engine,
        trust=trust,
        observed=observed,
    )
    if plan is None and adapt is None:
        if force or split_state:
            flag = "force" if force else "split_state"
            raise ValueError(f"plan must be given with {flag}=True: {ways_to_a_plan(df)}")
        return _plain(df, check_without_plan(df, key, options), window, columns)
    request = check(df, key, options)
    if not force and not split_state:
        return _plain(df, request.keys, window, columns)
    plain = _grouped(df, request.keys, window, columns)
    if split_state:
        refuse_two_steps(df, window, plain, columns)

        def build(request: Request) -> DataFrame:
            assert window is not None
            return in_two_steps(request, window, plain, columns)

    else:
        refuse_unmergeable(session_of(df).aggregates(plain, columns))

        # The partitions are the workers, so Spark's own partial aggregation is the one by worker. Without
        # the worker column `*` means the same columns as in `df`.
        def build(request: Request) -> DataFrame:
            rows = routed_and_placed(request, keep=False)
            return _grouped(rows, request.keys, window, columns)

    return built(request, build)


def _grouped(
    df: DataFrame, keys: Sequence[str], window: Column | None, columns: Sequence[Column]
) -> DataFrame:
    by = [*keys] if window is None else [window, *keys]
    return df.groupBy(*by).agg(*columns)


def _plain(df: DataFrame, keys: Sequence[str], window: Column | None, columns: Sequence[Column]) -> DataFrame:
    plain = analysed(_grouped(df, keys, window, columns))
    session = session_of(df)
    reason = reason_for_plain(names_of(session.aggregates(plain, columns)))
    if any(map(is_session, plain.schema.fields[:1])):
        merges = session.setting(_MERGES_SESSIONS) == "true"
        how = "merges sessions there, too, as" if merges else "merges sessions there, too, only if"
        reason += f"; it {how} {_MERGES_SESSIONS} is true"
    return took(plain, Way("plain", reason))
