"""Which way an operation takes: plain Spark's where splitting keys would bring nothing."""

import re

import pytest
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit.spark import gain
from keysplit.spark.session.classic import Classic


@pytest.fixture
def even(spark):
    return spark.range(4000).selectExpr("id % 1000 AS key", "id AS value")


@pytest.fixture
def skewed(spark):
    return spark.range(4000).selectExpr("IF(id % 10 < 8, 0, id % 100) AS key", "id AS value")


def test_a_balanced_frame_takes_the_plain_way(even, conf, monkeypatch):
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    monkeypatch.setattr(gain, "_SMALL", 0)
    result = kss.join(even, even.limit(9), "key", workers=4)
    assert kss.explain(result).startswith("plain: hashing is balanced: the busiest of 4 workers gets 1.")


def test_force_goes_by_the_plan_all_the_same(even):
    columns = F.collect_set("value").alias("values")
    result = kss.aggregate(even, "key", columns, workers=4, force=True)
    assert kss.explain(result) == "place: no key is split over 4 workers by d_choices"
    rows = F.sort_array("values")
    plain = even.groupBy("key").agg(columns).select("key", rows)
    assert sorted(result.select("key", rows).collect()) == sorted(plain.collect())


def test_a_join_under_a_plan_that_splits_nothing_says_what_was_asked_for(even, conf):
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    plan = kss.plan(even, "key", 4)
    for given, why in (({"force": True}, "force=True"), ({"way": "place"}, "way='place'")):
        result = kss.join(even, even.limit(9), "key", plan=plan, **given)
        expected = f"place: no key is split over 4 workers by d_choices; as {why} requires"
        assert kss.explain(result) == expected


def test_a_join_of_few_keys_says_what_hashing_would_do(spark, monkeypatch, conf):
    conf("spark.sql.autoBroadcastJoinThreshold", "-1")
    monkeypatch.setattr(Classic, "slots", 8)
    few = spark.range(4000).selectExpr("id % 8 AS key", "id AS value")
    plan = kss.plan(few, "key", 8, "key")
    assert not plan.head
    text = kss.explain(kss.join(few, few.limit(9), "key", plan=plan))
    found = re.fullmatch(
        r"place: no key is split .*; hashing gives the busiest (.*) times its fair share", text
    )
    assert found[1] == f"{plan.hash_busiest:.2f}"


def test_a_skewed_frame_is_placed(skewed):
    result = kss.aggregate(skewed, "key", F.collect_set("value"), workers=4, force=True)
    assert kss.explain(result) == "place: 1 key is split over 4 workers by d_choices"


def test_more_workers_than_slots_are_no_reason_to_split(spark):
    # The hot key has a quarter of the rows, and two tasks run at once: half of the rows each, at best.
    rows = spark.range(4000).selectExpr("IF(id % 4 = 0, -1, id) AS key", "id AS value")
    plan = kss.plan(rows, "key", 32)
    assert plan.hash_busiest > 4
    assert gain.reason_for_plain(plan, 2).startswith("splitting would gain too little: 2 tasks run at once")


def test_slots_count_by_what_splitting_can_gain(skewed):
    plan = kss.plan(skewed, "key", 32)
    assert gain.reason_for_plain(plan, 2) is not None  # half of the time, at best
    assert gain.reason_for_plain(plan, 8) is None
    assert gain.reason_for_plain(plan, 32) is None
    assert gain.reason_for_plain(plan, None) is None


def test_on_two_slots_no_plan_is_made_to_find_out_that_splitting_would_gain_too_little(skewed, tmp_path):
    def first(rows):
        return rows.head(1)

    def applied(**options):
        return kss.apply(skewed, "key", first, first, skewed.schema, workers=4, **options)

    told = "slices: splitting would gain too little, whatever the keys are: 2 tasks run at once; "
    unread = applied(weight=F.lit(-1))  # a plan would refuse the weight
    assert kss.explain(unread).startswith(told)
    assert unread.count() == 21  # keys
    with pytest.raises(ValueError, match=r"^weight must"):
        applied(weight=F.lit(-1), force=True)
    with pytest.raises(ValueError, match="no_such_column"):
        applied(row_id="no_such_column")
    path = tmp_path / "key.plan.json"  # one that is to be kept is made all the same
    assert kss.explain(applied(plan=path)).startswith("slices: splitting would gain too little: 2 tasks run")
    assert kss.Plan.load(path).workers == 4
    assert kss.explain(applied(force=True)).startswith("slices: 1 key is split, ")
    for workers, slots in ((4, 3), (4, None), (2, 2), (1, 2)):
        assert gain.reason_for_no_plan(workers, slots) is None
    assert gain.reason_for_no_plan(3, 2) is not None


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("workers", [3, 32, 1000])
def test_no_plan_is_made_only_where_none_would_be_taken(spark, slots, workers):
    one_key = kss.plan(spark.range(4000).selectExpr("1 AS key", "id AS value"), "key", workers)
    assert one_key.hash_busiest == workers  # no keys are worse
    assert gain.reason_for_no_plan(workers, slots) is not None
    assert gain.reason_for_plain(one_key, slots) is not None


def test_routes_and_writes_follow_the_plan(even):
    for result in (
        kss.route(even, "key", workers=4),
        kss.repartition(even, "key", workers=4),
        kss.write(even, "key", workers=4),
    ):
        assert kss.explain(result).startswith("place: ")


def test_only_results_are_explained(even):
    for wrong in (even, kss.route(even, "key", workers=4).limit(1), None, "text", []):
        with pytest.raises(TypeError, match=r"^result must be what an operation"):
            kss.explain(wrong)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sample": 0}, ValueError, "sample must be 'auto' or a number above 0, up to 1, got 0"),
        ({"sample": 1.5}, ValueError, "sample must be 'auto' or a number above 0, up to 1, got 1.5"),
        ({"sample": float("nan")}, ValueError, "sample must be"),
        ({"sample": "all"}, TypeError, "sample must be 'auto' or a number above 0, up to 1, got 'all'"),
        ({"sample": True}, TypeError, "sample must be"),
        ({"refresh": "daily"}, ValueError, "refresh must be 'auto', 'never' or 'always', got 'daily'"),
        ({"plan": 7}, TypeError, "plan must be a Plan that kss.plan made, or a path or URL, got int"),
    ],
)
def test_wrong_choices_are_refused(even, options, error, message):
    with pytest.raises(error, match=f"^{message}"):
        kss.aggregate(even, "key", F.count("*"), **{"workers": 4, **options})


def test_a_plan_is_made_at_a_path_and_read_from_it(even, tmp_path):
    path = tmp_path / "key.plan.json"
    first = kss.route(even, "key", workers=4, plan=path)
    assert kss.Plan.load(path) == kss.plan(even, "key", 4)
    assert sorted(kss.route(even, "key", plan=str(path)).collect()) == sorted(first.collect())


def test_a_sample_of_balanced_keys_is_balanced(spark):
    rows = spark.range(200_000).selectExpr("id % 50000 AS key", "id AS value")
    plan = kss.plan(rows, "key", 100, sample=0.05)
    assert plan.sample is not None
    assert plan.hash_busiest < 1.1
    hot = rows.selectExpr("IF(key < 5000, 0, key) AS key", "value")
    assert kss.plan(hot, "key", 100, sample=0.05).hash_busiest > 5
