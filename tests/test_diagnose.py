"""Diagnoses of event logs: of real ones of each version of Spark, and of made-up ones for each cause."""

import gzip
import json
import threading
import zipfile
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import keysplit as ks
from event_logs import GROUPS, MB, READS, application, diagnosed, end, hot, node, query, stage, task, text_of
from keysplit.cli import main
from keysplit.diagnosis import codecs
from keysplit.diagnosis.adaptive import read_size
from keysplit.diagnosis.codecs import DamagedError
from keysplit.diagnosis.plan import Operator, column_name
from pages import Page, in_browser

LOGS = sorted((Path(__file__).parent / "eventlogs").glob("spark-*"))


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_each_verdict_on_a_real_log_is_right_and_there_is_no_false_alarm(log):
    jobs = pytest.importorskip("skewed_jobs", reason="pyspark is not installed: pip install '.[spark]'")
    diagnosis = ks.diagnose(log)
    (found,) = diagnosis.applications
    assert log.name.startswith(f"spark-{found.version}.")
    assert found.ended
    assert not found.notes
    version = tuple(map(int, found.version.split(".")[:2]))
    names = [name for name, job in jobs.JOBS.items() if job.kept and job.since <= version]
    if log.suffix != ".zstd":
        names = list(jobs.FEW)
        assert len(found.findings) == 2
    of = {name: jobs.findings_of(diagnosis, name) for name in names}
    wrong = {
        name: [each.to_dict() for each in some]
        for name, some in of.items()
        if not jobs.is_right(jobs.JOBS[name], some)
    }
    assert wrong == {}
    assert sum(map(len, of.values())) == len(found.findings), "a finding in no job"


def test_logs_of_all_versions_and_formats_are_here():
    assert {log.name.split("-")[1][:3] for log in LOGS} == {"3.5", "4.0", "4.2", "4.3"}
    assert {log.suffix for log in LOGS} == {".lz4", ".snappy", ".zstd"}


def test_figures_of_a_skewed_stage(tmp_path):
    events = application(query(GROUPS), stage(1, hot(records=5000, size=50 * MB), [(1, 5700)]), end(0, 12.0))
    diagnosis = diagnosed(tmp_path, events)
    (finding,) = diagnosis.findings
    assert (finding.operator, finding.columns, finding.cause) == ("python group", ("user",), "rows")
    assert finding.line == 'kss.apply(df, "user", partial, schema, merge=merge, workers=8)'
    assert finding.verdict.startswith("split the hot keys of the Python function by user")
    assert finding.task == 7
    assert finding.ratio == 10
    assert finding.spreads["records"] == (5000, 100, 5000, 5700)
    assert finding.spreads["bytes"].ratio == 50
    assert finding.waiting_core_s == 8 * 10 - 17
    assert finding.query_s == 12
    # its work of 17 s on 8 cores, and all tasks at once
    assert finding.balanced_s == pytest.approx((12 - 10 + 17 / 8, 12 - 10 + 17 / 8))
    assert "splits joins only" in finding.adaptive


def loading(hot_at: int, *, rest: int = 7) -> list[dict[str, Any]]:
    """Tasks on four cores, the first four of which load something for 25 s; one has most of the rows."""
    tasks, free = [], [0.0] * 4
    for at in range(5 + rest):
        core = free.index(min(free))
        seconds = (25.0 if at < 4 else 0.0) + (16.0 if at == hot_at else 0.5 + at / 100)
        records = 8199 if at == hot_at else 150 + at
        tasks.append(task(1, at, free[core], seconds, records=records, updates=READS))
        free[core] += seconds
    return tasks


@pytest.mark.parametrize(("hot_at", "rest"), [(9, 7), (5, 1), (0, 7), (0, 1), (3, 7), (11, 7)])
def test_the_task_is_blamed_that_cores_wait_for(tmp_path, hot_at, rest):
    tasks = loading(hot_at, rest=rest)
    events = application(query(GROUPS), stage(1, tasks, [(1, 10_000)]), end(0, 50.0), cores=4)
    (finding,) = diagnosed(tmp_path, events).findings
    assert (finding.task, finding.cause, finding.columns) == (hot_at, "rows", ("user",))
    assert finding.spreads["records"].slowest == 8199
    assert finding.ratio > 2


@pytest.mark.parametrize("rest", [0, 1, 3, 4, 7])
def test_what_first_tasks_load_is_no_finding(tmp_path, rest):
    events = application(query(GROUPS), stage(1, loading(-1, rest=rest)), end(0, 50.0), cores=4)
    assert diagnosed(tmp_path, events).findings == ()


def test_of_two_long_tasks_that_end_last_the_longer_is_blamed(tmp_path):
    tasks = [*(task(1, at, at, 1) for at in range(8)), task(1, 8, 7.9, 2.3), task(1, 9, 0, 10, records=5000)]
    (finding,) = diagnosed(
        tmp_path, application(query(GROUPS), stage(1, tasks), end(0, 12.0), cores=4)
    ).findings
    assert finding.task == 9


