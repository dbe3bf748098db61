"""Routing in Spark is the routing of one router a partition, for every type of key."""

import math

import numpy as np
import pyarrow as pa
import pytest
from frames import DIRECT_KEYS, HASHED_KEYS, frame, skewed
from pyspark.sql import functions as F
from pyspark.sql import types as T

import keysplit as ks
from keysplit import spark as kss
from keysplit.spark.expr import online

# types that go to pandas and to Arrow in their own ways
OWN_WAYS = ("bigint", "string", "timestamp")


@pytest.fixture(params=["arrow", "pandas"])
def hop(request, monkeypatch):
    """Route through each of the two UDFs; before Spark 4.1 there is only the one of pandas."""
    if request.param == "arrow" and not hasattr(F, "arrow_udf"):
        pytest.skip("this Spark has no Arrow UDF")
    if request.param == "pandas":
        monkeypatch.setattr(online, "_arrow_worker", online._pandas_worker)
    return request.param


def by_partition(routed):
    """Return for each partition its rows in their order."""
    partitions = {}
    for row in routed.withColumn("partition", F.spark_partition_id()).collect():
        partitions.setdefault(row.partition, []).append(row)
    return partitions


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.versions) if name in OWN_WAYS else name for name in DIRECT_KEYS],
)
def test_each_partition_is_a_source(spark, hop, name):
    type_, arrow_type, keys = DIRECT_KEYS[name]
    df = frame(spark, type_, skewed(keys, 300))
    grouping = ks.DChoices(workers=5, seed=3)
    partitions = by_partition(kss.route(df, "key", grouping=grouping, mode="online").drop("key"))
    # `collect` loses timestamps, so the keys are drawn again; the partitions are cut from them in order
    drawn = iter(skewed(keys, 300))
    assert len(partitions) == 3
    for source, rows in sorted(partitions.items()):
        own = pa.array([next(drawn) for _ in rows], arrow_type)
        assert [row.worker for row in rows] == grouping.router(source=source).route(own).tolist()


@pytest.mark.parametrize("grouping", sorted(ks.GROUPINGS))
def test_every_grouping_routes(spark, grouping):
    df = frame(spark, T.StringType(), skewed(list("abcdefgh"), 200), partitions=2)
    partitions = by_partition(kss.route(df, "key", workers=7, grouping=grouping, seed=11, mode="online"))
    for source, rows in partitions.items():
        router = ks.grouping(grouping, workers=7, seed=11).router(source=source)
        assert [row.worker for row in rows] == router.route([row.key for row in rows]).tolist()


def test_weights_are_loads(spark, hop):
    df = frame(spark, T.IntegerType(), skewed([1, 2, 3], 200), partitions=2).withColumn("w", F.abs("v") + 1)
    df = df.withColumn("w", F.coalesce("w", F.lit(1)).cast("decimal(10,2)"))
    routed = kss.route(df, "key", workers=4, weight="w", mode="online")
    for source, rows in by_partition(routed).items():
        weights = np.array([float(row.w) for row in rows])
        router = ks.DChoices(workers=4).router(source=source)
        assert [row.worker for row in rows] == router.route(
            [row.key for row in rows], weights=weights
        ).tolist()


@pytest.mark.parametrize("rows", [0, 1, 249, 250, 1030])
def test_segments_are_whole_however_spark_cuts_batches(spark, hop, rows):
    """FlexD counts a segment before it routes it: a batch of Arrow is shorter, and ends elsewhere."""
    df = frame(spark, T.IntegerType(), skewed([1, 2, 3, 4, 5], 2 * rows), partitions=2)
    df = df.withColumn("w", F.expr("key % 2 + 1"))
    grouping = ks.FlexD(workers=4, segment_messages=250, threshold=0.3)
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100)
    try:
        for weight in (None, "w"):
            routed = kss.route(df, "key", grouping=grouping, weight=weight, mode="online")
            for source, found in by_partition(routed).items():
                keys, weights = [row.key for row in found], np.array([row.w for row in found], float)
                expected = grouping.router(source=source).route(keys, weights=weights if weight else None)
                assert [row.worker for row in found] == expected.tolist()
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before)


