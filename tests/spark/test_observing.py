"""The observer of a query: its figures, of made-up batches and of running queries, and what shows them."""

import datetime as dt
import json
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyspark
import pytest
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit.plan import Plan, Summary, bucket_of, place
from keysplit.spark.streaming import Adapt
from keysplit.spark.streaming.figures import Figures, HotKey, figures_of
from keysplit.spark.streaming.learning import Batch
from keysplit.spark.streaming.observing import log, observer, page, prometheus
from keysplit.spark.streaming.observing.history import History
from keysplit.spark.streaming.observing.progress import Progress, progress_of
from keysplit.spark.streaming.observing.record import Record
from pages import Page, elements_of, in_browser

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 4
MARKUP = "<script>alert(1)</script>"


# What is made up


def said(batch, rows=1000, sources=(), **more):
    """What Spark says of a batch, as it does in JSON."""
    return {
        "batchId": batch,
        "timestamp": f"2026-01-02T03:04:{batch % 60:02}.500Z",
        "durationMs": {"addBatch": 100, "triggerExecution": 1500},
        "numInputRows": rows,
        "inputRowsPerSecond": 500.0,
        "processedRowsPerSecond": 250.0,
        "sources": list(sources),
        "observedMetrics": {},
        **more,
    }


def figures(batch, *, workers=WORKERS, version=0, busy=False, hot=3):
    rows = np.arange(1, workers + 1, dtype=np.int64) * 100 + batch
    return Figures(
        batch=batch,
        version=version,
        workers=workers,
        rows=rows,
        busiest=float(rows.max() / rows.mean()),
        hash_busiest=2.5,
        replication=1.25,
        copies=3,
        hot=tuple(HotKey(MARKUP if at == 0 else f"key {at}", 0.2, 0.3 / (at + 1), 2, 7) for at in range(hot)),
        busy_s=rows / 1000 if busy else None,
    )


class Query:
    """A query of which Spark says what it is told to."""

    def __init__(self, monkeypatch, *, plans=("worker-key",), workers=WORKERS):
        self.id, self.runId, self.name, self.isActive = "the-id", "the-run", "words", True
        self.recentProgress, self.figures, self.heard = [], {name: [] for name in plans}, []
        first = SimpleNamespace(workers=workers)
        adapting = [
            SimpleNamespace(name=name, first=first, figures=lambda run, name=name: self.figures[name])
            for name in plans
        ]
        for each in adapting:
            each.learn = lambda run, number: self.heard.append(number)
        monkeypatch.setattr(observer, "adapting_in", lambda run: adapting if run == "the-run" else [])
        monkeypatch.setattr(observer, "session_of", lambda query: "the-session")
        monkeypatch.setattr(observer, "listen", self.listen)
        self.listening = None

    def listen(self, session, query, run, hear, ended):
        assert (session, query, run) == ("the-session", self.id, self.runId)
        self._hear, self.end, self.listening = hear, ended, True
        return SimpleNamespace(stop=lambda: setattr(self, "listening", False), settle=lambda: None)

    def hear(self, progress):
        self._hear(SimpleNamespace(batch=progress["batchId"], to_dict=lambda: progress))

    def run(self, batch, **changes):
        for found in self.figures.values():
            found.append(figures(batch, **changes))
        self.hear(said(batch))


@pytest.fixture
def query(monkeypatch):
    return Query(monkeypatch)


@pytest.fixture
def observing(query):
    """An observer of three batches, with its server."""
    with kss.streaming.observe(query, port=0) as found:
        for batch, version in enumerate([0, 0, 1]):
            query.run(batch, version=version)
        yield found


def get(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()


def refused(url, code, **headers):
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20)
    raised.value.close()
    return raised.value.code == code


def record(batch, **changes):
    return Record(progress_of(said(batch)), "worker-key", 1, figures(batch, **changes))


# Figures


def made_plan(grouping=None):
    """Key 1 is hot in it; its hash is that of `keys`."""
    hashes = hashed([1])
    buckets = np.full(4096, 500 / 4096)
    buckets[bucket_of(hashes, 12)] += 500
    summary = Summary(1000.0, hashes, np.array([500.0]), np.zeros(1), buckets)
    grouping = grouping or ks.WChoices(workers=WORKERS)
    return Plan.of(
        summary,
        place(summary, grouping),
        grouping=grouping,
        key=("key",),
        key_types=("bigint",),
        texts={int(hashes[0]): ("one",)},
        capacities=None,
    )


def hashed(keys):
    return np.asarray(keys, np.int64) * 0x1E3779B97F4A7C15


def drawn(keys, rows, chance=1.0):
    return Batch(3, np.array(rows), hashed(keys), np.ones(len(keys)), np.full(len(keys), 1 / chance))


def test_figures_of_a_batch():
    plan = made_plan()
    keys = [1] * 400 + list(range(10, 610))
    found = figures_of(drawn(keys, [400, 200, 200, 200]), 5, plan, np.ones(4), {int(hashed([1])[0]): 9})
    assert (found.batch, found.version, found.workers, found.copies) == (3, 5, 4, 3)
    assert found.busiest == 1.6
    (hot,) = found.hot
    assert hot == HotKey("one", 0.5, 0.4, 4, 9)
    assert found.replication == pytest.approx((600 + 4) / 601)
    by_hash = np.bincount((bucket_of(hashed(keys), 12) * 4) >> 12, minlength=4)
    assert found.hash_busiest == pytest.approx(by_hash.max() / 250)
    assert 1.6 < found.hash_busiest < 2.4