def test_a_balanced_stage_is_no_finding(tmp_path):
    tasks = [task(1, at, 0, 3 + at / 8) for at in range(8)]
    diagnosis = diagnosed(tmp_path, application(query(GROUPS), stage(1, tasks), end(0, 12.0)))
    assert diagnosis.findings == ()
    assert diagnosis.verdict.startswith("no action needed")


@pytest.mark.parametrize(
    ("longest", "query_s", "rule"),
    [
        (0.9, 2, "took 0.90 s, below 1 s"),
        (1.8, 4, "took 1.80 times the median, below 2"),
        (
            3.0,
            80,
            "took 3.00 times the median, and a balanced stage would save 2.1% of its query's time, below 5%",
        ),
    ],
)
def test_no_action_names_what_is_nearest_to_a_finding(tmp_path, longest, query_s, rule):
    tasks = [*(task(1, at, 0, 1 if longest > 1 else 0.1) for at in range(7)), task(1, 7, 0, longest)]
    other = [task(0, at, 0, 0.1) for at in range(8)]
    events = application(query(GROUPS), stage(0, other), stage(1, tasks), end(0, query_s), end_s=query_s)
    verdict = diagnosed(tmp_path, events).verdict
    assert verdict.startswith("no action needed: no stage waits for a slow task. The nearest is stage 1: its")
    assert verdict.endswith(rule)


def read_by(name: str, text: str, shuffle: str, *between: str) -> dict[str, Any]:
    plan = node("Exchange", shuffle, [node("Scan")], records_read=1, local_bytes_read=2)
    for each in between:
        plan = node(each.split()[0], each, [plan])
    return node(name, text, [plan])


@pytest.mark.parametrize(
    ("plan", "action"),
    [
        (
            read_by("Window", "Window [rank(x)], [x#1 ASC]", "Exchange SinglePartition"),
            "split the window by ranges of its order: kss.window(df, *columns, workers=200)",
        ),
        (
            read_by("WindowInPandas", "WindowInPandas [f(x#1)]", "Exchange SinglePartition"),
            "partition the window by",
        ),
        (
            node("Coalesce", "Coalesce 1", [node("Scan parquet", number_of_output_rows=1)]),
            "put repartition(1) in the place of coalesce(1)",
        ),
        (
            read_by("FlatMapGroupsInPandas", "FlatMapGroupsInPandas [k#1], f(k#1)#2, [k#3]",
                    "Exchange hashpartitioning(k#1, 48)", "AQEShuffleRead coalesced"),
            "set spark.sql.adaptive.coalescePartitions.enabled=false, or put df.repartition(n, key)",
        ),
        (
            node("Scan csv", number_of_output_rows=1),
            "read the input in more parts: smaller files (a gzip file cannot be split), or",
        ),
        (node("Scan parquet", number_of_output_rows=1), "read the input in more parts: smaller files, or"),
        (
            node("BatchScan x", "BatchScan x[k#1] OrcScan DataFilters: []", number_of_output_rows=1),
            "read the input in more parts: smaller files, or",
        ),
        (read_by("GlobalLimit", "GlobalLimit 9", "Exchange SinglePartition"), "put df.repartition(n) after"),
        (
            read_by("Project", "Project [k#1]", "Exchange SinglePartition", "TakeOrderedAndProject(limit=9)"),
            "put df.repartition(n) after the limit",
        ),
    ],
)  # fmt: skip
def test_a_stage_of_one_long_task_is_noted_with_why_it_has_one(tmp_path, plan, action):
    alone = stage(1, [task(1, 0, 0, 8, updates=READS)], READS)
    diagnosis = diagnosed(tmp_path, application(query(plan), alone, end(0, 10.0)))
    assert diagnosis.findings == ()
    first, second, third = diagnosis.verdict.splitlines()
    assert first.startswith(action)
    assert second == "took 8.0 s of 10.0 s on one of 8 cores"
    assert third.startswith("sure: stage 1 is one task (")
    assert diagnosis.notes == (), "which would repeat it"
    assert str(diagnosis).count("is one task") == 1
    assert f"\n{second}\n{third}" in str(diagnosis)


def test_further_stages_of_one_task_are_noted(tmp_path):
    plan = node("Coalesce", "Coalesce 1", [node("Scan parquet", number_of_output_rows=1)])
    stages = [
        stage(id_, [task(id_, 0, start, took, updates=READS)], READS)
        for id_, start, took in [(1, 0, 8), (2, 8, 4)]
    ]
    diagnosis = diagnosed(tmp_path, application(query(plan), *stages, end(0, 16.0)))
    assert diagnosis.verdict.endswith(
        "\ntook 8.0 s of 16.0 s on one of 8 cores\nsure: stage 1 is one task (scan)"
    )
    (note,) = diagnosis.notes
    assert note.startswith(
        "stage 2 is one task (scan): it took 4.0 s of the query's 16.0 s (25%) on one of 8 cores. To"
    )


@pytest.mark.parametrize("name", ["CollectLimit", "CollectTail"])
def test_a_stage_that_looks_at_few_partitions_is_not_noted(tmp_path, name):
    plan = node(name, f"{name} 20", [node("Scan csv", number_of_output_rows=1)])
    alone = stage(1, [task(1, 0, 0, 8, updates=READS)], READS)
    diagnosis = diagnosed(tmp_path, application(query(plan), alone, end(0, 10.0)))
    assert diagnosis.notes == ()
    assert diagnosis.verdict.startswith("no action needed")


