"""The identity of a row is made of columns that are the same when a task is retried.

A column counts if known sources, operators and functions make it. All else is left out, or refused.
"""

import inspect
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import found_names
import hypothesis
import pandas as pd
import pytest
from calls import Calls
from counted_columns import deterministic
from frames import same_rows
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit.spark import identity, versions
from keysplit.spark.identity import analysed, reading, sources
from keysplit.spark.identity.known import Node
from keysplit.spark.identity.sources import Sources
from keysplit.spark.jvm import java_class, java_object

pytestmark = pytest.mark.versions


@pytest.fixture(scope="module")
def rows(spark):
    made = [(i % 3, i, f"s{i % 7}", i / 3, Decimal(i) / 10) for i in range(40)]
    return spark.createDataFrame(made, "key long, id long, s string, x double, d decimal(9,2)")


@pytest.fixture(scope="module")
def shuffled(rows):
    return rows.repartition(3)


@pytest.fixture(scope="module")
def plan(rows):
    return kss.plan(rows, "key", 4, grouping="w_choices")


def drawing(batches):
    import uuid

    for batch in batches:
        yield batch.assign(u=[str(uuid.uuid4()) for _ in range(len(batch))])


def a_draw(name):
    def draw(_):
        import uuid

        return str(uuid.uuid4())

    return F.udf(draw, "string")(name)


def collated(df):
    if df.sparkSession.version < "4":
        pytest.skip("Spark 3.5 has no collations")
    return df.withColumn("c", F.expr("s collate utf8_lcase"))


SOURCES = {
    "list": lambda spark, df, folder: df,
    "names alone": lambda spark, df, folder: spark.createDataFrame([(i,) for i in range(3000)], ["n"]),
    "parallelized list": lambda spark, df, folder: spark.createDataFrame(
        spark.sparkContext.parallelize([(1, 2.5)] * 900, 5), "a int, b double"
    ),
    "pandas": lambda spark, df, folder: spark.createDataFrame(pd.DataFrame({"a": [1, 2]})),
    "range": lambda spark, df, folder: spark.range(9),
    "SQL": lambda spark, df, folder: spark.sql("select 1 as a, current_timestamp() as b"),
    "files": lambda spark, df, folder: written(df, folder, "parquet"),
    "text files": lambda spark, df, folder: written(df, folder, "json"),
    "table": lambda spark, df, folder: a_table(df),
    "view": lambda spark, df, folder: a_view(df),
    "checkpoint": lambda spark, df, folder: df.withColumn("r", F.rand()).repartition(2).checkpoint(),
    "local checkpoint": lambda spark, df, folder: df.withColumn("r", F.rand()).localCheckpoint(),
    "cache": lambda spark, df, folder: df.filter("id > 1").cache(),
}


def written(df, folder, kind):
    df.write.format(kind).save(str(folder / "rows"))
    return df.sparkSession.read.schema(df.schema).format(kind).load(str(folder / "rows"))


def a_table(df):
    df.write.mode("overwrite").saveAsTable("steady_rows")
    return df.sparkSession.table("steady_rows")


def a_view(df):
    df.createOrReplaceTempView("steady_view")
    return df.sparkSession.sql("with a as (select * from steady_view) select * from a")


@pytest.mark.parametrize("name", SOURCES)
def test_columns_of_known_sources_count(spark, rows, tmp_path, name):
    df = SOURCES[name](spark, rows, tmp_path)
    assert deterministic(df) == df.columns


def test_files_of_the_newer_kind_count(rows, conf, tmp_path):
    conf("spark.sql.sources.useV1SourceList", "")
    assert deterministic(written(rows, tmp_path, "parquet")) == rows.columns


def test_a_string_of_a_fixed_length_is_padded_by_a_call_to_java(spark):
    spark.sql("create table padded (c char(5), v varchar(9), n int) using parquet")
    table = spark.table("padded")
    assert deterministic(table) == ["v", "n"]
    assert deterministic(table.filter("n > 1 and v > 'a'")) == ["v", "n"]


def test_a_column_without_a_name_is_left_out(spark):
    df = spark.createDataFrame([("a", 1)] * 20, ["", "b"])
    assert identity.Query(df).identity == ["b"]


def test_a_database_is_not_known_to_return_the_same_rows(spark):
    df = spark.read.jdbc("jdbc:derby:memory:keysplit;create=true", "SYSIBM.SYSDUMMY1")
    assert deterministic(df) is None


