"""A row's worker is a function of its key, its identity and the plan."""

import math
import warnings
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from importlib import import_module

import numpy as np
import pytest
from frames import KEYS, frame, same_rows, skewed
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql import types as T

import keysplit as ks
from keysplit import spark as kss
from keysplit.plan import PLANS
from keysplit.spark.expr import hashes
from keysplit.spark.request import check
from reference.plan_table import PlanTable

planning = import_module("keysplit.spark.plan")  # the package has the function by this name


@pytest.fixture(scope="module")
def hot(spark):
    """Half of the rows have key 1, a quarter have key 2, and so on."""
    keys = skewed([1, 2, 3, None, *range(10, 60)], 600)
    rows = [(key, at, at % 50, f"s{at % 7}") for at, key in enumerate(keys)]
    return spark.createDataFrame(rows, "key bigint, id bigint, v bigint, s string")


def with_hashes(df, key, plan):
    request = check(df, key, plan)
    return df.withColumn("h", hashes.plan_hash(request)).withColumn("r", hashes.row_hash(request))


@settings(max_examples=8)
@given(data=st.data())
def test_rows_go_where_the_tables_say(spark, data):
    type_, keys = KEYS[data.draw(st.sampled_from(sorted(KEYS)), label="type")]
    drawn = data.draw(
        st.one_of(
            st.just([]),
            st.builds(lambda key, rows: [key] * rows, st.sampled_from(keys), st.integers(1, 60)),
            st.integers(1, 120).map(lambda rows: skewed(keys, rows)),
        ),
        label="keys",
    )
    grouping = data.draw(st.sampled_from(sorted(PLANS)), label="grouping")
    workers = data.draw(st.sampled_from([1, 2, 7, 300]), label="workers")
    seed = data.draw(st.sampled_from([0, 5, 2**64 - 1]), label="seed")
    df = frame(spark, type_, drawn, partitions=2)
    plan = kss.plan(df, "key", workers, grouping=grouping, seed=seed, row_id=["v", "d", "s"])
    tables = plan.tables
    model = PlanTable(*(getattr(tables, name).tolist() for name in PlanTable._fields))
    rows = with_hashes(df, "key", plan)
    routed = kss.route(rows, "key", plan=plan)
    found = routed.select("h", "r", "worker").collect()
    assert [row.worker for row in found] == model.route([x.h for x in found], [x.r for x in found])
    assert routed.schema["worker"].dataType == T.IntegerType()
    assert routed.drop("worker").schema == rows.schema


@pytest.mark.parametrize("grouping", sorted(PLANS))
def test_rows_are_spread_as_the_plan_expects(spark, grouping):
    keys = ks.streams.zipf(1.4, keys=1000, messages=40_000, seed=3)
    rows = zip(keys.tolist(), range(len(keys)), strict=True)
    df = spark.createDataFrame(rows, "key long, id long").repartition(4)
    plan = kss.plan(df, "key", 16, grouping=grouping)
    routed = kss.route(df, "key", plan=plan).groupBy("worker").count()
    counts = Counter({row.worker: row["count"] for row in routed.collect()})
    loads = np.array([counts[worker] for worker in range(16)])
    assert loads.sum() == len(keys) == pytest.approx(plan.loads.sum())
    assert np.abs(loads - plan.loads).max() < 5 * math.sqrt(len(keys) / 16)


def test_a_small_frame_is_counted_as_a_groupby_counts_it(hot):
    found, exact = kss.plan(hot, "key", 4), kss.plan(hot, "key", 4, sample=1)
    assert found == exact
    assert exact.head[0].key == ("1",)
    counts = {row.key: row["count"] for row in hot.groupBy("key").count().collect()}
    for each in exact.head:
        assert each.count == counts[None if each.key[0] is None else int(each.key[0])]
        assert each.error == 0


def test_many_tasks_and_more_keys_than_counters_keep_every_frequent_key(spark):
    keys = np.concatenate([np.arange(30_000), np.repeat([7, 8, 9], 4000)])
    np.random.default_rng(0).shuffle(keys)
    df = spark.createDataFrame([(int(key), i) for i, key in enumerate(keys)], "key long, id long")
    plan = kss.plan(df.repartition(70), "key", 8, grouping="cut_to_fit")
    assert {each.key[0] for each in plan.head} >= {"7", "8", "9"}
    assert plan.total == len(keys) == plan.buckets.sum()