def test_null_weights_are_refused(spark, hop):
    df = frame(spark, T.IntegerType(), [1, 2, 3, 4])
    with pytest.raises(Exception, match="weights"):
        kss.route(df, "key", workers=4, weight="v", mode="online").collect()


@pytest.mark.parametrize("name", HASHED_KEYS)
def test_keys_that_groupby_finds_equal_go_to_one_worker(spark, hop, name):
    type_, keys = HASHED_KEYS[name]
    df = frame(spark, type_, skewed(keys, 200))
    routed = kss.route(df, "key", workers=64, grouping="key", mode="online")
    groups = routed.groupBy("key").agg(F.countDistinct("worker").alias("workers")).collect()
    assert len(groups) == len({0.0 if key == 0 else "nan" if key != key else repr(key) for key in keys})
    assert {row.workers for row in groups} == {1}
    assert routed.select("worker").distinct().count() >= min(3, len(groups) - 1)


def test_several_columns_are_one_key(spark, hop):
    pairs = [(1, None), (None, "1"), (None, None), (1, "1"), (2, "1")]
    df = spark.createDataFrame(pairs * 8, "a int, b string")
    routed = kss.route(df, ["a", "b"], workers=1000, grouping="key", mode="online")
    workers = {(row.a, row.b): row.worker for row in routed.collect()}
    assert routed.distinct().count() == len(pairs)
    assert len(set(workers.values())) == len(pairs)  # no two of them share a hash


def test_swapped_nulls_are_two_keys(spark):
    df = spark.createDataFrame([(1, None), (None, 1)], "a int, b int")
    routed = kss.route(df, ["a", "b"], workers=65_536, grouping="key", mode="online")
    assert routed.select("worker").distinct().count() == 2


@pytest.mark.versions
def test_collated_strings_are_equal_as_their_collation_says(spark, hop):
    if spark.version < "4":
        pytest.skip("this Spark has no collations")
    df = spark.sql(
        "select cast(k as string) collate utf8_lcase as key from values ('a'), ('A'), ('b'), ('B') t(k)"
    )
    routed = kss.route(df, "key", workers=10_000, grouping="key", mode="online")
    assert routed.select("worker").distinct().count() == df.groupBy("key").count().count() == 2


def test_nan_of_any_bits_is_one_key(spark):
    nans = [
        math.nan,
        -math.nan,
        *np.array([0x7FF8000000000001, 0xFFF0000000000001], np.uint64).view(np.float64),
    ]
    df = spark.createDataFrame([(float(nan),) for nan in nans], "key double")
    routed = kss.route(df, "key", workers=10_000, grouping="key", mode="online")
    assert routed.select("worker").distinct().count() == 1


def test_all_columns_stay_as_they_are(spark):
    df = frame(spark, T.LongType(), skewed([1, 2, None], 50))
    routed = kss.route(df, "key", workers=3, worker_column="my worker.`x`", mode="online")
    assert routed.schema[:-1] == df.schema[:]
    assert routed.schema[-1].name == "my worker.`x`"
    assert routed.schema[-1].dataType == T.IntegerType()
    assert routed.select(df.columns).collect() == df.collect()


def test_a_nested_column_is_a_key(spark):
    df = spark.createDataFrame([((i % 3, i),) for i in range(20)], "s struct<k: int, v: int>")
    routed = kss.route(df, "s.k", workers=9, grouping="key", mode="online")
    assert {row.worker for row in routed.filter("s.k = 1").collect()} == {
        ks.KeyGrouping(workers=9).router().route([1])[0]
    }


def test_a_filter_behind_runs_the_router_once_a_row(spark):
    df = frame(spark, T.LongType(), skewed([1, 2, 3, 4], 100))
    routed = kss.route(df, "key", workers=4, mode="online").filter("worker < 2").filter("v > 0")
    assert routed._jdf.queryExecution().executedPlan().toString().count("EvalPython [") == 1
