"""A plan that is passed as an object and was made for other data: the first run by it says so."""

import re
import warnings

import pytest
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit.spark.kept import pending

OTHER = r"^the plan was made for other data: none of its 2 most frequent keys is among the 6,000 rows; "


@pytest.fixture(scope="module")
def day(spark):
    return spark.range(6000, numPartitions=3).selectExpr(
        "CASE WHEN id % 10 < 5 THEN 0 WHEN id % 10 < 8 THEN 1 ELSE id % 1000 END AS key", "id AS v"
    )


@pytest.fixture
def plan(day):
    """As another process has saved it."""
    two = ks.DChoices(workers=4, threshold=0.1)
    return stored(kss.plan(day, "key", grouping=two))


def stored(plan):
    return kss.Plan.from_json(plan.to_json())


@pytest.fixture(autouse=True)
def none_pending(monkeypatch):
    monkeypatch.setattr(pending, "_pending", [])


@pytest.fixture(scope="module")
def other_day(day):
    return day.withColumn("key", F.col("key") + 5000)


def run(result, settled=0):
    writer = result if hasattr(result, "parquet") else result.write
    writer.format("noop").mode("overwrite").save()
    settle(settled)


def settle(left=0):
    pending.settle()
    assert len(pending._pending) == left


def is_observed(df):
    return "CollectMetrics" in df._jdf.queryExecution().analyzed().toString()


def join(df, **options):
    other = df.groupBy("key").agg(F.lit(1).alias("w"))
    return kss.join(df, other, "key", way="place", **options)


OPERATIONS = {
    "route": lambda df, **options: kss.route(df, "key", **options),
    "repartition": lambda df, key="key", **options: kss.repartition(df, key, force=True, **options),
    "aggregate": lambda df, **options: kss.aggregate(df, "key", F.median("v"), force=True, **options),
    "apply": lambda df, **options: kss.apply(
        df,
        "key",
        lambda part: part.head(1),
        lambda part: part.head(1),
        "key long, v long",
        force=True,
        **options,
    ),
    "join": join,
    "write": lambda df, **options: kss.write(df, "key", force=True, **options).partitionBy(),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_plan_for_other_data_is_said_to_be_one(other_day, plan, name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(OPERATIONS[name](other_day, plan=plan))
    (warning,) = (each for each in caught if each.category is UserWarning)
    assert re.match(OTHER, str(warning.message))
    assert warning.filename == __file__


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_plan_for_such_data_is_used_without_a_word_and_counts_once(spark, day, plan, name):
    first = OPERATIONS[name](day, plan=plan)
    run(first)
    again = OPERATIONS[name](day, plan=plan)
    if name != "write":
        assert (is_observed(first), is_observed(again)) == (True, False)


def test_rows_that_a_plan_was_made_from_are_not_counted(day, other_day):
    plan = kss.plan(day, "key", 4)
    assert not is_observed(kss.route(day, "key", plan=plan))
    assert is_observed(kss.route(other_day, "key", plan=plan))


def test_two_equal_plans_of_other_rows_are_two(day):
    rows = day.select("*")
    plan, same = kss.plan(day, "key", 4), kss.plan(rows, "key", 4)
    assert plan == same
    assert not is_observed(kss.route(day, "key", plan=plan))
    assert is_observed(kss.route(day, "key", plan=same))


def test_half_of_the_keys_are_enough(day, plan):
    run(OPERATIONS["repartition"](day.filter("key <> 0"), plan=plan))


@pytest.mark.parametrize("rows", [0, 1, 30])
def test_few_rows_say_nothing_and_the_next_run_is_looked_at(other_day, plan, rows):
    run(OPERATIONS["repartition"](other_day.filter(F.col("v") < rows), plan=plan))
    with pytest.warns(UserWarning, match=OTHER):
        run(OPERATIONS["repartition"](other_day, plan=plan))


def test_rows_that_are_shown_say_nothing(other_day, plan):
    first = kss.route(other_day, "key", plan=plan)
    first.take(3)
    settle()
    with pytest.warns(UserWarning, match=OTHER):
        run(kss.route(other_day, "key", plan=plan))


def test_it_is_said_once(other_day, plan):
    first, second = (OPERATIONS["repartition"](other_day, plan=plan) for _ in range(2))
    with pytest.warns(UserWarning, match=OTHER):
        run(first, settled=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(second)
    assert not caught


@pytest.mark.parametrize("key", [["key", "v"], "s"])
def test_keys_of_all_kinds(spark, key):
    rows = spark.range(6000).selectExpr("IF(id % 2 = 0, 'a', NULL) AS s", "id % 2 AS key", "'x' AS v", "id")
    plan = kss.plan(rows, key, 4, engine="columns", row_id="id")
    run(OPERATIONS["repartition"](rows.select("*"), key, plan=stored(plan)))
    others = rows.withColumns(
        {"s": F.concat(F.coalesce("s", F.lit("b")), F.lit("c")), "key": F.col("key") + 2}
    )
    with pytest.warns(UserWarning, match=OTHER):
        run(OPERATIONS["repartition"](others, key, plan=stored(plan)))


def test_a_plan_in_which_no_key_is_frequent_is_not_looked_at(spark):
    rows = spark.range(1000).selectExpr("id AS key")
    plan = stored(kss.plan(rows, "key", 4))
    assert not plan.head
    assert not is_observed(kss.route(rows, "key", plan=plan))
