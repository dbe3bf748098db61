"""The identity of a row is made of columns that are proved to be the same when a task is retried.

A column is steady if known sources, operators and functions make it. All else is left out, or refused.
"""

import inspect
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import found_names
import pandas as pd
import pytest
from frames import same_rows
from proofs import check_some_columns, steady
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit.spark import query
from keysplit.spark.session import Node, reading, sources, versions
from keysplit.spark.session.jvm import java_class, java_object
from keysplit.spark.session.sources import Sources

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
    return kss.plan(rows, "key", 4, "w_choices", row_id="id")


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
def test_known_sources_are_steady(spark, rows, tmp_path, name):
    df = SOURCES[name](spark, rows, tmp_path)
    assert steady(df) == df.columns


def test_files_of_the_newer_kind_are_steady(rows, conf, tmp_path):
    conf("spark.sql.sources.useV1SourceList", "")
    df = written(rows, tmp_path, "parquet")
    assert steady(df.withColumn("r", F.rand(1))) == [*rows.columns, "r"]
    assert "worker" in kss.online.route(df, "key", ks.DChoices(workers=4)).columns


def test_strings_of_a_fixed_length_are_steady(spark):
    spark.sql("create table padded (c char(5), v varchar(9), n int) using parquet")
    table = spark.table("padded")
    assert steady(table) == ["c", "v", "n"]
    assert steady(table.groupBy("c").count()) == ["c", "count"]


def test_a_column_without_a_name_is_left_out(spark):
    df = spark.createDataFrame([("a", 1)] * 20, ["", "b"])
    assert query.Query(df).identity == ["b"]
    assert kss.repartition(df, "b", workers=2, force=True).count() == 20


def test_a_database_is_not_known_to_return_the_same_rows(spark):
    df = spark.read.jdbc("jdbc:derby:memory:keysplit;create=true", "SYSIBM.SYSDUMMY1")
    assert steady(df) is None
    with pytest.raises(ValueError, match=r"^kss.online is exact only .* got the operator RowDataSourceScan"):
        kss.online.route(df, "IBMREQD", ks.DChoices(workers=4))


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
    assert steady(df) is None
    if "key" in df.columns:
        with pytest.raises(ValueError, match=r"^row_id must be given: df may have other rows .*checkpoint"):
            kss.route(df, "key", plan=plan)


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
    assert steady(found_names.ROWS[name](shuffled)) is None


@pytest.mark.parametrize("name", found_names.COLUMNS)
def test_a_column_made_of_one_by_chance_that_is_not_listed(spark, shuffled, name):
    if name.startswith(("of a ", "names exchanged")) and spark.version < "4":
        pytest.skip("Spark 3.5 finds no alias of a group, and exchanges no names")
    found = found_names.COLUMNS[name](shuffled)
    assert "w" not in (steady(found) or ())


@pytest.mark.parametrize("name", LEFT_OUT)
def test_an_unsteady_column_is_left_out(spark, shuffled, plan, name):
    df = LEFT_OUT[name](shuffled)
    assert set(steady(df)) == {*shuffled.columns}
    routed = kss.route(df, "key", plan=plan)
    assert routed.columns == [*df.columns, "worker"]
    with pytest.raises(ValueError, match=r"^row_id must name columns that have the same values .* got 'r'"):
        kss.route(df, "key", plan=plan, row_id=["id", "r"])
    spark.catalog.clearCache()


AGGREGATES = {
    "count(*)": True,
    "count(distinct x)": True,
    "count_if(x > 1)": True,
    "sum(id)": True,
    "sum(id * 2 + 1) filter (where x > 1)": True,
    "sum(d)": True,
    "count(*) + rand(1)": False,
    "count(*) + monotonically_increasing_id()": False,
    "avg(id)": False,  # it adds doubles
    "avg(d)": False,
    "avg(cast(d as decimal(11, 2)))": False,
    "avg(cast(d as decimal(12, 2)))": True,
    "max(s)": True,
    "min(struct(d, s))": True,
    "max(case when x > 1 then id else 0 end)": True,
    "bool_and(x > 1)": True,
    "bit_xor(id)": True,
    "approx_count_distinct(s)": True,
    "median(id)": True,
    "percentile(id, 0.3)": True,
    "sum(x)": False,
    "avg(x)": False,
    "cast(sum(x) as int)": False,
    "cast(max(-x) as string)": False,
    "avg(cast(id as double))": False,
    "stddev(id)": False,
    "collect_list(s)": False,
    "collect_set(id)": False,
    "size(collect_set(id))": True,
    "sort_array(collect_list(s))": True,
    "sort_array(collect_set(x))": False,
    "array_max(collect_list(id))": True,
    "array_contains(collect_set(s), 'a')": True,
    "element_at(collect_list(id), 1)": False,
    "max(struct(d, s))": True,
    "max(struct(x, s))": False,
    "max(array(id, x))": False,
    "concat_ws(',', collect_list(s))": False,
    "first(s)": False,
    "any_value(s)": False,
    "mode(s)": False,
    "max_by(s, id)": False,
    "approx_percentile(id, 0.5)": False,
    "hll_sketch_agg(id)": False,
    "try_sum(id)": False,
    "try_avg(d)": False,
    "sum(cast(d as decimal(28, 2)))": True,
}


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_aggregates(shuffled, aggregate):
    df = shuffled.groupBy("key").agg(F.expr(aggregate).alias("a"))
    assert steady(df) == (["key", "a"] if AGGREGATES[aggregate] else ["key"])


