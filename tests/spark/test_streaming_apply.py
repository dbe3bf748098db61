"""`streaming.apply` equals a batch over the same rows, in windows, periods and after restarts."""

import datetime as dt
import functools
import json
import pickle
import re
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from frames import skewed
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql import types as T
from streams import Files, Outputs, rows_of

from keysplit import spark as kss
from keysplit.spark import slices, versions
from keysplit.spark.jvm import setting_of
from keysplit.spark.slices.conversion import settings_of
from keysplit.spark.streaming import Adapt, blobs

# The workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

WORKERS = 4
SCHEMA = "at timestamp, key string, v bigint, s string"
PARTS = "n long, v long"
MONTHS = "n interval year to month"  # of no type in Arrow
RESULT = "start timestamp, key string, n long, v long"
START = dt.datetime(2024, 3, 30, 22, tzinfo=dt.UTC)  # the clocks of Berlin go forward in it
HOURS = functools.partial(F.window, "at", "1 hour")  # a column needs a session
END = {"at": "2030-01-01T00:00:00Z", "key": "hot", "v": 1, "s": "end"}


def hour(number):
    """Return the rows of an hour: half of them of one key."""
    return [
        {
            "at": (START + dt.timedelta(hours=number, seconds=30 * i)).isoformat(),
            "key": key,
            "v": None if i % 7 == 3 else i * 37 % 101 - 20,
            "s": f"s{i % 6}",
        }
        for i, key in enumerate(skewed(["hot", None, "a", "b", "c", "d", "e"], 120))
    ]


def partial(rows):
    return pd.DataFrame({"n": [len(rows)], "v": [int(rows["v"].sum())]})


def merge(key, parts):
    begin = key[0]["start"] if len(key) == 2 else None
    values = {
        "start": [begin],
        "key": [key[-1]],
        "n": [parts["n"].sum()],
        "v": [int(parts["v"].sum())],
    }
    return pd.DataFrame(values)


def combine(parts):
    return pd.DataFrame({"n": [parts["n"].sum()], "v": [int(parts["v"].sum())]})


def whole(key, rows):
    return merge(key, partial(rows))


@pytest.fixture(scope="module")
def files(spark, tmp_path_factory):
    files = Files(spark, tmp_path_factory.mktemp("apply") / "in", SCHEMA)
    for number in range(4):
        files.add(hour(number))
    files.add([END])
    return files


@pytest.fixture(scope="module")
def plan(files):
    return planned(files, WORKERS, "w_choices")


def planned(files, workers, grouping):
    plan = kss.plan(before_the_end(files), "key", workers, grouping=grouping)
    assert {each.key: len(each.workers) for each in plan.head}["hot",] == workers
    return plan


def before_the_end(files):
    return files.batch().filter("at < '2029-01-01'")


def apply(rows, plan, **options):
    arguments = {"partial_schema": PARTS, **options}
    return kss.streaming.apply(rows, "key", partial, RESULT, merge=merge, plan=plan, **arguments)


def flat(batches):
    return sorted(row for rows in batches.values() for row in rows)


def test_windows_equal_a_batch(files, plan, tmp_path):
    windows = {
        "tumbling": F.window("at", "30 minutes"),
        "sliding": F.window("at", "90 minutes", "30 minutes").alias("span"),
    }
    more = {"sliding": {"combine": combine, "every": "90 minutes"}}
    stream = files.stream("10 minutes")
    results = {
        name: apply(stream, plan, window=window, **more.get(name, {})) for name, window in windows.items()
    }
    # the plan changes as soon as Spark has reported the first batch
    adapt = Adapt(WORKERS, gain=0.01, copy_cost=0.0)
    results["adapting"] = apply(stream, adapt, window=windows["tumbling"])
    found = Outputs(tmp_path).run(results)
    for name, window in windows.items():
        plain = before_the_end(files).groupBy(window, "key").applyInPandas(whole, RESULT)
        assert flat(found[name]) == rows_of(plain), name
        assert results[name].schema == plain.schema
    assert found["adapting"] == found["tumbling"]
    files.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(120_000)
    assert len(list((tmp_path / "adapting" / "keysplit").rglob("plan-*"))) > 1


