"""DataFrames of classic sessions made of plans that Spark has analysed, without asking for each column anew.

What PySpark puts on top of a DataFrame with thousands of columns Spark analyses with all of them, several
times over. Here an expression is analysed on the few columns that it reads, and then stands in a projection
of attributes. As nothing is left to analyse in that, Spark does not look through it again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame

from keysplit.spark.names import in_sql
from keysplit.spark.session import versions
from keysplit.spark.session.expressions import PACKAGE
from keysplit.spark.session.jvm import java_class, java_object, kind_of, known_as, numbers, plan_of, sequence

_PROJECT = "org.apache.spark.sql.catalyst.plans.logical.Project"
_RELATION = "org.apache.spark.sql.catalyst.plans.logical.LocalRelation"
_REPARTITION = "org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression"

_QUOTED = re.compile(r"`((?:[^`]|``)*)`")


def with_steps(df: DataFrame, names: Sequence[str], steps: Sequence[str]) -> DataFrame:
    """Add a column that is computed in steps; arguments and result are those of `Session.with_steps`."""
    plan, read = plan_of(df), _read(df, steps)
    every = plan.output()
    found = _analysed_steps(df, names, steps, read)
    returned = found.relation.newInstance().output().drop(len(read))
    attributes = numbers(read).map(every).appendedAll(returned)
    expressions = found.over(attributes).projectList()
    for at in range(len(names) - 1):
        step = found.named(at, expressions.apply(at).child(), returned.apply(at).exprId())
        plan = _project(every.appended(step), plan)
    return _frame_of_analysed(df, _project(every.appended(expressions.last().newInstance()), plan))


@dataclass(frozen=True)
class _Steps:
    """Steps as Spark has analysed them, over a relation of what they read and of what the others return."""

    project: Any
    relation: Any
    rests: list[list[Any]]
    """What the alias of each step is made with beside its expression, its name and its number."""
    names: Sequence[str]

    def over(self, attributes: Any) -> Any:
        """Return the projection over other attributes in the place of those of the relation."""
        pairs = self.relation.output().zip(attributes)
        return self.project.rewriteAttrs(java_object(f"{PACKAGE}AttributeMap").apply(pairs))

    def named(self, at: int, expression: Any, number: Any) -> Any:
        """Return an expression under the name of a step and a number."""
        return java_class(f"{PACKAGE}Alias")(expression, self.names[at], number, *self.rests[at])


def _analysed_steps(df: DataFrame, names: Sequence[str], steps: Sequence[str], read: Sequence[int]) -> _Steps:
    """Return steps as Spark analyses them over the columns at some places, or has analysed them before.

    The same words over columns of the same names and types are the same to a session as long as its
    settings are.
    """
    pairs = zip(steps, names, strict=True)
    text = "SELECT " + ", ".join(f"{step} AS {in_sql(name)}" for step, name in pairs)
    spark = df.sparkSession._jsparkSession
    settings = spark.sessionState().conf().settings().toString()
    fields = tuple(df.schema.fields[at] for at in read)
    known = _known(text, tuple(names), fields, spark.sessionUUID(), settings)
    if not known:
        parser = spark.sessionState().sqlParser()
        # The steps stand side by side, over columns of what they return: Spark looks through all at once.
        columns = numbers(read).map(plan_of(df).output()).appendedAll(_attributes(parser, names[:-1]))
        relation = java_object(_RELATION).fromExternalRows(columns, sequence())
        project = _project(parser.parsePlan(text).projectList(), relation)
        project = dataset(df).ofRows(spark, project).queryExecution().analyzed()
        aliases = [project.projectList().apply(at) for at in range(len(names))]
        rests = [
            [each.qualifier(), each.explicitMetadata(), each.nonInheritableMetadataKeys()] for each in aliases
        ]
        known.append(_Steps(project, project.child(), rests, names))
    return known[0]


@lru_cache(maxsize=64)
def _known(*_of: Any) -> list[_Steps]:
    """Return the list for what Spark has made of these steps; it is empty at first."""
    return []


def placed(df: DataFrame, name: str, partitions: int) -> DataFrame | None:
    """Do as `DataFrame.repartitionById` with the last column, None if it is not called so."""
    plan = plan_of(df)
    column = plan.output().last()
    if column.name() != name:
        return None
    number = java_class(f"{PACKAGE}DirectShufflePartitionID")(column)
    option = java_object("scala.Option")
    placing = java_class(_REPARTITION)(sequence(number), plan, option.apply(partitions), option.empty())
    return _frame_of_analysed(df, placing)


def only(rows: DataFrame, df: DataFrame) -> DataFrame | None:
    """Return `rows` with the columns of `df` alone, None if they are not the same columns to Spark."""
    plan, wanted = plan_of(rows), plan_of(df).output()
    if not plan.output().startsWith(wanted, 0):
        return None
    return _frame_of_analysed(df, _project(wanted, plan))


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
    return known_as(frame(df, plan), plan)


def dataset(df: DataFrame) -> Any:
    """Return the object of Scala that makes what is behind a DataFrame."""
    package = "org.apache.spark.sql.classic." if versions.has_classic_package(df) else "org.apache.spark.sql."
    return java_object(f"{package}Dataset")


def _project(columns: Any, plan: Any) -> Any:
    return java_class(_PROJECT)(columns, plan)


def _read(df: DataFrame, steps: Sequence[str]) -> list[int]:
    """Return the places of all columns of a DataFrame that steps may read: those whose names are in them."""
    quoted = {name.replace("``", "`").lower() for step in steps for name in _QUOTED.findall(step)}
    return [at for at, name in enumerate(map(str.lower, df.columns)) if name in quoted]


def _attributes(parser: Any, names: Sequence[str]) -> Any:
    """Return attributes of these names, BIGINT."""
    schema = parser.parseTableSchema(", ".join(f"{in_sql(name)} BIGINT" for name in names))
    return java_object("org.apache.spark.sql.catalyst.types.DataTypeUtils").toAttributes(schema)
