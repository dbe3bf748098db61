"""Classic sessions: Catalyst's plans and expressions, through py4j."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from keysplit.spark.session import physical, sources
from keysplit.spark.session.interface import Aggregate, Call, Node, Steadiness, tree_of
from keysplit.spark.session.steadiness import Proof

_AGGREGATE = "AggregateExpression"


class Classic:
    """A session in whose JVM we are."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def setting(self, name: str) -> str | None:
        """Return the value of a setting; None if there is none, or if nobody may read it."""
        try:
            value: str | None = self._spark.conf.get(name)
        except (Py4JError, PySparkException):
            return None
        return value

    def steadiness(self, df: DataFrame, trusted: frozenset[str]) -> Steadiness:
        """Prove which columns of a DataFrame have the same values when tasks are retried; run nothing."""
        plan = df._jdf.queryExecution().analyzed()
        try:
            text = plan.toJSON()
        except Py4JError:  # a very deep expression overflows Spark's stack
            why = "a query plan that Spark cannot write down"
            return Steadiness(why, None, why, why, frozenset())
        return Proof(sources.Sources(self._spark, plan).of, trusted).of(text)

    def disorder(self, df: DataFrame) -> str | None:
        """Return why rows may come in another order when a task is retried, None if they do not."""
        # The plan of a micro-batch is made when the stream runs.
        return "a stream" if df.isStreaming else physical.disorder(df)

    def aggregates(self, result: DataFrame, columns: Sequence[Column]) -> list[Aggregate]:
        """Return all aggregates in `columns`, where `result` is `df.groupBy(...).agg(*columns)`."""
        plan = result._jdf.queryExecution().analyzed()
        while plan.getClass().getSimpleName() != "Aggregate":
            plan = plan.children().apply(0)
        # One expression around all of them: they come over in one call.
        around = _catalyst().expressions.Coalesce(plan.aggregateExpressions())
        found = _topmost(tree_of(json.loads(around.toJSON())))
        return [
            Aggregate(node.children[0].name, None, partial(_sql_of_aggregate, around, at))
            for at, node in enumerate(found)
        ]

    def calls(self, result: DataFrame, columns: Sequence[Column]) -> list[Call]:
        """Return each of `columns`, taken apart as an aggregate; `result` as `aggregates`.

        They are read off the plan that Spark has analysed: names are resolved there, and so is `*`.
        """
        plan = result._jdf.queryExecution().analyzed()
        if plan.getClass().getSimpleName() != "Aggregate":
            # Window functions over aggregates stand on top of them.
            return [
                Call(None, None, name, column, column)
                for name, column in zip(result.columns[-len(columns) :], columns, strict=True)
            ]
        expressions = plan.aggregateExpressions()
        last = expressions.size()
        return [_call(expressions.apply(at).child()) for at in range(last - len(columns), last)]


def collation_key(column: Column) -> Column:
    """Return the bytes whose equality is that of a collated string; the expression has no SQL name."""
    return column_of(_catalyst().expressions.CollationKey(expression_of(column)))


def column_of(expression: Any) -> Column:
    """Return the column of an expression of the JVM."""
    kind, sql = type(F.lit(0)), _jvm().org.apache.spark.sql
    if "classic" in kind.__module__:
        return kind(sql.classic.ExpressionUtils.column(expression))
    return kind(sql.Column(expression))  # before Spark 4


def expression_of(column: Column) -> Any:
    """Return the expression of the JVM that is behind a column."""
    sql = _jvm().org.apache.spark.sql
    if "classic" in type(column).__module__:
        return sql.classic.ExpressionUtils.expression(column._jc)
    return column._jc.expr()  # before Spark 4


def _call(call: Any) -> Call:
    whole = column_of(call)
    if call.getClass().getSimpleName() != _AGGREGATE:
        return Call(None, None, call.sql(), whole, whole)
    function = call.aggregateFunction()
    kind = function.getClass().getSimpleName()
    argument = column_of(function.children().apply(0)) if function.children().size() else whole
    if call.filter().isDefined():
        argument = F.when(column_of(call.filter().get()), argument)
    divide = None
    if kind == "Average":
        division = function.evaluateExpression()

        def divide(total: Column, count: Column) -> Column:
            # Spark divides decimals for avg by an expression of its own, which rounds as no other does.
            terms = [expression_of(term) for term in (total, count)]
            sequence = _jvm().PythonUtils.toSeq(terms)
            return column_of(division.falseValue().withNewChildren(sequence))

    return Call(
        kind, function.prettyName(), call.sql(), whole, argument, bool(call.isDistinct()), divide=divide
    )


def _topmost(node: Node) -> Iterator[Node]:
    if node.name == _AGGREGATE:
        yield node
    else:
        for child in node.children:
            yield from _topmost(child)


def _sql_of_aggregate(around: Any, at: int) -> str:
    waiting, found = [around], -1
    while True:
        node = waiting.pop()
        if node.getClass().getSimpleName() == _AGGREGATE:
            found += 1
            if found == at:
                return str(node.sql())
        else:
            children = node.children()
            waiting.extend(children.apply(i) for i in reversed(range(children.size())))


def _catalyst() -> Any:
    return _jvm().org.apache.spark.sql.catalyst


def _jvm() -> Any:
    return SparkContext._active_spark_context._jvm