@pytest.mark.slow
def test_the_time_itself_is_a_window(spark, plan, tmp_path):
    files = Files(spark, tmp_path / "in", SCHEMA)
    for number in range(2):
        files.add([{**row, "at": row["at"][:16] + ":00Z"} for row in hour(number)] + [{**END, "at": None}])
    files.add([END])

    def merge(key, parts):
        return pd.DataFrame({"start": [key[0]], "key": [key[1]], "n": [parts["n"].sum()], "v": [0]})

    def whole(key, rows):
        return merge(key, partial(rows))

    result = kss.streaming.apply(
        files.stream("10 minutes"), "key", partial, RESULT, merge=merge,
        partial_schema=PARTS, window=F.col("at"), plan=plan,
    )  # fmt: skip
    found = Outputs(tmp_path).run({"times": result})["times"]
    assert flat(found) == rows_of(before_the_end(files).groupBy("at", "key").applyInPandas(whole, RESULT))


@pytest.mark.usefixtures("state_store")
def test_a_restart_with_other_workers_functions_and_columns_loses_nothing(spark, plan, tmp_path):
    files = Files(spark, tmp_path / "in", SCHEMA)
    outputs = Outputs(tmp_path)
    window = F.window("at", "2 hours")
    stream = files.stream("10 minutes")
    plain = stream.groupBy(window, "key").agg(F.count("*").alias("n"))
    plain = plain.select("window.start", "key", "n")
    for number in (0, 1):
        files.add(hour(number))
    first = apply(stream, plan, window=window)
    found = outputs.run({"query": first, "plain": plain})
    assert flat(found["query"]) == []  # all of it is state
    files.add(hour(3))
    files.add(hour(4))
    # Their window has ended for the watermark of the batch before: they are dropped.
    late = [{**row, "key": key} for row in hour(0)[:3] for key in ("hot", "late")]
    files.add(late + hour(5))
    # One worker of two has rows in the end; what all others hold goes by their timers.
    files.add([END])
    other = planned(files, 2, "round_robin")

    def partial(key, rows):
        return pd.DataFrame({"most": [rows["v"].max()], "n": [len(rows)], "v": [1]})

    def merge(key, parts):
        values = {"start": [key[0]["start"]], "key": [key[1]], "n": [parts["n"].sum()]}
        return pd.DataFrame({**values, "new": [parts["most"].notna().all()]})

    second = kss.streaming.apply(
        stream, "key", partial, "start timestamp, key string, n long, new boolean",
        merge=merge, partial_schema="most double, n long, v long", window=window, plan=other,
    )  # fmt: skip
    results = {"query": second.drop("new"), "plain": plain}
    found = outputs.run(results)
    assert found["query"] == found["plain"]
    assert len(flat(found["query"])) > 15


def test_another_time_zone_after_a_restart_moves_no_time(spark, tmp_path, conf):
    """What is held of a time is an instant, whatever the clocks of the session say of it."""
    files = Files(spark, tmp_path / "in", "at timestamp, k timestamp, n bigint")
    outputs = Outputs(tmp_path)

    def rows(day, hour):
        at, key = f"2024-01-{day:02}T00:01:00Z", f"2024-03-31T0{hour}:30:00Z"
        return [{"at": at, "k": key, "n": n} for n in range(30)]

    def counted(rows):
        return pd.DataFrame({"n": [len(rows)]})

    def summed(key, parts):
        return pd.DataFrame({"at": [key[0]], "k": [key[-1]], "n": [parts["n"].sum()]})

    def result(name, window, schema):
        found = kss.streaming.apply(
            files.stream("1 minute"), "k", counted, schema,
            merge=summed, partial_schema="n long", window=window, plan=Adapt(2),
        )  # fmt: skip
        at = "at" if name == "times" else "at.start"
        return found.selectExpr(f"unix_seconds({at}) AS at", "unix_seconds(k) AS k", "n")

    def results():
        span = "at struct<start: timestamp, end: timestamp>, k timestamp, n long"
        return {
            "times": result("times", F.col("at"), "at timestamp, k timestamp, n long"),
            "windows": result("windows", F.window("at", "1 hour"), span),
        }

    conf("spark.sql.session.timeZone", "Asia/Tokyo")
    files.add(rows(1, 0) + rows(1, 1))
    assert [flat(each) for each in outputs.run(results()).values()] == [[], []]
    conf("spark.sql.session.timeZone", "America/New_York")
    files.add(rows(1, 1))
    files.add(rows(2, 0))  # all before goes
    found = outputs.run(results())
    batch = files.batch().filter("at < '2024-01-01 12:00:00'")
    times = batch.groupBy(F.unix_seconds("at"), F.unix_seconds("k")).agg(F.count("*"))
    windows = batch.groupBy(F.window("at", "1 hour"), "k").agg(F.count("*").alias("n"))
    windows = windows.selectExpr("unix_seconds(window.start)", "unix_seconds(k)", "n")
    assert flat(found["times"]) == rows_of(times)
    assert flat(found["windows"]) == rows_of(windows)


