"""The operators and expressions of Spark by which a query may differ when tasks are retried."""

import re
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from keysplit.spark.session.interface import Hazards

# These shuffle inside, without a node of their own; a recursive query runs its steps as jobs of their own.
_SHUFFLING = ("CollectLimitExec", "CollectTailExec", "TakeOrderedAndProjectExec", "UnionLoopExec")
# Of these types two values that a sort finds equal are one value.
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
# In the text of a plan, where an engine may have its own name for an exchange.
_SHUFFLE = re.compile(
    r"\b(?:(?!\w*(?:Broadcast|Reused))\w*Exchange\w*|" + "|".join(_SHUFFLING).replace("Exec", "") + ") "
)
# These choose rows by their order or by chance.
_CHOOSING = ("SampleExec", "LocalLimitExec", "GlobalLimitExec", *_SHUFFLING)
# These run a function of the user over many rows, in the order in which they come.
_IN_PYTHON = (
    *("FlatMapGroupsIn", "FlatMapCoGroupsIn", "MapIn", "PythonMapIn", "WindowInPandas", "ArrowWindow"),
    *("MapPartitions", "MapGroups", "CoGroup"),
)
# Spark's classes for aggregates whose answer depends on which rows a group has, and not on their order.
_ORDERLESS = (
    *("Average", "Sum", "Count", "CountIf", "Max", "Min", "BoolAnd", "BoolOr", "BitAndAgg", "BitOrAgg"),
    *("BitXorAgg", "HyperLogLogPlusPlus", "Median", "Percentile"),
)
_RANDOM = re.compile(
    r"\b(rand|randn|randstr|uniform|uuid|shuffle|monotonically_increasing_id|first|last|any_value|mode|max_by"
    r"|min_by|collect_list|collect_set|listagg|row_number|ntile|lag|lead|nth_value)\("
)
_RUNNING = re.compile(r"\b(sum|count|avg|min|max)\([^)]*\).*?ROWS BETWEEN")


def hazards(df: DataFrame) -> Hazards:
    """Look into the query of a DataFrame of a classic session."""
    execution = df._jdf.queryExecution()
    if df.isStreaming:
        # The plan of a micro-batch is made when the stream runs.
        return Hazards("a stream", _random_below(execution.analyzed()))
    walk = _Walk(df.sparkSession.sparkContext._gateway)
    walk.look.shuffle = walk.plan(execution.executedPlan())
    return walk.look


def hazards_in(text: str, *, streaming: bool) -> Hazards:
    """Look into the text of a query, as Spark Connect's server explains it."""
    exchange = _SHUFFLE.search(text)
    shuffle = f"a shuffle ({exchange.group().strip()})" if exchange else None
    random = _RANDOM.search(text) or _RUNNING.search(text)
    opaque = re.search(r"\w*(?:InPandas|InArrow)\b", text)
    chosen = re.search(r"\b(?:Sample|GlobalLimit|CollectLimit)\b", text)
    look = Hazards(
        "a stream" if streaming else shuffle,
        random and f"{random.group()}...)",
        opaque and opaque.group(),
        chosen and chosen.group(),
    )
    return look if look.shuffle else Hazards(chosen=look.chosen)


def _random_below(plan: Any) -> str | None:
    below = (_random_below(child) for child in _items(plan.children()))
    return _random(plan) or next((found for found in below if found), None)


def _random(node: Any) -> str | None:
    """Return an expression of a node that may answer otherwise when its task runs again, None if none may."""
    return next((each.sql() for each in _items(node.expressions()) if _is_unsteady(each)), None)