UNKNOWN = {
    "mapped list": lambda df: df.sparkSession.createDataFrame(
        df.sparkSession.sparkContext.parallelize([1, 2]).map(lambda x: (x,)), "key long"
    ),
    "RDD": lambda df: df.sparkSession.createDataFrame(df.rdd.map(lambda row: (row.key,)), "key long"),
    "zipWithIndex": lambda df: (
        df.rdd.zipWithIndex().map(lambda pair: (*pair[0], pair[1])).toDF([*df.columns, "at"])
    ),
    "lazy checkpoint": lambda df: df.checkpoint(eager=False),
    "mapInPandas": lambda df: df.mapInPandas(drawing, "key long, u string"),
    "mapInArrow": lambda df: df.mapInArrow(lambda batches: batches, df.schema),
    "applyInPandas": lambda df: df.groupBy("key").applyInPandas(lambda rows: rows, df.schema),
    "script": lambda df: a_script(df),
    "limit": lambda df: df.limit(7),
    "limit of a total order": lambda df: in_order(df).limit(5),
    "limit of some order": lambda df: df.sort("s").limit(7),
    "offset": lambda df: df.offset(3),
    "sample": lambda df: df.sample(0.5, seed=3),
    "filter by chance": lambda df: df.filter(F.rand(1) > 0.5),
    "join by chance": lambda df: df.join(
        df.sparkSession.range(9).toDF("n"), a_draw("id") == F.col("n").cast("string")
    ),
    "anti join by chance": lambda df: df.join(df.filter(F.rand(1) > 0.5).select("id"), "id", "left_anti"),
    "distinct of a draw": lambda df: df.select(F.rand(1).alias("r")).distinct(),
    "groups by chance": lambda df: df.groupBy((F.rand(1) * 3).cast("int").alias("g")).count(),
    "repartition by chance": lambda df: df.repartition(3, F.rand(1)),
    "sort by chance": lambda df: df.sort(F.rand(1)),
    "sort of a sum of floats": lambda df: df.groupBy("key").agg(F.sum("x").alias("a")).sort("a"),
    "window by chance": lambda df: df.withColumn("r", a_draw("id")).withColumn(
        "n", F.expr("count(*) over (partition by r)")
    ),
    "dealt out": lambda df: df.withColumn("r", a_draw("id")).repartition(3),
    "rebalanced": lambda df: df.withColumn("r", a_draw("id")).hint("rebalance"),
    "limit of a filtered order": lambda df: in_order(df).filter(F.rand(1) > 0.5).limit(5),
    "limit of a sampled order": lambda df: in_order(df).sample(0.5, seed=1).limit(5),
    "offset of an order": lambda df: in_order(df).offset(5),
    "chance in a subquery": lambda df: a_correlated(df),
    "except by chance": lambda df: df.exceptAll(df.filter(F.rand(1) > 0.5)),
    "subquery of a limit": lambda df: a_subquery(df),
    "sample downstream of a subquery": lambda df: in_files(df, "id in (select n from numbers)").sample(
        0.5, seed=1
    ),
    "chance beside a subquery": lambda df: in_files(df, "id in (select n from numbers) and rand(1) > 0.5"),
    "chance downstream of exists": lambda df: in_files(
        df, "exists (select 1 from numbers where n = id)"
    ).filter(F.rand(1) > 0.5),
    "limit of an order with a subquery": lambda df: with_a_scalar(in_order(df)).limit(5),
    "limit of an observed order": lambda df: in_order(df).observe("all", F.count("*")).limit(5),
    "limit of a computed order": lambda df: in_order(df).withColumn("n", F.col("id") + 1).limit(5),
    "having": lambda df: df.groupBy("key").count().filter("count > 1"),
    "having a collated key": lambda df: collated(df).groupBy("c").count().filter("c > 'a'"),
    "sort of a count": lambda df: df.groupBy("key").count().sort("count"),
    "one row of several": lambda df: df.withColumn(
        "n", F.expr("row_number() over (partition by key order by id)")
    ).filter("n = 1"),
    "dealt out as a table expression": lambda df: a_table_expression(df, "uuid()"),
}


def in_files(df, condition):
    """The rows where a condition holds; they come from files, without a shuffle."""
    spark = df.sparkSession
    path = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"), "for_subqueries")
    df.write.mode("overwrite").parquet(str(path))
    spark.read.parquet(str(path)).createOrReplaceTempView("in_files")
    spark.range(20).toDF("n").createOrReplaceTempView("numbers")
    return spark.sql(f"select * from in_files where {condition}")


def with_a_scalar(df):
    df.createOrReplaceTempView("ordered")
    df.sparkSession.range(20).toDF("n").createOrReplaceTempView("numbers")
    return df.sparkSession.sql(
        "select *, (select max(n) from numbers where n = ordered.id) as m from ordered"
    )


def a_table_expression(df, expression):
    df.createOrReplaceTempView("expressed")
    return df.sparkSession.sql(
        f"with c as (select *, {expression} as u from expressed) "
        "select * from c where id > 3 union all select * from c where id < 30"
    )


def in_order(df):
    return df.select("key", "id").sort("id", "key")


def a_correlated(df):
    df.createOrReplaceTempView("around")
    return df.sparkSession.sql("select * from around where (select id + rand(1)) > 9")


def a_script(df):
    df.createOrReplaceTempView("to_script")
    return df.sparkSession.sql(
        "select transform(key, id) using 'cat' as (key bigint, id bigint) from to_script"
    )


def a_subquery(df):
    df.limit(3).createOrReplaceTempView("limited")
    df.createOrReplaceTempView("whole")
    return df.sparkSession.sql("select * from whole where id in (select id from limited)")


@pytest.mark.parametrize("name", UNKNOWN)
def test_where_there_may_be_other_rows_a_row_id_is_asked_for(shuffled, plan, name):
    df = UNKNOWN[name](shuffled)
    assert deterministic(df) is None
    why = (
        r"^row_id must be given: df may have different rows .*; pass row_id to kss.plan .* call df.checkpoint"
    )
    with pytest.raises(ValueError, match=why) as error:
        identity.Query(df).identity  # noqa: B018  it is worked out when it is asked for
    assert "\n" not in str(error.value)
    if "key" in df.columns:
        with pytest.raises(ValueError, match=why):
            kss.route(df, "key", plan=plan)


def test_a_row_id_that_the_user_names_is_for_other_rows_too(shuffled):
    df = shuffled.limit(30)
    named = kss.plan(shuffled, "key", 4, grouping="w_choices", row_id=["key", "id"])
    assert kss.route(df, "key", plan=named).columns == [*df.columns, "worker"]
    assert identity.Query(shuffled.limit(9)).keeps(["id"])
    assert not identity.Query(shuffled.limit(9)).keeps(["id"] * identity.MOST_COLUMNS)