@pytest.mark.slow
def test_periods_hold_each_row_once(spark, files, plan, tmp_path):
    outputs = Outputs(tmp_path)
    stream = files.stream("10 minutes")
    results = {
        "batches": apply(stream, plan),
        "hours": apply(stream, plan, every="1 hour", clock="event"),
        "long": apply(stream, plan, every=dt.timedelta(days=30_000), clock="event", combine=combine),
    }
    found = outputs.run(results)
    assert found["long"] == {} or flat(found["long"]) == []
    batches = dict(enumerate([hour(0), hour(1), hour(2), hour(3), [END]]))
    for number, rows in batches.items():
        counts = Counter(row["key"] for row in rows)
        assert [row[:1] for row in found["batches"][number]] == ["["] * len(counts)
    # a row waits for the first watermark of another hour
    assert sum(len(rows) > 0 for rows in found["hours"].values()) == 5
    plain = rows_of(files.batch().groupBy("key").applyInPandas(whole, RESULT))
    for name in ("batches", "hours"):
        assert totals(flat(found[name])) == totals(plain), name


def totals(rows):
    found = Counter()
    for row in rows:
        _, key, n, v = eval(row, {"datetime": dt})
        found[key, "n"] += n
        found[key, "v"] += v
    return found


def test_each_worker_has_a_state_partition_of_its_own_without_windows(spark, files, plan, tmp_path, conf):
    if spark.version < "4":
        pytest.skip("this Spark cannot read its state")
    conf("spark.sql.shuffle.partitions", str(plan.workers))
    Outputs(tmp_path).run({"query": apply(files.stream("1 minute"), plan, every="30000 days", clock="event")})
    states = spark.read.format("statestore").load(str(tmp_path / "query"))
    found = states.groupBy("partition_id").count().collect()
    assert sorted(found) == [(partition, 1) for partition in range(plan.workers)]


def test_every_shuffle_of_rows_has_as_many_tasks_as_workers(files, plan, conf):
    conf("spark.sql.shuffle.partitions", str(plan.workers - 1))
    for options in ({}, {"window": HOURS()}):
        analysed = apply(files.stream("1 minute"), plan, **options)._jdf.queryExecution().analyzed()
        found = re.findall(r"RepartitionByExpression .*\], (\d+)", analysed.toString())
        assert found == [str(plan.workers)] * 2


@pytest.mark.slow
def test_periods_of_processing_time_end_without_rows(files, plan, tmp_path):
    outputs = Outputs(tmp_path)
    result = apply(files.stream(), plan, every="1 second")

    def put(df, batch):
        outputs.rows["query"][batch] = rows_of(df)

    writer = result.writeStream.foreachBatch(put).trigger(processingTime="1 second")
    query = writer.option("checkpointLocation", str(tmp_path / "query")).start()
    expected = totals(rows_of(files.batch().groupBy("key").applyInPandas(whole, RESULT)))
    deadline = time.monotonic() + 600
    while totals(flat(dict(outputs.rows["query"]))) != expected and time.monotonic() < deadline:
        assert query.exception() is None
        time.sleep(0.2)
    query.stop()
    assert totals(flat(outputs.rows["query"])) == expected


