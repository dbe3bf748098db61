"""Spark Connect: the client's own expressions, and what the server says of its plans."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.functions import PythonEvalType

from keysplit.spark.session import physical, relations
from keysplit.spark.session.interface import Aggregate, Call, Steadiness

_PYTHON_AGGREGATES = [
    value for name, value in vars(PythonEvalType).items() if name.startswith("SQL_GROUPED_AGG")
]


class Connect:
    """A session of Spark Connect."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def setting(self, name: str) -> str | None:
        """Return the value of a setting; None if there is none, or if nobody may read it."""
        try:
            value: str | None = self._spark.conf.get(name)
        except PySparkException:
            return None
        return value

    def steadiness(self, df: DataFrame, trusted: frozenset[str]) -> Steadiness:
        """Prove which columns of a DataFrame have the same values when tasks are retried; run nothing."""
        plan = df._plan.to_proto(df.sparkSession._client).root
        return relations.Proof(trusted).of(plan, df.schema)

    def disorder(self, df: DataFrame) -> str | None:
        """Return why rows may come in another order when a task is retried, None if they do not."""
        return "a stream" if df.isStreaming else physical.disorder_in(df._explain_string(mode="formatted"))

    def aggregates(self, result: DataFrame, columns: Sequence[Column]) -> list[Aggregate]:
        """Return all aggregates in `columns`, and other functions, too: only the server tells them apart."""
        result.schema  # noqa: B018  Spark Connect looks at a query only when it is asked
        return [each for column in columns for node in _nodes(column._expr) for each in _called(node)]

    def calls(self, result: DataFrame, columns: Sequence[Column]) -> list[Call]:
        """Return each of `columns`, taken apart as an aggregate; `result` as `aggregates`."""
        return [
            _call(column, name) for column, name in zip(columns, result.columns[-len(columns) :], strict=True)
        ]


def _called(node: Any) -> Iterator[Aggregate]:
    text = getattr(node, "_expr", None)
    if isinstance(text, str):  # of SQL
        for name in re.findall(r"(\w+)\s*\(", text):
            yield Aggregate(None, name.lower(), lambda: text)
    elif getattr(node, "_name", None):
        yield Aggregate(None, str(node._name).lower(), lambda: str(node))
    if getattr(getattr(node, "_function", None), "_eval_type", None) in _PYTHON_AGGREGATES:
        yield Aggregate(None, None, lambda: str(node))


def _call(column: Column, name: str) -> Call:
    call = column._expr
    while type(call).__name__ == "ColumnAlias":
        call = getattr(call, "_child", None) or call._parent
    opaque = type(call).__name__ == "SQLExpression"
    if type(call).__name__ != "UnresolvedFunction" or not call._args:
        return Call(None, None, name, column, column, opaque=opaque)
    whole, argument = type(column)(call), type(column)(call._args[0])
    nested = any(type(each).__name__ == "UnresolvedFunction" for each in call._args)
    return Call(None, call._name, name, whole, argument, call._is_distinct, nested=nested)


def _nodes(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _nodes(each)
    elif type(value).__module__ == "pyspark.sql.connect.expressions":
        yield value
        yield from _nodes(list(vars(value).values()))
