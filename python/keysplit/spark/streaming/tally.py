"""Counts and texts that the tasks of a classic session send to the driver as they end.

`DataFrame.observe` would do, but Spark generates no code for it: each row is copied once more, and
aggregates are interpreted. Here the code that Spark generates for a projection calls methods of objects of
Java, of which each task has its own copies. At its first row a task adds them to an accumulator, whose value
Spark sends to the driver as the task ends, with all that they hold by then. What is done for few rows is no
code but one call, of an expression that is interpreted.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keysplit.spark.jvm import (
    PACKAGE,
    answers_at_once,
    column_of,
    expression_of,
    java_class,
    java_object,
    sequence,
)
from keysplit.spark.tasks import BATCH, QUERY

# What a task has sent, as Java writes it: its counts, its query and micro-batch, and its texts.
_SENT = re.compile(r"\[\[([^][]*)\], ([^],]*), ([^],]*), ([^]]*)\]")
_CONCURRENT = "java.util.concurrent."
_TYPES = "org.apache.spark.sql.types."
# What Java writes where there is nothing.
_NONE = "null"


class Sent(NamedTuple):
    """What a task has sent to the driver as it ended.

    A task that Spark runs a second time sends a second time, as Spark's own accumulators do.
    """

    query: str
    """The id of its query."""
    batch: int | None
    """Its micro-batch; None outside of streams."""
    counts: np.ndarray
    """What its counters have counted, int64."""
    fields: list[str]
    """The fields of all rows that it has sent, one row after the other."""


class Tally:
    """What tasks of a classic session count, and rows that they send to the driver as they end.

    Args:
        context: the context of the session.
        counters: how many counters there are.
    """

    def __init__(self, context: SparkContext, counters: int) -> None:
        self._all = context._jsc.sc().collectionAccumulator()
        # after the counts comes the place of the last row that may be sent
        numbers = java_class(f"{_CONCURRENT}atomic.AtomicLongArray")(counters + 1)
        self._numbers, self._counters = _constant(numbers), counters
        self._texts = _constant(java_class("java.lang.StringBuffer")())
        self._sent = java_class(f"{_CONCURRENT}ConcurrentLinkedQueue")()

    def place(self, step: Column) -> tuple[Column, Column]:
        """Return two BIGINTs: one goes up by a step at each evaluation, the other says how far it is.

        Each task begins at 0.
        """
        at = F.lit(self._counters)
        return self._number("addAndGet", at, step), self._number("get", at)

    def note(
        self,
        rows: DataFrame,
        counter: Column,
        may_be_sent: Column,
        values: Sequence[Column],
        sent: Callable[[Sequence[Column]], tuple[Column, Sequence[Column]]],
    ) -> Column:
        """Count a row and maybe send something of it; the column is TRUE whatever there is.

        Args:
            rows: the rows.
            counter: the number of the row's counter, INT.
            may_be_sent: whether anything else is to be computed of the row, as for few of them.
            values: what that takes.
            sent: takes columns of these values, and returns whether the row is sent, and its fields: numbers,
                and texts without spaces, commas and brackets; null is sent as "null".
        """
        first = self._number("incrementAndGet", counter) == F.lit(1)
        named = rows.select(*(value.alias(f"value_{at}") for at, value in enumerate(values)))
        is_sent, fields = sent([F.col(name) for name in named.columns])
        begin = _interpreted(rows, self._begun(), None)
        send = _interpreted(named, ~is_sent | self._has_sent(fields), F.struct(*values))
        return (~first | begin) & (~may_be_sent | send)

    def take(self) -> list[Sent]:
        """Return what tasks that have ended have sent since this was last asked.

        What others send in the same moment may be lost.
        """
        answers_at_once()
        written, taken = "", 0
        while (found := self._all.value()).size() > taken:  # tasks of another query may send meanwhile
            written += str(found.subList(taken, found.size()).toString())
            taken = found.size()
        self._all.reset()
        return [
            Sent(
                query,
                int(batch) if batch != _NONE else None,
                np.array(counts.split(", ")[:-1], np.int64),
                texts.split(" ")[1:],  # also the text of an empty key
            )
            for counts, query, batch, texts in _SENT.findall(written)
        ]

    def _number(self, method: str, *arguments: Column) -> Column:
        return column_of(_call(self._numbers, method, _type("Long"), *map(expression_of, arguments)))

    def _has_sent(self, fields: Sequence[Column]) -> Column:
        """Return TRUE after adding the fields of a row to what the task sends."""
        texts = self._texts
        for field in fields:
            for value in (_constant(" "), expression_of(field)):
                texts = _call(texts, "append", _object("java.lang.StringBuffer"), value)
        return column_of(_call(texts, "length", _type("Integer"))) > F.lit(0)

    def _begun(self) -> Column:
        """Return TRUE after adding what the task sends to the accumulator, if that is not done."""
        sent = _constant(self._sent)
        context = _static("org.apache.spark.TaskContext", "get")
        names = (
            _call(context, "getLocalProperty", _object("java.lang.String"), _constant(name))
            for name in (QUERY, BATCH)
        )
        texts = (
            _static("java.util.Objects", "toString", name, returns=_object("java.lang.String"))
            for name in names
        )
        done = F.lit(True)
        for value in (self._numbers, *texts, self._texts):
            done &= column_of(_call(sent, "add", _type("Boolean"), value))
        # returns nothing
        added = _call(_constant(self._all), "add", _object("java.lang.Object"), sent, nullable=True)
        return ~column_of(_call(sent, "isEmpty", _type("Boolean"))) | (done & F.isnull(column_of(added)))


def task_number() -> Column:
    """Return the number of the partition of a task, INT, without a state as Spark's own."""
    return column_of(_static("org.apache.spark.TaskContext", "getPartitionId", returns=_type("Integer")))