LEFT_OUT = {
    "rand": lambda df: df.withColumn("r", F.rand()),
    "uuid": lambda df: df.withColumn("r", F.expr("uuid()")),
    "monotonic": lambda df: df.withColumn("r", F.monotonically_increasing_id()),
    "partition": lambda df: df.withColumn("r", F.spark_partition_id()),
    "shuffle": lambda df: df.withColumn("r", F.shuffle(F.array("key", "id"))),
    "of a draw": lambda df: df.withColumn("q", F.rand()).withColumn("r", F.col("q") > 0.5).drop("q"),
    "UDF that draws": lambda df: df.withColumn("r", a_draw("id")),
    "marked UDF": lambda df: df.withColumn("r", F.udf(lambda: 3, "int").asNondeterministic()()),
    "inside a function": lambda df: df.withColumn("r", F.concat(F.lit("a"), a_draw("id"))),
    "java_method": lambda df: df.withColumn("r", F.expr("java_method('java.util.UUID', 'randomUUID')")),
    "aes_encrypt": lambda df: df.withColumn("r", F.expr("aes_encrypt(s, '0123456789abcdef')")),
    "cached draw": lambda df: df.withColumn("r", F.rand()).cache(),
    "joined draw": lambda df: df.join(df.select("id", F.rand().alias("r")), "id"),
    "union with a draw": lambda df: df.withColumn("r", F.lit(0.5)).union(df.withColumn("r", F.rand())),
    "draw in a lambda": lambda df: df.withColumn("r", F.transform(F.array("id"), lambda x: x + F.rand())),
    "draw in a subquery": lambda df: a_drawn_scalar(df),
    "scalar subquery": lambda df: a_scalar(df),
    "count": lambda df: df.join(df.groupBy("id").agg(F.count("*").alias("r")), "id"),
    "sum": lambda df: df.withColumn("r", F.expr("sum(id) over (partition by key)")),
    "name of a file": lambda df: df.withColumn("r", F.input_file_name()),
    "row_number": lambda df: df.withColumn("r", F.expr("row_number() over (partition by key order by s)")),
    "lag": lambda df: df.withColumn("r", F.expr("lag(id) over (partition by key order by s)")),
    "running sum": lambda df: df.withColumn(
        "r", F.expr("sum(id) over (partition by key order by s rows unbounded preceding)")
    ),
    "generated beside a subquery": lambda df: in_files(df, "id in (select n from numbers)").withColumn(
        "r", F.monotonically_increasing_id()
    ),
    "drawn beside a subquery": lambda df: with_a_scalar(df).withColumn("r", F.rand(1)).drop("m"),
    "table expression": lambda df: (
        a_table_expression(df.groupBy("key", "id", "s", "x", "d").agg(F.sum("x").alias("y")), "y")
        .drop("y")
        .withColumnRenamed("u", "r")
    ),
    "window of floats": lambda df: df.withColumn("r", F.expr("sum(x) over (partition by key)").cast("int")),
}


def a_drawn_scalar(df):
    df.createOrReplaceTempView("all_rows")
    return df.sparkSession.sql("select *, (select id + rand(1)) as r from all_rows")


def a_scalar(df):
    df.createOrReplaceTempView("all_rows")
    return df.sparkSession.sql("select *, (select first(s) from all_rows) as r from all_rows")


@pytest.mark.parametrize("name", found_names.ROWS)
def test_rows_by_a_column_that_is_not_listed(shuffled, name):
    assert deterministic(found_names.ROWS[name](shuffled)) is None


@pytest.mark.parametrize("name", found_names.COLUMNS)
def test_a_column_made_of_one_by_chance_that_is_not_listed(spark, shuffled, name):
    if name.startswith(("of a ", "names exchanged")) and spark.version < "4":
        pytest.skip("Spark 3.5 finds no alias of a group, and exchanges no names")
    found = found_names.COLUMNS[name](shuffled)
    assert "w" not in (deterministic(found) or ())


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_column_that_is_not_deterministic_is_left_out(spark, shuffled, plan, name):
    df = LEFT_OUT[name](shuffled)
    assert set(deterministic(df)) == {*shuffled.columns}
    assert kss.route(df, "key", plan=plan).columns == [*df.columns, "worker"]
    with pytest.raises(ValueError, match=r"^row_id must name .* got 'r', which depends on .*other col"):
        kss.plan(df, "key", 4, row_id="r")


def test_chance_does_not_count_where_rows_come_in_the_same_order(rows):
    df = rows.withColumn("r", F.rand(1)).withColumn("m", F.monotonically_increasing_id())
    assert deterministic(df) == rows.columns
    assert deterministic(df.sample(0.9, seed=1).coalesce(1)) == rows.columns
    assert deterministic(rows.drop("x").repartition(3).sort("id", "key", "s", "d").sample(0.9)) == [
        "key",
        "id",
        "s",
        "d",
    ]


COMMON = {
    "filtered": lambda df, rows: df.filter("x > 1 and s like 's%'").withColumn("y", F.upper("s")).drop("s"),
    "joined": lambda df, rows: df.join(rows.select("id", F.col("s").alias("t")), "id", "left"),
    "joined in full": lambda df, rows: df.join(rows.select("id", F.col("s").alias("t")), "id", "full"),
    "semi": lambda df, rows: df.join(rows.filter("id > 7"), "id", "left_semi"),
    "exploded": lambda df, rows: df.select("key", F.explode(F.array("id", "key"))),
    "united": lambda df, rows: df.union(rows),
    "distinct": lambda df, rows: df.drop("x").distinct(),
    "one of several": lambda df, rows: df.dropDuplicates(["key"]).select("key"),
    "keys": lambda df, rows: df.groupBy("key", F.upper("s").alias("u")).count().drop("count"),
    "of keys": lambda df, rows: df.groupBy("key").agg((F.col("key") + 1).alias("more")),
    "rollup": lambda df, rows: df.rollup("key", "s").count().drop("count"),
    "windows": lambda df, rows: (
        df.groupBy(F.window(F.timestamp_seconds("id"), "5 seconds"), "key").count().drop("count")
    ),
    "pivot": lambda df, rows: df.groupBy("key").pivot("s", ["s1", "s2"]).sum("id").select("key"),
    "unpivot": lambda df, rows: df.unpivot(["id"], ["key", "x"], "name", "value").select("id"),
    "sorted": lambda df, rows: df.sort(F.length("s"), F.upper("s")).withColumn("at", F.lit(1)),
    "ranked": lambda df, rows: df.withColumn("n", F.expr("rank() over (partition by key order by s)")),
    "in a lambda": lambda df, rows: df.select(F.transform(F.array("id"), lambda x: x + 1).alias("a")),
    "cached": lambda df, rows: df.filter("id > 1").cache(),
    "in SQL": lambda df, rows: in_files(df, "id in (select n from numbers) or s between 'a' and 'b'"),
    "nullif": lambda df, rows: df.withColumn("n", F.expr("nullif(s, 's1')")),
    "observed": lambda df, rows: df.observe("all", F.count("*")).hint("broadcast").alias("t"),
    "collated": lambda df, rows: collated(df).filter("c > 'a'").drop("c"),
    "placed": lambda df, rows: kss.repartition(df, "key", workers=4),
}


