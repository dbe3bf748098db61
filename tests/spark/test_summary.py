"""Counting keys: all that are frequent are found, and no count is wrong by more than is promised."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

import keysplit as ks
from keysplit import spark as kss
from keysplit.spark.counting.summary import summarise
from keysplit.spark.plan import planning

SAMPLES = pytest.mark.parametrize("sample", ["auto", 1])
BAD = r"^weight must be finite, at least 0 and not null in every row, and have a finite sum, got "


@pytest.fixture(scope="module")
def rows(spark):
    """Make 6,000 rows of 300 keys in 3 tasks, 20 rows a key or a few more or less."""
    return spark.range(0, 6000, 1, 3).select(F.pmod(F.xxhash64("id"), F.lit(300)).alias("key"), "id")


def found(rows, params, **options):
    request = planning(rows, "key", None, grouping=params, sample=options.pop("sample", 1))
    return summarise(request, **options)


def counts_of(rows):
    return {row.key: row["count"] for row in rows.groupBy("key").count().collect()}


def test_keys_are_counted_exactly(rows):
    true = counts_of(rows)
    counted = found(rows, ks.DChoices(workers=4, threshold=1 / 300))
    frequent = {key for key, count in true.items() if count >= 20}
    assert 100 < len(frequent) < 200
    assert {key for (key,) in counted.keys.values()} == frequent
    assert not counted.summary.errors.any()
    for hash_, count in zip(counted.summary.hashes.tolist(), counted.summary.counts, strict=True):
        assert count == true[counted.keys[hash_][0]]
    assert counted.summary.total == counted.summary.buckets.sum() == 6000


def test_the_promise_holds_for_thousands_of_workers(rows):
    top = kss.profile(rows, "key", 6000).top
    assert {each.key: each.count for each in top} == counts_of(rows)
    assert {each.error for each in top} == {0}


def test_frequent_keys_that_crowd_in_a_bucket_are_read_in_a_second_pass(rows):
    # of 300 keys in 4,096 buckets some share one, and one candidate a bucket is too few
    params = ks.DChoices(workers=4, threshold=1 / 2000)
    crowded, whole = found(rows, params, most_candidates=1), found(rows, params)
    assert crowded.keys == whole.keys
    assert len(whole.keys) == 300
    assert crowded.summary.counts.tolist() == whole.summary.counts.tolist()


@SAMPLES
@pytest.mark.parametrize(
    ("bad", "got"),
    [
        (None, "null"),
        (-1.0, "-1"),
        (float("nan"), "(a sum of )?nan"),
        (float("inf"), "(a sum of )?inf"),
    ],
)
def test_bad_weights_are_refused(spark, sample, bad, got):
    df = spark.createDataFrame([(i % 3, bad if i == 50 else 1.0) for i in range(80)], "key int, w double")
    with pytest.raises(ValueError, match=f"{BAD}{got}$"):
        kss.plan(df.repartition(3), "key", 4, weight="w", sample=sample)


@SAMPLES
def test_weights_without_a_finite_sum_are_refused(spark, sample):
    df = spark.range(40).select((F.col("id") % 3).alias("key"), F.lit(1e307).alias("w"))
    with pytest.raises(ValueError, match=f"{BAD}a sum of inf$"):
        kss.plan(df, "key", 4, weight="w", sample=sample)


@SAMPLES
def test_an_error_of_the_weight_itself_stays_what_it_is(spark, sample):
    @F.udf(T.DoubleType())
    def weigh(key):
        raise ValueError("weights must be blue")

    df = spark.range(40).select((F.col("id") % 3).alias("key"))
    with pytest.raises(PySparkException, match="weights must be blue"):
        kss.plan(df, "key", 4, weight=weigh("key"), sample=sample)


@SAMPLES
def test_no_rows_have_no_frequent_keys(spark, sample):
    counted = found(spark.range(0).toDF("key"), ks.DChoices(workers=4), sample=sample)
    assert (counted.keys, counted.summary.total) == ({}, 0)