def test_figures_count_what_a_drawn_row_stands_for():
    whole = drawn([1] * 400 + list(range(10, 610)), [400, 200, 200, 200])
    hashes, repeats = hashed([1] * 4 + list(range(10, 610))), np.array([100.0] * 4 + [1.0] * 600)
    some = Batch(3, whole.rows, hashes, np.ones(604), repeats)
    ours, theirs = (figures_of(each, 5, made_plan(), np.ones(4), {}) for each in (some, whole))
    assert ours.hot == theirs.hot
    assert ours.replication == theirs.replication
    assert 1.15 < ours.hash_busiest < theirs.hash_busiest, "chance explains more of what few rows say"


def test_a_key_has_no_more_workers_than_rows():
    plan = made_plan()
    assert figures_of(drawn([1, 2, 3], [1, 1, 1, 0]), 0, plan, np.ones(4), {}).replication == 1.0
    assert figures_of(drawn([1, 2, 3], [9, 9, 9, 9], 0.1), 0, plan, np.ones(4), {}).replication == 2.0


def test_what_hashing_would_do_is_a_lower_bound_for_a_sample():
    plan = made_plan()
    keys = np.arange(10, 210)
    all_, some = (figures_of(drawn(keys, [50] * 4, chance), 0, plan, np.ones(4), {}) for chance in (1.0, 0.5))
    assert some.hash_busiest == 1.0 < all_.hash_busiest < 1.5


def test_figures_of_no_rows():
    found = figures_of(drawn([], [0, 0, 0, 0]), 0, made_plan(), np.ones(4), {})
    assert (found.busiest, found.hash_busiest, found.replication) == (1.0, 1.0, 1.0)
    assert found.hot[0].share == 0.0
    row = Record(progress_of(said(3)), "p", 1, found).batch_row()
    assert (row["imbalance"], row["load_stddev"]) == (0.0, 0.0)


def test_speeds_count():
    found = figures_of(drawn([2], [300, 100, 100, 100]), 0, made_plan(), np.array([3.0, 1, 1, 1]), {})
    assert found.busiest == 1.0


# What Spark says


def test_progress_is_read():
    expected = Progress(7, dt.datetime(2026, 1, 2, 3, 4, 7, 500_000, dt.UTC), 1.5, 1000, 500.0, 250.0, None)
    assert progress_of(said(7)) == expected
    unknown = said(7, inputRowsPerSecond=float("nan"), processedRowsPerSecond=None)
    assert progress_of(unknown) == expected._replace(input_rows_per_s=None, processed_rows_per_s=None)
    assert progress_of(said(7, durationMs={"triggerExecution": 3})) is None, "no batch ran"


def test_progress_has_the_watermark_the_state_and_late_rows():
    state = {"numRowsTotal": 7, "memoryUsedBytes": 500, "numRowsDroppedByWatermark": 2}
    time = {"max": "2026-01-02T03:05:00.000Z", "watermark": "2026-01-02T02:55:00.000Z"}
    found = progress_of(said(7, eventTime=time, stateOperators=[state, state | {"numRowsTotal": 3}]))
    assert found.watermark == dt.datetime(2026, 1, 2, 2, 55, tzinfo=dt.UTC)
    assert (found.state_rows, found.state_bytes, found.late_rows) == (10, 1000, 4)
    unknown = progress_of(said(7, eventTime={"watermark": "1970-01-01T00:00:00.000Z"}, stateOperators=[]))
    assert unknown[-4:] == (None,) * 4, "Spark has 1970 until there is a watermark"


def test_ratios_of_rows_and_of_busy_time_have_names(query):
    """The plan counts with speeds, by which its loads are fair; neither rows nor times are."""
    with kss.streaming.observe(query, port=0) as found:
        rows = np.array([300, 100, 100, 100])
        times = np.array([0.1, 0.1, 0.1, 0.3])
        query.figures["worker-key"].append(figures(0)._replace(rows=rows, busy_s=times, busiest=1.0))
        query.hear(said(0))
        names = ["busiest", "busiest_rows", "busiest_time"]
        assert found.history()[names].iloc[0].tolist() == pytest.approx([1.0, 2.0, 2.0])
        metrics = exposed(get(found.url + "metrics"))
        plan = (("plan", "worker-key"), ("query", "words"))
        shown = [metrics[f"keysplit_{name}_ratio", plan] for name in names]
        assert shown == pytest.approx([1.0, 2.0, 2.0])
        text = re.sub(r"<[^>]*>", "", get(found.url))
        assert "2.00rows of the busiest worker over the mean" in text
        assert "2.00busy time of the busiest worker over the mean" in text
        assert "workers over its fair share, in rows by speed" in text


def test_figures_of_sources_are_added_where_there_is_no_sum():
    sources = [
        {"numInputRows": rows, "inputRowsPerSecond": rate, "processedRowsPerSecond": None, "endOffset": None}
        for rows, rate in [(10, 2.0), (20, 3.0), (0, float("nan"))]
    ]
    names = ("numInputRows", "inputRowsPerSecond", "processedRowsPerSecond")
    found = progress_of(said(0, sources=sources) | dict.fromkeys(names))
    assert (found.input_rows, found.input_rows_per_s, found.processed_rows_per_s) == (30, 5.0, None)