def test_two_plans_of_the_same_rows_are_equal(hot):
    assert kss.plan(hot, "key", 5) == kss.plan(hot, "key", 5)
    assert kss.plan(hot, "key", 5, seed=1) != kss.plan(hot, "key", 5)


def test_rows_are_placed(hot, conf):
    for adaptive in ("true", "false"):
        conf("spark.sql.adaptive.enabled", adaptive)
        placed = kss.repartition(hot, "key", workers=9)
        assert placed.filter("worker <> spark_partition_id()").count() == 0
        assert same_rows(placed.drop("worker"), hot)


def test_a_hot_key_is_split_and_a_rare_one_is_not(hot):
    routed = kss.route(hot, "key", plan=kss.plan(hot, "key", 8, grouping="cut_to_fit", row_id="id"))
    workers = {
        row.key: row.n for row in routed.groupBy("key").agg(F.countDistinct("worker").alias("n")).collect()
    }
    assert workers[1] > 1
    assert {n for key, n in workers.items() if key is not None and key >= 10} == {1}


@pytest.mark.parametrize("sample", ["auto", 1])
def test_weights_make_other_plans(spark, sample):
    df = spark.createDataFrame(
        [(i % 10, i, 100.0 if i % 10 == 3 else 1.0) for i in range(1000)], "key int, id int, w double"
    )
    plan = kss.plan(df, "key", 4, weight="w", sample=sample)
    assert plan.total == 100 * 100 + 900
    assert plan.head[0].key == ("3",)
    assert plan == kss.plan(df, "key", 4, weight=F.col("w"), sample=sample)
    assert kss.plan(df, "key", 4, weight="bytes", sample=sample).total == 1000 * (4 + 4 + 8)


def test_unequal_workers_get_unequal_loads(spark):
    df = spark.range(20_000).withColumn("key", F.col("id") % 500)
    plan = kss.plan(df, "key", 4, grouping="cut_to_fit", capacities=[1, 1, 2, 4])
    assert plan.loads / plan.loads.sum() == pytest.approx([0.125, 0.125, 0.25, 0.5], abs=0.01)
    assert kss.Plan.from_json(plan.to_json()).capacities == (1, 1, 2, 4)


def test_plans_are_saved_and_loaded(spark, hot, tmp_path):
    plan = kss.plan(hot, "key", 6, grouping=ks.WChoices(workers=6, seed=3, threshold=0.05))
    plan.save(tmp_path / "plan.json")
    again = kss.Plan.load(tmp_path / "plan.json")
    assert again == plan
    assert hash(again) == hash(plan)
    assert again.grouping == ks.WChoices(workers=6, seed=3, threshold=0.05)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    assert same_rows(kss.route(hot, "key", plan=again), kss.route(hot, "key", plan=plan))
    with pytest.raises(FileNotFoundError):
        plan.save(tmp_path / "no folder" / "plan.json")


def test_plans_are_printed_and_compared(hot):
    plan, other = kss.plan(hot, "key", 6), kss.plan(hot.filter("key <> 1"), "key", 6, seed=4)
    assert str(plan).splitlines()[0] == "Plan d_choices of key for 6 workers, seed 0"
    assert "  1: 5" in str(plan)
    assert "buckets" not in repr(plan)
    assert plan.compare(plan) == "the plans are equal"
    difference = plan.compare(other)
    assert "grouping: DChoices(workers=6, seed=0" in difference
    assert "frequent keys that only this plan has: " in difference
    assert "weight of all rows: 600.0, the other has " in difference


def test_a_plan_of_yesterday_routes_today(spark, hot):
    plan = kss.plan(hot, "key", 6)
    today = hot.select(F.coalesce("key", F.lit(77)).cast("int").alias("name"), "id")
    routed = kss.route(today, "name", plan=plan)
    before = {
        (row.key, row.id): row.worker
        for row in kss.route(hot, "key", plan=replace(plan, row_id=("id",))).collect()
    }
    for row in kss.route(today, "name", plan=replace(plan, row_id=("id",))).collect():
        if row.name != 77:
            assert row.worker == before[row.name, row.id]
    assert routed.filter("worker < 0 or worker >= 6").count() == 0


