"""Whether Spark broadcasts a side of a wide join is told by the join of its keys alone, or not at all."""

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keysplit.spark.session import costs, estimates

# Spark Connect alone asks for it; its server is tested on the newest Spark
pytestmark = pytest.mark.newest

TYPES = {
    "boolean": True,
    "byte": 1,
    "short": 1,
    "int": 1,
    "long": 1,
    "float": 1.5,
    "double": 1.5,
    "string": "a",
    "binary": b"a",
    "date": dt.date(2026, 1, 1),
    "timestamp": dt.datetime(2026, 1, 1),
    "timestamp_ntz": dt.datetime(2026, 1, 1),
    "interval day to second": dt.timedelta(1),
    "decimal(18,2)": Decimal(1),
    "decimal(19,2)": Decimal(1),
}


def test_values_are_taken_for_as_many_bytes_as_spark_takes_them(spark):
    for name, value in TYPES.items():
        df = spark.createDataFrame([(value,)], f"a {name}")
        size = df._jdf.schema().head().dataType().defaultSize()
        assert estimates.row_size([df.schema.fields[0].dataType]) == 8 + size, name
    assert {type(each.dataType) for each in df.schema} <= {T.DecimalType}
    assert estimates.row_size([T.LongType(), T.ArrayType(T.LongType())]) is None


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, rows in (("small", 50), ("large", 5000)):
        columns = [f"id % {at} AS {name}{at}" for at in range(2, 30)]
        made = spark.range(0, rows, 1, 2).selectExpr("id % 40 AS key", "concat('t', id) AS t", *columns)
        made.write.parquet(str(folder / name))
    return {name: spark.read.parquet(str(folder / name)) for name in ("small", "large")}


SIDES = {
    "table": lambda df: df,
    "rows": lambda df: df.filter("t > 'a'"),
    "few columns": lambda df: df.select("t", "key"),
    "key alone": lambda df: df.select("key"),
    "more columns": lambda df: df.select(
        "*", *(F.col("t").alias(f"{df.columns[-1]}{at}") for at in range(40))
    ),
    "a new key": lambda df: df.withColumn("key", F.col("key") + 1).filter("key > 1").drop("t"),
    "hinted": lambda df: F.broadcast(df),
    "sorted": lambda df: df.sort("t"),
    "counted": lambda df: df.groupBy("key").agg(F.max("t").alias("most"), F.count("*").alias("n")),
    "united": lambda df: df.union(df),
    "range": lambda df: df.sparkSession.range(2000).withColumnRenamed("id", "key"),
}
SEEN = ("table", "rows", "few columns", "key alone", "more columns", "a new key")
"""Of these the join of the keys alone says it, unless the limit is next to a side's size."""


def explained(df, mode):
    execution = df._jdf.queryExecution()
    return df.sparkSession._jvm.PythonSQLUtils.explainString(execution, mode)


@pytest.mark.parametrize("kind", ["inner", "left", "right", "semi", "anti"])
@pytest.mark.parametrize("large", SIDES)
def test_what_is_said_is_what_spark_does(tables, conf, kind, large):
    conf("spark.sql.cbo.enabled", "false")
    for small in ("few columns", "counted"):
        left, right = SIDES[large](tables["large"]), SIDES[small](tables["small"])
        sizes = sorted(
            int(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()) for df in (left, right)
        )
        for limit in (-1, sizes[0] // 2, sizes[0] * 2, sizes[1] * 2):
            conf("spark.sql.autoBroadcastJoinThreshold", str(limit))
            widths = []
            for df in (left, right):
                row = estimates.row_size(field.dataType for field in df.schema)
                widths.append(row / estimates.row_size([df.schema["key"].dataType]))
            of_keys = left.select("key").join(right.select("key"), "key", kind)
            found = estimates.broadcasts(explained(of_keys, "cost"), kind, limit, widths)
            plain = left.join(right, "key", kind)
            case = (small, limit, sizes)
            assert found in (None, bool(costs.joins_by_broadcast(explained(plain, "simple")))), case
            assert found is not None or {small, large} - set(SEEN), case