@pytest.mark.parametrize(
    ("end", "latest", "backlog"),
    [
        ('{"t":{"0":10,"1":5}}', '{"t":{"0":14,"1":5}}', 4),
        ({"t": {"0": 10}}, {"t": {"0": 9, "1": 100}, "u": {"0": 3}}, 0),
        ('{"logOffset": 3}', '{"logOffset": 5}', None),
        ("17", "18", None),
        ("no JSON", "no JSON", None),
        ('{"t":{"0":10}}', None, None),
        (None, None, None),
    ],
)
def test_the_backlog_is_known_where_offsets_are_rows(end, latest, backlog):
    source = {"endOffset": end, "latestOffset": latest}
    assert progress_of(said(0, sources=[source])).backlog_rows == backlog
    kafka = {"endOffset": '{"t":{"0":1}}', "latestOffset": '{"t":{"0":2}}'}
    assert progress_of(said(0, sources=[source, kafka])).backlog_rows == 1 + (backlog or 0)


# History


def test_history_has_a_row_per_batch_worker_and_key(observing):
    batches = observing.history()
    assert batches.batch.tolist() == [0, 1, 2]
    assert batches.version.tolist() == [0, 0, 1]
    assert batches.time[1] == pd.Timestamp("2026-01-02 03:04:01.5", tz="UTC")
    rows = figures(1).rows
    assert batches.loc[1, ["imbalance", "relative_imbalance", "load_stddev"]].tolist() == [
        ks.metrics.imbalance(rows),
        ks.metrics.relative_imbalance(rows),
        ks.metrics.load_stddev(rows),
    ]
    assert batches.backlog_rows.isna().all()
    assert batches.busiest_rows.tolist() == pytest.approx(batches.busiest.tolist())
    assert batches.busiest_time.isna().all()
    workers = observing.history("worker")
    assert len(workers) == 3 * WORKERS
    assert workers[workers.batch == 1].rows.tolist() == rows.tolist()
    assert workers.busy_s.isna().all()
    keys = observing.history(by="key")
    assert keys.key.tolist() == [MARKUP, "key 1", "key 2"] * 3
    assert keys.age.tolist() == [7] * 9
    with pytest.raises(ValueError, match=r"^by must be 'batch', 'worker' or 'key', got 'hour'$"):
        observing.history("hour")


def test_history_without_batches_has_the_same_columns_and_types():
    for by in ("batch", "worker", "key"):
        none, some = History(3), History(3)
        some.add([record(0, busy=True)])
        assert none.frame(by).dtypes.equals(some.frame(by).dtypes)
        assert len(none.frame(by)) == 0


def test_history_keeps_the_last_batches(query):
    with kss.streaming.observe(query, keep=2) as found:
        for batch in range(5):
            query.run(batch)
        assert found.history().batch.tolist() == [3, 4]


def test_a_query_without_plans_has_the_figures_of_spark(monkeypatch):
    query = Query(monkeypatch, plans=())
    with kss.streaming.observe(query, port=0) as found:
        query.hear(said(0))
        batches = found.history()
        assert batches[["batch", "input_rows", "duration_s"]].values.tolist() == [[0, 1000, 1.5]]
        assert batches[["plan", "busiest", "workers"]].isna().all(axis=None)
        assert len(found.history("worker")) == len(found.history("key")) == 0
        assert "no plan that changes (<code>kss.streaming.Adapt</code>)" in get(found.url)
        assert "keysplit_batch_duration_seconds" in get(found.url + "metrics")


def test_plans_of_one_query_are_kept_apart(monkeypatch):
    query = Query(monkeypatch, plans=("one", "two"))
    with kss.streaming.observe(query, port=0) as found:
        query.run(0)
        assert found.history().plan.tolist() == ["one", "two"]
        assert len(found.history("worker")) == 2 * WORKERS
        assert get(found.url + "metrics").count("keysplit_busiest_ratio{") == 2
        assert 'keysplit_input_rows_total{query="words"} 1000.0' in get(found.url + "metrics")


def test_neighbours_share_counters():
    many = replace(
        record(0, workers=3), together=2, figures=figures(0, workers=5)._replace(rows=np.arange(4))
    )
    assert many.worker_rows.tolist() == [0, 1, 2], "those of the plan"
    history = History(1)
    history.add([many])
    assert history.frame("worker").worker.tolist() == [0, 2, 4]


def test_batches_before_the_observer_are_there(query):
    query.recentProgress = [said(0), said(1, durationMs={}), said(1)]
    query.figures["worker-key"] += [figures(0), figures(1)]
    with kss.streaming.observe(query) as found:
        query.hear(said(1))  # once more
        query.run(2)
        assert found.history().batch.tolist() == [0, 1, 2]
        assert found.history().workers.tolist() == [WORKERS] * 3
        assert query.heard == [1, 2], "plans learn before their figures are read"


@pytest.mark.parametrize("ends", [False, True])
def test_batches_that_plans_have_not_heard_of_wait(query, ends):
    query.recentProgress = [said(0), said(1), said(2)]
    query.figures["worker-key"].append(figures(0))
    with kss.streaming.observe(query) as found:
        assert found.history().batch.tolist() == [0]
        if ends:
            query.figures["worker-key"] += [figures(1), figures(2)]
            query.end()
        else:
            query.run(1)
            assert found.history().batch.tolist() == [0, 1], "plans have still to learn from batch 2"
            query.run(2)
        assert found.history().workers.tolist() == [WORKERS] * 3


