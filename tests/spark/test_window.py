"""Windows split by ranges of their order have the rows and types of Spark's own."""

import re

import pytest
from frames import same_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from orders import ORDERS, drawn_frame, drawn_sorts
from pyspark.sql import Window
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit.spark.ordered import split, unordered

WORKERS = 5
FIRST, LAST, NOW = Window.unboundedPreceding, Window.unboundedFollowing, Window.currentRow
SUMS = (F.sum, F.count, F.min, F.max, F.avg)


@pytest.fixture(scope="module")
def rows(spark):
    """Four fifths of the rows have key 0, few have null; `o` is another one in each row, `x` is not."""
    at = F.col("id")
    key = F.when(at % 5 > 0, 0).when(at % 45 == 0, None).otherwise(at % 7)
    return spark.range(900, numPartitions=3).select(
        "id",
        key.cast("int").alias("k"),
        (at * 7919 % 1009).alias("o"),
        F.when(at % 11 != 3, at * 31 % 90).cast("double").alias("x"),
        (at * 17 % 13).cast("decimal(10,2)").alias("d"),
    )


def named(columns):
    return [column.alias(f"w{at}") for at, column in enumerate(columns)]


def assert_same(df, *columns, way="place", begins=r"place: .* ranges? of the order", **arguments):
    columns = named(columns)
    found = kss.window(df, *columns, way=way, **({"workers": WORKERS} | arguments))
    assert re.match(begins, kss.explain(found))
    assert same_rows(found, df.select("*", *columns))
    return found


def over_all(function, window):
    """A function over each frame that has an end without a bound."""
    frames = [window, *(window.rowsBetween(*ends) for ends in ((FIRST, NOW), (NOW, LAST), (FIRST, LAST)))]
    return [function.over(frame) for frame in frames]


@pytest.mark.versions
def test_ranks(rows):
    w = Window.partitionBy("k").orderBy(F.desc("o"))
    found = assert_same(
        rows,
        *(each.over(w) for each in (F.row_number(), F.rank(), F.dense_rank(), F.percent_rank())),
        *(each.over(w) for each in (F.cume_dist(), F.ntile(7), F.ntile(2000))),
    )
    assert kss.explain(found) == "place: 1 key is split into 5 ranges of the order"


@pytest.mark.versions
def test_no_task_has_the_hot_key_alone(rows):
    w = Window.partitionBy("k").orderBy("o")
    found = kss.window(rows, F.row_number().over(w), workers=WORKERS, way="place")
    counts = found.filter("k = 0").groupBy(F.spark_partition_id()).count().collect()
    assert len(counts) == WORKERS
    assert max(row["count"] for row in counts) < 240
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert len(re.findall(r"(?<!\w)Exchange ", plan)) == 1


def test_rows_of_equal_order(rows):
    w = Window.partitionBy("k").orderBy("x")
    frames = [w, w.rangeBetween(NOW, LAST), w.rangeBetween(NOW, NOW), w.rangeBetween(FIRST, LAST)]
    assert_same(
        rows,
        *(each.over(w) for each in (F.rank(), F.dense_rank(), F.percent_rank(), F.cume_dist())),
        *(function(name).over(frame) for function in SUMS for name in ("id", "x") for frame in frames[:3]),
        F.max("x").over(frames[3]),
    )


@pytest.mark.parametrize("name", ["id", "x", "d"])
def test_sums(rows, name):
    w = Window.partitionBy("k").orderBy("o")
    functions = SUMS if name != "d" else SUMS[:-1]
    assert_same(rows, *(each for function in functions for each in over_all(function(name), w)))


def test_ends(rows):
    w = Window.partitionBy("k").orderBy("o")
    columns = [each for function in (F.first, F.last) for each in over_all(function("x"), w)]
    numbers = (1, 3, 400, 743, 744)
    columns += [F.nth_value("id", n).over(f) for n in numbers for f in (w, w.rowsBetween(FIRST, LAST))]
    assert_same(rows, *columns)


