"""`aggregate` equals groupBy(key).agg(...), and is planned as partial results a worker, merged by key."""

import re

import pandas as pd
import pytest
from frames import KEYS, frame, same_rows, skewed
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keysplit import spark as kss

AGGREGATES = [
    "sum(v)",
    "sum(d)",
    "count(v)",
    "count(*)",
    "count(v, d)",
    "min(s)",
    "max(d)",
    "avg(v)",
    "avg(d)",
    "count(distinct s, v)",
    "sum(distinct v)",
    "count(distinct *)",
    "sum(v) filter (where v > 0)",
    "sum(v) / count(v) + max(v)",
    "median(v)",
    "percentile(d, array(0.1, 0.9))",
    "count_if(v > 0)",
    "approx_count_distinct(s)",
    "bool_and(v > 0) or bool_or(d > 0)",
    "bit_and(v) + bit_or(v) + bit_xor(v)",
    "sort_array(collect_list(v))",
    "sort_array(collect_set(s), false)",
]


def sums():
    return [F.sum("v"), F.count("*"), F.min("d"), F.max("s").alias("greatest"), F.avg("d"), F.avg("v")]


@pytest.fixture(scope="module")
def hot(spark):
    return frame(spark, T.IntegerType(), skewed([1, None, 2, 3, 4, 5], 200)).cache()


@settings(max_examples=8)
@given(data=st.data())
def test_it_equals_groupby(spark, data):
    type_, keys = KEYS[data.draw(st.sampled_from(sorted(KEYS)), label="type")]
    drawn = data.draw(
        st.one_of(
            st.just([]),
            st.lists(st.sampled_from(keys), max_size=40),
            st.builds(lambda key, rows: [key] * rows, st.sampled_from(keys), st.integers(1, 60)),
            st.integers(1, 80).map(lambda rows: skewed(keys, rows)),
        ),
        label="keys",
    )
    df = frame(spark, type_, drawn, partitions=2)
    workers = data.draw(st.sampled_from([1, 2, 5]), label="workers")
    grouping = data.draw(st.sampled_from(["d_choices", "shuffle", "partial_key"]), label="grouping")
    spread = kss.aggregate(df, "key", *sums(), workers=workers, grouping=grouping, mode="online")
    assert same_rows(spread, df.groupBy("key").agg(*sums()))


@pytest.mark.parametrize("sql", AGGREGATES)
def test_each_aggregate_equals_spark_s(hot, sql):
    spread = kss.aggregate(hot, "key", F.expr(sql), workers=4, grouping="shuffle", mode="online")
    assert same_rows(spread, hot.groupBy("key").agg(F.expr(sql)))


def test_all_aggregates_at_once_equal_spark_s(hot):
    columns = [F.expr(sql) for sql in AGGREGATES]
    spread = kss.aggregate(hot, "key", *columns, workers=4, mode="online")
    assert same_rows(spread, hot.groupBy("key").agg(*columns))


@pytest.mark.parametrize("key", [["s", "key"], ["key", "s"], "S", ["`key`"]], ids=str)
def test_key_columns_keep_their_names_and_order(hot, key):
    plain = hot.groupBy(*([key] if isinstance(key, str) else key)).agg(*sums())
    assert same_rows(kss.aggregate(hot, key, *sums(), workers=3, mode="online"), plain)


def test_columns_bound_to_the_frame_are_found(hot):
    spread = kss.aggregate(hot, "key", F.sum(hot.v), F.max(hot["d"]), workers=3, mode="online")
    assert same_rows(spread, hot.groupBy("key").agg(F.sum(hot.v), F.max(hot["d"])))


def test_a_column_called_worker_is_no_obstacle(hot):
    df = hot.withColumn("worker", F.col("v")).withColumn("Worker_", F.lit(1))
    spread = kss.aggregate(df, "worker", F.sum("d"), F.count_distinct("*"), workers=3, mode="online")
    assert same_rows(spread, df.groupBy("worker").agg(F.sum("d"), F.count_distinct("*")))