# The end


def test_an_observer_ends_with_its_query_and_keeps_its_history(query, tmp_path):
    found = kss.streaming.observe(query, port=0, log=tmp_path / "log")
    query.run(0)
    url = found.url
    get(url)
    assert not found.wait(0)
    query.end()
    assert found.wait()
    assert not query.listening
    assert len(found.history()) == 1
    assert len(pd.read_parquet(tmp_path / "log")) == 1
    with pytest.raises(urllib.error.URLError):
        get(url)
    found.stop()  # does nothing


def test_batches_that_end_while_the_observer_begins_are_there(monkeypatch):
    class Ending(Query):
        @property
        def isActive(self):
            self.recentProgress = [said(0), said(1)]
            return False

        @isActive.setter
        def isActive(self, active):
            pass

    found = kss.streaming.observe(Ending(monkeypatch))
    assert found.history().batch.tolist() == [0, 1]


def test_figures_of_plans_outlive_them(query, monkeypatch):
    with kss.streaming.observe(query) as found:
        query.run(0)
        monkeypatch.setattr(observer, "adapting_in", lambda run: [])  # Spark has told them first
        query.run(1)
        assert found.history().workers.tolist() == [WORKERS] * 2


def test_what_is_heard_after_the_end_is_in_neither_history_nor_log(query, tmp_path):
    found = kss.streaming.observe(query, log=tmp_path / "log")
    query.run(0)
    found.stop()
    query.run(1)
    found.stop()
    assert found.history().batch.tolist() == [0]
    assert pd.read_parquet(tmp_path / "log").batch.tolist() == [0]


def test_a_function_may_stop_the_observer(query):
    query.recentProgress, told = [said(0), said(1), said(2)], []
    query.figures["worker-key"].append(figures(0))

    def stop(found):
        told.append(found["batch"])
        if found["batch"] == 1:
            observing.stop()

    observing = kss.streaming.observe(query, log=stop)
    query.figures["worker-key"] += [figures(1), figures(2)]
    observing.stop()
    assert observing.wait(0)
    assert told == [0, 1, 2]


def test_a_query_that_has_ended_is_looked_at(query):
    query.isActive, query.recentProgress = False, [said(0)]
    found = kss.streaming.observe(query)
    assert not query.listening
    assert found.history().batch.tolist() == [0]


def test_batches_and_readers_at_the_same_time(query):
    with kss.streaming.observe(query, port=0) as found:
        failed = []

        def read():
            try:
                for _ in range(20):
                    found.history("worker")
                    get(found.url + "metrics")
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for each in threads:
            each.start()
        for batch in range(200):
            query.run(batch)
        for each in threads:
            each.join()
        assert failed == []
        assert found.history().batch.tolist() == list(range(200))


# Logs


def test_a_log_is_a_table_of_whole_files(query, tmp_path):
    with kss.streaming.observe(query, log=tmp_path / "a" / "log", log_every=2):
        for batch in range(5):
            query.run(batch, busy=batch > 2)
        names = sorted(each.name for each in (tmp_path / "a" / "log").iterdir())
        assert names == ["the-run-000000000-000000001.parquet", "the-run-000000002-000000003.parquet"]
    found = pd.read_parquet(tmp_path / "a" / "log").sort_values("batch")
    assert found.columns.tolist() == log.SCHEMA.names
    assert found.batch.tolist() == list(range(5))
    assert found.worker_rows.iloc[1].tolist() == figures(1).rows.tolist()
    assert found.worker_busy_s.isna().tolist() == [True] * 3 + [False] * 2
    assert [each["key"] for each in found.hot.iloc[0]] == [MARKUP, "key 1", "key 2"]
    assert set(found["query"]) == {"the-id"}
    assert found.time.iloc[1] == pd.Timestamp("2026-01-02 03:04:01.5", tz="UTC")


