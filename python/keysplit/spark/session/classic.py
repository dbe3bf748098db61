"""Classic sessions: Catalyst's plans and expressions, through py4j."""

from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from keysplit.spark.session import costs, physical, sources, versions
from keysplit.spark.session.analysed import Walk, unreadable
from keysplit.spark.session.interface import Determinism, Joining
from keysplit.spark.session.joins import ClassicJoin, JoinOfNames
from keysplit.spark.session.jvm import (
    PACKAGE,
    answers_at_once,
    column_of,
    expression_of,
    java_class,
    kind_of,
    plan_of,
)

# They stay the same as long as Spark runs.
_slots: WeakKeyDictionary[SparkContext, int | None] = WeakKeyDictionary()


class Classic:
    """A session in whose JVM we are."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        answers_at_once()

    @property
    def slots(self) -> int | None:
        """How many tasks run at once; None but in local mode, as executors may come and go."""
        context = self._spark.sparkContext
        if context not in _slots:
            _slots[context] = context.defaultParallelism if sources.LOCAL.fullmatch(context.master) else None
        return _slots[context]

    def setting(self, name: str) -> str | None:
        """Return the value of a setting; None if there is none, or if nobody may read it."""
        try:
            value: str | None = self._spark.conf.get(name)
        except (Py4JError, PySparkException):
            return None
        return value

    def settings(self, defaults: Iterable[tuple[str, str]]) -> list[str]:
        """Return the values of settings, given by their names and what they are where Spark has none."""
        # `conf.get` with a default returns that instead of Spark's own
        found = ((self.setting(name), default) for name, default in defaults)
        return [default if value is None else value for value, default in found]

    def arrow(self, df: DataFrame) -> pa.Table:
        """Run a query in one job and return its rows; without rows the types may be others."""
        if versions.has_to_arrow(df):
            return df.toArrow()
        batches = df._collect_as_arrow()
        return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in df.columns})

    def determinism(self, df: DataFrame, trusted: frozenset[str], anew: str | None = None) -> Determinism:
        """Return which columns of a DataFrame have the same values when tasks are retried; run nothing."""
        plan = plan_of(df)
        try:
            walk = Walk(sources.Sources(self._spark, plan), trusted, anew)
            return walk.of(str(plan.toJSON()), len(df.columns))
        except Py4JError:  # a very deep expression overflows Spark's stack
            return unreadable()

    def is_deterministic(self, df: DataFrame) -> bool:
        """Say whether Spark finds all expressions of a query deterministic."""
        return bool(plan_of(df).deterministic())

    def disorder(self, df: DataFrame, deterministic: bool) -> str | None:
        """Return why rows may come in another order when a task is retried, None if they do not."""
        # The plan of a micro-batch is made when the stream runs.
        return "a stream" if df.isStreaming else physical.disorder(df, deterministic)

    def beyond_a_scan(self, df: DataFrame) -> str | None:
        """Return what makes reading a DataFrame dear: a shuffle or Python; None if it is a scan."""
        return costs.beyond_a_scan(_physical(df))

    def size(self, df: DataFrame) -> int | None:
        """Return how many bytes Spark takes a DataFrame for; it runs nothing."""
        return int(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())

    def joins_by_broadcast(self, df: DataFrame) -> bool:
        """Say whether Spark would compute a join, the topmost of a query, by a broadcast of one side."""
        return bool(costs.joins_by_broadcast(_physical(df)))

    def joining(
        self,
        plain: DataFrame,
        left: DataFrame,
        right: DataFrame,
        on: Sequence[str],
        where: Column | None = None,
    ) -> Joining:
        """Take apart `plain`, which is `left.join(right, on, how)`."""
        plan = plan_of(plain)
        if kind_of(plan) != "Project" or kind_of(plan.child()) != "Join":
            return JoinOfNames(left, right, on, where)
        return ClassicJoin(plain, column_of(plan.child().condition().get()), where)

    def schema_of(self, df: DataFrame) -> StructType:
        """Return the schema of a DataFrame, which must not be changed."""
        return df.schema

    def schema(self, ddl: str) -> StructType:
        """Return a schema written as DDL."""
        # `createDataFrame` would begin with this, and then make an RDD
        found = _parse_datatype_string(ddl)
        return found if isinstance(found, StructType) else StructType([StructField("value", found)])


def rows_of_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return the rows of a table of whole numbers, in one batch.

    `createDataFrame` fails where batches of a session have no limit, and takes the rows one by one before
    Spark 4.
    """
    python = java_class("org.apache.spark.sql.api.python.PythonSQLUtils")
    rows = spark._sc._serialize_to_jvm(
        table.combine_chunks().to_batches(),
        ArrowStreamSerializer(),
        lambda name: python.readArrowStreamFromFile(name),
        lambda: spark._jvm.ArrowIteratorServer(),
    )
    schema = from_arrow_schema(table.schema).json()
    return DataFrame(python.toDataFrame(rows, schema, spark._jsparkSession), spark)


def collation_key(column: Column) -> Column:
    """Return the bytes whose equality is that of a collated string; the expression has no SQL name."""
    return column_of(java_class(f"{PACKAGE}CollationKey")(expression_of(column)))


def _physical(df: DataFrame) -> str:
    if df.isStreaming:  # a plan of its micro-batches: Spark makes none of the stream as it is
        python = java_class("org.apache.spark.sql.api.python.PythonSQLUtils")
        return str(python.explainString(df._jdf.queryExecution(), "simple"))
    return str(df._jdf.queryExecution().executedPlan().toString())
