"""Small steps in the JVM that several parts take."""

import pickle
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import pyspark
from py4j.java_gateway import JavaClass, is_instance_of
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keysplit.spark import versions

# Expressions that hold a plan.
_HOLDING_PLANS = ("Exists", "LateralSubquery", "ListQuery", "ScalarSubquery")
_CLASSIC = "org.apache.spark.sql.classic.ExpressionUtils"
_PYTHON = "org.apache.spark.api.python.PythonUtils"
_plans: WeakKeyDictionary[DataFrame, Any] = WeakKeyDictionary()
# The gateway that answers this thread at once.
_prompt = threading.local()


def answers_at_once() -> None:
    """Let the JVM send this thread long texts, such as those of plans, without a pause of some 40 ms.

    It sends a text in parts of 8 KB, and TCP holds back the second until the first is acknowledged, which
    the system of this end delays. A setting of the socket does away with the wait.
    """
    gateway = SparkContext._active_spark_context._gateway
    if getattr(_prompt, "gateway", None) is gateway:
        return
    _prompt.gateway = gateway
    with suppress(Py4JError):  # a service may hide py4j's own classes
        connection = gateway.java_gateway_server.getCallbackClient().getPerThreadConnection()
        # Once Spark may call Python, py4j does not know the connections from before.
        if connection is not None:
            connection.getSocket().setTcpNoDelay(True)


def java_class(name: str) -> Any:
    """Return a class of the running session's JVM by its whole name.

    Asked for by `jvm.org.apache...`, Java looks for a class of the name of each package first, in all of
    Spark's jars, and each is a call.
    """
    return JavaClass(name, _client())


def java_object(name: str) -> Any:
    """Return an object of Scala, by the whole name of its class.

    What it is asked for is found in one call: py4j asks first what a name of a class means.
    """
    return _java_object(_client(), name)


@lru_cache(maxsize=64)
def _java_object(client: Any, name: str) -> Any:
    return getattr(JavaClass(f"{name}$", client), "MODULE$")


def values_of(name: str, members: tuple[str, ...]) -> Any:
    """Return a sequence of what an object of Scala, by its whole name, always has under some names."""
    return _values_of(_client(), name, members)


@lru_cache(maxsize=64)
def _values_of(client: Any, name: str, members: tuple[str, ...]) -> Any:
    return sequence(*(getattr(_java_object(client, name), member)() for member in members))


def _client() -> Any:
    return SparkContext._active_spark_context._jvm._gateway_client


def plan_of(df: DataFrame) -> Any:
    """Return the plan of a DataFrame as Spark has analysed it, which it does once."""
    found = _plans.get(df)
    if found is None:
        found = _plans[df] = df._jdf.queryExecution().analyzed()
    return found


def with_plan(df: DataFrame, plan: Any) -> DataFrame:
    """Return a DataFrame that was made of an analysed plan, which is remembered for `plan_of`."""
    _plans[df] = plan
    return df


def dataset(df: DataFrame) -> Any:
    """Return the object of Scala that makes what is behind a DataFrame."""
    package = "org.apache.spark.sql.classic." if versions.has_classic_package(df) else "org.apache.spark.sql."
    return java_object(f"{package}Dataset")


def project(columns: Any, plan: Any) -> Any:
    """Return the projection of a plan to some columns."""
    return java_class("org.apache.spark.sql.catalyst.plans.logical.Project")(columns, plan)


def sequence(*values: Any) -> Any:
    """Return a sequence of Scala of these values."""
    return java_object(_PYTHON).toSeq(list(values))


def one(value: Any) -> Any:
    """Return a sequence of Scala of one value, in one call; from Spark 4.0 on."""
    return java_object("scala.collection.immutable.Nil").appended(value)


def numbers(values: Sequence[int]) -> Any:
    """Return a sequence of Scala of whole numbers, which go over in one call."""
    pickled = java_class("net.razorvine.pickle.Unpickler")().loads(pickle.dumps(list(values), protocol=2))
    return java_object(_PYTHON).toSeq(pickled)


def items(values: Any) -> list[Any]:
    """Return what is in a sequence of Scala."""
    return [values.apply(at) for at in range(values.size())]


def mapped(values: Any, function: Any) -> Any:
    """Return a sequence of what a function of Scala, such as a sequence or a map, makes of each value."""
    if not pyspark.__version__.startswith("3."):
        return values.map(function)
    return values.iterator().map(function).toList()


def zipped(values: Any, others: Any) -> Any:
    """Return a sequence of the pairs of two sequences."""
    if not pyspark.__version__.startswith("3."):
        return values.zip(others)
    return values.iterator().zip(others.iterator()).toList()


def kind_of(value: Any) -> str:
    """Return the name of a value's class, without the package."""
    return str(value.getClass().getSimpleName())


def sums_in(plan: Any) -> Iterator[Any]:
    """Yield the sums and averages in a plan, in its subqueries too."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        kind = kind_of(node)
        if kind in ("Sum", "Average"):
            yield node
        waiting += items(node.children())
        if kind in _HOLDING_PLANS:
            waiting.append(node.plan())
        elif is_a(node, "org.apache.spark.sql.catalyst.plans.QueryPlan"):
            waiting += items(node.expressions())


def mode_of_overflow(call: Any) -> str:
    """Return what a sum or an average does that overflows: "ANSI", "LEGACY" or "TRY"; "" if unknown."""
    with suppress(Py4JError):
        return str(call.evalContext().evalMode().toString())
    with suppress(Py4JError):  # before Spark 4.1
        return str(call.evalMode().toString())
    return ""


def is_a(value: Any, name: str) -> bool:
    """Say whether a value is of a class or an interface."""
    return bool(is_instance_of(SparkContext._active_spark_context._gateway, value, name))


def column_of(expression: Any) -> Column:
    """Return the column of an expression of the JVM."""
    kind = type(F.lit(0))
    if "classic" in kind.__module__:
        return kind(java_class(_CLASSIC).column(expression))
    return kind(java_class("org.apache.spark.sql.Column")(expression))  # before Spark 4


def expression_of(column: Column) -> Any:
    """Return the expression of the JVM that is behind a column."""
    if "classic" in type(column).__module__:
        return java_class(_CLASSIC).expression(column._jc)
    return column._jc.expr()  # before Spark 4
