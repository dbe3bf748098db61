"""DataFrames of classic sessions made of plans that Spark has analysed, without asking for each column anew.

What PySpark puts on top of a DataFrame with thousands of columns Spark analyses with all of them, several
times over. Here an expression is analysed on the few columns that it reads, and then stands in a projection
of attributes. As nothing is left to analyse in that, Spark does not look through it again.
"""

import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from keysplit.spark.names import in_sql
from keysplit.spark.session import versions
from keysplit.spark.session.expressions import PACKAGE
from keysplit.spark.session.jvm import java_class, kind_of, numbers, sequence

_PROJECT = "org.apache.spark.sql.catalyst.plans.logical.Project"
_RELATION = "org.apache.spark.sql.catalyst.plans.logical.LocalRelation"
_REPARTITION = "org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression"

_QUOTED = re.compile(r"`((?:[^`]|``)*)`")


def with_steps(df: DataFrame, names: Sequence[str], steps: Sequence[str]) -> DataFrame:
    """Add a column that is computed in steps; arguments and result are those of `Session.with_steps`."""
    plan, parser = _plan(df), df.sparkSession._jsparkSession.sessionState().sqlParser()
    every = plan.output()
    # The steps stand side by side, over columns of what they return: Spark looks through all of them at once.
    pairs = zip(steps, names, strict=True)
    parsed = parser.parsePlan("SELECT " + ", ".join(f"{step} AS {in_sql(name)}" for step, name in pairs))
    returned = _attributes(parser, names[:-1])
    relation = _relation(numbers(_read(df, steps)).map(every).appendedAll(returned))
    found = _analysed(df, _project(parsed.projectList(), relation)).projectList()
    for at in range(len(names) - 1):
        plan = _project(every.appended(_as(returned.apply(at), found.apply(at))), plan)
    return _frame_of_analysed(df, _project(every.appended(found.last()), plan))


def placed(df: DataFrame, name: str, partitions: int) -> DataFrame | None:
    """Do as `DataFrame.repartitionById` with the last column, None if it is not called so."""
    plan = _plan(df)
    column = plan.output().last()
    if column.name() != name:
        return None
    number = java_class(f"{PACKAGE}DirectShufflePartitionID")(column)
    option = java_class("scala.Option")
    placing = java_class(_REPARTITION)(sequence(number), plan, option.apply(partitions), option.empty())
    return _frame_of_analysed(df, placing)


def only(rows: DataFrame, df: DataFrame) -> DataFrame | None:
    """Return `rows` with the columns of `df` alone, None if they are not the same columns to Spark."""
    plan, wanted = _plan(rows), _plan(df).output()
    if not plan.output().startsWith(wanted, 0):
        return None
    return _frame_of_analysed(df, _project(wanted, plan))


def aggregated(result: DataFrame, df: DataFrame, rows: DataFrame) -> DataFrame | None:
    """Return an aggregation of `df` as one of `rows`, None if `rows` do not have all columns of `df`."""
    plan, below, path = _plan(rows), _plan(result), []
    while True:
        path.append(below)
        if below.children().size() != 1:
            return None
        if kind_of(below) == "Aggregate":
            break
        below = below.children().apply(0)
    wanted = _plan(df)
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
    return frame(df, plan)


def _analysed(df: DataFrame, plan: Any) -> Any:
    return dataset(df).ofRows(df.sparkSession._jsparkSession, plan).queryExecution().analyzed()


def dataset(df: DataFrame) -> Any:
    """Return the class of the JVM that is behind a DataFrame."""
    package = "org.apache.spark.sql.classic." if versions.has_classic_package(df) else "org.apache.spark.sql."
    return java_class(f"{package}Dataset")


def _plan(df: DataFrame) -> Any:
    return df._jdf.queryExecution().analyzed()


def _project(columns: Any, plan: Any) -> Any:
    return java_class(_PROJECT)(columns, plan)


def _relation(columns: Any) -> Any:
    """Return a relation without rows that has these columns."""
    return java_class(_RELATION).fromExternalRows(columns, sequence())


def _read(df: DataFrame, steps: Sequence[str]) -> list[int]:
    """Return the places of all columns of a DataFrame that steps may read: those whose names are in them."""
    quoted = {name.replace("``", "`").lower() for step in steps for name in _QUOTED.findall(step)}
    return [at for at, name in enumerate(df.columns) if name.lower() in quoted]


def _attributes(parser: Any, names: Sequence[str]) -> Any:
    """Return attributes of these names, BIGINT."""
    schema = parser.parseTableSchema(", ".join(f"{in_sql(name)} BIGINT" for name in names))
    return java_class("org.apache.spark.sql.catalyst.types.DataTypeUtils").toAttributes(schema)


def _as(attribute: Any, alias: Any) -> Any:
    """Return an alias of the same expression that gives the column this attribute."""
    parts = alias.qualifier(), alias.explicitMetadata(), alias.nonInheritableMetadataKeys()
    return java_class(f"{PACKAGE}Alias")(alias.child(), alias.name(), attribute.exprId(), *parts)
