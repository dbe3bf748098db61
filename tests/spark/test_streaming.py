"""A plan routes a stream, and an aggregation whose state is spread equals groupBy(window, key).agg(...)."""

import datetime as dt
import json
import os
import time
from decimal import Decimal
from functools import partial

import pandas as pd
import pytest
from frames import KEYS, USUAL, frame, skewed
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit.spark.streaming.slots import slot

WORKERS = 4
spread = partial(kss.streaming.aggregate, split_state=True)
SCHEMA = "at timestamp, key string, v bigint, d decimal(30,4), s string"
START = dt.datetime(2024, 3, 30, 22, tzinfo=dt.UTC)  # the clocks of Berlin go forward in it
AGGREGATES = [
    "sum(v)",
    "sum(d) as total",
    "sum(v * 0.5d)",
    "count(*)",
    "count(v, d)",
    "count(v) filter (where v > 3)",
    "avg(v)",
    "avg(d)",
    "mean(d) filter (where v > 3) as average",
    "avg(v * 0.5d) filter (where v > 1000)",
    "min(s)",
    "max(struct(*)) as greatest",
    "count_if(v > 0)",
    "bool_and(v > 0)",
    "some(d > 0)",
    "bit_and(v)",
    "bit_or(v)",
    "bit_xor(v)",
    "collect_list(v)",
    "collect_set(s)",
    "sum(make_dt_interval(v)) as days",
    "avg(make_dt_interval(v)) as day",
]


def hour(number):
    """Return the rows of an hour: half of them of one key."""
    keys = skewed(["hot", None, "a", "b", "c", "d", "e"], 120)
    return [
        {
            "at": (START + dt.timedelta(hours=number, seconds=30 * i)).isoformat(),
            "key": key,
            "v": None if i % 7 == 3 else i * 37 % 101 - 20 + number,
            "d": None if i % 5 == 4 else f"{i * 1234567890123 % 97}.{i % 9999:04}",
            "s": None if i % 11 == 0 else f"s{i % 6}",
        }
        for i, key in enumerate(keys)
    ]


class Folder:
    """A folder that rows arrive in, a file at a time."""

    def __init__(self, spark, path):
        self.spark, self.path = spark, path
        path.mkdir()

    def add(self, rows):
        name = self.path / f"{len(list(self.path.iterdir()))}.json"
        name.write_text("".join(json.dumps(row) + "\n" for row in rows))
        # a stream takes files by their times
        second = time.time() - 1000 + len(list(self.path.iterdir()))
        os.utime(name, (second, second))

    def flush(self):
        """Add a row so late that the watermark passes all others; its own window stays open."""
        self.add([{**hour(0)[0], "at": "2030-01-01T00:00:00Z"}])

    def batch(self):
        rows = self.spark.read.schema(SCHEMA).json(str(self.path))
        return rows.filter("at < '2029-01-01'")

    def stream(self, watermark="10 minutes"):
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        rows = reader.json(str(self.path))
        return rows.withWatermark("at", watermark) if watermark else rows


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    folder = Folder(spark, tmp_path_factory.mktemp("stream") / "in")
    for number in range(3):
        folder.add(hour(number))
    folder.flush()
    return folder


@pytest.fixture(scope="module")
def plan(folder):
    plan = kss.plan(folder.batch(), "key", WORKERS, "w_choices")
    assert {each.key: len(each.workers) for each in plan.head}["hot",] == WORKERS
    return plan


@pytest.fixture(scope="module")
def hours(folder):
    """The rows of all hours, without a file."""
    return folder.batch().cache()


def columns():
    return [F.expr(sql) for sql in AGGREGATES]


def window():
    return F.window("at", "30 minutes")


def rows_of(df):
    """Return the rows in one order, and the collected lists in them, too."""
    return sorted(
        repr([sorted(cell, key=repr) if isinstance(cell, list) else cell for cell in row])
        for row in df.collect()
    )


def same(left, right):
    return left.schema == right.schema and rows_of(left) == rows_of(right)


def run(result, path):
    """Run a query on all files that are there, and return what it has written."""
    query = (
        result.writeStream.format("parquet")
        .option("path", str(path / "out"))
        .option("checkpointLocation", str(path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return result.sparkSession.read.schema(result.schema).parquet(str(path / "out"))


@pytest.mark.parametrize("engine", ["columns", "rust"])
def test_a_batch_equals_groupby(hours, plan, engine):
    result = spread(hours, "key", *columns(), window=window(), plan=plan, engine=engine)
    plain = hours.groupBy(window(), "key").agg(*columns())
    assert plain.count() > 6 * 6
    assert same(result, plain)


def test_a_stream_equals_a_batch(folder, plan, tmp_path):
    result = spread(folder.stream(), "key", *columns(), window=window(), plan=plan)
    plain = folder.batch().groupBy(window(), "key").agg(*columns())
    written = run(result, tmp_path)
    assert written.columns == plain.columns
    assert rows_of(written) == rows_of(plain)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"capacities": [float("nan")]}, "capacities must"),
        ({"capacities": "x"}, "capacities must"),
        ({"seed": "x"}, "seed must"),
        ({"seed": -1}, "seed must"),
        ({"workers": 0}, "workers must"),
    ],
)
def test_an_aggregation_that_is_left_to_spark_checks_its_arguments(folder, given, message):
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        kss.streaming.aggregate(folder.stream(), "key", F.count("*"), **given)