@pytest.mark.slow
def test_a_long_window_goes_in_parts(files, plan, tmp_path):
    stream = files.stream("10 minutes")
    result = apply(stream, plan, window=F.window("at", "20000 days"), every=dt.timedelta(days=19_800))
    found = Outputs(tmp_path).run({"query": result})["query"]
    # 1970 + 19,800 days are in March 2024: the first watermark is before, later ones are within the window
    plain = rows_of(before_the_end(files).groupBy("key").applyInPandas(whole, RESULT))
    assert totals(flat(found)) == totals(plain)


@pytest.mark.slow
def test_keys_of_many_types(spark, tmp_path):
    struct = T.StructType([T.StructField("a", T.IntegerType()), T.StructField("b", T.StringType())])
    fields = [("at", T.TimestampType()), ("f", T.DoubleType()), ("g", struct), ("n", T.LongType())]
    schema = T.StructType([T.StructField(*field) for field in [*fields, ("b", T.BinaryType())]])
    floats = skewed([0.0, -0.0, None, float("nan"), 1.5], 90)
    structs = skewed([(1, "x"), None, (1, None), (None, None)], 90)[::-1]
    numbers = [[None, 2**53, 2**53 + 1][i % 3] for i in range(90)]
    rows = [
        (START + dt.timedelta(minutes=i), f, g, n, [None, b"\xff\0"][i % 2])
        for i, (f, g, n) in enumerate(zip(floats, structs, numbers, strict=True))
    ]
    frame = spark.createDataFrame(rows, schema)
    frame.coalesce(1).write.parquet(str(tmp_path / "in"))
    end = spark.createDataFrame([(dt.datetime(2030, 1, 1, tzinfo=dt.UTC), None, None, None, None)], schema)
    keys = ["f", "g", "n", "b"]
    plan = kss.plan(frame, keys, WORKERS, grouping="w_choices")

    def counted(rows):
        return pd.DataFrame({"n": [len(rows)]})

    def named(key, parts):
        return pd.DataFrame({"key": [repr(key)], "n": [parts["n"].sum()]})

    window = F.window("at", "1 hour")
    stream = spark.readStream.schema(schema).parquet(str(tmp_path / "in")).withWatermark("at", "1 minute")
    result = kss.streaming.apply(
        stream,
        keys,
        counted,
        "key string, n long",
        merge=named,
        partial_schema="n long",
        window=window,
        plan=plan,
    )
    outputs = Outputs(tmp_path)
    outputs.run({"query": result})
    end.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    found = flat(outputs.run({"query": result})["query"])
    plain = frame.groupBy(window, *keys).applyInPandas(
        lambda key, rows: named(key, counted(rows)), "key string, n long"
    )
    # equal keys may have other bits
    assert normal(found) == normal(rows_of(plain))


def normal(rows):
    return sorted(row.replace("-0.0", "0.0") for row in rows)


def test_functions_over_arrow(files, plan, tmp_path):
    if not versions.has_apply_in_arrow(files.batch()):
        with pytest.raises(ValueError, match=r"format must be 'pandas' before Spark 4\.0, got 'arrow'"):
            apply(files.stream(), plan, format="arrow")
        return

    def counted(rows):
        return pa.table({"n": [rows.num_rows]})

    def summed(key, parts):
        return pa.table({"key": [key[0].as_py()], "n": [sum(parts["n"].to_pylist())]}, ARROW)

    result = kss.streaming.apply(
        files.stream(), "key", counted, "key string, n long",
        merge=summed, partial_schema="n long", format="arrow", plan=plan,
    )  # fmt: skip
    found = Outputs(tmp_path).run({"query": result})["query"]
    plain = files.batch().groupBy("key", F.floor(F.unix_seconds("at") / 3600)).count().select("key", "count")
    assert flat(found) == rows_of(plain)


ARROW = pa.schema({"key": pa.string(), "n": pa.int64()})


def test_errors_of_functions_pass(files, plan, tmp_path):
    def broken(parts):
        raise LookupError("there is no such thing")

    result = kss.streaming.apply(
        files.stream(), "key", partial, RESULT, merge=broken, partial_schema=PARTS, plan=plan
    )
    with pytest.raises(StreamingQueryException, match="there is no such thing"):
        Outputs(tmp_path).run({"query": result})