@pytest.mark.versions
def test_frames_of_rows(rows):
    w = Window.partitionBy("k").orderBy("o")
    near = w.rowsBetween(-10, 10)
    assert_same(
        rows,
        F.lag("id").over(w),
        F.lead("x", 3, -1.0).over(w),
        F.col("o") - F.lag("o", 2).over(w),
        *(function("x").over(near) for function in (*SUMS, F.stddev, F.collect_list)),
        F.first("x", ignorenulls=True).over(w.rowsBetween(-1, 2)),
        F.sum("id").over(w.rowsBetween(2, 4)),
        F.sum("id").over(w.rowsBetween(-4, -2)),
        F.row_number().over(w),
        F.rank().over(w),
        *over_all(F.sum("id"), w),
        *over_all(F.first("id"), w),
    )


def test_a_text_of_sql(rows):
    assert_same(rows, F.expr("lag(id, -2, o) OVER (PARTITION BY k ORDER BY o)"))


@pytest.mark.versions
def test_what_ignores_nulls(rows):
    w = Window.partitionBy("k").orderBy("o")
    df = rows.select(
        "*",
        F.when(F.col("id") % 211 == 7, F.struct("id", "d")).alias("few"),
        F.when(F.col("id") < 0, F.lit("")).alias("never"),
    )
    sought = [F.last("few", True).over(w), F.first("x", True).over(w.rowsBetween(NOW, LAST))]
    sought += [F.expr(f"lag(few, 2) IGNORE NULLS OVER {W})"), F.expr(f"lead(x, 3, 9) IGNORE NULLS OVER {W})")]
    sought += [F.last("never", True).over(w), F.expr(f"lag(x, -1) IGNORE NULLS OVER {W})")]
    assert_same(df, *sought)
    assert_same(df, F.last("few", True).over(w))
    ends = [
        each
        for function in (F.first, F.last)
        for name in ("few", "x", "never")
        for each in over_all(function(name, True), w)
    ]
    assert_same(df, *ends, F.first("x").over(w), F.row_number().over(w), F.sum("id").over(w))


def test_few_rows_are_copied_where_nulls_are_ignored(rows):
    """One row of the hot key has a value: each later range gets a copy, and no other row."""
    w = Window.partitionBy("k").orderBy("o")
    df = rows.withColumn("one", F.when(F.col("id") == 1, F.struct("id")))
    found = assert_same(df, F.last("one", True).over(w.rowsBetween(FIRST, NOW)))
    counts = found.filter("k = 0").groupBy(F.spark_partition_id()).count().collect()
    assert len(counts) == WORKERS


def test_frames_longer_than_a_range(rows):
    w = Window.partitionBy("k").orderBy("o")
    columns = [F.lag("id", 500).over(w), F.sum("id").over(w.rowsBetween(-300, 310)), F.sum("id").over(w)]
    assert_same(rows, *columns)
    # one more worker has the cost of a copy of each row, and gains nothing
    plan = kss.plan(rows, "k", WORKERS)
    found = kss.window(rows, *named(columns), plan=plan)
    assert "task" in kss.explain(found) or "splitting would copy" in kss.explain(found)


def test_one_answer_for_rows_of_equal_order(rows):
    """Neighbours see each other, also where a range ends and their order is equal."""
    w = Window.partitionBy("k").orderBy("d")
    found = kss.window(
        rows.withColumn("even", F.when(F.col("id") % 2 == 0, F.col("id"))),
        F.row_number().over(w).alias("n"),
        F.lag("id").over(w).alias("before"),
        F.lead("id").over(w).alias("after"),
        F.first("id").over(w).alias("first"),
        F.last("even", True).over(w).alias("last"),
        workers=WORKERS,
        way="place",
    )
    for key in (0, 3):
        chain = found.filter(F.col("k") == key).orderBy("n").collect()
        ids = [row.id for row in chain]
        assert [row.n for row in chain] == list(range(1, len(chain) + 1))
        assert [row.before for row in chain] == [None, *ids[:-1]]
        assert [row.after for row in chain] == [*ids[1:], None]
        assert {row.first for row in chain} == {ids[0]}
        evens = [[r.id for r in chain if r.d <= row.d and r.id % 2 == 0] for row in chain]
        assert [row.last for row in chain] == [each[-1] if each else None for each in evens]


