"""Windows in the order of a plan use its cuts, and have the rows of Spark's own whatever the cuts are."""

import itertools
import re
from dataclasses import replace

import pytest
from calls import jobs_of, no_job
from frames import same_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from orders import ORDERS, drawn_frame, drawn_sorts
from pyspark.sql import Window
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit.plan import KeyCuts

WORKERS = 5


@pytest.fixture(scope="module")
def rows(spark):
    at = F.col("id")
    key = F.when(at % 5 > 0, 0).when(at % 45 == 0, None).otherwise(at % 7)
    return spark.range(900, numPartitions=3).select(
        "id",
        key.cast("int").alias("k"),
        (at * 7919 % 1009).alias("o"),
        F.when(at % 11 != 3, at * 31 % 9).cast("double").alias("x"),
        F.concat(F.lit("s"), at * 17 % 13).alias("a.b"),
        F.array("id").alias("list"),
    )


def columns_of(window):
    near = window.rowsBetween(-3, 2)
    found = [F.row_number().over(window), F.lag("id", 4).over(window), F.sum("id").over(near)]
    return [column.alias(f"w{at}") for at, column in enumerate([*found, F.sum("id").over(window)])]


def made(df, columns, plan):
    """Return windows by ranges, and how many jobs made the ranges."""
    jobs = []
    with jobs_of(df.sparkSession, jobs):
        found = kss.window(df, *columns, plan=plan, way="place")
    assert re.match(r"place: .* ranges? of the order", kss.explain(found))
    return found, len(jobs)


def split(df, columns, plan):
    """Compare windows by ranges with Spark's own, and return how many jobs made the ranges."""
    found, jobs = made(df, columns, plan)
    assert same_rows(found, df.select("*", *columns))
    return jobs


def test_a_window_in_the_order_of_the_plan_samples_nothing(rows):
    columns = columns_of(Window.partitionBy("k").orderBy(F.desc("o")))
    plain, cut, other = (
        split(rows, columns, kss.plan(rows, "k", WORKERS, order_by=order))
        for order in (None, F.desc("o"), F.asc("o"))
    )
    assert cut < plain == other


def test_another_order_is_sampled(rows):
    rank = F.rank().over(Window.partitionBy("k").orderBy(F.desc("o")))
    _, plain = made(rows, [rank], kss.plan(rows, "k", WORKERS))
    for order in ("`o`", "id", F.desc_nulls_first("o"), [F.desc("o"), "id"], ["id", F.desc("o")]):
        assert made(rows, [rank], kss.plan(rows, "k", WORKERS, order_by=order))[1] == plain


def test_another_type_is_sampled(rows):
    columns = columns_of(Window.partitionBy("k").orderBy("o"))
    plan, today = kss.plan(rows, "k", WORKERS, order_by="o"), rows.withColumn("o", F.col("o").cast("int"))
    assert split(today, columns, plan) > made(rows, columns, plan)[1]


def test_keys_without_cuts_are_sampled(rows):
    rank = F.rank().over(Window.partitionBy("k").orderBy("o"))
    plan = kss.plan(rows, "k", WORKERS, order_by="o")
    (cuts,) = plan.order.keys
    for keys in ((), (replace(cuts, hash=1),)):
        other = replace(plan, order=replace(plan.order, keys=keys))
        assert made(rows, [rank], other)[1] > made(rows, [rank], plan)[1]


def test_old_cuts_move_load_only(rows):
    window, plan = (
        Window.partitionBy("k").orderBy("o", "id"),
        kss.plan(rows, "k", WORKERS, order_by=["o", "id"]),
    )
    for later in (F.col("o") + 700, F.when(F.col("id") % 3 > 0, F.lit(5).cast("long"))):
        split(rows.withColumn("o", later), columns_of(window), plan)
    none = replace(plan, order=replace(plan.order, keys=(KeyCuts(plan.split_keys[0].hash, (), ()),)))
    found, _ = made(rows, columns_of(window), none)
    assert kss.explain(found) == "place: 1 key is split into 1 range of the order"
    assert same_rows(found, rows.select("*", *columns_of(window)))


