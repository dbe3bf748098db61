"""Building a query asks the JVM no more often where there are more columns, and runs no job too early."""

import re
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
from calls import Calls
from frames import same_rows
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit.spark.expr.columns import with_worker
from keysplit.spark.expr.hashes import plan_hash, plan_hash_in_sql, row_hash_in_sql
from keysplit.spark.frame import without
from keysplit.spark.names import quoted
from keysplit.spark.request import check
from keysplit.spark.session import narrow, steps, versions


def rows(spark, columns):
    return spark.range(40).select(
        (F.col("id") % 3).alias("key"), "id", *(F.lit(at).alias(f"c{at}") for at in range(columns - 2))
    )


@pytest.fixture
def calls(spark, monkeypatch):
    """Count the calls to the JVM that a function makes."""
    counts = Calls(spark, monkeypatch)

    def count(function):
        function()  # these fill caches
        function()
        before = counts.made
        function()
        return counts.made - before

    return count


OPERATIONS = {
    "route": lambda df, other, plan: kss.route(df, "key", plan=plan),
    "repartition": lambda df, other, plan: kss.repartition(df, "key", plan=plan),
    "join": lambda df, other, plan: kss.join(df, other, "key", plan=plan),
    "full join": lambda df, other, plan: kss.join(df, other, "key", "full", plan=plan),
    "write": lambda df, other, plan: kss.write(df, "key", plan=plan),
}


MOST_CALLS = {
    "route": 70,
    "repartition": 75,
    "join": 20,
    "full join": 20,
    "write": 88,
}
MORE_BEFORE_4_1 = 15  # rows are placed by the hash of a number, in a step of its own


def test_the_jvm_sends_long_texts_to_each_thread_at_once(spark):
    df = rows(spark, 10)
    plan = kss.plan(df, "key", 4, grouping="w_choices", row_id="id")

    def waits() -> bool:
        client = spark.sparkContext._gateway.java_gateway_server.getCallbackClient()
        return not client.getPerThreadConnection().getSocket().getTcpNoDelay()

    def before_and_after():
        before = waits()
        kss.route(df, "key", plan=plan)
        return before, waits()

    with ThreadPoolExecutor(1) as thread:  # a connection of its own
        assert thread.submit(before_and_after).result() == (True, False)