def test_aggregates_of_unsteady_rows_are_unsteady(shuffled):
    assert steady(shuffled.filter(F.rand(1) > 0.5).groupBy("key").agg(F.count("*").alias("n"))) is None
    assert steady(shuffled.groupBy("key").agg(F.max(a_draw("id")).alias("u"))) == ["key"]


def test_sketches_and_lists_as_text(spark, shuffled):
    if spark.version < "4":
        pytest.skip("Spark 3.5 has no listagg")
    df = shuffled.groupBy("key").agg(F.expr("listagg(s, ',')").alias("a"))
    assert steady(df) == ["key"]


def test_a_pivot_is_left_out(shuffled):
    assert steady(shuffled.groupBy("key").pivot("s", ["s1", "s2"]).agg(F.first("id"))) == ["key"]
    assert steady(shuffled.groupBy("key").pivot("s", ["s1", "s2"]).sum("id")) == ["key"]
    assert steady(shuffled.unpivot(["id"], ["key", "x"], "name", "value")) == ["id"]


@pytest.mark.parametrize(
    "made",
    [
        lambda df: df.groupBy("c").agg(F.count("*").alias("n")),
        lambda df: df.groupBy("c").agg(F.count("*").alias("n")).selectExpr("c collate utf8_binary as c", "n"),
        lambda df: df.groupBy("c").agg(F.count("*").alias("n")).selectExpr("upper(c) as c", "n"),
        lambda df: df.groupBy(F.struct("c").alias("c")).agg(F.count("*").alias("n")),
        lambda df: df.groupBy(F.array("c").alias("c")).agg(F.count("*").alias("n")),
        lambda df: df.groupBy(F.col("key").alias("n")).agg(F.max("c").alias("c")),
        lambda df: df.groupBy(F.col("key").alias("n")).agg(F.max(F.struct("c")).alias("c")),
        lambda df: df.groupBy(F.col("key").alias("n")).agg(F.expr("cast(min(c) as string)").alias("c")),
        lambda df: df.select("c", F.col("key").alias("n")).distinct(),
        lambda df: df.select("c", F.col("key").alias("n")).dropDuplicates(["c", "n"]),
        lambda df: df.select("c", F.col("key").alias("n")).intersect(df.select("c", "key")),
        lambda df: df.withColumn("n", F.col("key")).dropDuplicates(["n"]).select("n", "c"),
    ],
)
def test_one_of_several_equal_strings_is_left_out(shuffled, made):
    assert steady(made(collated(shuffled))) == ["n"]


@pytest.mark.parametrize(
    "query",
    [
        "select c as z, count(*) as n from collated group by C",
        "select upper(C) as z, count(*) as n from collated group by c",
        "select greatest(b, c) as z, count(*) as n from (select *, s collate utf8_lcase as b from collated) "
        "group by greatest(c, b)",
    ],
)
def test_a_collated_group_key_is_found_however_it_is_written(spark, shuffled, query):
    collated(shuffled).createOrReplaceTempView("collated")
    assert steady(spark.sql(query)) == ["n"]


@pytest.mark.parametrize(("ansi", "steady_columns"), [("true", ["key", "a"]), ("false", ["key"])])
@pytest.mark.parametrize(
    "aggregate", ["sum(cast(d as decimal(38, 2)))", "avg(cast(d as decimal(38, 2)))", "sum(d * d)"]
)
def test_a_sum_that_may_overflow_in_some_order_is_left_out(shuffled, conf, ansi, steady_columns, aggregate):
    conf("spark.sql.ansi.enabled", ansi)
    df = shuffled.groupBy("key").agg(F.expr(aggregate).alias("a"))
    assert steady(df) == steady_columns


SUMS_OF_LONG_DECIMALS = {
    "of the frame": lambda df: df.groupBy("key").agg(F.sum("a").alias("t")),
    "in a view": lambda df: of_view(df, "select key, sum(a) as t from long_decimals group by key"),
    "in a subquery": lambda df: of_view(df, "select key, (select avg(a) from long_decimals) as t from few"),
    "in a window": lambda df: of_view(df, "select key, sum(a) over (partition by key) t from long_decimals"),
    "in a common table": lambda df: of_view(
        df, "with c as (select key, sum(a) as t from long_decimals group by key) select * from c"
    ),
}


def of_view(df, text):
    df.createOrReplaceTempView("long_decimals")
    df.select("key").createOrReplaceTempView("few")
    df.sparkSession.sql(f"create or replace temp view with_sums as {text}")
    return df.sparkSession.table("with_sums")