@pytest.mark.usefixtures("state_store")
def test_it_goes_on_after_a_restart_with_another_plan(spark, plan, tmp_path):
    folder = Folder(spark, tmp_path / "in")

    def result(plan):
        sums = [F.sum("v"), F.count("*"), F.avg("d"), F.collect_list("s")]
        return spread(folder.stream(), "key", *sums, window=F.window("at", "2 hours"), plan=plan)

    folder.add(hour(0))
    early = run(result(plan), tmp_path)
    assert early.count() == 0  # all of it is state
    folder.add(hour(1))
    folder.add(hour(3))
    folder.add(hour(4))
    # Their window has been written when they come: they are later than the watermark, and dropped.
    late = [{**hour(0)[0], "key": key, "v": 10_000} for key in ("hot", "late")]
    folder.add([*late, *hour(5)])
    folder.flush()
    other = kss.plan(folder.batch(), "key", 3, "round_robin")
    written = run(result(other), tmp_path)
    rows = folder.batch().filter("v is null or v < 10000")
    plain = rows.groupBy(F.window("at", "2 hours"), "key").agg(
        F.sum("v"), F.count("*"), F.avg("d"), F.collect_list("s")
    )
    assert rows_of(written) == rows_of(plain)
    # nothing is written twice when it starts once more
    assert rows_of(run(result(other), tmp_path)) == rows_of(plain)


def test_a_hot_key_fills_as_many_state_partitions_as_it_has_workers(spark, folder, plan, tmp_path, conf):
    if spark.version < "4":
        pytest.skip("this Spark cannot read its state")
    conf("spark.sql.shuffle.partitions", str(WORKERS))
    events = folder.stream(watermark="20 years")
    run(spread(events, "key", F.count("*"), window=window(), plan=plan), tmp_path)
    # nothing has been written yet: all is in the first step, which is operator 1
    states = spark.read.format("statestore").option("operatorId", 1).load(str(tmp_path / "checkpoint"))
    states = states.select("key.keysplit_window.start", "key.key", "partition_id")
    held = states.filter("start < '2029-01-01'").groupBy("start", "key")
    found = held.agg(F.collect_set("partition_id")).collect()
    routed = kss.route(folder.batch(), "key", plan=plan).groupBy(window().start.alias("start"), "key")
    expected = routed.agg(F.collect_set("worker")).collect()
    assert {(start, key): set(each) for start, key, each in found} == {
        (start, key): set(each) for start, key, each in expected
    }
    assert [len(each) for _, key, each in found if key == "hot"] == [WORKERS] * 6


@pytest.mark.parametrize("workers", [1, 7, 300])
def test_the_hash_of_a_slot_is_the_worker(spark, workers):
    df = spark.range(2000, numPartitions=2).select(
        F.when(F.col("id") % 3 > 0, F.col("id")).alias("a"),
        F.col("id").cast("string").alias("b"),
        (F.col("id") % workers).cast("int").alias("worker"),
    )
    slots = df.withColumn("slot", slot(F.hash("a", "b"), F.col("worker"), workers))
    assert slots.filter(F.hash("a", "b", "slot") == F.col("worker")).count() == 2000


@pytest.mark.parametrize("engine", ["columns", "rust"])
def test_a_stream_is_routed_as_a_batch(folder, plan, tmp_path, engine):
    # the identity that a stream takes by itself: floats and arrays stay out, and there are none
    routed = kss.route(folder.stream(), "key", plan=plan, engine=engine, worker_column="to")
    written = run(routed, tmp_path).filter("at < '2029-01-01'")
    assert rows_of(written) == rows_of(kss.route(folder.batch(), "key", plan=plan, worker_column="to"))
    assert written.filter("key = 'hot'").select("to").distinct().count() == WORKERS


@pytest.mark.parametrize("engine", ["columns", "rust"])
def test_a_stream_is_placed(folder, plan, tmp_path, engine):
    placed = kss.repartition(folder.stream(), "key", plan=plan, engine=engine)
    written = run(placed.withColumn("partition", F.spark_partition_id()), tmp_path)
    assert written.count() == 361
    assert written.filter("worker <> partition").count() == 0
    assert written.select("worker").distinct().count() == WORKERS