@pytest.mark.versions
def test_without_partitions(rows):
    w = Window.orderBy("o")
    assert_same(rows, F.row_number().over(w), F.lag("id").over(w), F.sum("id").over(w))
    with pytest.raises(ValueError, match=r"^plan must be None for windows without partitionBy"):
        kss.window(rows, F.row_number().over(w), plan=kss.plan(rows, "k", WORKERS), way="place")


@pytest.mark.versions
def test_without_an_order(rows):
    w = Window.partitionBy("k")
    columns = [function(name).over(w) for function in SUMS for name in ("id", "x")]
    assert_same(rows, *columns, F.count("*").over(w), begins="place: results of 1 hot key are")


def test_arithmetic_and_several_windows(rows):
    w, whole = Window.partitionBy("k").orderBy("o"), Window.partitionBy("k")
    other = Window.partitionBy(F.col("id") % 3).orderBy("o")
    columns = [
        (F.sum(F.col("id") + 1).over(w) / F.sum("id").over(whole)).alias("share"),
        F.row_number().over(other),
        F.col("x") * 2,
        F.max("x").over(Window.partitionBy(F.col("k") + 0).orderBy(F.col("o") * 2)),
    ]
    found = assert_same(rows, *columns)
    assert kss.explain(found).endswith("; Spark then computes 2 functions of other windows")


def test_many_ranges(rows):
    """A search of many cuts is no expression that outgrows the driver."""
    w = Window.partitionBy("k").orderBy("o")
    assert_same(rows, F.row_number().over(w), workers=100)
    assert_same(rows, F.lag("id").over(w), F.sum("id").over(w), workers=100)


def test_no_hot_key_and_no_rows(rows):
    w = Window.partitionBy("id").orderBy("o")
    assert_same(rows, F.row_number().over(w), F.sum("x").over(w), F.lag("x").over(w))
    assert_same(rows.filter(F.col("k") > 100), F.row_number().over(w), F.lag("x").over(w))


def test_rows_of_one_order_value(rows):
    w = Window.partitionBy("k").orderBy(F.col("k") * 2)
    assert_same(rows, F.rank().over(w), F.sum("id").over(w), F.cume_dist().over(w))


def test_names_that_are_there_twice(rows):
    df = rows.select("k", "o", F.col("id").alias("a.b"), F.col("x").alias("W_slot"), F.col("d").alias("k2"))
    df = df.select("*", F.col("`a.b`").alias("K2"))
    w = Window.partitionBy(df["k"]).orderBy("o")
    assert_same(df, F.sum("`a.b`").over(w), F.lag(df["W_slot"]).over(w))


def test_columns_that_a_window_names_twice(rows):
    w = Window.partitionBy("k", "k").orderBy("o", F.desc("o"), "o")
    assert_same(rows, F.row_number().over(w), F.lag("id").over(w))


@pytest.mark.parametrize("name", ["w_hash", "w_hash_0", "text_0", "key_first", "worker"])
def test_an_order_with_a_name_of_ours(rows, name):
    df = rows.withColumnRenamed("o", name)
    assert_same(df, F.row_number().over(Window.partitionBy("k").orderBy(name)))


@pytest.mark.parametrize("type_", ["string", "binary"])
def test_long_order_values_are_left_to_spark(rows, type_):
    w = Window.partitionBy("k").orderBy("o")
    for length in (1000, 1001):
        df = rows.withColumn("o", F.lpad(F.col("o").cast("string"), length, "0").cast(type_))
        if length == 1000:
            assert_same(df, F.row_number().over(w))
            continue
        with pytest.raises(ValueError, match=r"an order column has values of more than 1,000 bytes$"):
            kss.window(df, F.row_number().over(w), workers=WORKERS, way="place")


