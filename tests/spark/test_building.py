"""Building a query asks the JVM no more often where there are more columns, and runs no job too early."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from calls import Calls
from frames import same_rows
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit.spark import versions
from keysplit.spark.expr.columns import with_worker
from keysplit.spark.expr.hashes import plan_hash, row_hash_in_sql
from keysplit.spark.request import check


def rows(spark, columns):
    return spark.range(40).select(
        (F.col("id") % 3).alias("key"), "id", *(F.lit(at).alias(f"c{at}") for at in range(columns - 2))
    )


@pytest.fixture
def calls(spark, monkeypatch):
    """Count the calls to the JVM that a function makes."""
    counts = Calls(spark, monkeypatch)

    def count(function):
        function()  # these fill caches
        function()
        before = counts.made
        function()
        return counts.made - before

    return count


OPERATIONS = {
    "route": lambda df, other, plan: kss.route(df, "key", plan=plan),
    "repartition": lambda df, other, plan: kss.repartition(df, "key", plan=plan),
    "join": lambda df, other, plan: kss.join(df, other, "key", plan=plan),
    "full join": lambda df, other, plan: kss.join(df, other, "key", "full", plan=plan),
    "write": lambda df, other, plan: kss.write(df, "key", plan=plan),
}


MOST_CALLS = {
    "route": 80,
    "repartition": 85,
    "join": 20,
    "full join": 20,
    "write": 105,
}
MORE_BEFORE_4_1 = 15  # rows are placed by the hash of a number, in a step of its own


def test_the_jvm_sends_long_texts_to_each_thread_at_once(spark):
    df = rows(spark, 10)
    plan = kss.plan(df, "key", 4, grouping="w_choices", row_id="id")

    def waits() -> bool:
        client = spark.sparkContext._gateway.java_gateway_server.getCallbackClient()
        return not client.getPerThreadConnection().getSocket().getTcpNoDelay()

    def before_and_after():
        before = waits()
        kss.route(df, "key", plan=plan)
        return before, waits()

    with ThreadPoolExecutor(1) as thread:  # a connection of its own
        assert thread.submit(before_and_after).result() == (True, False)


@pytest.mark.newest
def test_a_thread_from_before_the_callback_server_is_served_all_the_same():
    program = """
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    ensure_callback_server_started(spark.sparkContext._gateway)
    from keysplit import spark as kss
    plan = kss.plan(spark.range(10), "id", 2)
    assert kss.route(spark.range(10), "id", plan=plan).count() == 10
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=300, capture_output=True
    )


@pytest.mark.parametrize("name", OPERATIONS)
def test_more_columns_are_no_more_calls(spark, calls, name):
    build, other = OPERATIONS[name], spark.range(3).select(F.col("id").alias("key"))
    plan = kss.plan(rows(spark, 10), "key", 4, grouping="w_choices")
    found = {}
    for columns in (10, 2000):
        df = rows(spark, columns)
        found[columns] = calls(partial(build, df, other, plan))
    assert found[2000] == found[10]
    more = 0 if versions.has_repartition_by_id(other) else MORE_BEFORE_4_1
    assert found[10] < MOST_CALLS[name] + more


AT_THE_CALL = {
    "route": partial(kss.route, key="key"),
    "repartition": partial(kss.repartition, key="key"),
    "write": partial(kss.write, partition_by="key"),
}


def odd_names(spark):
    """Return rows whose columns have names, types and places that are easily taken for others."""
    return (
        spark.range(200)
        .select(
            (F.col("id") % 7 % 3).alias("a.b"),
            F.struct(F.col("id").alias("b"), (F.col("id") % 5).alias("c")).alias("a"),
            F.col("id").alias("`x`"),
            F.lit(1).alias("twice"),
            F.lit(2).alias("twice"),
            (-F.col("id")).alias("W.`_hash"),
        )
        .alias("w.`_found")
    )


def jobs(spark, function, error, message):
    """Return how many jobs a function runs before it raises an error."""
    spark.sparkContext.setJobGroup(message, message)
    try:
        with pytest.raises(error, match=message):
            function()
    finally:
        found = spark.sparkContext.statusTracker().getJobIdsForGroup(message)
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    return len(found)


def same(rows):
    return rows


