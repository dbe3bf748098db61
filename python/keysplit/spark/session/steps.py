"""Steps of SQL as Spark analyses them, which the next query of a session may use again.

To parse and to analyse what a plan says of a row takes longer than all else in a query. What comes of it is
used again only where all that it depends on is known to be the same; else it is made anew. The tables of a
plan are texts, which are put in afterwards: so it is the same for most plans.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from keysplit.spark.names import in_sql
from keysplit.spark.session.expressions import PACKAGE
from keysplit.spark.session.jvm import dataset, items, java_class, java_object, project, sequence, zipped

_RELATION = "org.apache.spark.sql.catalyst.plans.logical.LocalRelation"
_TYPES = "org.apache.spark.sql.catalyst.types.DataTypeUtils"

# Expressions of Spark's own that depend on nothing but what they are made of. In a session a function of the
# user may have the name of one of Spark's, and may be gone in the next query.
_KNOWN = frozenset(
    PACKAGE + name
    for name in (
        "Add",
        "Alias",
        "AttributeReference",
        "BitwiseAnd",
        "CaseWhen",
        "Cast",
        "Coalesce",
        "EqualTo",
        "Get",
        "GetArrayItem",
        "GreaterThanOrEqual",
        "If",
        "IsNull",
        "LessThan",
        "Literal",
        "Multiply",
        "ShiftLeft",
        "ShiftRightUnsigned",
        "StringSplit",
        "Subtract",
        "XxHash64",
    )
)
# Between the parts of a path: which column it begins with, or which alias, only the DataFrame says.
_PATH = re.compile(r"`\s*\.\s*`")


_sessions: WeakKeyDictionary[SparkSession, tuple[str, Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Steps:
    """Steps that Spark has analysed, each of which reads some columns and what the steps before return.

    Attributes:
        made: a projection of all of them, over `relation`.
        relation: has what they read, behind that what all of them but the last return, and then texts.
        columns: its columns without the texts.
        texts: the texts, as columns.
        read: how many of the columns are read.
        names: the names of all steps but the last.
        rests: what the alias of each of these is made with beside its expression, its name and its number.
    """

    made: Any
    relation: Any
    columns: Any
    texts: Sequence[Any]
    read: int
    names: Sequence[str]
    rests: Sequence[Sequence[Any]]

    def reading(self, texts: Sequence[str]) -> "Steps":
        """Return the steps with literals in the places of the texts."""
        found = java_object("scala.collection.immutable.Map").empty()
        for column, text in zip(self.texts, texts, strict=True):
            literal = java_object(f"{PACKAGE}Literal").create(text, column.dataType())
            found = found.updated(column, literal)
        # a map is a function that is defined for what is in it
        return replace(self, made=self.made.transformExpressions(found))

    def over(self, columns: Any) -> list[Any]:
        """Return the steps over other columns, the same ones of another DataFrame, with new numbers."""
        returned = self.relation.newInstance().output().slice(self.read, self.columns.size())
        pairs = zipped(self.columns, columns.appendedAll(returned))
        found = self.made.rewriteAttrs(java_object(f"{PACKAGE}AttributeMap").apply(pairs)).projectList()
        between = [
            java_class(f"{PACKAGE}Alias")(found.apply(at).child(), name, returned.apply(at).exprId(), *rest)
            for at, (name, rest) in enumerate(zip(self.names, self.rests, strict=True))
        ]
        return [*between, found.last().newInstance()]


def analysed_steps(
    df: DataFrame, names: Sequence[str], steps: Sequence[str], texts: Mapping[str, str], columns: Any
) -> Steps:
    """Return steps as Spark analyses them over some columns of a DataFrame, or has analysed them before.

    Args:
        df: the DataFrame.
        names: the names of what the steps return.
        steps: the steps, in SQL.
        texts: the texts that they read, by their names.
        columns: the attributes of all columns that the steps may read.
    """
    pairs = zip(steps, names, strict=True)
    text = "SELECT " + ", ".join(f"{step} AS {in_sql(name)}" for step, name in pairs)
    schema = str(java_object(_TYPES).fromAttributes(columns).json())
    read = tuple(texts.values())
    if _PATH.search(text) or not _are_apart([field["name"] for field in json.loads(schema)["fields"]]):
        return _analysed(df, names, text, columns, tuple(texts)).reading(read)
    session, settings = _session(df.sparkSession)
    of = text, tuple(names), tuple(texts), schema, session, str(settings.toString())
    kept, with_texts = _kept(*of), _kept(*of, read)
    if with_texts.steps is not None:
        return with_texts.steps
    if kept.steps is None:
        found = _analysed(df, names, text, columns, tuple(texts))
        # To look at all expressions takes long, too: not for a query that is built once.
        if not kept.was_asked_for or not _is_known(found):
            kept.was_asked_for = True
            return found.reading(read)
        kept.steps = found
    with_texts.steps = kept.steps.reading(read)
    return with_texts.steps


@dataclass
class _Kept:
    """What Spark makes of a text, if it was asked for twice."""

    steps: Steps | None = None
    was_asked_for: bool = False


@lru_cache(maxsize=128)
def _kept(*_of: str | tuple[str, ...]) -> _Kept:
    """Return the place of what Spark makes of steps, of columns and of settings, and of texts in these steps.

    A function that fills it would need the DataFrame, which must not be kept. A query has two or four of
    them, so there is room for some dozens.
    """
    return _Kept()


def _session(spark: SparkSession) -> tuple[str, Any]:
    """Return the name of a session and the map of its settings, which it has for life."""
    found = _sessions.get(spark)
    if found is None:
        session = spark._jsparkSession
        settings = session.sessionState().conf().settings()
        found = _sessions[spark] = str(session.sessionUUID()), settings
    return found


def _are_apart(names: Sequence[str]) -> bool:
    """Say whether names are different ones to a session, however it minds the case of letters."""
    return len({name.lower() for name in names}) == len(names)


def _is_known(steps: Steps) -> bool:
    """Say whether all expressions in steps are Spark's own."""
    # One expression around all of them: they come over in one call.
    around = java_class(f"{PACKAGE}Coalesce")(steps.made.projectList())
    return {node["class"] for node in json.loads(str(around.toJSON()))} <= _KNOWN


def _analysed(df: DataFrame, names: Sequence[str], text: str, columns: Any, texts: Sequence[str]) -> Steps:
    spark = df.sparkSession._jsparkSession
    parser = spark.sessionState().sqlParser()
    # The steps stand side by side, over columns of what they return: Spark looks through all of them at once.
    more = [f"{in_sql(name)} BIGINT" for name in names[:-1]]
    more += [f"{in_sql(name)} STRING NOT NULL" for name in texts]
    schema = parser.parseTableSchema(", ".join(more))
    every = columns.appendedAll(java_object(_TYPES).toAttributes(schema))
    relation = java_object(_RELATION).fromExternalRows(every, sequence())
    made = project(parser.parsePlan(text).projectList(), relation)
    made = dataset(df).ofRows(spark, made).queryExecution().analyzed()
    aliases = [made.projectList().apply(at) for at in range(len(names) - 1)]
    rests = [
        (each.qualifier(), each.explicitMetadata(), each.nonInheritableMetadataKeys()) for each in aliases
    ]
    relation = made.child()
    read, every = columns.size(), relation.output()
    columns, last = every.dropRight(len(texts)), every.takeRight(len(texts))
    return Steps(made, relation, columns, items(last), read, names[:-1], rests)
