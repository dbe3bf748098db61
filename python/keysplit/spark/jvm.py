"""What batch jobs ask of Spark beyond its public API, of classic sessions and of Spark Connect.

Each function says what Spark Connect lacks. Objects of the JVM are reached through this file: whatever goes
through a plan uses `plan_of`, `items`, `kind_of` and the like.
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
"""Where the classes of Spark's expressions are."""

JvmError = Py4JError
"""What a call of the JVM raises, for instance where a very deep expression overflows its stack."""

Setting = Callable[[str], str | None]
"""Returns the value of a setting of a session; None if there is none, or if nobody may read it."""

_CLASSIC = "org.apache.spark.sql.classic.ExpressionUtils"
_PYTHON = "org.apache.spark.api.python.PythonUtils"
_PYTHON_SQL = "org.apache.spark.sql.api.python.PythonSQLUtils"
_OF_CONNECT = "pyspark.sql.connect"
_SETTLED_MS = 10_000
# Masters of sessions whose tasks run in the driver.
_LOCAL = re.compile(r"local(\[.*\])?")
# The settings that operations ask for: a server of Spark Connect is asked for all of them at once.
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
# They stay the same as long as Spark runs.
_slots: WeakKeyDictionary[SparkContext, int | None] = WeakKeyDictionary()
# The gateway that answers this thread at once.
_prompt = threading.local()


def is_connect(value: Any) -> bool:
    """Say whether a session, DataFrame, Column or query is of Spark Connect, where there is no JVM."""
    return type(value).__module__.startswith(_OF_CONNECT)


def is_session(value: Any) -> bool:
    """Say whether it is a session; before Spark 4 the one of Connect is a class of its own."""
    return isinstance(value, SparkSession) or (is_connect(value) and type(value).__name__ == "SparkSession")


def is_data_frame(value: Any) -> bool:
    """Say whether it is a DataFrame; before Spark 4 the one of Connect is a class of its own."""
    return isinstance(value, DataFrame) or (is_connect(value) and hasattr(value, "sparkSession"))


def is_stopped(spark: Any) -> bool:
    """Say whether a session was stopped."""
    if is_connect(spark):
        return bool(spark.is_stopped)
    return spark.sparkContext._jsc is None


def slots(df: DataFrame) -> int | None:
    """Return how many tasks run at once; None if that may change or, on Connect, is not said.

    It is known in local mode alone, as executors may come and go.
    """
    if is_connect(df):
        return None
    context = df.sparkSession.sparkContext
    if context not in _slots:
        _slots[context] = context.defaultParallelism if _LOCAL.fullmatch(context.master) else None
    return _slots[context]


