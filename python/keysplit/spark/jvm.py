"""Private calls of Spark for batch jobs, in classic sessions and on Spark Connect.

Each function says what Spark Connect lacks. Code that reads a plan of the JVM does it by `plan_of`, `items`,
`kind_of` and similar functions; what only streams need is in `streaming/engine.py`.
"""

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.java_gateway import JavaClass, is_instance_of
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from keysplit.spark import versions

PACKAGE = "org.apache.spark.sql.catalyst.expressions."
"""The package of Spark's expression classes."""

JvmError = Py4JError
"""What a JVM call raises, for instance if a very deep expression overflows the JVM's stack."""

Setting = Callable[[str], str | None]
"""Returns the value of a session's setting; None if there is none, or if it cannot be read."""

_CLASSIC = "org.apache.spark.sql.classic.ExpressionUtils"
_PYTHON = "org.apache.spark.api.python.PythonUtils"
_PYTHON_SQL = "org.apache.spark.sql.api.python.PythonSQLUtils"
_OF_CONNECT = "pyspark.sql.connect"
_SETTLED_MS = 10_000
# Masters with all tasks in the driver.
_LOCAL = re.compile(r"local(\[.*\])?")
# The settings that operations read: a Spark Connect server gets one request for all of them.
_READ_TOGETHER = (
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.caseSensitive",
    "spark.sql.columnNameOfCorruptRecord",
    "spark.sql.execution.arrow.useLargeVarTypes",
    "spark.sql.execution.pandas.convertToArrowArraySafely",
    "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled",
    "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype",
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName",
    "spark.sql.session.timeZone",
)

_plans: WeakKeyDictionary[DataFrame, Any] = WeakKeyDictionary()
# They do not change while Spark runs.
_slots: WeakKeyDictionary[SparkContext, int | None] = WeakKeyDictionary()
# The gateway that answers this thread without delay.
_prompt = threading.local()


def is_connect(value: Any) -> bool:
    """Return whether a session, DataFrame, Column or query is of Spark Connect, where there is no JVM."""
    return type(value).__module__.startswith(_OF_CONNECT)


def is_session(value: Any) -> bool:
    """Return whether `value` is a session; before Spark 4, Connect has a separate class."""
    return isinstance(value, SparkSession) or (is_connect(value) and type(value).__name__ == "SparkSession")


def is_data_frame(value: Any) -> bool:
    """Return whether `value` is a DataFrame; before Spark 4, Connect has a separate class."""
    return isinstance(value, DataFrame) or (is_connect(value) and hasattr(value, "sparkSession"))


def is_stopped(spark: Any) -> bool:
    """Return whether a session was stopped."""
    if is_connect(spark):
        return bool(spark.is_stopped)
    return spark.sparkContext._jsc is None


def slots(df: DataFrame) -> int | None:
    """Return how many tasks can run at once; None if this may change or is unknown, as on Connect.

    It is known only in local mode: elsewhere executors may come and go.
    """
    if is_connect(df):
        return None
    context = df.sparkSession.sparkContext
    if context not in _slots:
        _slots[context] = context.defaultParallelism if _LOCAL.fullmatch(context.master) else None
    return _slots[context]


def memory(df: DataFrame) -> int | None:
    """Return how many bytes the tasks of the driver share for sorting and caching; None where `slots` is."""
    if slots(df) is None:
        return None
    (driver,) = df.sparkSession.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return int(driver.totalOnHeapStorageMemory())


def setting_of(spark: SparkSession) -> Setting:
    """Return a function that reads settings of a session.

    On Spark Connect one request reads all settings that operations need: each operation makes such a function
    once and keeps it.
    """

    def alone(name: str) -> str | None:
        try:
            value: str | None = spark.conf.get(name)
        except (Py4JError, PySparkException):
            return None
        return value

    if not is_connect(spark):
        answers_at_once()
        return alone

    @cache
    def together() -> dict[str, str | None]:
        from pyspark.sql.connect.proto import ConfigRequest

        client: Any = spark.client
        # if given defaults, the server would return these instead of Spark's own
        wanted = ConfigRequest.Operation(get_option=ConfigRequest.GetOption(keys=_READ_TOGETHER))
        try:
            return dict(client.config(wanted).pairs)
        except PySparkException:  # a service may reject all of them because of one
            return {}

    def setting(name: str) -> str | None:
        found = together() if name in _READ_TOGETHER else {}
        return found[name] if name in found else alone(name)

    return setting


