"""Plans that change while a stream runs: each micro-batch by one plan, also when it is attempted again."""

import hashlib
import json
import pickle
import re
import threading
import time
import warnings
from zlib import crc32

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from streams import versions_of, versions_of_batches

import keysplit as ks
from keysplit import spark as kss
from keysplit.plan import Plan, head_threshold
from keysplit.spark.streaming import Adapt, engine, running
from keysplit.spark.streaming import adapting as of_queries
from keysplit.spark.streaming.adapting import Adapting, adapting_in
from keysplit.spark.streaming.log import Log

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


@pytest.fixture
def plan(spark):
    return kss.plan(spark.range(100).selectExpr("id % 7 as key"), "key", 2)


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
    routed = kss.streaming.route(stream.read(), "key", plan=Adapt(WORKERS))
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
    query = start(kss.streaming.route(stream.read(), "key", plan=Adapt(WORKERS)), again, checkpoint)
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
    query = start(kss.streaming.route(stream.read(), "key", plan=Adapt(WORKERS)), found, checkpoint)
    query.processAllAvailable()
    query.stop()
    _, batches = versions_of(next((checkpoint / "keysplit").iterdir()))
    assert batches[0] == 0
    assert batches[1] == 1
    # The first went by a hash; the plan is made of some of its rows.
    assert found.shares[1] - 1 < (found.shares[0] - 1) / 2
    assert set(found.shares) == {0, 1, 2}


def test_two_queries_of_one_stream_learn_each_from_its_own_rows(spark, stream, tmp_path):
    routed = kss.streaming.route(stream.read(), "key", plan=Adapt(WORKERS))
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
    routed = kss.streaming.route(stream.read(), "key", plan=Adapt(WORKERS))
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
    routed = kss.streaming.route(stream.read(), "key", plan=Adapt(WORKERS))
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
        names.append(of_queries.plans_in(engine.query_of(df.sparkSession)[1], batch))
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
    df = kss.streaming.repartition(stream.read(), "key", plan=Adapt(start=plan, gain=1e9))
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
    conf("spark.sql.optimizer.excludedRules", engine._NEEDED)
    with pytest.raises(ValueError, match=r"^spark.sql.optimizer.excludedRules must not exclude "):
        kss.streaming.route(stream.read(), "key", plan=Adapt(WORKERS))
    conf("spark.sql.optimizer.excludedRules", "")
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    with pytest.raises(ValueError, match=r"^PYSPARK_PIN_THREAD must not be 'false'"):
        kss.streaming.route(stream.read(), "key", plan=Adapt(WORKERS))


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
    adapt = Adapt(WORKERS, capacities="measured")
    routed = kss.streaming.route(stream.read(), "key", plan=adapt)
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
    other = kss.plan(stream.rows(), "key", WORKERS, grouping="key")
    never = Adapt(start=plan, gain=100.0, log=tmp_path / "log")

    def fail(df, batch):
        seen.append((batch, df.select("value", "worker").toPandas()))
        raise RuntimeError("an attempt")

    query = start(kss.streaming.route(stream.read(), "key", plan=never), fail, checkpoint)
    with pytest.raises(Exception, match="an attempt"):
        query.awaitTermination(120)
    Log(tmp_path / "log").publish(other)
    stream.add(hot=0)
    found = Busiest()
    query = start(kss.streaming.route(stream.read(), "key", plan=never), found, checkpoint)
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
    routed = kss.streaming.route(df, "key", plan=Adapt(WORKERS, weight="weight", row_id="value"))
    query = routed.writeStream.foreachBatch(weigh).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        for number in range(3):
            stream.add(hot=0)
            learned(query, number)
    finally:
        query.stop()
    assert found[0] > 2
    assert found[2] < 1.3


def test_rows_are_placed(spark, stream, tmp_path):
    found = []

    def look(df, batch):
        found.append(df.filter("worker != spark_partition_id()").count())
        found.append(df.rdd.getNumPartitions() - WORKERS)

    placed = kss.streaming.repartition(stream.read(), "key", plan=Adapt(WORKERS))
    stream.add(hot=0)
    stream.add(hot=0)
    query = placed.writeStream.foreachBatch(look).option("checkpointLocation", str(tmp_path / "c")).start()
    query.processAllAvailable()
    query.stop()
    assert found == [0, 0, 0, 0]