@pytest.mark.parametrize(
    "name", [name if name in USUAL else pytest.param(name, marks=pytest.mark.newest) for name in KEYS]
)
def test_keys_of_all_types(spark, name):
    type_, keys = KEYS[name]
    df = frame(spark, type_, skewed(keys, 60), partitions=2).withColumn("at", F.timestamp_seconds("v"))
    plan = kss.plan(df, "key", 3, "round_robin", seed=7)
    span = F.window("at", "40 seconds")
    result = spread(df, "key", F.sum("v"), F.avg("d"), window=span, plan=plan, row_id="s")
    # equal keys may have other bits: -0.0 and 0.0
    normal = [
        F.col("window"),
        (F.col("key") + 0.0).alias("key") if name in ("double", "float") else F.col("key"),
    ]
    plain = df.groupBy(span, "key").agg(F.sum("v"), F.avg("d"))
    values = ["`sum(v)`", "`avg(d)`"]
    assert same(result.select(*normal, *values), plain.select(*normal, *values))


def test_names_are_those_of_groupby(hours):
    df = hours.select(
        "at",
        F.struct("key", "v").alias("a"),
        F.struct(F.col("s").alias("key")).alias("b"),
        F.col("v").alias("slot"),
    ).withColumns({"worker": F.lit(1), "window": F.lit(2), "keysplit_window": F.lit(3), "key0": F.lit(4)})
    keys = ["a.key", "b.key", "`worker`", "key0"]
    plan = kss.plan(df, keys, WORKERS, "w_choices")
    span = F.window("at", "1 hour", "30 minutes").alias("span")
    sums = [F.sum("slot"), F.max("window").alias("window"), F.sum("slot"), F.count("keysplit_window")]
    result = spread(df, keys, *sums, window=span, plan=plan)
    plain = df.groupBy(span, *keys).agg(*sums)
    assert result.schema == plain.schema
    assert rows_of(result) == rows_of(plain)


def test_columns_bound_to_the_frame_are_found(hours, plan):
    span = F.window(hours.at, "1 hour")
    result = spread(hours, "key", F.sum(hours.v), F.avg(hours["d"]), window=span, plan=plan)
    assert same(result, hours.groupBy(span, "key").agg(F.sum(hours.v), F.avg(hours["d"])))


def test_the_time_itself_is_a_window(hours, plan):
    df = hours.withColumn("at", F.date_trunc("hour", "at"))
    result = spread(df, "key", F.count("*"), window=F.col("at"), plan=plan)
    assert same(result, df.groupBy("at", "key").agg(F.count("*")))


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("sql", ["sum(d)", "avg(d)", "sum(v)"])
def test_overflow_is_spark_s(spark, conf, sql, ansi):
    conf("spark.sql.ansi.enabled", ansi)
    df = spark.range(400, numPartitions=2).select(
        "id",
        F.timestamp_seconds(F.lit(0)).alias("at"),
        F.lit("k").alias("key"),
        # one worker's sum overflows, the others' do not
        F.when(F.col("id") < 12, F.lit(Decimal("9e37"))).otherwise(1).cast("decimal(38,0)").alias("d"),
        F.when(F.col("id") < 3, 2**62).otherwise(1).alias("v"),
        (F.col("id") < 12).alias("first"),
    )
    plan = kss.plan(df, "key", 4, "w_choices")
    span = F.window("at", "1 hour")
    result = spread(df, "key", F.expr(sql), window=span, plan=plan, row_id="first")
    if ansi == "true":
        with pytest.raises(Exception, match=r"(?i)overflow|out of range|cannot be represented"):
            result.collect()
    else:
        assert same(result, df.groupBy(span, "key").agg(F.expr(sql)))


def test_averages_of_long_decimals_round_as_spark_s(spark):
    df = spark.range(3000, numPartitions=2).select(
        F.timestamp_seconds(F.lit(0)).alias("at"),
        (F.col("id") % 7).alias("key"),
        (F.col("id") * F.expr("123456789012.345678901234567bd")).cast("decimal(38,18)").alias("long"),
        (F.col("id") * F.expr("987654321098765432109876543210bd")).cast("decimal(38,0)").alias("whole"),
        (F.col("id") % 3).cast("decimal(1,0)").alias("short"),
    )
    averages = [F.avg("long"), F.avg("whole"), F.avg("short")]
    plan = kss.plan(df, "key", 5, "round_robin")
    result = spread(df, "key", *averages, window=F.window("at", "1 hour"), plan=plan)
    assert same(result, df.groupBy(F.window("at", "1 hour"), "key").agg(*averages))