@pytest.mark.parametrize("name", SUMS_OF_LONG_DECIMALS)
def test_a_sum_overflows_as_when_it_was_written(shuffled, conf, name):
    long = shuffled.select("key", F.col("d").cast("decimal(38, 2)").alias("a"))
    for written_in, expected in (("true", ["key", "t"]), ("false", ["key"])):
        conf("spark.sql.ansi.enabled", written_in)
        df = SUMS_OF_LONG_DECIMALS[name](long)
        for read_in in ("true", "false"):
            conf("spark.sql.ansi.enabled", read_in)
            assert steady(df) == expected


def test_what_merges_sketches_by_chance_is_left_out(shuffled):
    if shuffled.sparkSession.version < "4.1":
        pytest.skip("before Spark 4.1 there are no such sketches")
    sketch = F.expr("kll_sketch_agg_bigint(id)").alias("k")
    both = shuffled.groupBy("key").agg(sketch).withColumn("m", F.expr("kll_sketch_merge_bigint(k, k)"))
    assert steady(both) == ["key"]
    given = shuffled.withColumn("k", F.lit(b"")).withColumn("m", F.expr("kll_sketch_merge_bigint(k, k)"))
    assert steady(given) == [*shuffled.columns, "k"]


def test_ranges_and_nullif_of_sql_are_steady(shuffled):
    found = shuffled.filter("length(s) between 1 and 3").withColumn("n", F.expr("nullif(s, 's1')"))
    assert steady(found) == found.columns
    assert steady(shuffled.filter("rand() between 0.1 and 0.9")) is None
    assert steady(shuffled.withColumn("n", F.expr("nullif(uuid(), '')"))) == shuffled.columns


