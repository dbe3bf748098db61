"""An event log, read line by line: executors, queries, stages, and the tasks of stages that wait.

Of a stage whose tasks take about equally long only its totals are kept, and of a query only what its stages
need. So a log may be larger than memory.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keysplit.diagnosis.plan import Operator, read_plan

_SQL = "org.apache.spark.sql.execution.ui."
_CONF = "spark.sql."
_EXECUTION, _QUERY, _BATCH = "spark.sql.execution.id", "sql.streaming.queryId", "streaming.sql.batchId"
_DESCRIPTION = "spark.job.description"
# Most of a task's event are accumulators, which are of interest for few tasks.
_ACCUMULATORS, _AFTER = b'"Accumulables":[', b',"Task Metrics":'
_WHOLE_TASKS = 4  # of a stage: from these come its accumulators if it does not end

COLUMNS = (
    *("index", "launch_ms", "finish_ms", "run_ms", "cpu_ns", "gc_ms", "wait_ms", "executor"),
    *("bytes", "records", "output_bytes", "output_records", "spill", "memory"),
)
"""What is kept of a task. Bytes and records are those read, from shuffles and from inputs together."""


@dataclass(eq=False)
class Query:
    """An execution of SQL: a query, or a micro-batch of a stream."""

    id: int
    description: str
    start_ms: int
    root: int | None = None
    end_ms: int | None = None
    plan: Operator | None = None
    conf: dict[str, str] = field(default_factory=dict)
    waiting: bool = False  # whether a stage of it waits, or is not over


@dataclass(eq=False)
class RecordedStage:
    """A stage, or a further attempt at it."""

    id: int
    attempt: int
    name: str = ""
    tasks: int = 0
    query: int | None = None
    stream: str | None = None
    batch: int | None = None
    description: str = ""
    conf: dict[str, str] = field(default_factory=dict)
    accumulators: dict[int, int] = field(default_factory=dict)
    columns: dict[str, Any] | None = field(default_factory=lambda: {name: array("q") for name in COLUMNS})
    slowest: tuple[int, bytes] | None = None  # its time, and the accumulators as they are in the log
    whole: int = 0
    failed: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)  # attempts, and the longest
    failure: str = ""
    ended: bool = False
    start_ms: int = 0
    end_ms: int = 0
    work_ms: int = 0
    ran: int = 0
    cores: int = 0

    def array(self, name: str) -> np.ndarray:
        """Return a column of the tasks that succeeded, int64."""
        assert self.columns is not None
        return (
            np.frombuffer(self.columns[name], np.int64) if len(self.columns[name]) else np.zeros(0, np.int64)
        )

    def accumulators_of_slowest(self) -> dict[int, int]:
        """Return what the slowest task added to each accumulator."""
        if self.slowest is None:
            return {}
        return _updates(json.loads(self.slowest[1]))

    def add_failed(self) -> None:
        """Take the tasks for which the stage failed as tasks: each by its longest attempt."""
        if self.columns is not None and self.failure:
            succeeded = set(self.columns["index"])
            for index, (_, values) in self.failed.items():
                if index not in succeeded:
                    self._add(values)

    def _add(self, values: tuple[int, ...]) -> None:
        assert self.columns is not None
        for name, value in zip(COLUMNS, values, strict=True):
            self.columns[name].append(value)

    def close(self, keep: bool) -> None:
        """Note the totals, and drop the tasks unless they are of interest."""
        self.failed = {}
        if self.columns is None or self.ran:
            return
        launch, finish = self.array("launch_ms"), self.array("finish_ms")
        self.ran = len(launch)
        if self.ran:
            self.start_ms, self.end_ms = int(launch.min()), int(finish.max())
            self.work_ms = int((finish - launch).sum())
        if not keep:
            self.columns, self.slowest, self.accumulators = None, None, {}


class Events:
    """What a log says. `feed` it its lines, then `close` it."""

    def __init__(self, waits: Any) -> None:
        """Create it empty; `waits(stage)` says whether a stage that is over is of interest."""
        self._waits = waits
        self.version = ""
        self.application = ""
        self.application_id = ""
        self.start_ms = 0
        self.end_ms = 0
        self.ended = False
        self.conf: dict[str, str] = {}
        self.queries: dict[int, Query] = {}
        self.stages: dict[tuple[int, int], RecordedStage] = {}
        self.executors: list[str] = []
        self.damaged = 0
        self.lines = 0
        self._numbers: dict[str, int] = {}
        self._cores: dict[str, int] = {}
        self._query_of_stage: dict[int, Mapping[str, str]] = {}
        self._last_ms = 0

    def feed(self, lines: Iterable[bytes]) -> None:
        """Read lines; those that are no events are counted, and passed over."""
        for line in lines:
            name = line[10:100]
            if not line.strip():
                continue
            self.lines += 1
            # {"Event":"SparkListenerTaskStart", ...
            if name.startswith((b"SparkListenerTaskStart", b"SparkListenerBlock", b"SparkListenerStageExec")):
                continue
            try:
                self._event(line)
            except (AttributeError, KeyError, TypeError, ValueError):
                self.damaged += 1

    def close(self) -> None:
        """Note what is still running when the log ends."""
        for stage in self.stages.values():
            if not stage.ended:
                self._end_stage(stage)
        if not self.end_ms:
            self.end_ms = max([self._last_ms, *(stage.end_ms for stage in self.stages.values())])
        if not self.start_ms:
            starts = [stage.start_ms for stage in self.stages.values() if stage.start_ms]
            self.start_ms = min(starts, default=self.end_ms)

    def _event(self, line: bytes) -> None:
        raw = b""
        if line.startswith(b'{"Event":"SparkListenerTaskEnd"'):
            start, end = line.find(_ACCUMULATORS), line.rfind(_AFTER)
            if 0 <= start < end:
                middle = line.rfind(b'},"Task Executor Metrics":', start, end)
                if middle < 0:
                    middle = line.rfind(b"}", start, end)
                start += len(_ACCUMULATORS) - 1
                raw = line[start:middle]
                line = line[:start] + b"[]" + line[middle:]
        event = json.loads(line)
        kind = event["Event"].rpartition(".")[2]
        handle = _HANDLERS.get(kind)
        if handle is _task_end:
            _task_end(self, event, raw)
        elif handle is not None:
            handle(self, event)

    def _stage(self, info: Mapping[str, Any]) -> RecordedStage:
        key = int(info["Stage ID"]), int(info.get("Stage Attempt ID", 0))
        stage = self.stages.get(key)
        if stage is None:
            stage = self.stages[key] = RecordedStage(*key)
            if key[0] in self._query_of_stage:
                self._take_properties(stage, self._query_of_stage[key[0]])
        if "Stage Name" in info:
            stage.name = info["Stage Name"]
            stage.tasks = int(info["Number of Tasks"])
        return stage

    def _take_properties(self, stage: RecordedStage, properties: Mapping[str, str]) -> None:
        if _EXECUTION in properties:
            stage.query = int(properties[_EXECUTION])
        stage.stream = properties.get(_QUERY, stage.stream)
        if _BATCH in properties:
            stage.batch = int(properties[_BATCH])
        stage.description = properties.get(_DESCRIPTION, "") or stage.description
        stage.conf = _interesting(properties) or stage.conf

    def _count_cores(self, stage: RecordedStage) -> None:
        """Note how many tasks may run at once: the most at any time, as executors come and go."""
        cores = sum(self._cores.values()) // max(1, int(self.conf.get("spark.task.cpus", "1")))
        stage.cores = max(stage.cores, cores)

    def _end_stage(self, stage: RecordedStage) -> None:
        stage.ended = True
        stage.add_failed()
        self._count_cores(stage)
        keep = self._waits(stage)
        stage.close(keep)
        if keep and stage.query in self.queries:
            self.queries[stage.query].waiting = True


def _interesting(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of adaptive execution."""
    return {name: value for name, value in properties.items() if name.startswith("spark.sql.adaptive.")}


