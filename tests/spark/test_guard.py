"""`kss.online` is refused where a retried task may have other rows, or another order; nothing is run."""

import re
import tempfile

import pytest
from frames import frame, same_rows, skewed
from pyspark import StorageLevel
from pyspark.sql import functions as F
from pyspark.sql import types as T

import keysplit as ks
from keysplit import spark as kss
from keysplit.spark.identity import physical

pytestmark = pytest.mark.versions
GROUPING = ks.DChoices(workers=4)


@pytest.fixture(scope="module")
def df(spark):
    return frame(spark, T.LongType(), skewed([1, 2, 3, None], 60))


def in_cache(shuffled):
    return shuffled.persist(StorageLevel.MEMORY_ONLY)


def used_cache(shuffled):
    cached = shuffled.persist(StorageLevel.MEMORY_ONLY)
    cached.count()
    return cached.withColumn("more", F.lit(1))


def row_by_row(df):
    def as_they_are(frames):
        return frames

    return df.mapInPandas(as_they_are, df.schema)


def written(df):
    path = f"{tempfile.mkdtemp()}/rows"
    df.write.parquet(path)
    return path


def through_rdd(df):
    return df.sparkSession.createDataFrame(
        df.rdd.map(lambda row: (row.key, row)).groupByKey().mapValues(len), "key long, n int"
    )


SHUFFLED = {
    "groupBy": lambda df: df.groupBy("key").count(),
    "distinct": lambda df: df.distinct(),
    "repartition": lambda df: df.repartition(3),
    "repartition by key": lambda df: df.repartition(3, "key"),
    "range": lambda df: df.repartitionByRange(3, "key"),
    "sort": lambda df: df.sort("v"),
    "sort in partitions": lambda df: df.repartition(3).sortWithinPartitions("key", "v", "d"),
    "sort of a double": lambda df: (
        df.select("key", F.col("v").cast("double").alias("v")).repartition(3).sortWithinPartitions("key", "v")
    ),
    "shuffle above a sort": lambda df: df.sort(*df.columns).repartition(3),
    "top": lambda df: df.sort("v").limit(5),
    "limit": lambda df: df.limit(7),
    "window": lambda df: df.withColumn("n", F.expr("row_number() over (partition by key order by v)")),
    "join": lambda df: df.hint("merge").join(df.select("key").distinct(), "key"),
    "union": lambda df: df.union(df.repartition(2)),
    "whole groups in Python": lambda df: df.groupBy("key").applyInPandas(lambda frame: frame, df.schema),
    "unused cache": lambda df: in_cache(df.repartition(3)),
    "used cache": lambda df: used_cache(df.repartition(3)),
    "cache of a cache": lambda df: used_cache(
        used_cache(df.groupBy("key").count()).withColumn("n", F.lit(2))
    ),
    "below a filter": lambda df: df.repartition(3).filter("v > 0").select("key"),
    "RDD": through_rdd,
    "RDD of a DataFrame": lambda df: df.sparkSession.createDataFrame(df.repartition(3).rdd, df.schema),
    "lazy checkpoint": lambda df: df.repartition(3).checkpoint(eager=False),
}
ALLOWED = {
    "source": lambda df: df,
    "projection": lambda df: df.filter("v > 0").withColumn("w", F.col("v") + 1).select("key", "w"),
    "row by row in Python": row_by_row,
    "a value made in Python": lambda df: df.withColumn("w", F.udf(lambda v: v, "long")("v")),
    "broadcast": lambda df: df.join(F.broadcast(df.groupBy("key").agg(F.max("v").alias("top"))), "key"),
    "cache": lambda df: used_cache(df.filter("v > 0")),
    "checkpoint": lambda df: df.repartition(3).checkpoint(),
    "checkpoint of a sort": lambda df: df.sort("v").checkpoint().withColumn("w", F.lit(1)),
    "sort in partitions by all columns": lambda df: (
        df.repartition(3).sortWithinPartitions(*df.columns).filter("v > 0").select("key")
    ),
    "sort by all columns": lambda df: df.sort(F.desc("s"), "d", "v", "key"),
    "coalesce": lambda df: df.coalesce(2),
    "union": lambda df: df.union(df),
    "scalar subquery": lambda df: df.filter(F.col("v") < df.sparkSession.range(40).count()),
}


# Without a shuffle whose order reaches the top, but a retried task may have other rows or keys.
OTHER_ROWS = {
    "RDD": (
        lambda df: df.sparkSession.createDataFrame(df.rdd.map(lambda row: (row.key,)), "key long"),
        "an RDD: use a plan (kss.repartition), call df.checkpoint() first, ",
    ),
    "rows by chance in Python": (
        lambda df: df.filter(F.udf(lambda v: v > 0, "boolean").asNondeterministic()("v")),
        "the Python function '<lambda>', which is not trusted: use a plan (kss.repartition), pass trust=",
    ),
    "keys by chance in Python": (
        lambda df: df.withColumn("key", F.udf(lambda v: v, "long").asNondeterministic()("v")),
        "the Python function '<lambda>', which is not trusted: ",
    ),
    "rows by chance in Java": (
        lambda df: df.filter("java_method('java.util.UUID', 'randomUUID') > 'a'"),
        "the expression CallMethodViaReflection, which keysplit does not know: ",
    ),
    "files that may be missing": (
        lambda df: df.sparkSession.read.option("ignoreMissingFiles", True).parquet(written(df)),
        "files read with ignoreMissingFiles, ",
    ),
}
# A sort by all columns gives rows their order back only if they are the same rows.
SORTED = {
    "sample": lambda df: df.repartition(3).sample(0.5),
    "limit": lambda df: df.repartition(3).limit(20),
    "one of several": lambda df: df.repartition(3).dropDuplicates(["key"]),
    "first": lambda df: df.repartition(3).groupBy("v").agg(F.first("key").alias("key")),
    "place in the partition": lambda df: df.repartition(3).select(
        F.monotonically_increasing_id().alias("m"), "key", "v"
    ),
    "by chance": lambda df: df.repartition(3).select((F.rand() * 100).cast("int").alias("m"), "key", "v"),
}


