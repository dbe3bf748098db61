"""`plan`: count keys in one pass over all rows or a sample, and decide where their rows go.

All arguments of planning are checked here, and nowhere else.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, TypeAlias

import numpy as np
from pyspark.sql import Column, DataFrame

import keysplit as ks
from keysplit.groupings.base import Grouping
from keysplit.plan import (
    BALANCED,
    PLANS,
    CutToFit,
    FrequentKey,
    OrderCuts,
    Plan,
    Summary,
    bucket_bits,
    place,
    speeds_of,
)
from keysplit.spark import jvm, kept
from keysplit.spark.checks import by_name, check_sample, refuse_other_frames, refuse_stream, type_name
from keysplit.spark.counting.counted import Met
from keysplit.spark.counting.summary import Pass, summarise
from keysplit.spark.expr.hashes import identity_of, plan_hash, row_hash
from keysplit.spark.identity import MOST_COLUMNS, Query, identity_columns, trusted_names, values_of
from keysplit.spark.keys import key_kinds
from keysplit.spark.names import quoted
from keysplit.spark.ordered.cuts import columns_of, sampled
from keysplit.spark.ordered.order import order_in, order_of
from keysplit.spark.request import GROUPING, Request, request_of
from keysplit.spark.warn import warn
from keysplit.spark.weights import weight_of

Sample = float | Literal["auto"]
GroupingOrName = str | Grouping | CutToFit
Trusted = str | Callable[..., Any] | Sequence[str | Callable[..., Any]]
OrderBy: TypeAlias = str | Column | Sequence[str | Column]

# Rows of split keys to check: for each of the most frequent ones, and in total.
_ROWS_PER_KEY, _ROWS, _KEYS = 1_000, 10_000, 1_000
# Rows of one key that suffice to call them indistinguishable.
_ENOUGH = 100
# The largest frame, in bytes by Spark's estimate, with all columns read for that.
_MOST_BYTES = 8 << 20


@by_name
def plan(
    df: DataFrame,
    key: str | Sequence[str],
    workers: int | None = None,
    *,
    grouping: GroupingOrName = GROUPING,
    sample: Sample = "auto",
    weight: str | Column | None = None,
    group_weight: float = 0.0,
    capacities: Sequence[float] | None = None,
    row_id: str | Sequence[str] | None = None,
    trust: Trusted = (),
    order_by: OrderBy | None = None,
    seed: int | None = None,
    path: str | os.PathLike[str] | None = None,
    max_age: str | timedelta | None = None,
) -> Plan:
    """Count the keys in a sample or in all rows, and choose the workers for the rows of each key.

    The plan is frozen: it always routes the same rows in the same way, on every version of Spark, even when
    tasks are retried. It also routes rows that it has not seen, such as tomorrow's rows or those of a stream.

    Args:
        df: a batch DataFrame, classic or of Spark Connect.
        key: a column name, or a list of names. Keys are equal if `groupBy` treats them as equal, and null is
            a key. A name such as "a.b" is the field b of column a, or else the column of this name.
        workers: the number of workers, 1..=65536. A worker is a task's partition. Omit it with a grouping
            object.
        grouping: key, partial_key, d_choices, w_choices, round_robin, flexd, distribution_aware or
            cut_to_fit, or an instance of one of their classes, such as `DChoices(workers=50)`.
        sample: the part of the rows that is counted, above 0, up to 1. "auto" counts all rows of frames of up
            to 65,536 rows. In larger frames it counts as many rows as the grouping's threshold and the number
            of workers require, at most about a tenth. A sample affects load, never results; `Plan.sample` has
            the sample's size and error.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            omitted.
        group_weight: the fixed cost of a group in addition to its rows, in units of row weight: a plan for
            `apply` on many small groups balances `weight + group_weight * keys`. All weights and loads of the
            plan include it.
        capacities: the relative speed of each worker, above 0; equal if omitted.
        row_id: the columns that distinguish rows; they spread a hot key over its workers. The plan stores
            these names, and operations use the columns if they are deterministic. If omitted, each operation
            uses all deterministic columns of its DataFrame, 32 at most. Rows of a key that are equal in all
            these columns go to one worker.
        trust: columns of `df` and functions (UDFs or their names) that you guarantee to be deterministic. The
            plan stores them. docs/exactness.md explains the consequences.
        order_by: the order of a `window` or of `write(..., sort_by=)`: a column name, a column such as
            `F.desc("ts")`, or a list of these. The plan stores values that cut the rows of each split key
            into ranges, so that operations in this order need not sample it. Old cuts affect load, never
            results. Other operations ignore them.
        seed: the seed of the hashes, 0 if omitted. Omit it if you pass a grouping object.
        path: where to store the plan, a file or a URL as in `Plan.save`. An existing plan is loaded, and no
            job runs; otherwise the plan is made and saved. If several jobs make the first plan at the same
            time, all of them use the same plan. A plan from an empty DataFrame is used once and never saved.
        max_age: the age at which a stored plan is replaced with a new one, such as "30 days" or a timedelta;
            the age of the file counts. If omitted, a stored plan is always used; `drift` tells how well it
            still fits.

    Warns:
        UserWarning: if one row of a split key weighs more than a worker's fair share; if rows of a split key
            are indistinguishable and so stay together.

    Returns:
        The plan.

    Raises:
        TypeError: if an argument has a wrong type, or the key holds maps.
        ValueError: if an argument has a wrong value; if rows that would be split have no deterministic
            columns; if the plan at `path` was made for different arguments.
        OSError: if `path` cannot be read or written.

    Source:
        docs/plans.md: each grouping's rule for known frequencies.

    Deviations:
        The papers route messages one by one without knowing which messages follow. A plan knows the
        frequencies, so rare keys are not split at all, and frequent keys are split by shares of their rows.

    Example:
        >>> plan = kss.plan(df, "word", workers=8)  # doctest: +SKIP
        >>> plan = kss.plan(df, "word", workers=8, path="words.json", max_age="30 days")  # doctest: +SKIP
    """
    request = planning(
        df,
        key,
        workers,
        grouping=grouping,
        sample=sample,
        weight=weight,
        group_weight=group_weight,
        capacities=capacities,
        row_id=row_id,
        trust=trust,
        order_by=order_by,
        seed=seed,
        remedy=": plan from a batch of its rows",
    )
    place_ = kept.place_of(path, max_age)
    stored = None if place_ is None else place_.load(request)
    if stored is not None:
        return stored
    made, met = make(request)
    warn_of_rows(request, made, met)
    made = made if request.order is None else replace(made, order=_cuts(request, made))
    return made if place_ is None else place_.save(made, request)


def planning(
    df: DataFrame,
    key: str | Sequence[str],
    workers: Any,
    *,
    grouping: Any = GROUPING,
    sample: Any = "auto",
    weight: Any = None,
    group_weight: Any = 0.0,
    capacities: Any = None,
    row_id: Any = None,
    trust: Any = (),
    order_by: Any = None,
    seed: Any = None,
    remedy: str = "",
) -> Request:
    """Check the arguments of `plan`, and raise its errors; `remedy` is for a streaming DataFrame."""
    refuse_other_frames(df)
    refuse_stream(df, remedy=remedy)
    check_sample(sample)
    params = grouping_of(grouping, workers, seed, PLANS)
    request = request_of(df, key, params, _query(df, trust))
    columns = request.columns
    if request.query.trust:
        _ = request.query.determinism  # raises an error for names that the query does not have
    names = identity_columns(row_id, columns.type_of)
    if names is not None:
        names = list(map(columns.path, names))
        request.query.refuse_other_values(names)
    order = None if order_by is None else order_of(columns, "order_by", order_by)
    return replace(
        request,
        row_id=names,
        weight=weight_of(columns, weight),
        capacities=None if capacities is None else tuple(speeds_of(capacities, request.workers).tolist()),
        sample=sample,
        group_weight=_group_weight(group_weight),
        order=order,
    )


def _query(df: DataFrame, trust: Any) -> Query:
    names = trusted_names(trust)
    return Query(df, names, checked=names)


def grouping_of(grouping: Any, workers: Any, seed: Any, known: Mapping[str, Any]) -> Any:
    """Return a grouping with its parameters, or raise an error.

    Args:
        grouping: a name, or an object.
        workers: the number of workers; with a grouping object, None or the object's own number.
        seed: the seed of the hashes; with a grouping object, None or the object's own seed.
        known: the groupings that a name may mean.
    """
    if isinstance(grouping, str):
        if grouping not in known:
            raise ValueError(_unknown_grouping(grouping, known))
        if workers is None:
            raise ValueError(f"workers must be given with grouping={grouping!r}: a number in 1..=65536")
        return known[grouping](workers=workers, seed=0 if seed is None else seed)
    names = {type_: name for name, type_ in [*ks.GROUPINGS.items(), *PLANS.items()]}
    if type(grouping) not in names:
        raise TypeError(f"grouping must be a registered name or a grouping, got {type_name(grouping)}")
    if names[type(grouping)] not in known:
        raise ValueError(_unknown_grouping(names[type(grouping)], known))
    for name, value in (("workers", workers), ("seed", seed)):
        if value is not None and value != getattr(grouping, name):
            raise ValueError(f"{name} must be omitted or match that of {grouping!r}, got {value!r}")
    return grouping


def _unknown_grouping(name: str, known: Mapping[str, Any]) -> str:
    online = name in ks.GROUPINGS and name not in known
    remedy = ": it routes rows one by one, see kss.online.route" if online else ""
    return f"grouping must be one of {', '.join(sorted(known))}, got {name!r}{remedy}"


def _group_weight(weight: Any) -> float:
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise TypeError(f"group_weight must be a number of at least 0, got {weight!r}")
    if not 0 <= weight < math.inf:
        raise ValueError(f"group_weight must be finite and at least 0, got {weight!r}")
    return float(weight)


def make(request: Request) -> tuple[Plan, Met | None]:
    """Return the plan for a request, made by counting its keys, and the rows for `warn_of_rows`."""
    found = summarise(request, identity=_cheap_identity(request))
    plan = plan_of(request, found)
    if request.row_id is not None:
        return replace(plan, row_id=tuple(request.row_id)), found.met
    if len(request.query.columns) > MOST_COLUMNS and plan.splits and not request.query.is_shuffled:
        # The columns that distinguish rows are chosen once, also for frames with further columns.
        with suppress(ValueError):  # there are none: operations that need them raise an error
            names = request.query.identity
            plan = replace(plan, row_id=tuple(map(quoted, names))) if len(names) == MOST_COLUMNS else plan
    return plan, found.met


def _cheap_identity(request: Request) -> Column | None:
    """Return the hash of a row's identity if reading it in the sample costs less than a separate job."""
    query = request.query
    # Downstream of a shuffle or of Python functions, reading is expensive, and so is Spark's estimate of the
    # size.
    if request.sample == 1 or query.determinism.functions or query.determinism.order is not None:
        return None
    size = jvm.size(request.df)
    if size is None or size > _MOST_BYTES:
        return None
    with suppress(ValueError):  # there is none: operations that need one raise an error
        return row_hash(request)
    return None


