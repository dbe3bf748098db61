"""`plan`: one pass over the keys, of all rows or a sample, and a decision where they go."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from pyspark.sql import Column, DataFrame

from keysplit.plan import BALANCED, FrequentKey, Plan, Summary, bucket_bits, place
from keysplit.spark.checks import by_name, refuse_stream
from keysplit.spark.counting.counted import Met
from keysplit.spark.hashes import identity_of, plan_hash, row_hash
from keysplit.spark.keys import key_kinds
from keysplit.spark.known import known_rows
from keysplit.spark.names import quoted
from keysplit.spark.options import Engine, GroupingOrName, Options, Request, Sample, Trusted, check
from keysplit.spark.rows import MOST_COLUMNS, values_of
from keysplit.spark.summary import Pass, summarise
from keysplit.spark.warn import warn

# Rows of split keys that are looked at: for each of the most frequent ones, and in all.
_ROWS_PER_KEY, _ROWS, _KEYS = 1_000, 10_000, 1_000
# How many of one key are enough to say that they are alike.
_ENOUGH = 100
# Bytes of a frame, as Spark estimates them, all of whose columns may be read for that.
_MOST_BYTES = 8 << 20


@by_name
def plan(
    df: DataFrame,
    key: str | Sequence[str],
    workers: int | None = None,
    grouping: GroupingOrName = "d_choices",
    *,
    sample: Sample = "auto",
    row_id: str | Sequence[str] | None = None,
    weight: str | Column | None = None,
    group_weight: float = 0.0,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    engine: Engine | None = None,
    trust: Trusted = (),
) -> Plan:
    """Count the keys of a sample, or of all rows, and decide which workers the rows of each go to.

    The plan is frozen: it routes the same rows in the same way for ever, on every version of Spark, whichever
    tasks are retried. It also routes rows that it has not seen, such as those of tomorrow, or of a stream.

    Args:
        df: a batch DataFrame.
        key: a column name, or a list of them; null is a key.
        workers: the number of workers, 1..=65536. Leave it out with a grouping object.
        grouping: key, partial_key, d_choices, w_choices, round_robin, flexd, distribution_aware or
            cut_to_fit, or an object of one of their classes.
        sample: the part of the rows that is counted, above 0, up to 1. "auto" counts frames of up to 65,536
            rows whole, and of larger ones as many rows as the threshold of the grouping and the number of
            workers need, about a tenth at most. A sample moves load, never a result; `Plan.sample` is what
            was seen and how much it says.
        row_id: the columns that tell rows apart; they spread a hot key over its workers. The plan keeps
            them: operations use them where they are known to be steady and name no others. If left out, the
            columns of `df` that provably have the same values when a task is retried.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            left out.
        group_weight: the fixed cost of a group besides its rows, in units of their weight: a plan for
            `apply` on many small groups balances `weight + group_weight * keys`. All weights and loads of the
            plan contain it.
        seed: the seed of the hashes, 0 if left out. Leave it out with a grouping object.
        capacities: the relative speed of each worker, above 0; equal if left out.
        engine: how all rows are counted with `sample=1`: "rust", the default, with SpaceSaving in each task,
            "columns" exactly by `groupBy`. A sample takes no Python on the executors.
        trust: columns of `df` and functions (UDFs or their names) that give the same values when a task is
            retried, on your word; docs/exactness.md says what depends on it.

    Warns:
        UserWarning: if one row of a key that is split weighs more than the fair share of a worker; if rows of
            such a key look alike in their identity, so that they would stay together all the same.

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
        sample=sample,
        row_id=row_id,
        weight=weight,
        group_weight=group_weight,
        seed=seed,
        capacities=capacities,
        engine=engine,
        trust=trust,
    )
    request = check(df, key, options)
    made, met = make(request)
    warn_of_rows(request, made, met)
    return made