@pytest.mark.newest
def test_a_thread_from_before_the_callback_server_is_served_all_the_same():
    program = """
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    ensure_callback_server_started(spark.sparkContext._gateway)
    from keysplit import spark as kss
    plan = kss.plan(spark.range(10), "id", 2)
    assert kss.route(spark.range(10), "id", plan=plan).count() == 10
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=300, capture_output=True
    )


@pytest.mark.parametrize("name", OPERATIONS)
def test_more_columns_are_no_more_calls(spark, calls, name):
    build, other = OPERATIONS[name], spark.range(3).select(F.col("id").alias("key"))
    plan = kss.plan(rows(spark, 10), "key", 4, grouping="w_choices")
    found = {}
    for columns in (10, 2000):
        df = rows(spark, columns)
        found[columns] = calls(partial(build, df, other, plan))
    assert found[2000] == found[10]
    more = 0 if versions.has_repartition_by_id(other) else MORE_BEFORE_4_1
    assert found[10] < MOST_CALLS[name] + more


AT_THE_CALL = {
    "route": partial(kss.route, key="key"),
    "repartition": partial(kss.repartition, key="key"),
    "write": partial(kss.write, partition_by="key"),
}


@pytest.mark.parametrize("name", AT_THE_CALL)
def test_a_plan_made_at_the_call_costs_no_query_more(spark, calls, name):
    df, build = rows(spark, 10), AT_THE_CALL[name]
    plan = kss.plan(df, "key", 4, grouping="w_choices")
    apart = calls(lambda: kss.plan(df, "key", 4, grouping="w_choices")) + calls(lambda: build(df, plan=plan))
    assert calls(lambda: build(df, workers=4)) <= apart


def odd_names(spark):
    """Return rows whose columns have names, types and places that are easily taken for others."""
    return (
        spark.range(200)
        .select(
            (F.col("id") % 7 % 3).alias("a.b"),
            F.struct(F.col("id").alias("b"), (F.col("id") % 5).alias("c")).alias("a"),
            F.col("id").alias("`x`"),
            F.lit(1).alias("twice"),
            F.lit(2).alias("twice"),
            (-F.col("id")).alias("W.`_hash"),
        )
        .alias("w.`_found")
    )


@pytest.mark.parametrize("row_id", [["`x`"], ["a.b", "`x`"], ["a.c", "a.b"], ["W.`_hash"]])
def test_steps_on_few_columns_are_those_on_all(spark, row_id):
    df, key = odd_names(spark), "`a.b`"
    row_id = [quoted(each) if "`" in each else each for each in row_id]
    plan = kss.plan(df, key, 4, grouping="w_choices", row_id=row_id)
    assert plan.splits
    request = check(df, key, plan, worker_column="w.`")
    given = row_hash_in_sql(request), request.worker_column
    fast = with_worker(df, plan, plan_hash_in_sql(request), *given)
    slow = with_worker(df, plan, plan_hash(request), *given)
    assert fast.schema == slow.schema
    assert fast.collect() == slow.collect()
    assert len({row[-1] for row in fast.collect()}) > 1


def test_rows_without_the_worker_are_the_columns_of_the_frame(spark):
    df = odd_names(spark)
    placed = kss.repartition(df, "`a.b`", plan=kss.plan(df, "`a.b`", 3, row_id=quoted("`x`")))
    found = without(placed, df, "worker")
    assert found.schema == df.schema
    assert found.rdd.getNumPartitions() == 3
    assert same_rows(found, df)
    other = placed.select("*", F.lit(1).alias("more")).toDF(*(f"n{at}" for at in range(8)))
    assert without(other, df, "n6").columns == [f"n{at}" for at in (0, 1, 2, 3, 4, 5, 7)]


def jobs(spark, function, error, message):
    """Return how many jobs a function runs before it raises an error."""
    spark.sparkContext.setJobGroup(message, message)
    try:
        with pytest.raises(error, match=message):
            function()
    finally:
        found = spark.sparkContext.statusTracker().getJobIdsForGroup(message)
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    return len(found)


def same(rows):
    return rows


def drawn(df):
    return df.repartition(2).withColumn("r", F.rand())


@pytest.mark.parametrize(
    ("key", "call", "error", "message"),
    [
        (
            "named_struct('a', id % 2, 'A', 1)",
            lambda df: kss.apply(df, "key", same, "id long", merge=same, workers=3),
            TypeError,
            "key must not hold structs with two fields of one name, got 'key'",
        ),
        (
            "named_struct('a', id % 2, 'b', null)",
            lambda df: kss.apply(df, "key", same, "id long", merge=same, workers=3),
            TypeError,
            "key must not hold void fields, got 'key'",
        ),
        (
            "array(id % 2)",
            lambda df: kss.write(df, "key", workers=3),
            TypeError,
            "partition_by must name columns without arrays, maps and structs, got 'key'",
        ),
        (
            "CAST(NULL AS VOID)",
            lambda df: kss.write(df, "key", workers=3),
            TypeError,
            "partition_by must name columns that have a type, got 'key' of nulls alone",
        ),
        (
            "id % 2",
            lambda df: kss.apply(df, "key", same, "", merge=same, workers=3),
            ValueError,
            "schema must have columns, each with a name of its own, got",
        ),
        (
            "id % 2",
            lambda df: kss.apply(df, "key", same, "id long, id long"),
            ValueError,
            "schema must have columns, each with a name of its own, got .'id', 'id'",
        ),
        (
            "id % 2",
            lambda df: kss.plan(drawn(df), "key", 3, row_id="r"),
            ValueError,
            "row_id must name columns that have the same values when a task is retried, got 'r'",
        ),
        (
            "id % 2",
            lambda df: kss.join(drawn(df).filter("r > 0"), df, "key", way="broadcast", workers=3),
            ValueError,
            "left must have the same rows each time that it is read, as way='broadcast' reads both",
        ),
    ],
)
def test_what_spark_cannot_do_is_said_before_any_job(spark, key, call, error, message):
    assert jobs(spark, lambda: call(spark.range(40).selectExpr("id", f"{key} AS key")), error, message) == 0


def test_geometry_is_no_key_and_no_identity(spark, conf):
    if spark.version < "4.1":
        pytest.skip("this Spark has no geometry")
    conf("spark.sql.geospatial.enabled", "true")  # off by default in 4.1
    df = spark.range(40).selectExpr(
        "id % 2 AS key", "id", "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040') AS g"
    )
    assert kss.route(df, "key", plan=kss.plan(df, "key", 3, grouping="w_choices")).count() == 40
    with pytest.raises(TypeError, match=r"^key must not hold values that Spark does not group by, got 'g'"):
        kss.route(df, "g", workers=3)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_key_columns_of_both_sides_may_be_selected(spark, how):
    left = spark.createDataFrame([(1, at) for at in range(60)] + [(2, 1), (None, 5), (7, 7)], "k int, x int")
    right = spark.createDataFrame([(1, 10), (2, 20), (3, 30), (None, 40)], "k int, y int")
    plan = kss.plan(left, "k", 4, grouping="w_choices")
    joined = kss.join(left, right, "k", how, split="left", plan=plan)
    plain = left.join(right, "k", how)
    both = [left["k"], right["k"], "x", "y", "k"]
    assert sorted(map(repr, joined.select(*both).collect())) == sorted(
        map(repr, plain.select(*both).collect())
    )


def test_steps_are_analysed_twice_at_most_and_read_each_frame_anew(spark, conf, monkeypatch):
    df = rows(spark, 10)
    if not versions.has_classic_package(df):
        pytest.skip("before Spark 4.0 each step is analysed with all columns")
    other = df.withColumn("key", F.col("key") + 1)
    plan = kss.plan(df, "key", 4, grouping="w_choices", seed=295)  # no other test asks for it
    analysed, texts = steps._analysed, []

    def counted(df, names, text, *rest):
        texts.append(text)
        return analysed(df, names, text, *rest)

    monkeypatch.setattr(steps, "_analysed", counted)

    def routed(frame):
        return kss.route(frame, "key", plan=replace(plan, row_id=("id",)))

    # only what is asked for again is worth to be kept
    first, second = routed(df), routed(df)
    assert len(texts) == 2
    assert same_rows(second, first)
    again, moved = routed(df), routed(other)
    assert len(texts) == 2
    assert same_rows(again, first)
    assert same_rows(moved, at_once(other, "key", replace(plan, row_id=("id",))))
    assert not same_rows(moved, first)
    # the tables of another plan stand in the places of those of the first
    plan_of_others = kss.plan(other, "key", 4, grouping="w_choices", seed=295)
    by_another = kss.route(other, "key", plan=replace(plan_of_others, row_id=("id",)))
    assert len(texts) == 2
    assert same_rows(by_another, at_once(other, "key", replace(plan_of_others, row_id=("id",))))
    assert not same_rows(by_another, moved)
    # frames of the same steps have columns of their own
    both = first.alias("a").join(again.alias("b"), "id")
    assert both.filter("a.worker = b.worker").count() == first.count()
    assert first.union(moved).count() == 2 * first.count()
    # another type, or another setting, is another analysis
    small = routed(df.withColumn("key", F.col("key").cast("int")))
    assert len(texts) == 3
    assert same_rows(small.withColumn("key", F.col("key").cast("long")), first)
    conf("spark.sql.caseSensitive", "true")
    assert same_rows(routed(df), first)
    assert len(texts) == 4


@pytest.mark.parametrize("grouping", ["w_choices", "cut_to_fit", "key"])
def test_spark_need_not_cast_what_steps_compute_with(spark, monkeypatch, grouping):
    """Each cast that it adds is one more pass over all expressions."""
    df = rows(spark, 10)
    if not versions.has_classic_package(df):
        pytest.skip("before Spark 4.0 each step is analysed with all columns")
    plan = kss.plan(df, "key", 4, grouping=grouping, seed=296)  # no other test asks for it
    analysed, casts = steps._analysed, []

    def counted(df, names, text, *rest):
        found = analysed(df, names, text, *rest)
        casts.append((text.count("CAST("), found.made.projectList().toString().count("cast(")))
        return found

    monkeypatch.setattr(steps, "_analysed", counted)
    kss.route(df, "key", plan=replace(plan, row_id=("id",)))
    ((written, found),) = casts
    assert found == written > 0


@pytest.mark.parametrize("grouping", ["w_choices", "cut_to_fit", "key"])
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_steps_are_those_that_spark_makes_of_literals(spark, conf, monkeypatch, grouping, ansi):
    df = rows(spark, 10)
    if not versions.has_classic_package(df):
        pytest.skip("before Spark 4.0 each step is analysed with all columns")
    conf("spark.sql.ansi.enabled", ansi)
    plan = kss.plan(df, "key", 4, grouping=grouping, seed=297)
    replacing = spark._jvm.org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions
    analysed_steps, found = steps.analysed_steps, []

    def both(df, names, texts_of_steps, texts, columns):
        made = analysed_steps(df, names, texts_of_steps, texts, columns)
        with_literals = list(texts_of_steps)
        for name, text in texts.items():
            with_literals = [each.replace(f"`{name}`", f"'{text}'") for each in with_literals]
        found.append((made, analysed_steps(df, names, with_literals, {}, columns)))
        return made

    monkeypatch.setattr(narrow, "analysed_steps", both)
    for _ in range(4):  # analysed, and then kept
        kss.route(df, "key", plan=replace(plan, row_id=("id",)))
    assert len(found) == 4
    for pair in found:
        # before Spark 4.1 an expression that stands for another one is printed as it was written
        replaced = (replacing.apply(each.made).projectList().toString() for each in pair)
        ours, spark_s = (re.sub(r"#\d+L?", "", text) for text in replaced)
        assert ours == spark_s
        assert "worker_tail" not in ours


def by_columns(df, key, plan):
    """Return the rows as they are routed when it is asked for so often that the steps are kept."""
    return [kss.route(df, key, plan=plan) for _ in range(3)][-1]


def at_once(df, key, plan):
    """Return the rows as they are routed by columns of the DataFrame itself."""
    request = check(df, key, plan, worker_column="worker")
    row = row_hash_in_sql(request) if plan.splits else None
    return with_worker(df, plan, plan_hash(request), row, "worker")


def by_both(df, key, plan):
    """Return the rows as they are routed, which is the same by kept steps and at once."""
    found = by_columns(df, key, plan)
    assert same_rows(found, at_once(df, key, plan))
    return found


def hot(spark, *columns):
    key = F.when(F.col("id") % 2 == 0, 0).otherwise(F.col("id") % 41)
    return spark.range(200).select("id", key.alias("k"), *columns)


def test_steps_over_paths_follow_the_names_of_frames(spark):
    df = hot(spark, F.struct((F.col("id") % 37).alias("k")).alias("s"))
    plan = kss.plan(df, "s.k", 4, grouping="w_choices", row_id="id")
    by_both(df, "s.k", plan)
    # now `s` is the frame, and its column k comes before the field of that name
    placed = by_both(df.alias("s"), "s.k", plan)
    workers = placed.groupBy("k").agg(F.count_distinct("worker").alias("workers"))
    assert plan.splits == 0
    assert workers.filter("workers > 1").count() == 0
    one = hot(spark).alias("o1")
    two = hot(spark).withColumn("k", F.col("k") + 1).alias("o2")
    both = one.join(two, F.col("o1.id") == F.col("o2.id"))
    plan = kss.plan(hot(spark), "k", 4, grouping="w_choices", row_id="id")
    for names in (("o1.k", "o2.k"), ("o2.k", "o1.k")):
        columns = F.col("o1.id").alias("id"), F.lit(1).alias("o"), *names
        by_both(both.select(*columns), "o1.k", plan)


def test_steps_over_columns_of_one_name_are_analysed_anew(spark, conf):
    df = hot(spark)
    plan = kss.plan(df, "k", 4, grouping="w_choices", row_id="id")
    by_columns(df.select("id", "id", "k"), "k", plan).count()  # one column twice
    with pytest.raises(AnalysisException, match="AMBIGUOUS"):
        kss.route(df.select("id", (F.col("id") * 3).alias("id"), "k"), "k", plan=plan)
    one = df.select("id", "k", "K")
    conf("spark.sql.caseSensitive", "true")
    two = df.select("id", "k", (F.col("id") % 5).alias("K"))
    by_columns(one, "k", plan)
    assert same_rows(by_both(two, "k", plan).drop("K"), by_both(df, "k", plan))


def test_steps_go_by_what_spark_says_of_columns(spark):
    def frame(null):
        rare = F.when(F.col("id") % 3 > 0, F.col("id") % 41)
        key = rare if null else F.coalesce(rare, F.lit(0))
        return spark.range(200).select("id", key.alias("k"), F.lit(1).alias("z"))

    never, some, same = frame(null=False), frame(null=True), frame(null=True)
    plan = kss.plan(some, ["k", "z"], 4, grouping="w_choices", row_id="id")
    by_columns(never, ["k", "z"], plan)
    some.schema["k"].nullable = False  # what users do, though it is Spark's own
    found, expected = (by_both(df, ["k", "z"], plan) for df in (some, same))
    assert found.select("id", "worker").collect() == expected.select("id", "worker").collect()


def test_steps_with_functions_of_the_user_are_not_kept(spark, conf):
    df, order = hot(spark), "spark.sql.functionResolution.sessionOrder"
    if spark.version < "4.2":
        pytest.skip("a function of Spark cannot be had back here")
    plan = kss.plan(df, "k", 4, grouping="w_choices", row_id="id")
    conf(order, "first")
    spark.udf.register("shiftleft", lambda *_: 0, "bigint")
    try:
        by_columns(df, "k", plan)
    finally:
        spark.sql("DROP TEMPORARY FUNCTION shiftleft")
    by_both(df, "k", plan)