# What workers keep, without Spark's state


class State:
    """A worker's state in Spark, which says what was asked of it."""

    def __init__(self, clock):
        self.clock, self.value, self.timer = clock, None, None

    exists = property(lambda self: self.value is not None)
    get = property(lambda self: self.value)

    def getCurrentWatermarkMs(self):
        assert self.clock == "event"
        return self.now

    def getCurrentProcessingTimeMs(self):
        assert self.clock == "processing"
        return self.now

    def setTimeoutTimestamp(self, time):
        assert self.clock == "event"
        assert time > 0
        assert time >= self.now
        self.timer = time

    def setTimeoutDuration(self, duration):
        assert self.clock == "processing"
        assert duration > 0
        self.timer = self.now + duration

    def update(self, value):
        self.value = value

    def remove(self):
        self.value = None


class Worker:
    """A worker over micro-batches: it is called if it has rows, or if its timer has gone off."""

    def __init__(self, spark, rule, schema=PARTS, kinds=("bigint",), columns=("k",)):
        settings = settings_of(setting_of(spark))
        schema = T.StructType([T.StructField(name, T.LongType()) for name in schema.split(", ")])
        call = slices.Call(lambda rows: rows[schema.names], False, schema, "pandas", settings)
        self.layout = blobs.Layout(call, kinds, 0, (0,), 2, columns, "UTC")
        self.keep = blobs.keeper(rule, self.layout)
        self.state = State(rule.clock)

    def batch(self, now, rows=(), begin=0, end=0):
        """Return the rows that go, of rows (n, key)."""
        self.state.now = now
        if not rows and (self.state.timer is None or self.state.timer >= now):
            return []
        frames = [pd.DataFrame({"blob": [b""]}).iloc[:0]]
        if rows:
            n, key = (np.array(column) for column in zip(*rows, strict=True))
            table = pa.table([n, *[n] * (len(self.layout.names) - 3), key, key], self.layout.names)
            frames = [pd.DataFrame({"blob": [blobs._written(table)]})]
        self.state.timer = None
        gone = [
            blobs._read(blob)
            for frame in self.keep((begin, end, 0), frames, self.state)
            for blob in frame["blob"]
        ]
        assert (self.state.value is None) == (self.state.timer is None)
        return sorted(
            row
            for table in gone
            for row in zip(*(table[f].to_pylist() for f in ("part n", "key 0")), strict=True)
        )

    def rows(self):
        return blobs._read(self.state.value[0]).num_rows if self.state.exists else 0


def rule(clock, every_ms=None, ttl_ms=None, combine=None):
    return blobs.Rule(clock, every_ms, ttl_ms, combine)


def test_keys_that_became_wider_take_the_narrow_ones_along(spark):
    layout = Worker(spark, rule("event", every_ms=4)).layout

    def table(key):
        return pa.table([[1], [1], pa.array([key[0]], key[1]), [7]], layout.names)

    narrow, wide = (5, pa.int32()), (3_000_000_000, pa.int64())
    for order in ((narrow, wide), (wide, narrow)):
        found = blobs._together([table(key) for key in order], layout).column("key 0")
        assert found.type == pa.int64()
        assert found.to_pylist() == [key for key, _ in order]


def test_other_columns_of_the_key_are_refused_after_a_restart(spark):
    before = Worker(spark, rule("event", every_ms=4), columns=("user", "item"))
    before.batch(1, [(1, 7)])
    after = Worker(spark, rule("event", every_ms=4), columns=("item", "user"))
    after.state.value = before.state.value
    message = r"key must name the columns of the checkpoint's state, \['user', 'item'\], in that order, got"
    with pytest.raises(ValueError, match=message):
        after.batch(2, [(1, 7)])


def test_state_of_a_keysplit_that_knew_no_names_is_read(spark):
    worker = Worker(spark, rule("event", every_ms=4), "n")
    worker.batch(1, [(1, 7)])
    held = blobs._read(worker.state.value[0])
    about = json.loads(held.schema.metadata[b"keysplit"])
    del about["columns"]
    written = blobs._written(held.replace_schema_metadata({"keysplit": json.dumps(about)}))
    worker.state.value = (written,)
    assert worker.batch(5, [(2, 7)]) == [(1, 7)]


