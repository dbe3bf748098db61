"""`plan`: one pass over the keys, and a decision where they go."""

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keysplit.planning import Summary, bucket_bits, place
from keysplit.spark.hashes import plan_hash, row_hash
from keysplit.spark.keys import key_kinds
from keysplit.spark.options import (
    Engine,
    GroupingOrName,
    Options,
    Request,
    Trusted,
    by_name,
    check,
    quoted,
    refuse_stream,
)
from keysplit.spark.plans import Plan
from keysplit.spark.rows import MOST_COLUMNS
from keysplit.spark.summary import Pass, summarise

# Rows of split keys that are looked at, and how many of one key are enough to say that they are alike.
_SAMPLE = 10_000
_ENOUGH = 100


@by_name
def plan(
    df: DataFrame,
    key: str | Sequence[str],
    workers: int | None = None,
    grouping: GroupingOrName = "d_choices",
    *,
    row_id: str | Sequence[str] | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    engine: Engine | None = None,
    trust: Trusted = (),
) -> Plan:
    """Count the keys in one pass and decide which workers the rows of each go to.

    The plan is frozen: it routes the same rows in the same way for ever, on every version of Spark, whatever
    tasks run again. It also routes rows that it has not seen, such as those of tomorrow, or of a stream.

    Args:
        df: a batch DataFrame, or a sample of one.
        key: a column name, or a list of them; null is a key.
        workers: the number of workers, 1..=65536. Leave it out with a grouping object.
        grouping: key, partial_key, d_choices, w_choices, round_robin, flexd, distribution_aware or
            cut_to_fit, or an object of one of their classes.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. If left out, the
            columns of `df` that are proved to come again the same when a task is retried.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            left out.
        seed: the seed of the hashes, 0 if left out. Leave it out with a grouping object.
        capacities: the relative speed of each worker, above 0; equal if left out.
        engine: "rust", the default, counts with SpaceSaving in each task, "columns" exactly by `groupBy`,
            without Python on the executors.
        trust: columns of `df` and functions (UDFs or their names) that give the same values when a task is
            retried, on your word; docs/exactness.md says what depends on it.

    Warns:
        UserWarning: if rows of a key that is split look alike in their identity, so that they would stay
            together all the same.

    Returns:
        The plan.

    Raises:
        TypeError: as `route`.
        ValueError: as `route`.

    Source:
        docs/plans.md: each grouping's rule for known frequencies.

    Deviations:
        The papers route messages one by one without knowing what comes. A plan knows: so rare keys are
        not split at all, and frequent keys are split by shares of their rows.

    Example:
        >>> plan = kss.plan(df, "word", workers=8)  # doctest: +SKIP
        >>> plan.save("words.plan.json")  # doctest: +SKIP
    """
    refuse_stream(df, remedy=": plan from a batch of its rows")
    options = Options(
        workers=workers,
        grouping=grouping,
        row_id=row_id,
        weight=weight,
        seed=seed,
        capacities=capacities,
        engine=engine,
        trust=trust,
    )
    return make(check(df, key, options))


def make(request: Request) -> Plan:
    """Count the keys of a request, decide where they go, and warn where rows could not be told apart."""
    plan = plan_of(request, summarise(request))
    if plan.splits and not request.query.is_shuffled:
        _warn_of_like_rows(request, plan)
        if request.row_id is None and len(request.query.columns) > MOST_COLUMNS:
            # Which of many columns tell rows apart is decided once, also for frames that have others beside.
            plan = replace(plan, row_id=tuple(map(quoted, request.query.identity)))
    return plan


def stand_in(request: Request) -> Plan:
    """Return the plan of no rows: an operation tries its query out with it before a plan takes any job."""
    none = np.empty(0)
    summary = Summary(
        total=0.0,
        hashes=none.astype(np.int64),
        counts=none,
        errors=none,
        buckets=np.zeros(2 ** bucket_bits(request.workers)),
    )
    return plan_of(request, Pass(summary, {}))


def _warn_of_like_rows(request: Request, plan: Plan) -> None:
    # Some rows of split keys are enough, and a limit stops early. Above a shuffle it would not: all is run.
    split = {each.hash: each for each in plan.head if len(each.workers) > 1}
    rows = request.df.select(plan_hash(request).alias("key"), row_hash(request).alias("row"))
    sample = rows.filter(F.col("key").isin(list(split))).limit(_SAMPLE).collect()
    for hash_, key in split.items():
        found = [row.row for row in sample if row.key == hash_]
        different = len(set(found))
        if len(found) >= _ENOUGH and different < min(len(key.workers), len(found) // 2):
            warnings.warn(
                f"rows of key {key.key} look alike: {different} different ones in {len(found)}, "
                f"too few for {len(key.workers)} workers; pass row_id with columns that tell them apart",
                UserWarning,
                stacklevel=_outside(),
            )


def _outside() -> int:
    """Return the stacklevel at which a warning of the caller points to the code that uses keysplit."""
    modules = (frame.frame.f_globals.get("__name__", "") for frame in inspect.stack(0)[1:])
    return next((level for level, name in enumerate(modules, 1) if not name.startswith("keysplit.")), 1)


def plan_of(request: Request, counted: Pass) -> Plan:
    """Decide where the keys of a request go, once they are counted."""
    return Plan.of(
        counted.summary,
        place(counted.summary, request.params, request.capacities),
        grouping=request.params,
        key=tuple(request.keys),
        key_types=tuple(key_kinds(request.key_types)),
        texts={
            value: tuple(None if part is None else str(part) for part in key)
            for value, key in counted.keys.items()
        },
        capacities=request.capacities,
    )