@pytest.mark.parametrize(("seconds", "query_s", "cores"), [(0.9, 2, 8), (8, 200, 8), (8, 10, 1)])
def test_a_stage_of_one_task_that_costs_little_is_not_noted(tmp_path, seconds, query_s, cores):
    alone = stage(1, [task(1, 0, 0, seconds)])
    events = application(query(GROUPS), alone, end(0, query_s), cores=cores, end_s=query_s)
    diagnosis = diagnosed(tmp_path, events)
    assert diagnosis.notes == ()
    assert diagnosis.verdict.startswith("no action needed")


@pytest.mark.parametrize(
    "scan", ["Scan parquet", "Scan orc", "InMemoryTableScan", "BatchScan rows", "PhotonScan"]
)
def test_rows_of_a_scan_that_returns_batches_are_counted_once(tmp_path, scan):
    plan = node(
        "WholeStageCodegen (1)",
        children=[
            node("ColumnarToRow", children=[node(scan, number_of_output_rows=5)], number_of_output_rows=6)
        ],
    )
    updates = [[(5, 20), (6, 20)]] * 7 + [[(5, 1500), (6, 1500)]]
    tasks = [
        task(1, at, 0, 10 if at == 7 else 1, records=2, shuffle=False, updates=each)
        for at, each in enumerate(updates)
    ]
    events = application(query(plan), stage(1, tasks, [(5, 1640), (6, 1640)]), end(0, 12.0))
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.operator == "scan"
    assert "task 7 of 8 read 1,500 of 1,640 rows" in finding.verdict


@pytest.mark.parametrize(("seconds", "query_s", "count"), [(0.9, 2.0, 0), (1.1, 2.0, 1), (1.1, 40.0, 0)])
def test_short_stages_and_small_parts_of_a_query_are_no_findings(tmp_path, seconds, query_s, count):
    tasks = [*(task(1, at, 0, 0.1) for at in range(7)), task(1, 7, 0, seconds, records=5000)]
    events = application(query(GROUPS), stage(1, tasks), end(0, query_s), end_s=query_s)
    assert len(diagnosed(tmp_path, events).findings) == count


def test_cores_that_another_stage_uses_do_not_wait(tmp_path):
    other = [task(2, at, 0, 10) for at in range(7)]
    events = application(query(GROUPS), stage(1, hot(records=5000)), stage(2, other), end(0, 12.0))
    assert diagnosed(tmp_path, events).findings == ()


@pytest.mark.parametrize(
    ("of_hot", "cause", "action"),
    [
        ({"gc_s": 5.0}, "gc", "give executors more memory"),
        ({"wait_s": 6.0}, "fetch", "check the network"),
        ({}, "time", "check the machine"),
        ({"cpu_s": 9.0}, "time", "look at the rows of the slowest task"),
    ],
)
def test_without_more_rows_no_split_helps(tmp_path, of_hot, cause, action):
    events = application(query(GROUPS), stage(1, hot(**of_hot)), end(0, 12.0))
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.cause == cause
    assert finding.line is None
    assert finding.verdict.startswith(action)
    assert "no split" in finding.verdict
    assert finding.adaptive == ""


def test_a_slow_machine_is_named(tmp_path):
    tasks = [task(1, at, 0, 10 if at % 3 == 2 else 1, host="abc"[at % 3], updates=READS) for at in range(12)]
    events = application(query(GROUPS), stage(1, tasks), end(0, 12.0), cores=12, hosts="abc")
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.cause == "host"
    assert finding.executor == "c c"
    assert finding.verdict.startswith("check the machine c")
    assert "10.00 times" in finding.verdict


def join_plan(text: str, left: dict[str, Any] | None = None, above: str = "") -> dict[str, Any]:
    sides = [
        node(
            "Exchange",
            f"Exchange hashpartitioning({key}, 8), ENSURE_REQUIREMENTS",
            [node("Scan")],
            records_read=id_,
            local_bytes_read=id_ + 1,
        )
        for key, id_ in (("k#1", 1), ("k#2", 3))
    ]
    sides = [
        node("Sort", children=[node("AQEShuffleRead", "AQEShuffleRead coalesced", [each])]) for each in sides
    ]
    joined = node("SortMergeJoin", text, sides, number_of_output_rows=5)
    return node(above, f"{above} [x], [k#1]", [joined]) if above else joined


INNER = "SortMergeJoin [k#1], [k#2], Inner"
ADAPTIVE = "spark.sql.adaptive."
LOW = {f"{ADAPTIVE}skewJoin.skewedPartitionThresholdInBytes": "1m"}


