"""Counts and texts that the tasks of a classic session send to the driver when they end.

`DataFrame.observe` would work, but Spark generates no code for it: each row is copied again, and aggregates
are interpreted. Here the generated code of a projection calls methods of Java objects, and each task has its
own copies. At its first row a task adds these objects to an accumulator. When the task ends, Spark sends the
accumulator to the driver, with the final contents of the objects. Work for few rows is a single call of an
interpreted expression.
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
    plan_of,
    sequence,
)
from keysplit.spark.tasks import BATCH, QUERY

# A task's message as Java writes it: its counts, its query and micro-batch, and its texts.
_SENT = re.compile(r"\[\[([^][]*)\], ([^],]*), ([^],]*), ([^]]*)\]")
_CONCURRENT = "java.util.concurrent."
_TYPES = "org.apache.spark.sql.types."
# What Java writes for null.
_NONE = "null"


class Sent(NamedTuple):
    """The message of a task to the driver at its end.

    A task that Spark runs twice sends two messages, as with Spark's own accumulators.
    """

    query: str
    """The id of the task's query."""
    batch: int | None
    """The task's micro-batch; None outside of streams."""
    counts: np.ndarray
    """The counts of the task's counters, int64."""
    fields: list[str]
    """The fields of all rows that the task has sent, one row after another."""


class Tally:
    """Counts by the tasks of a classic session, and rows that tasks send to the driver when they end.

    Args:
        context: the context of the session.
        counters: the number of counters.
    """

    def __init__(self, context: SparkContext, counters: int) -> None:
        self._all = context._jsc.sc().collectionAccumulator()
        # after the counts follows the place of the last candidate row
        numbers = java_class(f"{_CONCURRENT}atomic.AtomicLongArray")(counters + 1)
        self._numbers, self._counters = _constant(numbers), counters
        self._texts = _constant(java_class("java.lang.StringBuffer")())
        self._sent = java_class(f"{_CONCURRENT}ConcurrentLinkedQueue")()

    def place(self, step: Column) -> tuple[Column, Column]:
        """Return two BIGINT columns: one adds a step to a counter at each evaluation, the other reads it.

        In each task the counter begins at 0.
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
        """Count a row, and perhaps send some of its values; the column is always TRUE.

        Args:
            rows: the rows.
            counter: the number of the row's counter, INT.
            may_be_sent: whether the row is a candidate; few rows are.
            values: the columns needed for candidates.
            sent: takes columns with these values, and returns whether the row is sent, and the fields to
                send: numbers, and texts without spaces, commas and brackets; null is sent as "null".
        """
        first = self._number("incrementAndGet", counter) == F.lit(1)
        named = rows.select(*(value.alias(f"value_{at}") for at, value in enumerate(values)))
        is_sent, fields = sent([F.col(name) for name in named.columns])
        begin = _interpreted(rows, self._begun(), None)
        send = _interpreted(named, ~is_sent | self._has_sent(fields), F.struct(*values))
        return (~first | begin) & (~may_be_sent | send)

    def take(self) -> list[Sent]:
        """Return the messages of finished tasks since the last call.

        Messages that tasks send at the same moment may be lost.
        """
        answers_at_once()
        written, taken = "", 0
        while (found := self._all.value()).size() > taken:  # tasks of another query may send in the meantime
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
        """Return TRUE after adding the fields of a row to the task's message."""
        texts = self._texts
        for field in fields:
            for value in (_constant(" "), expression_of(field)):
                texts = _call(texts, "append", _object("java.lang.StringBuffer"), value)
        return column_of(_call(texts, "length", _type("Integer"))) > F.lit(0)

    def _begun(self) -> Column:
        """Return TRUE after adding the task's message to the accumulator, unless done already."""
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
    """Return the number of a task's partition, INT; unlike Spark's own expression, it has no state."""
    return column_of(_static("org.apache.spark.TaskContext", "getPartitionId", returns=_type("Integer")))


def _interpreted(rows: DataFrame, expression: Column, row: Column | None) -> Column:
    """Return the BOOLEAN of an expression that Spark interprets by a single call, without generated code.

    The code for a row must be short: Java compiles long code badly, and Spark processes it in each
    micro-batch.

    Args:
        rows: the rows with the columns that the expression reads.
        expression: the expression.
        row: a struct of these columns; null if the expression reads none.
    """
    # with a name, as Spark cannot name every expression that it can evaluate
    analysed = plan_of(rows.select(expression.alias("value")))
    plan = java_class("org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions").apply(analysed)
    names = java_class(f"{PACKAGE}package$AttributeSeq")(plan.child().output())
    found = plan.projectList().head().child()
    bound = java_class(f"{PACKAGE}BindReferences").bindReference(found, names, False)
    none = java_class(f"{PACKAGE}Literal")(None, java_class(f"{_TYPES}StructType")())
    value, constant = none if row is None else expression_of(row), _constant(bound, f"{PACKAGE}Expression")
    return column_of(_call(constant, "eval", _type("Boolean"), value, nullable=True))


def random_number(below: Column | None = None) -> Column:
    """Return a random BIGINT per row: any number, or at least 0 and below a given positive number.

    Unlike `rand`, it has no seed. Spark gives `rand` a new seed in each micro-batch, writes the seed into the
    generated code, and compiles the code again.
    """
    bounds = [] if below is None else [expression_of(below)]
    random = _static("java.util.concurrent.ThreadLocalRandom", "current")
    return column_of(_call(random, "nextLong", _type("Long"), *bounds))


def _call(target: Any, method: str, returns: Any, *arguments: Any, nullable: bool = False) -> Any:
    """Return the expression of a method call on an object, evaluated for each row."""
    # also called for null arguments; whether it may return null; whether it is deterministic
    how = False, nullable, False
    return java_class(f"{PACKAGE}objects.Invoke")(
        target, method, returns, sequence(*arguments), sequence(), *how
    )


def _static(name: str, method: str, *arguments: Any, returns: Any = None) -> Any:
    """Return the expression of a static method call, which returns an object of the class by default."""
    # Spark 4 has another argument.
    last = [java_object("scala.Option").empty()] if "classic" in type(F.lit(0)).__module__ else []
    how = False, False, False, *last
    type_ = _object(name) if returns is None else returns
    return java_class(f"{PACKAGE}objects.StaticInvoke")(
        _class(name), type_, method, sequence(*arguments), sequence(), *how
    )


def _constant(value: Any, kind: str | None = None) -> Any:
    """Return the expression of a Java object, typed as its class or as given; each task has a copy."""
    if kind is None:
        kind = "java.lang.String" if isinstance(value, str) else value.getClass().getName()
    return java_class(f"{PACKAGE}Literal")(value, _object(kind))


def _type(name: str) -> Any:
    return getattr(java_class(f"{_TYPES}DataTypes"), f"{name}Type")


def _object(name: str) -> Any:
    return java_class(f"{_TYPES}ObjectType")(_class(name))


def _class(name: str) -> Any:
    return java_class("java.lang.Class").forName(name)
