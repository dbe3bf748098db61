"""`kss.window` on Spark Connect, run by a client of the server at $KEYSPLIT_CONNECT."""

import os
import re

import pytest
import test_asof
import test_window
from frames import KEYS, same_rows, skewed
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T
from test_window import FIRST, LAST, NOW, WORKERS, assert_same, over_all

from keysplit import spark as kss
from keysplit.spark.ordered import connect

# The cases of classic sessions that run here, too.
SHARED = (
    *("ranks", "rows_of_equal_order", "sums", "ends", "frames_of_rows"),
    *("one_answer_for_rows_of_equal_order", "without_partitions", "without_an_order"),
    *("arithmetic_and_several_windows", "no_hot_key_and_no_rows", "names_that_are_there_twice"),
    *("a_column_of_df_is_one_of_the_result", "python_is_left_to_spark", "keys_by_chance_are_left_to_spark"),
    "few_rows_are_copied_where_nulls_are_ignored",
    *("sums_that_may_overflow", "wrong_arguments_are_refused", "wrong_columns_are_refused"),
)
rows, sides = test_window.rows, test_asof.sides
globals().update({f"test_{name}": getattr(test_window, f"test_{name}") for name in SHARED})


@pytest.fixture(scope="module")
def spark():
    session = SparkSession.builder.remote(os.environ["KEYSPLIT_CONNECT"]).getOrCreate()
    yield session
    session.stop()


def by_order():
    return Window.partitionBy("k").orderBy("o")