@pytest.mark.parametrize(
    ("text", "conf", "why"),
    [
        (INNER, {}, "skewedPartitionThresholdInBytes (256 MiB)"),
        (INNER.replace("Inner", "FullOuter"), {}, "cannot split a full outer join"),
        (INNER.replace("Inner", "RightOuter"), {}, "cannot split the left side of this join (right)"),
        (INNER, {f"{ADAPTIVE}enabled": "false"}, "is off"),
        (INNER, {f"{ADAPTIVE}skewJoin.enabled": "false"}, "splits no join"),
        (INNER, LOW, "one task upstream"),
        (
            INNER,
            LOW | {f"{ADAPTIVE}skewJoin.skewedPartitionFactor": "80"},
            "skewedPartitionFactor (80) times",
        ),
    ],
)
def test_why_adaptive_execution_left_a_join_as_it_is(tmp_path, text, conf, why):
    slow = hot(records=5000, size=50 * MB, updates=[(1, 4900), (2, 49 * MB), (3, 100), (4, MB)])
    totals = [(1, 5600), (2, 56 * MB), (3, 800), (4, 8 * MB)]
    events = application(query(join_plan(text)), stage(1, slow, totals), end(0, 12.0), **conf)
    (finding,) = diagnosed(tmp_path, events).findings
    assert (finding.operator, finding.columns, finding.cause) == ("join", ("k",), "rows")
    assert finding.line.startswith('kss.join(left, right, on="k"')
    assert why in finding.adaptive


def test_a_join_below_a_window_would_need_another_shuffle(tmp_path):
    slow = hot(records=5000, size=50 * MB, updates=[(1, 4900), (2, 49 * MB)])
    plan = join_plan("SortMergeJoin [k#1], [k#2], Inner", above="Window")
    conf = {"spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1m"}
    events = application(query(plan), stage(1, slow, [(1, 5600), (2, 50 * MB)]), end(0, 12.0), **conf)
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.operator == "join"
    assert "another shuffle for Window" in finding.adaptive


def test_the_side_with_the_hot_keys_is_split(tmp_path):
    slow = hot(records=5000, size=50 * MB, updates=[(1, 100), (2, MB), (3, 4900), (4, 49 * MB)])
    events = application(
        query(join_plan("SortMergeJoin [k#1], [k#2], Inner")), stage(1, slow, [(3, 5600)]), end(0, 12.0)
    )
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.line == 'kss.join(left, right, on="k", split="right", workers=8)'


def test_rows_that_match_many_others_are_a_cause(tmp_path):
    slow = hot(updates=[(1, 50), (3, 50), (5, 10**7)])
    events = application(
        query(join_plan("SortMergeJoin [k#1], [k#2], Inner")),
        stage(1, slow, [(1, 400), (3, 400), (5, 10**7 + 700)]),
        end(0, 12.0),
    )
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.cause == "matches"
    assert "its rows match 10,000,000 rows" in finding.verdict
    assert finding.line == 'kss.join(left, right, on="k", workers=8, way="broadcast")'


def test_rows_that_keysplit_has_placed_need_a_new_plan(tmp_path):
    plan = json.loads(json.dumps(GROUPS).replace("user#1", "keysplit_worker#1"))
    events = application(query(plan), stage(1, hot(records=5000)), end(0, 12.0))
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.verdict.startswith("make a new plan")
    assert finding.line is None


def test_batches_of_a_stream_are_one_finding(tmp_path):
    events = []
    for batch in range(3):
        at = 15.0 * batch
        properties = {
            "spark.sql.execution.id": str(batch),
            "sql.streaming.queryId": "abcdefgh-1",
            "streaming.sql.batchId": str(batch),
        }
        tasks = [
            {
                **each,
                "Stage ID": batch,
                "Task Info": {
                    **each["Task Info"],
                    "Launch Time": each["Task Info"]["Launch Time"] + round(1000 * at),
                    "Finish Time": each["Task Info"]["Finish Time"] + round(1000 * at),
                },
            }
            for each in hot(records=5000)
        ]
        info = {"Stage ID": batch, "Stage Attempt ID": 0, "Stage Name": "s", "Number of Tasks": 8}
        plan = json.loads(
            json.dumps(GROUPS).replace("FlatMapGroupsInPandas", "FlatMapGroupsInPandasWithState")
        )
        events += [
            query(plan, batch, at),
            {"Event": "SparkListenerStageSubmitted", "Stage Info": info, "Properties": properties},
        ]
        events += [*tasks, {"Event": "SparkListenerStageCompleted", "Stage Info": info}, end(batch, at + 12)]
    (finding,) = diagnosed(tmp_path, application(events, end_s=60.0)).findings
    assert finding.times == 3
    assert (finding.operator, finding.stream) == ("stateful stream", "abcdefgh-1")
    assert finding.waiting_core_s == 3 * 63
    assert finding.line.startswith('kss.streaming.apply(df, "user"')
    assert "never" in finding.adaptive


def test_stages_without_sql_are_found_too(tmp_path):
    tasks = hot(records=5000)
    (finding,) = diagnosed(tmp_path, application(stage(1, tasks, query=None))).findings
    assert (finding.operator, finding.node, finding.query_id) == ("other", "stage 1", None)
    assert finding.line is None