@pytest.mark.parametrize("name", COMMON)
def test_common_queries_need_no_row_id(rows, shuffled, name):
    df = COMMON[name](shuffled, rows)
    assert deterministic(df) == df.columns


def test_of_aggregates_the_keys_alone_count(shuffled):
    for each in ("count(*)", "max(id)", "sum(d)", "first(s)", "collect_list(id)", "count(*) + rand(1)"):
        assert deterministic(shuffled.groupBy("key").agg(F.expr(each).alias("a"))) == ["key"]
    by_chance = shuffled.groupBy((F.rand(1) * 3).cast("int").alias("g")).count()
    assert deterministic(by_chance) is None


@pytest.mark.parametrize(
    "made",
    [
        lambda df: df.groupBy("c").agg(F.count("*").alias("n")),
        lambda df: df.groupBy("c").agg(F.count("*").alias("n")).selectExpr("upper(c) as c", "n"),
        lambda df: df.groupBy(F.struct("c").alias("c")).agg(F.count("*").alias("n")),
        lambda df: df.select("c").distinct(),
        lambda df: df.select("c", "key").dropDuplicates(["key"]).drop("key"),
        lambda df: df.select("c").intersect(df.select("c")),
    ],
)
def test_of_equal_collated_strings_none_counts(shuffled, made):
    assert deterministic(made(collated(shuffled))) == []


def test_collated_strings_are_no_identity(rows):
    df = collated(rows)
    assert deterministic(df) == df.columns
    df.write.mode("overwrite").saveAsTable("of_collated")
    table = df.sparkSession.table("of_collated")
    assert deterministic(table) == table.columns
    assert "c" not in identity.Query(table).identity
    assert deterministic(table.filter("c > 'a'")) == table.columns


def test_files_of_which_some_may_be_left_out(spark, rows, conf, tmp_path):
    written(rows, tmp_path, "parquet")
    reader = spark.read.schema(rows.schema)
    assert deterministic(reader.parquet(str(tmp_path / "rows"))) == rows.columns
    for name in ("ignoreCorruptFiles", "ignoreMissingFiles"):
        assert deterministic(reader.option(name, "true").parquet(str(tmp_path / "rows"))) is None
        reader = spark.read.schema(rows.schema)
    stream = spark.readStream.schema(rows.schema)
    assert deterministic(stream.parquet(str(tmp_path / "rows"))) == rows.columns
    assert deterministic(stream.option("ignoreMissingFiles", "true").parquet(str(tmp_path / "rows"))) is None
    conf("spark.sql.files.ignoreMissingFiles", "true")
    stream = spark.readStream.schema(rows.schema)
    assert deterministic(stream.parquet(str(tmp_path / "rows"))) is None
    assert deterministic(reader.parquet(str(tmp_path / "rows"))) is None
    assert (
        deterministic(reader.option("ignoreMissingFiles", "false").parquet(str(tmp_path / "rows")))
        == rows.columns
    )


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_text_is_read_twice_only_if_malformed_rows_are_the_same(spark, conf, tmp_path, kind, version):
    if version == "v2":
        conf("spark.sql.sources.useV1SourceList", "")
    (tmp_path / "rows").write_text(
        {"csv": "1,2\n9,abc\n", "json": '{"k":1,"v":2}\n{"k":9,"v":"abc"}\n'}[kind]
    )

    def read(schema, **options):
        return identity.Query(
            spark.read.schema(schema).options(**options).format(kind).load(str(tmp_path / "rows"))
        )

    assert read("k long, v int").why_unrepeatable(["k"]) is None
    assert read("k long, v int", mode="failfast").why_unrepeatable(["k"]) is None
    dropping = read("k long, v int", mode="dropmalformed")
    assert dropping.df.select("k").filter("k = 9").count() == 1
    assert dropping.df.filter("k = 9").collect() == []
    assert "DROPMALFORMED" in dropping.why_unrepeatable(["k"])
    assert dropping.determinism.rows is None  # a retried task reads what it has read
    assert "_corrupt_record" in read("k long, v int, _corrupt_record string").why_unrepeatable(["k"])
    assert "the column bad" in read(
        "k long, v int, bad string", columnNameOfCorruptRecord="bad"
    ).why_unrepeatable(["k"])


def test_a_join_that_reads_keys_first_refuses_other_rows(spark, tmp_path):
    (tmp_path / "rows").write_text("".join(f"{at % 3},{at}\n" for at in range(90)) + "9,abc\n")
    left = spark.read.schema("k long, v int").option("mode", "DROPMALFORMED").csv(str(tmp_path / "rows"))
    right = spark.createDataFrame([(0, 1), (9, 7)], "k long, w int")
    plan = kss.plan(left, "k", 4, row_id="v")
    for kind, way in (("full", "place"), ("right", "broadcast")):
        with pytest.raises(
            ValueError, match=r"^left must have the same rows each time .*DROPMALFORMED"
        ) as error:
            kss.join(left, right, "k", kind, split="left", plan=plan, way=way)
        assert "trust" not in str(error.value)


def test_a_sample_is_not_read_twice(rows):
    assert identity.Query(rows.sample(0.5)).determinism.rows is None
    assert identity.Query(rows.sample(0.5)).why_unrepeatable(["key"]).startswith("a sample, which depends on")
    assert identity.Query(rows.filter("id > 3")).why_unrepeatable(["key"]) is None


def test_no_trust_is_offered_where_nothing_could_be_trusted(shuffled):
    with pytest.raises(ValueError, match=r"^row_id must be given") as error:
        identity.Query(shuffled.limit(7)).identity  # noqa: B018
    assert "trust" not in str(error.value)
    with pytest.raises(ValueError, match=r"^row_id must be given.* trust=\[...\] with functions"):
        identity.Query(UNKNOWN["mapInPandas"](shuffled)).identity  # noqa: B018


