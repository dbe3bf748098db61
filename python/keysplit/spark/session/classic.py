"""Columns of classic sessions and the Catalyst expressions behind them, where PySpark has no function."""

from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F


def column(expression: Any) -> Column:
    """Return the column of an expression of the JVM."""
    kind, sql = type(F.lit(0)), jvm().org.apache.spark.sql
    if "classic" in kind.__module__:
        return kind(sql.classic.ExpressionUtils.column(expression))
    return kind(sql.Column(expression))  # before Spark 4


def expression(column: Column) -> Any:
    """Return the expression of the JVM that is behind a column."""
    sql = jvm().org.apache.spark.sql
    if "classic" in type(column).__module__:
        return sql.classic.ExpressionUtils.expression(column._jc)
    return column._jc.expr()  # before Spark 4


def jvm() -> Any:
    """Return the JVM of the active session."""
    from pyspark import SparkContext  # which a client of Spark Connect alone has not

    return SparkContext._active_spark_context._jvm