@pytest.mark.parametrize(
    ("rdds", "pickled"),
    [
        (["PythonRDD", "ShuffledRDD", "MapPartitionsRDD"], True),
        (["PythonRDD", "ShuffledRowRDD"], False),
        (["ShuffledRDD"], False),
        (["PythonRDD", "HadoopRDD"], False),
    ],
)
def test_batches_of_pickled_rows_are_no_rows(tmp_path, rdds, pickled):
    events = list(stage(1, hot(records=40, size=50 * MB), query=None))
    for event in (events[0], events[-1]):
        event["Stage Info"] = {**event["Stage Info"], "RDD Info": [{"Name": name} for name in rdds]}
    (finding,) = diagnosed(tmp_path, application(events)).findings
    assert finding.cause == "rows"
    assert ("records" not in finding.spreads) == pickled
    assert "50 MiB of 57 MiB" in finding.verdict


def test_of_batches_of_pickled_rows_nothing_is_said_of_rows(tmp_path):
    events = list(stage(1, hot(records=5000), query=None))
    for event in (events[0], events[-1]):
        rdds = [{"Name": name} for name in ("PythonRDD", "ShuffledRDD")]
        event["Stage Info"] = {**event["Stage Info"], "RDD Info": rdds}
    (finding,) = diagnosed(tmp_path, application(events)).findings
    assert finding.verdict.startswith("count the rows per key: the log does not show")
    assert "as many rows" not in finding.verdict


@pytest.mark.parametrize("partitioning", ["hashpartitioning(k#1, 8)", "RoundRobinPartitioning(8)"])
def test_a_rebalance_hint_is_no_repartition(tmp_path, partitioning):
    by = "COL" if "k#1" in partitioning else "NONE"
    plan = read_by(
        "Project", "Project [k#1]", f"Exchange {partitioning}, REBALANCE_PARTITIONS_BY_{by}, [plan_id=7]"
    )
    events = application(query(plan), stage(1, hot(records=5000)), end(0, 12.0))
    (finding,) = diagnosed(tmp_path, events).findings
    assert (finding.operator, finding.line) == ("rebalance", None)
    assert finding.verdict.startswith("lower spark.sql.adaptive.advisoryPartitionSizeInBytes")
    assert finding.adaptive.endswith("spark.sql.adaptive.advisoryPartitionSizeInBytes (64MB)")


def failing(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    events = list(stage(1, tasks))
    events[-1]["Stage Info"]["Failure Reason"] = "Job aborted: task 7 failed 4 times\n\tat x"
    return events


def test_attempts_that_fail_before_one_succeeds_are_no_tasks(tmp_path):
    tasks = [*hot(records=5000), task(1, 6, 0, 20, reason="ExceptionFailure")]
    diagnosis = diagnosed(tmp_path, application(query(GROUPS), failing(tasks), end(0, 20.0)))
    assert diagnosis.applications[0].tasks == 8
    assert diagnosis.notes == ("stage 1 failed: Job aborted: task 7 failed 4 times",)
    assert diagnosis.findings[0].spreads["time"].slowest == 10


@pytest.mark.parametrize("lost", [False, True])
def test_a_hot_task_that_makes_its_stage_fail_is_found(tmp_path, lost):
    tries = [task(1, 7, 0, seconds, records=5000, reason="ExceptionFailure") for seconds in (9, 10, 8)]
    if lost:
        tries = [{**each, "Task Metrics": None} for each in tries]
    events = application(query(GROUPS), failing([*hot()[:7], *tries]), end(0, 12.0))
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.task == 7
    assert finding.spreads["time"].slowest == 10
    assert finding.cause == ("lost" if lost else "rows")
    assert finding.verdict.startswith("look at why the executor" if lost else "split the hot keys")
    assert finding.line.startswith("kss.apply")


def test_a_failed_stage_is_no_reason_to_do_nothing(tmp_path):
    tasks = [task(1, at, 0, 3) for at in range(8)]
    diagnosis = diagnosed(tmp_path, application(query(GROUPS), failing(tasks), end(0, 12.0)))
    assert diagnosis.verdict == "look at why stages failed: 1"


def test_a_stage_that_a_later_attempt_ended_is_no_reason_to_look_at(tmp_path):
    tasks = [task(1, at, 0, 3) for at in range(8)]
    second = json.loads(json.dumps([*stage(1, tasks)]))
    for each in second:
        of = each.get("Stage Info", each)
        of["Stage Attempt ID"] = 1
    diagnosis = diagnosed(tmp_path, application(query(GROUPS), failing([]), second, end(0, 12.0)))
    assert diagnosis.verdict.startswith("no action needed")
    assert diagnosis.notes == ("stage 1 failed: Job aborted: task 7 failed 4 times",)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("Exchange hashpartitioning(user#1, 8), ENSURE_REQUIREMENTS, [plan_id=7]", ("user",)),
        ("Exchange hashpartitioning(a b#1L, c.d#22, 200), REPARTITION_BY_NUM", ("a b", "`c.d`")),
        ("Exchange hashpartitioning(knownfloatingpointnormalized(normalizenanandzero(x#3)), 8)", ("x",)),
        ("Exchange hashpartitioning(coalesce(k#1, ), isnull(k#1), 8)", ("coalesce(k, )", "isnull(k)")),
        ("Exchange RoundRobinPartitioning(8)", ()),
    ],
)
def test_columns_of_shuffles(text, columns):
    assert Operator("Exchange", text, {}, ()).partitioning == columns