def test_files_of_which_some_may_be_left_out(spark, rows, conf, tmp_path):
    written(rows, tmp_path, "parquet")
    reader = spark.read.schema(rows.schema)
    assert steady(reader.parquet(str(tmp_path / "rows"))) == rows.columns
    for name in ("ignoreCorruptFiles", "ignoreMissingFiles"):
        assert steady(reader.option(name, "true").parquet(str(tmp_path / "rows"))) is None
        reader = spark.read.schema(rows.schema)
    stream = spark.readStream.schema(rows.schema)
    assert steady(stream.parquet(str(tmp_path / "rows"))) == rows.columns
    assert steady(stream.option("ignoreMissingFiles", "true").parquet(str(tmp_path / "rows"))) is None
    conf("spark.sql.files.ignoreMissingFiles", "true")
    stream = spark.readStream.schema(rows.schema)
    assert steady(stream.parquet(str(tmp_path / "rows"))) is None
    assert steady(reader.parquet(str(tmp_path / "rows"))) is None
    assert (
        steady(reader.option("ignoreMissingFiles", "false").parquet(str(tmp_path / "rows"))) == rows.columns
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
        return query.Query(
            spark.read.schema(schema).options(**options).format(kind).load(str(tmp_path / "rows"))
        )

    assert read("k long, v int").why_unrepeatable(["k"]) is None
    assert read("k long, v int", mode="failfast").why_unrepeatable(["k"]) is None
    dropping = read("k long, v int", mode="dropmalformed")
    assert dropping.df.select("k").filter("k = 9").count() == 1
    assert dropping.df.filter("k = 9").collect() == []
    assert "DROPMALFORMED" in dropping.why_unrepeatable(["k"])
    assert dropping.steadiness.rows is None  # a retried task reads what it has read
    assert "_corrupt_record" in read("k long, v int, _corrupt_record string").why_unrepeatable(["k"])
    assert "the column bad" in read(
        "k long, v int, bad string", columnNameOfCorruptRecord="bad"
    ).why_unrepeatable(["k"])


@pytest.mark.parametrize("kind", ["full", "right"])
@pytest.mark.parametrize("way", ["place", "broadcast"])
def test_a_join_that_reads_keys_first_refuses_other_rows(spark, tmp_path, kind, way):
    (tmp_path / "rows").write_text("".join(f"{at % 3},{at}\n" for at in range(90)) + "9,abc\n")
    left = spark.read.schema("k long, v int").option("mode", "DROPMALFORMED").csv(str(tmp_path / "rows"))
    right = spark.createDataFrame([(0, 1), (9, 7)], "k long, w int")
    plan = kss.plan(left, "k", 4, row_id="v")
    with pytest.raises(ValueError, match=r"^left must have the same rows each time .*DROPMALFORMED") as error:
        kss.join(left, right, "k", kind, split="left", plan=plan, way=way)
    assert "trust" not in str(error.value)
    joined = kss.join(left, right, "k", "left", split="left", plan=plan, force=True)
    assert same_rows(joined, left.join(right, "k", "left"))


def test_a_limit_of_a_sort_is_one_operator(shuffled, conf):
    df = in_order(shuffled).limit(5)
    assert steady(df) == df.columns
    conf("spark.sql.execution.topKSortFallbackThreshold", "4")
    assert steady(df) is None


def test_names_of_files_of_cached_rows_are_unsteady(spark, rows, tmp_path):
    df = written(rows, tmp_path, "parquet").withColumn("f", F.input_file_name())
    assert steady(df) == df.columns
    spark.range(3).cache()
    assert steady(df) == rows.columns
    spark.catalog.clearCache()


def test_no_trust_is_offered_where_nothing_could_be_trusted(shuffled, plan):
    with pytest.raises(ValueError, match=r"^row_id must be given") as error:
        kss.route(shuffled.limit(7), "key", plan=plan)
    assert "trust" not in str(error.value)
    with pytest.raises(ValueError, match=r"^row_id must be given.* trust=\[...\] with functions"):
        kss.route(UNKNOWN["mapInPandas"](shuffled), "key", plan=plan)


def test_a_table_beside_a_stream_may_have_changed(spark, rows, tmp_path):
    table = written(rows, tmp_path, "parquet").select(F.col("id").alias("value"), "s")
    stream = spark.readStream.format("rate").load()
    joined = query.Query(stream.join(table, "value"))
    assert joined.steadiness.rows is None
    assert joined.why_unrepeatable(["value"]).startswith("a table beside the stream")
    local = spark.createDataFrame([(1, "a")], "value long, s string")
    assert query.Query(stream.join(local, "value")).why_unrepeatable(["value"]) is None
    kept = query.Query(stream.join(table.localCheckpoint(), "value"))  # a new driver makes another one
    assert kept.steadiness.rows is None
    assert kept.why_unrepeatable(["value"]).startswith("a table beside the stream")


def test_a_chance_beside_aggregates_follows_their_order(rows):
    assert steady(rows.groupBy("key").agg((F.count("*") + F.rand(1)).alias("r"))) == ["key"]
    assert steady(rows.groupBy("key").agg(F.monotonically_increasing_id().alias("r"))) == ["key"]


def test_names_of_files_beside_python_functions_are_unsteady(rows, tmp_path):
    df = written(rows, tmp_path, "parquet").withColumn("f", F.input_file_name())
    assert steady(df) == df.columns
    assert "f" not in steady(df.withColumn("u", a_draw("id")))


def test_collated_strings_of_the_source_are_steady(shuffled):
    df = collated(shuffled)
    assert steady(df) == df.columns
    assert steady(df.groupBy("key").agg(F.count(F.col("c")))) == ["key", "count(c)"]


def test_what_stays_steady_downstream_of_a_shuffle(spark, rows, shuffled):
    for df in (
        shuffled,
        shuffled.filter("x > 1").withColumn("y", F.upper("s")).drop("s"),
        shuffled.join(rows.select("id", F.col("s").alias("t")), "id", "left"),
        shuffled.select("key", F.explode(F.array("id", "key"))),
        shuffled.rollup("key", "s").count(),
        shuffled.union(rows),
        shuffled.drop("x").distinct(),
        shuffled.dropDuplicates(["key"]).select("key"),
        shuffled.sort("id").withColumn("at", F.lit(1)),
        shuffled.sort(F.length("s"), F.upper("s")),
        shuffled.drop("x").sort("id", "key", "s", "d").select("s").limit(3),
        shuffled.select("key", "id").sort("id", "key").limit(5),
        shuffled.withColumn("n", F.expr("rank() over (partition by key order by s)")),
        shuffled.withColumn("n", F.expr("sum(id) over (partition by key order by s)")),
        shuffled.select(F.parse_json("s").alias("v")) if spark.version > "4" else shuffled,
        shuffled.select(F.transform(F.array("id"), lambda x: x + 1).alias("a")),
        shuffled.groupBy(F.window(F.timestamp_seconds("id"), "5 seconds"), "key").count(),
    ):
        assert steady(df) == df.columns


def test_chance_is_steady_where_rows_come_in_the_same_order(rows):
    df = rows.withColumn("r", F.rand(1)).withColumn("m", F.monotonically_increasing_id()).sample(0.9, seed=1)
    assert steady(df.coalesce(1)) == df.columns
    sorted_ = rows.drop("x").repartition(3).sort("id", "key", "s", "d")
    assert "m" in steady(sorted_.withColumn("m", F.monotonically_increasing_id()))


def test_the_index_of_pandas_on_spark_is_unsteady(spark, shuffled, plan, conf):
    conf("spark.sql.ansi.enabled", "false")  # Spark 4.0 has no pandas API in ANSI mode
    spark.createDataFrame([], "id int")  # makes this session the active one, which is asked for the mode
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYARROW_IGNORE_TIMEZONE", "1")
        try:
            import pyspark.pandas  # noqa: F401
        except (AttributeError, ImportError):
            pytest.skip("this Spark's pandas API does not know this pandas")
        df = shuffled.pandas_api().to_spark(index_col="at")
    assert "at" not in steady(df)
    with pytest.raises(ValueError, match=r"^row_id must name columns that have the same values"):
        kss.route(df, "key", plan=plan, row_id="at")


def test_a_name_with_a_dot_is_proved_for_what_spark_reads(shuffled, plan):
    fields = F.struct(F.rand().alias("b"), "id").alias("a")
    both = shuffled.select("key", "id", F.col("id").alias("a.b"), fields)
    why = r"^row_id must name columns .* got '{}', which depends on rand downstream of a shuffle"
    with pytest.raises(ValueError, match=why.format("a.b")):
        kss.route(both, "key", plan=plan, row_id="a.b")
    routed = kss.route(both, "key", plan=plan, row_id="`a.b`")
    assert same_rows(
        routed.select("id", "worker"), kss.route(shuffled, "key", plan=plan, row_id="id")["id", "worker"]
    )
    turned = shuffled.select("key", "id", F.rand().alias("a.b"), F.struct(F.col("id").alias("b")).alias("a"))
    with pytest.raises(ValueError, match=why.format("`a.b`")):
        kss.route(turned, "key", plan=plan, row_id="`a.b`")
    routed = kss.route(turned, "key", plan=plan, row_id="a.b")
    assert same_rows(
        routed.select("id", "worker"), kss.route(shuffled, "key", plan=plan, row_id="id")["id", "worker"]
    )
    # a field, or a column of rows that have an alias; a column of another name has no part in it
    drawn = shuffled.select("key", F.struct("id").alias("t"), F.rand().alias("id"))
    kss.route(drawn, "key", plan=plan, row_id="t.id")
    with pytest.raises(ValueError, match=why.format("t.id")):
        kss.route(drawn.alias("t"), "key", plan=plan, row_id="t.id")
    ticked = shuffled.select("key", F.rand().alias("a`b"), F.col("id").alias("ab"))
    with pytest.raises(ValueError, match=why.format("`a``b`")):
        kss.route(ticked, "key", plan=plan, row_id="`a``b`")


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


WITH_A_KEY = {
    "route": lambda df: kss.route(df, ["key", "salt"], workers=4, row_id="id"),
    "repartition": lambda df: kss.repartition(df, ["key", "salt"], workers=4, row_id="id"),
    "write": lambda df: kss.write(df, ["key", "salt"], workers=4, row_id="id"),
    "apply": lambda df: kss.apply(df, ["key", "salt"], lambda rows: rows, df.schema, workers=4),
    "join": lambda df: kss.join(df, df.select("key", F.col("id").alias("salt")), ["key", "salt"], workers=4),
    "join, the other side": lambda df: kss.join(
        df.select("key", F.col("id").alias("salt")), df, ["key", "salt"], workers=4
    ),
}


@pytest.mark.filterwarnings("ignore:distutils Version classes")
@pytest.mark.parametrize("name", WITH_A_KEY)
def test_a_key_by_chance_is_warned_of(shuffled, name):
    df = shuffled.select("key", "id", DRAWN["rand"]().cast("long").alias("salt"))
    side = "right" if name.endswith("other side") else "left" if name == "join" else "df"
    why = f"^key column 'salt' of {side} depends on rand downstream of a shuffle .* Derive it from columns"
    with pytest.warns(UserWarning, match=why):
        WITH_A_KEY[name](df)


@pytest.mark.parametrize("name", DRAWN)
def test_what_makes_a_key_by_chance_is_named(shuffled, name):
    df = shuffled.withColumn("salt", DRAWN[name]()).withColumn("salt", F.concat("s", "salt")).filter("id > 3")
    with pytest.warns(UserWarning, match=f"^key column 'salt' of df depends on (the )?{name}"):
        kss.repartition(df, ["key", "salt"], workers=4, row_id="id")


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
        kss.repartition(df, ["key", "salt"], workers=4, row_id="id", trust=trust)


def test_an_index_of_an_rdd_is_no_row_id(shuffled, plan):
    df = UNKNOWN["zipWithIndex"](shuffled)
    for row_id in ("at", "id"):
        with pytest.raises(
            ValueError, match=rf"^row_id must name .* got '{row_id}', which depends on an RDD"
        ):
            kss.route(df, "key", plan=plan, row_id=row_id)
    assert "worker" in kss.route(df, "key", plan=plan, row_id="id", trust=["id"]).columns


def tripled(values: pd.Series) -> pd.Series:
    return values * 3


def passed(batches):
    yield from batches


def test_trusted_functions_make_steady_columns(shuffled, plan):
    triple = F.pandas_udf(tripled, "long")
    df = shuffled.withColumn("t", triple("id"))
    assert "t" not in steady(df)
    for trust in ("tripled", triple, tripled, "t"):
        assert "t" in steady(df, trust)
    mapped = shuffled.mapInPandas(passed, shuffled.schema)
    assert steady(mapped) is None
    assert steady(mapped, passed) == mapped.columns
    # what it is given must be steady
    assert (
        steady(shuffled.withColumn("t", triple(F.monotonically_increasing_id())), triple) == shuffled.columns
    )
    with pytest.raises(ValueError, match=r"^row_id must be given"):
        kss.route(mapped, "key", plan=plan)
    assert "worker" in kss.route(mapped, "key", plan=plan, trust=[passed]).columns


def test_a_name_that_a_column_has_is_no_function(shuffled):
    both = shuffled.withColumn("tripled", F.pandas_udf(tripled, "long")("id")).withColumn(
        "other", F.pandas_udf(tripled, "long")("key")
    )
    known = [*shuffled.columns, "tripled"]
    assert steady(both) == shuffled.columns
    assert steady(both, "tripled") == known
    for function in (tripled, "tripled()"):
        assert steady(both, function) == [*known, "other"]


def test_functions_and_variables_of_sql(spark, shuffled):
    if not versions.has_sql_functions(spark):
        pytest.skip("from Spark 4.0 on")
    shuffled.createOrReplaceTempView("shuffled")
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION twice(v BIGINT) RETURNS BIGINT RETURN v * 2")
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION drawn(v BIGINT) RETURNS DOUBLE RETURN v * rand(3)")
    spark.sql("DECLARE OR REPLACE VARIABLE least BIGINT DEFAULT 3")
    df = spark.sql("SELECT *, twice(id) AS t, drawn(id) AS r, id + least AS v FROM shuffled WHERE id > least")
    assert steady(df) == [*shuffled.columns, "t", "v"]


def test_rows_by_chance_of_a_bucketed_table_may_be_others(spark, rows):
    rows.write.mode("overwrite").bucketBy(4, "key").saveAsTable("bucketed")
    table = spark.table("bucketed")
    why = "a source (LogicalRelation) that may put its rows into other partitions"
    for df, expected in (
        (table, None),
        (table.filter("rand(5) < 0.1"), f"rand downstream of {why}"),
        (table.sample(0.1, seed=3), f"a sample downstream of {why}"),
        (table.withColumn("drawn", F.rand()), None),
        (rows.filter("rand(5) < 0.1"), None),
    ):
        assert query.Query(df).why_unrepeatable(["key"]) == expected


SORTED = "a sort, whose ranges Spark samples again"
NUMBERED = {
    "range": (lambda df: df, None),
    "filtered": (lambda df: df.filter("id > 3").select("id", F.explode(F.array("id")).alias("e")), None),
    "union": (lambda df: df.union(df), None),
    "sorted": (lambda df: df.sort("id"), SORTED),
    "sorted, then in partitions": (lambda df: df.sort("id").sortWithinPartitions("id"), SORTED),
    "in partitions": (lambda df: df.sortWithinPartitions("id"), None),
    "a few of a sort": (lambda df: df.sort("id").limit(5), SORTED),
    "shuffled, then sorted in partitions": (
        lambda df: df.repartition(3, "id").sortWithinPartitions("id"),
        "a shuffle (repartition)",
    ),
    "coalesced": (lambda df: df.coalesce(1), "a coalesce"),
    "united with a sort": (lambda df: df.union(df.sort("id")), SORTED),
}
PLACES = {
    "monotonically_increasing_id": F.monotonically_increasing_id,
    "spark_partition_id": F.spark_partition_id,
    "rand": lambda: F.rand(3),
    "uuid": F.uuid if hasattr(F, "uuid") else lambda: F.expr("uuid()"),
}


@pytest.mark.parametrize("function", PLACES)
@pytest.mark.parametrize("name", NUMBERED)
def test_what_depends_on_the_place_of_rows_that_are_read_twice(spark, name, function):
    make, downstream = NUMBERED[name]
    rows = make(spark.range(0, 40, 1, 3))
    found = query.Query(rows.withColumn("place", PLACES[function]()))
    assert found.why_unrepeatable(["id"]) is None
    why = downstream and f"{function} downstream of {downstream}"
    assert found.why_unrepeatable(["place"]) == why
    if why is not None:  # it is the reading that counts, not a retried task
        assert found.reasons([found.columns.index("place")]) == [None]


def test_sources_are_cut_the_same_way_for_the_same_number_of_cores(spark, monkeypatch, tmp_path):
    spark.range(40).write.parquet(str(tmp_path / "rows"))
    sources_of = {
        "files": spark.read.parquet(str(tmp_path / "rows")),
        "range": spark.range(40),
        "range of SQL": spark.sql("SELECT id FROM range(40)"),
        "values": spark.sql("SELECT id FROM VALUES (1), (2) AS t(id)"),
    }

    def why():
        numbered = {
            name: df.withColumn("m", F.monotonically_increasing_id()) for name, df in sources_of.items()
        }
        found = {name: query.Query(df).why_unrepeatable(["m"]) for name, df in numbered.items()}
        return {name for name, reason in found.items() if reason is not None}

    assert why() == set()
    monkeypatch.setattr(sources.Sources, "_master", "spark://host:7077")
    assert why() == {"files", "range of SQL", "values"}
    monkeypatch.setattr(
        sources.Sources, "_setting", lambda self, name: "4" if "efaultParallelism" in name else None
    )
    assert why() == set()


def test_a_table_whose_partitions_are_listed_anew_is_not_read_twice(spark, rows):
    rows.write.mode("overwrite").saveAsTable("whole")
    rows.withColumn("part", F.col("key")).write.mode("overwrite").partitionBy("part").saveAsTable("in_parts")
    assert query.Query(spark.table("whole")).why_unrepeatable(["key"]) is None
    why = "a table whose partitions and files each query lists when it reads them"
    assert query.Query(spark.table("in_parts")).why_unrepeatable(["key"]) == why


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
    assert found.partitioned(Node(kind, {}, ()), [7]).startswith("a source (LogicalRelation) that may put")


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
    values, order = found.of(node, [7])
    assert values == order
    assert found.again(node, [7]) == "a table whose partitions and files each query lists when it reads them"
    assert found.partitioned(node, [7]).startswith("a source (HiveTableRelation) that may put its rows into")
    assert values is None if why is None else values.startswith(why)


def test_topics_that_pass_over_what_is_gone():
    assert reading.lost({}) is None
    assert reading.lost({"failondataloss": "true"}) is None
    assert reading.lost({"failondataloss": "FALSE"}).startswith("a topic read with failOnDataLoss=false")


def test_trust_is_checked(shuffled, plan):
    with pytest.raises(ValueError, match=r"^trust must name columns of df or functions .* got 'nothing'"):
        kss.route(shuffled, "key", plan=plan, trust=["nothing"])
    with pytest.raises(TypeError, match=r"^trust must be a list"):
        kss.route(shuffled, "key", plan=plan, trust=3)
    for bad in (3, lambda x: x):
        with pytest.raises(TypeError, match=r"^trust must hold names of columns"):
            kss.route(shuffled, "key", plan=plan, trust=[bad])


def test_a_function_that_no_column_asked_for_depends_on_may_be_trusted(spark, rows, plan):
    package = "execution.aggregate" if spark.version < "4" else "internal"
    function = java_object("scala.collection.immutable.Nil")
    counting = java_class(f"org.apache.spark.sql.{package}.TypedCount")(function)
    longs = java_class("org.apache.spark.sql.Encoders").LONG()
    counted = java_class("org.apache.spark.sql.functions").udaf(counting, longs)
    spark._jsparkSession.udf().register("counted", counted)
    df = rows.groupBy("key").agg(F.expr("counted(id)").alias("n"), F.max("id").alias("id"))
    kss.route(df, "key", plan=plan, row_id="id", trust=["counted"])
    with pytest.raises(ValueError, match=r"got 'other'; .* calls the functions \['counted'\]"):
        kss.route(df, "key", plan=plan, row_id="id", trust=["other"])


@pytest.mark.filterwarnings("ignore:key column 'key' of df depends on monotonically_increasing_id")
def test_if_no_column_is_steady_the_error_says_why(shuffled, plan):
    df = shuffled.select(F.monotonically_increasing_id().alias("key"))
    with pytest.raises(
        ValueError,
        match=r"^row_id must be given: df has no column .*key: monotonically_increasing_id downstream",
    ) as error:
        kss.route(df, "key", plan=plan)
    assert "\n" not in str(error.value)


def test_floats_and_arrays_count_where_there_is_nothing_else(shuffled, plan):
    assert query.Query(shuffled).identity == ["key", "id", "s", "d"]
    assert query.Query(shuffled.select("x", F.array("id").alias("a"))).identity == ["x", "a"]


def test_many_columns(spark, plan):
    names = [f"c{at}" for at in range(40)]
    wide = spark.range(60).select(
        (F.col("id") % 3).alias("key"),
        *((F.col("id") > at).alias(name) for at, name in enumerate(names)),
        "id",
    )
    assert query.Query(wide).identity == ["key", *names[:30], "id"]
    assert query.Query(wide.drop(*names[30:])).identity == ["key", *names[:30], "id"]
    plan = replace(plan, row_id=None)
    routed = kss.route(wide, "key", plan=plan)
    given = kss.route(wide, "key", plan=plan, row_id=["key", *names[:30], "id"])
    assert same_rows(routed, given)


def test_variants_inside_other_types_are_left_out(spark, shuffled, plan):
    if spark.version < "4":
        pytest.skip("Spark 3.5 has no variants")
    df = shuffled.select("key", "id", F.struct(F.parse_json("s"), "s").alias("v"), F.array(F.parse_json("s")))
    assert query.Query(df).identity == ["key", "id"]


def test_plans_have_more_operators_than_python_has_frames(spark):
    df = spark.range(40).select("id", (F.col("id") % 3).alias("key"))
    for _ in range(250):
        df = df.filter("id >= 0")
    most = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 150)
    try:
        assert steady(df) == ["id", "key"]
    finally:
        sys.setrecursionlimit(most)


