"""Whether Spark's physical plan fixes the order of rows, from a list of operators known to keep the order."""

import re
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from keysplit.spark.identity.known import names_in
from keysplit.spark.identity.sources import SNAPSHOTS
from keysplit.spark.jvm import explained, is_a, is_connect, items, kind_of, physical_plan_of

# These shuffle internally, without a separate node; a recursive query runs its steps as separate jobs.
_SHUFFLING = ("CollectLimit", "CollectTail", "TakeOrderedAndProject", "UnionLoop")
# These return rows, or one result per row, in the order of the rows that they read.
_KEEPING = names_in(
    """
    ArrowEvalPython ArrowEvalPythonUDTF BatchEvalPython BatchEvalPythonUDTF BatchScan BroadcastHashJoin
    BroadcastNestedLoopJoin CartesianProduct Coalesce CollectMetrics ColumnarToRow CommandResult
    EmptyRelation EventTimeWatermark Expand FileSourceScan Filter Generate HiveTableScan InMemoryTableScan
    InputAdapter LocalLimit LocalTableScan MapInArrow MapInPandas OneRowRelation Project PythonMapInArrow
    RDDScan Range RowToColumnar Sample Sort Union WholeStageCodegen
    """
)
# Types in which values that are equal in a sort are identical.
_TOTALLY_ORDERED = (
    "BinaryType",
    "BooleanType",
    "ByteType",
    "DateType",
    "DecimalType",
    "IntegerType",
    "LongType",
    "ShortType",
    "TimestampNTZType",
    "TimestampType",
)
# Operators in the text of a plan; a scan is followed by its format.
_OPERATOR = re.compile(r"^\(\d+\) ([A-Za-z]\w*)", re.MULTILINE)
_IN_TEXT = frozenset(
    ("AdaptiveSparkPlan", "BroadcastExchange", "LocalRelation", "ReusedExchange", "Scan", "Subquery")
)


def disorder(df: DataFrame, deterministic: bool) -> str | None:
    """Return why a retried task may have its rows in a different order; None if the order is fixed.

    Spark's physical plan decides: a broadcast is not a shuffle.

    Args:
        df: the rows, which are the same in each attempt.
        deterministic: whether row values are the same, too. If so, a sort by all columns restores the order,
            but not on Spark Connect.
    """
    if df.isStreaming:  # the plan of a micro-batch is made when the stream runs
        return "a stream"
    if is_connect(df):
        return disorder_in(explained(df, "formatted"))
    walk = _Walk(deterministic)
    shuffle = walk.plan(physical_plan_of(df))
    return walk.unknown or shuffle


def disorder_in(text: str) -> str | None:
    """Return why rows may arrive in a different order, judging by the server's explain output."""
    for name in _OPERATOR.findall(text):
        if name not in _KEEPING and name not in _IN_TEXT:
            return f"the operator {name}"
    return None


@dataclass
class _Walk:
    """Walks through a physical plan of the JVM."""

    deterministic: bool
    """Whether a sort by all columns restores the order of rows."""
    unknown: str | None = None
    """An operator not known to keep the order of rows."""
    seen: set[int] = field(default_factory=set)

    def plan(self, node: Any) -> str | None:
        """Return a description of a shuffle that affects the order of the result; None if there is none."""
        kind = kind_of(node).removesuffix("Exec")
        if _is_a(node, "sql.execution.exchange.ShuffleExchangeLike"):
            return f"a shuffle ({node.outputPartitioning().toString()})"
        if _is_a(node, "sql.execution.exchange.BroadcastExchangeLike"):
            return None
        if kind == "AdaptiveSparkPlan":
            return self.plan(node.initialPlan())
        if kind == "ReusedExchange":
            return self.plan(node.child())
        if kind == "InMemoryTableScan":
            found = self.plan(node.relation().cachedPlan())
            return found and f"{found} in a cached DataFrame"
        if kind in ("RDDScan", "ExternalRDDScan"):
            return "a shuffle in the lineage of an RDD" if self._in_lineage(node.rdd()) else None
        below = [self.plan(child) for child in items(node.children())]
        found = next((each for each in below if each is not None), None)
        if kind in _SHUFFLING:
            return f"a shuffle ({node.nodeName()})"
        if not self._keeps_order(kind, node) and found is None:
            self.unknown = (
                self.unknown or f"the operator {kind}, which is not known to keep the order of rows"
            )
        return None if self.deterministic and kind == "Sort" and _is_total(node) else found

    def _keeps_order(self, kind: str, node: Any) -> bool:
        if kind == "BatchScan":
            return str(node.table().getClass().getName()).startswith(SNAPSHOTS)
        return kind in _KEEPING

    def _in_lineage(self, root: Any) -> bool:
        rdds = [root]
        while rdds:
            rdd = rdds.pop()
            if rdd.id() in self.seen:
                continue
            self.seen.add(rdd.id())
            for dependency in items(rdd.dependencies()):
                if _is_a(dependency, "ShuffleDependency"):
                    return True
                rdds.append(dependency.rdd())
        return False


def _is_a(node: Any, name: str) -> bool:
    return is_a(node, f"org.apache.spark.{name}")


def _is_total(sort: Any) -> bool:
    """Return whether a sort is by all columns, with types for which equal values are identical."""
    by = {
        order.child().exprId().toString()
        for order in items(sort.sortOrder())
        if kind_of(order.child()) == "AttributeReference"
    }
    return all(
        attribute.exprId().toString() in by
        and (
            kind_of(attribute.dataType()).rstrip("$") in _TOTALLY_ORDERED
            or attribute.dataType().simpleString() == "string"
        )
        for attribute in items(sort.output())
    )
