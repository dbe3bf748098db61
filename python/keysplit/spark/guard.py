"""Refuses online mode above a shuffle, where it would not be exact.

A task that Spark runs again must route its rows as before, so they must come again in the same order. The
blocks of a shuffle arrive in any order: rows would be lost or doubled without an error. This file looks for a
shuffle in the plan, in cached plans and in the lineage of RDDs, and runs nothing.
"""

from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import DataFrame

# These shuffle inside, without a node of their own; a recursive query runs its steps as jobs of their own.
_SHUFFLING = ("CollectLimitExec", "CollectTailExec", "TakeOrderedAndProjectExec", "UnionLoopExec")


def refuse_shuffle(df: DataFrame) -> None:
    """Raise ValueError if the plan of a routed DataFrame has a shuffle in it.

    A broadcast is no shuffle: it is fetched once and kept. A checkpoint cuts what is below it off.

    Args:
        df: a DataFrame that `route` made, before anything was put on top of it.

    Raises:
        ValueError: if there is a shuffle; the message names it and the remedy.
    """
    shuffle = find_shuffle(df)
    if shuffle is not None:
        raise ValueError(
            f"mode 'online' is exact only without a shuffle below, got {shuffle}: "
            "call df.checkpoint() before, or write df and read it back, or pass allow_inexact=True"
        )


def find_shuffle(df: DataFrame) -> str | None:
    """Return a description of a shuffle that the plan of `df` has, None if there is none."""
    gateway = df.sparkSession.sparkContext._gateway

    def is_a(node: Any, name: str) -> bool:
        return bool(is_instance_of(gateway, node, f"org.apache.spark.{name}"))

    def in_plan(root: Any) -> str | None:
        nodes = [root]
        while nodes:
            node = nodes.pop()
            kind = node.getClass().getSimpleName()
            if is_a(node, "sql.execution.exchange.ShuffleExchangeLike"):
                return f"a shuffle ({node.outputPartitioning().toString()})"
            if kind in _SHUFFLING:
                return f"a shuffle ({node.nodeName()})"
            if is_a(node, "sql.execution.exchange.BroadcastExchangeLike"):
                continue
            if kind == "AdaptiveSparkPlanExec":
                nodes.append(node.initialPlan())
            elif kind == "ReusedExchangeExec":
                nodes.append(node.child())
            elif kind == "InMemoryTableScanExec":
                found = in_plan(node.relation().cachedPlan())
                if found is not None:
                    return f"{found} in a cached DataFrame"
            elif kind in ("RDDScanExec", "ExternalRDDScanExec"):
                if in_lineage(node.rdd()):
                    return "a shuffle in the lineage of an RDD"
            else:
                nodes.extend(_items(node.children()))
        return None

    def in_lineage(root: Any) -> bool:
        rdds, seen = [root], set()
        while rdds:
            rdd = rdds.pop()
            if rdd.id() in seen:
                continue
            seen.add(rdd.id())
            for dependency in _items(rdd.dependencies()):
                if is_a(dependency, "ShuffleDependency"):
                    return True
                rdds.append(dependency.rdd())
        return False

    return in_plan(df._jdf.queryExecution().executedPlan())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]