@pytest.fixture(params=["true", "false"], ids=["adaptive", "not adaptive"])
def adaptive(conf, request):
    conf("spark.sql.adaptive.enabled", request.param)


def jobs(spark):
    return spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()


@pytest.mark.parametrize("name", SHUFFLED)
def test_a_shuffle_below_is_refused(spark, df, adaptive, name):
    shuffled = SHUFFLED[name](df)
    before = jobs(spark)
    for function in (kss.online.route, kss.online.repartition):
        with pytest.raises(
            ValueError, match=r"^kss.online is exact only without an upstream shuffle, got .*checkpoint"
        ) as error:
            function(shuffled, "key", GROUPING)
        assert "\n" not in str(error.value)
    assert jobs(spark) == before
    spark.catalog.clearCache()


@pytest.mark.parametrize("name", ALLOWED)
def test_no_shuffle_is_no_obstacle(spark, conf, df, name):
    fine = ALLOWED[name](df)
    before = jobs(spark)
    for adaptive in ("false", "true"):
        conf("spark.sql.adaptive.enabled", adaptive)
        trust = ["as_they_are"] if name == "row by row in Python" else ()
        routed = kss.online.repartition(fine, "key", GROUPING, trust=trust)
    assert jobs(spark) == before
    assert same_rows(routed.drop("worker"), fine)
    spark.catalog.clearCache()


@pytest.mark.parametrize("name", OTHER_ROWS)
def test_other_rows_or_keys_are_refused(df, name):
    make, why = OTHER_ROWS[name]
    message = f"kss.online is exact only if a retried task has the same rows in the same order, got {why}"
    for function in (kss.online.route, kss.online.repartition):
        with pytest.raises(ValueError, match=re.escape(message)):
            function(make(df), "key", GROUPING)


def test_weights_by_chance_are_refused(df):
    chance = F.udf(lambda v: 1.0, "double").asNondeterministic()("v")
    with pytest.raises(ValueError, match="same rows in the same order, got the Python function"):
        kss.online.route(df, "key", GROUPING, weight=chance)
    kss.online.route(df, "key", GROUPING, weight=F.col("v") + 1)


@pytest.mark.parametrize("name", SORTED)
def test_a_sort_of_other_rows_is_refused(df, adaptive, name):
    rows = SORTED[name](df)
    for ordered in (rows.sortWithinPartitions(*rows.columns), rows.sort(*rows.columns)):
        with pytest.raises(ValueError, match=r"^kss\.online is exact only without an upstream shuffle, got"):
            kss.online.route(ordered, "key", GROUPING)


def test_files_are_no_shuffle(spark, df, tmp_path):
    df.write.parquet(str(tmp_path / "rows"))
    rows = spark.read.parquet(str(tmp_path / "rows"))
    assert same_rows(kss.online.route(rows, "key", GROUPING).drop("worker"), df)


def test_the_message_names_the_shuffle(df):
    with pytest.raises(
        ValueError,
        match=r"got a shuffle \(hashpartitioning\(key#\d+L, 3\)\): use a plan \(kss\.repartition\)",
    ):
        kss.online.route(df.repartition(3, "key"), "key", GROUPING)
    with pytest.raises(ValueError, match="got a shuffle in the lineage of an RDD: "):
        kss.online.route(through_rdd(df), "key", GROUPING)


def test_an_operator_that_is_not_known_counts_as_one_that_changes_the_order(df, monkeypatch):
    kss.online.route(df.filter("v > 0"), "key", GROUPING)
    monkeypatch.setattr(physical, "_KEEPING", physical._KEEPING - {"Filter"})
    for unknown in (df.filter("v > 0"), df.filter("v > 0").sortWithinPartitions(*df.columns)):
        with pytest.raises(ValueError, match="got the operator Filter, which is not known to keep the order"):
            kss.online.route(unknown, "key", GROUPING)


def test_the_text_of_a_plan_is_read_the_same_way():
    known = (
        "== Physical Plan ==\n* Project (2)\n+- * Range (1)\n\n(1) Range [codegen id : 1]\n\n(2) Project\n"
    )
    assert physical.disorder_in(known) is None
    for operator in ("Exchange", "TakeOrderedAndProject", "VendorTopN", "HashAggregate"):
        assert physical.disorder_in(f"{known}\n(3) {operator}\n") == f"the operator {operator}"


def test_allow_inexact_overrides(df):
    shuffled = df.repartition(3)
    routed = kss.online.repartition(shuffled, "key", GROUPING, allow_inexact=True)
    assert same_rows(routed.drop("worker"), df)