def test_names_may_have_any_character(spark):
    df = spark.range(4).select("id", F.lit(1).alias("a\0b"), F.lit(2).alias("c#7"), F.lit(3).alias("d\n#7L"))
    assert steady(df) == df.columns
    assert steady(df.filter("id > 0")) == df.columns


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
def test_operators_with_more_columns_than_their_rows_are_refused_by_name(spark, rows):
    def passed_on(key, frames, state):
        yield from frames

    schema = "a long, b long, c long, d long, e long, f long"
    held = rows.groupBy("key").applyInPandasWithState(passed_on, schema, "s long", "append", "NoTimeout")
    with pytest.raises(ValueError, match=r"^row_id must name .* the operator FlatMapGroupsInPandasWithState"):
        query.Query(held).refuse_unsteady_id(["f"])
    assert query.Query(held).reasons()[0] == query.Query(held).reasons()[-1]
    texts = DataFrame(spark.range(3)._jdf.toJSON().toDF(), spark)
    with pytest.raises(ValueError, match="operator SerializeFromObject, which keysplit does not know"):
        query.Query(texts).identity  # noqa: B018  it is worked out when it is asked for
    check_some_columns(texts)


def test_a_source_that_keysplit_does_not_know(spark, monkeypatch):
    monkeypatch.setattr(sources, "_WITHOUT_A_CALL", frozenset())
    assert steady(spark.range(4)) is None


