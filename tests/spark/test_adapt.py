"""Plans that change while a stream runs: each micro-batch by one plan, also when it is attempted again."""

import hashlib
import json
import re
import threading
import time
import warnings
from zlib import crc32

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit.plan import PLANS, Plan, bucket_of, expected_loads, head_threshold, place
from keysplit.spark.expr import columns
from keysplit.spark.expr.hashes import plan_hash
from keysplit.spark.request import Options, check
from keysplit.spark.session import driver, session_of
from keysplit.spark.session.classic import Classic
from keysplit.spark.streaming import adapting as of_queries
from keysplit.spark.streaming import by_worker, current, rule, running
from keysplit.spark.streaming.adapting import Adapting, _folder_named, adapting_in
from keysplit.spark.streaming.drawn import Bounds
from keysplit.spark.streaming.drawn import read as rows_drawn
from keysplit.spark.streaming.following import Following
from keysplit.spark.streaming.learning import Batch, Memory
from keysplit.spark.streaming.log import MOST_BATCHES, Log
from keysplit.spark.streaming.speeds import Speeds
from keysplit.spark.streaming.tables import Tables, last_of
from keysplit_experiments.measured import driving

WORKERS, ROWS = 4, 3000


class Stream:
    """Files of rows, of which two in five have one key."""

    def __init__(self, spark, path):
        self.spark, self.path, self.files = spark, path, 0
        path.mkdir()

    def add(self, hot):
        values = range(self.files * ROWS, (self.files + 1) * ROWS)
        keys = (f"hot {hot}" if each % 5 < 2 else f"key {crc32(b'%d' % each) % 500}" for each in values)
        lines = (json.dumps({"value": value, "key": key}) for value, key in zip(values, keys, strict=True))
        part = self.path.parent / "part"
        part.write_text("\n".join(lines))
        part.rename(self.path / f"{self.files:03}.json")
        self.files += 1

    def read(self):
        reader = self.spark.readStream.schema("value bigint, key string").option("maxFilesPerTrigger", 1)
        return reader.json(str(self.path))

    def rows(self):
        return self.spark.read.schema("value bigint, key string").json(str(self.path))


@pytest.fixture
def stream(spark, tmp_path):
    return Stream(spark, tmp_path / "in")


class Busiest:
    """What each batch's busiest worker got, and which worker each row."""

    def __init__(self):
        self.batches = {}
        self.shares = {}

    def __call__(self, df, batch):
        rows = df.select("value", "key", "worker").toPandas()
        self.batches[batch] = rows
        if len(rows):
            self.shares[batch] = rows.worker.value_counts().max() * WORKERS / len(rows)


def start(df, found, checkpoint):
    return df.writeStream.foreachBatch(found).option("checkpointLocation", str(checkpoint)).start()


def versions_of(log):
    names = [each.name for each in log.iterdir()]
    plans = {int(name[5:-5]): Plan.load(log / name) for name in names if name.startswith("plan-")}
    return plans, versions_of_batches(log)


def versions_of_batches(log):
    return {int(each.name[6:-5]): json.loads(each.read_text())["plan"] for each in log.glob("batch-*.json")}


def learned(query, number):
    """Wait until the driver has learned from a batch."""
    query.processAllAvailable()
    for _ in range(600):
        found = adapting_in(str(query.runId))
        if found and any(each.batch == number for each in found[0].figures(str(query.runId))):
            return
        threading.Event().wait(0.1)
    raise TimeoutError(f"batch {number} was not heard of")


@pytest.mark.versions
def test_the_plan_follows_the_keys_and_a_restart(spark, stream, tmp_path):
    checkpoint, found = tmp_path / "checkpoint", Busiest()
    routed = kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt="auto")
    assert "changes while the stream runs" in kss.explain(routed)
    query = start(routed, found, checkpoint)
    try:
        for number in range(7):
            stream.add(hot=number // 4)
            learned(query, number)
    finally:
        query.stop()
    assert found.shares[0] > 1.4
    assert found.shares[4] > 1.4, "no plan knows the key that is hot from now on"
    assert max(found.shares[3], found.shares[6]) < 1.2

    plans, batches = versions_of(next((checkpoint / "keysplit").iterdir()))
    assert batches[0] == 0
    assert batches[4] < batches[6] <= max(plans)
    assert any(each.key == ("hot 1",) for each in plans[batches[6]].head)

    again = Busiest()
    stream.add(hot=1)
    query = start(kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt="auto"), again, checkpoint)
    query.processAllAvailable()
    query.stop()
    assert again.shares[7] < 1.2, "the plan is in the log"
    plans, batches = versions_of(next((checkpoint / "keysplit").iterdir()))
    assert batches[7] >= batches[6]

    # Each row of each batch is where the plan of the batch says.
    rows = stream.rows().cache()
    for number, each in {**found.batches, **again.batches}.items():
        expected = kss.route(rows, "key", plan=plans[batches[number]]).toPandas().set_index("value").worker
        assert (expected[each.value].to_numpy() == each.worker.to_numpy()).all()


def test_a_batch_goes_by_what_the_one_before_has_shown(spark, stream, tmp_path, monkeypatch):
    monkeypatch.setattr(Adapting, "learn", lambda self, run, number: None)  # no report ever comes
    for _ in range(3):
        stream.add(hot=0)
    checkpoint, found = tmp_path / "checkpoint", Busiest()
    query = start(kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt="auto"), found, checkpoint)
    query.processAllAvailable()
    query.stop()
    _, batches = versions_of(next((checkpoint / "keysplit").iterdir()))
    assert batches[0] == 0
    assert batches[1] == 1
    # The first went by a hash; the plan is made of some of its rows.
    assert found.shares[1] - 1 < (found.shares[0] - 1) / 2
    assert set(found.shares) == {0, 1, 2}


def test_two_queries_of_one_stream_learn_each_from_its_own_rows(spark, stream, tmp_path):
    routed = kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt="auto")
    found = [Busiest(), Busiest()]
    queries = [start(routed, each, tmp_path / f"checkpoint {at}") for at, each in enumerate(found)]
    try:
        for number in range(3):
            stream.add(hot=0)
            for query in queries:
                learned(query, number)
        figures = [adapting_in(str(each.runId))[0].figures(str(each.runId)) for each in queries]
    finally:
        for query in queries:
            query.stop()
    for seen, shown in zip(found, figures, strict=True):
        assert [each.batch for each in shown] == [0, 1, 2]
        for each in shown:
            counts = seen.batches[each.batch].worker.value_counts()
            # `foreachBatch` reads its rows once here, as `toPandas` does
            assert each.rows.tolist() == [counts.get(worker, 0) for worker in range(WORKERS)]


@pytest.mark.versions
def test_what_an_attempt_has_counted_that_failed_counts_for_nothing(spark, stream, tmp_path):
    routed = kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt="auto")
    for number in range(2):
        stream.add(hot=number)
    found, failed = Busiest(), []

    def fails_once(df, batch):
        found(df, batch)
        if batch == 1 and not failed:
            failed.append(batch)
            raise RuntimeError("after all its rows were counted")

    with pytest.raises(StreamingQueryException):
        start(routed, fails_once, tmp_path / "c").processAllAvailable()
    query = start(routed, fails_once, tmp_path / "c")
    try:
        learned(query, 1)
        shown = adapting_in(str(query.runId))[0].figures(str(query.runId))
    finally:
        query.stop()
    assert [each.batch for each in shown] == [1]
    assert shown[0].rows.sum() == ROWS


