"""Event logs that are damaged, incomplete, strange, or lie among other files."""

import json
import math
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keysplit as ks
from event_logs import GROUPS, MB, READS, application, diagnosed, end, hot, node, query, stage, task, text_of
from keysplit.diagnosis import codecs
from keysplit.diagnosis.codecs import DamagedError
from keysplit.diagnosis.events import Events
from keysplit.diagnosis.waiting import is_of_interest
from test_diagnose import as_far_as_it_goes, join_plan, packed


def skewed(tasks: list[dict[str, Any]] | None = None, **conf: str) -> list[dict[str, Any]]:
    tasks = hot(records=5000) if tasks is None else tasks
    return application(query(GROUPS), stage(1, tasks), end(0, 12.0), **conf)


def written(folder: Path, name: str, events: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(text_of(events))
    return folder / name


def test_two_logs_in_one_file_are_refused(tmp_path):
    path = written(tmp_path, "log", [*skewed(), *skewed()])
    with pytest.raises(
        ValueError, match=r"^log must be the log of one application, but 2 applications start in it: pass"
    ):
        ks.diagnose(path)


# values that are missing, or none


@pytest.mark.parametrize("of", [2, 7])
@pytest.mark.parametrize(
    ("group", "name"),
    [
        (None, "Executor Run Time"),
        (None, "JVM GC Time"),
        (None, "Memory Bytes Spilled"),
        (None, "Shuffle Write Metrics"),
        ("Shuffle Read Metrics", "Fetch Wait Time"),
        ("Shuffle Read Metrics", "Remote Bytes Read"),
        ("Input Metrics", "Bytes Read"),
        ("Output Metrics", "Records Written"),
    ],
)
def test_a_metric_that_is_null_counts_as_zero(tmp_path, of, group, name):
    tasks = hot(records=5000)
    metrics = tasks[of]["Task Metrics"]
    (metrics.setdefault(group, {}) if group else metrics)[name] = None
    diagnosis = diagnosed(tmp_path, skewed(tasks))
    (finding,) = diagnosis.findings
    assert diagnosis.notes == ()
    assert (finding.stage.tasks, finding.task, finding.cause) == (8, 7, "rows")
    assert finding.spreads["records"].total == 5700


@pytest.mark.parametrize("name", ["Finish Time", "Launch Time"])
@pytest.mark.parametrize("time", [10**20, 10**18, -(10**20), math.inf, math.nan])
def test_a_task_at_a_time_that_is_none_is_passed_over(tmp_path, name, time):
    tasks = hot(records=5000)
    tasks[2]["Task Info"][name] = time
    events = skewed(tasks)[:-1]  # without its end
    events[2]["Timestamp"] = 1
    events.pop()
    diagnosis = diagnosed(tmp_path, events)
    (finding,) = diagnosis.findings
    assert (finding.stage.tasks, finding.task, finding.cause) == (7, 7, "rows")
    assert diagnosis.notes == ("1 line of app-1 could not be read",)
    assert diagnosis.applications[0].duration_s == 9.999


@pytest.mark.parametrize("value", ["5", 1.5, 10**20, math.inf, [], {}])
def test_a_task_with_a_metric_that_is_no_number_is_passed_over(tmp_path, value):
    tasks = hot(records=5000)
    tasks[2]["Task Metrics"]["JVM GC Time"] = value
    diagnosis = diagnosed(tmp_path, skewed(tasks))
    (finding,) = diagnosis.findings
    assert (finding.stage.tasks, finding.task, finding.cause) == (7, 7, "rows")
    assert diagnosis.notes == ("1 line of app-1 could not be read",)


@pytest.mark.parametrize("of", [2, 7])
def test_a_damaged_byte_in_what_a_task_added_to_accumulators(tmp_path, of):
    tasks = hot(records=5000)
    tasks[of]["Task Info"]["Accumulables"][0]["Update"] = "damaged"
    text = text_of(skewed(tasks))
    assert text.count(b'"damaged"') == 1
    path = tmp_path / "app-1"
    for damage in (b'\xff"5"', b"[" * 10_000, b"Infinity"):
        path.write_bytes(text.replace(b'"damaged"', damage))
        (finding,) = ks.diagnose(path).findings
        assert (finding.stage.tasks, finding.task, finding.cause) == (8, 7, "rows")


def test_a_plan_that_is_too_deep_is_passed_over(tmp_path):
    deep = '{"nodeName":"Scan","children":[]}'
    for _ in range(600):
        deep = f'{{"nodeName":"Project","children":[{deep}]}}'
    plan = text_of([query(node("deepest"))]).replace(text_of([node("deepest")]).strip(), deep.encode())
    assert b"deepest" not in plan
    before, after = text_of(skewed()[:4]), text_of(skewed()[5:])
    path = tmp_path / "app-1"
    path.write_bytes(before + plan + after)
    diagnosis = ks.diagnose(path)
    assert diagnosis.notes == ("1 line of app-1 could not be read",)
    assert diagnosis.findings[0].task == 7


def test_texts_and_settings_that_are_something_else(tmp_path):
    events = skewed(**{"spark.task.cpus": ""})
    for event in events:
        if "Stage Info" in event:
            event["Stage Info"]["Stage Name"] = 7
        if "App Name" in event:
            event |= {"App Name": ["x"], "App ID": 5}
        if "executionId" in event:
            event |= {"description": 5, "rootExecutionId": None}
        if "Properties" in event:
            event["Properties"] |= {"spark.job.description": 9, "spark.sql.adaptive.enabled": True}
    diagnosis = diagnosed(tmp_path, events)
    (finding,) = diagnosis.findings
    assert diagnosis.notes == ()
    assert (finding.stage.name, finding.query, finding.stage.slots) == ("7", "9", 8)
    assert diagnosis.applications[0].title == "['x'] (5)"
    assert "python group" in str(diagnosis)
    json.dumps(diagnosis.to_dict(), allow_nan=False)
    events = skewed(**{"spark.task.cpus": "2"})
    assert diagnosed(tmp_path, events).findings[0].stage.slots == 4


# tasks and stages that have no end


def started(of: dict[str, Any]) -> dict[str, Any]:
    """Return the start of the task that ends so."""
    info = of["Task Info"] | {"Finish Time": 0, "Accumulables": []}
    return {**of, "Event": "SparkListenerTaskStart", "Task Info": info}


def cut(
    tasks: list[dict[str, Any]], without: Iterable[int], over_s: float | None = None
) -> list[dict[str, Any]]:
    """Return a log of a stage: without the ends of some tasks, and without its own unless it ended then."""
    for each in tasks:
        each["Task Info"] = {"Task ID": each["Task Info"]["Index"], **each["Task Info"]}
    ends = [each for each in tasks if each["Task Info"]["Index"] not in set(without)]
    events = list(stage(1, [*map(started, tasks), *ends]))
    for each in (events[0], events[-1]):
        each["Stage Info"]["Number of Tasks"] = 8
    if over_s is None:
        events.pop()
    else:
        events[-1]["Stage Info"]["Completion Time"] = round(1000 * over_s)
    wrote = list(stage(0, [task(0, 0, 0, 0.5)], [(4, 5700)]))
    wrote[-1]["Stage Info"]["Accumulables"][0]["Name"] = "shuffle records written"
    plan = json.loads(json.dumps(GROUPS))
    plan["children"][0]["metrics"].append({"name": "shuffle records written", "accumulatorId": 4})
    return application(query(plan), wrote, events)


LATER = {"Event": "SparkListenerJobStart", "Submission Time": 9000, "Stage IDs": [2]}


def test_a_task_that_still_runs_is_found_with_the_rows_that_no_other_has_read(tmp_path):
    events = [*cut(hot(records=5000), [7])[:-1], LATER]
    diagnosis = diagnosed(tmp_path, events)
    (finding,) = diagnosis.findings
    assert (finding.task, finding.operator, finding.columns, finding.cause) == (
        7,
        "python group",
        ("user",),
        "rows",
    )
    sure = finding.verdict.splitlines()[2]
    assert sure == "sure: task 7 read 5,000 of 5,700 rows (88%); still runs: 7 of 8 tasks ended"
    assert finding.details.startswith(
        "Stage 1 still runs: 7 of 8 tasks ended, one has run for 9.0 s, 9.00 times the median (python group "
        "by user). "
    )
    assert finding.spreads["records"] == (5000, 100, 5000, 5700)
    assert (finding.stage.state, finding.stage.tasks, finding.stage.named) == ("running", 7, 8)


def test_a_join_that_still_runs_is_split_on_the_side_whose_rows_no_task_has_read(tmp_path):
    plan = join_plan("SortMergeJoin [k#1], [k#2], LeftOuter")
    for at, side in enumerate(plan["children"]):
        shuffle = side["children"][0]["children"][0]
        shuffle["metrics"].append({"name": "shuffle records written", "accumulatorId": 11 + at})
    tasks = hot(records=5000)
    for each in tasks:
        each["Task Info"]["Accumulables"] = [
            {"ID": id_, "Name": "x", "Update": "50", "Value": "0"} for id_ in (1, 3)
        ]
    running = cut(tasks, [7])
    ran = running[running.index(next(each for each in running if each.get("executionId") == 0)) :]
    wrote = list(stage(0, [task(0, 0, 0, 0.5)], [(11, 400), (12, 5300)]))
    for each in wrote[-1]["Stage Info"]["Accumulables"]:
        each["Name"] = "shuffle records written"
    of_stage = [
        each for each in ran[1:-1] if each.get("Stage ID", each.get("Stage Info", {}).get("Stage ID")) == 1
    ]
    events = [*application(query(plan), wrote, of_stage)[:-1], LATER]
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.line == 'kss.join(left, right, on="k", how="left", split="right", workers=8)'


def test_of_several_tasks_that_still_run_the_rows_are_not_known(tmp_path):
    diagnosis = diagnosed(tmp_path, [*cut(hot(records=5000), [6, 7])[:-1], LATER])
    (finding,) = diagnosis.findings
    assert (finding.cause, finding.line) == ("unended", None)
    assert finding.verdict.endswith("; still runs: 6 of 8 tasks ended")
    assert "6 of 8 tasks ended, the longest of 2 has run for 9.0 s" in finding.details
    assert "python group by user" in finding.details


@pytest.mark.parametrize("without", [[7], [0, 1, 7], range(8)])
def test_a_stage_that_still_runs_is_no_reason_to_do_nothing(tmp_path, without):
    log = cut(hot(), without)
    stopped = diagnosed(tmp_path, log)
    text = " ".join(str(stopped).split())
    assert "Stage 1 still ran when the application ended" in text
    assert f"{8 - len(without)} of 8 tasks ended" in stopped.verdict
    assert max(map(len, stopped.verdict.splitlines())) <= 80 or not stopped.findings
    diagnosis = diagnosed(tmp_path, log[:-1])  # no event after the first second
    assert diagnosis.findings == ()
    assert diagnosis.verdict.startswith("wait for stages to end, or ask the running session")
    assert "(python group by user)" in diagnosis.verdict
    assert ("times the median" in diagnosis.verdict) == (len(without) < 8)
    assert f"Stage 1 still runs: {8 - len(without)} of 8 tasks ended" in diagnosis.verdict


def test_tasks_that_are_not_launched_yet_make_no_core_wait(tmp_path):
    events = cut(hot(), [])[:-1]
    for each in events:
        if each.get("Stage Info", {}).get("Stage ID") == 1:
            each["Stage Info"]["Number of Tasks"] = 9
    diagnosis = diagnosed(tmp_path, events)
    assert diagnosis.findings == ()
    assert "8 of 9 tasks ended" in diagnosis.verdict


@pytest.mark.parametrize("submitted", [True, False])
def test_a_job_without_an_end_is_no_reason_to_do_nothing(tmp_path, submitted):
    """Spark writes the starts of jobs at once, the events of tasks late."""
    first = stage(0, [task(0, at, 0, 1) for at in range(8)])
    jobs = [
        {"Event": "SparkListenerJobStart", "Job ID": id_, "Submission Time": 1, "Stage IDs": []}
        for id_ in (3, 4)
    ]
    events = [jobs[0], *first, {"Event": "SparkListenerJobEnd", "Job ID": 3}, jobs[1]]
    events += list(stage(1, [task(1, at, 0, 1) for at in range(8)]))[: int(submitted)]
    open_, ended = application(query(GROUPS), events)[:-1], application(query(GROUPS), events)
    runs = (
        "Stage 1 still runs: 0 of 8 tasks ended" if submitted else "Job 4 still runs, and the log has nothing"
    )
    assert runs in diagnosed(tmp_path, open_).verdict
    assert "no action needed" not in diagnosed(tmp_path, open_).verdict
    verdict = diagnosed(tmp_path, ended).verdict
    assert verdict.startswith("look at why stages did not end" if submitted else "no action needed")


def test_a_file_says_for_how_long_a_task_has_run_unless_it_is_a_copy(tmp_path):
    path = written(tmp_path, "app-1", cut(hot(), [7])[:-1])
    os.utime(path, (21, 21))
    diagnosis = ks.diagnose(path)
    assert diagnosis.findings[0].spreads["time"].slowest == 21
    assert "until the log was last written, 20.0 s after its last event" in diagnosis.notes[0]
    os.utime(path, (10**9, 10**9))
    assert ks.diagnose(path).findings == ()


def test_a_task_whose_end_was_dropped_is_taken_to_end_with_its_stage(tmp_path):
    diagnosis = diagnosed(tmp_path, cut(hot(records=5000), [7], over_s=10))
    (finding,) = diagnosis.findings
    assert (finding.task, finding.cause, finding.spreads["time"].slowest) == (7, "rows", 10)
    assert finding.verdict.endswith("; the log lacks its end")
    assert "the log lacks the end of one of its tasks" in finding.details
    assert diagnosis.notes == (
        "stage 1 names 8 tasks, and the log lacks the end of 1 of its tasks: Spark dropped the event",
    )


def test_dropped_ends_are_no_reason_to_do_nothing(tmp_path):
    diagnosis = diagnosed(tmp_path, cut(hot(), [5, 6, 7], over_s=10))
    assert diagnosis.findings == ()
    assert diagnosis.verdict.startswith("get a complete log: this one lacks the ends of tasks")
    assert diagnosis.notes[0].endswith("lacks the end of 3 of its tasks: Spark dropped their events")


@pytest.mark.parametrize(
    ("reason", "state", "said"),
    [
        ("Job 0 cancelled part of cancelled job group 7", "cancelled", "cancelled: 7 of 8 tasks ended"),
        (
            "[SPARK_JOB_CANCELLED] Job 1 cancelled as part of all",
            "cancelled",
            "cancelled: 7 of 8 tasks ended",
        ),
        ("Stage cancelled because SparkContext was shut down", "cancelled", "cancelled: 7 of 8 tasks ended"),
        (None, "ended", "the log lacks its end"),
    ],
)
def test_a_stage_that_was_cancelled_keeps_its_diagnosis(tmp_path, reason, state, said):
    events = cut(hot(records=5000), [7], over_s=10)
    events[-2]["Stage Info"]["Failure Reason"] = reason
    diagnosis = diagnosed(tmp_path, events)
    (finding,) = diagnosis.findings
    assert (finding.task, finding.cause, finding.spreads["time"].slowest) == (7, "rows", 10)
    assert finding.stage.state == state
    cost, sure = finding.verdict.splitlines()[1:]
    assert cost == "today 1.33 to 1.36 times as long as balanced: 30.0 s instead of 22.1 to 22.6 s"
    assert sure.endswith(f"; {said}")
    assert max(map(len, finding.verdict.splitlines())) <= 80
    if reason:
        assert diagnosis.notes == (f"stage 1 failed: {reason}",)


def cancelled(tasks: list[dict[str, Any]], without: Iterable[int]) -> list[dict[str, Any]]:
    events = cut(tasks, without, over_s=10)
    events[-2]["Stage Info"]["Failure Reason"] = "Job 0 cancelled part of cancelled job group 7"
    return events


def test_a_task_that_was_killed_as_its_stage_was_cancelled_is_found(tmp_path):
    events = cancelled(hot(records=5000), [7])
    killed = task(1, 7, 0, 10, reason="TaskKilled")
    killed["Task Info"] = {"Task ID": 7, **killed["Task Info"], "Killed": True}
    (finding,) = diagnosed(tmp_path, [*events[:-2], killed, *events[-2:]]).findings
    assert (finding.task, finding.cause, finding.spreads["time"].slowest) == (7, "rows", 10)
    assert finding.verdict.endswith("; cancelled: 7 of 8 tasks ended")


def test_no_core_waits_in_a_cancelled_stage_while_tasks_are_to_be_launched(tmp_path):
    events = cancelled(hot(records=5000), [7])
    for each in events:
        if each.get("Stage Info", {}).get("Stage ID") == 1:
            each["Stage Info"]["Number of Tasks"] = 9
    assert diagnosed(tmp_path, events).findings == ()


def test_tasks_of_a_stage_that_another_failed_are_none_that_hang(tmp_path):
    events = cut(hot(records=5000), [7], over_s=10)
    events[-2]["Stage Info"]["Failure Reason"] = "Job aborted due to stage failure: the read was cancelled"
    diagnosis = diagnosed(tmp_path, events)
    assert diagnosis.findings == ()
    assert diagnosis.verdict == "look at why stages failed: 1"


@pytest.mark.parametrize("without", [2, 7])
def test_a_task_whose_end_was_dropped_is_not_blamed_unless_it_ended_last(tmp_path, without):
    tasks = [task(1, at, 8.0 * (at // 4), 8, updates=READS) for at in range(8)]
    assert diagnosed(tmp_path, cut(tasks, [without], over_s=16.2)).findings == ()


def test_the_end_of_a_second_attempt_may_be_dropped_too(tmp_path):
    events = cut(hot(records=5000), [7], over_s=10)
    first = task(1, 7, 0, 0.5, reason="ExceptionFailure")
    first["Task Info"] = {"Task ID": 70, **first["Task Info"]}
    events.insert(-2, first)
    diagnosis = diagnosed(tmp_path, events)
    assert [finding.task for finding in diagnosis.findings] == [7]
    assert len(diagnosis.notes) == 1
    assert "lacks the end of 1" in diagnosis.notes[0]


def test_workers_are_the_tasks_of_the_stage_where_ends_were_dropped(tmp_path):
    tasks = hot(records=5000)
    diagnosis = diagnosed(tmp_path, cut(tasks, [1, 2], over_s=10))
    (finding,) = diagnosis.findings
    assert finding.line.endswith("workers=8)")
    assert "likely: task 7 of 8 read" in finding.verdict


def test_a_plan_is_kept_while_a_stage_of_it_has_no_end(tmp_path):
    ended = stage(1, hot(records=5000))
    *before, last = ended
    (finding,) = diagnosed(tmp_path, application(query(GROUPS), before, end(0, 12.0), last)).findings
    assert (finding.operator, finding.columns) == ("python group", ("user",))


def test_a_log_without_its_executors_knows_its_single_tasks(tmp_path):
    plan = node("Coalesce", "Coalesce 1", [node("Scan parquet", number_of_output_rows=1)])
    events = application(query(plan), stage(1, [task(1, 0, 0, 8, updates=READS)], READS), end(0, 10.0))
    diagnosis = diagnosed(tmp_path, [each for each in events if "Executor Info" not in each])
    assert diagnosis.verdict.startswith("put repartition(1) in the place of coalesce(1)")


# tasks that are strange


def test_a_stage_of_no_length_beside_another(tmp_path):
    events = application(
        query(GROUPS), stage(1, hot(records=5000)), stage(2, [task(2, 0, 5, 0)]), end(0, 12.0)
    )
    diagnosis = diagnosed(tmp_path, events)
    assert diagnosis.findings[0].waiting_core_s == 8 * 10 - 17
    json.dumps(diagnosis.to_dict(), allow_nan=False)


def test_work_of_another_stage_that_is_more_than_64_bits_hold(tmp_path):
    hours = 3600
    tasks = [*(task(1, at, 0, 1) for at in range(7)), task(1, 7, 0, 1000 * hours, records=5000)]
    others = [task(2, at, 900 * hours, 10_000 * hours) for at in range(10)]
    events = application(
        query(GROUPS), stage(1, tasks), stage(2, others), end(0, 1000.0 * hours), end_s=1e6 * hours
    )
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.waiting_core_s == 7 * 1000 * hours - 7 - 10 * 100 * hours


@pytest.mark.parametrize("order", ["first", "last"])
def test_a_task_that_ran_again_as_its_output_was_lost_counts_once(tmp_path, order):
    tasks = hot(records=5000)
    again = task(1, 0, 11, 1, updates=READS)
    lost = task(1, 0, 0, 1, reason="Resubmitted")
    events = skewed([*tasks, lost, again] if order == "last" else [tasks[0], lost, *tasks[1:], again])
    (finding,) = diagnosed(tmp_path, events).findings
    assert finding.stage.tasks == 8
    assert finding.stage.span_s == 12
    assert finding.spreads["records"].total == 5700
    starts = finding.tasks.start_s - finding.tasks.start_s[0]
    assert starts.tolist() == [0] * 7 + [11]


def test_what_a_lost_run_added_to_accumulators_is_not_that_of_the_run_that_counts():
    lost, again = task(1, 0, 0, 20, updates=[(1, 9), (2, 9)]), task(1, 0, 20, 1, updates=READS)
    events = Events(is_of_interest)
    events.feed(text_of(skewed([lost, *hot()[1:], again])).splitlines())
    events.close()
    (recorded,) = events.stages.values()
    assert recorded.array("index").tolist() == [*range(1, 8), 0]
    assert recorded.accumulators_of(6) == dict(READS)
    assert recorded.accumulators_of(7) == dict(READS), "not those of its run that was lost"


# files


def lz4_block(data: bytes, size: int) -> bytes:
    frame = pa.Codec("lz4_raw").compress(data, asbytes=True)
    return b"LZ4Block\x26" + len(frame).to_bytes(4, "little") + size.to_bytes(4, "little") + bytes(4) + frame


@pytest.mark.parametrize("data", [b"", b"a", b"hello\n", b"x" * 1000])
@pytest.mark.parametrize("more", [-1, 0, 1, 1000, 100_000])
def test_a_block_of_lz4_must_be_as_long_as_it_says(data, more):
    size = len(data) + more
    if size < 1:
        return
    good = packed("lz4", b"before", 10).removesuffix(b"LZ4Block\x16" + bytes(12))
    parts = codecs.lz4(pa.BufferReader(good + lz4_block(data, size)))
    assert next(parts) == b"before"
    if more:
        with pytest.raises(DamagedError):
            next(parts)
    else:
        assert list(parts) == [data]


def test_what_is_read_again_of_a_damaged_file_is_read_in_parts(monkeypatch):
    data = np.random.default_rng(1).bytes(1 << 21)
    whole = packed("zstd", data, 1 << 19)
    sizes, real = [], pa.CompressedInputStream

    class Stream:
        def __init__(self, *arguments: Any) -> None:
            self.real = real(*arguments)

        def read(self, size: int) -> bytes:
            sizes.append(size)
            return self.real.read(size)

    monkeypatch.setattr(pa, "CompressedInputStream", Stream)
    read = as_far_as_it_goes("zstd", whole[:-1000])
    assert data.startswith(read)
    assert len(read) > len(data) - (1 << 19)
    assert 1 in sizes
    assert max(sizes) <= 1 << 16


def named(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [each | {"App Name": name, "App ID": name} if "App Name" in each else each for each in events]


def test_rolled_logs_of_several_applications_and_others_in_one_folder(tmp_path):
    for name in "AB":
        events = named(skewed(), f"app-{name}")
        written(tmp_path, f"events_1_app-{name}.compact", events[:6])
        written(tmp_path, f"events_2_app-{name}", events[6:])
    written(tmp_path, "events_1_app-B", skewed([]))  # what it was before
    (tmp_path / "events_3_app-B.zstd").write_bytes(packed("zstd", b"\n", 10))
    written(tmp_path, "app-C", named(skewed(), "app-C"))
    (tmp_path / "appstatus_app-A.inprogress").touch()
    found = ks.diagnose(tmp_path)
    assert [(each.name, each.tasks, each.notes) for each in found.applications] == [
        (f"app-{name}", 8, ()) for name in "ABC"
    ]
    assert len(found.findings) == 3


@pytest.mark.parametrize(
    ("numbers", "notes"),
    [
        (["1", "3"], ["part 2"]),
        (["2", "3"], ["part 1"]),
        (["4", "7"], ["parts 1 to 3", "parts 5 to 6"]),
        (["4.compact", "5"], []),
        (["1", "4.compact", "6"], ["part 5"]),
    ],
)
def test_parts_of_a_rolled_log_that_are_missing_are_noted(tmp_path, numbers, notes):
    folder = tmp_path / "eventlog_v2_app-1"
    lines = skewed()
    for at, number in enumerate(numbers):
        index, _, ending = number.partition(".")
        name = f"events_{index}_app-1{'.' if ending else ''}{ending}"
        written(folder, name, lines[:6] if at < len(numbers) - 1 else lines[6:])
    for path in (folder, tmp_path):
        found = ks.diagnose(path)
        assert found.notes == tuple(f"eventlog_v2_app-1 has no {each}" for each in notes)
        assert found.applications[0].tasks == 8


def test_files_of_a_folder_that_are_no_logs_are_skipped_with_a_note(tmp_path):
    written(tmp_path, "app-1", skewed())
    (tmp_path / "app-0.lzf").write_bytes(b"ZV")
    (tmp_path / "data.zstd").write_bytes(b"none")
    (tmp_path / "notes.txt").write_text("to be\nor not")
    found = ks.diagnose(tmp_path)
    assert [each.name for each in found.applications] == ["made up"]
    assert len(found.findings) == 1
    assert [note.split(" must ")[0].split(": event")[0] for note in found.notes] == [
        "a file was skipped: app-0.lzf",
        "a file was skipped: data.zstd",
        "a file was skipped: notes.txt",
    ]
    with pytest.raises(ValueError, match=r"^notes.txt must be a Spark event log"):
        ks.diagnose([tmp_path, tmp_path / "notes.txt"])
    with pytest.raises(ValueError, match="lzf are not read"):
        ks.diagnose(tmp_path / "app-0.lzf")
    (tmp_path / "app-1").unlink()
    with pytest.raises(ValueError, match="lzf are not read"):
        ks.diagnose(tmp_path)


def test_zips_of_a_folder_are_read_unless_they_are_damaged(tmp_path):
    written(tmp_path, "app-1", named(skewed(), "app-1"))
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as zip_:
        zip_.writestr("eventlog_v2_app-2/events_1_app-2", text_of(named(skewed(), "app-2")))
    (tmp_path / "c.zip").write_bytes((tmp_path / "b.zip").read_bytes()[:-30])
    found = ks.diagnose(tmp_path)
    assert [each.name for each in found.applications] == ["app-1", "app-2"]
    assert [note.split(" must ")[0] for note in found.notes] == ["a file was skipped: c.zip"]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("in_folder", [False, True])
def test_a_zip_whose_members_are_damaged_is_refused(tmp_path, method, in_folder):
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w", method) as zip_:
        zip_.writestr("app-1", text_of(skewed()))
    whole = path.read_bytes()
    start = zipfile.ZipFile(path).infolist()[0].header_offset + 30 + len("app-1")
    flags = whole.rfind(b"PK\x01\x02") + 8
    encrypted = bytearray(whole)
    encrypted[6] |= 1
    encrypted[flags] |= 1
    unknown = bytearray(whole)
    unknown[8] = unknown[flags + 2] = 99
    damaged = whole[:start] + b"\xff" * 60 + whole[start + 60 :]
    asked = path
    if in_folder:
        asked = tmp_path
        written(tmp_path, "app-2", skewed())
    for data in (damaged, bytes(encrypted), bytes(unknown)):
        path.write_bytes(data)
        if in_folder:
            found = ks.diagnose(asked)
            assert len(found.findings) == 1
            assert len(found.notes) == 1
            assert "app-1" in found.notes[0]
        else:
            with pytest.raises(ValueError, match="app-1"):
                ks.diagnose(asked)


@pytest.mark.parametrize(
    ("paths", "error", "got"),
    [
        (5, TypeError, "5"),
        (None, TypeError, "None"),
        (b"app-1", TypeError, "b'app-1'"),
        ([None], TypeError, "None"),
        (["app-1", b"app-1"], TypeError, "b'app-1'"),
        ("", ValueError, "''"),
        ([""], ValueError, "''"),
        ("a\0b", ValueError, r"'a\x00b'"),
    ],
)
def test_what_is_no_path_is_refused(tmp_path, monkeypatch, paths, error, got):
    monkeypatch.chdir(written(tmp_path, "app-1", skewed()).parent)
    with pytest.raises(error) as caught:
        ks.diagnose(paths)
    assert str(caught.value) == f"paths must be files, folders or URLs, got {got}"


# how it shows


def test_control_characters_are_escaped_in_what_is_printed(tmp_path):
    escape = "\x1bc\x07\x9b2J"
    plan = json.loads(json.dumps(GROUPS).replace("user#1", f"user{json.dumps(escape)[1:-1]}#1"))
    slow = hot(records=5000, size=50 * MB)
    events = application(query(plan), stage(1, slow), end(0, 12.0))
    events[-3]["Stage Info"]["Failure Reason"] = f"lost {escape}"
    diagnosis = diagnosed(tmp_path, named(events, f"app{escape}"))
    assert escape in diagnosis.findings[0].columns[0]
    assert len(diagnosis.notes) == 1
    text = str(diagnosis)
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.count(r"\x1bc\x07\x9b2J") == 3, "title, verdict and note"
    balanced = application(stage(1, [task(1, 0, 0, 1)], query=None))
    assert str(diagnosed(tmp_path, named(balanced, escape))).startswith(r"\x1bc\x07\x9b2J: ")