def test_a_plan_for_fewer_workers_keeps_the_cuts(rows):
    plan = kss.plan(rows, "k", 12, order_by="o").with_workers(WORKERS)
    columns = columns_of(Window.partitionBy("k").orderBy("o"))
    found, jobs = made(rows, columns, plan)
    assert jobs < made(rows, columns, replace(plan, order=None))[1]
    ends = found.filter("k = 0").groupBy(F.spark_partition_id()).agg(F.max("w0").alias("end")).collect()
    numbers = sorted(row.end for row in ends)
    assert len(numbers) == WORKERS
    assert max(end - before for before, end in itertools.pairwise([0, *numbers])) < 240


def test_a_weight_is_no_number_of_rows(rows):
    for weight in (F.lit(1e6), F.lit(1e-6)):
        plan = kss.plan(rows, "k", WORKERS, weight=weight, order_by="o")
        assert len(plan.order.keys[0].cuts) > WORKERS


def test_a_plan_without_split_keys_has_no_cuts(rows):
    plan = kss.plan(rows, "id", WORKERS, order_by="o")
    assert plan.order.keys == ()
    assert split(rows, columns_of(Window.partitionBy("id").orderBy("o")), plan) == 0


def test_other_operations_ignore_the_cuts(rows):
    plan, other = (kss.plan(rows, "k", WORKERS, order_by=order) for order in ("o", None))
    assert same_rows(kss.route(rows, "k", plan=plan), kss.route(rows, "k", plan=other))


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("name", ORDERS)
def test_cuts_of_all_types(spark, name, data):
    df, sort = drawn_frame(spark, name, data), drawn_sorts("o", data)
    plan = kss.plan(df, "k", data.draw(st.integers(2, 6)), order_by=[sort, F.desc("id")])
    plan = kss.Plan.from_json(plan.to_json())
    columns = columns_of(Window.partitionBy("k").orderBy(sort, F.desc("id")))
    split(data.draw(st.sampled_from([df, drawn_frame(spark, name, data)])), columns, plan)


def test_wrong_orders_are_refused_before_any_job(rows):
    kinds = "order_by must be a column name, a column such as F.desc('ts'), or a list of these, got "
    names = "order_by must name columns of df, not expressions, got Column<"
    types = "order_by must name columns of numbers, strings without collations, binary, booleans, dates or "
    types += "timestamps, got a column of type array<bigint>"
    for order, error, message in (
        (3, TypeError, f"{kinds}3"),
        (["o", 3], TypeError, f"{kinds}['o', 3]"),
        ([], ValueError, "order_by must name at least one column, got an empty list"),
        ("none", ValueError, "order_by must name one column of the DataFrame, got 'none'; it has ['id', "),
        (F.col("none"), ValueError, names),
        (F.desc(F.col("o") * 2), ValueError, names),
        ("list", TypeError, types),
        ([F.desc("o"), "list"], TypeError, types),
    ):
        with no_job(rows.sparkSession, f"refused {message}"), pytest.raises(error, match=re.escape(message)):
            kss.plan(rows, "k", WORKERS, order_by=order)


def test_an_order_names_columns_as_windows_do(rows):
    for order, text in (
        ("O", "o bigint ASC NULLS FIRST"),
        ("a.b", "a.b string ASC NULLS FIRST"),
        (F.col("`a.b`").desc_nulls_first(), "a.b string DESC NULLS FIRST"),
        (rows["o"].asc_nulls_last(), "o bigint ASC NULLS LAST"),
        ((rows["`a.b`"], F.desc("x")), "a.b string ASC NULLS FIRST, x double DESC NULLS LAST"),
    ):
        assert kss.plan(rows, "k", WORKERS, order_by=order).order.text.startswith(f"{text}: ")