def _interpreted(rows: DataFrame, expression: Column, row: Column | None) -> Column:
    """Return the BOOLEAN that an expression has, for which Spark generates no code but this call.

    The code for a row has to be short: what is in it beyond some size Java compiles badly. And Spark works
    through all of it in each micro-batch.

    Args:
        rows: has the columns that the expression reads.
        expression: the expression.
        row: a struct of these columns; null if it reads none.
    """
    # named, as Spark makes no name of every expression that it can evaluate
    analysed = rows.select(expression.alias("value"))._jdf.queryExecution().analyzed()
    plan = java_class("org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions").apply(analysed)
    names = java_class(f"{PACKAGE}package$AttributeSeq")(plan.child().output())
    found = plan.projectList().head().child()
    bound = java_class(f"{PACKAGE}BindReferences").bindReference(found, names, False)
    none = java_class(f"{PACKAGE}Literal")(None, java_class(f"{_TYPES}StructType")())
    value = none if row is None else expression_of(row)
    constant = _constant(bound, f"{PACKAGE}Expression")
    return column_of(_call(constant, "eval", _type("Boolean"), value, nullable=True))


def random_number(below: Column | None = None) -> Column:
    """Return a random BIGINT, another one for each row: of all, or from 0 on below a number above 0.

    Unlike `rand` it has no seed. Spark gives `rand` another one in each micro-batch and writes that into the
    code it generates, which it then compiles anew.
    """
    bounds = [] if below is None else [expression_of(below)]
    random = _static("java.util.concurrent.ThreadLocalRandom", "current")
    return column_of(_call(random, "nextLong", _type("Long"), *bounds))


def _call(target: Any, method: str, returns: Any, *arguments: Any, nullable: bool = False) -> Any:
    """Return the expression of what a method of an object returns, for each row anew."""
    # a call for null arguments too, whether it may return null, and is deterministic
    how = False, nullable, False
    return java_class(f"{PACKAGE}objects.Invoke")(
        target, method, returns, sequence(*arguments), sequence(), *how
    )


def _static(name: str, method: str, *arguments: Any, returns: Any = None) -> Any:
    """Return the expression of what a static method of a class returns, an object of it if not said."""
    # Spark 4 has one more argument.
    last = [java_object("scala.Option").empty()] if "classic" in type(F.lit(0)).__module__ else []
    how = False, False, False, *last
    type_ = _object(name) if returns is None else returns
    return java_class(f"{PACKAGE}objects.StaticInvoke")(
        _class(name), type_, method, sequence(*arguments), sequence(), *how
    )


def _constant(value: Any, kind: str | None = None) -> Any:
    """Return the expression of an object of Java, of its class or another; each task has its own copy."""
    if kind is None:
        kind = "java.lang.String" if isinstance(value, str) else value.getClass().getName()
    return java_class(f"{PACKAGE}Literal")(value, _object(kind))


def _type(name: str) -> Any:
    return getattr(java_class(f"{_TYPES}DataTypes"), f"{name}Type")


def _object(name: str) -> Any:
    return java_class(f"{_TYPES}ObjectType")(_class(name))


def _class(name: str) -> Any:
    return java_class("java.lang.Class").forName(name)