@pytest.mark.parametrize("watermark", [None, "another column"])
def test_a_stream_without_a_watermark_is_refused(folder, plan, watermark):
    events = folder.stream(watermark=None)
    if watermark:
        events = events.withColumn("seen", F.current_timestamp()).withWatermark("seen", "1 minute")
    with pytest.raises(
        ValueError, match="df must have a watermark on the time of the window with split_state=True"
    ):
        spread(events, "key", F.count("*"), window=window(), plan=plan)


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_other_output_modes_are_refused_by_spark(folder, plan, tmp_path, mode):
    result = spread(folder.stream(), "key", F.count("*"), window=window(), plan=plan)
    writer = result.writeStream.format("memory").queryName(f"refused_{mode}").outputMode(mode)
    with pytest.raises(AnalysisException, match=r"(?i)output mode|correctness"):
        writer.option("checkpointLocation", str(tmp_path)).start()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("sum(v) / count(v)", r"bare aggregates, got .*sum\(v\).*: combine them in a following select"),
        ("v + 1", r"bare aggregates, got "),
        (
            "count(distinct v)",
            r"columns must use these aggregates, without DISTINCT: avg, .*; got count\(DISTINCT v\)",
        ),
        ("approx_count_distinct(v)", r"columns must use .*; got approx_count_distinct\(v"),
        ("first(v)", r"columns must use .*; got first\(v\)"),
        ("try_sum(v)", r"columns must use .*; got try_sum\(v\)"),
        ("percentile(v, 0.5)", r"columns must use .*; got percentile\(v, "),
        (
            "collect_set(array(double(v)))",
            r"columns must hold a collect_set of whole numbers, .*, got collect_set\(",
        ),
    ],
)
def test_other_aggregates_are_named(spark, hours, plan, sql, message):
    expected = AnalysisException if sql == "v + 1" else ValueError
    with pytest.raises(
        expected, match=message if expected is ValueError else "(?i)group by|aggregat"
    ) as error:
        spread(hours, "key", F.expr(sql), window=window(), plan=plan)
    assert expected is AnalysisException or "\n" not in str(error.value)


def test_python_aggregates_are_refused(hours, plan):
    @F.pandas_udf("double")
    def mean(v: pd.Series) -> float:
        return v.mean()

    with pytest.raises(ValueError, match=r"columns must use .*; got mean\(v"):
        spread(hours, "key", mean("v"), window=window(), plan=plan)


def test_arguments_are_checked(hours, plan):
    aggregate = spread
    with pytest.raises(ValueError, match="columns must hold at least one aggregate, got none"):
        aggregate(hours, "key", window=window(), plan=plan)
    with pytest.raises(TypeError, match=r"columns must be aggregates such as F.sum\('x'\), got str"):
        aggregate(hours, "key", "sum(v)", window=window(), plan=plan)
    with pytest.raises(
        TypeError, match=r"window must be a column such as F.window\('at', '5 minutes'\), got 'at'"
    ):
        aggregate(hours, "key", F.sum("v"), window="at", plan=plan)
    with pytest.raises(ValueError, match=r"window must be F.window\(...\) or .*, got a session window"):
        aggregate(hours, "key", F.sum("v"), window=F.session_window("at", "5 minutes"), plan=plan)
    with pytest.raises(ValueError, match=r"^plan must be given with split_state=True: kss.plan makes one"):
        aggregate(hours, "key", F.sum("v"), window=window())
    with pytest.raises(ValueError, match=r"^plan must be given with force=True: kss.plan makes one"):
        kss.streaming.aggregate(hours, "key", F.sum("v"), window=window(), force=True)
    with pytest.raises(ValueError, match=r"^split_state must be False with force=True"):
        aggregate(hours, "key", F.sum("v"), window=window(), plan=plan, force=True)
    with pytest.raises(
        TypeError, match=r"^plan must be a Plan that kss.plan made, or a path or URL, got int"
    ):
        aggregate(hours, "key", F.sum("v"), window=window(), plan=7)
    with pytest.raises(ValueError, match=r"^window must be given with split_state=True, got None"):
        aggregate(hours, "key", F.sum("v"), plan=plan)
    with pytest.raises(ValueError, match=r"^key must name one column of the DataFrame, got 'nowhere'"):
        kss.streaming.aggregate(hours, "nowhere", F.sum("v"))
    with pytest.raises(TypeError, match=r"^df must be a Spark DataFrame, got int"):
        kss.streaming.aggregate(7, "key", F.sum("v"))
    with pytest.raises(ValueError, match=r"key must have the types that the plan is for, \('string',\)"):
        aggregate(hours, "v", F.sum("v"), window=window(), plan=plan)
    with pytest.raises(TypeError, match="unexpected keyword argument 'mode'"):
        aggregate(hours, "key", F.sum("v"), window=window(), plan=plan, mode="online")
