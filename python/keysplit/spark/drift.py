"""How far the keys of today have drifted from those that a plan was made from."""

from collections.abc import Sequence

import numpy as np
from pyspark.sql import Column, DataFrame

from keysplit.metrics import imbalance, relative_imbalance
from keysplit.plan import PLANS, FrequentKey, Plan, Summary, bucket_of, head_threshold
from keysplit.plan.drift import Drift
from keysplit.spark.checks import by_name, refuse_stream, type_name
from keysplit.spark.counting.summary import summarise
from keysplit.spark.plan import plan_of, planning
from keysplit.spark.request import check

# A new plan moves keys to other workers. It is worth it where the busiest worker of the old plan has more
# than so many times what that of a new one has.
_WORTH_A_NEW_PLAN = 1.1
# A key is looked for down to this part of the threshold of the plan, so that one that has become a little
# rarer is still known by itself.
_FINER = 0.1


@by_name
def drift(
    plan: Plan,
    df: DataFrame,
    key: str | Sequence[str] | None = None,
    *,
    weight: str | Column | None = None,
) -> Drift:
    """Measure how far the keys of a DataFrame have drifted from those that a plan was made from.

    It takes one pass over the keys.

    Args:
        plan: the plan.
        df: rows of today.
        key: their key columns; those of the plan if left out.
        weight: as `plan`.

    Returns:
        What has moved, and the loads that the plan gives today.

    Raises:
        TypeError: as `plan`.
        ValueError: as `plan`.

    Example:
        >>> verdict = kss.drift(plan, df).verdict  # doctest: +SKIP
    """
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan that kss.plan made, got {type_name(plan)}")
    key = list(plan.key) if key is None else key
    refuse_stream(df, remedy=": compare a batch of its rows")
    if type(plan.grouping) not in PLANS.values():
        raise ValueError(
            f"plan must be by a grouping that kss.plan takes, got one by {plan.grouping.name!r}, which only "
            "streams follow"
        )
    if plan.weighted and weight is None:
        raise ValueError("weight must be the one that the plan was made by, got None")
    check(df, key, plan)
    request = planning(
        df,
        key,
        None,
        grouping=plan.grouping,
        weight=weight,
        group_weight=plan.group_weight,
        capacities=plan.capacities,
        sample=1.0,
    )
    counted = summarise(request, threshold=_FINER * head_threshold(plan.grouping))
    today, fresh = counted.summary, plan_of(request, counted)
    loads = plan.loads_for(today)
    old, new = loads / plan.speeds, fresh.loads / plan.speeds
    return Drift(
        moved=_moved(plan, today),
        loads=loads,
        imbalance=imbalance(old),
        fresh_imbalance=imbalance(new),
        new_keys=_only(fresh, plan),
        gone_keys=_only(plan, fresh),
        verdict=_verdict(today.total, 1 + relative_imbalance(old), 1 + relative_imbalance(new)),
    )


def _moved(plan: Plan, today: Summary) -> float:
    if today.total == 0:
        return 0.0
    if plan.total == 0:
        return 1.0
    then = {each.hash: _share(each, plan) for each in plan.head}
    shares = (today.counts - today.errors) / today.total
    both = [at for at, hash_ in enumerate(today.hashes.tolist()) if hash_ in then]
    # Shares of today less those of then: of each key that both days know, and of what else its bucket holds.
    of_keys = shares[both] - np.array([then[hash_] for hash_ in today.hashes[both].tolist()])
    of_buckets = today.buckets / today.total - plan.buckets / plan.total
    buckets = bucket_of(today.hashes[both], len(of_buckets).bit_length() - 1)
    of_buckets -= np.bincount(buckets, of_keys, minlength=len(of_buckets))
    return float(np.abs(of_keys).sum() + np.abs(of_buckets).sum()) / 2


def _only(plan: Plan, other: Plan) -> dict[str, float]:
    known = {each.hash for each in other.head}
    return {each.text: _share(each, plan) for each in plan.head if each.hash not in known}


def _share(key: FrequentKey, plan: Plan) -> float:
    return (key.count - key.error) / plan.total


def _verdict(total: float, old: float, new: float) -> str:
    if total == 0:
        return "the plan still fits: there are no rows today"
    loads = f"the busiest worker has {old:.2f} times the mean today, {new:.2f} times by a new plan"
    return f"make a new plan: {loads}" if old > _WORTH_A_NEW_PLAN * new else f"the plan still fits: {loads}"