def test_arguments_must_fit_the_plan(spark, hot):
    plan = kss.plan(hot, "key", 6, seed=2)
    for workers in (5, True, 6.0):
        message = rf"^workers must be omitted with a plan \(it has 6\), got {workers}$"
        with pytest.raises(ValueError, match=message):
            kss.route(hot, "key", plan=plan, workers=workers)
    with pytest.raises(
        ValueError, match=r"^key must have the types of the plan, \('bigint',\), got \('string',\)$"
    ):
        kss.route(hot, "s", plan=plan)
    with pytest.raises(ValueError, match=r"^key must have the types .* got \('bigint', 'string'\)$"):
        kss.route(hot, ["key", "s"], plan=plan)
    assert kss.route(hot, "key", plan=plan, workers=6).count() == 600


def test_rows_that_look_alike_are_warned_of(spark):
    df = spark.createDataFrame(
        [("hot", 1)] * 300 + [(f"rare {i}", i) for i in range(30)], "key string, v int"
    )
    with warnings.catch_warnings(record=True) as caught:  # older Sparks warn of themselves as well
        warnings.simplefilter("always")
        kss.plan(df, "key", 4)
        kss.route(df, "key", workers=4)
    text = "rows of key ('hot',) cannot be spread over 4 workers: only 1 of 300"
    ours = [each for each in caught if str(each.message).startswith(text)]
    assert [each.filename for each in ours] == [__file__, __file__]


@pytest.mark.parametrize("most_bytes", [None, 0])
def test_a_small_frame_is_read_once_for_a_plan_and_for_the_warning(spark, monkeypatch, most_bytes):
    if most_bytes is not None:
        monkeypatch.setattr(planning, "_MOST_BYTES", most_bytes)
    df = spark.range(2000).selectExpr("IF(id % 4 > 0, 'hot', 'k' || id) AS key", "id % 2 AS v")
    spark.sparkContext.setJobGroup("small", "")
    with pytest.warns(
        UserWarning, match=r"rows of key \('hot',\) cannot be spread over 4 workers: only 2 of "
    ) as caught:
        kss.plan(df, "key", 4, grouping="w_choices")
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("small")
    spark._jsc.clearJobGroup()
    assert len([each for each in caught if "cannot be spread" in str(each.message)]) == 1
    assert (len(jobs) == 1) == (most_bytes is None)


def test_the_identity_leaves_out_what_is_drawn_above_a_shuffle(hot):
    risky = hot.repartition(3).withColumn("salt", F.rand())
    plan = kss.plan(hot, "key", 4)
    assert same_rows(*(kss.route(df, "key", plan=plan).drop("salt") for df in (risky, hot.repartition(3))))
    assert kss.route(hot.withColumn("salt", F.rand(1)), "key", workers=4).count() == 600


def test_floats_above_a_shuffle_are_no_identity(hot):
    sums = hot.withColumn("x", F.col("id") % 7).groupBy("key", "x").agg(F.avg("v"), F.count("*"))
    plan = kss.plan(hot, "key", 4)
    steady = ("key", "x", "`count(1)`")
    assert same_rows(*(kss.route(sums, "key", plan=replace(plan, row_id=given)) for given in (None, steady)))
    only = hot.groupBy("id").agg((F.max("id") * 0).cast("double").alias("key")).select("key")
    plan = kss.plan(only, "key", 2, grouping="w_choices")
    with pytest.raises(ValueError, match=r"^row_id must be given: df has no column"):
        kss.route(only, "key", plan=plan)


def test_a_plan_keeps_the_row_id_that_it_was_made_with(spark):
    rows = spark.range(4000).selectExpr("IF(id % 4 > 0, 'hot', 'c') AS k", "id % 2 AS flag", "id / 7.0D AS x")
    shuffled = rows.withColumn("flag", F.col("flag") > 0).repartition(3, "k")
    with pytest.warns(UserWarning, match=r"cannot be spread over 4 workers: .* at most 3 distinct values"):
        kss.plan(shuffled, "k", 4, grouping="w_choices")
    plan = kss.plan(shuffled, "k", 4, grouping="w_choices", row_id=["x"])
    assert plan.row_id == ("x",)
    assert kss.Plan.from_json(plan.to_json()).row_id == ("x",)
    by_plan, by_name = (
        kss.route(shuffled, "k", plan=replace(plan, row_id=given)) for given in (plan.row_id, ("x",))
    )
    assert same_rows(by_plan, by_name)
    loads = [row["count"] for row in by_plan.groupBy("worker").count().collect()]
    assert max(loads) < 1.1 * 1000
    # where there is no such column, or it is not steady, rows have their default identity
    assert kss.route(rows.drop("x"), "k", plan=plan).count() == 4000
    drawn = rows.repartition(3).withColumn("x", F.rand(1))
    assert same_rows(*(kss.route(each, "k", plan=plan).drop("x") for each in (drawn, drawn.drop("x"))))


