"""Looks at a query for what would make it inexact when Spark runs a task again, and runs nothing.

Online mode decides by the order of rows, and the blocks of a shuffle arrive in any order. A plan decides by
the values of rows, and a random number drawn above a shuffle falls to another row each time. Rows would be
lost or doubled without an error. This file looks into plans, cached plans and the lineage of RDDs.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from keysplit.spark.options import is_connect

CHECKSUMS = [
    f"spark.sql.shuffle.orderIndependentChecksum.{name}" for name in ("enabled", "enableFullRetryOnMismatch")
]
"""With both settings Spark notices that a task which ran again gave other rows; on from Spark 4.2 on."""

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


def refuse_shuffle(df: DataFrame) -> None:
    """Raise ValueError if rows may reach a router in another order when its task runs again.

    A broadcast is no shuffle: it is fetched once and kept. A checkpoint cuts what is below it off. A sort by
    all columns gives the rows their order back, as far as it can be told.

    Args:
        df: a DataFrame that `route` made, before anything was put on top of it.

    Raises:
        ValueError: if there is a shuffle; the message names it and the remedy.
    """
    shuffle = _look(df).shuffle
    if shuffle is not None:
        raise ValueError(
            f"mode 'online' is exact only without a shuffle below, got {shuffle}: take mode 'planned', "
            "or sort within partitions by all columns, or call df.checkpoint() before, or write df and read "
            "it back, or pass allow_inexact=True"
        )


def rolls_back(df: DataFrame) -> bool:
    """Say whether Spark sees that a task which ran again gave other rows, and runs all that read them again.

    From Spark 4.2 on a shuffle keeps checksums that do not depend on the order of rows. Where they differ,
    Spark runs the stages above again from their start, or stops the job if it has handed out results. What
    ends in a shuffle of its own, as an aggregate by key does, is exact then, or stopped.
    """
    from py4j.protocol import Py4JJavaError  # which a client of Spark Connect alone has not

    try:
        return all(df.sparkSession.conf.get(name) == "true" for name in CHECKSUMS)
    except (Py4JJavaError, PySparkException):  # before Spark 4.1 there are no such settings
        return False


def refuse_unsteady(df: DataFrame) -> None:
    """Raise ValueError if values of rows may be others when a task runs again.

    Args:
        df: the rows whose identity is to be all of their columns.

    Raises:
        ValueError: if above a shuffle there is something random, or an aggregate or window function whose
            answer depends on the order of rows.
    """
    look = _look(df)
    found = look.random or look.opaque
    if found is not None:
        raise ValueError(
            f"row_id must be given: df has a value that may be another one when a task runs again, {found}; "
            "name columns that tell rows apart without it, or call df.checkpoint() before"
        )


def refuse_unsteady_id(df: DataFrame) -> None:
    """Raise ValueError if a value in the columns that `row_id` names may be another one the second time.

    Args:
        df: these columns alone.

    Raises:
        ValueError: as `refuse_unsteady`; functions of the user are trusted here.
    """
    found = _look(df).random
    if found is not None:
        raise ValueError(
            f"row_id must name values that come again when a task runs again, got {found}: "
            "name other columns, or call df.checkpoint() before"
        )


def refuse_unrepeatable(df: DataFrame, why: str) -> None:
    """Raise ValueError if a DataFrame that is read twice may have other rows or values the second time."""
    look = _look(df)
    found = look.random or look.opaque or look.chosen
    if found is not None:
        raise ValueError(
            f"df must have the same rows each time that it is read, {why}, got {found}: "
            "call df.checkpoint() before"
        )


def shuffles(df: DataFrame) -> bool:
    """Say whether the rows come out of a shuffle, or of a stream, which may have one below."""
    return _look(df).shuffle is not None


@dataclass
class _Look:
    """What was found first of each kind, in words."""

    shuffle: str | None = None
    """A shuffle whose order reaches the top."""
    random: str | None = None
    """A value that depends on the order of rows above a shuffle, or on chance."""
    opaque: str | None = None
    """A function of the user over rows that come out of a shuffle."""
    chosen: str | None = None
    """A choice of rows by chance, or by their order above a shuffle."""


def _look(df: DataFrame) -> _Look:
    if is_connect(df):
        # Only this form of a plan cuts no list of expressions short.
        text = df._explain_string(mode="formatted")
        exchange = _SHUFFLE.search(text)
        shuffle = f"a shuffle ({exchange.group().strip()})" if exchange else None
        random = _RANDOM.search(text) or _RUNNING.search(text)
        opaque = re.search(r"\w*(?:InPandas|InArrow)\b", text)
        chosen = re.search(r"\b(?:Sample|GlobalLimit|CollectLimit)\b", text)
        look = _Look(
            "a stream" if df.isStreaming else shuffle,
            random and f"{random.group()}...)",
            opaque and opaque.group(),
            chosen and chosen.group(),
        )
        return look if look.shuffle else _Look(chosen=look.chosen)
    execution = df._jdf.queryExecution()
    if df.isStreaming:
        # The plan of a micro-batch is made when the stream runs.
        return _Look("a stream", _random_below(execution.analyzed()))
    walk = _Walk(df.sparkSession.sparkContext._gateway)
    walk.look.shuffle = walk.plan(execution.executedPlan())
    return walk.look


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
    look: _Look = field(default_factory=_Look)
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
        from py4j.java_gateway import is_instance_of  # which a client of Spark Connect alone has not

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
