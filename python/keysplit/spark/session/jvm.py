"""Small steps in the JVM that several parts take."""

import threading
from contextlib import suppress
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass, is_instance_of
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from keysplit.spark.session import versions

PACKAGE = "org.apache.spark.sql.catalyst.expressions."
"""Where the classes of Spark's expressions are."""

_CLASSIC = "org.apache.spark.sql.classic.ExpressionUtils"
_PYTHON = "org.apache.spark.api.python.PythonUtils"
_SETTLED_MS = 10_000
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


def _client() -> Any:
    return SparkContext._active_spark_context._jvm._gateway_client


def plan_of(df: DataFrame) -> Any:
    """Return the plan of a DataFrame as Spark has analysed it, which it does once."""
    found = _plans.get(df)
    if found is None:
        found = _plans[df] = df._jdf.queryExecution().analyzed()
    return found


def dataset(df: DataFrame) -> Any:
    """Return the object of Scala that makes what is behind a DataFrame."""
    package = "org.apache.spark.sql.classic." if versions.has_classic_package(df) else "org.apache.spark.sql."
    return java_object(f"{package}Dataset")


def sequence(*values: Any) -> Any:
    """Return a sequence of Scala of these values."""
    return java_object(_PYTHON).toSeq(list(values))


def items(values: Any) -> list[Any]:
    """Return what is in a sequence of Scala."""
    return [values.apply(at) for at in range(values.size())]


def kind_of(value: Any) -> str:
    """Return the name of a value's class, without the package."""
    return str(value.getClass().getSimpleName())


def is_a(value: Any, name: str) -> bool:
    """Say whether a value is of a class or an interface."""
    return bool(is_instance_of(SparkContext._active_spark_context._gateway, value, name))


def running(spark: SparkSession, query: str) -> Any:
    """Return a streaming query that runs in any session of this driver, as Spark has it.

    Raises:
        LookupError: if there is none with this id.
    """
    # `foreachBatch` gets frames of another session, which knows no queries
    known = spark._jsparkSession.sharedState().activeStreamingQueries()
    found = known.get(java_class("java.util.UUID").fromString(query))
    if found is None:
        raise LookupError(f"the streaming query {query} is not there")
    return found


def settle(spark: SparkSession) -> None:
    """Let Spark work off its events, ten seconds at most."""
    with suppress(Py4JError):  # it has more to say than it can in that time
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_SETTLED_MS)


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