def test_a_relative_log_stays_in_the_folder_of_the_call(query, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with kss.streaming.observe(query, log="log", log_every=1):
        monkeypatch.chdir("/")
        query.run(0)
    assert pd.read_parquet(tmp_path / "log").batch.tolist() == [0]


def test_a_log_goes_on_where_another_observer_of_the_run_has_ended(query, tmp_path):
    for stop in (2, 3):
        with kss.streaming.observe(query, log=tmp_path, log_every=2):
            for batch in range(stop):
                query.run(batch)
    assert sorted(pd.read_parquet(tmp_path).batch) == [0, 1, 2]


@pytest.mark.parametrize("log", ["nope://x/y", "file"])
def test_a_log_that_is_no_folder_is_named(query, tmp_path, log):
    (tmp_path / "file").touch()
    with pytest.raises((OSError, ValueError), match=r"^log (cannot be used: .*nope|must be a folder, got )"):
        kss.streaming.observe(query, log=log if "//" in log else tmp_path / log)


def test_a_log_that_cannot_be_written_waits(query, tmp_path, monkeypatch):
    def fail(path, data):
        raise OSError("no room")

    with kss.streaming.observe(query, log=tmp_path, log_every=1):
        with monkeypatch.context() as patch:
            patch.setattr(log.paths, "write_bytes", fail)
            with pytest.warns(
                UserWarning, match="^the log of an observer cannot be written for now, .*: no room$"
            ):
                query.run(0)
        query.run(1)
    assert sorted(pd.read_parquet(tmp_path).batch) == [0, 1]


def test_a_function_gets_a_dict_of_each_batch_and_plan(query):
    found = []
    with kss.streaming.observe(query, log=lambda each: found.append(json.dumps(each, allow_nan=False))):
        query.run(0, busy=True)
        query.run(1)
    first, second = map(json.loads, found)
    assert list(first) == log.SCHEMA.names
    assert (first["query"], first["run"], first["batch"]) == ("the-id", "the-run", 0)
    assert first["worker_busy_s"] == [0.1, 0.2, 0.3, 0.4]
    assert second["worker_busy_s"] is None
    assert second["time"] == "2026-01-02T03:04:01.500000+00:00"


def test_what_a_function_raises_is_a_warning(query):
    def fail(_):
        raise KeyError("broker")

    with kss.streaming.observe(query, log=fail) as found:
        with pytest.warns(UserWarning, match="^the log of an observer was not written: KeyError: 'broker'$"):
            query.run(0)
        assert len(found.history()) == 1


# Arguments


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"query": 3}, TypeError, "query must be a streaming query, got int"),
        ({"port": 65_536}, ValueError, "port must be in 0..=65535, got 65536"),
        ({"port": "80"}, TypeError, "port must be a whole number, got '80'"),
        ({"host": 3}, TypeError, "host must be an address such as '127.0.0.1', got 3"),
        ({"host": "", "port": 0}, ValueError, "host must be an address such as '127.0.0.1', got ''"),
        ({"log": 3}, TypeError, "log must be a folder or a function, got 3"),
        ({"log": ""}, ValueError, "log must be a folder, got ''"),
        ({"log_every": 0}, ValueError, "log_every must be at least 1, got 0"),
        ({"key_labels": 1}, TypeError, "key_labels must be True or False, got 1"),
        ({"keep": True}, TypeError, "keep must be a whole number, got True"),
        (
            {"log": "nowhere://log"},
            ValueError,
            "log cannot be used: path must be a file, a folder or a URL of a file",
        ),
    ],
)
def test_wrong_arguments(query, arguments, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        kss.streaming.observe(**{"query": query, **arguments})
    assert query.listening is None


def test_a_port_that_is_taken_is_named(query):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=rf"^port {port} of host '127\.0\.0\.1' cannot be served: "):
            kss.streaming.observe(query, port=port)


def test_prometheus_is_needed_for_a_port_alone():
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from keysplit.spark.streaming.observing.prometheus import Exposition\nExposition(list)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = run.stderr.strip().splitlines()[-1]
    assert (
        last == "ImportError: port needs prometheus_client: pip install '.[observe]' in a clone of keysplit"
    )


# The server


def of_another_query(monkeypatch, query_id, name):
    other = Query(monkeypatch)
    other.id, other.runId, other.name = query_id, "the-run", name
    return other


@pytest.mark.parametrize("port", ["the same", 0])
def test_one_endpoint_serves_all_queries_of_a_driver(query, monkeypatch, port):
    first = kss.streaming.observe(query, port=0)
    base = first.url.removesuffix("the-id/")
    query.run(0)
    assert "Batch 0, begun at" in get(base), "the only one"
    other = of_another_query(monkeypatch, "id-2", "words")
    port = 0 if port == 0 else int(base.rsplit(":", 1)[1].strip("/"))
    second = kss.streaming.observe(other, port=port)
    assert second.url == base + "id-2/"
    other.run(0)
    other.run(1)
    metrics = get(base + "metrics")
    assert metrics == get(first.url + "metrics")
    series = [line.rsplit(" ", 1)[0] for line in metrics.splitlines() if not line.startswith("#")]
    assert len(set(series)) == len(series)
    batches = {
        labels: value for (name, labels), value in exposed(metrics).items() if name.endswith("batches_total")
    }
    assert batches == {(("query", "words"),): 1, (("query", "words id-2"),): 2}
    listed = get(base)
    assert 'href="/the-id/"' in listed
    assert 'href="/id-2/"' in listed
    assert json.loads(get(second.url + "history.json"))["query"] == "id-2"
    assert refused(base + "history.json", 404)
    assert refused(base + "id-3/metrics", 404)
    again = kss.streaming.observe(other, port=port)
    again.stop()
    first.stop()
    assert "Batch 1, begun at" in get(base)
    second.stop()
    with pytest.raises(urllib.error.URLError):
        get(base)


def test_the_server_answers_what_is_asked(observing):
    found = json.loads(get(observing.url + "history.json"))
    assert (found["query"], [each["batch"] for each in found["records"]]) == ("the-id", [0, 1, 2])
    assert [each["batch"] for each in json.loads(get(observing.url + "history.json?after=1"))["records"]] == [
        2
    ]
    assert refused(observing.url + "history.json?after=x", 400)
    assert refused(observing.url + "history.json?after=%E2%82%AC", 400)
    assert refused(observing.url, 400, Host="[x")
    assert refused(observing.url + "nothing", 404)