def test_names_and_sizes():
    assert column_name("user#12") == "user"
    assert column_name("n#12L") == "n"
    assert [read_size(text) for text in ("256MB", "64m", "1000b", "1000", "1g")] == [
        256 * MB,
        64 * MB,
        1000,
        1000,
        1 << 30,
    ]


# files


def test_a_stage_of_a_log_that_breaks_off_is_found(tmp_path):
    text = text_of(application(query(GROUPS), stage(1, hot(records=5000))))
    at = text.index(b'{"Event":"SparkListenerStageCompleted"')
    path = tmp_path / "app-1.inprogress"
    path.write_bytes(text[: at + 30])
    diagnosis = ks.diagnose(path)
    assert not diagnosis.applications[0].ended
    assert diagnosis.findings[0].line.startswith("kss.apply")
    assert "1 line of app-1.inprogress could not be read" in diagnosis.notes


def packed(kind: str, data: bytes, size: int) -> bytes:
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    if kind == "zstd":
        return b"".join(pa.Codec("zstd").compress(part, asbytes=True) for part in parts)
    if kind == "gz":
        return b"".join(map(gzip.compress, parts))
    if kind == "snappy":
        frames = [pa.Codec("snappy").compress(part, asbytes=True) for part in parts]
        start = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
        return start + b"".join(len(each).to_bytes(4, "big") + each for each in frames)
    done = b""
    for number, part in enumerate(parts):
        frame = part if number % 2 else pa.Codec("lz4_raw").compress(part, asbytes=True)
        method = 0x10 if number % 2 else 0x20
        lengths = len(frame).to_bytes(4, "little") + len(part).to_bytes(4, "little")
        done += b"LZ4Block" + bytes([method | 6]) + lengths + bytes(4) + frame
    return done + b"LZ4Block" + b"\x16" + bytes(12)


def as_far_as_it_goes(kind: str, data: bytes) -> bytes:
    read = b""
    with suppress(DamagedError):
        for each in codecs.READERS[kind](pa.BufferReader(data)):
            read += each
    return read


@pytest.mark.parametrize("kind", ["zstd", "lz4", "snappy", "gz"])
@given(data=st.binary(min_size=1, max_size=500), size=st.integers(1, 200), part=st.floats(0, 1))
def test_what_is_compressed_is_read_as_far_as_it_goes(kind, data, size, part):
    whole = packed(kind, data, size)
    assert b"".join(codecs.READERS[kind](pa.BufferReader(whole))) == data
    cut = whole[: int(part * len(whole))]
    read = as_far_as_it_goes(kind, cut)
    assert data.startswith(read)
    if kind != "zstd":
        ends = [at for at in range(0, len(data) + 1, size) if len(packed(kind, data[:at], size)) <= len(cut)]
        assert len(read) >= max(ends, default=0)


@pytest.mark.parametrize("kind", ["zstd", "lz4", "snappy", "gz"])
def test_nothing_comes_twice_of_a_long_file_that_breaks_off(kind):
    data = b"".join(b"%d " % number for number in range(100_000))
    cut = packed(kind, data, 50_000)[:-200]
    read = as_far_as_it_goes(kind, cut)
    assert data.startswith(read)
    assert len(read) > len(data) - 100_000


@pytest.mark.parametrize("kind", ["zstd", "lz4", "snappy", "gz"])
def test_a_damaged_log_is_read_up_to_the_damage_and_noted(tmp_path, kind):
    rest = [{"Event": "SparkListenerUnpersistRDD", "RDD ID": id_} for id_ in range(100)]
    data = packed(
        kind, text_of(application(query(GROUPS), stage(1, hot(records=5000)), end(0, 12.0), rest)), 500
    )
    path = tmp_path / f"app-1.{kind}"
    path.write_bytes(data[: len(data) - 60])
    diagnosis = ks.diagnose(path)
    assert diagnosis.findings[0].operator == "python group"
    assert any("was read up to where it is damaged" in note for note in diagnosis.notes)
    path.write_bytes(b"nonsense" * 100)
    with pytest.raises(ValueError, match=f"must be compressed with {codecs.READERS[kind].__name__}"):
        ks.diagnose(path)
    path.write_bytes(b"")
    assert ks.diagnose(path).verdict == "wait for tasks to end: the log has none yet"


def test_rolled_logs_are_read_in_order_and_compacted_ones_replace_what_is_before(tmp_path):
    lines = text_of(application(query(GROUPS), stage(1, hot(records=5000)), end(0, 12.0))).splitlines(
        keepends=True
    )
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "appstatus_app-1").touch()
    (folder / "events_1_app-1").write_bytes(b"".join(lines[:5]))
    (folder / "events_2_app-1.zstd").write_bytes(packed("zstd", b"".join(lines[5:9]), 300))
    (folder / "events_10_app-1").write_bytes(b"".join(lines[9:]))
    found = ks.diagnose(folder)
    assert len(found.findings) == 1
    assert found.applications[0].ended
    assert ks.diagnose(tmp_path).to_dict() == found.to_dict(), "a folder of logs"
    assert ks.diagnose(f"file://{folder}/").to_dict() == found.to_dict(), "a URL"
    (folder / "events_2_app-1.compact").write_bytes(b"".join(lines[:9]))
    assert ks.diagnose(folder).to_dict() == found.to_dict()


