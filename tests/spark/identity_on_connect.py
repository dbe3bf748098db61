"""The rule of deterministic columns on Spark Connect, run by a client of the server at $KEYSPLIT_CONNECT."""

import os

import found_names
import pytest
from counted_columns import deterministic
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit.spark import identity


@pytest.fixture(scope="module")
def spark():
    session = SparkSession.builder.remote(os.environ["KEYSPLIT_CONNECT"]).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def rows(spark):
    at = F.col("id")
    rare = F.when(at % 50 == 1, None).otherwise(F.concat(F.lit("k"), at % 40))
    return spark.range(2000, numPartitions=3).select(
        F.when(at % 2 == 0, "hot").otherwise(rare).alias("key"), "id", (at * 37 % 101).alias("v")
    )


def test_what_is_drawn_is_left_out(rows):
    drawn = rows.repartition(2).withColumn("drawn", F.rand())
    assert deterministic(drawn) == rows.columns
    assert deterministic(rows.withColumn("drawn", F.rand())) == rows.columns
    assert identity.Query(drawn).identity == rows.columns
    with pytest.raises(ValueError, match=r"^row_id must name .* got 'drawn', which depends on rand downst"):
        kss.plan(drawn, "key", 4, row_id="drawn")


def test_text_is_read_twice_only_if_malformed_rows_are_the_same(spark, tmp_path):
    (tmp_path / "rows.json").write_text('{"k":1,"v":2}\n{"k":9,"v":"abc"}\n')

    def why(schema=None, **options):
        reader = spark.read.options(**options)
        reader = reader if schema is None else reader.schema(schema)
        return identity.Query(reader.json(str(tmp_path / "rows.json"))).why_unrepeatable(["k"])

    assert why("k long, v int") is None
    assert "DROPMALFORMED" in why("k long, v int", mode="dropmalformed")
    assert "_corrupt_record" in why("k long, v int, _corrupt_record string")
    assert "only the server knows" in why()


def halved(value):
    return value // 2


def unchanged(batches):
    yield from batches


ROWS_BY_CHANCE = {
    "joined by a draw": lambda df, drawn: drawn.join(df.select(F.rand(2).alias("r")), "r"),
    "sorted by a draw": lambda df, drawn: drawn.sort("r"),
    "dealt out": lambda df, drawn: drawn.repartition(2),
    "dealt out by a hint": lambda df, drawn: drawn.hint("rebalance"),
    "as many as drawn": lambda df, drawn: drawn.select(
        "id", F.explode(F.sequence(F.lit(0), (F.col("r") * 9).cast("int")))
    ),
    "window by a draw": lambda df, drawn: drawn.withColumn(
        "n", F.count("*").over(Window.partitionBy("r")) + F.lit(1)
    ),
}


@pytest.mark.parametrize("name", ROWS_BY_CHANCE)
def test_rows_by_chance(rows, name):
    shuffled = rows.repartition(2)
    drawn = shuffled.withColumn("r", F.rand(1))
    assert deterministic(drawn) == rows.columns
    assert deterministic(ROWS_BY_CHANCE[name](shuffled, drawn)) is None


@pytest.mark.parametrize("name", found_names.ROWS)
def test_rows_by_a_column_that_is_not_listed(rows, name):
    found = found_names.ROWS[name](rows.repartition(2))
    assert found.columns
    assert deterministic(found) is None


@pytest.mark.parametrize("name", found_names.COLUMNS)
def test_a_column_made_of_one_by_chance_that_is_not_listed(rows, name):
    found = found_names.COLUMNS[name](rows.repartition(2))
    assert "w" in found.columns
    assert "w" not in (deterministic(found) or ())


def test_a_key_that_a_side_of_a_join_does_not_list_counts_against(rows):
    """`s.*` has a column `id`, which the relation does not list; the other side lists its own."""
    drawn = rows.select(F.struct((F.rand(1) * 9).cast("long").alias("id")).alias("s"), F.lit(1).alias("v"))
    unlisted = drawn.select("s.*", "v")
    shuffled = rows.repartition(2)
    for how in ("inner", "left_semi", "right"):
        assert deterministic(shuffled.join(unlisted, "id", how)) is None
    assert deterministic(unlisted.join(shuffled, "id", "left")) is None


def test_columns_by_chance_that_nothing_names_are_no_obstacle(rows):
    shuffled = rows.repartition(2)
    drawn = shuffled.withColumn("r", F.rand())
    assert deterministic(drawn.select("id", "key").filter(F.col("id") > 3)) == ["id", "key"]
    assert deterministic(drawn.drop("r").filter(drawn["id"] > 3)) == rows.columns
    assert deterministic(drawn.drop("r").withColumn("r", F.lit(1)).filter(F.col("r") > 0)) == [
        *rows.columns,
        "r",
    ]
    assert deterministic(drawn.select("*", F.uuid(), F.upper("key").alias("k"))) == [*rows.columns, "k"]