def test_pages_of_others_cannot_read_it(observing):
    assert refused(observing.url, 403, Host="evil.example:80")
    with urllib.request.urlopen(observing.url.replace("127.0.0.1", "localhost"), timeout=20) as answer:
        assert "default-src 'none'; connect-src 'self'" in answer.headers["Content-Security-Policy"]


def exposed(text):
    """The series of an exposition: values by name and labels."""
    from prometheus_client.parser import text_string_to_metric_families

    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def test_metrics(query, observing):
    query.run(3, version=1, busy=True)
    found = exposed(get(observing.url + "metrics"))
    plan, whole = (("plan", "worker-key"), ("query", "words")), (("query", "words"),)
    assert found["keysplit_batches_total", whole] == 4
    assert found["keysplit_batch", whole] == 3
    assert found["keysplit_input_rows_total", whole] == 4000
    assert found["keysplit_plan_version", plan] == 1
    assert found["keysplit_plan_changes_total", plan] == 1
    assert found["keysplit_hash_busiest_ratio", plan] == 2.5
    worker = (*plan, ("worker", "2"))
    assert found["keysplit_worker_rows_total", worker] == sum(figures(batch).rows[2] for batch in range(4))
    assert found["keysplit_worker_busy_seconds_total", worker] == pytest.approx(0.303)
    assert found["keysplit_hot_key_age_batches", (*plan, ("rank", "0"))] == 7
    assert found["keysplit_load_stddev_ratio", plan] == pytest.approx(
        ks.metrics.load_stddev(figures(3).rows) / 100
    )
    versions = (("spark", pyspark.__version__), ("version", ks.__version__))
    assert found["keysplit_build_info", versions] == 1
    assert not any("key" in dict(labels) for _, labels in found), "keys may name people"
    assert not any(name == "keysplit_backlog_rows" for name, _ in found)
    query.run(4, hot=1)
    found = exposed(get(observing.url + "metrics"))
    assert [dict(labels)["rank"] for name, labels in found if name == "keysplit_hot_key_share"] == ["0"]


def test_keys_are_labels_if_asked_for(query):
    with kss.streaming.observe(query, port=0, key_labels=True) as found:
        query.run(0)
        shown = exposed(get(found.url + "metrics"))
    keys = {dict(labels)["rank"]: dict(labels)["key"] for _, labels in shown if "key" in dict(labels)}
    assert keys == {"0": MARKUP, "1": "key 1", "2": "key 2"}


def test_late_rows_are_added_up():
    totals = prometheus.Totals("q", False)
    assert b"keysplit_late_rows_total{" not in prometheus.Exposition(lambda: [totals]).text()
    for batch in range(3):
        progress = progress_of(said(batch, stateOperators=[{"numRowsDroppedByWatermark": 2}]))
        totals.add((Record(progress),))
    assert b'keysplit_late_rows_total{query="q"} 6.0' in prometheus.Exposition(lambda: [totals]).text()


def test_workers_come_and_go_in_metrics():
    totals = prometheus.Totals("q", False)
    for batch, workers in enumerate([2, 3, 1]):
        totals.add((record(batch, workers=workers),))
    found = exposed(prometheus.Exposition(lambda: [totals]).text().decode())
    rows = [value for (name, _), value in found.items() if name == "keysplit_worker_rows_total"]
    assert rows == [100 + 101 + 102, 200 + 201, 301]


def names_and_labels():
    """Every metric that there is, with its labels."""
    totals = prometheus.Totals("q", True)
    kafka = {"endOffset": '{"t":{"0":1}}', "latestOffset": '{"t":{"0":2}}'}
    state = {"numRowsTotal": 7, "memoryUsedBytes": 500, "numRowsDroppedByWatermark": 2}
    time = {"watermark": "2026-01-02T02:55:00.000Z"}
    progress = progress_of(said(0, sources=[kafka], stateOperators=[state], eventTime=time))
    totals.add((Record(progress, "p", 1, figures(0, busy=True)),))
    text = prometheus.Exposition(lambda: [totals]).text().decode()
    # Prometheus adds where it has read them
    return {name: {"instance", "job", *(label for label, _ in labels)} for name, labels in exposed(text)}


QUERIES = re.compile(r"keysplit_\w+")


def test_the_dashboard_asks_for_metrics_that_are_there():
    dashboard = json.loads((ROOT / "docs/observe/grafana.json").read_text(encoding="utf-8"))
    known = names_and_labels()
    queries = [each["expr"] for panel in dashboard["panels"] for each in panel["targets"]]
    queries += [each["expr"] for each in dashboard["annotations"]["list"]]
    for text in queries:
        for name, matchers in re.findall(r"(keysplit_\w+)\{(.*?)\}", text):
            assert set(re.findall(r"(\w+)=~", matchers)) <= known[name], text
        for labels in re.findall(r"(?:by|on|group_left) \((.*?)\)", text):
            assert set(labels.split(", ")) <= set.union(*(known[name] for name in QUERIES.findall(text)))
    for panel in dashboard["panels"]:
        for each in panel["targets"]:
            shown = set(re.findall(r"\{\{(\w+)\}\}", each["legendFormat"]))
            assert shown <= set.union(*(known[name] for name in QUERIES.findall(each["expr"])))
            assert 'instance=~"$instance"' in each["expr"]
    asked = {name for text in queries for name in QUERIES.findall(text)}
    for each in dashboard["templating"]["list"][1:]:
        name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", each["query"]).groups()
        assert label in known[name]
    assert asked <= set(known)
    assert len({each["id"] for each in dashboard["panels"]}) == len(dashboard["panels"]) == 14