def test_logs_in_folders_of_folders_are_found_and_hidden_ones_are_not(tmp_path):
    text = text_of(application(query(GROUPS), stage(1, hot(records=5000)), end(0, 12.0)))
    for folder in ("dt=1", "dt=2/a", "dt=2/_hidden/a", ".hidden"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "app-1").write_bytes(text)
    (tmp_path / "dt=3" / "eventlog_v2_app-2").mkdir(parents=True)
    (tmp_path / "dt=3" / "eventlog_v2_app-2" / "events_1_app-2").write_bytes(text)
    found = ks.diagnose(tmp_path)
    assert len(found.applications) == len(found.findings) == 3
    assert ks.diagnose(tmp_path / ".hidden").findings


def test_a_log_that_databricks_cut_by_the_hour_is_one(tmp_path):
    lines = text_of(application(query(GROUPS), stage(1, hot(records=5000)), end(0, 12.0)))
    lines = lines.splitlines(keepends=True)
    (tmp_path / "eventlog").write_bytes(b"".join(lines[9:]))
    (tmp_path / "eventlog-2024-01-01--10-00.gz").write_bytes(gzip.compress(b"".join(lines[5:9])))
    (tmp_path / "eventlog-2024-01-01--09-00.gz").write_bytes(gzip.compress(b"".join(lines[:5])))
    (found,) = ks.diagnose(tmp_path).applications
    assert found.tasks == 8
    assert found.ended


def test_a_zip_of_logs_is_read_from_a_file_and_from_a_history_server(tmp_path):
    text = text_of(application(query(GROUPS), stage(1, hot(records=5000)), end(0, 12.0)))
    lines = text.splitlines(keepends=True)
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zip_:
        zip_.writestr("eventlog_v2_app-1/events_1_app-1", b"".join(lines[:9]))
        zip_.writestr("eventlog_v2_app-1/events_2_app-1.zstd", packed("zstd", b"".join(lines[9:]), 300))
    (found,) = ks.diagnose(path).applications
    assert (len(found.findings), found.ended, found.notes) == (1, True, ())

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == "/api/v1/applications/app%201/2/logs"
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(path.read_bytes() if known else b"")

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        done = CliRunner().invoke(main, ["diagnose", address, "app 1/2"])
        assert done.exit_code == 0, done.output
        assert "python group by user" in done.output
        done = CliRunner().invoke(main, ["diagnose", address, "app-2"])
        assert done.exit_code == 2
        assert "the history server answers 404" in done.output
        server.shutdown()
    with pytest.raises(OSError, match="the history server cannot be reached"):
        ks.diagnose(f"{address}api/v1/applications/app-1/logs")
    path.write_bytes(b"none")
    with pytest.raises(ValueError, match=r"logs\.zip must be a zip of event logs, but is not a zip"):
        ks.diagnose(path)


@pytest.mark.parametrize(
    ("version", "noted"), [("2.4.8", 1), ("3.4.1-amzn-0", 1), ("3.5.0", 0), ("4.3.0", 0), ("", 0)]
)
def test_a_log_of_an_older_spark_is_read_with_a_note(tmp_path, version, noted):
    events = application(query(GROUPS), stage(1, hot(records=5000)), end(0, 12.0))
    events[0]["Spark Version"] = version
    diagnosis = diagnosed(tmp_path, events)
    assert len(diagnosis.findings) == 1
    assert [note.split(" wrote")[0] for note in diagnosis.notes] == [f"Spark {version}"] * noted


@pytest.mark.parametrize("kind", ["zstd", "lz4", "snappy"])
def test_a_compressed_log_that_is_still_written_points_to_the_session(tmp_path, kind):
    data = packed(kind, text_of(application(query(GROUPS), stage(1, hot()), end(0, 12.0))), 500)
    path = tmp_path / f"app-1.{kind}.inprogress"
    for size in (0, 3, 30, 600):
        path.write_bytes(data[:size])
        assert "kss.diagnose(spark) in the running session" in ks.diagnose(path).notes[-1]


def test_what_is_no_log_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        ks.diagnose(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="no event log in this folder"):
        ks.diagnose(tmp_path)
    (tmp_path / "words.txt").write_text("to be\nor not")
    with pytest.raises(ValueError, match=r"words.txt must be a Spark event log, but none of its 2 lines"):
        ks.diagnose(tmp_path / "words.txt")
    (tmp_path / "app-1.lzf").write_bytes(b"ZV")
    with pytest.raises(ValueError, match=r"lzf are not read: set spark\.eventLog\.compression\.codec"):
        ks.diagnose(tmp_path / "app-1.lzf")
    with pytest.raises(ValueError, match="file system that pyarrow supports"):
        ks.diagnose("nonsense://x/y")
    with pytest.raises(ValueError, match="at least one"):
        ks.diagnose([])


# how it shows


