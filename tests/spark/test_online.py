"""`kss.online` in batches: the routing of one router per partition, for every type of key."""

import math

import numpy as np
import pyarrow as pa
import pytest
from frames import DIRECT_KEYS, HASHED_KEYS, frame, skewed
from pyspark.sql import functions as F
from pyspark.sql import types as T

import keysplit as ks
from keysplit import spark as kss
from keysplit.spark import versions

# types that go to pandas and to Arrow in their own ways
OWN_WAYS = ("bigint", "string", "timestamp")


@pytest.fixture(params=["arrow", "pandas"])
def hop(request, monkeypatch):
    """Route through each of the two UDFs; before Spark 4.1 there is only the one of pandas."""
    if request.param == "arrow" and not hasattr(F, "arrow_udf"):
        pytest.skip("this Spark has no Arrow UDF")
    if request.param == "pandas":
        monkeypatch.setattr(versions, "has_arrow_udf", lambda: False)
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
    partitions = by_partition(kss.online.route(df, "key", grouping).drop("key"))
    # `collect` loses timestamps, so the keys are drawn again; the partitions are cut from them in order
    drawn = iter(skewed(keys, 300))
    assert len(partitions) == 3
    for source, rows in sorted(partitions.items()):
        own = pa.array([next(drawn) for _ in rows], arrow_type)
        assert [row.worker for row in rows] == grouping.router(source=source).route(own).tolist()


@pytest.mark.parametrize("name", sorted(ks.GROUPINGS))
def test_every_grouping_routes(spark, name):
    df = frame(spark, T.StringType(), skewed(list("abcdefgh"), 200), partitions=2)
    grouping = ks.grouping(name, workers=7, seed=11)
    for source, rows in by_partition(kss.online.route(df, "key", grouping)).items():
        router = grouping.router(source=source)
        assert [row.worker for row in rows] == router.route([row.key for row in rows]).tolist()


def test_weights_are_loads(spark, hop):
    df = frame(spark, T.IntegerType(), skewed([1, 2, 3], 200), partitions=2).withColumn("w", F.abs("v") + 1)
    df = df.withColumn("w", F.coalesce("w", F.lit(1)).cast("decimal(10,2)"))
    routed = kss.online.route(df, "key", ks.DChoices(workers=4), weight="w")
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
            routed = kss.online.route(df, "key", grouping, weight=weight)
            for source, found in by_partition(routed).items():
                keys, weights = [row.key for row in found], np.array([row.w for row in found], float)
                expected = grouping.router(source=source).route(keys, weights=weights if weight else None)
                assert [row.worker for row in found] == expected.tolist()
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before)


def test_null_weights_are_refused(spark, hop):
    df = frame(spark, T.IntegerType(), [1, 2, 3, 4])
    with pytest.raises(Exception, match="weights"):
        kss.online.route(df, "key", ks.DChoices(workers=4), weight="v").collect()


@pytest.mark.parametrize("name", HASHED_KEYS)
def test_keys_that_groupby_finds_equal_go_to_one_worker(spark, hop, name):
    type_, keys = HASHED_KEYS[name]
    df = frame(spark, type_, skewed(keys, 200))
    routed = kss.online.route(df, "key", ks.KeyGrouping(workers=64))
    groups = routed.groupBy("key").agg(F.countDistinct("worker").alias("workers")).collect()
    assert len(groups) == len({0.0 if key == 0 else "nan" if key != key else repr(key) for key in keys})
    assert {row.workers for row in groups} == {1}
    assert routed.select("worker").distinct().count() >= min(3, len(groups) - 1)


def test_several_columns_are_one_key(spark, hop):
    pairs = [(1, None), (None, "1"), (None, None), (1, "1"), (2, "1")]
    df = spark.createDataFrame(pairs * 8, "a int, b string")
    routed = kss.online.route(df, ["a", "b"], ks.KeyGrouping(workers=1000))
    workers = {(row.a, row.b): row.worker for row in routed.collect()}
    assert routed.distinct().count() == len(pairs)
    assert len(set(workers.values())) == len(pairs)  # no two of them share a hash


def test_swapped_nulls_are_two_keys(spark):
    df = spark.createDataFrame([(1, None), (None, 1)], "a int, b int")
    routed = kss.online.route(df, ["a", "b"], ks.KeyGrouping(workers=65_536))
    assert routed.select("worker").distinct().count() == 2