def test_a_run_whose_end_is_reported_late_is_over_when_the_next_one_begins(
    spark, stream, tmp_path, monkeypatch
):
    routed = kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt="auto")
    late, ended = [], Adapting.ended
    monkeypatch.setattr(Adapting, "ended", lambda *of: late.append(of))
    stream.add(hot=0)
    first = start(routed, Busiest(), tmp_path / "c")
    learned(first, 0)
    first.stop()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    assert late
    assert len(adapting_in(str(first.runId))) == 1
    monkeypatch.setattr(Adapting, "ended", ended)
    names = []

    def reports_late(df, batch):
        names.append(of_queries.plans_in(driver.query_of(df.sparkSession)[1], batch))
        df.write.format("noop").mode("overwrite").save()
        ended(*late[0])  # while the driver has not yet learned from this batch

    stream.add(hot=1)
    query = routed.writeStream.foreachBatch(reports_late)
    query = query.option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        learned(query, 1)
        shown = adapting_in(str(query.runId))[0].figures(str(query.runId))
        assert adapting_in(str(first.runId)) == []
    finally:
        query.stop()
    assert [each.rows.sum() for each in shown] == [ROWS]
    plans, batches = versions_of(next((tmp_path / "c" / "keysplit").iterdir()))
    assert names == [hashlib.sha256(plans[batches[1]].to_json().encode()).hexdigest()[:16]]


def test_what_is_frequent_follows_the_workers_of_the_plan(spark, stream, tmp_path):
    stream.add(hot=0)
    plan = kss.plan(stream.rows(), "key", 16)
    df = kss.streaming.repartition(stream.read(), "key", plan=plan, adapt=kss.streaming.Adapt(gain=1e9))
    for published in (plan.with_workers(2), plan):
        stream.add(hot=0)
        query = start(df, Busiest(), tmp_path / "c")
        try:
            query.processAllAvailable()
            kss.streaming.publish(published, query)
            stream.add(hot=0)
            query.processAllAvailable()
            (adapting,) = adapting_in(str(query.runId))
            memory = adapting._runs[str(query.runId)]._memory
            assert memory.threshold == head_threshold(published.grouping)
        finally:
            query.stop()


def test_settings_with_which_no_plan_can_be_asked_for_are_refused(stream, conf, monkeypatch):
    conf("spark.sql.optimizer.excludedRules", driver._NEEDED)
    with pytest.raises(ValueError, match=r"^spark.sql.optimizer.excludedRules must not exclude "):
        kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt="auto")
    conf("spark.sql.optimizer.excludedRules", "")
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    with pytest.raises(ValueError, match=r"^PYSPARK_PIN_THREAD must not be 'false'"):
        kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt="auto")


def test_a_batch_waits_for_a_report_where_times_are_measured_but_not_for_ever(
    spark, stream, tmp_path, monkeypatch
):
    monkeypatch.setattr(running, "_WAIT", 1e9)
    monkeypatch.setattr(running, "_LONGEST_WAIT_S", 3.0)
    waited, learn_once = [], running.Running._learn_once

    def seen(self, number):
        waited.append((number, self._reported))
        learn_once(self, number)

    monkeypatch.setattr(running.Running, "_learn_once", seen)
    learn = Adapting.learn
    monkeypatch.setattr(Adapting, "learn", lambda self, run, number: number == 0 and learn(self, run, number))
    for _ in range(3):
        stream.add(hot=0)
    adapt = kss.streaming.Adapt(capacities="measured")
    routed = kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt=adapt)
    query = start(routed, Busiest(), tmp_path / "checkpoint")
    query.processAllAvailable()
    query.stop()
    # the report of the first has come by the time that the second is planned, that of the second never does
    assert (0, 0) in waited
    assert waited[-1] == (1, 0)


def test_a_batch_that_is_attempted_again_goes_by_the_plan_of_its_first_attempt(spark, stream, tmp_path):
    checkpoint, seen = tmp_path / "checkpoint", []
    stream.add(hot=0)
    plan = kss.plan(stream.rows(), "key", WORKERS)
    other = kss.plan(stream.rows(), "key", WORKERS, "key")
    never = kss.streaming.Adapt(gain=100.0, log=tmp_path / "log")

    def fail(df, batch):
        seen.append((batch, df.select("value", "worker").toPandas()))
        raise RuntimeError("an attempt")

    query = start(kss.streaming.route(stream.read(), "key", plan=plan, adapt=never), fail, checkpoint)
    with pytest.raises(Exception, match="an attempt"):
        query.awaitTermination(120)
    Log(tmp_path / "log").publish(other)
    stream.add(hot=0)
    found = Busiest()
    query = start(kss.streaming.route(stream.read(), "key", plan=plan, adapt=never), found, checkpoint)
    query.processAllAvailable()
    query.stop()
    ((number, first),) = seen
    assert number == 0
    first, second = (each.set_index("value").worker.sort_index() for each in (first, found.batches[0]))
    assert first.equals(second)
    assert versions_of(tmp_path / "log")[1] == {0: 0, 1: 1}
    expected = kss.route(stream.rows(), "key", plan=other).toPandas().set_index("value").worker
    assert (expected[found.batches[1].value].to_numpy() == found.batches[1].worker.to_numpy()).all()


def test_weights_are_balanced(spark, stream, tmp_path):
    found = {}

    def weigh(df, batch):
        rows = df.groupBy("worker").agg(F.sum("weight").alias("weight")).toPandas()
        found[batch] = rows.weight.max() * WORKERS / rows.weight.sum()

    heavy = stream.read().withColumn("key", F.expr("IF(value % 5 = 4, 'heavy', key)"))
    df = heavy.withColumn("weight", F.expr("IF(key = 'heavy', 10, 1)"))
    routed = kss.streaming.route(df, "key", workers=WORKERS, adapt="auto", weight="weight", row_id="value")
    query = routed.writeStream.foreachBatch(weigh).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        for number in range(3):
            stream.add(hot=0)
            learned(query, number)
    finally:
        query.stop()
    assert found[0] > 2
    assert found[2] < 1.3


def test_a_plan_made_by_weight_goes_on_by_weight(spark, stream):
    stream.add(hot=0)
    by_weight = {"weight": "value", "row_id": "value"}
    plan = kss.plan(stream.rows(), "key", WORKERS, **by_weight)
    routed = kss.streaming.route(stream.read(), "key", plan=plan, adapt="auto", **by_weight)
    assert "changes while the stream runs" in kss.explain(routed)
    for options, name in (({}, "weight"), ({"adapt": "auto", "capacities": [1] * WORKERS}, "capacities")):
        with pytest.raises(ValueError, match=f"^{name} must be left out with a plan, which has been made"):
            kss.streaming.route(stream.read(), "key", plan=plan, **by_weight, **options)


def test_rows_are_placed(spark, stream, tmp_path):
    found = []

    def look(df, batch):
        found.append(df.filter("worker != spark_partition_id()").count())
        found.append(df.rdd.getNumPartitions() - WORKERS)

    placed = kss.streaming.repartition(stream.read(), "key", workers=WORKERS, adapt="auto")
    stream.add(hot=0)
    stream.add(hot=0)
    query = placed.writeStream.foreachBatch(look).option("checkpointLocation", str(tmp_path / "c")).start()
    query.processAllAvailable()
    query.stop()
    assert found == [0, 0, 0, 0]


def test_a_hot_partition_is_written_by_several_tasks(spark, stream, tmp_path):
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "c")
    df = stream.read().withColumn("key", F.expr("IF(key LIKE 'hot%', key, 'other')"))
    writer = kss.streaming.write(df, "key", workers=WORKERS, adapt="auto")
    assert "changes while the stream runs" in kss.explain(writer)
    query = writer.option("checkpointLocation", checkpoint).format("json").start(out)
    try:
        for number in range(3):
            stream.add(hot=0)
            learned(query, number)
    finally:
        query.stop()
    written = spark.read.json(out)
    assert sorted(each.value for each in written.collect()) == list(range(3 * ROWS))
    assert "worker" not in written.columns
    hot = list((tmp_path / "out" / "key=hot 0").glob("*.json"))
    assert len(hot) > 3, "one file a batch before it is split"
    with pytest.raises(ValueError, match="df must be a streaming DataFrame, got a batch"):
        kss.streaming.write(stream.rows(), "key", workers=WORKERS)