def test_columns_whose_names_differ_in_the_case_of_letters(spark, rows):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        drawn = rows.select("key", "id").repartition(2).withColumn("r", F.rand())
        assert deterministic(drawn.select("id", F.lit(1).alias("R"), "*").select("id", "r")) == ["id"]
        nested = drawn.withColumn("s", F.struct(F.rand().alias("f")))
        assert deterministic(nested.select("id", F.lit(1).alias("F"), "s.*").select("f")) == []
        unknown = drawn.toDF("key", "id", "r")
        assert deterministic(unknown.withColumn("R", F.lit(1)).select("r")) == []
        assert deterministic(unknown.withColumnRenamed("key", "R").select("r")) == []
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_columns_by_chance_whatever_their_names(rows):
    shuffled = rows.select("key", "id").repartition(2)
    dotted = shuffled.withColumn("a.b", F.rand())
    assert deterministic(dotted) == ["key", "id"]
    assert deterministic(dotted.select("id", F.col("`a.b`").alias("z"))) == ["id"]
    # a name with a dot in it is no path
    assert deterministic(dotted.select("id", "`a.b`")) == ["id"]
    assert deterministic(dotted.select(F.col("key"), "`a.b`").filter(F.col("`a.b`") > 0.5)) is None
    # and a star has the columns of the names that stand before it, too
    named = dotted.withColumn("r", F.rand()).select(F.lit(1).alias("r"), "*")
    assert deterministic(named.toDF("one", "key", "id", "drawn", "r")) == []
    both = dotted.toDF("key", "id", "drawn").select(F.lit(1).alias("drawn"), "*")
    assert deterministic(both.select("key", "id")) == []
    ticked = shuffled.withColumn("a`b", F.rand())
    assert deterministic(ticked.select("id", F.col("`a``b`").alias("z"))) == ["id"]
    nested = shuffled.withColumn("s", F.struct(F.rand().alias("f")))
    assert deterministic(nested.select("id", "s.*")) == ["id"]
    assert deterministic(nested.select("id", F.col("s.f").alias("z"))) == ["id"]
    hinted = shuffled.select("id").hint("repartition", 3).withColumn("m", F.monotonically_increasing_id())
    assert deterministic(hinted) == ["id"]


def test_columns_that_count(spark, rows, tmp_path):
    shuffled, half = rows.repartition(2), F.udf(halved, "long")
    rows.write.parquet(str(tmp_path / "rows"))
    files = spark.read.parquet(str(tmp_path / "rows"))
    assert deterministic(files.filter(F.col("id") > 3)) == rows.columns
    assert deterministic(shuffled.withColumn("h", half("id"))) == rows.columns
    assert deterministic(shuffled.withColumn("h", half("id")), half) == [*rows.columns, "h"]
    assert deterministic(shuffled.withColumn("h", half("id")), "h") == [*rows.columns, "h"]
    computed = shuffled.withColumn("h", F.upper("key"))
    assert deterministic(computed.filter(F.col("h") > "a")) == [*rows.columns, "h"]
    assert deterministic(shuffled.select("id", F.explode(F.array("id", "v")).alias("e"))) == ["id", "e"]
    other = files.select("id", F.col("v").alias("w"))
    assert deterministic(shuffled.join(other, "id").select("id", "w")) == ["id", "w"]
    by_frames = shuffled.join(other, shuffled["id"] == other["id"])
    assert deterministic(by_frames.drop(other["id"])) == [*rows.columns, "w"]
    assert deterministic(by_frames.select(shuffled["*"], "w")) == [*rows.columns, "w"]
    assert deterministic(rows.union(shuffled).withColumnRenamed("v", "z")) == ["key", "id", "z"]


def test_what_only_the_server_knows_does_not_count(spark, rows):
    shuffled = rows.repartition(2)
    shuffled.createOrReplaceTempView("of_rows")
    drawn = shuffled.withColumn("r", F.rand())
    for unknown in (
        spark.table("of_rows"),
        spark.sql("select * from of_rows"),
        shuffled.withColumn("h", F.expr("id + 1")),
        shuffled.filter("id > 3"),
        shuffled.alias("t").filter(F.col("t.id") > 3),
        shuffled.groupBy("key").count(),
        shuffled.distinct(),
        shuffled.limit(3),
        shuffled.sample(0.5, seed=1),
        rows.randomSplit([0.5, 0.5], seed=1)[0],
        shuffled.mapInPandas(unchanged, rows.schema),
        drawn.select("r", "id").sort(F.lit(1)),
        drawn.select("id", F.expr("explode(sequence(0, cast(r * 9 as int)))")),
    ):
        assert deterministic(unknown) is None
        with pytest.raises(
            ValueError, match=r"^row_id must be given: df may have different rows .* kss.plan"
        ):
            identity.Query(unknown).identity  # noqa: B018  it is worked out when it is asked for
    assert deterministic(drawn.union(drawn)) == []
    collated = shuffled.withColumn("c", F.collate("key", "utf8_lcase"))
    assert deterministic(collated) is None


def test_a_sample_is_not_read_twice(rows):
    assert identity.Query(rows).why_unrepeatable(["id"]) is None
    assert (
        identity.Query(rows.sample(0.5)).why_unrepeatable(["id"]).startswith("a limit, an offset or a samp")
    )