def test_collated_keys_give_the_groups_of_groupby(spark):
    if spark.version < "4":
        pytest.skip("this Spark has no collations")
    df = spark.sql(
        "select cast(k as string) collate utf8_lcase as key, 1 as v from values ('a'), ('A'), ('b') t(k)"
    )
    spread = kss.aggregate(df, "key", F.sum("v"), workers=4, grouping="shuffle", mode="online")
    plain = df.groupBy("key").agg(F.sum("v"))
    assert spread.schema == plain.schema
    assert sorted((row[0].lower(), row[1]) for row in spread.collect()) == [("a", 2), ("b", 1)]


def test_decimals_keep_all_digits(spark):
    df = spark.range(300, numPartitions=3).select(
        (F.col("id") % 3).alias("key"), (F.col("id") * F.expr("1234567890123456789.012345678bd")).alias("d")
    )
    columns = [F.sum("d"), F.avg("d"), F.min("d")]
    spread = kss.aggregate(df, "key", *columns, workers=7, grouping="shuffle", mode="online")
    assert same_rows(spread, df.groupBy("key").agg(*columns))


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_overflow_is_spark_s(spark, conf, ansi):
    conf("spark.sql.ansi.enabled", ansi)
    df = spark.range(4, numPartitions=2).select(F.lit("k").alias("key"), F.lit(2**62).alias("v"))
    spread = kss.aggregate(df, "key", F.sum("v"), workers=3, grouping="shuffle", mode="online")
    if ansi == "true":
        with pytest.raises(Exception, match=r"(?i)overflow"):
            spread.collect()
    else:
        assert same_rows(spread, df.groupBy("key").agg(F.sum("v")))


def test_the_plan_is_partial_results_on_the_workers_and_one_merge_by_key(hot):
    spread = kss.aggregate(hot, "key", F.sum("v"), workers=4, worker_column="target", mode="online")
    plan = spread._jdf.queryExecution().executedPlan().toString()
    steps = re.findall(
        r"HashAggregate\(keys=\[key|Exchange hashpartitioning\(key|Exchange .*target|EvalPython", plan
    )
    steps = [re.sub(r" .*", "", step) if "target" in step else step for step in steps]
    aggregate, merge = "HashAggregate(keys=[key", "Exchange hashpartitioning(key"
    assert steps == [aggregate, merge, aggregate, "Exchange", "EvalPython"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("first(v)", r"columns must use these aggregates: avg, .*; got first\(v\)"),
        ("sum(v) + last(v)", r"columns must use .*; got last\(v\)"),
        ("max_by(v, d)", r"columns must use .*; got max_by\(v, d\)"),
        ("percentile_approx(v, 0.5)", r"columns must use .*; got percentile_approx\("),
        ("collect_list(v)", r"order of rows, got collect_list\(v\): use sort_array\(collect_list\(v\)\)"),
        ("collect_set(v)[0]", r"order of rows, got collect_set\(v\): use sort_array\(collect_set\(v\)\)"),
    ],
)
def test_other_aggregates_are_named(hot, sql, message):
    with pytest.raises(ValueError, match=message) as error:
        kss.aggregate(hot, "key", F.expr(sql), workers=3, mode="online")
    assert "\n" not in str(error.value)


def test_python_aggregates_are_refused(hot):
    @F.pandas_udf("double")
    def mean(v: pd.Series) -> float:
        return v.mean()

    with pytest.raises(ValueError, match=r"columns must use .*; got mean\(v"):
        kss.aggregate(hot, "key", mean("v"), workers=3, mode="online")


def test_columns_are_checked(hot):
    with pytest.raises(ValueError, match=r"columns must hold at least one aggregate, got none"):
        kss.aggregate(hot, "key", workers=3, mode="online")
    with pytest.raises(TypeError, match=r"columns must be aggregates such as F.sum\('x'\), got str"):
        kss.aggregate(hot, "key", "sum(v)", workers=3, mode="online")