def schema_of(df: DataFrame) -> StructType:
    """Return a DataFrame's schema without copying, which is slow for a wide schema; do not modify it."""
    if is_connect(df):
        found = getattr(df, "_schema", None)  # from Spark 4.0 on
        return found if isinstance(found, StructType) else df.schema
    answers_at_once()
    return df.schema


def schema_in(ddl: str, spark: SparkSession) -> StructType:
    """Return the schema of a DDL string, as `createDataFrame` reads it."""
    # `createDataFrame` would do the same, and then make an RDD or request the schema of no rows
    if is_connect(spark):
        found = spark.client._analyze(method="ddl_parse", ddl_string=ddl).parsed
    else:
        found = _parse_datatype_string(ddl)
    return found if isinstance(found, StructType) else StructType([StructField("value", found)])


def size(df: DataFrame) -> int | None:
    """Return Spark's estimate of a DataFrame's bytes; None on Connect. It runs no job."""
    if is_connect(df):
        return None
    return int(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


def arrow(df: DataFrame) -> pa.Table:
    """Run a query in one job and return its rows; if there are none, the types may differ."""
    if versions.has_to_arrow(df):
        return df.toArrow()
    if is_connect(df):
        return pa.Table.from_pandas(df.toPandas(), preserve_index=False)
    batches = df._collect_as_arrow()
    return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in df.columns})


def local_rows(df: DataFrame, table: pa.Table) -> DataFrame:
    """Return local rows of integers as a DataFrame in the session of another DataFrame.

    No job reads them. In a classic session they form one batch: `createDataFrame` fails if the session does
    not limit its batches, and before Spark 4 it converts rows one by one.
    """
    spark: Any = df.sparkSession
    schema = from_arrow_schema(table.schema)
    if is_connect(df):
        return spark.createDataFrame(table if versions.takes_arrow_tables() else table.to_pandas(), schema)
    python = java_class(_PYTHON_SQL)
    rows = spark._sc._serialize_to_jvm(
        table.combine_chunks().to_batches(),
        ArrowStreamSerializer(),
        lambda name: python.readArrowStreamFromFile(name),
        lambda: spark._jvm.ArrowIteratorServer(),
    )
    return DataFrame(python.toDataFrame(rows, schema.json(), spark._jsparkSession), spark)


def collation_key(column: Column) -> Column:
    """Return bytes that are equal if two collated strings are equal; the expression has no SQL name.

    Raises:
        TypeError: on Spark Connect, which lacks this expression.
    """
    if is_connect(column):
        raise TypeError("key must not be a collated string on Spark Connect: cast it to another column first")
    return column_of(java_class(f"{PACKAGE}CollationKey")(expression_of(column)))


def plan_of(df: DataFrame) -> Any:
    """Return the analysed plan of a classic DataFrame, which Spark computes once."""
    found = _plans.get(df)
    if found is None:
        found = _plans[df] = df._jdf.queryExecution().analyzed()
    return found


def relation_of(df: DataFrame) -> Any:
    """Return the relations of a Spark Connect DataFrame in the form in which its client sends them."""
    return df._plan.to_proto(df.sparkSession._client).root


def column_of_sent(expression: Any) -> Column:
    """Return the column of an expression in the form in which the client of Spark Connect sends it."""
    from pyspark.sql.connect.column import Column as ConnectColumn
    from pyspark.sql.connect.expressions import Expression

    class Sent(Expression):  # type: ignore[misc]
        def to_plan(self, session: Any) -> Any:
            return expression

    return ConnectColumn(Sent())


def schema_of_relation(spark: SparkSession, relation: Any) -> StructType:
    """Ask the server of Spark Connect for the schema of a relation, such as a source."""
    from pyspark.sql.connect.proto import Plan

    found: StructType = spark.client.schema(Plan(root=relation))
    return found


def physical_plan_of(df: DataFrame) -> Any:
    """Return the physical plan of a classic DataFrame."""
    return df._jdf.queryExecution().executedPlan()