def test_values_of_all_types(spark):
    """Single values of other ranges come to the client and go back to the server."""
    names = [name for name in KEYS if name not in ("array", "struct")]
    fields = [T.StructField(name, KEYS[name][0]) for name in names]
    schema = T.StructType([*(T.StructField(name, T.IntegerType()) for name in "ko"), *fields])
    columns = [skewed(KEYS[name][1], 60) for name in names]
    values = [(at % 9 // 8, at, *each) for at, each in enumerate(zip(*columns, strict=True))]
    df = spark.createDataFrame(values, schema)
    assert_same(df, *(each for name in names for each in over_all(F.last(name), by_order())[2:]))
    arrays = df.withColumn("a", F.array("o"))
    with pytest.raises(ValueError, match=r": values of type array<int> cannot be kept exactly on Spark Conn"):
        kss.window(arrays, F.last("a").over(by_order().rowsBetween(NOW, LAST)), workers=WORKERS, way="place")


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_asof_join(sides, monkeypatch, direction):
    found = []
    for slots, way in ((1, "plain"), (64, "plain" if direction == "nearest" else "place")):
        monkeypatch.setattr("keysplit.spark.ordered.window.slots_of", lambda df, slots=slots: slots)
        found.append(kss.asof_join(*sides, "o", "k", direction=direction, workers=WORKERS))
        assert kss.explain(found[-1]).startswith(f"{way}: ")
    assert same_rows(*found)


def test_what_the_client_keeps_is_exact(spark):
    # both hours of a change of clocks, the first and last years, bytes that are no text
    micros = (1729989000000000, 1729992600000000, -62135596800000000 + 7, 253402300799999999, -5)
    df = spark.createDataFrame([(at,) for at in micros], "m long").selectExpr(
        "timestamp_micros(m) AS t",
        "CAST(timestamp_micros(m) AS TIMESTAMP_NTZ) AS n",
        "date_from_unix_date(CAST(m / 86400000000 AS INT)) AS d",
        "make_dt_interval(0, 0, 0, m / 1000000.0BD) AS i",
        "CAST(m AS DECIMAL(38, 18)) AS c",
        "CAST(if(m % 2 = 0, 'NaN', '-0.0') AS DOUBLE) AS f",
        "CAST(X'FF41' AS STRING) AS s",
    )
    kept = connect.frozen(df)
    shown = ["hex(CAST(s AS BINARY))", "unix_micros(t)", "unix_date(d)", "CAST(n AS STRING)", "c", "i", "f"]
    assert kept.schema == df.schema
    assert same_rows(kept.selectExpr(*shown), df.selectExpr(*shown))
    assert connect.frozen(df.filter("false")).schema == df.schema


def test_columns_without_names_and_of_each_other(rows):
    w = by_order()
    df = rows.withColumn("s", F.struct("x", F.col("id").alias("n")))
    columns = [
        F.row_number().over(w).alias("n"),
        F.col("n") * 2,
        F.col("o") - F.lag("s.n", 1, F.col("K")).over(w),
        F.when(df["x"] > 3, F.sum(df["x"]).over(w)).otherwise(F.col("s.n")).cast("string"),
        F.lead("s.n").over(w).isNull() | ~(F.col("s")["x"] > 5),
        F.coalesce(F.lit(None), F.rank().over(w)).alias("r", metadata={"a": 1}),
    ]
    found = kss.window(df, *columns, workers=WORKERS, way="place")
    expected = df.select("*", *columns)
    assert found.columns == expected.columns
    assert found.schema["r"].metadata == {"a": 1}
    assert same_rows(found, expected)


def test_columns_of_both_sides_of_a_join(spark, rows):
    other = spark.range(9).withColumnRenamed("id", "k")
    df = rows.join(other, rows["k"] == other["k"])
    w = Window.partitionBy(other["k"]).orderBy(rows["o"])
    assert_same(df, F.rank().over(w), rows["k"] + F.sum(rows["id"]).over(w))


def test_files_are_read_twice_and_tables_are_not(spark, rows, tmp_path):
    rows.write.parquet(str(tmp_path / "rows"))
    df = spark.read.parquet(str(tmp_path / "rows"))
    assert_same(df, F.row_number().over(by_order()))
    df.createOrReplaceTempView("of_windows")
    reason = "df is read twice, and its rows or values may differ the second time: a table or view, of which"
    with pytest.raises(ValueError, match=f"got 'place': {reason}"):
        kss.window(spark.table("of_windows"), F.rank().over(by_order()), workers=WORKERS, way="place")


def test_one_request_reads_the_windows(monkeypatch, rows):
    rank, asked = F.rank().over(by_order()), []
    columns = [rank, rank + F.rank().over(by_order()), F.sum(F.col("id") + 1).over(by_order())]
    plain = rows.select("*", *columns)
    assert plain.columns
    analyse = type(rows.sparkSession.client)._analyze
    monkeypatch.setattr(
        type(rows.sparkSession.client),
        "_analyze",
        lambda *args, **kwargs: asked.append(args) or analyse(*args, **kwargs),
    )
    windows = connect.read(rows, plain)
    assert [call.name for call in windows.calls] == ["rank()", "sum(`wargument0`)"]
    assert len(asked) == 1


def whole():
    """Return columns that are left to Spark, and why."""
    w, x = by_order(), F.col("x")
    text = "a column has an SQL string (F.expr), which only the Spark Connect server can parse"
    unknown = "which keysplit does not support on"
    return {
        "text": (F.expr("rank() OVER (PARTITION BY k ORDER BY o)"), text),
        "text next to a window": (F.expr("id + 1") + F.rank().over(w), text),
        "function": (F.rand() + F.rank().over(w), f"a column uses the function rand, {unknown}"),
        "python": (
            F.udf(lambda value: value, "int")(F.rank().over(w)),
            f"a column uses the expression common_inline_user_defined_function, {unknown}",
        ),
        "called": (
            F.call_function("sum", x).over(w),
            f"a column uses the expression call_function, {unknown}",
        ),
        "star": (F.struct("*", F.rank().over(w)), f"a column uses the expression unresolved_star, {unknown}"),
        "generator": (F.explode(F.array("id")), "a column uses the function explode"),
        "range": (F.sum("x").over(w.rangeBetween(-3, NOW)), "the frame of sum is a RANGE with an offset"),
        "one side": (F.sum("x").over(w.rowsBetween(FIRST, -1)), "the frame of sum(`x`) is bounded on one"),
        "lists": (F.collect_list("x").over(w), "collect_list over an unbounded frame cannot be combined"),
        "nulls": (F.nth_value("x", 2, ignoreNulls=True).over(w), "nth_value(`x`, 2) ignores nulls"),
        "average": (F.avg("d").over(w), "avg(`d`) returns decimal(14,6), which keysplit"),
        "no order": (F.first("x").over(Window.partitionBy("k")), "first(`x`) depends on an order, and its"),
        "unknown": (F.any_value("x").over(w), "kss.window cannot split any_value: it is a UDF, has"),
        "literals": (
            F.percentile_approx("x", [0.5, 0.9]).over(w.rowsBetween(-2, 2)),
            "Spark cannot analyse the window functions without the other columns",
        ),
        "none": (x + 1, "columns have no window function over the rows of df"),
    }


def test_what_cannot_be_split(rows):
    for name, (column, reason) in whole().items():
        with pytest.raises(ValueError, match=r"^way must be") as error:
            kss.window(rows, column, workers=WORKERS, way="place")
        assert f" here, got 'place': {reason}" in str(error.value), name
    found = kss.window(rows, F.rand() + F.rank().over(by_order()), workers=WORKERS)
    assert re.match("plain: a column uses the function rand, which keysplit does not", kss.explain(found))


def test_the_order_of_a_plan(spark, rows, tmp_path, monkeypatch):
    odd = rows.withColumnRenamed("o", "a.b").withColumnRenamed("x", "X x")
    for order, text in (
        ("A.B", "a.b bigint ASC NULLS FIRST"),
        ([F.col("`a.b`").desc_nulls_first(), "X x"], "a.b bigint DESC NULLS FIRST, X x double ASC"),
        (odd["X x"].asc_nulls_last(), "X x double ASC NULLS LAST"),
    ):
        assert kss.plan(odd, "k", WORKERS, order_by=order).order.text.startswith(text)
    for other in (F.col("o") * 2, F.col("none"), "none", F.array("id")):
        with pytest.raises(ValueError, match=r"^order_by must name "):
            kss.plan(rows, "k", WORKERS, order_by=other)
    plan = kss.plan(rows, "k", WORKERS, order_by=[F.desc("o"), "id"])
    monkeypatch.setattr("keysplit.spark.ordered.cuts.sampled", None)  # the plan has cuts
    w = Window.partitionBy("k").orderBy(F.desc("o"), "id")
    assert_same(rows, F.row_number().over(w), F.lag("id", 2).over(w), plan=plan, workers=None)
    writer = kss.write(rows, "k", plan=plan, sort_by=[rows["o"].desc(), "id"], way="place")
    assert kss.explain(writer) == f"place: 1 key is split over {WORKERS} workers by ranges of o, id"
    writer.parquet(str(tmp_path / "out"))
    ends = (
        spark.read.parquet(str(tmp_path / "out")).filter("k = 0").groupBy(F.input_file_name().alias("file"))
    )
    ends = sorted(
        (row.least, row.most)
        for row in ends.agg(F.min("o").alias("least"), F.max("o").alias("most")).collect()
    )
    assert len(ends) == WORKERS
    assert [end for pair in ends for end in pair] == sorted(end for pair in ends for end in pair)