@dataclass
class _Walk:
    """Goes through a physical plan of the JVM."""

    gateway: Any
    look: Hazards = field(default_factory=Hazards)
    seen: set[int] = field(default_factory=set)

    def plan(self, node: Any) -> str | None:
        """Return a description of a shuffle whose order reaches the top, None if there is none."""
        kind = node.getClass().getSimpleName()
        if self._is_a(node, "sql.execution.exchange.ShuffleExchangeLike"):
            self._first(self.plan(child) for child in _items(node.children()))
            return f"a shuffle ({node.outputPartitioning().toString()})"
        if self._is_a(node, "sql.execution.exchange.BroadcastExchangeLike"):
            return None
        if kind == "AdaptiveSparkPlanExec":
            return self.plan(node.initialPlan())
        if kind == "ReusedExchangeExec":
            return self.plan(node.child())
        if kind == "InMemoryTableScanExec":
            found = self.plan(node.relation().cachedPlan())
            return found and f"{found} in a cached DataFrame"
        if kind in ("RDDScanExec", "ExternalRDDScanExec"):
            if not self._in_lineage(node.rdd()):
                return None
            self.look.opaque = self.look.opaque or "an RDD"
            return "a shuffle in the lineage of an RDD"
        below = self._first(self.plan(child) for child in _items(node.children()))
        if kind in _SHUFFLING:
            below = f"a shuffle ({node.nodeName()})"
        if kind == "SampleExec" or (below is not None and kind in _CHOOSING):
            self.look.chosen = self.look.chosen or str(node.nodeName())
        if below is None:
            self.look.random = self.look.random or _foreign(node)
            return None
        self.look.random = self.look.random or _random(node)
        if kind.startswith(_IN_PYTHON):
            self.look.opaque = self.look.opaque or str(node.nodeName())
        return None if kind == "SortExec" and _is_total(node) else below

    def _first(self, found: Any) -> str | None:
        return next((each for each in list(found) if each is not None), None)

    def _in_lineage(self, root: Any) -> bool:
        rdds = [root]
        while rdds:
            rdd = rdds.pop()
            if rdd.id() in self.seen:
                continue
            self.seen.add(rdd.id())
            for dependency in _items(rdd.dependencies()):
                if self._is_a(dependency, "ShuffleDependency"):
                    return True
                rdds.append(dependency.rdd())
        return False

    def _is_a(self, node: Any, name: str) -> bool:
        from py4j.java_gateway import is_instance_of

        return bool(is_instance_of(self.gateway, node, f"org.apache.spark.{name}"))


def _is_unsteady(expression: Any) -> bool:
    """Say whether its value depends on the order of rows that come out of a shuffle."""
    kind = expression.getClass().getSimpleName()
    if kind == "AggregateExpression":
        function = expression.aggregateFunction()
        name = function.getClass().getSimpleName()
        # a sum of doubles depends on the order of its terms
        floats = any(_is_float(child) for child in _items(function.children()))
        return name not in _ORDERLESS or (floats and name in ("Average", "Sum"))
    if kind == "Alias":
        return _is_unsteady(expression.child())
    if kind == "WindowExpression":
        function, sql = expression.windowFunction(), expression.sql()
        if function.getClass().getSimpleName() != "AggregateExpression":
            return _RANDOM.search(sql) is not None
        whole = "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING" in sql
        return _is_unsteady(function) or ("ROWS BETWEEN" in sql and not whole)
    return not expression.deterministic()


def _foreign(node: Any) -> str | None:
    """Return an expression of a node with a function of the user that Spark is told not to trust."""
    return next((each.sql() for each in _items(node.expressions()) if _is_foreign(each)), None)


def _is_foreign(expression: Any) -> bool:
    if expression.deterministic():
        return False
    kind = expression.getClass().getSimpleName()
    return kind in ("PythonUDF", "ScalaUDF") or any(
        _is_foreign(each) for each in _items(expression.children())
    )


def _is_float(expression: Any) -> bool:
    return expression.dataType().catalogString() in ("float", "double")


def _is_total(sort: Any) -> bool:
    """Say whether no two different rows are equal to a sort: it is by all columns, of steady types."""
    by = {
        order.child().exprId().toString()
        for order in _items(sort.sortOrder())
        if order.child().getClass().getSimpleName() == "AttributeReference"
    }
    return all(
        attribute.exprId().toString() in by
        and (
            attribute.dataType().getClass().getSimpleName().rstrip("$") in _TOTALLY_ORDERED
            or attribute.dataType().simpleString() == "string"
        )
        for attribute in _items(sort.output())
    )


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]