@pytest.mark.versions
def test_collated_strings_are_equal_as_their_collation_says(spark, hop):
    if spark.version < "4":
        pytest.skip("this Spark has no collations")
    df = spark.sql(
        "select cast(k as string) collate utf8_lcase as key from values ('a'), ('A'), ('b'), ('B') t(k)"
    )
    routed = kss.online.route(df, "key", ks.KeyGrouping(workers=10_000))
    assert routed.select("worker").distinct().count() == df.groupBy("key").count().count() == 2


def test_nan_of_any_bits_is_one_key(spark):
    nans = [
        math.nan,
        -math.nan,
        *np.array([0x7FF8000000000001, 0xFFF0000000000001], np.uint64).view(np.float64),
    ]
    df = spark.createDataFrame([(float(nan),) for nan in nans], "key double")
    routed = kss.online.route(df, "key", ks.KeyGrouping(workers=10_000))
    assert routed.select("worker").distinct().count() == 1


def test_all_columns_stay_as_they_are(spark):
    df = frame(spark, T.LongType(), skewed([1, 2, None], 50))
    routed = kss.online.route(df, "key", ks.DChoices(workers=3), worker_column="my worker.`x`")
    assert routed.schema[:-1] == df.schema[:]
    assert routed.schema[-1].name == "my worker.`x`"
    assert routed.schema[-1].dataType == T.IntegerType()
    assert routed.select(df.columns).collect() == df.collect()


def test_a_nested_column_is_a_key(spark):
    df = spark.createDataFrame([((i % 3, i),) for i in range(20)], "s struct<k: int, v: int>")
    routed = kss.online.route(df, "s.k", ks.KeyGrouping(workers=9))
    assert {row.worker for row in routed.filter("s.k = 1").collect()} == {
        ks.KeyGrouping(workers=9).router().route([1])[0]
    }


def test_a_filter_behind_runs_the_router_once_a_row(spark):
    df = frame(spark, T.LongType(), skewed([1, 2, 3, 4], 100))
    routed = kss.online.route(df, "key", ks.DChoices(workers=4)).filter("worker < 2").filter("v > 0")
    assert routed._jdf.queryExecution().executedPlan().toString().count("EvalPython [") == 1


@pytest.mark.parametrize("function", [kss.online.route, kss.online.repartition])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"grouping": "fish"}, TypeError, r"got the name 'fish': write ks\.Fish\(workers=8\)$"),
        ({"grouping": "best"}, TypeError, r"got the name 'best': write ks\.DChoices\(workers=8\)$"),
        ({"grouping": 8}, TypeError, r"^grouping must be a grouping of keysplit.GROUPINGS .* got int: "),
        ({"grouping": kss.CutToFit(workers=4)}, TypeError, "^grouping must .* got keysplit.CutToFit: "),
        ({"allow_inexact": "False"}, TypeError, "^allow_inexact must be True or False, got 'False'$"),
        ({"state": "routers"}, ValueError, "^state must be omitted for a batch, .* got 'routers'$"),
        ({"key": "nokey"}, ValueError, "^key must name one column of the DataFrame, got 'nokey'; it has "),
        ({"key": []}, ValueError, "^key must name at least one column, got an empty list$"),
        ({"key": "m"}, TypeError, "^key must not hold maps, got 'm' of type map<string,bigint>$"),
        ({"weight": "noweight"}, ValueError, "^weight must name one column of the DataFrame, got 'noweight'"),
        ({"weight": "s"}, TypeError, "^weight must name a numeric column, got 's' of type string$"),
        ({"worker_column": "V"}, ValueError, "^worker_column must be an unused column name, got 'V'"),
        ({"worker_column": 5}, TypeError, "^worker_column must be a column name, got int$"),
        ({"worker_column": None}, TypeError, "^worker_column must be a column name, got NoneType$"),
        ({"trust": 3}, TypeError, "^trust must be a list of column names and functions, got int$"),
        ({"trust": "nothing"}, ValueError, "^trust must name columns of df or functions in its query"),
        ({"df": [1, 2]}, TypeError, "^df must be a Spark DataFrame, got list$"),
    ],
)
def test_wrong_arguments(spark, function, arguments, error, message):
    df = frame(spark, T.LongType(), [1, 2, 3]).withColumn("m", F.create_map(F.lit("a"), "v"))
    arguments = {
        "df": df.withColumn("s", F.lit("a")),
        "key": "key",
        "grouping": ks.Fish(workers=4),
    } | arguments
    with pytest.raises(error, match=message) as raised:
        function(**arguments)
    assert "\n" not in str(raised.value)


def test_the_result_is_explained(spark):
    df = frame(spark, T.LongType(), [1, 2, 3])
    for function in (kss.online.route, kss.online.repartition):
        assert kss.explain(function(df, "key", ks.Fish(workers=4))).startswith("online: each task routes ")
