"""What keysplit does on Spark Connect; `test_on_connect.py` runs it, in a process of its own.

pyspark makes columns for a classic session or for one of Spark Connect, and a process has to choose.
"""

import os
import sys
import tarfile
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from frames import KEYS, skewed
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import keysplit as ks
from keysplit import spark as kss

WORKERS = 6


def rows_of(spark):
    """Make a frame: half of the rows have key "hot", some have null, all others one of 40 keys."""
    at = F.col("id")
    rare = F.when(at % 50 == 1, None).otherwise(F.concat(F.lit("k"), at % 40))
    return spark.range(2000, numPartitions=3).select(
        F.when(at % 2 == 0, "hot").otherwise(rare).alias("key"), "id", (at * 37 % 101).alias("v")
    )


def keys_of_all_types(spark):
    """Make a frame with a column of keys of each type."""
    schema = T.StructType([T.StructField(name, KEYS[name][0]) for name in sorted(KEYS)]).add("id", "long")
    columns = [skewed(KEYS[name][1], 60) for name in sorted(KEYS)]
    return spark.createDataFrame(list(zip(*columns, range(60), strict=True)), schema)


CLASSIC = {"rows": (rows_of, "key"), "types": (keys_of_all_types, sorted(KEYS))}
"""Frames with their keys, which a classic session has planned and routed."""


def same_rows(left, right):
    """Say whether two results have the same columns and types, whatever may be null, and the same rows."""
    return left.dtypes == right.dtypes and sorted(map(repr, left.collect())) == sorted(
        map(repr, right.collect())
    )


@pytest.fixture(scope="module")
def spark():
    session = SparkSession.builder.remote(os.environ["KEYSPLIT_CONNECT"]).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def rows(spark):
    return rows_of(spark)


@pytest.fixture(scope="module")
def plan(rows):
    return kss.plan(rows, "key", WORKERS)


@pytest.fixture(scope="module")
def plan_by_id(plan):
    """The same, with the column that distinguishes rows also in a stream of other columns."""
    return replace(plan, row_id=("id",))


@pytest.fixture
def no_python(conf):
    """Take Python away from the executors."""
    conf("spark.sql.execution.pyspark.python", "/there/is/no/python")


def test_plan_finds_the_frequent_keys(plan):
    assert (plan.head[0].key, plan.head[0].count, plan.total) == (("hot",), 1000, 2000)
    assert len(plan.head[0].workers) > 1


@pytest.mark.parametrize("name", CLASSIC)
def test_plans_and_workers_are_those_of_a_classic_session(spark, name):
    folder, (frame, key) = Path(os.environ["KEYSPLIT_CLASSIC"]), CLASSIC[name]
    df = frame(spark)
    plan = kss.plan(df, key, WORKERS)
    assert plan.to_json() == kss.Plan.load(folder / f"{name}.json").to_json()
    found = kss.route(df, key, plan=plan).select("id", "worker")
    assert same_rows(found, spark.read.parquet(str(folder / name)))


def test_the_worker_in_sql_is_that_of_a_column(spark, rows):
    plan = kss.plan(rows, "key", WORKERS, row_id="id")
    assert plan.splits
    shown = kss.register(spark, plan, "worker_of", row_id=rows.select("id").schema)
    assert shown == "worker_of(key STRING, id BIGINT)"
    rows.createOrReplaceTempView("registered")
    found = spark.sql("SELECT *, worker_of(key, id) AS worker FROM registered")
    assert same_rows(found, kss.route(rows, "key", plan=plan))
    with pytest.raises(ValueError, match=r"^row_id must be columns with their types"):
        kss.register(spark, plan, "worker_of", row_id="id")


def test_rows_are_placed(rows):
    placed = kss.repartition(rows, "key", workers=WORKERS)
    assert placed.filter("worker <> spark_partition_id()").count() == 0
    assert same_rows(placed.drop("worker"), rows)


def test_keys_that_python_has_no_object_for(spark):
    sql = ["date'0000-01-01' as d", "interval '1-2' year to month as m", "cast(X'FF' as string) as s"]
    df = spark.range(100).selectExpr(*sql, "id")
    plan = kss.plan(df, ["d", "m", "s"], WORKERS, row_id="id", trust="id")
    assert plan.head[0].key == ("0000-01-01", "INTERVAL '1-2' YEAR TO MONTH", "\ufffd")
    weighed = kss.plan(df, "d", WORKERS, weight="bytes", row_id="id", trust="id")
    assert weighed.total == 100 * (4 + len("INTERVAL '1-2' YEAR TO MONTH") + 1 + 8)


