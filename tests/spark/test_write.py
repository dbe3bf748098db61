"""`write` cuts hot partitions into several files, and writes each rare one into one."""

import re
from collections import Counter

import pyarrow.parquet as pq
import pytest
from calls import jobs_of
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


def ranges_of(path, partition, column, reverse=False):
    """Return the values in each file of a partition; the files are sorted and do not overlap."""

    def place(value):
        return value is not None, value

    written = (path / partition).glob("*.parquet")
    found = [pq.ParquetFile(file).read().column(column).to_pylist() for file in written]
    assert found == [sorted(each, key=place, reverse=reverse) for each in found]
    found.sort(key=lambda each: place(each[0]), reverse=reverse)
    ends = [value for each in found for value in (each[0], each[-1])]
    assert ends == sorted(ends, key=place, reverse=reverse)
    return found


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


SORTED = {
    "a name": ("id", "id", False),
    "descending, with nulls last": (F.desc, "few_nulls", True),
    "texts, with nulls first": (F.asc, "text", False),
    "two columns": (lambda name: [F.col(name), F.desc("year")], "few_nulls", False),
}


@pytest.fixture(scope="module")
def mixed(sales):
    at = F.col("id") * 7919 % 1009
    return sales.select("*", F.when(at > 50, at).alias("few_nulls"), at.cast("string").alias("text"))


@pytest.mark.parametrize("case", SORTED)
def test_files_of_a_hot_partition_hold_ranges(spark, tmp_path, mixed, case):
    order, column, reverse = SORTED[case]
    sort_by = order if isinstance(order, str) else order(column)
    writer = kss.write(mixed, "country", workers=WORKERS, sort_by=sort_by, way="place")
    assert re.match(
        rf"place: . keys? .* split over {WORKERS} workers by ranges of {column}", kss.explain(writer)
    )
    writer.parquet(str(tmp_path / "out"))
    found = ranges_of(tmp_path / "out", "country=hot", column, reverse)
    assert len(found) in (4, 5)
    assert max(map(len, found)) < 400
    values = list(map(set, found))
    assert case == "two columns" or sum(map(len, values)) == len(set().union(*values))
    for partition in files(tmp_path / "out"):
        ranges_of(tmp_path / "out", partition, column, reverse)
    assert read_back(spark, tmp_path / "out", mixed)


def test_rows_of_one_value_are_in_one_file(spark, tmp_path, mixed):
    kss.write(mixed, "country", workers=WORKERS, sort_by="year", way="place").parquet(str(tmp_path / "out"))
    assert list(map(set, ranges_of(tmp_path / "out", "country=hot", "year"))) == [{0}, {1}]
    assert read_back(spark, tmp_path / "out", mixed)


def test_few_rows_are_sorted_into_few_files(spark, tmp_path, mixed):
    writer = kss.write(mixed, "country", workers=WORKERS, sort_by="id", rows_per_file=370)
    assert re.search("split over 4 workers by ranges of id, not over 6, because", kss.explain(writer))
    writer.parquet(str(tmp_path / "out"))
    assert 1 < len(ranges_of(tmp_path / "out", "country=hot", "id")) <= 4
    assert read_back(spark, tmp_path / "out", mixed)


def test_the_plain_way_sorts_each_file(spark, tmp_path, mixed):
    writer = kss.write(mixed, "country", sort_by=F.desc("text"), way="plain")
    writer.parquet(str(tmp_path / "out"))
    assert set(files(tmp_path / "out").values()) == {3}
    found = [pq.ParquetFile(file).read().column("text").to_pylist() for file in tmp_path.rglob("*.parquet")]
    assert found == [sorted(each, reverse=True) for each in found]
    assert read_back(spark, tmp_path / "out", mixed)


def test_the_cuts_of_a_plan_make_the_ranges(spark, tmp_path, mixed):
    counts = []
    for order in ("id", "text"):
        plan = kss.plan(mixed, "country", WORKERS, grouping="cut_to_fit", weight="bytes", order_by=order)
        jobs = []
        with jobs_of(spark, jobs):
            writer = kss.write(mixed, "country", plan=plan, sort_by="id", way="place")
        counts.append(len(jobs))
    assert counts[0] == 0 < counts[1]
    kss.write(mixed, "country", plan=plan, sort_by="text", way="place").parquet(str(tmp_path / "out"))
    assert len(ranges_of(tmp_path / "out", "country=hot", "text")) in (4, 5)
    writer.parquet(str(tmp_path / "other"))
    assert len(ranges_of(tmp_path / "other", "country=hot", "id")) in (4, 5)


def test_rows_without_an_identity_are_divided_by_their_order(spark, tmp_path):
    df = spark.range(600).select(F.lit(1).alias("p"), (F.col("id") * 7 % 600).alias("o"))
    same = df.select("p", F.col("o"), F.rand().alias("by_chance"))
    kss.write(same, "p", workers=3, sort_by="o", way="place").parquet(str(tmp_path / "out"))
    assert [len(each) for each in ranges_of(tmp_path / "out", "p=1", "o")] == pytest.approx([200] * 3, abs=60)
    with pytest.raises(ValueError, match=r"^sort_by must name columns that have the same values when a"):
        kss.write(same, "p", workers=3, sort_by=["o", "by_chance"])
    kss.write(same, "p", sort_by="by_chance", way="plain")


def test_wrong_orders_are_refused(sales):
    for sort_by, error, message in (
        (
            3,
            TypeError,
            "sort_by must be a column name, a column such as F.desc('ts'), or a list of these, got 3",
        ),
        ("none", ValueError, "sort_by must name one column of the DataFrame, got 'none'; it has ['country'"),
        (F.col("id") * 2, ValueError, "sort_by must name columns of df, not expressions, got Column<"),
        (
            ["id", F.desc("COUNTRY")],
            ValueError,
            "sort_by must name no columns of partition_by, which is ['country'], got ['id', 'country']",
        ),
    ):
        with pytest.raises(error, match=f"^{re.escape(message)}"):
            kss.write(sales, "country", workers=3, sort_by=sort_by)


def test_streams_are_refused(spark):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match="df must be a batch DataFrame, got a streaming one"):
        kss.write(stream, "value", workers=3)
