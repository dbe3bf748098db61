"""Small steps in the JVM that several parts take."""

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F


def jvm() -> Any:
    """Return the JVM of the running session."""
    return SparkContext._active_spark_context._jvm


def items(sequence: Any) -> list[Any]:
    """Return what is in a sequence of Scala."""
    return [sequence.apply(at) for at in range(sequence.size())]


def kind_of(value: Any) -> str:
    """Return the name of a value's class, without the package."""
    return str(value.getClass().getSimpleName())


def column_of(expression: Any) -> Column:
    """Return the column of an expression of the JVM."""
    kind, sql = type(F.lit(0)), jvm().org.apache.spark.sql
    if "classic" in kind.__module__:
        return kind(sql.classic.ExpressionUtils.column(expression))
    return kind(sql.Column(expression))  # before Spark 4


def expression_of(column: Column) -> Any:
    """Return the expression of the JVM that is behind a column."""
    sql = jvm().org.apache.spark.sql
    if "classic" in type(column).__module__:
        return sql.classic.ExpressionUtils.expression(column._jc)
    return column._jc.expr()  # before Spark 4
