"""The worker of a row in SQL is the one that `route` gives."""

import re
from dataclasses import replace

import pytest
from frames import KEYS, frame, skewed
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keysplit import spark as kss
from keysplit.spark import versions

WORKERS = 6


@pytest.fixture(autouse=True)
def needs_sql_functions(spark):
    if spark.version < "4":
        pytest.skip("Spark 3.5 has no functions of SQL")


@pytest.fixture(scope="module")
def clicks(spark):
    """Half of the rows have one key; some keys are null in a part or as a whole."""
    at = F.col("id")
    user = F.when(at % 2 == 0, "hot").when(at % 50 == 1, None).otherwise(F.concat(F.lit("k"), at % 40))
    shop = F.when(at % 2 == 0, 1).when(at % 30 == 1, None).otherwise((at % 7).cast("int"))
    df = spark.range(2000, numPartitions=3).select(user.alias("name"), shop.alias("shop"), "id")
    df.createOrReplaceTempView("clicks")
    return df


def workers_of(df, key, plan, row_id):
    return {
        row["id"]: row["worker"] for row in kss.route(df, key, plan=replace(plan, row_id=row_id)).collect()
    }


def in_sql(spark, call, view="clicks"):
    return {
        row["id"]: row["worker"] for row in spark.sql(f"SELECT id, {call} AS worker FROM {view}").collect()
    }


@pytest.mark.parametrize("key", ["name", "shop", ["name", "shop"], ["shop", "name"]])
@pytest.mark.parametrize("grouping", ["cut_to_fit", "key", "d_choices"])
def test_the_worker_is_that_of_route(spark, clicks, key, grouping):
    plan = kss.plan(clicks, key, WORKERS, grouping=grouping, row_id="id", seed=2**63 + 5)
    assert plan.splits == (grouping != "key")
    kss.register(spark, plan, "worker_of", row_id="id BIGINT")
    names = [key] if isinstance(key, str) else key
    found = in_sql(spark, f"worker_of({', '.join(names)}, id)")
    assert found == workers_of(clicks, key, plan, ("id",))
    assert len(set(found.values())) > 1


@pytest.mark.parametrize("name", sorted(KEYS))
def test_keys_of_all_types(spark, name):
    type_, keys = KEYS[name]
    df = frame(spark, type_, skewed(keys, 120)).withColumn("id", F.monotonically_increasing_id())
    df = df.localCheckpoint()
    plan = kss.plan(df, "key", 4, row_id="id")
    assert plan.splits
    df.createOrReplaceTempView("typed")
    kss.register(spark, plan, "worker_of", row_id=df.select("id", "v", "d").schema)
    assert in_sql(spark, "worker_of(key, id, v, d)", "typed") == workers_of(df, "key", plan, ("id", "v", "d"))


def test_a_plan_that_splits_nothing_needs_no_row_id_and_takes_one(spark, clicks):
    plan = kss.plan(clicks, "name", WORKERS, grouping="distribution_aware")
    assert plan.head
    assert not plan.splits
    expected = workers_of(clicks, "name", plan, None)
    assert kss.register(spark, plan, "worker_of") == "worker_of(name STRING)"
    assert in_sql(spark, "worker_of(name)") == expected
    kss.register(spark, plan, "worker_of", row_id="id BIGINT")
    assert in_sql(spark, "worker_of(name, id)") == expected


def test_large_plans(spark, clicks):
    plan = kss.plan(clicks, "name", 3000, grouping="cut_to_fit", row_id="id")
    kss.register(spark, plan, "worker_of", row_id="id BIGINT")
    assert in_sql(spark, "worker_of(name, id)") == workers_of(clicks, "name", plan, ("id",))


@pytest.mark.versions
def test_it_works_wherever_sql_takes_an_expression(spark, clicks):
    plan = kss.plan(clicks, "name", WORKERS, row_id="id")
    kss.register(spark, plan, "worker_of", row_id="id BIGINT")
    counts = dict(
        kss.route(clicks, "name", plan=replace(plan, row_id=("id",))).groupBy("worker").count().collect()
    )
    grouped = spark.sql("SELECT worker_of(name, id) AS worker, count(*) FROM clicks GROUP BY 1")
    assert dict(grouped.collect()) == counts
    one = spark.sql("SELECT count(*) FROM clicks WHERE worker_of(name, id) = 1").first()[0]
    assert one == counts[1]
    same = "SELECT count(*) FROM clicks a JOIN clicks b ON a.id = b.id AND {} = worker_of(b.name, b.id)"
    assert spark.sql(same.format("worker_of(a.name, a.id)")).first()[0] == 2000
    assert clicks.filter(F.expr("worker_of(name, id) = 1")).count() == one