def test_a_column_of_df_is_one_of_the_result(rows):
    w = Window.partitionBy("k").orderBy("o")
    found = kss.window(rows, F.row_number().over(w).alias("n"), workers=WORKERS, way="place")
    assert found.select(rows["id"], "n").filter(rows["k"] == 0).count() == 743
    again = kss.window(found, F.sum("n").over(w).alias("m"), workers=WORKERS, way="plain")
    assert again.filter("k = 0").agg(F.max("m")).first()[0] == 743 * 744 // 2


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.parametrize("name", ORDERS)
def test_orders_of_all_types(spark, name, data):
    df = drawn_frame(spark, name, data)
    by_value = Window.partitionBy("k").orderBy(drawn_sorts("o", data))
    by_row = by_value.partitionBy("k").orderBy(drawn_sorts("o", data), F.desc("id"))
    if data.draw(st.booleans()):
        columns = [F.rank().over(by_value), F.dense_rank().over(by_value), F.cume_dist().over(by_value)]
        columns += [F.sum("d").over(by_value), F.sum("id").over(by_value.rangeBetween(NOW, LAST))]
        columns += [F.percent_rank().over(by_value), F.max("id").over(by_value.rangeBetween(FIRST, LAST))]
    else:
        columns = [F.row_number().over(by_row), F.lag("o").over(by_row), F.first("o").over(by_row)]
        columns += [F.lead("d", 2).over(by_row), F.sum("d").over(by_row.rowsBetween(NOW, LAST))]
        columns += [
            F.count("o").over(by_row.rowsBetween(-2, 3)),
            F.last("o").over(by_row.rowsBetween(NOW, LAST)),
        ]
    assert_same(df, *columns, workers=data.draw(st.integers(2, 6)))


def by_order():
    return Window.partitionBy("k").orderBy("o")


W = "(PARTITION BY k ORDER BY o"
WHOLE = {
    f"sum(x) OVER {W} RANGE 3 PRECEDING)": "the frame of sum is a RANGE with an offset",
    f"sum(x) OVER {W} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)": "the frame of sum(`x`) is bounded",
    f"collect_list(x) OVER {W})": "collect_list over an unbounded frame cannot be combined from",
    f"stddev_samp(x) OVER {W})": "stddev_samp over an unbounded frame cannot be combined from",
    f"avg(d) OVER {W})": "avg(`d`) returns decimal(14,6), which keysplit cannot",
    f"nth_value(x, 2) IGNORE NULLS OVER {W})": "nth_value(`x`, 2) ignores nulls",
    f"nth_value(x, 2) OVER {W} ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING) + first(x) OVER {W} "
    "ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING)": "the frame of first(`x`) is bounded on one side",
    f"nth_value(x, 2) OVER {W} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)": "the frame of nth",
    f"sum(x) FILTER (WHERE x > 3) OVER {W})": "sum(",
    "first(x) OVER (PARTITION BY k)": "first(`x`) depends on an order, and its window has none",
    "count(x) OVER (PARTITION BY k ORDER BY array(o))": "order columns of type array<bigint> cannot be cut",
    "o + 1": "columns have no window function",
}


@pytest.mark.parametrize("sql", WHOLE)
def test_what_cannot_be_split(rows, sql):
    if "FILTER" in sql and rows.sparkSession.version < "4.2":
        pytest.skip("no filters in windows before Spark 4.2")
    reason = re.escape(WHOLE[sql])
    with pytest.raises(ValueError, match=rf"^way must be 'plain' or None here, got 'place': {reason}"):
        kss.window(rows, F.expr(sql), workers=WORKERS, way="place")
    if not sql.startswith("count"):  # types are looked at once there is a plan
        found = kss.window(rows, F.expr(sql).alias("w"), workers=WORKERS)
        assert re.match(f"plain: {reason}", kss.explain(found))


def test_python_is_left_to_spark(rows):
    total = F.udf(lambda value: value, "long")
    column = F.sum(total("id")).over(by_order())
    found = kss.window(rows, column, workers=WORKERS)
    assert kss.explain(found).startswith("plain: ")
    with pytest.raises(ValueError, match=r"^way must be 'plain' or None here, got 'place': df is read twice"):
        kss.window(rows, column, workers=WORKERS, way="place")


def test_keys_by_chance_are_left_to_spark(rows):
    df = rows.withColumn("k", F.when(F.rand() < 0.5, 0).otherwise(1))
    with pytest.raises(ValueError, match="got 'place': df is read twice, and its rows or values may differ"):
        kss.window(df, F.row_number().over(by_order()), workers=WORKERS, way="place")


