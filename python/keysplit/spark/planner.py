"""`plan`: one pass over the keys, and a decision where they go."""

import inspect
import warnings
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.planning import place
from keysplit.spark.hashes import plan_hash, row_hash
from keysplit.spark.keys import key_kinds
from keysplit.spark.options import Request, check, refuse_stream
from keysplit.spark.plans import Plan
from keysplit.spark.summary import Pass, summarise

# Rows of split keys that are looked at, and how many of one key are enough to say that they are alike.
_SAMPLE = 10_000
_ENOUGH = 100


def plan(
    df: DataFrame,
    key: str | Sequence[str],
    workers: int | None = None,
    grouping: Any = "d_choices",
    **options: Any,
) -> Plan:
    """Count the keys in one pass and decide which workers the rows of each go to.

    The plan is frozen: it routes the same rows in the same way for ever, on every version of Spark, whatever
    tasks run again. It also routes rows that it has not seen, such as those of tomorrow, or of a stream.

    Args:
        df: a batch DataFrame, or a sample of one.
        key: as `route`.
        workers: as `route`.
        grouping: key, partial_key, d_choices, w_choices, round_robin, flexd, distribution_aware or
            cut_to_fit, or an object of one of their classes.
        options: `seed`, `weight`, `capacities` and `row_id` as `route`; `engine`: "rust", the default, counts
            with SpaceSaving in each task, "columns" exactly by `groupBy`, without Python on the executors.

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
    for name in ("plan", "mode"):
        if name in options:
            raise TypeError(f"{name} is no argument of plan")
    refuse_stream(df, remedy=": plan from a batch of its rows")
    return make(check(df, key, {**options, "workers": workers, "grouping": grouping}))


def make(request: Request) -> Plan:
    """Count the keys of a request, decide where they go, and warn where rows could not be told apart."""
    plan = plan_of(request, summarise(request))
    if plan.splits and not request.query.is_shuffled:
        _warn_of_like_rows(request, plan)
    return plan


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
