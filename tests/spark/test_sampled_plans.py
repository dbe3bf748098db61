"""Plans from a sample: the errors that they state hold, whatever the order of the rows."""

import re

import numpy as np
import pytest
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit.plan import Sample
from keysplit.spark import jvm
from keysplit.spark.counting import by_sample

ROWS = 300_000
WORKERS = 16


def zipf(spark, partitions=3):
    """Make rows whose key has the rank r with a chance of about 1 / r^1.6."""
    drawn = spark.range(0, ROWS, 1, partitions).select("id", F.expr("pow(1 - rand(7), -1 / 0.6)").alias("x"))
    return drawn.select(F.expr("cast(least(x, 100000) as int)").alias("key"), "id")


def beside_nothing(df):
    """Put the rows into partition 300 behind empty ones."""
    return df.sparkSession.range(0, 0, 1, 300).selectExpr("0 as key", "id").union(df.coalesce(1))


ORDERS = {
    "mixed": lambda spark: zipf(spark),
    "sorted": lambda spark: zipf(spark).coalesce(1).sortWithinPartitions("key"),
    "in one partition": lambda spark: beside_nothing(zipf(spark)),
}


@pytest.fixture(scope="module")
def exact(spark):
    """Count all rows."""
    return kss.plan(zipf(spark), "key", WORKERS, grouping="cut_to_fit", sample=1.0)


@pytest.mark.parametrize("order", ORDERS)
def test_the_errors_hold_whatever_the_order_of_the_rows(spark, exact, order):
    plan = kss.plan(ORDERS[order](spark), "key", WORKERS, grouping="cut_to_fit")
    sample = plan.sample
    assert sample.rows < ROWS / 2
    assert sample.fraction == pytest.approx(sample.rows / ROWS, rel=0.02)
    # what the threshold needs: 61,465 rows, of which half are enough
    assert sample.effective > 30_000
    assert abs(plan.total / ROWS - 1) < 2 * (1.96 / sample.effective**0.5)
    true = {each.hash: each.count / ROWS for each in exact.head}
    assert {each.hash for each in plan.head} >= {
        h for h, share in true.items() if share > 1.2 / (20 * WORKERS)
    }
    errors = [
        abs(each.count / plan.total - true[each.hash]) / sample.error_of(true[each.hash])
        for each in plan.head
        if each.hash in true
    ]
    assert np.mean(np.array(errors) <= 1) >= 0.8
    assert max(errors) < 2
    loads = plan.loads_for(exact.summary)
    low, high = plan.busiest_bounds
    assert 1 <= low <= loads.max() / loads.mean() <= high < 1.2
    assert low <= plan.busiest <= high


def test_a_sample_says_what_it_saw(spark):
    plan = kss.plan(zipf(spark), "key", WORKERS, sample=0.1)
    assert plan.sample.fraction == pytest.approx(0.1)
    assert plan.sample.rows == pytest.approx(ROWS / 10, rel=0.02)
    assert plan.sample.effective == pytest.approx(plan.sample.rows / 0.9, rel=0.02)
    assert plan == kss.plan(zipf(spark), "key", WORKERS, sample=0.1)
    assert kss.Plan.from_json(plan.to_json()) == plan
    share = plan.head[0].count / plan.total
    error = 1.96 * (share * (1 - share) / plan.sample.effective) ** 0.5
    assert plan.sample.error_of(share) == pytest.approx(error, rel=1e-4)
    text = str(plan)
    assert re.search(r"made from a sample of [\d,]+ rows \(10\.00%\) for a weight of [\d,]+\n", text)
    assert re.search(r"busiest worker: [\d.]+ times the mean, [\d.]+ to [\d.]+ with 95% confidence\n", text)
    assert f"  {plan.head[0].text}: {share:.2%} (±{error:.2%}) of the weight" in text
    assert "sample: Sample(" in plan.compare(kss.plan(zipf(spark), "key", WORKERS, sample=0.05))


def test_small_frames_are_counted_whole(spark):
    for df in (zipf(spark).limit(4000), beside_nothing(zipf(spark).limit(4000)), zipf(spark).limit(0)):
        plan = kss.plan(df, "key", WORKERS)
        assert plan.sample is None
        assert plan == kss.plan(df, "key", WORKERS, sample=1)
        assert plan.busiest_bounds == (plan.busiest, plan.busiest)


def test_one_stage_without_python_draws_a_sample(spark, monkeypatch):
    plans = []

    def arrow(df, run=jvm.arrow):
        plans.append(df._jdf.queryExecution().executedPlan().toString())
        return run(df)

    monkeypatch.setattr(jvm, "arrow", arrow)
    assert kss.profile(zipf(spark), "key", WORKERS, weight="id").sample is not None
    (plan,) = plans
    assert re.search(r"Filter.*rand|rand.*Filter", plan, re.DOTALL)
    assert not re.search("Exchange|Arrow|Python|Pandas|Aggregate", plan)


