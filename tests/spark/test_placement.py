"""Every row lies in the partition that has its worker's number."""

import pytest
from frames import frame, skewed
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

import keysplit as ks
from keysplit import spark as kss
from keysplit.spark import place

ADAPTIVE = pytest.mark.parametrize("adaptive", ["true", "false"])
OLD_WAY = pytest.mark.parametrize("by_id", [True, False], ids=["by id", "by pre-image"])


@pytest.fixture
def way(monkeypatch, by_id):
    """Place by partition number, and the way that Spark before 4.1 needs."""
    if by_id and not hasattr(DataFrame, "repartitionById"):
        pytest.skip("this Spark has no repartitionById")
    if not by_id:
        monkeypatch.delattr(DataFrame, "repartitionById", raising=False)
        for kind in DataFrame.__subclasses__():
            monkeypatch.delattr(kind, "repartitionById", raising=False)


def misplaced(df):
    return df.filter(F.spark_partition_id() != F.col("worker")).count()


@ADAPTIVE
@OLD_WAY
@pytest.mark.parametrize("workers", [1, 2, pytest.param(7, marks=pytest.mark.versions), 64])
def test_rows_are_placed(spark, conf, way, workers, adaptive):
    conf("spark.sql.adaptive.enabled", adaptive)
    df = frame(spark, T.LongType(), skewed(list(range(12)), 600))
    rows = kss.online.repartition(df, "key", ks.ShuffleGrouping(workers=workers))
    found = rows.groupBy("worker", F.spark_partition_id().alias("partition")).count().collect()
    assert {(row.worker, row.partition) for row in found} == {(n, n) for n in range(workers)}
    assert sum(row["count"] for row in found) == 600
    assert sorted(map(repr, rows.drop("worker").collect())) == sorted(map(repr, df.collect()))


@pytest.mark.versions
@pytest.mark.parametrize("columns", [["worker", "id"], ["id", "worker"]])
def test_rows_are_placed_as_spark_itself_does(spark, columns):
    df = spark.range(100).withColumn("worker", (F.col("id") % 5).cast("int")).select(*columns)
    if not hasattr(df, "repartitionById"):
        pytest.skip("this Spark has no repartitionById")
    found = place.placed(df, "worker", 5)
    assert found.sameSemantics(df.repartitionById(5, "worker"))
    assert found.columns == columns
    assert misplaced(found) == 0


@pytest.mark.newest
@OLD_WAY
def test_rows_are_placed_on_a_thousand_workers(spark, way):
    df = spark.range(4000, numPartitions=2)
    rows = kss.online.repartition(df, "id", ks.ShuffleGrouping(workers=1000))
    found = rows.select("worker", F.spark_partition_id()).distinct().collect()
    assert {tuple(row) for row in found} == {(n, n) for n in range(1000)}


def test_a_frame_is_transformed_as_by_the_call(spark):
    df = frame(spark, T.LongType(), skewed(list(range(12)), 600))
    plan = kss.plan(df, "key", 5)
    rows = df.transform(kss.repartition, "key", plan=plan)
    assert misplaced(rows) == 0
    assert sorted(rows.collect(), key=repr) == sorted(
        kss.repartition(df, "key", plan=plan).collect(), key=repr
    )


@OLD_WAY
def test_placement_outlives_cache_and_python(spark, way):
    df = frame(spark, T.StringType(), skewed(list("abcdef"), 200))
    rows = kss.online.repartition(df, "key", ks.DChoices(workers=16)).cache()
    assert misplaced(rows) == 0
    assert misplaced(rows.mapInPandas(lambda frames: frames, rows.schema)) == 0
    rows.unpersist()


@OLD_WAY
def test_an_odd_column_name_is_placed(spark, way):
    df = frame(spark, T.LongType(), skewed([1, 2, 3], 60))
    rows = kss.online.repartition(df, "key", ks.DChoices(workers=5), worker_column="a.b `c`")
    assert all(row[0] == row[1] for row in rows.select("`a.b ``c```", F.spark_partition_id()).collect())


def test_grouping_by_worker_and_key_adds_no_exchange(spark):
    if not hasattr(DataFrame, "repartitionById"):
        pytest.skip("only repartitionById tells Spark how rows are placed")
    df = frame(spark, T.LongType(), skewed([1, 2, 3], 60))
    counts = kss.online.repartition(df, "key", ks.DChoices(workers=5)).groupBy("worker", "key").count()
    assert counts._jdf.queryExecution().executedPlan().toString().count("Exchange") == 1


@pytest.mark.parametrize("partitions", [1, 2, 3, 64, 1000, 65_536])
def test_a_preimage_is_hashed_into_its_partition(spark, partitions):
    numbers = place.preimages(partitions)
    df = spark.createDataFrame(list(enumerate(numbers)), "partition int, number int")
    wrong = df.filter(F.expr(f"pmod(hash(number), {partitions})") != F.col("partition"))
    assert df.count() == partitions
    assert wrong.count() == 0