def test_sums_that_may_overflow(spark):
    df = spark.range(200).select(F.lit(0).alias("k"), F.col("id").alias("o"), F.lit(2**60).alias("x"))
    for type_ in ("bigint", "decimal(38,18)"):
        big = df.withColumn("x", F.col("x").cast(type_))
        with pytest.raises(ValueError, match=r"got 'place': the sum of `x` may overflow$"):
            kss.window(big, F.sum("x").over(by_order()), workers=WORKERS, way="place")


def test_another_key_with_the_hash_of_a_hot_key(rows, monkeypatch):
    """It is found also where no part of the order has rows of both keys."""
    plan_hash = split.plan_hash

    def colliding(request):
        hot = F.lit(request.plan.split_keys[0].hash)
        return F.when(F.col("k").isin(0, 3), hot).otherwise(plan_hash(request))

    monkeypatch.setattr(split, "plan_hash", colliding)
    df = rows.withColumn("k", F.when(F.col("id") % 5 > 1, 0).otherwise(3))
    for order in ("o", "k"):
        w = Window.partitionBy("k").orderBy(order)
        with pytest.raises(ValueError, match=r"'place': a hot key has the same hash as another key$"):
            kss.window(df, F.rank().over(w), F.sum("id").over(w), workers=WORKERS, way="place")
    w = Window.partitionBy("k")
    monkeypatch.setattr(unordered, "plan_hash", colliding)
    assert_same(df, F.sum("id").over(w), F.max("o").over(w), begins="place: results of 2 hot keys are")


def test_few_slots_are_plain(rows):
    found = kss.window(rows, F.row_number().over(by_order()), workers=WORKERS)
    assert kss.explain(found).startswith("plain: splitting would gain too little")
    plain = kss.window(rows, F.row_number().over(by_order()), way="plain")
    assert kss.explain(plain) == "plain: as way='plain' requires"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"workers": 0}, ValueError, "workers must be in 1..=65536, got 0"),
        ({"workers": None}, ValueError, "workers must be given without a plan"),
        ({"plan": "a.json"}, TypeError, "plan must be a Plan that kss.plan made, got str"),
        ({"way": "broadcast"}, ValueError, "way must be 'plain', 'place' or None, got 'broadcast'"),
    ],
)
def test_wrong_arguments_are_refused(rows, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kss.window(rows, F.row_number().over(by_order()), **({"workers": 3} | arguments))


def test_wrong_columns_are_refused(rows):
    with pytest.raises(
        TypeError, match=r"^columns must be Columns such as F\.row_number\(\)\.over\(w\), got str$"
    ):
        kss.window(rows, "id", workers=3)
    with pytest.raises(ValueError, match=r"^columns must contain at least one column"):
        kss.window(rows, workers=3)
    with pytest.raises(TypeError, match=r"^df must be a Spark DataFrame, got int$"):
        kss.window(7, F.row_number().over(by_order()), workers=3)


def test_a_window_that_would_spill_is_split_on_few_slots(rows, monkeypatch):
    w = by_order()
    for room, begins in (
        (1e9, "plain: splitting would gain too little"),
        (1e3, "place: 1 key is split into"),
    ):
        monkeypatch.setattr("keysplit.spark.ordered.window.memory", lambda df, room=room: int(room))
        found = kss.window(rows, F.row_number().over(w).alias("n"), F.dense_rank().over(w), workers=WORKERS)
        assert kss.explain(found).startswith(begins)
    assert re.search(r"; Spark's own window would sort about \d+ MB in 0 MB of memory$", kss.explain(found))


@pytest.mark.parametrize("function", ["row_number()", "lag(id)"])
def test_results_need_not_be_selected(rows, function):
    """Spark then drops the windows, and may push filters down to the search of ranges."""
    found = kss.window(
        rows, F.expr(f"{function} OVER (PARTITION BY k ORDER BY o)").alias("w"), workers=40, way="place"
    )
    assert found.count() == 900
    assert same_rows(found.select("id", "k"), rows.select("id", "k"))
    assert found.filter("k = 0").select("id").count() == rows.filter("k = 0").count()