def setting_of(spark: SparkSession) -> Setting:
    """Return what reads settings of a session.

    On Spark Connect those that operations ask for are read once, by one request: an operation keeps this
    function, and the next one makes its own.
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
        # with defaults the server would return these instead of Spark's own
        wanted = ConfigRequest.Operation(get_option=ConfigRequest.GetOption(keys=_READ_TOGETHER))
        try:
            return dict(client.config(wanted).pairs)
        except PySparkException:  # a service may refuse all of them for one
            return {}

    def setting(name: str) -> str | None:
        found = together() if name in _READ_TOGETHER else {}
        return found[name] if name in found else alone(name)

    return setting


def schema_of(df: DataFrame) -> StructType:
    """Return the schema of a DataFrame, which must not be changed: a copy of a wide one takes long."""
    if is_connect(df):
        found = getattr(df, "_schema", None)  # from Spark 4.0 on
        return found if isinstance(found, StructType) else df.schema
    answers_at_once()
    return df.schema


def schema_in(ddl: str, spark: SparkSession) -> StructType:
    """Return a schema written as DDL, as `createDataFrame` reads it."""
    # `createDataFrame` would begin with this, and then make an RDD, or ask for the schema of no rows
    if is_connect(spark):
        found = spark.client._analyze(method="ddl_parse", ddl_string=ddl).parsed
    else:
        found = _parse_datatype_string(ddl)
    return found if isinstance(found, StructType) else StructType([StructField("value", found)])


def size(df: DataFrame) -> int | None:
    """Return how many bytes Spark takes a DataFrame for; None on Connect. It runs nothing."""
    if is_connect(df):
        return None
    return int(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


def arrow(df: DataFrame) -> pa.Table:
    """Run a query in one job and return its rows; without rows the types may be others."""
    if versions.has_to_arrow(df):
        return df.toArrow()
    if is_connect(df):
        return pa.Table.from_pandas(df.toPandas(), preserve_index=False)
    batches = df._collect_as_arrow()
    return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in df.columns})


def local_rows(df: DataFrame, table: pa.Table) -> DataFrame:
    """Return rows of whole numbers of the driver as a DataFrame of the session of another one.

    No job reads them. On a classic session they are one batch: `createDataFrame` fails where batches of a
    session have no limit, and takes the rows one by one before Spark 4.
    """
    spark: Any = df.sparkSession
    if is_connect(df):
        return spark.createDataFrame(table if versions.takes_arrow_tables() else table.to_pandas())
    python = java_class(_PYTHON_SQL)
    rows = spark._sc._serialize_to_jvm(
        table.combine_chunks().to_batches(),
        ArrowStreamSerializer(),
        lambda name: python.readArrowStreamFromFile(name),
        lambda: spark._jvm.ArrowIteratorServer(),
    )
    schema = from_arrow_schema(table.schema).json()
    return DataFrame(python.toDataFrame(rows, schema, spark._jsparkSession), spark)


def collation_key(column: Column) -> Column:
    """Return the bytes whose equality is that of a collated string; the expression has no SQL name.

    Raises:
        TypeError: on Spark Connect, which has no name for it.
    """
    if is_connect(column):
        raise TypeError("key must not be a collated string on Spark Connect: cast it to another column first")
    return column_of(java_class(f"{PACKAGE}CollationKey")(expression_of(column)))


def plan_of(df: DataFrame) -> Any:
    """Return the plan of a classic DataFrame as Spark has analysed it, which it does once."""
    found = _plans.get(df)
    if found is None:
        found = _plans[df] = df._jdf.queryExecution().analyzed()
    return found


def relation_of(df: DataFrame) -> Any:
    """Return the relations of a DataFrame of Spark Connect, as its client sends them."""
    return df._plan.to_proto(df.sparkSession._client).root


def schema_of_relation(spark: SparkSession, relation: Any) -> StructType:
    """Ask the server of Spark Connect for the schema of a relation, such as a source."""
    from pyspark.sql.connect.proto import Plan

    found: StructType = spark.client.schema(Plan(root=relation))
    return found


def physical_plan_of(df: DataFrame) -> Any:
    """Return the plan of a classic DataFrame that Spark runs."""
    return df._jdf.queryExecution().executedPlan()


def explained(df: DataFrame, mode: str = "simple") -> str:
    """Return the text in which Spark explains a physical plan."""
    if is_connect(df):
        return str(df._explain_string(mode=mode))
    if df.isStreaming:  # a plan of its micro-batches: Spark makes none of the stream as it is
        return str(java_class(_PYTHON_SQL).explainString(df._jdf.queryExecution(), mode))
    return str(physical_plan_of(df).toString())


def frame_of(df: DataFrame, plan: Any) -> DataFrame:
    """Return a plan as a DataFrame of the session of another one."""
    spark = df.sparkSession
    return type(df)(dataset(df).ofRows(spark._jsparkSession, plan), spark)


def dataset(df: DataFrame) -> Any:
    """Return the object of Scala that makes what is behind a DataFrame."""
    package = "org.apache.spark.sql.classic." if versions.has_classic_package(df) else "org.apache.spark.sql."
    return java_object(f"{package}Dataset")


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


def java_context(spark: SparkSession) -> Any:
    """Return the context of a classic session, in the JVM."""
    return spark.sparkContext._jsc.sc()


def java_session(spark: SparkSession) -> Any:
    """Return a classic session, in the JVM."""
    return spark._jsparkSession


def running(spark: SparkSession, query: str) -> Any:
    """Return a streaming query that runs in any session of this driver, as Spark has it.

    Raises:
        LookupError: if there is none with this id.
    """
    # `foreachBatch` gets frames of another session, which knows no queries
    known = java_session(spark).sharedState().activeStreamingQueries()
    found = known.get(java_class("java.util.UUID").fromString(query))
    if found is None:
        raise LookupError(f"the streaming query {query} is not there")
    return found


def settle(spark: SparkSession) -> None:
    """Let Spark work off its events, ten seconds at most."""
    with suppress(Py4JError):  # it has more to say than it can in that time
        java_context(spark).listenerBus().waitUntilEmpty(_SETTLED_MS)


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