def test_a_hot_partition_is_written_by_several_tasks(spark, stream, tmp_path):
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "c")
    df = stream.read().withColumn("key", F.expr("IF(key LIKE 'hot%', key, 'other')"))
    writer = kss.streaming.write(df, "key", plan=Adapt(WORKERS))
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
        kss.streaming.write(stream.rows(), "key", plan=Adapt(WORKERS))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workers": None}, "workers must be given with grouping='d_choices': a number in 1..=65536"),
        ({"workers": 0}, "workers must be in 1..=65536, got 0"),
        ({"grouping": "often"}, "grouping must be one of bounded_ring, "),
        ({"seed": -1}, "seed must be"),
        ({"trust": 5}, "trust must be"),
        ({"decay": 1.5}, "decay must be at least 0 and up to 1, got 1.5"),
        ({"decay": "a"}, "decay must be a number, got 'a'"),
        ({"gain": 0}, "gain must be above 0 and finite, got 0"),
        ({"copy_cost": float("nan")}, "copy_cost must be at least 0 and finite, got nan"),
        ({"horizon": 0}, "horizon must be at least 1, got 0"),
        ({"every": 1.5}, "every must be a whole number, got 1.5"),
        ({"sample": 1}, "sample must be at least 100, got 1"),
        ({"capacities": [1]}, "capacities must "),
        ({"capacities": "often"}, "capacities must be numbers, a function, 'measured' or None, got 'often'"),
        ({"log": 3}, "log must be a path or URL, got 3"),
        ({"log": ""}, "log must be a folder, got ''"),
        ({"start": 5}, "start must be a Plan that kss.plan made, got int"),
        ({"start": "plan"}, "workers must be omitted with start, which has 2, got 4"),
        (
            {"start": "plan", "workers": None, "seed": 1},
            "seed must be omitted with start, which has 0, got 1",
        ),
        ({"start": "plan", "workers": 2, "grouping": "fish"}, "grouping must be omitted with start, by "),
        ({"start": "plan", "workers": 2, "capacities": [1, 1]}, "capacities must be omitted with start"),
        (
            {"start": "plan", "workers": 2, "weight": "key"},
            "weight must be None, because start counts rows, got 'key'",
        ),
    ],
    ids=str,
)
def test_bad_parameters_are_named(plan, given, message):
    if given.get("start") == "plan":
        given = given | {"start": plan}
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}"):
        Adapt(**{"workers": WORKERS, **given})


def test_what_needs_the_rows_is_checked_before_a_query_starts(stream):
    stream.add(hot=0)
    for plan, message in (
        (None, "plan must be given for a streaming DataFrame: kss.plan makes a plan from a batch of its "),
        ("a path", "plan must be a Plan or a kss.streaming.Adapt, got str"),
        (Adapt(2, weight="key"), "weight must name a numeric column, got 'key' of type string"),
        (Adapt(2, row_id="nowhere"), "row_id must name one column of the DataFrame, got 'nowhere'"),
        (Adapt(start=kss.plan(stream.rows(), "value", 2)), "key must have the types of the plan, "),
    ):
        with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}"):
            kss.streaming.route(stream.read(), "key", plan=plan)
    with pytest.raises(ValueError, match=r"^plan must be a Plan for a batch DataFrame, got an Adapt, which"):
        kss.streaming.route(stream.rows(), "key", plan=Adapt(2))


def test_a_plan_made_by_weight_needs_the_weight(stream):
    stream.add(hot=0)
    plan = kss.plan(stream.rows(), "key", WORKERS, weight="value", row_id="value")
    with pytest.raises(ValueError, match=r"^weight must be the weight of start, got None"):
        Adapt(start=plan)
    routed = kss.streaming.route(stream.read(), "key", plan=Adapt(start=plan, weight="value"))
    assert "changes while the stream runs" in kss.explain(routed)


def test_plans_of_the_log_have_the_row_id_and_trust(stream, tmp_path):
    """So that a batch is routed by them as the stream was."""
    stream.add(hot=0)
    upper, found = F.udf(str.upper).asNondeterministic(), Busiest()
    rows = stream.read().withColumn("key", upper("key"))
    adapt = Adapt(WORKERS, row_id="value", trust="key", log=tmp_path / "log")
    query = start(kss.streaming.route(rows, "key", plan=adapt), found, tmp_path / "c")
    try:
        learned(query, 0)
        stream.add(hot=0)
        learned(query, 1)
    finally:
        query.stop()
    plans, batches = versions_of(tmp_path / "log")
    assert [(each.row_id, each.trust) for each in plans.values()] == [(("value",), ("key",))] * len(plans)
    assert batches[1] > 0