def test_streams(spark, rows, plan, tmp_path):
    stream = written(rows, tmp_path, "json")
    stream = spark.readStream.schema(rows.schema).json(str(tmp_path / "rows"))
    assert steady(stream) == stream.columns
    drawn = stream.withColumn("r", a_draw("id"))
    assert kss.route(drawn, "key", plan=plan, row_id="id").isStreaming
    assert kss.route(drawn, "key", plan=plan).isStreaming
    with pytest.raises(ValueError, match=r"^row_id must name .* got 'r'") as error:
        kss.route(drawn, "key", plan=plan, row_id="r")
    assert "checkpoint" not in str(error.value)
    socket = spark.readStream.format("socket").option("host", "localhost").option("port", 1).load()
    with pytest.raises(ValueError, match=r"^row_id must be given") as error:
        kss.route(socket.withColumn("key", F.lit(1)), "key", plan=plan)
    assert "checkpoint" not in str(error.value)


@pytest.mark.versions
def test_the_blocks_of_a_streams_files_are_cut_anew_for_each_attempt_at_a_batch(spark, rows, tmp_path):
    written(rows, tmp_path, "parquet")
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "rows"))
    of_files = stream.select("*", "_metadata", F.col("_metadata").alias("other")).withColumns(
        {"path": F.col("_metadata.FILE_path"), "start": F.col("_metadata.file_block_start")}
    )
    by_hand = of_files.withColumn("made", F.struct(F.col("start").alias("file_path")))
    found = by_hand.withColumn("of_made", F.col("made.file_path"))
    why = {name: query.Query(found).why_unrepeatable([name]) for name in found.columns}
    block = "a block of a file downstream of a stream"
    known = dict.fromkeys((*rows.columns, "path"), None)
    assert why == known | dict.fromkeys(("_metadata", "other", "start", "made", "of_made"), block)
    kept = stream.select("_metadata.file_name", "_metadata.file_size", "_metadata.file_modification_time")
    assert query.Query(kept).why_unrepeatable(kept.columns) is None