def test_the_alerts_ask_for_metrics_that_are_there():
    text = (ROOT / "docs/observe/alerts.yml").read_text(encoding="utf-8")
    rules = re.findall(r"- alert: (\w+)\n\s+expr: (.*)\n((?:\s{8}.*\n)+)", text)
    assert len(rules) == text.count("- alert:") == 8
    known = names_and_labels()
    for name, query, rest in rules:
        asked = QUERIES.findall(query)
        assert set(asked) <= set(known), name
        if " on (" in query:
            assert "on (job, instance, query)" in query, "two drivers may have queries of one name"
        shown = set(re.findall(r"\$labels\.(\w+)", rest))
        assert shown <= (known[asked[0]] if asked else {"instance"}), name


def test_the_documentation_explains_every_figure_and_metric():
    whole = (ROOT / "docs/streaming.md").read_text(encoding="utf-8")
    text = whole.split("\n## Observe\n")[1].split("\n## ")[0]
    columns = History(1).frame("batch").columns
    assert [name for name in columns if f"`{name}`" not in text] == []
    shown = set(QUERIES.findall(text))
    assert set(names_and_labels()) == shown


# The page


def test_the_page_says_what_the_figures_say(observing, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(get(observing.url), encoding="utf-8")
    read = Page(path)
    assert read.links == ["data:,", "/the-id/history.json", "/metrics", "/"]
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r'fetch\("([^"?]*)', text)) == {"/the-id/history.json", "/the-id/"}
    assert "http" not in text
    assert "url(" not in text
    assert MARKUP in read.words
    assert "Batch 2, begun at 2026-01-02 03:04:02 UTC." in read.words
    assert f"2.50 → {figures(2).busiest:.2f}" in read.words
    assert "1 change on this page" in read.words
    assert read.classes["event"] == 1
    assert read.classes["bar"] == WORKERS
    assert "version 1, from batch 2 on" in text
    assert "Busy time" not in read.words


def test_the_page_before_the_first_batch(tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page.draw("words & more", "the-id", []), encoding="utf-8")
    read = Page(path)
    assert "No batch has ended yet." in read.words
    assert "words & more" in read.words


def test_a_long_run_with_many_workers_and_keys_stays_readable():
    records = [record(batch, workers=1000, hot=60, busy=True) for batch in range(page.MOST_BATCHES + 50)]
    text = page.draw("words", "the-id", records)
    assert text.count('class="bar"') == 200, "rows and busy times"
    assert "40 more are not shown." in text
    assert len(text) < 300_000
    assert "Batch 349, begun" in text


