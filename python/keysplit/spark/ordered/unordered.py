"""Windows without an order: results of hot keys are aggregated, and joined to their rows by a broadcast."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.spark.expr.hashes import plan_hash
from keysplit.spark.names import in_sql
from keysplit.spark.ordered.calls import Call
from keysplit.spark.ordered.cuts import of_keys
from keysplit.spark.request import Request


def by_aggregate(request: Request, calls: Sequence[Call], results: Sequence[str]) -> DataFrame:
    """Compute aggregates of whole keys, those of hot keys on the map side.

    Args:
        request: the rows, which have a plan.
        calls: the functions, of one window without an order.
        results: the names of their columns.
    """
    plan = request.plan
    assert plan is not None
    key, *theirs = (request.columns.free(f"key_{at}", *results) for at in range(len(request.keys) + 1))
    rows = request.df.select("*", plan_hash(request).alias(key))
    is_hot = of_keys(key, plan.split_keys)
    hot, rare = rows.filter(is_hot), rows.filter(f"NOT {is_hot}")
    named = list(zip(calls, results, strict=True))
    rare = rare.select("*", *(F.expr(call.plain).alias(name) for call, name in named))
    keys = [in_sql(name) for name in calls[0].spec.partition]
    found = hot.groupBy(*(F.expr(name).alias(there) for name, there in zip(keys, theirs, strict=True))).agg(
        *(F.expr(call.sql).alias(name) for call, name in named)
    )
    same = " AND ".join(f"{name} <=> {in_sql(there)}" for name, there in zip(keys, theirs, strict=True))
    joined = hot.join(F.broadcast(found), F.expr(same)).drop(*theirs)
    return joined.union(rare).drop(key)
