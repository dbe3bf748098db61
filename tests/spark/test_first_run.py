"""A plan that is passed as an object and was made for other data: the first run by it says so."""

import gc
import linecache
import re
import warnings

import pytest
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit.spark import first_run, known
from keysplit.spark.kept import pending
from keysplit.spark.known import known_rows
from keysplit.spark.session import versions

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


def run(result):
    writer = result if hasattr(result, "parquet") else result.write
    writer.format("noop").mode("overwrite").save()
    pending.settle()


def is_observed(df):
    return "CollectMetrics" in df._jdf.queryExecution().analyzed().toString()


def first(rows):
    return rows.head(1)


def join(df, **options):
    other = df.groupBy("key").agg(F.lit(1).alias("w"))
    return kss.join(df, other, "key", way="place", **options)


OPERATIONS = {
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


def warned(function):
    """Return the warnings of a user that come while a function runs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [each for each in caught if each.category is UserWarning]


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_plan_for_other_data_is_said_to_be_one(other_day, plan, name):
    found = warned(lambda: run(OPERATIONS[name](other_day, plan=plan)))
    if name == "join" and not versions.has_repartition_by_id(other_day):
        assert not found  # Spark may broadcast the other side, and then read a part of the rows
        return
    (warning,) = found
    assert re.match(OTHER, str(warning.message))
    assert warning.filename == __file__
    assert f"kss.{name}(" in linecache.getline(__file__, warning.lineno)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_plan_for_such_data_is_used_without_a_word_and_looked_at_once(day, plan, name):
    before = OPERATIONS[name](day, plan=plan)
    run(before)
    again = OPERATIONS[name](day, plan=plan)
    if name != "write":
        looks = name != "join" or versions.has_repartition_by_id(day)
        assert (is_observed(before), is_observed(again)) == (looks, False)


def test_rows_that_a_plan_was_made_from_are_not_looked_at(day, other_day):
    plan = kss.plan(day, "key", 4)
    assert not is_observed(OPERATIONS["repartition"](day, plan=plan))
    assert is_observed(OPERATIONS["repartition"](other_day, plan=plan))


def test_two_equal_plans_of_other_rows_are_two(day):
    rows = day.select("*")
    plan, same = kss.plan(day, "key", 4), kss.plan(rows, "key", 4)
    assert plan == same
    assert not is_observed(OPERATIONS["repartition"](day, plan=plan))
    assert is_observed(OPERATIONS["repartition"](day, plan=same))


def test_a_plan_that_is_gone_is_forgotten(plan):
    other = stored(plan)
    place, found = id(other), known_rows(other)
    assert known._known[place] is found
    del other
    gc.collect()
    assert known._known.get(place) is not found


def test_rows_that_are_only_routed_are_not_looked_at(other_day, plan):
    """Filters downstream of a route reach the scan."""
    assert not is_observed(kss.route(other_day, "key", plan=plan))


@pytest.mark.parametrize("options", [{"weight": "v"}, {"group_weight": 3.0}])
def test_plans_that_balance_something_else_than_rows_say_nothing_of_rows(day, options):
    plan = stored(kss.plan(day, "key", 4, **options))
    assert not is_observed(OPERATIONS["repartition"](day.select("*"), plan=plan))


def test_a_collated_key_is_not_looked_for(spark):
    if not hasattr(F, "collate"):
        pytest.skip("this Spark has no collations")
    rows = spark.range(2000).select(F.expr("concat('k', id % 2) COLLATE UTF8_LCASE").alias("key"), "id")
    plan = stored(kss.plan(rows, "key", 4, engine="columns"))
    assert not is_observed(OPERATIONS["repartition"](rows.select("*"), plan=plan))


def test_half_of_the_keys_are_enough(day, plan):
    run(OPERATIONS["repartition"](day.filter("key <> 0"), plan=plan))


def test_the_most_frequent_keys_are_looked_for(spark):
    rows = spark.range(20_000).selectExpr("IF(id % 10 < 8, id % 8, 8 + id % 4) AS key", "id")
    plan = stored(kss.plan(rows, "key", grouping=ks.DChoices(workers=4, threshold=0.01)))
    assert len(plan.head) > first_run.MOST_KEYS
    message = r"^the plan was made for other data: none of its 8 most frequent keys is among the"
    with pytest.warns(UserWarning, match=message):
        run(OPERATIONS["repartition"](rows.filter("key > 7"), plan=plan))


@pytest.mark.parametrize("rows", [1, 30])
def test_few_rows_say_nothing_and_the_next_run_is_looked_at(other_day, plan, rows):
    run(OPERATIONS["repartition"](other_day.filter(F.col("v") < rows), plan=plan))
    with pytest.warns(UserWarning, match=OTHER):
        run(OPERATIONS["repartition"](other_day, plan=plan))


def test_what_is_never_known_is_not_asked_for_again_and_again(other_day, plan):
    found = [OPERATIONS["repartition"](other_day, plan=plan) for _ in range(5)]
    assert [is_observed(each) for each in found] == [True, True, True, False, False]


def test_it_is_said_once(other_day, plan):
    first, second = (OPERATIONS["repartition"](other_day, plan=plan) for _ in range(2))
    assert len(warned(lambda: run(first))) == 1
    pending.settle()
    assert not pending._pending  # nobody waits for the other one
    assert not warned(lambda: run(second))


def test_a_warning_that_is_an_error_is_logged(other_day, plan, caplog):
    run(OPERATIONS["repartition"](other_day, plan=plan))  # as all warnings are errors in tests
    assert re.match(OTHER, caplog.messages[-1])


def test_the_interpreter_does_not_wait_for_what_was_never_run(other_day, plan, monkeypatch):
    def slept(_):
        raise AssertionError

    OPERATIONS["repartition"](other_day, plan=plan)
    monkeypatch.setattr(pending.time, "sleep", slept)
    pending._last()
    assert len(pending._pending) == 1


@pytest.mark.parametrize("key", [["key", "v"], "s"])
def test_keys_of_all_kinds(spark, key):
    rows = spark.range(6000).selectExpr("IF(id % 2 = 0, 'a', NULL) AS s", "id % 2 AS key", "'x' AS v", "id")
    plan = kss.plan(rows, key, 4, engine="columns", row_id="id")
    run(OPERATIONS["repartition"](rows.select("*"), key, plan=stored(plan)))
    others = rows.withColumns({"s": F.coalesce(F.upper("s"), F.lit("b")), "key": F.col("key") + 2})
    with pytest.warns(UserWarning, match=OTHER):
        run(OPERATIONS["repartition"](others, key, plan=stored(plan)))


def test_a_plan_in_which_no_key_is_frequent_is_not_looked_at(spark):
    rows = spark.range(1000).selectExpr("id AS key")
    plan = stored(kss.plan(rows, "key", 4))
    assert not plan.head
    assert not is_observed(OPERATIONS["repartition"](rows.select("*"), plan=plan))