def test_arguments_are_checked_before_a_query_starts(spark, stream, tmp_path):
    stream.add(hot=0)
    rows = stream.rows()
    for options, message in (
        ({"adapt": "often"}, "adapt must be 'auto', an Adapt or None, got 'often'"),
        ({"adapt": "auto"}, "workers must be given with grouping='d_choices': a number in 1..=65536"),
        ({"workers": 2}, "plan must be given for a streaming DataFrame"),
        ({"adapt": "auto", "workers": 2, "engine": "rust"}, "engine must be 'columns' or None with adapt"),
    ):
        with pytest.raises((TypeError, ValueError), match=re.escape(message)):
            kss.streaming.route(stream.read(), "key", **options)
    missing = str(tmp_path / "typo.json")
    for options in ({}, {"workers": 2, "adapt": "auto"}):
        with pytest.raises(FileNotFoundError, match=f"^plan must be the path .*, got '{missing}': kss.plan"):
            kss.streaming.route(stream.read(), "key", plan=missing, **options)
    with pytest.raises(ValueError, match="adapt must be None for a batch"):
        kss.streaming.route(rows, "key", workers=2, adapt="auto")


def test_loads_of_a_plan_and_of_those_that_follow_are_of_one_unit(spark, stream):
    rows = spark.range(100).selectExpr("CAST(id % 5 AS string) AS key", "id AS value")
    weighted = kss.plan(rows, "key", WORKERS, weight="value", sample=1)
    even = kss.plan(rows, "key", WORKERS, sample=1)
    unit = "weight must be with adapt that of the plan, the weight that it was made by, got None"
    with pytest.raises(ValueError, match=f"^{unit}"):
        kss.streaming.route(stream.read(), "key", plan=weighted, adapt="auto")
    with pytest.raises(
        ValueError,
        match=r"^weight must be with adapt that of the plan, None, as it balances rows, got 'value'",
    ):
        kss.streaming.route(stream.read(), "key", plan=even, adapt="auto", weight="value")
    assert kss.streaming.route(stream.read(), "key", plan=weighted, adapt="auto", weight="value").isStreaming


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decay": 1.5}, "decay must be at least 0 and up to 1, got 1.5"),
        ({"decay": "a"}, "decay must be a number, got 'a'"),
        ({"gain": 0}, "gain must be above 0 and finite, got 0"),
        ({"copy_cost": float("nan")}, "copy_cost must be at least 0 and finite, got nan"),
        ({"horizon": 0}, "horizon must be at least 1, got 0"),
        ({"every": 1.5}, "every must be a whole number, got 1.5"),
        ({"sample": 1}, "sample must be at least 100, got 1"),
        ({"capacities": [1]}, "capacities must be a function, 'measured' or None, got [1]"),
        (
            {"capacities": np.array([1, 2])},
            "capacities must be a function, 'measured' or None, got array([1, 2])",
        ),
        ({"log": 3}, "log must be a path or URL, got 3"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        kss.streaming.Adapt(**options)


def test_a_plan_of_other_keys_is_refused(stream, tmp_path):
    stream.add(hot=0)
    Log(tmp_path / "log").publish(kss.plan(stream.rows(), "value", WORKERS))
    adapt = kss.streaming.Adapt(log=tmp_path / "log")
    with pytest.raises(ValueError, match=r"^version 0 in the plan log '.*' must be for keys of .*the query"):
        kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt=adapt)


def test_a_log_is_of_one_query(stream, tmp_path, caplog):
    stream.add(hot=0)
    adapt = kss.streaming.Adapt(log=tmp_path / "log")
    routed = kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt=adapt)
    for checkpoint, fails in (("a", False), ("a", False), ("b", True)):
        query = start(routed, Busiest(), tmp_path / checkpoint)
        try:
            if fails:
                with pytest.raises(StreamingQueryException) as raised:
                    query.awaitTermination(120)
                first = str(raised.value).splitlines()[0]
                assert "ValueError: adapt must have a log of its own for each query, got '" in first
                assert "user defined function" not in first
            else:
                query.processAllAvailable()
        finally:
            query.stop()
    assert "adapt must have a log of its own for each query" in caplog.text


def test_a_session_keeps_no_function_but_that_of_the_last_query(spark, stream, tmp_path):
    def names():
        listed = spark._jsparkSession.sessionState().functionRegistry().listFunction().mkString(" ")
        return {name for name in listed.split() if "keysplit" in name}

    before = names()
    stream.add(hot=0)
    for _ in range(3):
        df = kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt="auto")
    assert len(names() - before) == 1
    table = spark.range(WORKERS).selectExpr("CAST(id AS INT) AS worker", "id AS n")
    found = Busiest()
    query = start(df.join(table, "worker").filter("n >= 0"), found, tmp_path / "c")  # Spark looks at it anew
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert len(found.batches[0]) == ROWS


def test_a_version_that_cannot_be_taken_is_passed_over(spark, stream, tmp_path, recwarn):
    stream.add(hot=0)
    adapt, found = kss.streaming.Adapt(gain=100.0, log=tmp_path / "log"), Busiest()
    df = kss.streaming.route(stream.read(), "key", workers=WORKERS, grouping="fish", adapt=adapt)
    warnings.simplefilter("always")
    query = start(df, found, tmp_path / "c")
    try:
        query.processAllAvailable()
        (tmp_path / "log" / "plan-1.json").write_text("{}")
        stream.add(hot=0)
        query.processAllAvailable()
        kss.plan(stream.rows(), "key", 2).save(tmp_path / "log" / "plan-2.json")
        stream.add(hot=0)
        learned(query, 2)
    finally:
        query.stop()
    assert versions_of_batches(tmp_path / "log") == {0: 0, 1: 0, 2: 2}
    assert [str(each.message)[:9] for each in recwarn].count("version 1") == 1
    assert not [each for each in recwarn if "was not changed" in str(each.message)]
    with pytest.raises(ValueError, match=r"to must be a query or the folder of its plan log, got .*in'"):
        kss.streaming.publish(kss.plan(stream.rows(), "key", 2), str(tmp_path / "in"))


def test_a_restart_takes_the_newest_version_that_fits(spark, stream, tmp_path, recwarn, caplog):
    """What a running query passes over does not keep it from starting again."""
    warnings.simplefilter("always")
    log, found = tmp_path / "log", Busiest()
    stream.add(hot=0)
    plan = kss.plan(stream.rows(), "key", WORKERS)
    adapt = kss.streaming.Adapt(gain=100.0, log=log)

    def run(plan):
        df = kss.streaming.repartition(stream.read(), "key", plan=plan, adapt=adapt)
        query = start(df, found, tmp_path / "c")
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    run(plan)
    plan.with_workers(WORKERS + 1).save(log / "plan-1.json")
    (log / "plan-2.json").write_text("{}")
    stream.add(hot=0)
    run(plan)
    plan.with_workers(2).save(log / "plan-3.json")
    stream.add(hot=0)
    run(plan)
    assert versions_of_batches(log) == {0: 0, 1: 0, 2: 3}
    passed = [str(each.message) for each in recwarn if "was passed over" in str(each.message)]
    assert {each[:9] for each in passed} == {"version 1", "version 2"}

    # a batch that was begun by more workers than there are now
    Log(log).version_of(3, 0)
    stream.add(hot=0)
    with pytest.raises(StreamingQueryException):
        run(plan.with_workers(2))
    assert "at most the 2 workers of the query, whose batch 3 it has begun, got one for 4" in caplog.text
    run(plan)
    assert versions_of_batches(log)[3] == 0
    only = tmp_path / "only"
    only.mkdir()
    plan.with_workers(WORKERS + 1).save(only / "plan-0.json")
    with pytest.raises(
        ValueError,
        match=r"^version 0 in the plan log '.*' must be for at most the 4 workers of the query, got one",
    ):
        kss.streaming.route(stream.read(), "key", plan=plan, adapt=kss.streaming.Adapt(log=only))