MEASURE = """
  const seen = [...document.querySelectorAll(".chart")].filter(each => each.checkVisibility());
  const size = each => each.getBoundingClientRect();
  return {
    width: innerWidth,
    scroll: document.documentElement.scrollWidth,
    paper: getComputedStyle(document.body).backgroundColor,
    charts: seen.map(each => [...each.querySelectorAll(".mark")].map(size).filter(r => r.width > 2).length),
    fill: Math.min(...seen.map(each => size(each).width / size(each.parentElement).width)),
    bars: [...document.querySelectorAll(".plot .bar > div")].map(each => size(each).height),
    silent: document.querySelector(".silent").checkVisibility(),
  };
"""


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (500, True)], ids=["laptop", "phone, dark"])
def test_a_browser_draws_the_page(tmp_path, width, dark):
    path = tmp_path / "page.html"
    records = [record(batch, version=batch // 10, busy=True) for batch in range(30)]
    path.write_text(page.draw("words", "the-id", records), encoding="utf-8")
    _, found = in_browser(path, width=width, dark=dark, script=MEASURE)
    assert found["width"] == width
    assert found["scroll"] <= width, "the page does not scroll sideways"
    red = int(re.match(r"rgb\((\d+)", found["paper"])[1])
    assert red < 60 if dark else red > 200
    assert found["charts"] == [3, 1, 2]
    assert found["fill"] > 0.8
    assert len(found["bars"]) == 2 * WORKERS
    assert max(found["bars"]) > 100
    assert not found["silent"]


def test_a_live_page_follows_the_query(query, tmp_path, monkeypatch):
    """Each question of the page is answered with one more batch, until it is silenced."""
    with kss.streaming.observe(query, port=0) as found:
        query.run(0)
        asked = []
        records = found._history.records

        def answered(after=-1):
            if after >= 0:
                asked.append(after)
                if len(asked) <= 2:
                    query.run(len(asked))
            return records(after)

        monkeypatch.setattr(found._history, "records", answered)
        elements = elements_of(found.url, tmp_path, after_s=6)
    assert asked[:4] == [0, 1, 2, 2], "it asks for what it has not drawn"
    assert "Batch 2, begun at" in elements
    assert 'is-silent">' not in elements


def test_a_live_page_says_that_nobody_answers(query, tmp_path, monkeypatch):
    with kss.streaming.observe(query, port=0) as found:
        query.run(0)

        def answered(after=-1):
            if after >= 0:
                raise ValueError("no more")  # a bad request
            return [record(0)]

        monkeypatch.setattr(found._history, "records", answered)
        elements = elements_of(found.url, tmp_path, after_s=3)
    assert '<body class="is-silent">' in elements
    assert "Batch 0, begun at" in elements, "the last figures stay"


# Real streams


def wait(condition):
    for _ in range(1200):
        if condition():
            return
        threading.Event().wait(0.1)
    raise TimeoutError


def start(df, tmp_path, name="words"):
    writer = df.writeStream.format("noop").queryName(name).trigger(processingTime="200 milliseconds")
    return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()


def rated(spark):
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2000).load()
    key = "IF(pmod(hash(value), 5) < 2, 'hot', 'key ' || pmod(hash(value), 300))"
    return rows.withColumn("key", F.expr(key))


def plan_of_rated(spark, workers=WORKERS, capacities=None):
    rows = spark.range(10_000).select(F.col("id").alias("value"))
    key = "IF(pmod(hash(value), 5) < 2, 'hot', 'key ' || pmod(hash(value), 300))"
    rows = rows.withColumn("key", F.expr(key))
    return kss.plan(rows, "key", workers, row_id="value", capacities=capacities)


@pytest.mark.versions
@pytest.mark.parametrize("way", ["even", "slow", "many"])
def test_workers_of_a_plan_that_stays_are_counted(spark, tmp_path, way):
    workers = 10_000 if way == "many" else WORKERS
    first = plan_of_rated(spark, workers, [1, 1, 1, 0.2] if way == "slow" else None)
    stays = Adapt(start=first, every=None, log=tmp_path / "log")
    df, counted = kss.streaming.route(rated(spark), "key", plan=stays), {}

    def count(df, batch):
        counted[batch] = dict(df.groupBy("worker").count().collect())

    writer = df.writeStream.foreachBatch(count).trigger(processingTime="200 milliseconds")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        with kss.streaming.observe(query, port=0) as found:
            wait(lambda: len(found.history()) >= 3)
            read, metrics = get(found.url), get(found.url + "metrics")
            published = kss.streaming.publish(first.with_workers(2), query)
            wait(lambda: found.history().version.max() == published)
            query.stop()
            assert found.wait(60)
    finally:
        query.stop()
    history = found.history()
    assert set(history.plan) == {"worker-key"}
    assert [(each.name, Plan.load(each)) for each in sorted((tmp_path / "log").glob("plan-*"))] == [
        ("plan-0.json", first),
        ("plan-1.json", first.with_workers(2)),
    ]
    for batch, rows in found.history("worker").groupby("batch"):
        has = history.set_index("batch").workers[batch]
        assert has in (workers, 2)
        together = 4 if way == "many" else 1
        expected = [0] * -(-has // together)
        for worker, number in counted[batch].items():
            expected[worker // together] += number
        assert rows.rows.tolist() == expected
    assert set(counted[history.batch[history.version == published].max()]) == {0, 1}
    if way == "many":
        return
    speeds = [1, 1, 1, 0.2] if way == "slow" else [1] * WORKERS
    loads = [counted[0].get(worker, 0) / speed for worker, speed in enumerate(speeds)]
    assert history.busiest[0] == pytest.approx(max(loads) * sum(speeds) / 2000)
    assert "keysplit_busiest_ratio" in metrics
    assert "load of the busiest of 4 workers over its fair share" in read


@pytest.mark.versions
def test_a_running_query_is_observed(spark, tmp_path):
    df = kss.streaming.route(rated(spark), "key", plan=Adapt(WORKERS, row_id="value"))
    query, told = start(df, tmp_path), []
    try:
        early = kss.streaming.observe(query, port=0, log=told.append)
        wait(lambda: len(early.history()) >= 3)
        late = kss.streaming.observe(query, log=tmp_path / "log")
        assert len(late.history()) >= 3
        assert "keysplit_busiest_ratio" in get(early.url + "metrics")
        wait(lambda: (late.history().version > 0).sum() >= 2)
    finally:
        query.stop()
    assert early.wait(60)
    assert late.wait(60)
    found = early.history()
    assert found.batch.tolist() == list(range(len(found)))
    assert (found.input_rows == 2000).all()
    rows = early.history("worker").groupby("batch").rows.sum()
    assert (rows == 2000).all()
    assert found.busiest[0] > 1.3
    planned = found[found.version > 0].batch.min()
    assert (found.busiest[planned:] < 1.3).all()
    assert (found.hash_busiest > 1.5).all(), "the hot key has 40 % of the rows"
    keys = early.history("key").query(f"batch >= {planned}")
    assert set(keys.key) == {"hot"}
    assert keys.share.between(0.3, 0.5).all()
    assert keys.age.diff().dropna().eq(1).all()
    assert [each["batch"] for each in told] == found.batch.tolist()
    written = pd.read_parquet(tmp_path / "log").sort_values("batch")
    assert written.batch.tolist() == late.history().batch.tolist()
    assert written.busiest.tolist() == found.set_index("batch").busiest[written.batch].tolist()


@pytest.mark.versions
def test_a_failed_query_ends_its_observer(spark, tmp_path):
    def fail(df, batch):
        df.count()
        if batch == 1:
            raise RuntimeError("on purpose")

    writer = rated(spark).writeStream.foreachBatch(fail)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    found = kss.streaming.observe(query)
    assert found.wait(120)
    assert found.history().batch.tolist() == [0]
    assert found.history().plan.isna().all()