def _log_start(events: Events, event: Mapping[str, Any]) -> None:
    events.version = event["Spark Version"]


def _application_start(events: Events, event: Mapping[str, Any]) -> None:
    events.application, events.application_id = event["App Name"], event.get("App ID") or ""
    events.start_ms = int(event["Timestamp"])


def _application_end(events: Events, event: Mapping[str, Any]) -> None:
    events.end_ms, events.ended = int(event["Timestamp"]), True


def _environment(events: Events, event: Mapping[str, Any]) -> None:
    events.conf.update(event["Spark Properties"])


def _executor_added(events: Events, event: Mapping[str, Any]) -> None:
    events._cores[event["Executor ID"]] = int(event["Executor Info"]["Total Cores"])


def _executor_removed(events: Events, event: Mapping[str, Any]) -> None:
    events._cores.pop(event["Executor ID"], None)


def _job_start(events: Events, event: Mapping[str, Any]) -> None:
    events._last_ms = max(events._last_ms, int(event["Submission Time"]))
    properties = event.get("Properties") or {}
    short = {
        name: properties[name] for name in (_EXECUTION, _QUERY, _BATCH, _DESCRIPTION) if name in properties
    }
    short |= _interesting(properties)
    for stage in event["Stage IDs"]:
        events._query_of_stage[int(stage)] = short


def _stage_submitted(events: Events, event: Mapping[str, Any]) -> None:
    stage = events._stage(event["Stage Info"])
    events._take_properties(stage, event.get("Properties") or {})


def _stage_completed(events: Events, event: Mapping[str, Any]) -> None:
    info = event["Stage Info"]
    stage = events._stage(info)
    stage.failure = (info.get("Failure Reason") or "").split("\n")[0]
    stage.accumulators = _values(info.get("Accumulables") or ()) or stage.accumulators
    events._end_stage(stage)
    events._query_of_stage.pop(stage.id, None)