@pytest.mark.parametrize("format", ["pandas", "arrow"])
def test_apply(rows, plan, format):
    def part(rows):
        if format == "arrow":
            return rows.group_by([]).aggregate([("v", "sum")]).rename_columns(["total"])
        return pd.DataFrame({"total": [rows["v"].sum()]})

    def merge(key, parts):
        if format == "arrow":
            total = parts.group_by([]).aggregate([("total", "sum")]).rename_columns(["total"])
            return total.add_column(0, "key", [pa.array([key[0].as_py()], pa.string())])
        return pd.DataFrame({"key": [None if pd.isna(key[0]) else key[0]], "total": [parts["total"].sum()]})

    found = kss.apply(
        rows,
        "key",
        part,
        "key string, total long",
        merge=merge,
        partial_schema="total long",
        plan=plan,
        format=format,
    )
    plain = rows.groupBy("key").agg(F.sum("v").alias("total"))
    assert same_rows(found, plain)
    found = kss.apply(rows, "key", lambda key, rows: merge(key, part(rows)), found.schema, format=format)
    assert same_rows(found, plain)


def test_a_full_join_is_built_without_a_physical_plan(rows, plan, monkeypatch):
    monkeypatch.setattr(type(rows), "_explain_string", None)
    assert kss.explain(kss.join(rows, rows, "key", "full", plan=plan)).startswith("place")
    with pytest.raises(TypeError):
        kss.join(rows, rows, "key", plan=plan)


@pytest.mark.parametrize(
    ("how", "widths"),
    [("full", ("int", "bigint")), ("right", ("bigint", "tinyint")), ("semi", ("bigint", "tinyint"))],
)
def test_keys_of_two_widths_in_a_join(rows, how, widths):
    number = F.when(F.col("key") != "hot", F.col("v")).otherwise(0)
    left, right = (rows.withColumn("key", number.cast(width)) for width in widths)
    right = right.filter(F.col("id") < 60).select("key", F.upper(F.col("id").cast("string")).alias("name"))
    plan = kss.plan(left, "key", WORKERS, row_id="id")
    for way in ("place", "broadcast"):
        found = kss.join(left, right, "key", how, plan=plan, split="left", way=way)
        assert kss.explain(found).startswith(way)
        assert same_rows(found, left.join(right, "key", how)), way


@pytest.mark.parametrize("how", ["inner", "full", "anti"])
def test_join(rows, plan, how):
    other = rows.filter(F.col("id") < 60).select("key", F.upper("key").alias("name"))
    expected = rows.join(other, "key", how)
    for way in ("place", "broadcast"):
        assert same_rows(kss.join(rows, other, "key", how, plan=plan, way=way), expected), way


@pytest.mark.parametrize("how", ["inner", "left", "right", "semi", "anti"])
def test_join_with_a_condition(spark, rows, plan, how):
    other = rows_of(spark).filter(F.col("id") < 60).select((F.col("id") % 9).alias("w"), "key")
    conditions = {
        "columns": rows["v"] % 9 < other["w"],
        "names": F.col("v") % 9 < F.col("w"),
        "text": "v % 9 < w",
    }
    expected = rows.join(other, (rows["key"] == other["key"]) & conditions["columns"], how)
    if how not in ("semi", "anti"):
        key = other["key"] if how == "right" else rows["key"]
        expected = expected.select(key, "id", "v", "w")
    for name, condition in conditions.items() if how == "inner" else [("columns", conditions["columns"])]:
        given = {"how": how, "condition": condition, "plan": plan}
        for way in ("place", "broadcast") if name == "columns" else ("place",):
            assert same_rows(kss.join(rows, other, "key", way=way, **given), expected), (name, way)
        plain = kss.join(rows, other, "key", **given)
        assert kss.explain(plain).startswith("plain")
        assert same_rows(plain, expected)


def test_columns_of_both_sides_of_a_join(spark, rows, plan, conf):
    other = spark.createDataFrame([("hot", 1), ("k3", 2), (None, 3)], "key string, v long")
    conf("spark.sql.autoBroadcastJoinThreshold", "100")
    for how in ("inner", "full"):
        joined = kss.join(rows, other, "key", how, plan=plan, way="place")
        chosen = [rows["key"], other["key"], rows["v"], other["v"]]
        assert same_rows(joined.select(*chosen), rows.join(other, "key", how).select(*chosen))