def test_an_adapt_is_printed_pickled_and_compared(plan):
    adapt = Adapt(start=plan, decay=0.2, every=None, log="log")
    assert pickle.loads(pickle.dumps(adapt)) == adapt
    assert adapt != Adapt(start=plan)
    assert repr(Adapt(4, gain=0.3)).startswith("Adapt(workers=4, grouping='d_choices', weight=None, ")


def test_a_plan_of_other_keys_is_refused(stream, tmp_path):
    stream.add(hot=0)
    Log(tmp_path / "log").publish(kss.plan(stream.rows(), "value", WORKERS))
    adapt = Adapt(WORKERS, log=tmp_path / "log")
    with pytest.raises(ValueError, match=r"^version 0 in the plan log '.*' must be for keys of .*the query"):
        kss.streaming.route(stream.read(), "key", plan=adapt)


def test_a_log_is_of_one_query(stream, tmp_path, caplog):
    stream.add(hot=0)
    adapt = Adapt(WORKERS, log=tmp_path / "log")
    routed = kss.streaming.route(stream.read(), "key", plan=adapt)
    for checkpoint, fails in (("a", False), ("a", False), ("b", True)):
        query = start(routed, Busiest(), tmp_path / checkpoint)
        try:
            if fails:
                with pytest.raises(StreamingQueryException) as raised:
                    query.awaitTermination(120)
                first = str(raised.value).splitlines()[0]
                assert "ValueError: log must be a different folder for each query, got '" in first
                assert "user defined function" not in first
            else:
                query.processAllAvailable()
        finally:
            query.stop()
    assert "log must be a different folder for each query" in caplog.text


def test_a_session_keeps_no_function_but_that_of_the_last_query(spark, stream, tmp_path):
    def names():
        listed = spark._jsparkSession.sessionState().functionRegistry().listFunction().mkString(" ")
        return {name for name in listed.split() if "keysplit" in name}

    before = names()
    stream.add(hot=0)
    for _ in range(3):
        df = kss.streaming.route(stream.read(), "key", plan=Adapt(WORKERS))
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
    adapt, found = Adapt(WORKERS, grouping="fish", gain=100.0, log=tmp_path / "log"), Busiest()
    df = kss.streaming.route(stream.read(), "key", plan=adapt)
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

    def run(plan):
        adapt = Adapt(start=plan, gain=100.0, log=log)
        df = kss.streaming.repartition(stream.read(), "key", plan=adapt)
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
    passed = [str(each.message) for each in recwarn if "was skipped" in str(each.message)]
    assert {each[:9] for each in passed} == {"version 1", "version 2"}

    # a batch that was begun by more workers than there are now
    Log(log).version_of(3, 0)
    stream.add(hot=0)
    with pytest.raises(StreamingQueryException):
        run(plan.with_workers(2))
    assert (
        "at most the 2 workers of the query, which started batch 3 with it, got a plan for 4" in caplog.text
    )
    run(plan)
    assert versions_of_batches(log)[3] == 0
    only = tmp_path / "only"
    only.mkdir()
    plan.with_workers(WORKERS + 1).save(only / "plan-0.json")
    with pytest.raises(
        ValueError,
        match=r"^version 0 in the plan log '.*' must be for at most the 4 workers of the query, got a plan",
    ):
        kss.streaming.route(stream.read(), "key", plan=Adapt(start=plan, log=only))


@pytest.mark.parametrize(
    "changed", [{"workers": WORKERS + 2}, {"workers": WORKERS - 1}, {"grouping": "w_choices"}], ids=str
)
def test_a_restart_with_what_the_plan_log_has_not_warns(stream, tmp_path, changed):
    """A restart for fewer workers is refused only if no version is for so few."""

    def run(**changes):
        adapt = Adapt(**{"workers": WORKERS, "gain": 100.0, **changes})
        df = kss.streaming.repartition(stream.read(), "key", plan=adapt)
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
        UserWarning, match=r"^the stream continues with version \d of its plan log, for "
    ) as warned:
        run(**changed)
    (message,) = [str(each.message) for each in warned if "continues with version" in str(each.message)]
    asked = ks.GROUPINGS[changed.get("grouping", "d_choices")](workers=changed.get("workers", WORKERS))
    assert f"although the query now starts with {asked!r}: publish such a plan" in message