@pytest.mark.parametrize(
    "changed", [{"workers": WORKERS + 2}, {"workers": WORKERS - 1}, {"grouping": "w_choices"}], ids=str
)
def test_a_restart_with_what_the_plan_log_has_not_warns(stream, tmp_path, changed):
    """A restart for fewer workers is refused only if no version is for so few."""

    def run(**changes):
        settings = {"workers": WORKERS, "grouping": "d_choices", "adapt": kss.streaming.Adapt(gain=100.0)}
        df = kss.streaming.repartition(stream.read(), "key", **(settings | changes))
        query = start(df, Busiest(), tmp_path / "c")
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    stream.add(hot=0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run()
        run()
    assert [str(each.message) for each in seen if "plan log" in str(each.message)] == []
    if changed.get("workers", WORKERS) < WORKERS:
        log = next((tmp_path / "c" / "keysplit").iterdir())
        Plan.load(log / "plan-0.json").with_workers(WORKERS - 2).save(log / "plan-1.json")
    stream.add(hot=0)
    with pytest.warns(
        UserWarning, match=r"^the stream goes on by version \d of its plan log, for "
    ) as warned:
        run(**changed)
    (message,) = [str(each.message) for each in warned if "goes on by version" in str(each.message)]
    asked = ks.GROUPINGS[changed.get("grouping", "d_choices")](workers=changed.get("workers", WORKERS))
    assert f"although this start asks for {asked!r}: publish such a plan" in message


def test_a_query_gets_more_workers_at_a_restart(spark, stream, tmp_path):
    stream.add(hot=0)
    found, plan = Busiest(), kss.plan(stream.rows(), "key", 2)
    for workers in (2, 5):
        first = plan.with_workers(workers)
        df = kss.streaming.repartition(
            stream.read(), "key", plan=first, adapt=kss.streaming.Adapt(gain=100.0)
        )
        query = start(df, found, tmp_path / "c")
        try:
            query.processAllAvailable()
            stream.add(hot=0)
            query.processAllAvailable()
            if workers == 5:
                kss.streaming.publish(first, query)
                stream.add(hot=0)
                query.processAllAvailable()
        finally:
            query.stop()
    assert [found.batches[at].worker.nunique() for at in range(4)] == [2, 2, 2, 5]


def test_a_log_that_is_out_of_reach_for_a_moment_stops_no_query(
    spark, stream, tmp_path, monkeypatch, recwarn
):
    warnings.simplefilter("always")
    refreshes, found = [], Busiest()

    def refresh(self):
        refreshes.append(self)
        raise OSError("out of reach")

    monkeypatch.setattr(Log, "refresh", refresh)
    stream.add(hot=0)
    query = start(
        kss.streaming.route(stream.read(), "key", workers=WORKERS, adapt="auto"), found, tmp_path / "c"
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert refreshes
    assert 0 in found.batches
    assert [
        each for each in recwarn if "a stream's plan log could not be read: out of reach" in str(each.message)
    ]


def test_a_damaged_record_is_not_pruned_but_passed_over(tmp_path, recwarn):
    warnings.simplefilter("always")
    log = Log(tmp_path)
    for batch in range(MOST_BATCHES + 1):
        log.version_of(batch, 0)
    (tmp_path / "batch-1.json").write_text("")
    Log(tmp_path).prune()
    assert "was not pruned" in str(recwarn.pop().message)


def test_rows_that_a_plan_has_placed_are_said_to_be_so(spark, stream):
    """Not to be placed by a function that nobody knows, which could be trusted."""
    stream.add(hot=0)
    one, two = (spark.range(9).selectExpr("CAST(id AS STRING) AS key", f"id AS {name}") for name in "ab")
    by = {"workers": WORKERS, "adapt": "auto", "force": True}
    placed = kss.streaming.join(stream.read(), one, "key", **by)
    with pytest.raises(ValueError, match="a plan that changes while the stream runs") as raised:
        kss.streaming.join(placed, two, "key", **by)
    assert "trust" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"plan": "1"}', '{"plan": true, "query": true}'])
def test_a_damaged_record_is_named_with_the_remedy(tmp_path, text):
    (tmp_path / "batch-3.json").write_text(text)
    message = (
        r"the plan log must hold whole records, got '.*batch-3\.json' with .*: move the folder of the log"
    )
    with pytest.raises(ValueError, match=message):
        Log(tmp_path).version_of(3, 0)
    (tmp_path / "query.json").write_text(text)
    with pytest.raises(ValueError, match=r"got '.*query\.json' with"):
        Log(tmp_path).claim("a query")


def test_a_damaged_plan_is_named_with_the_remedy(spark, stream, tmp_path, recwarn):
    plan = kss.plan(spark.range(100).selectExpr("id AS key", "id AS value"), "key", WORKERS)
    log = Log(tmp_path)
    for _ in range(2):
        log.publish(plan)
    (tmp_path / "plan-1.json").write_text("")
    assert log.newest(plan) == (0, plan)
    assert re.search(r"version 1 .* got '.*plan-1\.json': .*: move the folder", str(recwarn.pop().message))
    with pytest.raises(ValueError, match=r"^the plan log must hold whole plans, got '.*plan-1\.json': "):
        log.plan(1)
    with pytest.raises(FileNotFoundError, match=r"plan-7\.json' is gone: move the folder of the log"):
        log.plan(7)
    gone = Log(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileNotFoundError, match=r"must stay where it is, '.*gone' is gone: start the"):
        gone.version_of(3, 0)


def test_a_relative_log_is_in_the_folder_of_the_call(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = spark.readStream.format("rate").load().selectExpr("value AS key")
    request = check(rows, "key", Options(workers=4, adapt=kss.streaming.Adapt(log="log")))
    assert request.adapt.log == str(tmp_path / "log")


@pytest.mark.parametrize("wrong", ["NaN", "Infinity", "-5.0", "1e300"])
def test_a_wrong_weight_teaches_nothing_but_the_others_do(spark, wrong):
    rows = spark.range(300).selectExpr(
        "IF(id % 2 = 0, 'hot', CAST(id AS STRING)) AS key",
        "id AS value",
        f"IF(id = 5, CAST('{wrong}' AS DOUBLE), 2.0) AS w",
    )
    request = check(rows, "key", Options(workers=WORKERS, row_id="value", weight="w"))
    read = all_drawn(rows, request, kss.plan(rows, "key", WORKERS, row_id="value"))
    assert len(read.hashes) == 300
    kept = read.without_wrong_weights()
    assert (kept.weights == 2).all()
    assert len(kept.hashes) == len(kept.repeats) == len(kept.weights) == 299


def test_a_log_of_many_keys_has_a_short_name():
    assert _folder_named("worker-key") == "worker-key"
    names = {_folder_named("worker-" + "a long name of a key " * 20 + end) for end in ("a", "b")}
    assert len(names) == 2
    assert max(map(len, names)) < 100


def test_workers_come_and_go_while_the_stream_runs(spark, stream, tmp_path):
    stream.add(hot=0)
    plan, found = kss.plan(stream.rows(), "key", WORKERS), Busiest()
    adapt = kss.streaming.Adapt(gain=100.0)
    df = kss.streaming.repartition(stream.read(), "key", plan=plan, adapt=adapt)
    query = start(df, found, tmp_path / "c")
    try:
        query.processAllAvailable()
        for number, each in enumerate([plan.with_workers(2), plan.with_workers(3, [1, 2, 1]), plan]):
            assert kss.streaming.publish(each, query) == number + 1
            stream.add(hot=0)
            query.processAllAvailable()
        with pytest.raises(
            ValueError,
            match=r"at most the 4 workers of the query, got one for 5: begin the query with workers=5$",
        ):
            kss.streaming.publish(plan.with_workers(5), query)
    finally:
        query.stop()
    assert [sorted(set(found.batches[at].worker)) for at in range(4)] == [
        [0, 1, 2, 3],
        [0, 1],
        [0, 1, 2],
        [0, 1, 2, 3],
    ]
    shares = found.batches[2].worker.value_counts(normalize=True)
    assert shares[1] == pytest.approx(0.5, abs=0.1)
    with pytest.raises(ValueError, match="to must be a query that runs, got one that has stopped"):
        kss.streaming.publish(plan, query)
    log = next((tmp_path / "c" / "keysplit").iterdir())
    assert kss.streaming.publish(plan.with_workers(2), log) == 4
    with pytest.raises(TypeError, match="to must be a streaming query, or the folder of a plan log, got int"):
        kss.streaming.publish(plan, 3)


@pytest.mark.parametrize("workers", [1, 3, 100, 1000])
def test_a_plan_for_other_workers_is_of_the_same_rows(spark, workers):
    rows = spark.range(20_000).selectExpr(
        "IF(id % 3 = 0, 'hot', 'key ' || pmod(hash(id), 4000)) AS key", "id"
    )
    plan = kss.plan(rows, "key", 8, row_id="id", sample=1)
    other = plan.with_workers(workers)
    assert (other.workers, other.total, other.row_id) == (workers, plan.total, plan.row_id)
    assert other.loads.sum() == pytest.approx(plan.total)
    counts = kss.route(rows, "key", plan=other).groupBy("worker").count().toPandas()["count"]
    assert counts.max() < 1.3 * 20_000 / workers + 60
    if workers > 8:  # buckets are of the same keys
        summary = other.summary.with_buckets(12)
        assert summary.buckets == pytest.approx(plan.buckets)


@pytest.fixture
def plan(spark):
    return kss.plan(spark.range(100).selectExpr("id % 7 as key"), "key", 2)


def test_the_first_record_of_a_batch_stays(tmp_path, plan):
    log = Log(tmp_path / "log")
    assert log.last is None
    assert [log.publish(plan), log.publish(plan)] == [0, 1]
    assert log.version_of(5, 0) == 0
    assert log.version_of(5, 1) == 0
    again = Log(tmp_path / "log")
    assert again.last == 1
    assert again.version_of(5, 1) == 0
    assert again.plan(1) == plan


def test_two_drivers_publish_two_versions(tmp_path, plan):
    one, two = Log(tmp_path / "log"), Log(tmp_path / "log")
    assert [one.publish(plan), two.publish(plan), one.publish(plan)] == [0, 1, 2]
    two.refresh()
    assert two.last == 2


def test_a_number_of_a_version_is_given_out_once(tmp_path, plan):
    log = Log(tmp_path)
    assert [log.publish(plan) for _ in range(3)] == [0, 1, 2]
    log.version_of(7, 2)
    (tmp_path / "plan-2.json").unlink()
    assert Log(tmp_path).publish(plan) == 3  # after a restart
    (tmp_path / "plan-3.json").unlink()
    log.refresh()
    assert log.publish(plan) == 3  # no batch goes by it
    (tmp_path / "plan-3.json").unlink()
    log.refresh()
    assert log.publish(plan) == 4  # this query may
    assert log.version_of(7, 4) == 2
    with pytest.raises(FileNotFoundError, match=r"plan-2\.json' is gone"):
        log.plan(2)


def test_old_records_are_deleted(tmp_path, plan):
    log = Log(tmp_path / "log")
    for batch in range(MOST_BATCHES + 10):
        if batch % 20 == 0:
            log.publish(plan)
        log.version_of(batch, batch // 20)
        log.prune()
    plans, batches = versions_of(tmp_path / "log")
    assert sorted(batches) == list(range(10, MOST_BATCHES + 10))
    assert set(batches.values()) <= set(plans)
    for batch in range(MOST_BATCHES + 10, MOST_BATCHES + 60):
        log.version_of(batch, 5)
        log.prune()
    assert sorted(versions_of(tmp_path / "log")[0]) == [3, 4, 5]


def test_an_older_version_in_use_is_not_deleted(tmp_path, plan):
    """A query that is started for fewer workers takes the newest plan for so few."""
    log = Log(tmp_path / "log")
    for _ in range(4):
        log.publish(plan)
    log.version_of(0, 3)
    for batch in range(1, MOST_BATCHES + 20):
        log = Log(tmp_path / "log") if batch == 50 else log
        log.version_of(batch, 3 if batch < 40 else 1)
        log.prune()
    assert sorted(versions_of(tmp_path / "log")[0]) == [1, 2, 3]


def batch(number, keys, chance=1.0, weights=None):
    hashes = np.asarray(keys, np.int64) * 0x1E3779B97F4A7C15
    weights = np.ones(len(keys)) if weights is None else weights
    return Batch(number, np.zeros(4, np.int64), hashes, weights, np.full(len(keys), 1 / chance))


def test_memory_adds_up_what_it_was_given():
    rng = np.random.default_rng(1)
    memory = Memory(12, 0.02, 1.0)
    given = [rng.zipf(1.5, 4000) % 1000 for _ in range(3)]
    for number, keys in enumerate(given):
        memory.add(batch(number, keys))
    keys, counts = np.unique(np.concatenate(given), return_counts=True)
    hashes = keys * 0x1E3779B97F4A7C15
    summary = memory.summary()
    frequent = counts >= 0.02 * counts.sum()
    assert dict(zip(summary.hashes.tolist(), summary.counts.tolist(), strict=True)) == dict(
        zip(hashes[frequent].tolist(), counts[frequent].astype(float).tolist(), strict=True)
    )
    assert (np.diff(summary.counts) <= 0).all()
    assert summary.buckets.tolist() == np.bincount(bucket_of(hashes, 12), counts, minlength=4096).tolist()
    assert memory.total == 12_000
    assert memory.effective == 12_000


def test_memory_fades_and_estimates_are_unbiased():
    memory = Memory(12, 0.02, 0.5)
    memory.add(batch(0, [1, 1, 2, 2] * 100, chance=0.1))
    memory.add(batch(1, [1, 1, 2, 2] * 100, chance=0.05))
    summary = memory.summary()
    assert summary.counts.tolist() == [200 * 10 * 0.5 + 200 * 20] * 2
    assert summary.sample.effective == pytest.approx(10_000**2 / (400 * 100 * 0.25 + 400 * 400))


def test_memory_keeps_what_keys_had_before_others_became_frequent():
    memory, rare = Memory(12, 0.02, 0.5), list(range(10, 610))
    for number in range(5):
        memory.add(batch(number, [1] * 400 + rare))
    assert memory.total == 1000 * (1 - 0.5**5) / 0.5
    memory.add(batch(5, [2] * 400 + rare))
    assert memory.total == 1000, "loads are those of the rows since the keys have changed"
    summary, whole = memory.summary(), 2000 * (1 - 0.5**6)
    kept = 400 * (whole - 1000) / whole
    hashes = np.array([2, 1]) * 0x1E3779B97F4A7C15
    assert summary.hashes.tolist() == hashes.tolist()
    assert summary.counts.tolist() == pytest.approx([400, kept])
    assert summary.total == pytest.approx(1000 + kept)
    expected = np.bincount(bucket_of(np.array(rare) * 0x1E3779B97F4A7C15, 12), minlength=4096).astype(float)
    np.add.at(expected, bucket_of(hashes, 12), [400, kept])
    assert summary.buckets == pytest.approx(expected)
    for number in range(6, 12):
        memory.add(batch(number, [2] * 400 + rare))
    assert len(memory.summary().hashes) == 1, "what does not come back fades"


def test_memory_that_does_not_decay_forgets_nothing():
    memory, rare = Memory(12, 0.02, 1.0), list(range(10, 610))
    for number in range(20):
        memory.add(batch(number, [number % 5] * 400 + rare))
    assert memory.total == 20_000
    assert memory.summary().counts.tolist() == [1600.0] * 5


@pytest.mark.parametrize("decay", [0.5, 1])
@pytest.mark.parametrize("turns", ["A, B in turn", "A, B, C in turn", "A, A, B, B", "four batches each"])
def test_keys_that_take_turns_stay_split(turns, decay):
    shown = driving.driven(driving.turning(driving.TURNS[turns], 24), kss.streaming.Adapt(decay=decay))
    versions = {id(each.plan) for each in shown}
    assert len(versions) <= 4, "the first plan, and one for each key"
    assert max(each.busiest for each in shown[5:]) < 1.3


def test_keys_that_do_not_come_back_cost_no_balance():
    shown = driving.driven(driving.drifting(8, 24), kss.streaming.Adapt())
    settled = [each.busiest for number, each in enumerate(shown) if number % 8 > 2]
    assert np.mean(settled) < 1.15


def test_what_chance_explains_changes_nothing():
    rng = np.random.default_rng(3)
    memory = Memory(12, 0.02, 1.0)
    for number in range(200):
        memory.add(batch(number, rng.zipf(1.4, 500) % 300))
    assert memory.total == 100_000


def test_rows_that_stand_for_more_count_for_more():
    memory, following = Memory(12, 0.02, 0.5), Following(ks.Fish(workers=4))
    hashes, repeats = np.array([1, 2, 2], np.int64), np.array([40.0, 10.0, 10.0])
    some = Batch(0, np.zeros(4, np.int64), hashes, np.array([1.0, 1.0, 2.0]), repeats)
    memory.add(some)
    assert memory.total == 40 + 10 + 20
    following.add(some, np.zeros(0), np.ones(4))
    assert following._router.loads.sum() == 4 + 1 + 2


def test_empty_batches_change_nothing():
    memory = Memory(12, 0.02, 0.5)
    memory.add(batch(0, []))
    assert memory.summary().total == 0
    memory.add(batch(1, [1] * 100))
    memory.add(batch(2, []))
    assert memory.total == 100


@pytest.mark.parametrize(
    ("loads", "speeds", "least", "most"),
    [
        ([10_000, 10_000], [1, 1], -0.1, 0.0),
        ([15_000, 5_000], [1, 1], 0.45, 0.5),
        ([15_000, 5_000], [3, 1], -0.1, 0.0),
        ([3, 1], [1, 1], -1.0, 0.0),
        ([0, 0], [1, 1], 0.0, 0.0),
    ],
)
def test_the_excess_is_what_chance_does_not_explain(loads, speeds, least, most):
    assert least <= rule.excess(np.array(loads, float), np.array(speeds, float)) <= most


def test_a_change_is_worth_what_it_saves(spark):
    rows = spark.range(10_000).selectExpr("IF(id % 2 = 0, 0, id) AS key", "id")
    current, new = (kss.plan(rows, "key", 4, name, row_id="id") for name in ("key", "w_choices"))
    change = rule.change(current, new, new.summary, 10_000.0)
    assert change.fair == 2500
    assert change.gain == pytest.approx((current.busiest - new.busiest) * 2500)
    assert 3 <= 4 * change.cost <= 5003  # the copies of key 0, and the rare keys that move, per worker
    assert change.pays(kss.streaming.Adapt())
    assert not change.pays(kss.streaming.Adapt(gain=4.0))
    assert not change.pays(kss.streaming.Adapt(copy_cost=1e6))
    assert not rule.change(new, new, new.summary, 10_000.0).pays(kss.streaming.Adapt())


def test_a_slow_worker_gets_less(spark, stream, tmp_path, monkeypatch):
    found, adapt, measured = Busiest(), kss.streaming.Adapt(capacities="measured"), []

    def slowly(df, batch):
        """Every tenth row takes a millisecond: Spark counts whole ones."""
        sleep = "IF(value % 10 = 0, reflect('java.lang.Thread', 'sleep', 1L), NULL) AS slept"
        found(df.selectExpr("*", sleep).where("slept IS NULL OR slept != ''"), batch)

    def times(self, run, batch, tasks):
        """What is measured, and in its place 1 ms per row, four times as long on worker 2."""
        for _ in range(600):  # Spark's record of the tasks may come later than that of the batch
            result = task_times(self, run, batch, tasks)
            if result and sum(result) > 0:
                break
            time.sleep(0.1)
        measured.append(result)
        rows = found.batches[batch].worker.value_counts()
        return [rows.get(worker, 0) * (4e-3 if worker == 2 else 1e-3) for worker in range(tasks)]

    spark.range(3).count()  # a job without a description, as those of streams have one
    task_times = Classic.task_times
    monkeypatch.setattr(Classic, "task_times", times)
    placed = kss.streaming.repartition(stream.read(), "key", workers=WORKERS, adapt=adapt)
    query = start(placed, slowly, tmp_path / "c")
    try:
        for number in range(6):
            stream.add(hot=0)
            learned(query, number)
    finally:
        query.stop()
    rows = found.batches[5].worker.value_counts()
    assert rows[2] < 0.6 * rows.drop(2).mean()
    assert all(len(each) == WORKERS and sum(each) > 0 for each in measured)


def added(speeds, *batches):
    """Add times of 1,000 rows each, after two batches that are left out."""
    for times in [[9.0, 1.0, 1.0, 1.0]] * 2 + list(batches):
        speeds.add(np.full(4, 1000), np.array(times))
    return speeds


def test_speeds_are_measured_relative_to_the_median():
    assert added(Speeds(4)).relative.tolist() == [1, 1, 1, 1], "the first batches of a run say nothing"
    few = added(Speeds(4), *[[0.01, 0.01, 0.04, 0.01]] * 5)
    assert few.relative.tolist() == [1, 1, 1, 1], "the start of a task counts for more than its rows"
    speeds = Speeds(4)
    for _ in range(5):
        speeds.add(np.array([1000, 500, 1000, 0]), np.array([1.0, 0.55, 4.0, 9.0]))
    assert speeds.relative.tolist() == pytest.approx([1, 1, 0.275, 1])


def test_a_speed_needs_repeated_evidence_and_fades_without():
    slow, fast, equal = [1.0, 1.0, 2.0, 1.0], [1.0, 1.0, 0.5, 1.0], [1.0] * 4
    assert added(Speeds(4), slow, slow, equal, slow, slow).relative.tolist() == [1, 1, 1, 1]
    assert added(Speeds(4), slow, slow, fast, slow, fast).relative.tolist() == [1, 1, 1, 1]
    assert added(Speeds(4), slow, [1.0, 1.0, 1.6, 1.0], slow).relative[2] == pytest.approx(1 / 1.6)
    assert added(Speeds(4), fast, fast, fast).relative[2] == pytest.approx(2)
    refuted = added(Speeds(4), slow, slow, slow, *[equal] * 6)
    assert refuted.relative[2] == pytest.approx(1, abs=0.02)
    silent = added(Speeds(4), slow, slow, slow, [1.0, 1.0, 0.01, 1.0])
    assert 0.5 < silent.relative[2] < 0.6, "a short batch refutes nothing"
    alone = added(Speeds(4), slow, slow, slow, *[[1.0, 0.01, 0.01, 0.01]] * 30)
    assert alone.relative[2] == pytest.approx(1, abs=0.05), "what is never confirmed fades"


@pytest.mark.parametrize("name", [name for name in driving.SPEEDS if "then short" in name])
def test_workers_that_are_equal_are_taken_for_equal_again(name):
    adapt = kss.streaming.Adapt(capacities="measured")
    shown = driving.driven(driving.drifting(30, 30), adapt, busy=driving.SPEEDS[name]())
    assert shown[-1].plan.speeds == pytest.approx(np.ones(driving.WORKERS), abs=0.1)
    assert max(each.busiest for each in shown[-10:]) < 1.2


def test_workers_that_are_slow_are_learned():
    adapt = kss.streaming.Adapt(capacities="measured")
    shown = driving.driven(driving.drifting(12, 12), adapt, busy=driving.SPEEDS["one at half speed"]())
    speeds = shown[-1].plan.speeds
    assert speeds[2] == pytest.approx(0.5, abs=0.1)
    assert np.delete(speeds, 2) == pytest.approx(np.ones(driving.WORKERS - 1), abs=0.1)
    assert shown[-1].rows[2] < 0.7 * shown[-1].rows.mean()


ONLINE = sorted(set(ks.GROUPINGS) - set(PLANS))


@pytest.mark.parametrize("name", ONLINE)
def test_online_groupings_say_which_workers_a_key_has(name):
    params = ks.GROUPINGS[name](workers=8)
    following, memory = Following(params), Memory(12, head_threshold(params), 0.5)
    rng = np.random.default_rng(5)
    for number in range(6):
        drawn = batch(number, rng.zipf(1.4, 4000) % 1000)
        memory.add(drawn)
        following.add(drawn, np.array([900.0, *[500.0] * 6, 100.0]), np.ones(8))
    summary = memory.summary()
    candidates = following.candidates(summary)
    assert len(candidates) == len(summary.hashes) > 0
    assert all((np.diff(each) > 0).all() and 0 <= each[0] <= each[-1] < 8 for each in candidates)
    splits = name not in ("ring", "pstream", "dalton", "dynamic_key")  # or not yet
    assert (len(candidates[0]) > 1) >= splits
    placement = place(summary, params, None, candidates)
    assert [
        set(each) <= set(candidates[at]) for at, each in zip(placement.head, placement.workers, strict=True)
    ]
    hashes = summary.hashes[placement.head]
    loads = expected_loads(summary, hashes, placement.workers, placement.shares, placement.tail, 8)
    assert loads.sum() == pytest.approx(summary.total)
    if splits:
        assert loads.max() < 1.1 * loads.mean()


def test_fish_gives_slow_workers_less():
    following = Following(ks.Fish(workers=4))
    speeds = np.array([1.0, 1.0, 1.0, 0.1])
    drawn = batch(0, np.random.default_rng(5).zipf(1.4, 4000) % 1000)
    following.add(drawn, np.full(4, 1000.0), speeds)
    summary = Memory(12, 0.05, 0.5)
    summary.add(drawn)
    placement = place(summary.summary(), ks.Fish(workers=4), speeds, following.candidates(summary.summary()))
    slow = [
        share
        for each, shares in zip(placement.workers, placement.shares, strict=True)
        for worker, share in zip(each, shares, strict=True)
        if worker == 3
    ]
    assert max(slow, default=0.0) < 0.15


@pytest.mark.parametrize("name", ["fish", "consistent", "flexd"])
def test_a_stream_follows_a_grouping(spark, stream, tmp_path, name):
    found = Busiest()
    df = stream.read()
    query = start(
        kss.streaming.route(df, "key", workers=WORKERS, grouping=name, adapt="auto"), found, tmp_path / "c"
    )
    try:
        for number in range(3):
            stream.add(hot=0)
            learned(query, number)
    finally:
        query.stop()
    assert found.shares[0] > 1.4
    assert found.shares[2] < 1.25
    plans, batches = versions_of(next((tmp_path / "c" / "keysplit").iterdir()))
    assert plans[batches[2]].grouping == ks.GROUPINGS[name](workers=WORKERS)


def test_a_stream_that_followed_an_online_grouping_goes_on_by_a_plan(spark, stream, tmp_path):
    df = kss.streaming.route(stream.read(), "key", workers=WORKERS, grouping="fish", adapt="auto")
    query = start(df, Busiest(), tmp_path / "c")
    try:
        stream.add(hot=0)
        learned(query, 0)
        with pytest.warns(UserWarning, match=r"^the stream no longer follows fish: .* plans of d_choices,"):
            kss.streaming.publish(kss.plan(stream.rows(), "key", 2), query)
        published = kss.streaming.publish(kss.plan(stream.rows(), "key", 2), query)  # without a warning
        for number in range(1, 4):
            stream.add(hot=1)
            learned(query, number)
    finally:
        query.stop()
    plans, batches = versions_of(next((tmp_path / "c" / "keysplit").iterdir()))
    assert batches[1] == published < batches[3]
    last = plans[batches[3]]
    assert (last.workers, last.grouping.name) == (2, "d_choices")
    assert last.head[0].key == ("hot 1",)


def asked_of(plan, chance=0.5):
    """What asks for the tables of a plan in a batch."""

    def ask(question, reading="{}"):
        found = Tables(plan).answer(question, chance)
        return f"(SELECT {reading.format('told')} FROM VALUES ('{found}') AS answers(told))"

    return ask


@pytest.mark.parametrize(
    ("workers", "hot"), [(1, 0), (4, 0), (4, 1), (64, 1), (64, 300)], ids=lambda each: str(each)
)
def test_tables_in_one_array_say_what_the_plan_says(spark, workers, hot):
    rows = spark.range(20_000).selectExpr(
        f"IF(id % 2 = 0 AND {hot} > 0, id * id % greatest({hot}, 1), 1000 + id) AS key", "id AS value"
    )
    plan = kss.plan(rows, "key", workers=workers, row_id="value")
    assert bool(plan.head) == (workers > 1 and hot > 0)
    request = check(rows, "key", Options(plan=plan))
    placed = current.routed(request, tally_of(rows, workers), Bounds(1000.0, 0.5), asked_of(plan))
    expected = kss.route(rows, "key", plan=plan)
    assert placed.exceptAll(expected).count() == expected.exceptAll(placed).count() == 0

    keys = rows.select("key", plan_hash(request).alias("worker")).distinct()
    found = current.with_workers(keys, "worker", asked_of(plan))
    assert found.schema["worker"].dataType.simpleString() == "array<int>"
    same = columns.with_workers(keys, plan, "worker")
    assert found.exceptAll(same).count() == same.exceptAll(found).count() == 0


def tally_of(rows, workers=WORKERS):
    return session_of(rows).tally(by_worker.counters(workers))


def fields_of(sent):
    return [field for each in sent for field in each.fields]


def all_drawn(rows, request, plan):
    """What a batch draws by which every row is drawn, with the values of its key."""
    tally, bounds = tally_of(rows, request.workers), Bounds(10**9, 1.0)
    routed = current.routed(request, tally, bounds, asked_of(plan, 1.0))
    routed.write.format("noop").mode("overwrite").save()
    return rows_drawn(fields_of(tally.take()), 1.0, bounds, request.key_types, request.weight is not None)


def drawn_of(rows, chance, bounds, weight=None):
    """What a batch draws, and by the hash of its key the number of each row."""
    plan = kss.plan(rows.limit(1000), "key", workers=WORKERS, row_id="value", weight=weight)
    request = check(rows, "key", Options(workers=WORKERS, row_id="value", weight=weight))
    tally = tally_of(rows)
    routed = current.routed(request, tally, bounds, asked_of(plan, chance)).cache()
    counts = dict(routed.groupBy("worker").count().collect())
    sent = tally.take()
    routed.unpersist()
    assert sum(each.counts for each in sent).tolist() == [counts.get(worker, 0) for worker in range(WORKERS)]
    found = rows_drawn(fields_of(sent), chance, bounds, request.key_types, weight is not None)
    return found, rows.select("key", plan_hash(request).alias("hash")).toPandas().set_index("hash").key


@pytest.mark.versions
def test_rows_are_drawn_by_chance_alone(spark):
    number, drawn, shown = 100_000, 0.1, 0.25
    rows = spark.range(0, number, numPartitions=4).selectExpr("id AS key", "id AS value")
    found = []
    for _ in range(2):
        read, table = drawn_of(rows, drawn, Bounds(1e9, shown))
        assert (read.weights == 1).all()
        assert (read.repeats == 1 / drawn).all()
        ids, some = table[read.hashes].to_numpy(), read.texts
        assert all(table[hash_] == int(text) for hash_, (text,) in some.items())
        assert set(some) <= set(read.hashes.tolist())
        assert len(set(ids.tolist())) == len(ids)
        is_drawn = np.bincount(ids, minlength=number)
        # 10,000 rows or so, and 2,500, to 9 standard deviations
        assert abs(len(ids) - number * drawn) < 9 * (number * drawn) ** 0.5
        assert abs(len(some) - number * drawn * shown) < 9 * (number * drawn * shown) ** 0.5
        # Whatever the period of a source, each phase gets its part. By Laurent and Massart, chi-square is
        # beyond this bound with a chance of e**-40.
        for period in (2, 3, 7, 64, 1000):
            of_phase = np.bincount(np.arange(number) % period, is_drawn)
            expected = np.bincount(np.arange(number) % period) * drawn
            chi_square = ((of_phase - expected) ** 2 / (expected * (1 - drawn))).sum()
            assert chi_square < period + 2 * (period * 40) ** 0.5 + 2 * 40
        # Neighbours are drawn independently of each other, and so are the same rows of two batches.
        found.append(is_drawn)
        both = [(is_drawn[1:] * is_drawn[:-1]).sum(), *((found[0] * each).sum() for each in found[1:])]
        assert all(abs(each - number * drawn**2) < 9 * number**0.5 * drawn for each in both)


@pytest.mark.versions
@pytest.mark.parametrize(
    ("chance", "generated"),
    [
        pytest.param(0.1, True, id="0.1-generated"),
        pytest.param(1.0, False, id="1.0-interpreted"),
        pytest.param(1.0, True, id="1.0-generated", marks=pytest.mark.newest),
        pytest.param(0.1, False, id="0.1-interpreted", marks=pytest.mark.newest),
    ],
)
def test_few_rows_are_drawn_of_however_many(spark, chance, generated):
    number, tasks, most = 80_000, 4, 300.0
    rows = spark.range(0, number, numPartitions=tasks).selectExpr("id AS key", "id AS value", "id % 3 AS w")
    settings = {
        "spark.sql.codegen.wholeStage": generated,
        "spark.sql.codegen.factoryMode": "FALLBACK" if generated else "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, str(value))
        read, table = drawn_of(rows, chance, Bounds(most, 0.5), weight="w")
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert (read.weights == table[read.hashes].to_numpy() % 3).all()
    # What each task draws: each task counts its own rows, and the later ones draw fewer.
    places = np.arange(1, int(number / tasks * chance) + 1) * np.arange(1, tasks + 1)[:, None]
    chances = np.minimum(1.0, most / places)
    deviation = (chances * (1 - chances)).sum() ** 0.5 + (number * chance) ** 0.5 * chances.mean()
    assert abs(len(read.hashes) - chances.sum()) < 9 * deviation
    assert len(read.hashes) < 4 * most * np.log(number) * np.log(tasks)
    deviation = (1 / (chances * chance**2)).sum() ** 0.5
    assert abs(read.repeats.sum() - number) < 9 * deviation
    # later rows are drawn by a lower chance, and stand for more
    late = table[read.hashes].to_numpy() % (number // tasks) >= number // tasks // 2
    assert abs(read.repeats[late].sum() - number / 2) < 9 * deviation
    assert read.repeats[late].mean() > read.repeats[~late].mean()


def test_keys_of_what_is_drawn_are_as_in_a_profile(spark):
    texts = ["", "a b", "a,b", "ü", "x" * 1000, None]
    numbers = [None, 1, -1, 2**62, 0, None]
    rows = spark.createDataFrame(list(zip(texts, numbers, strict=True)), "text string, number bigint")
    request = check(
        rows, ["text", "number"], Options(plan=kss.plan(rows, ["text", "number"], 2, row_id="number"))
    )
    read = all_drawn(rows, request, request.plan)
    shown = [None if each is None else each[:256] + "…" * (len(each) > 256) for each in texts]
    written = [None if each is None else str(each) for each in numbers]
    assert set(read.texts.values()) == set(zip(shown, written, strict=True))
    nothing = rows_drawn([], 1.0, Bounds(1, 1.0), request.key_types, weighted=False)
    assert len(nothing.hashes) == len(nothing.repeats) == len(nothing.texts) == 0


@pytest.mark.parametrize(
    "key",
    [
        "named_struct('a', id, 'b', CAST(id AS STRING))",
        "named_struct('a', CAST(id AS DOUBLE))",
        "named_struct('a', array(id), 'b', named_struct('c', id > 3))",
        "array(CAST(id AS STRING))",
        "CAST(id AS DECIMAL(30, 2))",
        "timestamp_seconds(id)",
        "id % 2 = 0",
        "CAST(CAST(id AS STRING) AS BINARY)",
        "date_add(DATE'2020-01-01', CAST(id AS INT))",
    ],
)
def test_keys_of_any_type_are_drawn(spark, key):
    rows = spark.range(8).selectExpr("id AS value", f"{key} AS key")
    request = check(rows, "key", Options(plan=kss.plan(rows, "key", 2, row_id="value")))
    read = all_drawn(rows, request, request.plan)
    seen = [row.key for row in rows.select("key").distinct().collect()]
    seen = [bytes(key) if isinstance(key, bytearray) else key for key in seen]  # before Spark 4
    assert {text for (text,) in read.texts.values()} == set(map(str, seen))


def test_workers_that_share_a_counter_are_counted_together(spark):
    workers = 2 * by_worker.MOST_COUNTS + 1
    rows = spark.range(3000).selectExpr("id AS key", "id AS value")
    plan = kss.plan(rows, "key", workers, row_id="value")
    request = check(rows, "key", Options(workers=workers, row_id="value"))
    tally = tally_of(rows, workers)
    routed = current.routed(request, tally, Bounds(100, 0.5), asked_of(plan)).cache()
    found = routed.groupBy("worker").count().toPandas()
    routed.unpersist()
    counts = np.bincount(found.worker, found["count"], minlength=workers)
    together = by_worker.together(counts, workers)
    assert len(together) < workers
    assert sum(each.counts for each in tally.take()).tolist() == together.tolist()


@pytest.mark.parametrize("keys", [["", "a"], ["", None], [""]], ids=str)
def test_an_empty_key_is_a_field(spark, keys):
    rows = spark.createDataFrame([(key, at) for at, key in enumerate(keys)], "key string, value bigint")
    plan = kss.plan(rows, "key", 2, row_id="value")
    request = check(rows, "key", Options(workers=2, row_id="value", weight="value"))
    read = all_drawn(rows, request, plan)
    assert sorted(read.weights.tolist()) == list(range(len(keys)))
    assert set(read.texts.values()) == {(key,) for key in keys}


def test_the_chance_of_a_row_is_exact():
    for chance in (1.0, 0.5, 0.1, 1e-6, 2.0**-64):
        assert last_of(chance) + 2**63 + 1 == int(chance * 2.0**64)
    assert last_of(0.0) == -(2**63)


def test_no_code_is_compiled_while_the_plan_changes(spark, stream, tmp_path):
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    df = kss.streaming.repartition(stream.read(), "key", workers=WORKERS, adapt="auto")
    query = df.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    counts = []
    try:
        for number in range(6):
            stream.add(hot=number // 3)
            learned(query, number)
            counts.append(compiled.getCount())
    finally:
        query.stop()
    plans, _ = versions_of(next((tmp_path / "c" / "keysplit").iterdir()))
    assert len(plans) >= 3, "one without keys, and one for each hot key"
    assert counts[-1] == counts[0]
