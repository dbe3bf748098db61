"""Which way an operation takes: plain Spark's where splitting keys would bring nothing."""

import re
import sys

import pytest
from calls import no_job
from pyspark import cloudpickle

from keysplit import spark as kss
from keysplit.spark import jvm, strategy

# The workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def first(rows):
    return rows.head(1)


@pytest.fixture
def even(spark):
    return spark.range(4000).selectExpr("id % 1000 AS key", "id AS value")


@pytest.fixture
def skewed(spark):
    return spark.range(4000).selectExpr("IF(id % 10 < 8, 0, id % 100) AS key", "id AS value")


def test_a_balanced_frame_takes_the_plain_way(even, conf, monkeypatch):
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    monkeypatch.setattr(strategy, "_SMALL", 0)
    result = kss.join(even, even.limit(9), "key", workers=4)
    assert kss.explain(result).startswith("plain: hashing is balanced: the busiest of 4 workers gets 1.")


def test_a_way_that_is_asked_for_is_taken_all_the_same(even, conf):
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    plan = kss.plan(even, "key", 4)
    result = kss.join(even, even.limit(9), "key", plan=plan, way="place")
    expected = "place: no key is split over 4 workers by d_choices; as way='place' requires"
    assert kss.explain(result) == expected
    for call in (
        lambda: kss.join(even, even.limit(9), "key", plan=plan, way="plain"),
        lambda: kss.apply(even, "key", first, even.schema, merge=first, plan=plan, way="plain"),
        lambda: kss.write(even, "key", plan=plan, way="plain"),
    ):
        assert kss.explain(call()) == "plain: as way='plain' requires"


def test_a_join_of_few_keys_says_what_hashing_would_do(spark, monkeypatch, conf):
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    monkeypatch.setattr(jvm, "slots", lambda df: 8)
    few = spark.range(4000).selectExpr("id % 8 AS key", "id AS value")
    plan = kss.plan(few, "key", 8, grouping="key")
    assert not plan.head
    text = kss.explain(kss.join(few, few.limit(9), "key", plan=plan))
    found = re.fullmatch(
        r"place: no key is split .*; hashing gives the busiest (.*) times its fair share", text
    )
    assert found[1] == f"{plan.hash_busiest:.2f}"


def test_more_workers_than_slots_are_no_reason_to_split(spark):
    # The hot key has a quarter of the rows, and two tasks run at once: half of the rows each, at best.
    rows = spark.range(4000).selectExpr("IF(id % 4 = 0, -1, id) AS key", "id AS value")
    plan = kss.plan(rows, "key", 32)
    assert plan.hash_busiest > 4
    assert strategy.reason_for_plain(plan, 2).startswith(
        "splitting would gain too little: 2 tasks run at once"
    )


def test_slots_count_by_what_splitting_can_gain(skewed):
    plan = kss.plan(skewed, "key", 32)
    assert strategy.reason_for_plain(plan, 2) is not None  # half of the time, at best
    assert strategy.reason_for_plain(plan, 8) is None
    assert strategy.reason_for_plain(plan, 32) is None
    assert strategy.reason_for_plain(plan, None) is None


def test_on_two_slots_no_plan_is_made_to_find_out_that_splitting_would_gain_too_little(spark, skewed):
    def applied(**how):
        return kss.apply(skewed, "key", first, skewed.schema, merge=first, workers=4, **how)

    with no_job(spark, "two slots"):
        unplanned = applied()
    assert kss.explain(unplanned).startswith(
        "slices: splitting would gain too little for any keys: 2 tasks run at once; "
    )
    assert unplanned.count() == 21  # keys
    assert kss.explain(applied(way="place")).startswith("slices: 1 key is split, ")
    for workers, slots in ((4, 3), (4, None), (2, 2), (1, 2)):
        assert strategy.reason_for_no_plan(workers, slots) is None
    assert strategy.reason_for_no_plan(3, 2) is not None


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("workers", [3, 32, 1000])
def test_no_plan_is_made_only_where_none_would_be_taken(spark, slots, workers):
    one_key = kss.plan(spark.range(4000).selectExpr("1 AS key", "id AS value"), "key", workers)
    assert one_key.hash_busiest == workers  # no keys are worse
    assert strategy.reason_for_no_plan(workers, slots) is not None
    assert strategy.reason_for_plain(one_key, slots) is not None


def test_routes_and_writes_follow_the_plan(even):
    for result in (
        kss.route(even, "key", workers=4),
        kss.repartition(even, "key", workers=4),
        kss.write(even, "key", workers=4),
    ):
        assert kss.explain(result).startswith("place: ")


@pytest.mark.parametrize("way", ["grid", "", 3, "broadcast"])
def test_other_ways_are_refused(even, way):
    for call in (
        lambda: kss.apply(even, "key", first, even.schema, merge=first, workers=4, way=way),
        lambda: kss.write(even, "key", workers=4, way=way),
    ):
        with pytest.raises(ValueError, match=rf"^way must be .* or None, got {way!r}$"):
            call()


def test_only_results_are_explained(even):
    for wrong in (even, kss.route(even, "key", workers=4).limit(1), None, "text", []):
        with pytest.raises(TypeError, match=r"^result must be the DataFrame that an operation"):
            kss.explain(wrong)


def test_a_sample_of_balanced_keys_is_balanced(spark):
    rows = spark.range(200_000).selectExpr("id % 50000 AS key", "id AS value")
    plan = kss.plan(rows, "key", 100, sample=0.05)
    assert plan.sample is not None
    assert plan.hash_busiest < 1.1
    hot = rows.selectExpr("IF(key < 5000, 0, key) AS key", "value")
    assert kss.plan(hot, "key", 100, sample=0.05).hash_busiest > 5