def _task_end(events: Events, event: Mapping[str, Any], accumulators: bytes = b"") -> None:
    stage = events._stage(event)
    events._count_cores(stage)
    info, metrics = event["Task Info"], event.get("Task Metrics")
    finish = int(info["Finish Time"])
    events._last_ms = max(events._last_ms, finish)
    if stage.columns is None or stage.ended:  # a copy of a task that ended after its stage
        return
    succeeded = event["Task End Reason"]["Reason"] == "Success"
    if not succeeded and info.get("Killed", False):
        return
    metrics = metrics or {}  # there are none of a lost executor
    read, written = metrics.get("Shuffle Read Metrics") or {}, metrics.get("Shuffle Write Metrics") or {}
    source, sink = metrics.get("Input Metrics") or {}, metrics.get("Output Metrics") or {}
    shuffled = read.get("Remote Bytes Read", 0) + read.get("Local Bytes Read", 0)
    executor = f"{info['Executor ID']} {info['Host']}"
    launch = int(info["Launch Time"])
    memory = metrics.get("Peak Execution Memory", 0) or metrics.get("Peak On Heap Execution Memory", 0)
    number = events._numbers.setdefault(executor, len(events._numbers))
    if number == len(events.executors):
        events.executors.append(executor)
    values = (
        int(info["Index"]),
        launch,
        finish,
        metrics.get("Executor Run Time", 0),
        metrics.get("Executor CPU Time", 0),
        metrics.get("JVM GC Time", 0),
        read.get("Fetch Wait Time", 0),
        number,
        shuffled + source.get("Bytes Read", 0),
        read.get("Total Records Read", 0) + source.get("Records Read", 0),
        written.get("Shuffle Bytes Written", 0) + sink.get("Bytes Written", 0),
        written.get("Shuffle Records Written", 0) + sink.get("Records Written", 0),
        metrics.get("Memory Bytes Spilled", 0),
        memory,
    )
    if not succeeded:
        attempts, longest = stage.failed.get(values[0], (0, values))
        longest = max(longest, values, key=lambda each: each[2] - each[1])
        stage.failed[values[0]] = attempts + 1, longest
        return
    stage._add(values)
    if not accumulators:  # not written as Spark does it
        accumulators = json.dumps(info.get("Accumulables") or []).encode()
    if stage.slowest is None or finish - launch > stage.slowest[0]:
        stage.slowest = finish - launch, accumulators
    if stage.whole < _WHOLE_TASKS:
        stage.whole += 1
        for id_, value in _updates(json.loads(accumulators)).items():
            stage.accumulators[id_] = stage.accumulators.get(id_, 0) + value


def _query_start(events: Events, event: Mapping[str, Any]) -> None:
    query = Query(int(event["executionId"]), event.get("description") or "", int(event["time"]))
    query.root = event.get("rootExecutionId")
    query.plan = read_plan(event["sparkPlanInfo"])
    query.conf = _interesting(event.get("modifiedConfigs") or {})
    events.queries[query.id] = query
    events._last_ms = max(events._last_ms, query.start_ms)


def _query_update(events: Events, event: Mapping[str, Any]) -> None:
    query = events.queries.get(int(event["executionId"]))
    if query is not None:
        query.plan = read_plan(event["sparkPlanInfo"])


def _query_end(events: Events, event: Mapping[str, Any]) -> None:
    query = events.queries.get(int(event["executionId"]))
    if query is not None:
        query.end_ms = int(event["time"])
        if not query.waiting:
            query.plan = None


_HANDLERS: dict[str, Any] = {
    "SparkListenerLogStart": _log_start,
    "SparkListenerApplicationStart": _application_start,
    "SparkListenerApplicationEnd": _application_end,
    "SparkListenerEnvironmentUpdate": _environment,
    "SparkListenerExecutorAdded": _executor_added,
    "SparkListenerExecutorRemoved": _executor_removed,
    "SparkListenerJobStart": _job_start,
    "SparkListenerStageSubmitted": _stage_submitted,
    "SparkListenerStageCompleted": _stage_completed,
    "SparkListenerTaskEnd": _task_end,
    "SparkListenerSQLExecutionStart": _query_start,
    "SparkListenerSQLAdaptiveExecutionUpdate": _query_update,
    "SparkListenerSQLExecutionEnd": _query_end,
}


def _values(accumulables: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    return _numbers(accumulables, "Value")


def _updates(accumulables: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    return _numbers(accumulables, "Update")


def _numbers(accumulables: Iterable[Mapping[str, Any]], field_: str) -> dict[int, int]:
    found = {}
    for each in accumulables:
        try:
            found[int(each["ID"])] = int(each[field_])
        except (KeyError, TypeError, ValueError):  # not a number
            continue
    return found