def test_times_at_the_beginning_of_1970_have_timers(spark):
    worker = Worker(spark, rule("event"), "n")
    assert worker.batch(0, [(1, 7)], begin=1000, end=1000) == []
    assert worker.batch(2) == [(1, 7)]


@pytest.mark.parametrize("clock", ["event", "processing"])
def test_all_workers_send_a_period_in_one_batch(spark, clock):
    for second in range(2, 9):
        # one has rows in each batch, the other in the first only
        busy, idle = (Worker(spark, rule(clock, every_ms=4), "n") for _ in range(2))
        assert busy.batch(1, [(1, 7)]) == idle.batch(1, [(2, 7)]) == []
        gone = busy.batch(second, [(3, 7)]), idle.batch(second)
        assert gone == (([(1, 7)], [(2, 7)]) if second >= 4 else ([], []))
        assert busy.rows() == (1 if second >= 4 else 2)


@pytest.mark.versions
def test_all_workers_send_a_window_in_one_batch(spark):
    span = {"begin": 2_001, "end": 12_001}  # 13 ms is the first after it
    for watermark in range(10, 14):
        busy, idle = (Worker(spark, rule("event"), "n") for _ in range(2))
        for worker in (busy, idle):
            assert worker.batch(5, [(1, 7)], **span) == []
        gone = busy.batch(watermark, [(3, 7)] * (watermark < 13), **span), idle.batch(watermark)
        assert gone == (([(1, 7)],) * 2 if watermark >= 13 else ([], []))


def test_a_window_is_cut_by_its_time_to_live(spark):
    found = []
    worker = Worker(spark, rule("event", ttl_ms=10), "n")
    for watermark in (0, 25, 29, 31, 42, 55, 60):
        rows = [(watermark, 7)] if watermark < 55 else []
        found.append([n for n, _ in worker.batch(watermark, rows, begin=20_000, end=55_000)])
    assert found == [[], [], [], [0, 25, 29], [31], [42], []]


def test_state_stays_small_where_it_is_combined(spark):
    settings = settings_of(setting_of(spark))
    schema = T.StructType([T.StructField("n", T.LongType())])

    def summed(parts):
        return pd.DataFrame({"n": [parts["n"].sum()]})

    combine = slices.Call(summed, False, schema, "pandas", settings)
    worker = Worker(spark, rule("event", every_ms=1000, combine=combine), "n")
    for number in range(1, 50):
        assert worker.batch(number, [(1, key) for key in range(5)]) == []
        assert worker.rows() <= 10
    gone = Counter()
    for n, key in worker.batch(1000):
        gone[key] += n
    assert gone == dict.fromkeys(range(5), 49)
    assert not worker.state.exists


TIME, PLAIN_TIME = pa.timestamp("us", "UTC"), pa.timestamp("us")


@pytest.mark.parametrize(
    ("wider", "type_", "holds"),
    [
        (pa.int64(), pa.int32(), True),
        (pa.int32(), pa.int64(), False),
        (pa.float64(), pa.float32(), True),
        (pa.float64(), pa.int64(), False),
        (pa.decimal128(12, 2), pa.decimal128(9, 2), True),
        (pa.decimal128(12, 6), pa.decimal128(9, 2), False),
        (pa.timestamp("us", "Asia/Tokyo"), TIME, True),
        (PLAIN_TIME, TIME, False),
        (TIME, PLAIN_TIME, False),
        (TIME, pa.int64(), False),
        (TIME, pa.date32(), False),
        (pa.string(), pa.int64(), False),
        (pa.large_string(), pa.string(), True),
        (pa.string(), pa.binary(), False),
        (pa.int8(), pa.null(), True),
        (pa.list_(pa.int64()), pa.list_(pa.int32()), True),
        (pa.list_(TIME), pa.list_(PLAIN_TIME), False),
        (pa.struct({"a": pa.int64(), "b": pa.int8()}), pa.struct({"a": pa.int32()}), True),
        (pa.struct({"a": pa.int64()}), pa.struct({"a": pa.int32(), "b": pa.int8()}), False),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32()), True),
    ],
)
def test_held_values_are_put_into_wider_types_alone(wider, type_, holds):
    table = pa.table({"part x": pa.array([], type_)})
    if holds:
        assert blobs._fitted(table, ["part x"], {"part x": wider}).schema.field(0).type == wider
    else:
        with pytest.raises(
            ValueError, match=r"^partial_schema must have the types of .* for 'x' in place of"
        ):
            blobs._fitted(table, ["part x"], {"part x": wider})