def _cuts(request: Request, plan: Plan) -> OrderCuts:
    """Return the cuts of the order of a plan's split keys."""
    order, types = order_in(request)
    hash_ = request.columns.free("hash")
    rows = request.df.select("*", plan_hash(request).alias(hash_))
    return OrderCuts(
        columns_of(order, types), tuple(sampled(rows, hash_, order, types, plan.split_keys, plan))
    )


def stand_in(request: Request) -> Plan:
    """Return a plan for no rows, with which an operation tests its query before planning runs any job."""
    none = np.empty(0)
    summary = Summary(
        total=0.0,
        hashes=none.astype(np.int64),
        counts=none,
        errors=none,
        buckets=np.zeros(2 ** bucket_bits(request.workers)),
    )
    return plan_of(request, Pass(summary, {}), candidates=[])


def warn_of_rows(request: Request, plan: Plan, met: Met | None) -> None:
    """Warn if splitting a key does not help because a row is too heavy or rows are indistinguishable.

    Args:
        request: the request.
        plan: the plan.
        met: the rows that were read for the plan; if None, some rows are read for the warning.

    Raises:
        ValueError: if rows that would be split have no deterministic identity.
    """
    if not plan.splits:
        return
    if plan.heaviest_row > BALANCED:
        least = "at least " if plan.sample is not None else ""
        warn(
            f"one row weighs {least}{plan.heaviest_row:.2f} times the fair share of a worker, which gets "
            "the whole row: no split can help further; divide such rows, or use fewer workers"
        )
    split = plan.split_keys[:_KEYS]
    if request.query.is_shuffled:  # reading rows would run everything upstream, so only types are checked
        with suppress(ValueError):  # there is no identity: operations that need one raise an error
            _warn_of_few_values(request, split[0])
        return
    met = _met(request, split) if met is None else met
    for key in split:
        seen, different = met.get(key.hash, (0, 0))
        if seen >= _ENOUGH and different < min(len(key.workers), seen // 2):
            warn(
                f"rows of key {key.key} cannot be spread over {len(key.workers)} workers: only {different} "
                f"of {seen} rows are distinct; pass row_id with columns that distinguish them"
            )


def _met(request: Request, split: Sequence[FrequentKey]) -> Met:
    """Return for keys how many rows were read, and how many of these are distinct."""
    # Some rows of split keys suffice, and a limit stops early, except downstream of a shuffle.
    rows = request.df.select(plan_hash(request).alias("key"), row_hash(request).alias("row"))
    rows = rows.filter(f"key IN ({', '.join(f'{each.hash}L' for each in split)})")
    found: dict[int, list[int]] = {}
    for hash_, row in rows.limit(min(_ROWS, _ROWS_PER_KEY * len(split))).collect():
        found.setdefault(hash_, []).append(row)
    return {hash_: (len(seen), len(set(seen))) for hash_, seen in found.items()}


def _warn_of_few_values(request: Request, key: FrequentKey) -> None:
    """Warn if the columns that distinguish rows have types with fewer values than a key has workers."""
    names = identity_of(request)
    of_key = {quoted(each) for each in request.keys} | set(request.keys)
    different = values_of(request.columns.type_of("row_id", name) for name in names if name not in of_key)
    if different < len(key.workers):
        warn(
            f"rows of key {key.key} cannot be spread over {len(key.workers)} workers: {names} have at most "
            f"{different} distinct values (floats and arrays do not count downstream of a shuffle); pass "
            "row_id with columns that distinguish rows"
        )


def plan_of(request: Request, counted: Pass, candidates: Sequence[np.ndarray] | None = None) -> Plan:
    """Decide where the rows of a request's counted keys go; `candidates` is as in `place`."""
    return Plan.of(
        counted.summary,
        place(counted.summary, request.params, request.capacities, candidates),
        grouping=request.params,
        key=tuple(request.keys),
        key_types=tuple(key_kinds(request.key_types)),
        texts={
            value: tuple(None if part is None else str(part) for part in key)
            for value, key in counted.keys.items()
        },
        capacities=request.capacities,
        group_weight=request.group_weight,
        weighted=request.weight is not None,
        trust=request.query.kept_trust,
    )