def test_maps_may_lie_in_the_row(spark, hot):
    df = hot.withColumn("m", F.create_map(F.lit("a"), "v"))
    assert kss.repartition(df, "key", workers=4).filter("worker <> spark_partition_id()").count() == 0


def test_decimal_and_double_keys_are_equal_as_in_groupby(spark):
    df = spark.createDataFrame(
        [(Decimal("1.00"), 0.0), (Decimal("1"), -0.0)] * 20, "d decimal(5,2), x double"
    )
    for key in ("d", "x", ["d", "x"]):
        routed = kss.route(df, key, plan=kss.plan(df, key, 500, grouping="key"))
        assert routed.select("worker").distinct().count() == 1


def test_65536_workers(spark, hot):
    plan = kss.plan(hot, "key", 65_536, grouping="cut_to_fit")
    rows = kss.route(with_hashes(hot, "key", plan), "key", plan=replace(plan, row_id=("id",)))
    assert rows.agg(F.max("worker")).first()[0] > 10_000


def test_a_plan_keeps_the_identity_of_wide_rows(spark):
    names = [f"c.{at}" for at in range(40)]
    columns = [(F.col("id") * at % 7).cast("int").alias(name) for at, name in enumerate(names)]
    narrow = spark.range(400).select(F.lit("hot").alias("key"), "id", *columns[:9])
    wide = spark.range(400).select(F.lit("hot").alias("key"), "id", *columns)
    plan = kss.plan(wide, "key", 4, grouping="w_choices")
    assert plan.row_id == ("key", "id", *(f"`{name}`" for name in names[:30]))
    assert kss.plan(narrow, "key", 4, grouping="w_choices").row_id is None
    assert kss.plan(wide, "key", 4, grouping="w_choices", row_id="id").row_id == ("id",)
    again = kss.Plan.from_json(plan.to_json())
    # a later column of a type that comes first, and one that differs when a task is retried
    more = wide.select(F.rand().alias("drawn"), F.lit("x").alias("more"), "*")
    workers = {row.id: row.worker for row in kss.route(wide, "key", plan=plan).collect()}
    assert {row.id: row.worker for row in kss.route(more, "key", plan=again).collect()} == workers
    # without its columns rows have an identity all the same
    assert kss.route(narrow, "key", plan=again).select("worker").distinct().count() == 4


def test_what_a_plan_trusts_is_trusted_by_operations(spark):
    """Rows downstream of a shuffle have the identity that a function of Python makes."""

    @F.udf("long")
    def cleaned(value):
        return value

    def first(rows):
        return rows.head(1)

    rows = spark.range(2000).selectExpr("IF(id % 4 > 0, 'hot', concat('c', id % 20)) AS key", "id AS v")
    df = rows.repartition(3, "key").select("key", cleaned("v").alias("c"))
    with pytest.raises(ValueError, match=r"^row_id must name .* got 'c', which depends on "):
        kss.plan(df, "key", 4, row_id="c")
    with pytest.raises(ValueError, match=r"^trust must name columns of df or functions .* got 'washed'"):
        kss.plan(df, "key", 4, trust="washed")
    for trust in (cleaned, "c"):
        plan = kss.plan(df, "key", 4, grouping="w_choices", row_id="c", trust=trust)
        assert plan.trust == (("c",) if trust == "c" else ("cleaned()",))
        again = kss.Plan.from_json(plan.to_json())
        loads = kss.repartition(df, "key", plan=again).groupBy("worker").count().collect()
        assert max(row["count"] for row in loads) < 1.2 * 500
    names = rows.selectExpr("key").distinct()
    joined = kss.join(df, names, "key", plan=again, way="place")
    assert same_rows(joined, df.join(names, "key"))
    found = kss.apply(df, "key", first, df.schema, merge=first, plan=again, way="place")
    assert found.count() == names.count()
    untrusted = kss.repartition(df, "key", plan=replace(plan, trust=()))
    assert untrusted.filter("key = 'hot'").select("worker").distinct().count() == 1
