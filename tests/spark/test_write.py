"""`write` cuts hot partitions into several files, and writes each rare one into one."""

import re
from collections import Counter

import pytest
from pyspark.sql import functions as F

from keysplit import spark as kss

WORKERS = 6


@pytest.fixture(scope="module")
def sales(spark):
    """Two thirds of the rows are from one country, others from 20; a few have none."""
    country = F.when(F.col("id") % 3 > 0, "hot").when(F.col("id") % 50 == 0, None)
    return spark.range(1500, numPartitions=3).select(
        country.otherwise(F.concat(F.lit("c"), F.col("id") % 20)).alias("country"),
        (F.col("id") % 2).cast("int").alias("year"),
        "id",
    )


def files(path):
    """Return how many files each partition has."""
    return Counter(str(file.parent.relative_to(path)) for file in path.rglob("*.parquet"))


def read_back(spark, path, df):
    """Say whether the rows written to a path are those of a DataFrame."""
    found = spark.read.schema(df.schema).parquet(str(path)).select(*df.columns)
    return sorted(map(repr, found.collect())) == sorted(map(repr, df.collect()))


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_hot_partition_is_cut_and_a_rare_one_is_not(spark, conf, tmp_path, sales, adaptive):
    conf("spark.sql.adaptive.enabled", adaptive)
    writer = kss.write(sales, "country", workers=WORKERS, way="place")
    writer.parquet(str(tmp_path / "out"))
    found = files(tmp_path / "out")
    partitions = sales.select("country").distinct().count()
    assert len(found) == partitions
    assert found.pop("country=hot") in (4, 5)
    assert sum(found.values()) + 4 <= partitions + WORKERS - 1
    # rows of a rare country are a sixtieth: only what fills a worker to the brim is cut
    assert sum(each > 1 for each in found.values()) <= 2
    assert read_back(spark, tmp_path / "out", sales)


def test_rare_partitions_are_never_cut(tmp_path, sales):
    plan = kss.plan(sales, "country", WORKERS, grouping="d_choices")
    split = {each.key[0] for each in plan.head if len(each.workers) > 1}
    assert split == {"hot"}
    kss.write(sales, "country", plan=plan, way="place").parquet(str(tmp_path / "out"))
    found = files(tmp_path / "out")
    assert found.pop("country=hot") == len(plan.head[0].workers)
    assert set(found.values()) == {1}


def test_the_plain_way_is_spark_s_own_write(tmp_path, sales):
    kss.write(sales, "country", workers=WORKERS, way="plain").parquet(str(tmp_path / "plain"))
    assert set(files(tmp_path / "plain").values()) == {3}


def test_plain_spark_writes_more_files_or_cuts_nothing(tmp_path, sales):
    sales.repartition(WORKERS, "country").write.partitionBy("country").parquet(str(tmp_path / "by key"))
    assert set(files(tmp_path / "by key").values()) == {1}
    sales.write.partitionBy("country").parquet(str(tmp_path / "as it lies"))
    assert set(files(tmp_path / "as it lies").values()) == {3}


def test_several_partition_columns(spark, tmp_path, sales):
    plan = kss.plan(sales, ["year", "country"], WORKERS, grouping="cut_to_fit", weight="bytes", row_id="id")
    writer = kss.write(sales, ["year", "country"], plan=plan, way="place")
    writer.mode("overwrite").option("compression", "gzip").parquet(str(tmp_path / "out"))
    found = files(tmp_path / "out")
    partitions = sales.select("year", "country").distinct().count()
    assert len(found) == partitions
    assert found["year=0/country=hot"] > 1
    assert sum(found.values()) <= partitions + WORKERS - 1
    assert read_back(spark, tmp_path / "out", sales)


def test_odd_names_are_written(spark, tmp_path):
    df = spark.range(60).select(F.lit(1).alias("a.b"), F.col("id").alias("worker"))
    kss.write(df, "a.b", workers=3, way="place").parquet(str(tmp_path / "out"))
    assert files(tmp_path / "out") == {"a.b=1": 3}
    assert spark.read.parquet(str(tmp_path / "out")).columns == ["worker", "a.b"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"workers": 0}, ValueError, "workers must be in 1..=65536, got 0"),
        ({"workers": None}, ValueError, "workers must be given without a plan"),
        ({"partition_by": "town"}, ValueError, "partition_by must name one column of the DataFrame, got"),
        (
            {"partition_by": ["country", "COUNTRY"]},
            ValueError,
            "partition_by must name each column once, got",
        ),
        ({"partition_by": []}, ValueError, "partition_by must name at least one column, got an empty list"),
        (
            {"partition_by": 3},
            TypeError,
            "partition_by must be a column name or a list of column names",
        ),
        ({"df": 7}, TypeError, "df must be a Spark DataFrame, got int"),
        ({"rows_per_file": 0}, ValueError, "rows_per_file must be at least 1, got 0"),
        ({"rows_per_file": "few"}, TypeError, "rows_per_file must be a whole number, got 'few'"),
        ({"path": "x"}, TypeError, "path"),
    ],
)
def test_wrong_arguments_are_refused(sales, arguments, error, message):
    given = {"df": sales, "partition_by": "country", "workers": 3} | arguments
    with pytest.raises(error, match=re.escape(message)):
        kss.write(**given)


def test_a_column_is_left_for_the_files(sales):
    with pytest.raises(ValueError, match=r"^partition_by must leave a column for the files, got all columns"):
        kss.write(sales, sales.columns, workers=3)


def test_a_plan_brings_its_grouping(spark, tmp_path, sales):
    plan, events = kss.plan(sales, "country", WORKERS), str(tmp_path / "in")
    sales.write.parquet(events)
    stream = spark.readStream.schema(sales.schema).parquet(events)
    for writer in (
        kss.write(sales, "country", plan=plan, way="place"),
        kss.streaming.write(stream, "country", plan=plan),
    ):
        assert kss.explain(writer).endswith(f"{WORKERS} workers by d_choices")


def test_streams_are_refused(spark):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match="df must be a batch DataFrame, got a streaming one"):
        kss.write(stream, "value", workers=3)
