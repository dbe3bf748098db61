"""DataFrames of classic sessions made of plans that Spark has analysed, without asking for each column anew.

What PySpark puts on top of a DataFrame with thousands of columns Spark analyses with all of them, several
times over. Here an expression is analysed on the few columns that it reads, and then stands in a projection
of attributes. As nothing is left to analyse in that, Spark does not look through it again.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from keysplit.spark.names import in_sql
from keysplit.spark.session import versions
from keysplit.spark.session.jvm import java_class, kind_of, sequence

_PROJECT = "org.apache.spark.sql.catalyst.plans.logical.Project"
_RELATION = "org.apache.spark.sql.catalyst.plans.logical.LocalRelation"


def with_steps(df: DataFrame, name: str, steps: Sequence[str], reads: Sequence[str]) -> DataFrame:
    """Add a column that is computed in steps; arguments and result are those of `Session.with_steps`."""
    plan = _plan(df)
    parser = df.sparkSession._jsparkSession.sessionState().sqlParser()
    parsed = [_parsed(parser, each, name) for each in steps]
    first = _project(sequence(parsed[0], *(_parsed(parser, each, name) for each in reads)), plan)
    first = _analysed(df, first)
    alias, columns = first.projectList().apply(0), first.references().toSeq()
    narrow = _project(columns.appended(alias), _relation(columns))
    for step in parsed[1:]:
        narrow = _project(columns.appended(step), narrow)
    narrow, aliases = _analysed(df, narrow), []
    for _ in parsed:
        aliases.append(narrow.projectList().last())
        narrow = narrow.child()
    wide, every = plan, plan.output()
    for alias in reversed(aliases):
        wide = _project(every.appended(alias), wide)
    return _frame_of_analysed(df, wide)


def only(rows: DataFrame, df: DataFrame) -> DataFrame | None:
    """Return `rows` with the columns of `df` alone, None if they are not the same columns to Spark."""
    plan, wanted = _plan(rows), _plan(df)
    if not wanted.outputSet().subsetOf(plan.outputSet()):
        return None
    return _frame_of_analysed(df, _project(wanted.output(), plan))


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
    if not below.child().equals(wanted) or not wanted.outputSet().subsetOf(plan.outputSet()):
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


def _parsed(parser: Any, text: str, name: str) -> Any:
    return parser.parseExpression(f"{text} AS {in_sql(name)}")
