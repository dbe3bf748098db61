"""Keys of which Python has no object, or another one, are keys like any other."""

import datetime as dt
import sys
from decimal import Decimal

import pyarrow as pa
import pytest
from frames import same_rows
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql import functions as F

from keysplit import spark as kss

# The workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SAMPLES = pytest.mark.parametrize("sample", ["auto", 1])

# What Python cannot hold, in zone Europe/Berlin, and its text as Spark writes it.
SENTINELS = {
    "timestamp'0001-01-01 00:00:00'": "0001-01-01 00:00:00",
    "timestamp'9999-12-31 23:59:59' + interval 1 day": "+10000-01-01 23:59:59",
    "timestamp_ntz'0000-01-01 00:00:00'": "0000-01-01 00:00:00",
    "date'0000-01-01'": "0000-01-01",
    "date'+10000-01-01'": "+10000-01-01",
    "interval '1-2' year to month": "INTERVAL '1-2' YEAR TO MONTH",
}
# What it can, and the text of it that stands in plans since their first version.
ORDINARY = {
    "7": (7, "7"),
    "'a'": ("a", "a"),
    "cast(null as string)": (None, None),
    "cast(X'FF' as string)": ("\ufffd", "\ufffd"),
    "X'FF00'": (b"\xff\0", "b'\\xff\\x00'"),
    "true": (True, "True"),
    "1.5f": (1.5, "1.5"),
    "-0d": (0.0, "0.0"),
    "double('-inf')": (float("-inf"), "-inf"),
    "date'2024-03-31'": (dt.date(2024, 3, 31), "2024-03-31"),
    "timestamp_ntz'2024-03-31 02:30:00.5'": (
        dt.datetime(2024, 3, 31, 2, 30, 0, 500_000),
        "2024-03-31 02:30:00.500000",
    ),
    "cast(-1e37 as decimal(38, 0))": (Decimal(-(10**37)), str(-(10**37))),
    "cast(0 as decimal(20, 18))": (Decimal("0E-18"), "0E-18"),
    "interval '1 02' day to hour": (dt.timedelta(days=1, hours=2), "1 day, 2:00:00"),
    "interval '-0.000001' second": (dt.timedelta(microseconds=-1), "-1 day, 23:59:59.999999"),
    "array(1, null)": ([1, None], "[1, None]"),
    "named_struct('a', 1, 'a.b', array(named_struct('s', 'x', 'b', X'00')))": (
        Row("a", "a.b")(1, [Row(s="x", b=b"\0")]),
        "Row(a=1, a.b=[Row(s='x', b=b'\\x00')])",
    ),
}


@pytest.fixture(scope="module")
def sentinels(spark):
    """Make rows of a hot key of many columns, each of a kind that Python has no object for."""
    keys = [F.expr(sql).alias(f"k{at}") for at, sql in enumerate(SENTINELS)]
    return spark.range(200, numPartitions=2).select(*keys, "id")


@SAMPLES
def test_a_plan_and_a_profile_show_what_python_cannot_hold(sentinels, sample):
    key = sentinels.columns[:-1]
    plan = kss.plan(sentinels, key, 4, sample=sample)
    assert [each.key for each in plan.head] == [tuple(SENTINELS.values())]
    top = kss.profile(sentinels, key, 4, sample=sample).top
    assert [each.key for each in top] == [tuple(SENTINELS.values())]
    inside = sentinels.select(F.struct(F.array(*key[3:5]).alias("dates"), key[0]).alias("key"), "id")
    found = kss.plan(inside, "key", 4, sample=sample).head[0].key
    assert found == ("Row(dates=['0000-01-01', '+10000-01-01'], k0='0001-01-01 00:00:00')",)


@SAMPLES
def test_ordinary_keys_have_the_text_that_they_always_had(spark, sample):
    df = spark.range(100).select(*(F.expr(sql).alias(f"k{at}") for at, sql in enumerate(ORDINARY)), "id")
    key = df.columns[:-1]
    plan = kss.plan(df, key, 4, sample=sample)
    assert plan.head[0].key == tuple(text for _, text in ORDINARY.values())
    assert kss.profile(df, key, 4, sample=sample).top[0].key == tuple(value for value, _ in ORDINARY.values())