@pytest.mark.versions
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"filter": "rand(1) < 0.5"}, "rand downstream of a stream"),
        ({"filter": "uuid() < '5'"}, "uuid downstream of a stream"),
        ({"filter": "value < spark_partition_id()"}, "spark_partition_id downstream of a stream"),
        ({"filter": "timestamp < now()"}, "now downstream of a stream"),
        ({"sample": 0.5}, "a sample downstream of a stream"),
        ({"filter": "timestamp < 'now'"}, "a time of the clock as text downstream of a stream"),
        ({"filter": "timestamp < to_timestamp('now')"}, "a time of the clock as text downstream of a stream"),
        ({"filter": "to_date('today') < '2024-01-01'"}, "a time of the clock as text downstream of a stream"),
        ({"filter": "hour('12:30') < value"}, "a time of the clock as text downstream of a stream"),
        (
            {"filter": "timestamp < cast(concat('n', 'ow') as timestamp)"},
            "a time of the clock as text downstream of a stream",
        ),
        ({"filter": "timestamp < '2024-01-01 12:30' OR date('2024') < timestamp"}, None),
        ({"filter": "timestamp < to_timestamp('12:30', 'HH:mm')"}, None),
        ({"filter": "cast(cast(value AS string) AS date) < cast(current_timestamp() AS date)"}, None),
        ({"filter": "timestamp < date_trunc('day', current_timestamp())"}, None),
        ({"filter": "timestamp < current_timestamp()"}, None),
        ({"dropDuplicates": ["value"]}, None),
    ],
)
def test_a_stream_is_planned_anew_for_each_attempt_at_a_batch(spark, change, why):
    ((name, argument),) = change.items()
    rows = getattr(spark.readStream.format("rate").load(), name)(argument)
    assert query.Query(rows).steadiness.rows is None
    assert query.Query(rows).why_unrepeatable(["value"]) == why