def make(request: Request) -> tuple[Plan, Met | None]:
    """Count the keys of a request and decide where they go; return what `warn_of_rows` wants to know."""
    found = summarise(request, identity=_cheap_identity(request))
    plan = plan_of(request, found)
    former = None if request.kept is None else request.kept.former
    if request.row_id is not None:
        plan = replace(plan, row_id=tuple(request.row_id))
    elif former is not None and former.row_id is not None:  # for queries that have these columns
        plan = replace(plan, row_id=former.row_id)
    elif len(request.query.columns) > MOST_COLUMNS and plan.splits and not request.query.is_shuffled:
        # Which of many columns tell rows apart is decided once, also for frames that have others beside.
        with suppress(ValueError):  # none does: what needs them says so
            plan = replace(plan, row_id=tuple(map(quoted, request.query.identity)))
    known_rows(plan).made_from(request.df)
    return plan, found.met


def _cheap_identity(request: Request) -> Column | None:
    """Return the hash of a row's identity where its columns cost less in a sample than a job of their own."""
    query = request.query
    # Downstream of a shuffle or of Python functions reading is dear, and so is asking Spark for the size.
    if request.sample == 1 or query.steadiness.functions or query.steadiness.order is not None:
        return None
    size = query.session.size(request.df)
    if size is None or size > _MOST_BYTES:
        return None
    with suppress(ValueError):  # there is none: what needs one says so
        return row_hash(request)
    return None


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
    return plan_of(request, Pass(summary, {}), candidates=[])


def warn_of_rows(request: Request, plan: Plan, met: Met | None) -> None:
    """Warn where a plan splits a key in vain: one row is too heavy, or rows cannot be told apart.

    Args:
        request: the request.
        plan: the plan.
        met: the rows that were read for the plan; None if nobody knows: some are read for this then.

    Raises:
        ValueError: if rows that would be split have no steady identity.
    """
    if not plan.splits:
        return
    if plan.heaviest_row > BALANCED:
        least = "at least " if plan.sample is not None else ""
        warn(
            f"one row weighs {least}{plan.heaviest_row:.2f} times the fair share of a worker, which gets all "
            "of it: no split helps beyond that; divide such rows, or take fewer workers"
        )
    split = plan.split_keys[:_KEYS]
    if request.query.is_shuffled:  # rows cost all that is upstream, so only types are looked at
        with suppress(ValueError):  # there is no identity: what needs one says so
            _warn_of_few_values(request, split[0])
        return
    met = _met(request, split) if met is None else met
    for key in split:
        seen, different = met.get(key.hash, (0, 0))
        if seen >= _ENOUGH and different < min(len(key.workers), seen // 2):
            warn(
                f"rows of key {key.key} look alike: {different} different ones in {seen}, "
                f"too few for {len(key.workers)} workers; pass row_id with columns that tell them apart"
            )


def _met(request: Request, split: Sequence[FrequentKey]) -> Met:
    """Return how many rows of keys were read, and how many different ones."""
    # Some rows of split keys are enough, and a limit stops early. Downstream of a shuffle it would not.
    rows = request.df.select(plan_hash(request).alias("key"), row_hash(request).alias("row"))
    rows = rows.filter(f"key IN ({', '.join(f'{each.hash}L' for each in split)})")
    found: dict[int, list[int]] = {}
    for hash_, row in rows.limit(min(_ROWS, _ROWS_PER_KEY * len(split))).collect():
        found.setdefault(hash_, []).append(row)
    return {hash_: (len(seen), len(set(seen))) for hash_, seen in found.items()}


def _warn_of_few_values(request: Request, key: FrequentKey) -> None:
    """Warn where rows of a key differ in columns whose types have fewer values than the key has workers."""
    names = identity_of(request)
    of_key = {quoted(each) for each in request.keys} | set(request.keys)
    different = values_of(request.columns.type_of("row_id", name) for name in names if name not in of_key)
    if different < len(key.workers):
        warn(
            f"rows of key {key.key} look alike: they are told apart by {names}, of which there are at most "
            f"{different} different ones, too few for {len(key.workers)} workers; downstream of a shuffle "
            "floats and arrays are left out: pass row_id with columns that tell rows apart"
        )


def plan_of(request: Request, counted: Pass, candidates: Sequence[np.ndarray] | None = None) -> Plan:
    """Decide where the keys of a request go, once they are counted; `candidates` as `place` takes them."""
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
    )