@SAMPLES
def test_an_instant_is_that_of_collect(spark, sample):
    # the two hours half past two of this night in Berlin
    df = spark.sql(
        "select timestamp'2024-10-27 00:30:00.5 UTC' + id % 2 * interval 1 hour key from range(100)"
    )
    found = {each.key for each in kss.profile(df, "key", 4, sample=sample).top}
    assert found == {row.key for row in df.distinct().collect()}
    assert len(found) == 2


def test_nan_is_a_key(spark):
    df = spark.range(100).select(F.lit(float("nan")).alias("key"), "id")
    assert kss.plan(df, "key", 4).head[0].key == ("nan",)


def test_operations_take_such_keys(spark, sentinels, tmp_path):
    key = sentinels.columns[:-1]
    placed = kss.repartition(sentinels, key, workers=4)
    assert placed.filter("worker <> spark_partition_id()").count() == 0
    other = sentinels.select(*key).distinct()
    assert kss.join(sentinels, other, key, workers=4).count() == 200
    dates = key[3:5]
    kss.write(sentinels.select(*dates, "id"), dates, workers=4).parquet(str(tmp_path / "out"))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 200


def count(rows):
    return pa.table({"n": pa.array([rows.num_rows], pa.int64())})


def total(parts):
    return pa.table({"n": pa.array([sum(parts["n"].to_pylist())], pa.int64())})


@pytest.mark.parametrize("inside", ["array({})", "named_struct('s', {})", "array(array({}))", "{}"])
def test_apply_keeps_strings_apart_that_are_no_utf8(spark, inside):
    if spark.version < "4":
        pytest.skip("this Spark has no applyInArrow")
    keys = [inside.format(f"cast(X'{byte}' as string)") for byte in ("FF", "FE")]
    df = spark.range(200).select(F.expr(f"if(id % 2 = 0, {keys[0]}, {keys[1]})").alias("key"), "id")
    found = kss.apply(df, "key", count, "n long", merge=total, format="arrow", workers=3)
    assert [row.n for row in found.collect()] == [100, 100]


def test_apply_takes_dates_that_python_has_not(spark, sentinels):
    if spark.version < "4":
        pytest.skip("this Spark has no applyInArrow")
    key = sentinels.columns[:-2]
    df = sentinels.select(*key, "id")  # Arrow in Python has no intervals of months
    found = kss.apply(df, key, count, "n long", merge=total, format="arrow", workers=3)
    assert [row.n for row in found.collect()] == [200]


@pytest.fixture(scope="module")
def collated(spark, tmp_path_factory):
    """Make a columnar source whose keys "a0" and "A0", "a1" and "A1", "a2" and "A2" are equal."""
    if spark.version < "4":
        pytest.skip("this Spark has no collations")
    path = str(tmp_path_factory.mktemp("collated") / "rows")
    key = "concat(if(id % 2 = 0, 'a', 'A'), id % 3) collate unicode_ci as key"
    spark.range(0, 120, 1, 2).selectExpr(key, "id").write.parquet(path)
    return spark.read.parquet(path)


@SAMPLES
def test_collated_keys_are_routed_above_a_columnar_source(spark, collated, sample):
    plan = kss.plan(collated, "key", 4, grouping="w_choices", sample=sample)
    assert [each.count for each in plan.head] == [40, 40, 40]
    routed = kss.route(collated, "key", plan=plan)
    assert same_rows(routed.drop("worker"), collated)
    assert routed.filter("worker NOT BETWEEN 0 AND 3").count() == 0
    joined = kss.join(collated, collated.filter("id = 0").select("key"), "key", plan=plan, way="plain")
    placed = kss.join(collated, collated.filter("id = 0").select("key"), "key", plan=plan, way="place")
    assert placed.count() == joined.count() == 40
