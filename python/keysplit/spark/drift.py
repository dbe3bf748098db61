"""How far today's keys have drifted from the keys that a plan was made from."""

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

# A new plan moves keys to other workers. It is worth it if the busiest worker of the old plan has more than
# this multiple of the new one's load.
_WORTH_A_NEW_PLAN = 1.1
# Keys are counted individually from this part of the plan's threshold on, to include keys that have become
# slightly rarer.
_FINER = 0.1


@by_name
def drift(
    plan: Plan,
    df: DataFrame,
    key: str | Sequence[str] | None = None,
    *,
    weight: str | Column | None = None,
) -> Drift:
    """Measure how far a DataFrame's keys have drifted from the keys that a plan was made from.

    It takes one pass over the keys.

    Args:
        plan: the plan.
        df: today's rows.
        key: the key columns of `df`; the plan's if omitted.
        weight: as in `plan`.

    Returns:
        The keys that have moved, and the loads of today's rows with the plan.

    Raises:
        TypeError: as in `plan`.
        ValueError: as in `plan`.

    Example:
        >>> verdict = kss.drift(plan, df).verdict  # doctest: +SKIP
    """
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan that kss.plan made, got {type_name(plan)}")
    key = list(plan.key) if key is None else key
    refuse_stream(df, remedy=": compare a batch of its rows")
    if type(plan.grouping) not in PLANS.values():
        raise ValueError(
            f"plan must have a grouping of kss.plan, got {plan.grouping.name!r}, which is for streams only"
        )
    if plan.weighted and weight is None:
        raise ValueError("weight must be the weight that the plan was made with, got None")
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
    # Today's shares minus the old ones: of each key known on both days, and of the rest of each bucket.
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