def test_a_table_beside_a_stream_may_have_changed(spark, rows, tmp_path):
    table = written(rows, tmp_path, "parquet").select(F.col("id").alias("value"), "s")
    stream = spark.readStream.format("rate").load()
    joined = identity.Query(stream.join(table, "value"))
    assert joined.determinism.rows is None
    assert joined.why_unrepeatable(["value"]).startswith("a table joined to the stream")
    local = spark.createDataFrame([(1, "a")], "value long, s string")
    assert identity.Query(stream.join(local, "value")).why_unrepeatable(["value"]) is None
    kept = identity.Query(stream.join(table.localCheckpoint(), "value"))  # a new driver makes another one
    assert kept.determinism.rows is None
    assert kept.why_unrepeatable(["value"]).startswith("a table joined to the stream")


def test_the_index_of_pandas_on_spark_does_not_count(spark, shuffled, conf):
    conf("spark.sql.ansi.enabled", "false")  # Spark 4.0 has no pandas API in ANSI mode
    spark.createDataFrame([], "id int")  # makes this session the active one, which is asked for the mode
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYARROW_IGNORE_TIMEZONE", "1")
        try:
            import pyspark.pandas  # noqa: F401
        except (AttributeError, ImportError):
            pytest.skip("this Spark's pandas API does not know this pandas")
        df = shuffled.pandas_api().to_spark(index_col="at")
    assert deterministic(df) is None
    with pytest.raises(ValueError, match=r"^row_id must name columns that have the same values"):
        kss.plan(df, "key", 4, row_id="at")


def test_a_name_with_a_dot_is_that_which_spark_reads(shuffled):
    fields = F.struct(F.rand().alias("b"), "id").alias("a")
    why = r"^row_id must name columns .* got '{}', which depends on rand downstream of a shuffle"

    def refused(df, name):
        with pytest.raises(ValueError, match=why.format(name)):
            identity.Query(df).refuse_other_values([name])

    both = shuffled.select("key", "id", F.col("id").alias("a.b"), fields)
    refused(both, "a.b")
    identity.Query(both).refuse_other_values(["`a.b`"])
    turned = shuffled.select("key", "id", F.rand().alias("a.b"), F.struct(F.col("id").alias("b")).alias("a"))
    refused(turned, "`a.b`")
    identity.Query(turned).refuse_other_values(["a.b"])
    # a field, or a column of rows that have an alias; a column of another name has no part in it
    drawn = shuffled.select("key", F.struct("id").alias("t"), F.rand().alias("id"))
    identity.Query(drawn).refuse_other_values(["t.id"])
    refused(drawn.alias("t"), "t.id")
    refused(shuffled.select("key", F.rand().alias("a`b"), F.col("id").alias("ab")), "`a``b`")


DRAWN = {
    "rand": lambda: (F.rand() * 8).cast("int"),
    "uuid": lambda: F.concat("s", F.expr("uuid()")),
    "monotonically_increasing_id": lambda: F.monotonically_increasing_id() % 8,
    "Python function 'same'": lambda: a_function().asNondeterministic()("id"),
}


def a_function():
    def same(value):
        return value

    return F.udf(same, "long")


@pytest.mark.filterwarnings("ignore:distutils Version classes")
@pytest.mark.parametrize("name", DRAWN)
def test_a_key_by_chance_is_warned_of(shuffled, name):
    df = shuffled.withColumn("salt", DRAWN[name]()).withColumn("salt", F.concat("s", "salt")).filter("id > 3")
    why = f"^key column 'salt' of df depends on (the )?{name}.* Derive the key from columns"
    with pytest.warns(UserWarning, match=why):
        identity.Query(df).warn_of_keys_by_chance(["key", "salt"])


def chosen(df, column):
    """Salts that no expression draws: Spark takes these for deterministic."""
    return df.groupBy("key").agg(F.max("id").alias("id"), column.alias("salt"))


@pytest.mark.filterwarnings("error::UserWarning")
def test_no_other_key_is_warned_of(rows, shuffled):
    unknown = shuffled.withColumn("salt", a_function()("id"))
    for df, trust in (
        (rows.withColumn("salt", DRAWN["rand"]()), ()),  # no shuffle is upstream
        (shuffled.withColumn("salt", F.expr("pmod(xxhash64(id), 8)")).withColumn("r", F.rand()), ()),
        (unknown.withColumn("r", F.rand()), ()),
        (shuffled.withColumn("salt", DRAWN["rand"]()), ["salt"]),
        (chosen(shuffled, F.first("id")), ()),
        (chosen(shuffled, F.explode(F.collect_set("id"))).withColumn("r", F.rand()), ()),
    ):
        identity.Query(df, identity.trusted_names(trust)).warn_of_keys_by_chance(["key", "salt"])


def test_an_index_of_an_rdd_is_no_row_id(shuffled):
    df = UNKNOWN["zipWithIndex"](shuffled)
    for row_id in ("at", "id"):
        with pytest.raises(
            ValueError, match=rf"^row_id must name .* got '{row_id}', which depends on an RDD"
        ):
            kss.plan(df, "key", 4, row_id=row_id)
    plan = kss.plan(df, "key", 4, row_id="id", trust=["id"])
    assert "worker" in kss.route(df, "key", plan=plan).columns


def tripled(values: pd.Series) -> pd.Series:
    return values * 3


def passed(batches):
    yield from batches


def test_trusted_functions_make_columns_that_count(shuffled):
    triple = F.pandas_udf(tripled, "long")
    df = shuffled.withColumn("t", triple("id"))
    assert "t" not in deterministic(df)
    for trust in ("tripled", triple, tripled, "t"):
        assert "t" in deterministic(df, trust)
    mapped = shuffled.mapInPandas(passed, shuffled.schema)
    assert deterministic(mapped) is None
    assert deterministic(mapped, passed) == mapped.columns
    # what it is given must count
    by_place = shuffled.withColumn("t", triple(F.monotonically_increasing_id()))
    assert deterministic(by_place, triple) == shuffled.columns
    with pytest.raises(ValueError, match=r"^row_id must be given"):
        identity.Query(shuffled.mapInPandas(passed, shuffled.schema)).identity  # noqa: B018