def test_no_python_runs(spark, clicks, conf):
    plan = kss.plan(clicks, "name", WORKERS, row_id="id")
    kss.register(spark, plan, "worker_of", row_id="id BIGINT")
    conf("spark.sql.execution.pyspark.python", "/there/is/no/python")
    assert len(in_sql(spark, "worker_of(name, id)")) == 2000


def test_names_that_are_the_same_and_names_with_dots(spark):
    df = spark.range(400).selectExpr("IF(id % 2 = 0, 0, id) AS `a.b`", "id")
    plan = kss.plan(df, "`a.b`", 4, row_id="id")
    df.createOrReplaceTempView("dotted")
    shown = kss.register(spark, plan, "worker_of", row_id="id BIGINT")
    assert in_sql(spark, "worker_of(`a.b`, id)", "dotted") == workers_of(df, "`a.b`", plan, ("id",))
    assert shown == "worker_of(a.b BIGINT, id BIGINT)"
    plan = kss.plan(df, "id", 4, grouping="key")
    assert kss.register(spark, plan, "worker_of", row_id="ID INT") == "worker_of(id BIGINT, ID_ INT)"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": "worker of"}, ValueError, "name must be letters, digits and underscores, and "),
        ({"name": "2nd"}, ValueError, "name must be letters, digits and underscores, and "),
        ({"name": 3}, TypeError, "name must be a string, got int"),
        ({"name": "sum"}, ValueError, "name must not be the name of a Spark function, got 'sum'"),
        ({"plan": 3}, TypeError, "plan must be a Plan that kss.plan made, got int"),
        ({"spark": 3}, TypeError, "spark must be a SparkSession, got int"),
        (
            {"row_id": None},
            ValueError,
            "row_id must be given for a plan that splits keys: the columns of ['id'] that ",
        ),
        (
            {"row_id": "id"},
            ValueError,
            "row_id must be columns with their types, such as 'id BIGINT', got 'id'",
        ),
        ({"row_id": ["id"]}, TypeError, "row_id must be a string such as 'id BIGINT', or a schema, got list"),
        ({"row_id": T.StructType([])}, ValueError, "row_id must name at least one column, got an empty list"),
        ({"row_id": "m MAP<INT, INT>"}, TypeError, "row_id must be of types that Spark hashes, got 'm'"),
    ],
)
def test_wrong_arguments_are_named(spark, clicks, arguments, error, message):
    plan = kss.plan(clicks, "name", WORKERS, row_id="id")
    given = {"spark": spark, "plan": plan, "name": "worker_of", "row_id": "id BIGINT", **arguments}
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        kss.register(given["spark"], given["plan"], given["name"], row_id=given["row_id"])


def test_keys_with_a_collation_are_refused(spark, clicks):
    df = spark.sql("SELECT name COLLATE UTF8_LCASE AS name, id FROM clicks")
    plan = kss.plan(df, "name", WORKERS, row_id="id")
    with pytest.raises(ValueError, match=r"^plan must have keys without a collation, got \['string collate"):
        kss.register(spark, plan, "worker_of", row_id="id BIGINT")


@pytest.mark.versions
def test_sessions_without_functions_of_sql_are_refused(spark, clicks, monkeypatch):
    plan = kss.plan(clicks, "name", WORKERS, grouping="key")
    monkeypatch.setattr(versions, "has_sql_functions", lambda spark: False)
    with pytest.raises(
        ValueError, match=r"^spark must be of Spark 4\.0 or newer, .*: kss\.route adds the worker"
    ):
        kss.register(spark, plan, "worker_of")


def test_fields_of_any_name_are_names(spark):
    """A name in a schema is never read as SQL."""
    odd = T.StructType(
        [
            T.StructField("x: INT>) RETURNS INT RETURN 42 --", T.LongType()),
            T.StructField("a b", T.StringType()),
        ]
    )
    rows = [(f"k{at % 40}" if at % 2 else "hot", (at, "x")) for at in range(1000)]
    df = spark.createDataFrame(
        rows, T.StructType([T.StructField("k", T.StringType()), T.StructField("id", odd)])
    )
    df = df.withColumn("of", F.array("id"))
    plan = kss.plan(df, "k", WORKERS, grouping="cut_to_fit", row_id=("id", "of"))
    shown = kss.register(spark, plan, "worker_of", row_id=df.select("id", "of").schema)
    assert shown.startswith(
        "worker_of(k STRING, id STRUCT<`x: INT>) RETURNS INT RETURN 42 --`: BIGINT, `a b`: STRING>, of ARRAY<"
    )
    routed = kss.route(df, "k", plan=replace(plan, row_id=("id", "of")), worker_column="by_plan")
    assert routed.filter("worker_of(k, id, of) <> by_plan").count() == 0
    assert routed.select("by_plan").distinct().count() > 1