def test_state_of_another_query_is_refused(spark):
    worker = Worker(spark, rule("event", every_ms=1000), "n, v")
    worker.batch(1, [(1, 7)])

    def message(**options):
        other = Worker(spark, **{"rule": rule("event", every_ms=1000), "schema": "n", **options})
        other.state.value = worker.state.value
        with pytest.raises(ValueError, match="must") as error:
            other.batch(2, [(1, 7)])
        return str(error.value)

    assert message() == (
        "partial_schema must have the columns of the checkpoint's partial results, and may have more, "
        "got a schema without ['v']"
    )
    assert (
        "those of the checkpoint's state, ['bigint'] by event time, got ['bigint'] by processing"
        in message(rule=rule("processing", every_ms=1000))
    )
    assert "['bigint'] by event time, got ['string'] by event time" in message(kinds=("string",))
    table = blobs._read(worker.state.value[0])
    later = table.schema.metadata[b"keysplit"].replace(b'"version": 1', b'"version": 2')
    worker.state.value = (blobs._written(table.replace_schema_metadata({"keysplit": later})),)
    assert "state of version 1 at most, got 2" in message()


def test_executors_need_no_keysplit(spark):
    worker = Worker(spark, rule("event", every_ms=1000), "n")
    places = slices.Places(["n", "k"], [0, 1], [1], [3, 4, 5, 2, 1])
    code = (
        "import sys, pickle\n"
        "sys.modules['keysplit'] = None\n"
        "import pyarrow as pa\n"
        "pack, merge, keep, layout, places, call = pickle.load(sys.stdin.buffer)\n"
        "rows = pa.record_batch({'n': [1, 2], **{name: [7, 7] for name in 'khsbe'}})\n"
        "blob = [*pack(iter([rows]), layout, places)][0]['blob']\n"
        "found = merge(iter([pa.record_batch({'bucket': [0], 'blob': blob})]), call, layout)\n"
        "print(pa.Table.from_batches(found).to_pydict())\n"
    )
    held = [blobs.packed, blobs.merged, worker.keep, worker.layout, places, worker.layout.partial]
    done = subprocess.run([sys.executable, "-c", code], input=cloudpickle.dumps(held), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().splitlines() == ["{'n': [1, 2]}"]
    assert pickle.dumps(worker.layout.keys)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"plan": None}, ValueError, "plan must be given for a streaming DataFrame: kss.plan makes a plan"),
        ({"function": 5}, TypeError, "function must be a function, got int"),
        ({"merge": None}, TypeError, "merge must be a function, got NoneType"),
        ({"combine": 5}, TypeError, "combine must be a function, got int"),
        ({"schema": 5}, TypeError, "schema must be a StructType or DDL, got int"),
        ({"partial_schema": "n long, n long"}, ValueError, "partial_schema must have columns with distinct"),
        ({"partial_schema": "n long, n"}, ValueError, "partial_schema must be DDL such as"),
        ({"format": "rows"}, ValueError, "format must be 'pandas' or 'arrow', got 'rows'"),
        ({"clock": "wall"}, ValueError, "clock must be 'processing' or 'event', got 'wall'"),
        ({"clock": "event"}, ValueError, "clock must be omitted without every, and with window"),
        ({"clock": "event", "every": "1 hour"}, ValueError, "df must have a watermark for clock='event'"),
        ({"window": HOURS}, ValueError, "df must have a watermark on the time of"),
        ({"window": "at"}, TypeError, r"window must be a column such as F.window.*, got 'at'"),
        ({"window": HOURS, "every": "1 hour", "clock": "event"}, ValueError, "clock must be omitted"),
        ({"window": lambda: F.session_window("at", "1 hour")}, ValueError, "got a session window"),
        ({"combine": combine}, ValueError, "combine must be omitted without window or every"),
        ({"every": 5}, TypeError, "every must be a str or a timedelta, got int"),
        ({"every": "1 month"}, ValueError, "every must be a period of whole milliseconds, above 0 and"),
        ({"every": "99999999999999 days"}, ValueError, "such as '5 minutes', got '99999999999999 days'"),
        ({"every": "200 years"}, ValueError, "every must be a period of whole milliseconds, above 0 and"),
        ({"every": "0 seconds"}, ValueError, "every must be a period of whole milliseconds, above 0"),
        ({"every": dt.timedelta(microseconds=1500)}, ValueError, "every must be a period of whole milli"),
        ({"key": "nokey"}, ValueError, "key must name one column of the DataFrame, got 'nokey'"),
        ({"partial_schema": MONTHS}, ValueError, "df and schemas must have types that Spark passes to"),
    ],
)  # fmt: skip
def test_arguments_are_checked(files, plan, change, error, message):
    arguments = {
        "df": files.stream(), "key": "key", "function": partial, "merge": merge, "schema": RESULT,
        "partial_schema": PARTS, "plan": plan, **change,
    }  # fmt: skip
    if callable(arguments.get("window")):
        arguments["window"] = arguments["window"]()
    with pytest.raises(error, match=message) as raised:
        kss.streaming.apply(**arguments)
    assert "\n" not in str(raised.value)