def test_values_that_did_not_come_along_are_read(spark, monkeypatch):
    df = zipf(spark).select(F.concat(F.lit("k"), "key").alias("key"), "key", "id").toDF("word", "n", "id")
    keys = ["word", "n"]
    monkeypatch.setattr(by_sample, "_WHOLE", 16)
    plan = kss.plan(df, keys, WORKERS)
    assert plan.head[0].key == ("k1", "1")
    monkeypatch.setattr(by_sample, "_SHOWN", 0)
    assert kss.plan(df, keys, WORKERS) == plan


def test_values_are_cut(spark):
    for key in ("repeat('é', 100000)", "array(repeat('x', 100000))"):
        df = spark.range(100).select(F.expr(key).alias("key"), "id")
        (text,) = kss.plan(df, "key", 2).head[0].key
        assert 100 < len(text) < 300
        assert text.endswith("…")
        assert kss.profile(df, "key", 2).top[0].key == text


def test_weights_are_estimated(spark):
    # keys 0..99, of which 7 has light rows and few heavy ones
    df = spark.range(0, ROWS, 1, 3).selectExpr(
        "id % 100 as key", "if(id % 100 = 7 and id % 1000 = 7, 100, 1) as w"
    )
    plan = kss.plan(df, "key", 8, weight="w", sample=0.1)
    total = ROWS + 99 * ROWS / 1000
    true = (ROWS / 100 + 99 * ROWS / 1000) / total
    (hot,) = plan.head
    assert hot.key == ("7",)
    # the error knows of the heavy rows: without them there would be as many as were drawn
    assert plan.sample.effective < plan.sample.rows / 20
    assert abs(plan.total / total - 1) < 2 * 1.96 / plan.sample.effective**0.5
    assert abs(hot.count / plan.total - true) < plan.sample.error_of(true)
    with pytest.raises(ValueError, match=r"^weight must be finite, .* finite sum, got -1$"):
        kss.plan(df, "key", 8, weight=F.expr("if(key = 3, -1, 1)"), sample=0.01)


def test_one_key_and_samples_of_nothing(spark):
    plan = kss.plan(spark.range(0, 200_000, 1, 2).selectExpr("cast(null as int) as key", "id"), "key", 4)
    (only,) = plan.head
    assert (only.key, only.count) == ((None,), plan.total)
    assert plan.sample.error_of(1) == 0
    assert plan.busiest_bounds == (pytest.approx(1), pytest.approx(1, abs=0.02))
    for rows in (0, 50):
        none = kss.plan(spark.range(rows).withColumnRenamed("id", "key"), "key", 4, sample=1e-9)
        assert (none.total, none.head, none.sample) == (0, (), Sample(0, 0, 0))
        assert str(none)


def test_a_profile_says_what_it_saw(spark):
    profile = kss.profile(zipf(spark), "key", WORKERS, sample=0.1)
    assert profile.sample == kss.plan(zipf(spark), "key", WORKERS, grouping="cut_to_fit", sample=0.1).sample
    text = str(profile)
    assert f"rows, by a sample of {profile.sample.rows:,} rows" in " ".join(text.split())
    assert "error (95 %)" in text
    assert f" {profile.sample.error_of(profile.top[0].share) * profile.total:,.0f} " in text
    assert kss.profile(zipf(spark), "key", WORKERS, sample=1).sample is None


@pytest.mark.parametrize("wrong", [0, -0.1, 1.5, float("nan"), "all", None, True, [0.5]])
def test_other_samples_are_refused(spark, wrong):
    for call in (kss.plan, kss.profile):
        with pytest.raises(
            (TypeError, ValueError), match=r"^sample must be 'auto' or a number above 0, up to 1"
        ):
            call(spark.range(3), "id", 2, sample=wrong)


@pytest.mark.newest
@pytest.mark.parametrize("options", [{}, {"sample": 0.2}, {"sample": 1}])
def test_starts_of_groups_are_balanced_with_rows(spark, options):
    df = spark.range(60_000).selectExpr("if(id < 40000, -1, id) as key", "id")

    def costs(plan):
        groups = kss.route(df, "key", plan=plan).groupBy("worker")
        found = groups.agg(F.count("*").alias("rows"), F.countDistinct("key").alias("keys")).collect()
        return np.array([row.rows + 10 * row["keys"] for row in found])

    plan = kss.plan(df, "key", 8, grouping="cut_to_fit", group_weight=10, **options)
    assert plan.total == pytest.approx(60_000 + 10 * 20_001, rel=0.05)
    assert kss.Plan.from_json(plan.to_json()).group_weight == plan.group_weight == 10
    assert "the start of a group being 10" in str(plan)
    by_both, by_rows = costs(plan), costs(kss.plan(df, "key", 8, grouping="cut_to_fit", **options))
    assert by_both.max() / by_both.mean() < 1.1 < 1.5 < by_rows.max() / by_rows.mean()
    if not options:
        assert kss.drift(plan, df).moved == 0
        with pytest.raises(ValueError, match=r"^group_weight must be finite and at least 0, got -1"):
            kss.plan(df, "key", 8, group_weight=-1)