def test_write(spark, rows, tmp_path):
    kss.write(rows, "key", workers=WORKERS).parquet(str(tmp_path / "out"))
    files = Counter(file.parent.name for file in (tmp_path / "out").rglob("*.parquet"))
    assert files["key=hot"] > 1
    assert sum(files.values()) <= len(files) + WORKERS - 1
    assert same_rows(spark.read.parquet(str(tmp_path / "out")).select(*rows.columns), rows)


def test_profile_and_drift(rows, plan):
    profile = kss.profile(rows, "key", WORKERS)
    assert (profile.top[0].key, profile.top[0].count, profile.total) == ("hot", 1000, 2000)
    assert profile.recommended is not None
    assert kss.drift(plan, rows).moved == 0
    assert kss.drift(plan, rows.filter("key <> 'hot'")).moved > 0.4


def test_streaming_join(spark, rows, plan, tmp_path):
    events = rows.withColumn("at", F.timestamp_seconds(F.col("id") + 1_000_000))
    events.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(events.schema).parquet(str(tmp_path / "in"))
    left = stream.withWatermark("at", "1 minute")
    right = stream.filter("id < 60").selectExpr("key", "at AS then").withWatermark("then", "1 minute")
    names = rows.filter("id < 60").select("key", F.upper("key").alias("name")).distinct()
    condition = F.expr("at BETWEEN then AND then + INTERVAL 1 MINUTE")
    given = {"plan": plan, "way": "place"}
    others = events.filter("id < 60").selectExpr("key", "at AS then")
    results = {
        "table": (kss.streaming.join(left, names, "key", "left", **given), rows.join(names, "key", "left")),
        "streams": (
            kss.streaming.join(left, right, "key", condition=condition, **given),
            events.join(others, "key").where(condition),
        ),
    }
    for name, (found, expected) in results.items():
        assert kss.explain(found).startswith("place: ")
        writer = found.writeStream.format("memory").queryName(name).trigger(availableNow=True)
        assert writer.option("checkpointLocation", str(tmp_path / name)).start().awaitTermination(120)
        expected = expected.select(*[each for each in found.columns if each in expected.columns])
        kept = spark.table(name).select(*expected.columns)
        assert sorted(map(repr, kept.collect())) == sorted(map(repr, expected.collect()))
        assert kept.count() > 100
    with pytest.raises(ValueError, match="condition must be None in a left join of two streams on Spark"):
        kss.streaming.join(left, right, "key", "left", condition=condition, **given)


def run(writer, folder):
    """Run a stream to the end of its input."""
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)


def test_rows_of_a_stream_are_placed(spark, rows, plan_by_id, tmp_path):
    rows.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    expected = kss.route(rows, "key", plan=plan_by_id)
    routed = kss.streaming.route(stream, "key", plan=plan_by_id)
    run(routed.writeStream.format("memory").queryName("routed"), tmp_path / "routed")
    assert same_rows(spark.table("routed"), expected)
    placed = kss.streaming.repartition(stream, "key", plan=plan_by_id)
    placed = placed.withColumn("at", F.spark_partition_id())
    run(placed.writeStream.format("memory").queryName("placed"), tmp_path / "placed")
    placed = spark.table("placed")
    assert same_rows(placed.drop("at"), expected)
    assert placed.where("at <> worker").isEmpty()


def test_streaming_write(spark, rows, plan_by_id, tmp_path):
    rows.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    writer = kss.streaming.write(stream, "key", plan=plan_by_id).format("parquet")
    run(writer.option("path", str(tmp_path / "out")), tmp_path)
    files = Counter(file.parent.name for file in (tmp_path / "out").rglob("*.parquet"))
    assert files["key=hot"] > 1
    assert same_rows(spark.read.parquet(str(tmp_path / "out")).select(*rows.columns), rows)


@pytest.mark.skipif("KEYSPLIT_KAFKA" not in os.environ, reason="no broker of Kafka was started")
def test_to_kafka(spark, rows, plan, tmp_path):
    rows = rows.select("key", F.col("id").cast("string").alias("value"))
    rows.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    servers, topic = os.environ["KEYSPLIT_KAFKA"].split()
    plan = replace(plan, row_id=("value",))
    writer = kss.streaming.to_kafka(stream, "key", topic=topic, servers=servers, plan=plan)
    run(writer, tmp_path)
    # the server ends after its tasks have sent the batch, before it says so
    for path in (tmp_path / "checkpoint/commits").glob("*0*"):
        path.unlink()
    run(writer, tmp_path)
    with pytest.raises(Exception, match="do not call queryName"):
        run(writer.queryName("mine"), tmp_path / "mine")
    with pytest.raises(
        ValueError, match=r"plan must have one worker per partition: .* has 6 .* has 4 workers"
    ):
        kss.streaming.to_kafka(stream, "key", topic=topic, servers=servers, plan=plan.with_workers(4))