def counted(rows):
    return pd.DataFrame({"n": [len(rows)]})


def summed(key, parts):
    return pd.DataFrame({"n": [parts["n"].sum()]})


@pytest.mark.parametrize("first", ["window", "every"])
def test_a_window_does_not_follow_a_period(spark, tmp_path, first):
    """What was held would never be found, or fail the query long after."""
    files, outputs = Files(spark, tmp_path / "in", "at timestamp, key string"), Outputs(tmp_path)

    def run(which):
        how = {"every": "2 days", "clock": "event"}
        if which == "window":
            how = {"window": F.window("at", "1 hour")}
        files.add([{"at": f"2024-01-0{1 + len(list(files.path.iterdir()))}T00:00:00Z", "key": "k"}] * 5)
        result = kss.streaming.apply(
            files.stream("1 minute"), "key", counted, "n long", merge=summed, plan=Adapt(2), **how
        )  # fmt: skip
        return outputs.run({"query": result})["query"]

    run(first)
    # on Spark 3.5 from the task that fails first: the one that reads the schema, or one that reads a row
    refusals = r"KEY_SCHEMA_NOT_COMPATIBLE|StateSchemaNotCompatible|state format invalidation"
    with pytest.raises(StreamingQueryException, match=refusals):
        run({"window": "every", "every": "window"}[first])
    outputs.queries.clear()
    run(first)


def test_windows_behind_all_times_of_pandas_are_refused(spark, tmp_path):
    files, outputs = Files(spark, tmp_path / "in", "at timestamp, key string"), Outputs(tmp_path)
    files.add([{"at": "2300-01-01T00:10:00Z", "key": "k"}] * 5)
    if not versions.has_apply_in_arrow(files.batch()):
        pytest.skip("functions over Arrow tables: from Spark 4.0 on")

    def counted(rows):
        return pa.table({"n": [rows.num_rows]})

    result = kss.streaming.apply(
        files.stream("1 minute"), "key", counted, "n long",
        merge=lambda key, parts: parts, format="arrow", window=F.window("at", "1 hour"), plan=Adapt(2),
    )  # fmt: skip
    with pytest.raises(StreamingQueryException, match="window must begin before 2261"):
        outputs.run({"query": result})


def test_batches_are_refused(files, plan):
    with pytest.raises(
        ValueError, match=r"df must be a streaming DataFrame, got a batch one: kss\.apply takes"
    ):
        apply(files.batch(), plan)


def test_periods_may_have_parts(files, plan):
    assert apply(files.stream(), plan, every="1 day 12 hours").isStreaming