def test_a_name_that_a_column_has_is_no_function(shuffled):
    both = shuffled.withColumn("tripled", F.pandas_udf(tripled, "long")("id")).withColumn(
        "other", F.pandas_udf(tripled, "long")("key")
    )
    known = [*shuffled.columns, "tripled"]
    assert deterministic(both) == shuffled.columns
    assert deterministic(both, "tripled") == known
    for function in (tripled, "tripled()"):
        assert deterministic(both, function) == [*known, "other"]


def test_functions_and_variables_of_sql(spark, shuffled):
    if not versions.has_sql_functions(spark):
        pytest.skip("from Spark 4.0 on")
    shuffled.createOrReplaceTempView("shuffled")
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION twice(v BIGINT) RETURNS BIGINT RETURN v * 2")
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION drawn(v BIGINT) RETURNS DOUBLE RETURN v * rand(3)")
    spark.sql("DECLARE OR REPLACE VARIABLE least BIGINT DEFAULT 3")
    df = spark.sql("SELECT *, twice(id) AS t, drawn(id) AS r, id + least AS v FROM shuffled WHERE id > least")
    assert deterministic(df) == [*shuffled.columns, "t", "v"]


def test_a_table_whose_partitions_are_listed_anew_is_not_read_twice(spark, rows):
    rows.write.mode("overwrite").saveAsTable("whole")
    rows.withColumn("part", F.col("key")).write.mode("overwrite").partitionBy("part").saveAsTable("in_parts")
    assert identity.Query(spark.table("whole")).why_unrepeatable(["key"]) is None
    why = "a table whose partitions and files each query lists when it reads them"
    assert identity.Query(spark.table("in_parts")).why_unrepeatable(["key"]) == why


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        (("0", "7"), None),
        (("-2", "7"), "a topic in Kafka whose start or end moves "),
        (("0", "-1"), "a topic in Kafka whose start or end moves "),
    ],
)
def test_a_topic_is_read_twice_between_numbers_alone(spark, rows, bounds, why):
    leaf, kind = object(), "org.apache.spark.sql.execution.datasources.LogicalRelation"
    start, end = (f'{{"t": {{"0": {number}}}}}' for number in bounds)
    found = Sources(spark, rows._jdf.queryExecution().analyzed())
    found._leaves = {(kind, 7): leaf}
    found._read[id(leaf)] = "kafka", {"startingoffsets": start, "endingoffsets": end}
    found._relations[id(leaf)] = SimpleNamespace(kind="kafka")
    again = found.again(Node(kind, {}, ()), [7])
    assert again is None if why is None else again.startswith(why)


@pytest.mark.parametrize(
    ("offsets", "fixed"),
    [
        ('{"t": {"0": 7, "1": 0}}', True),
        ('{"t": {"0": 7, "1": -1}}', False),
        ('{"t": {"0": -2}}', False),
        ('{"t": {}}', False),
        ('{"t": {"0": "7"}}', False),
        ("{}", False),
        ("latest", False),
        ("", False),
        ("7", False),
        ('{"t": 7}', False),
    ],
)
def test_numbers_alone_fix_the_offsets_of_a_topic(offsets, fixed):
    assert sources._are_fixed(offsets) is fixed


HIVE = "org.apache.hadoop.hive."


@pytest.mark.parametrize(
    ("format", "missing", "why"),
    [
        ("org.apache.hadoop.mapred.TextInputFormat", "false", None),
        (f"{HIVE}ql.io.RCFileInputFormat", "false", None),
        (f"{HIVE}hbase.HiveHBaseTableInputFormat", "false", "a table of Hive of the format "),
        ("org.apache.hadoop.mapred.TextInputFormat", "true", "files read with ignoreMissingFiles"),
    ],
)
def test_tables_read_by_the_code_of_hive(spark, rows, conf, format, missing, why):
    class Leaf:
        def tableMeta(self):
            return self

        storage = inputFormat = tableMeta

        def getOrElse(self, _):
            return format

    conf("spark.sql.files.ignoreMissingFiles", missing)
    found = Sources(spark, rows._jdf.queryExecution().analyzed())
    kind = "org.apache.spark.sql.catalyst.catalog.HiveTableRelation"
    found._leaves = {(kind, 7): Leaf()}
    node = Node(kind, {}, ())
    values = found.of(node, [7])
    assert found.again(node, [7]) == "a table whose partitions and files each query lists when it reads them"
    assert values is None if why is None else values.startswith(why)


def test_topics_that_pass_over_what_is_gone():
    assert reading.lost({}) is None
    assert reading.lost({"failondataloss": "true"}) is None
    assert reading.lost({"failondataloss": "FALSE"}).startswith("a topic read with failOnDataLoss=false")


def test_trust_is_checked(shuffled):
    with pytest.raises(ValueError, match=r"^trust must name columns of df or functions .* got 'nothing'"):
        kss.plan(shuffled, "key", 4, trust=["nothing"], row_id="id")
    with pytest.raises(TypeError, match=r"^trust must be a list"):
        kss.plan(shuffled, "key", 4, trust=3)
    for bad in (3, lambda x: x):
        with pytest.raises(TypeError, match=r"^trust must contain only column names"):
            kss.plan(shuffled, "key", 4, trust=[bad])