@pytest.mark.parametrize("held", ["by window", "by period"])
def test_streaming_apply(spark, rows, plan_by_id, tmp_path, held):
    def part(rows):
        return pd.DataFrame({"total": [rows["v"].sum()]})

    def merge(key, parts):
        key = None if pd.isna(key[-1]) else key[-1]
        return pd.DataFrame({"key": [key], "total": [parts["total"].sum()]})

    at = F.timestamp_seconds(F.col("id") * 3)
    last = spark.range(1).selectExpr("'end' AS key", "id", "0L AS v", "timestamp_seconds(1e6) AS at")
    events = rows.withColumn("at", at).union(last)
    events.coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(events.schema).parquet(str(tmp_path / "in"))
    window = F.window("at", "20 minutes") if held == "by window" else None
    period = {"every": "1 day", "clock": "event"} if held == "by period" else {}
    found = kss.streaming.apply(
        stream.withWatermark("at", "1 minute"),
        "key",
        part,
        "key string, total long",
        merge=merge,
        partial_schema="total long",
        window=window,
        plan=plan_by_id,
        **period,
    )
    name = f"applied_{held}".replace(" ", "_")
    run(found.writeStream.format("memory").queryName(name), tmp_path)
    found = spark.table(name)
    if window is not None:
        events = events.where("key IS NULL OR key <> 'end'")
    plain = events.groupBy(*([window] if window is not None else []), "key").agg(F.sum("v").alias("total"))
    assert same_rows(found, plain.select("key", "total"))


@pytest.mark.filterwarnings("ignore:key column 'key' of right")
def test_what_is_no_query_or_cannot_be_is_named_in_a_line(spark, rows, plan, tmp_path):
    for call in (lambda: kss.streaming.observe(rows), lambda: kss.streaming.publish(plan, rows)):
        with pytest.raises(TypeError, match=r"must be a streaming query.*, got .*DataFrame$"):
            call()
    with pytest.raises(ValueError, match=r"^weight must use only columns of df, got Column<'nope'>; df has"):
        kss.plan(rows, "key", 4, weight=F.col("nope"))
    with pytest.raises(TypeError, match=r"^spark must be a SparkSession, got DataFrame$"):
        kss.diagnose(rows)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(
        ValueError, match=r"^plan must be given for a streaming DataFrame: .* batch of its rows$"
    ):
        kss.streaming.route(stream, "value", plan=None)
    with pytest.raises(
        ValueError, match=r"^plan must be a Plan on Spark Connect, got an Adapt, which needs a"
    ):
        kss.streaming.route(stream, "nowhere", plan=kss.streaming.Adapt(4))
    drawn = rows.repartition(3).withColumn("key", F.rand().cast("string"))
    with pytest.raises(
        ValueError, match=r"^right must have the same rows .*: write right to files and read it"
    ):
        kss.join(rows, drawn, "key", plan=plan, way="broadcast")


def test_an_observer_bears_failures_and_ends_with_its_query(monkeypatch, recwarn):
    from keysplit.spark.streaming.engine import _Asking

    class Query:
        """Fails as often as the answers say, then has a report and has ended."""

        def __init__(self, fails):
            self.fails = fails

        @property
        def isActive(self):
            self.fails -= 1
            if self.fails >= 0:
                raise RuntimeError("no answer")
            return False

        recentProgress = ({"batchId": 7},)

    monkeypatch.setattr(_Asking, "_EVERY_S", 0.001)

    def observed(query, on_report):
        ended = threading.Event()
        _Asking(query, on_report, ended.set)
        assert ended.wait(60)

    found = []
    observed(Query(_Asking._ATTEMPTS - 1), found.append)
    assert [each.batch for each in found] == [7]
    assert not recwarn.list
    observed(Query(_Asking._ATTEMPTS), found.append)
    assert len(found) == 1
    assert "a query is no longer observed: RuntimeError: no answer" in str(recwarn.pop().message)


def observed(query):
    """Observe a query until three of its batches have ended, then stop it."""
    with kss.streaming.observe(query) as observer:
        for _ in range(600):
            if len(observer.history()) > 2:
                break
            query.awaitTermination(0.1)
        query.stop()
        assert observer.wait(60)
    return observer