def explained(df: DataFrame, mode: str = "simple") -> str:
    """Return Spark's explanation of a physical plan."""
    if is_connect(df):
        return str(df._explain_string(mode=mode))
    if df.isStreaming:  # a plan of its micro-batches, as Spark cannot plan the stream itself
        return str(java_class(_PYTHON_SQL).explainString(df._jdf.queryExecution(), mode))
    return str(physical_plan_of(df).toString())


def frame_of(df: DataFrame, plan: Any) -> DataFrame:
    """Return a plan as a DataFrame in the session of another DataFrame."""
    spark = df.sparkSession
    return type(df)(dataset(df).ofRows(spark._jsparkSession, plan), spark)


def dataset(df: DataFrame) -> Any:
    """Return the Scala companion object that creates the JVM's DataFrames."""
    package = "org.apache.spark.sql.classic." if versions.has_classic_package(df) else "org.apache.spark.sql."
    return java_object(f"{package}Dataset")


def column_of(expression: Any) -> Column:
    """Return the column of a JVM expression."""
    kind = type(F.lit(0))
    if "classic" in kind.__module__:
        return kind(java_class(_CLASSIC).column(expression))
    return kind(java_class("org.apache.spark.sql.Column")(expression))  # before Spark 4


def expression_of(column: Column) -> Any:
    """Return the JVM expression of a column."""
    if "classic" in type(column).__module__:
        return java_class(_CLASSIC).expression(column._jc)
    return column._jc.expr()  # before Spark 4


def java_context(spark: SparkSession) -> Any:
    """Return the context of a classic session, in the JVM."""
    return spark.sparkContext._jsc.sc()


def java_session(spark: SparkSession) -> Any:
    """Return a classic session, in the JVM."""
    return spark._jsparkSession


def running(spark: SparkSession, query: str) -> Any:
    """Return a running streaming query of any session of this driver, as a JVM object.

    Raises:
        LookupError: if no query with this id is running.
    """
    # `foreachBatch` gets frames of another session, which has no queries
    known = java_session(spark).sharedState().activeStreamingQueries()
    found = known.get(java_class("java.util.UUID").fromString(query))
    if found is None:
        raise LookupError(f"the streaming query {query} is not running")
    return found


def settle(spark: SparkSession) -> None:
    """Wait until Spark has processed its events, at most ten seconds."""
    with suppress(Py4JError):  # it has too many events for that time
        java_context(spark).listenerBus().waitUntilEmpty(_SETTLED_MS)


def answers_at_once() -> None:
    """Let the JVM send long texts, such as plans, to this thread without a pause of about 40 ms.

    The JVM sends a text in parts of 8 KB. TCP holds back the second part until the first is acknowledged,
    which the receiving system delays. A socket option removes the wait.
    """
    gateway = SparkContext._active_spark_context._gateway
    if getattr(_prompt, "gateway", None) is gateway:
        return
    _prompt.gateway = gateway
    with suppress(Py4JError):  # a service may hide py4j's own classes
        connection = gateway.java_gateway_server.getCallbackClient().getPerThreadConnection()
        # Once Spark may call Python, py4j has lost its earlier connections.
        if connection is not None:
            connection.getSocket().setTcpNoDelay(True)


def java_class(name: str) -> Any:
    """Return a class of the running session's JVM by its full name.

    For `jvm.org.apache...` Java would first search all of Spark's jars for a class named like each package,
    and each search is a call.
    """
    return JavaClass(name, _client())


def java_object(name: str) -> Any:
    """Return a Scala object by the full name of its class.

    Accessing a member costs one call. On a class, py4j would first have to look up what the name means.
    """
    return _java_object(_client(), name)


@lru_cache(maxsize=64)
def _java_object(client: Any, name: str) -> Any:
    return getattr(JavaClass(f"{name}$", client), "MODULE$")


def _client() -> Any:
    return SparkContext._active_spark_context._jvm._gateway_client


def sequence(*values: Any) -> Any:
    """Return a Scala sequence of these values."""
    return java_object(_PYTHON).toSeq(list(values))


def items(values: Any) -> list[Any]:
    """Return the elements of a Scala sequence."""
    return [values.apply(at) for at in range(values.size())]


def kind_of(value: Any) -> str:
    """Return the name of a value's class, without the package."""
    return str(value.getClass().getSimpleName())


def is_a(value: Any, name: str) -> bool:
    """Return whether a value is of a class or an interface."""
    return bool(is_instance_of(SparkContext._active_spark_context._gateway, value, name))