def test_an_aggregate_of_the_user_may_be_trusted(spark, rows):
    package = "execution.aggregate" if spark.version < "4" else "internal"
    function = java_object("scala.collection.immutable.Nil")
    counting = java_class(f"org.apache.spark.sql.{package}.TypedCount")(function)
    longs = java_class("org.apache.spark.sql.Encoders").LONG()
    counted = java_class("org.apache.spark.sql.functions").udaf(counting, longs)
    spark._jsparkSession.udf().register("counted", counted)
    df = rows.groupBy("key").agg(F.expr("counted(id)").alias("n"))
    assert identity.Query(df, names := identity.trusted_names("counted"), checked=names).identity == ["key"]
    with pytest.raises(ValueError, match=r"got 'other'; .* calls the functions \['counted'\]"):
        identity.Query(df, frozenset({"other"}), checked=frozenset({"other"})).identity  # noqa: B018


def test_if_no_column_counts_the_error_says_why(shuffled):
    df = shuffled.select(F.monotonically_increasing_id().alias("key"))
    with pytest.raises(
        ValueError,
        match=r"^row_id must be given: df has no column .*key: monotonically_increasing_id downstream",
    ) as error:
        identity.Query(df).identity  # noqa: B018
    assert "\n" not in str(error.value)


def test_floats_and_arrays_count_where_there_is_nothing_else(rows, shuffled):
    assert identity.Query(rows).identity == rows.columns
    assert identity.Query(shuffled).identity == ["key", "id", "s", "d"]
    assert identity.Query(shuffled.select("x", F.array("id").alias("a"))).identity == ["x", "a"]


def test_many_columns(spark):
    names = [f"c{at}" for at in range(40)]
    wide = spark.range(60).select(
        (F.col("id") % 3).alias("key"),
        *((F.col("id") > at).alias(name) for at, name in enumerate(names)),
        "id",
    )
    assert identity.Query(wide).identity == ["key", *names[:30], "id"]
    assert identity.Query(wide.drop(*names[30:])).identity == ["key", *names[:30], "id"]
    routed, given = (
        kss.route(wide, "key", plan=kss.plan(wide, "key", 4, grouping="w_choices", row_id=row_id))
        for row_id in (None, ["key", *names[:30], "id"])
    )
    assert same_rows(routed, given)


def test_variants_inside_other_types_are_left_out(spark, shuffled):
    if spark.version < "4":
        pytest.skip("Spark 3.5 has no variants")
    df = shuffled.select("key", "id", F.struct(F.parse_json("s"), "s").alias("v"), F.array(F.parse_json("s")))
    assert identity.Query(df).identity == ["key", "id"]


def test_plans_have_more_operators_than_python_has_frames(spark):
    df = spark.range(40).select("id", (F.col("id") % 3).alias("key"))
    for _ in range(250):
        df = df.filter("id >= 0")
    most = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 150)
    try:
        assert deterministic(df) == ["id", "key"]
    finally:
        sys.setrecursionlimit(most)


def test_names_may_have_any_character(spark):
    df = spark.range(4).select("id", F.lit(1).alias("a\0b"), F.lit(2).alias("c#7"), F.lit(3).alias("d\n#7L"))
    assert deterministic(df) == df.columns
    assert deterministic(df.filter("id > 0")) == df.columns


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_operators_with_more_columns_than_their_rows_are_refused_by_name(spark, rows):
    def passed_on(key, frames, state):
        yield from frames

    schema = "a long, b long, c long, d long, e long, f long"
    held = rows.groupBy("key").applyInPandasWithState(passed_on, schema, "s long", "append", "NoTimeout")
    with pytest.raises(ValueError, match=r"^row_id must name .* the operator FlatMapGroupsInPandasWithState"):
        identity.Query(held).refuse_other_values(["f"])
    assert identity.Query(held).reasons()[0] == identity.Query(held).reasons()[-1]
    texts = DataFrame(spark.range(3)._jdf.toJSON().toDF(), spark)
    with pytest.raises(ValueError, match="operator SerializeFromObject, which keysplit does not know"):
        identity.Query(texts).identity  # noqa: B018  it is worked out when it is asked for


def test_a_source_that_keysplit_does_not_know(spark, monkeypatch):
    monkeypatch.setattr(sources, "_WITHOUT_A_CALL", frozenset())
    assert deterministic(spark.range(4)) is None


def test_streams(spark, rows, plan, tmp_path):
    written(rows, tmp_path, "json")
    stream = spark.readStream.schema(rows.schema).json(str(tmp_path / "rows"))
    assert deterministic(stream) == stream.columns
    drawn = stream.withColumn("r", a_draw("id"))
    assert kss.streaming.route(drawn, "key", plan=plan).isStreaming
    with pytest.raises(ValueError, match=r"^row_id must name .* got 'r'") as error:
        identity.Query(drawn).refuse_other_values(["r"])
    assert "checkpoint" not in str(error.value)
    socket = spark.readStream.format("socket").option("host", "localhost").option("port", 1).load()
    with pytest.raises(ValueError, match=r"^row_id must be given") as error:
        kss.streaming.route(socket.withColumn("key", F.lit(1)), "key", plan=plan)
    assert "checkpoint" not in str(error.value)


def test_the_blocks_of_a_streams_files_are_cut_again_for_each_attempt_at_a_batch(spark, rows, tmp_path):
    written(rows, tmp_path, "parquet")
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "rows"))
    found = stream.select("*", "_metadata").withColumn("start", F.col("_metadata.file_block_start"))
    why = {name: identity.Query(found).why_unrepeatable([name]) for name in found.columns}
    block = "a block of a file downstream of a stream"
    assert why == dict.fromkeys(rows.columns, None) | dict.fromkeys(("_metadata", "start"), block)


CLOCK = "a time of the clock downstream of a stream"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"filter": "timestamp < now()"}, CLOCK),
        ({"filter": "timestamp < 'now'"}, CLOCK),
        ({"filter": "timestamp < to_timestamp('now')"}, CLOCK),
        ({"filter": "to_date('today') < '2024-01-01'"}, CLOCK),
        ({"filter": "hour('12:30') < value"}, CLOCK),
        ({"filter": "timestamp < cast(concat('n', 'ow') as timestamp)"}, CLOCK),
        ({"filter": "timestamp < '2024-01-01 12:30' OR date('2024') < timestamp"}, None),
        ({"filter": "cast(cast(value AS string) AS date) < cast(current_timestamp() AS date)"}, None),
        ({"filter": "timestamp < date_trunc('day', current_timestamp())"}, None),
        ({"filter": "timestamp < current_timestamp()"}, None),
        ({"dropDuplicates": ["value"]}, None),
    ],
)
def test_a_stream_is_planned_again_for_each_attempt_at_a_batch(spark, change, why):
    ((name, argument),) = change.items()
    rows = getattr(spark.readStream.format("rate").load(), name)(argument)
    assert identity.Query(rows).determinism.rows is None
    assert identity.Query(rows).why_unrepeatable(["value"]) == why


