"""DataFrames of classic sessions made of plans that Spark has analysed, without asking for each column anew.

What PySpark puts on top of a DataFrame with thousands of columns Spark analyses with all of them, several
times over. Here an expression is analysed on the few columns that it reads, and then stands in a projection
of attributes. As nothing is left to analyse in that, Spark does not look through it again.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from keysplit.spark.session.expressions import PACKAGE
from keysplit.spark.session.jvm import (
    dataset,
    java_class,
    java_object,
    kind_of,
    mapped,
    numbers,
    one,
    plan_of,
    project,
    sequence,
    with_plan,
)
from keysplit.spark.session.steps import analysed_steps

_REPARTITION = "org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression"

_QUOTED = re.compile(r"`((?:[^`]|``)*)`")


def with_steps(
    df: DataFrame,
    names: Sequence[str],
    steps: Sequence[str],
    texts: Mapping[str, str],
    partitions: int | None,
    keep: bool,
) -> DataFrame:
    """Add a column that is computed in steps; arguments and result are those of `Session.with_steps`."""
    plan = plan_of(df)
    every = plan.output()
    read = mapped(numbers(_read(df, steps)), every)
    *between, last = analysed_steps(df, names, steps, texts, read).over(read)
    for step in between:
        plan = project(every.appended(step), plan)
    plan = project(every.appended(last), plan)
    if partitions is not None:
        plan = _moved(plan, last.toAttribute(), partitions)
        plan = plan if keep else project(every, plan)
    return _frame_of_analysed(df, plan)


def placed(df: DataFrame, name: str, partitions: int, keep: bool) -> DataFrame | None:
    """Do as `Session.placed` with the last column, None if it is not called so."""
    plan = plan_of(df)
    columns = plan.output()
    column = columns.last()
    if column.name() != name:
        return None
    plan = _moved(plan, column, partitions)
    return _frame_of_analysed(df, plan if keep else project(columns.dropRight(1), plan))


def _moved(plan: Any, number: Any, partitions: int) -> Any:
    """Return a plan that moves each row into the partition whose number an attribute has."""
    number = java_class(f"{PACKAGE}DirectShufflePartitionID")(number)
    count = java_object("scala.Option").apply(partitions)
    return java_class(_REPARTITION)(one(number), plan, count, java_object("scala.None"))


def only(rows: DataFrame, df: DataFrame) -> DataFrame | None:
    """Return `rows` with the columns of `df` alone, None if they are not the same columns to Spark."""
    plan, wanted = plan_of(rows), plan_of(df).output()
    if not plan.output().startsWith(wanted, 0):
        return None
    return _frame_of_analysed(df, project(wanted, plan))


def aggregated(result: DataFrame, df: DataFrame, rows: DataFrame) -> DataFrame | None:
    """Return an aggregation of `df` as one of `rows`, None if `rows` do not have all columns of `df`."""
    plan, below, path = plan_of(rows), plan_of(result), []
    while True:
        path.append(below)
        if below.children().size() != 1:
            return None
        if kind_of(below) == "Aggregate":
            break
        below = below.children().apply(0)
    wanted = plan_of(df)
    if not below.child().equals(wanted) or not plan.output().startsWith(wanted.output(), 0):
        return None
    for each in reversed(path):
        plan = each.withNewChildren(sequence(plan))
    return _frame_of_analysed(df, plan)


def frame(df: DataFrame, plan: Any) -> DataFrame:
    """Return a plan as a DataFrame of the session of another one."""
    spark = df.sparkSession
    return type(df)(dataset(df).ofRows(spark._jsparkSession, plan), spark)


def _frame_of_analysed(df: DataFrame, plan: Any) -> DataFrame:
    """Do as `frame`, for a plan all of whose expressions Spark has analysed, on columns of the same types."""
    plan.setAnalyzed()
    return with_plan(frame(df, plan), plan)


def _read(df: DataFrame, steps: Sequence[str]) -> list[int]:
    """Return the places of all columns of a DataFrame that steps may read: those whose names are in them."""
    quoted = {name.replace("``", "`").lower() for step in steps for name in _QUOTED.findall(step)}
    return [at for at, name in enumerate(map(str.lower, df.columns)) if name in quoted]
