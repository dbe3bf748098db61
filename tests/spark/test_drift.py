"""A plan says how far the keys of another day have drifted from its own."""

from collections import Counter

import numpy as np
import pytest
from frames import skewed
from pyspark.sql import functions as F

from keysplit import spark as kss

YESTERDAY = skewed([f"k{i}" for i in range(9)], 4000)


def frame(spark, keys, type_="string"):
    return spark.createDataFrame([(key, i) for i, key in enumerate(keys)], f"key {type_}, v bigint")


def distance(then, today):
    """The total variation distance between two lists of keys, from its definition."""
    then, today = Counter(then), Counter(today)
    return sum(abs(then[k] / then.total() - today[k] / today.total()) for k in then | today) / 2


@pytest.fixture(scope="module")
def plan(spark):
    return kss.plan(frame(spark, YESTERDAY), "key", 8, grouping="cut_to_fit")


def test_the_same_rows_have_not_drifted(spark, plan):
    drift = kss.drift(plan, frame(spark, YESTERDAY))
    assert drift.moved == 0
    assert drift.loads == pytest.approx(plan.loads)
    assert drift.imbalance == drift.fresh_imbalance < 0.01
    assert (drift.new_keys, drift.gone_keys) == ({}, {})
    assert drift.verdict.startswith("the plan still fits: the busiest worker has 1.0")


def test_a_new_hot_key_asks_for_a_new_plan(spark, plan):
    today = [key if key != "k0" else "new" for key in YESTERDAY]
    drift = kss.drift(plan, frame(spark, today))
    share = today.count("new") / len(today)
    assert drift.moved == pytest.approx(share)
    assert drift.new_keys == {"new": pytest.approx(share)}
    assert drift.gone_keys == {"k0": pytest.approx(share)}
    # the whole of it lies on the worker of one bucket
    assert drift.loads.sum() == len(today)
    assert drift.loads.max() >= today.count("new")
    assert drift.imbalance > 0.25 > 0.01 > drift.fresh_imbalance
    assert drift.verdict.startswith("make a new plan: the busiest worker has ")
    text = str(drift).splitlines()
    assert text[0] == drift.verdict
    assert text[2:] == [
        f"  frequent today, not in the plan: new ({share:.2%})",
        f"  frequent in the plan, not today: k0 ({share:.2%})",
    ]


def test_shares_that_shift_are_measured(spark, plan):
    today = YESTERDAY + ["k1"] * 500 + [f"other {i}" for i in range(300)]
    drift = kss.drift(plan, frame(spark, today))
    assert drift.moved == pytest.approx(distance(YESTERDAY, today))
    assert drift.new_keys == {}


def test_loads_are_those_of_the_rows_that_the_plan_routes(spark, plan):
    df = frame(spark, [f"x{i % 300}" for i in range(3000)] + ["k0"] * 1000)
    drift = kss.drift(plan, df)
    routed = kss.route(df.filter("key <> 'k0'"), "key", plan=plan).groupBy("worker").count().collect()
    whole = np.zeros(8)
    whole[[row.worker for row in routed]] = [row["count"] for row in routed]
    of_k0 = next(each for each in plan.head if each.key == ("k0",))
    whole[list(of_k0.workers)] += 1000 * np.array(of_k0.shares)
    assert drift.loads == pytest.approx(whole)


def test_weights_are_what_moves(spark, plan):
    df = frame(spark, YESTERDAY)
    heavy = kss.drift(plan, df, weight=F.when(F.col("key") == "k0", 3).otherwise(1))
    drawn = YESTERDAY + ["k0"] * (2 * YESTERDAY.count("k0"))
    assert heavy.moved == pytest.approx(distance(YESTERDAY, drawn))
    assert heavy.loads.sum() == len(drawn)
    weighted = kss.plan(df, "key", 8, weight=F.lit(2))
    with pytest.raises(
        ValueError, match=r"^weight must be the weight that the plan was made with, got None$"
    ):
        kss.drift(weighted, df)
    assert kss.drift(weighted, df, weight=F.lit(2)).moved == 0


def test_imbalance_is_relative_to_capacities(spark):
    df = frame(spark, range(5000), "bigint")
    plan = kss.plan(df, "key", 4, grouping="cut_to_fit", capacities=[1, 2, 3, 4])
    drift = kss.drift(plan, df)
    assert drift.loads == pytest.approx([500, 1000, 1500, 2000], rel=0.02)
    assert drift.imbalance < 0.01


def test_another_column_with_keys_of_the_same_type(spark, plan):
    df = frame(spark, YESTERDAY).withColumnRenamed("key", "word")
    assert kss.drift(plan, df, "word").moved == 0


def test_days_without_rows(spark, plan):
    none = frame(spark, [])
    today = kss.drift(plan, none)
    assert today.moved == 0
    assert today.loads.tolist() == [0] * 8
    assert set(today.gone_keys) == {key for each in plan.head for key in each.key}
    assert len(today.gone_keys) > 5
    assert str(today).endswith(", ...")
    assert today.verdict == "the plan still fits: there are no rows today"
    yesterday = kss.drift(kss.plan(none, "key", 8), frame(spark, YESTERDAY))
    assert yesterday.moved == 1
    assert yesterday.gone_keys == {}
    assert yesterday.verdict.startswith("make a new plan: ")


def test_a_null_key_and_a_lonely_worker(spark):
    df = frame(spark, [None, None, "a"])
    drift = kss.drift(kss.plan(df, "key", 1, grouping="cut_to_fit"), df.filter("key is null"))
    assert drift.moved == pytest.approx(1 / 3)
    assert drift.gone_keys == {"a": pytest.approx(1 / 3)}
    assert drift.verdict == (
        "the plan still fits: the busiest worker has 1.00 times the mean today, 1.00 times by a new plan"
    )
    new = kss.drift(kss.plan(df.filter("key = 'a'"), "key", 1, grouping="cut_to_fit"), df)
    assert new.new_keys == {"null": pytest.approx(2 / 3)}


def test_it_is_a_function_too(spark, plan):
    df = frame(spark, YESTERDAY).withColumnRenamed("key", "word")
    assert str(kss.drift(plan, df, "word")) == str(kss.drift(plan, df, key="word"))
    with pytest.raises(TypeError, match=r"^plan must be a Plan that kss\.plan made, got str"):
        kss.drift("path", df)


def test_other_types_and_streams_are_refused(spark, plan):
    with pytest.raises(ValueError, match=r"key must have the types of the plan, \('string',\)"):
        kss.drift(plan, frame(spark, [1, 2], "bigint"))
    with pytest.raises(ValueError, match="df must be a batch DataFrame, got a streaming one"):
        kss.drift(plan, spark.readStream.format("rate").load(), "value")