def test_a_query_gets_more_workers_at_a_restart(spark, stream, tmp_path):
    stream.add(hot=0)
    found, plan = Busiest(), kss.plan(stream.rows(), "key", 2)
    for workers in (2, 5):
        first = plan.with_workers(workers)
        df = kss.streaming.repartition(stream.read(), "key", plan=Adapt(start=first, gain=100.0))
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
    query = start(kss.streaming.route(stream.read(), "key", plan=Adapt(WORKERS)), found, tmp_path / "c")
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert refreshes
    assert 0 in found.batches
    assert [
        each for each in recwarn if "a stream's plan log could not be read: out of reach" in str(each.message)
    ]


def test_rows_that_a_plan_has_placed_need_a_row_id(spark, stream):
    stream.add(hot=0)
    one, two = (spark.range(9).selectExpr("CAST(id AS STRING) AS key", f"id AS {name}") for name in "ab")
    placed = kss.streaming.join(stream.read(), one, "key", plan=Adapt(WORKERS), way="place")
    with pytest.raises(ValueError, match=r"^row_id must be given: df may have different rows when a task is"):
        kss.streaming.join(placed, two, "key", plan=Adapt(WORKERS), way="place")


def test_a_relative_log_is_in_the_folder_of_the_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Adapt(4, log="log").rule.log == str(tmp_path / "log")


def test_workers_come_and_go_while_the_stream_runs(spark, stream, tmp_path):
    stream.add(hot=0)
    plan, found = kss.plan(stream.rows(), "key", WORKERS), Busiest()
    df = kss.streaming.repartition(stream.read(), "key", plan=Adapt(start=plan, gain=100.0))
    query = start(df, found, tmp_path / "c")
    try:
        query.processAllAvailable()
        for number, each in enumerate([plan.with_workers(2), plan.with_workers(3, [1, 2, 1]), plan]):
            assert kss.streaming.publish(each, query) == number + 1
            stream.add(hot=0)
            query.processAllAvailable()
        with pytest.raises(
            ValueError,
            match=r"at most the 4 workers of the query, got a plan for 5: begin the query with workers=5$",
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
    with pytest.raises(ValueError, match="to must be a running query, got a stopped query"):
        kss.streaming.publish(plan, query)
    log = next((tmp_path / "c" / "keysplit").iterdir())
    assert kss.streaming.publish(plan.with_workers(2), log) == 4
    with pytest.raises(TypeError, match="to must be a streaming query or the folder of a plan log, got int"):
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


def test_a_slow_worker_gets_less(spark, stream, tmp_path, monkeypatch):
    found, adapt, measured = Busiest(), Adapt(WORKERS, capacities="measured"), []

    def slowly(df, batch):
        """Every tenth row takes a millisecond: Spark counts whole ones."""
        sleep = "IF(value % 10 = 0, reflect('java.lang.Thread', 'sleep', 1L), NULL) AS slept"
        found(df.selectExpr("*", sleep).where("slept IS NULL OR slept != ''"), batch)

    def times(session, run, batch, tasks):
        """What is measured, and in its place 1 ms per row, four times as long on worker 2."""
        for _ in range(600):  # Spark's record of the tasks may come later than that of the batch
            result = task_times(session, run, batch, tasks)
            if result and sum(result) > 0:
                break
            time.sleep(0.1)
        measured.append(result)
        rows = found.batches[batch].worker.value_counts()
        return [rows.get(worker, 0) * (4e-3 if worker == 2 else 1e-3) for worker in range(tasks)]

    spark.range(3).count()  # a job without a description, as those of streams have one
    task_times = engine.task_times
    monkeypatch.setattr(engine, "task_times", times)
    placed = kss.streaming.repartition(stream.read(), "key", plan=adapt)
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


@pytest.mark.parametrize("name", ["fish", "consistent"])
def test_a_stream_follows_a_grouping(spark, stream, tmp_path, name):
    found = Busiest()
    df = stream.read()
    query = start(kss.streaming.route(df, "key", plan=Adapt(WORKERS, grouping=name)), found, tmp_path / "c")
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
    df = kss.streaming.route(stream.read(), "key", plan=Adapt(WORKERS, grouping="fish"))
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


def test_no_code_is_compiled_while_the_plan_changes(spark, stream, tmp_path):
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    df = kss.streaming.repartition(stream.read(), "key", plan=Adapt(WORKERS))
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
