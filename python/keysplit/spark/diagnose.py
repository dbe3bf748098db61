"""`diagnose`: which stages of the running session waited for a slow task, why, and what would help."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

from keysplit import diagnosis
from keysplit.diagnosis import Diagnosis
from keysplit.diagnosis.events import Events, Query, RecordedStage
from keysplit.diagnosis.plan import read_plan
from keysplit.diagnosis.settings import is_read
from keysplit.diagnosis.waiting import is_of_interest, waited_for
from keysplit.spark.recorded import Records

_EXECUTION = "spark.sql.execution.id"
_BATCH = re.compile(r"id = (\S+)\s+runId = \S+\s+batch = (\d+)")
_METRICS = {
    "Shuffle Read Metrics": "shuffleReadMetrics",
    "Shuffle Write Metrics": "shuffleWriteMetrics",
    "Input Metrics": "inputMetrics",
    "Output Metrics": "outputMetrics",
}
_NAMES = {
    "executorRunTime": "Executor Run Time",
    "executorCpuTime": "Executor CPU Time",
    "jvmGcTime": "JVM GC Time",
    "peakExecutionMemory": "Peak Execution Memory",
    "memoryBytesSpilled": "Memory Bytes Spilled",
    "remoteBytesRead": "Remote Bytes Read",
    "localBytesRead": "Local Bytes Read",
    "fetchWaitTime": "Fetch Wait Time",
}
_NAMES_OF = {
    "Shuffle Read Metrics": {**_NAMES, "recordsRead": "Total Records Read"},
    "Shuffle Write Metrics": {
        "bytesWritten": "Shuffle Bytes Written",
        "recordsWritten": "Shuffle Records Written",
    },
    "Input Metrics": {"bytesRead": "Bytes Read", "recordsRead": "Records Read"},
    "Output Metrics": {"bytesWritten": "Bytes Written", "recordsWritten": "Records Written"},
}


def diagnose(spark: SparkSession) -> Diagnosis:
    """Report which stages of the running session waited for a slow task, why, and what would help.

    It reads the session's event log if there is one and no stage is running, otherwise Spark's status store.
    The settings spark.ui.retained... limit how many stages, tasks and queries that store keeps. The findings
    are those of `keysplit.diagnose`. The store does not have each task's rows per side of a join. So from the
    store the side with more bytes is recommended for splitting, and rows with many matches cannot be
    distinguished from slow tasks.

    Args:
        spark: a classic session.

    Returns:
        The diagnosis; print it, or show it in a notebook.

    Raises:
        TypeError: if `spark` is not a session.
        ValueError: if the session is of Spark Connect, which exposes no task metrics.

    Example:
        >>> verdict = kss.diagnose(spark).verdict  # doctest: +SKIP
    """
    records = Records(spark)
    path = records.event_log()
    # events of tasks reach the log late, events of stages at once
    if path is not None and not any(each["status"] == "ACTIVE" for each in records.stages()):
        for each in (path, f"{path}.inprogress"):
            with suppress(OSError, ValueError):
                return diagnosis.diagnose(each)
    return Diagnosis(applications=(diagnosis.conclude(_read(records)),))


def _read(records: Records) -> Events:
    """Return the content of the status store as a log."""
    application = records.application()
    events = Events(is_of_interest)
    events.version, events.application, events.application_id = (
        application[each] for each in ("version", "name", "id")
    )
    events.start_ms, events.conf = application["start_ms"], application["conf"]
    events.feed(
        _line(
            "SparkListenerExecutorAdded",
            **{"Executor ID": each["id"], "Executor Info": {"Total Cores": each["totalCores"]}},
        )
        for each in records.executors()
    )
    executions = list(records.executions())
    of_stage = {stage: each for each in executions for stage in each.stages}
    for stage in records.stages():
        execution = of_stage.get(stage["stageId"])
        events.feed(_lines(records, stage, {} if execution is None else _properties(execution)))
    events.end_ms = application["now_ms"]
    events.close()
    waiting = defaultdict(list)
    for recorded in events.stages.values():
        if recorded.columns is not None and recorded.query is not None:
            waiting[recorded.query].append(recorded)
    for each in executions:
        query = Query(each.id, each.description, each.start_ms, each.root, each.end_ms)
        query.conf = {name: value for name, value in each.conf.items() if is_read(name)}
        events.queries[each.id] = query
        if each.id in waiting:
            query.plan = read_plan(records.plan(each.id))
            _fill_accumulators(records, each.id, waiting[each.id])
    return events


def _line(event: str, **fields: Any) -> bytes:
    return json.dumps({"Event": event, **fields}, separators=(",", ":")).encode()


def _properties(execution: Any) -> dict[str, str]:
    found = {_EXECUTION: str(execution.id), "spark.job.description": execution.description}
    if match := _BATCH.search(execution.description):
        found |= {"sql.streaming.queryId": match[1], "streaming.sql.batchId": match[2]}
    return found


def _lines(records: Records, stage: dict[str, Any], properties: dict[str, str]) -> list[bytes]:
    """Return the events of a stage."""
    id_, attempt = stage["stageId"], stage["attemptId"]
    launched, ended = stage.get("firstTaskLaunchedTime"), stage.get("completionTime")
    if launched is None:
        return []
    properties = {"spark.job.description": stage.get("description") or "", **properties}
    key = {"Stage ID": id_, "Stage Attempt ID": attempt}
    info = {**key, "Stage Name": stage["name"], "Number of Tasks": stage["numTasks"]}
    if _EXECUTION not in properties:  # PySpark's RDDs have these
        info["RDD Info"] = [{"Name": "PythonRDD"}, {"Name": "ShuffledRDD"}]
    lines = [_line("SparkListenerStageSubmitted", **{"Stage Info": info, "Properties": properties})]
    lines += [line for each in records.tasks(id_, attempt) if (line := _task(key, each)) is not None]
    if ended is not None:
        failure = {"Failure Reason": stage.get("failureReason") or ""}
        lines.append(_line("SparkListenerStageCompleted", **{"Stage Info": {**info, **failure}}))
    return lines


def _task(key: dict[str, int], of: dict[str, Any]) -> bytes | None:
    metrics = of.get("taskMetrics")
    info = {
        "Task ID": of["taskId"],
        "Index": of["index"],
        "Launch Time": of["launchTime"],
        "Executor ID": of["executorId"],
        "Host": of["host"],
    }
    if of["status"] == "RUNNING":
        return _line("SparkListenerTaskStart", **{**key, "Task Info": info})
    if of["status"] != "SUCCESS" or metrics is None or of.get("duration") is None:
        return None
    info["Finish Time"] = of["launchTime"] + of["duration"]
    found: dict[str, Any] = {_NAMES[name]: value for name, value in metrics.items() if name in _NAMES}
    for name, theirs in _METRICS.items():
        names = _NAMES_OF[name]
        found[name] = {names[each]: value for each, value in metrics[theirs].items() if each in names}
    return _line(
        "SparkListenerTaskEnd",
        **{**key, "Task End Reason": {"Reason": "Success"}, "Task Info": info, "Task Metrics": found},
    )


def _fill_accumulators(records: Records, execution: int, stages: list[RecordedStage]) -> None:
    """Find the accumulators of these stages: the task with an accumulator's largest value names its stage."""
    by_id = {stage.id: stage for stage in stages}
    largest: dict[int, dict[int, float]] = defaultdict(dict)
    for accumulator, (id_, _, most, total) in records.largest(execution).items():
        if id_ in by_id:
            by_id[id_].accumulators[accumulator] = round(total)
            largest[id_][accumulator] = most
    for id_, found in largest.items():
        stage = by_id[id_]
        at = waited_for(stage)
        if at is not None:
            took = int(stage.array("finish_ms")[at] - stage.array("launch_ms")[at])
            updates = [{"ID": accumulator, "Update": round(most)} for accumulator, most in found.items()]
            stage.keep_accumulators(took, int(stage.array("index")[at]), json.dumps(updates).encode())