def drawn(df):
    return df.repartition(2).withColumn("r", F.rand())


@pytest.mark.parametrize(
    ("key", "call", "error", "message"),
    [
        (
            "named_struct('a', id % 2, 'A', 1)",
            lambda df: kss.apply(df, "key", same, "id long", merge=same, workers=3),
            TypeError,
            "key must not hold structs with two fields of the same name, got 'key'",
        ),
        (
            "named_struct('a', id % 2, 'b', null)",
            lambda df: kss.apply(df, "key", same, "id long", merge=same, workers=3),
            TypeError,
            "key must not hold void fields, got 'key'",
        ),
        (
            "array(id % 2)",
            lambda df: kss.write(df, "key", workers=3),
            TypeError,
            "partition_by must name columns without arrays, maps and structs, got 'key'",
        ),
        (
            "CAST(NULL AS VOID)",
            lambda df: kss.write(df, "key", workers=3),
            TypeError,
            "partition_by must name columns with a type, got 'key', which is void",
        ),
        (
            "id % 2",
            lambda df: kss.apply(df, "key", same, "", merge=same, workers=3),
            ValueError,
            "schema must have columns with distinct names, got",
        ),
        (
            "id % 2",
            lambda df: kss.apply(df, "key", same, "id long, id long"),
            ValueError,
            "schema must have columns with distinct names, got .'id', 'id'",
        ),
        (
            "id % 2",
            lambda df: kss.plan(drawn(df), "key", 3, row_id="r"),
            ValueError,
            "row_id must name columns that have the same values when a task is retried, got 'r'",
        ),
        (
            "id % 2",
            lambda df: kss.join(drawn(df).filter("r > 0"), df, "key", way="broadcast", workers=3),
            ValueError,
            "left must have the same rows each time it is read, because way='broadcast' reads",
        ),
    ],
)
def test_what_spark_cannot_do_is_said_before_any_job(spark, key, call, error, message):
    assert jobs(spark, lambda: call(spark.range(40).selectExpr("id", f"{key} AS key")), error, message) == 0


def test_geometry_is_no_key_and_no_identity(spark, conf):
    if spark.version < "4.1":
        pytest.skip("this Spark has no geometry")
    conf("spark.sql.geospatial.enabled", "true")  # off by default in 4.1
    df = spark.range(40).selectExpr(
        "id % 2 AS key", "id", "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040') AS g"
    )
    assert kss.route(df, "key", plan=kss.plan(df, "key", 3, grouping="w_choices")).count() == 40
    with pytest.raises(TypeError, match=r"^key must be of a type that Spark can group by, got 'g'"):
        kss.route(df, "g", workers=3)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_key_columns_of_both_sides_may_be_selected(spark, how):
    left = spark.createDataFrame([(1, at) for at in range(60)] + [(2, 1), (None, 5), (7, 7)], "k int, x int")
    right = spark.createDataFrame([(1, 10), (2, 20), (3, 30), (None, 40)], "k int, y int")
    plan = kss.plan(left, "k", 4, grouping="w_choices")
    joined = kss.join(left, right, "k", how, split="left", plan=plan)
    plain = left.join(right, "k", how)
    both = [left["k"], right["k"], "x", "y", "k"]
    assert sorted(map(repr, joined.select(*both).collect())) == sorted(
        map(repr, plain.select(*both).collect())
    )


def by_columns(df, key, plan):
    """Return the rows as they are routed when it is asked for so often that the steps are kept."""
    return [kss.route(df, key, plan=plan) for _ in range(3)][-1]


def at_once(df, key, plan):
    """Return the rows as they are routed by columns of the DataFrame itself."""
    request = check(df, key, plan, worker_column="worker")
    row = row_hash_in_sql(request) if plan.splits else None
    return with_worker(df, plan, plan_hash(request), row, "worker")


def by_both(df, key, plan):
    """Return the rows as they are routed, which is the same by kept steps and at once."""
    found = by_columns(df, key, plan)
    assert same_rows(found, at_once(df, key, plan))
    return found


def hot(spark, *columns):
    key = F.when(F.col("id") % 2 == 0, 0).otherwise(F.col("id") % 41)
    return spark.range(200).select("id", key.alias("k"), *columns)