@pytest.fixture(scope="module")
def real() -> ks.Diagnosis:
    return ks.diagnose([LOGS[-1]])


def test_text_fits_80_columns_and_names_each_finding(real):
    lines = str(real).splitlines()
    to_paste = {f"  {finding.line}" for finding in real.findings if finding.line is not None}
    assert to_paste
    assert to_paste <= set(lines)
    assert max(len(line) for line in lines if line not in to_paste) <= 80
    words = " ".join(" ".join(lines).split())
    for finding in real.findings:
        assert " ".join(finding.verdict.split()) in words
        assert finding.adaptive in finding.details
    assert "…" not in next(line for line in lines if "slowest" in line)


def test_json_and_pandas_have_all_findings(real):
    figures = json.loads(json.dumps(real.to_dict(), allow_nan=False))
    (found,) = figures["applications"]
    frame = real.to_pandas()
    assert len(found["findings"]) == len(frame) == len(real.findings) > 10
    assert frame["line"].tolist() == [each["line"] for each in found["findings"]]
    assert (frame["balanced_high_s"] <= frame["query_s"]).all()
    assert (frame["time_slowest"] >= 1).all()


def test_the_report_is_one_page_with_every_finding(real, tmp_path):
    path = tmp_path / "report.html"
    real.report(path)
    read, text = Page(path), path.read_text(encoding="utf-8")
    assert [link for link in read.links if not link.startswith("#finding-")] == ["data:,"]
    assert "http" not in text
    assert read.tags["script"] == 0
    for number, finding in enumerate(real.findings, 1):
        assert f'id="finding-1-{number}"' in text
        assert finding.adaptive in read.words
        assert finding.line is None or finding.line in read.words
    assert read.classes["waits"] == 2 * len(real.findings), "in the timeline and in its own picture"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_a_browser_draws_the_report_within_its_width(real, tmp_path, width, dark):
    path = tmp_path / "report.html"
    real.report(path)
    _, answer = in_browser(path, width=width, dark=dark, script="return document.documentElement.scrollWidth")
    assert answer <= max(width, 500)  # a browser without a window is no narrower


def test_notebooks_show_a_small_piece(real):
    piece = real._repr_html_()
    assert len(piece) < 20_000
    assert "Split the hot keys" in piece
    assert "prefers-color-scheme: dark" in piece


def test_plot_draws_a_line_per_finding(real):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = real.plot()
    assert len(axes.patches) == min(8, len(real.findings))


def test_the_command_prints_and_writes(tmp_path):
    json_, report = tmp_path / "out.json", tmp_path / "out.html"
    done = CliRunner().invoke(
        main, ["diagnose", str(LOGS[-1]), "--json", str(json_), "--report", str(report)]
    )
    assert done.exit_code == 0, done.output
    assert "join by user" in done.output
    assert json.loads(json_.read_text())["verdict"]
    assert report.stat().st_size > 10_000
    done = CliRunner().invoke(main, ["diagnose", str(tmp_path / "none")])
    assert done.exit_code == 2
    assert "no such file or folder" in done.output


def test_a_balanced_application_says_that_nothing_is_needed(tmp_path):
    tasks = [task(1, at, 0, 3) for at in range(8)]
    diagnosis = diagnosed(tmp_path, application(query(GROUPS), stage(1, tasks), end(0, 12.0)))
    assert "no action needed" in str(diagnosis)
    diagnosis.report(tmp_path / "report.html")
    assert "No action needed" in Page(tmp_path / "report.html").words
    assert len(diagnosis.to_pandas()) == 0


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SortMergeJoin [k#1], [k#2], Inner", 'kss.join(left, right, on="k", workers=8)'),
        ("ShuffledHashJoin [k#1], [k#2], Inner, BuildRight", 'kss.join(left, right, on="k", workers=8)'),
        ("SortMergeJoin [a.b#1], [a.b#2], Inner", 'kss.join(left, right, on="`a.b`", workers=8)'),
        (
            "SortMergeJoin [k#1], [a.b#2], Inner",
            'kss.join(left, right.withColumnRenamed("a.b", "k"), on="k", workers=8)',
        ),
        ("SortMergeJoin [k#1], [k#2], LeftOuter, (v#3 > w#4)", None),  # a condition
        ("SortMergeJoin [k#1], [k#2], ExistenceJoin(exists#9)", None),
        ("SortMergeJoin [a#1, b#2, ... 5 more fields], [a#3, b#4, ... 5 more fields], Inner", None),
        ("SortMergeJoin [coalesce(k#1, 0), isnull(k#1)], [coalesce(k#2, 0), isnull(k#2)], Inner", None),
        ("SortMergeJoin [cast(id#1 as bigint)], [id#2L], Inner", None),
        ("SortMergeJoin [a#1, b#2], [x#3, x#3], Inner", None),
    ],
)
def test_a_line_to_paste_is_the_same_join(tmp_path, text, line):
    events = application(query(join_plan(text)), stage(1, hot(records=5000), [(1, 5600)]), end(0, 12.0))
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.operator == "join"
    assert finding.line == line
    assert finding.verdict.startswith("split the hot keys of the join by ")