def test_streaming_observe(spark, tmp_path):
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    observer = observed(writer.trigger(processingTime="200 milliseconds").start())
    found = observer.history()
    assert found.batch.tolist() == list(range(len(found)))
    assert (found.input_rows == 100).all()
    assert (found[["duration_s", "processed_rows_per_s"]] > 0).all(axis=None)
    assert found.plan.isna().all(), "it counts nothing per worker"


def test_only_functions_need_python_on_the_executors(spark, rows, no_python, tmp_path):
    plan = kss.plan(rows, "key", WORKERS)
    placed = kss.repartition(rows, "key", plan=plan)
    assert placed.filter("worker <> spark_partition_id()").count() == 0
    other = rows.select("key").distinct()
    joined = kss.join(rows, other, "key", plan=plan, way="place")
    assert joined.count() == rows.filter("key is not null").count()
    kss.write(rows, "key", workers=WORKERS).parquet(str(tmp_path / "out"))
    assert spark.read.parquet(str(tmp_path / "out")).count() == rows.count()
    assert kss.profile(rows, "key", WORKERS).top[0].key == "hot"
    assert kss.drift(plan, rows).moved == 0
    with pytest.raises(Exception, match="/there/is/no/python"):
        kss.apply(rows, "key", lambda group: group, rows.schema).collect()


def test_an_archive_brings_the_executors_their_python(spark, rows, conf, tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with tarfile.open(tmp_path / "environment.tar.gz", "w:gz") as archive:
        archive.add(python, "bin/python")
    spark.addArtifact(f"{tmp_path}/environment.tar.gz#environment", archive=True)
    conf("spark.sql.execution.pyspark.python", "environment/bin/python")
    assert same_rows(kss.apply(rows, "key", lambda group: group, rows.schema), rows)


def test_a_service_may_let_nobody_read_its_settings(monkeypatch, spark, rows, plan):
    def refuse(*_):
        raise AnalysisException("[CONFIG_NOT_AVAILABLE] Configuration is not available.")

    monkeypatch.setattr(type(spark.conf), "get", refuse)
    monkeypatch.setattr(type(spark.client), "config", refuse)
    assert kss.route(rows, "key", plan=plan).columns == [*rows.columns, "worker"]


def test_settings_are_read_together(monkeypatch, spark, tmp_path, conf):
    spark.range(99).selectExpr("id", "id % 3 AS key").write.parquet(str(tmp_path / "rows"))
    rows, other = spark.read.parquet(str(tmp_path / "rows")), spark.range(3).withColumnRenamed("id", "key")
    plan, asked = kss.plan(rows, "key", 4, grouping="w_choices"), []

    def config(client, operation):
        asked.append(operation)
        return read(client, operation)

    read = type(spark.client).config
    monkeypatch.setattr(type(spark.client), "config", config)
    operations = {
        "route": (1, lambda: kss.route(rows, "key", plan=plan)),
        "repartition": (1, lambda: kss.repartition(rows, "key", plan=plan)),
        "write": (2, lambda: kss.write(rows, "key", plan=plan)),
        "join": (2, lambda: kss.join(rows, other, "key", "full", plan=plan)),
    }
    for name, (most, operation) in operations.items():
        asked.clear()
        operation()
        assert 1 <= len(asked) <= most, name
    conf("spark.sql.files.ignoreMissingFiles", "true")
    with pytest.raises(ValueError, match="ignoreMissingFiles"):
        kss.join(rows, other, "key", plan=plan, way="broadcast")


def test_a_key_by_chance_is_warned_of(rows, recwarn):
    salted = rows.repartition(2).withColumn("salt", (F.rand() * 8).cast("int"))
    with pytest.warns(UserWarning, match=r"^key column 'salt' of df depends on rand downstream .* F.pmod"):
        kss.plan(salted, ["key", "salt"], WORKERS, row_id="id")
    recwarn.clear()
    for fine in (salted, rows.withColumn("key", F.expr("upper(key)"))):
        kss.plan(fine, "key", WORKERS, row_id="id")
    assert not recwarn.list


def test_online_is_refused(rows):
    with pytest.raises(TypeError, match=r"^df must come from a classic session; kss\.online does not"):
        kss.online.route(rows, "key", ks.DChoices(workers=WORKERS))


def test_a_collated_key_is_refused(rows):
    collated = rows.withColumn("key", F.expr("key collate utf8_lcase"))
    with pytest.raises(TypeError, match=r"^key must not be a collated string on Spark Connect"):
        kss.route(collated, "key", workers=WORKERS)