def test_more_columns_are_no_more_calls(spark, monkeypatch):
    def of(columns):
        df = spark.range(9).select("*", *(F.lit(at).alias(f"c{at}") for at in range(columns)))
        return df.join(df.select("id", F.lit(1).alias("n")), "id").filter("c1 > 1")

    frames = [of(2), of(3), of(300)]
    counts = Calls(spark, monkeypatch)
    made = []
    for df in frames:
        before = counts.made
        identity.Query(df).determinism  # noqa: B018
        made.append(counts.made - before)
    # the first one fills caches
    assert made[1] == made[2] < 20


def test_what_is_not_listed_does_not_count(rows, monkeypatch):
    monkeypatch.setattr(analysed, "FUNCTIONS", analysed.FUNCTIONS - {"Upper"})
    assert deterministic(rows.withColumn("u", F.upper("s"))) == rows.columns
    monkeypatch.delattr(analysed.Walk, "_Filter")
    assert deterministic(rows.filter("id > 3")) is None


STEPS = {
    "new": lambda df, at: df.withColumn(f"n{at}", F.col(df.columns[0])),
    "drawn": lambda df, at: df.withColumn(f"n{at}", F.rand(1)),
    "by place": lambda df, at: df.withColumn(f"n{at}", F.monotonically_increasing_id()),
    "fewer": lambda df, at: df.select(*df.columns[at % 2 :], F.lit(at).alias(f"n{at}")),
    "turned": lambda df, at: df.select(*reversed(df.columns)),
    "filter": lambda df, at: df.filter(F.col(df.columns[at % len(df.columns)]).isNotNull()),
    "by chance": lambda df, at: df.filter(F.rand(1) < 0.9),
    "alias": lambda df, at: df.alias(f"t{at}"),
    "join": lambda df, at: df.crossJoin(df.select(F.lit(1).alias(f"n{at}"))),
    "of drawn": lambda df, at: df.join(df.select(F.rand(1).alias(f"n{at}")), F.col(f"n{at}") > 0.5, "left"),
    "semi": lambda df, at: df.join(df.select(F.rand(1).alias(f"n{at}")), F.col(f"n{at}") > 0.5, "semi"),
    "sort": lambda df, at: df.sort(*df.columns),
    "limit": lambda df, at: df.limit(20),
    "shuffle": lambda df, at: df.repartition(2, df.columns[-1]),
    "deal": lambda df, at: df.repartition(2),
    "sample": lambda df, at: df.sample(0.5, seed=1),
    "distinct": lambda df, at: df.distinct(),
    "keep one": lambda df, at: df.dropDuplicates([df.columns[0]]),
    "aggregate": lambda df, at: df.groupBy(df.columns[0]).agg(F.max(df.columns[-1]).alias(f"n{at}")),
    "aggregates": lambda df, at: df.groupBy(df.columns[-1]).agg(
        F.max(df.columns[0]).alias(f"i{at}" if df.columns[-1] == "id" else "id"),
        (F.count("*") * F.rand(1)).alias(f"n{at}"),
        F.first(df.columns[-1]).alias(f"f{at}"),
        F.collect_list(df.columns[0]).alias(f"c{at}"),
    ),
    "by drawn keys": lambda df, at: df.groupBy((F.rand(1) > 0.5).alias(f"n{at}")).agg(
        F.max(df.columns[0]).alias(f"m{at}")
    ),
    "union": lambda df, at: df.union(df),
    "trusted": lambda df, at: df.withColumn(f"n{at}", a_function()(F.col(df.columns[0]))),
    "ranked": lambda df, at: df.withColumn(f"n{at}", F.expr(f"rank() over (order by {df.columns[-1]})")),
    "explode": lambda df, at: df.select("*", F.explode(F.array(df.columns[0])).alias(f"n{at}")),
    "rollup": lambda df, at: df.rollup(df.columns[0]).agg(F.max(df.columns[-1]).alias(f"n{at}")),
    "of the keys": lambda df, at: df.groupBy(F.hash(df.columns[-1]).alias(f"h{at}")).agg(
        F.count("*").alias("id"), F.hash(df.columns[-1]).alias(f"n{at}")
    ),
    "except": lambda df, at: df.exceptAll(df.limit(3)),
    "subquery": lambda df, at: df.withColumn(f"n{at}", F.expr("(SELECT max(id) FROM range(3))")),
}


# These square the number of rows.
SQUARING = ("join", "of drawn", "semi")


@hypothesis.given(
    steps=st.lists(st.sampled_from(sorted(STEPS.keys() - set(SQUARING))), min_size=1, max_size=6),
    last=st.sampled_from(sorted(STEPS)),
)
@hypothesis.settings(
    deadline=None, max_examples=20, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
def test_columns_that_count_hold_the_same_whatever_the_order_of_shuffles(spark, conf, steps, last):
    df = spark.range(40).select("id", (F.col("id") % 3).alias("key"), F.lit("s").alias("s"))
    for at, step in enumerate([*steps, last]):
        df = STEPS[step](df, at)
    query = identity.Query(df)
    counting = [] if query.determinism.rows else [at for at, why in enumerate(query.reasons()) if why is None]
    found = []
    for partitions in ("1", "5"):
        conf("spark.sql.shuffle.partitions", partitions)
        taken = df.select("*")  # planned once more
        found.append(
            sorted(repr([row[at] for at in counting]) for row in taken.collect()) if counting else []
        )
    assert found[0] == found[1]
