"""An event log, read line by line: executors, queries, stages, and the tasks of stages that wait.

If the tasks of a stage take about equally long, only the stage's totals are kept. For a query, only what its
stages need is kept. So a log may be larger than memory.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from keysplit.diagnosis.plan import Operator, read_plan
from keysplit.diagnosis.settings import is_read

_SQL = "org.apache.spark.sql.execution.ui."
_CONF = "spark.sql."
_EXECUTION, _QUERY, _BATCH = "spark.sql.execution.id", "sql.streaming.queryId", "streaming.sql.batchId"
_DESCRIPTION = "spark.job.description"
# Most of a task's event are accumulators, which matter for few tasks.
_ACCUMULATORS, _AFTER = b'"Accumulables":[', b',"Task Metrics":'
_LATEST_MS = 1 << 45  # a thousand years from now: a later time means damage
_WHOLE_TASKS = 4  # of a stage: the source of its accumulators if it does not end
_SHORTER = 1.05  # a task's accumulators are kept with a later one's only if it took longer by this factor
_ALONE_MS = 1000  # a task with a lost end must have run for so long after all others to be the last one
_CANCELLED = re.compile(r"(?:\[\w+\] )?(?:Job \d+|Stage) cancelled\b")  # why tasks were killed
_COPIED_MS = 86_400_000  # a file written so long after its last event is a copy

SHUFFLE_RECORDS_WRITTEN = "shuffle records written"

COLUMNS = (
    *("index", "launch_ms", "finish_ms", "run_ms", "cpu_ns", "gc_ms", "wait_ms", "executor"),
    *("bytes", "records", "output_bytes", "output_records", "spill", "memory"),
)
"""The stored figures of a task. Bytes and records count what was read from shuffles and inputs together."""

_Values: TypeAlias = "array[int]"  # of a task, as in `COLUMNS`


@dataclass(eq=False)
class Query:
    """An SQL execution: a query, or a micro-batch of a stream."""

    id: int
    description: str
    start_ms: int
    root: int | None = None
    end_ms: int | None = None
    plan: Operator | None = None
    conf: dict[str, str] = field(default_factory=dict)
    waiting: bool = False  # whether any of its stages is of interest


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
    lasting: list[tuple[int, int, bytes]] = field(default_factory=list)  # see `keep_accumulators`
    whole: int = 0
    launched: dict[int, _Values] = field(default_factory=dict)  # by the id of the attempt, until it ends
    failed: dict[int, _Values] = field(default_factory=dict)  # the longest attempt of each task
    failure: str = ""
    ended: bool = False
    over: bool = False  # whether the log has its end
    pickled: bool = False  # whether it reads batches of pickled rows from a shuffle
    others: set[int] = field(default_factory=set)  # tasks with an attempt that failed or was killed
    killed: dict[int, _Values | None] = field(default_factory=dict)  # launch times by task, if known
    unended: frozenset[int] = frozenset()  # tasks counted as succeeded without an end in the log
    missing: int = 0  # tasks of a finished stage that have no end in the log
    pending_ms: int = 0  # until then tasks waited for their first launch, in ms
    running_ms: int = 0  # running time of the longest task without an end
    longest_ms: int = 0
    median_ms: int = 0
    share: float = 0.0  # part of its query's time saved by balancing, if cores wait for a task
    start_ms: int = 0
    end_ms: int = 0
    work_ms: int = 0
    ran: int = 0
    cores: int = 0

    @property
    def was_cancelled(self) -> bool:
        """Whether the stage was ended while its tasks were running."""
        return _CANCELLED.match(self.failure) is not None

    def array(self, name: str) -> np.ndarray:
        """Return a column of the tasks that succeeded, int64."""
        assert self.columns is not None
        return (
            np.frombuffer(self.columns[name], np.int64) if len(self.columns[name]) else np.zeros(0, np.int64)
        )

    def accumulators_of(self, at: int) -> dict[int, int]:
        """Return what the task at this index added to each accumulator; nothing if this was not kept."""
        took = int(self.array("finish_ms")[at] - self.array("launch_ms")[at])
        kept = {(time, index): updates for time, index, updates in self.lasting}
        return _updates_in(kept.get((took, int(self.array("index")[at])), b""))

    def keep_accumulators(self, took_ms: int, index: int, updates: bytes) -> None:
        """Keep the accumulators of a task that has ended, as in the log.

        Cores wait at the end, so a task matters only if no later task took as long.
        """
        while self.lasting and self.lasting[-1][0] <= _SHORTER * took_ms:
            self.lasting.pop()
        self.lasting.append((took_ms, index, updates))

    def drop_repeated(self) -> None:
        """Keep the last success of each task: a task is retried if its output was lost with its executor."""
        if self.columns is None:
            return
        index = self.array("index")
        _, first = np.unique(index, return_index=True)
        if len(first) == len(index):
            return
        self.pending_ms = int(self.array("launch_ms")[first].max())
        _, last = np.unique(index[::-1], return_index=True)
        kept = np.sort(len(index) - 1 - last)
        self.columns = {name: array("q", self.array(name)[kept].tolist()) for name in COLUMNS}

    def add_unended(self, until_ms: int) -> None:
        """Record tasks that have no end event as having run until `until_ms`.

        For a cancelled stage that is what happened. In any other finished stage the log has lost the end
        events. A single such task was the last task if the stage went on for long after all other tasks; if
        there are several, each may have ended at any time.
        """
        if self.columns is None or (self.failure and not self.was_cancelled):
            return
        succeeded = set(self.columns["index"])
        first = reversed(self.launched.values())  # a copy was launched later
        waiting = {each[0]: each for each in first if each[0] not in succeeded}
        if self.was_cancelled:
            ran = {index: each for index, each in self.killed.items() if each and index not in succeeded}
            waiting = {**ran, **waiting}
        elif self.over:
            self.missing = max(self.tasks - len(succeeded | self.killed.keys()), 0)
            alone_ms = until_ms - max(self.columns["finish_ms"], default=until_ms)
            if self.missing != 1 or len(waiting) != 1 or alone_ms < _ALONE_MS:
                return
        for values in waiting.values():
            values[2] = max(until_ms, values[1])
            self.add(values)
        self.unended = frozenset(waiting)

    def add_failed(self) -> None:
        """Add the tasks that made the stage fail, with the longest attempt of each."""
        if self.columns is not None and self.failure:
            succeeded = set(self.columns["index"])
            for index, values in self.failed.items():
                if index not in succeeded:
                    self.add(values)

    def add(self, values: _Values) -> None:
        """Add a task that succeeded, or counts as succeeded."""
        assert self.columns is not None
        for name, value in zip(COLUMNS, values, strict=True):
            self.columns[name].append(value)
        self.pending_ms = max(self.pending_ms, values[1])

    def close(self, keep: bool) -> None:
        """Note the totals, and drop the tasks unless the stage is of interest."""
        self.failed, self.launched, self.others, self.killed = {}, {}, set(), {}
        if self.columns is None or self.ran:
            return
        launch, finish = self.array("launch_ms"), self.array("finish_ms")
        self.ran = len(launch)
        if self.ran:
            self.start_ms, self.end_ms = int(launch.min()), int(finish.max())
            took = np.sort(finish - launch)
            self.work_ms, self.longest_ms = int(took.sum()), int(took[-1])
            index = self.array("index")
            self.running_ms = int((finish - launch)[np.isin(index, [*self.unended])].max(initial=0))
            self.median_ms = int(took[(self.ran - 1) // 2])
        if not keep:
            self.columns, self.lasting, self.accumulators = None, [], {}


class Events:
    """The events of a log. `feed` it lines, then `close` it."""

    def __init__(self, waits: Any) -> None:
        """Create an empty log; `waits(stage)` says whether a finished stage is of interest."""
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
        self.applications = 0
        self.lines = 0
        self.jobs: set[int] = set()  # that have not ended
        self.written: dict[int, int] = {}  # rows written to shuffles, by the accumulator that counts them
        self.open_stages: set[RecordedStage] = set()  # without an end in the log so far
        self._numbers: dict[str, int] = {}
        self._cores: dict[str, int] = {}
        self._query_of_stage: dict[int, Mapping[str, str]] = {}
        self.silent_ms = 0  # how long after its last event the log was written
        self._last_ms = 0

    def feed(self, lines: Iterable[bytes]) -> None:
        """Read lines; lines that are not events are counted and skipped."""
        for line in lines:
            name = line[10:100]
            if not line.strip():
                continue
            self.lines += 1
            # {"Event":"SparkListenerBlockUpdated", ...
            if name.startswith((b"SparkListenerBlock", b"SparkListenerStageExec")):
                continue
            try:
                self._event(line)
            except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
                self.damaged += 1

    def close(self, written_ms: int = 0) -> None:
        """Note what is still running when the log ends.

        Args:
            written_ms: when the log was last written; 0 if unknown.
        """
        until = self.end_ms or self._last_ms
        if not self.end_ms and 0 < written_ms - until <= _COPIED_MS:
            self.silent_ms, until = written_ms - until, written_ms
        for stage in self.stages.values():
            if not stage.ended:
                self._end_stage(stage, until)
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
            self.open_stages.add(stage)
            if key[0] in self._query_of_stage:
                self._take_properties(stage, self._query_of_stage[key[0]])
        if "Stage Name" in info:
            stage.name = str(info["Stage Name"])
            stage.tasks = int(info["Number of Tasks"])
            names = {each.get("Name") for each in info.get("RDD Info") or ()}
            stage.pickled = {"PythonRDD", "ShuffledRDD"} <= names
        return stage

    def _take_properties(self, stage: RecordedStage, properties: Mapping[str, str]) -> None:
        if _EXECUTION in properties:
            stage.query = int(properties[_EXECUTION])
        if _QUERY in properties:
            stage.stream = str(properties[_QUERY])
        if _BATCH in properties:
            stage.batch = int(properties[_BATCH])
        stage.description = str(properties.get(_DESCRIPTION) or stage.description)
        stage.conf = _interesting(properties) or stage.conf

    def _count_cores(self, stage: RecordedStage) -> None:
        """Note how many tasks may run at once: the maximum over time, because executors come and go."""
        try:
            of_task = max(1, int(self.conf.get("spark.task.cpus", "1")))
        except ValueError:
            of_task = 1
        stage.cores = max(stage.cores, sum(self._cores.values()) // of_task)

    def _executor(self, info: Mapping[str, Any]) -> int:
        """Return the number of a task's executor."""
        executor = f"{info['Executor ID']} {info['Host']}"
        number = self._numbers.setdefault(executor, len(self._numbers))
        if number == len(self.executors):
            self.executors.append(executor)
        return number

    def _end_stage(self, stage: RecordedStage, until_ms: int) -> None:
        if stage.ended:  # in a log that has it twice
            return
        stage.ended = True
        self.open_stages.discard(stage)
        stage.drop_repeated()
        stage.add_failed()
        if stage.columns is not None and 0 < stage.tasks <= len(stage.columns["index"]):
            stage.over = True
        stage.add_unended(until_ms)
        self._count_cores(stage)
        keep = self._waits(stage)
        stage.close(keep)
        if keep and stage.query in self.queries:
            self.queries[stage.query].waiting = True


def _interesting(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that matter to a stage that waits."""
    return {name: str(value) for name, value in properties.items() if is_read(name)}


def _milliseconds(value: Any) -> int:
    """Return a time, or raise ValueError."""
    time = int(value)
    if abs(time) > _LATEST_MS:
        raise ValueError(f"a time must be at most {_LATEST_MS} ms, got {time}")
    return time


def _known(metrics: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the metrics that have a value; the metrics of a lost executor have none."""
    return {name: value for name, value in (metrics or {}).items() if value is not None}


def _log_start(events: Events, event: Mapping[str, Any]) -> None:
    events.version = str(event["Spark Version"])


def _application_start(events: Events, event: Mapping[str, Any]) -> None:
    events.applications += 1
    events.application, events.application_id = str(event["App Name"]), str(event.get("App ID") or "")
    events.start_ms = _milliseconds(event["Timestamp"])


def _application_end(events: Events, event: Mapping[str, Any]) -> None:
    events.end_ms, events.ended = _milliseconds(event["Timestamp"]), True


def _environment(events: Events, event: Mapping[str, Any]) -> None:
    events.conf.update((name, str(value)) for name, value in dict(event["Spark Properties"]).items())


def _executor_added(events: Events, event: Mapping[str, Any]) -> None:
    events._last_ms = max(events._last_ms, _milliseconds(event.get("Timestamp", 0)))
    events._cores[event["Executor ID"]] = int(event["Executor Info"]["Total Cores"])


def _executor_removed(events: Events, event: Mapping[str, Any]) -> None:
    events._last_ms = max(events._last_ms, _milliseconds(event.get("Timestamp", 0)))
    events._cores.pop(event["Executor ID"], None)


def _job_start(events: Events, event: Mapping[str, Any]) -> None:
    events._last_ms = max(events._last_ms, _milliseconds(event["Submission Time"]))
    properties = event.get("Properties") or {}
    short = {
        name: properties[name] for name in (_EXECUTION, _QUERY, _BATCH, _DESCRIPTION) if name in properties
    }
    short |= _interesting(properties)
    if "Job ID" in event:
        events.jobs.add(int(event["Job ID"]))
    for stage in event["Stage IDs"]:
        events._query_of_stage[int(stage)] = short


def _job_end(events: Events, event: Mapping[str, Any]) -> None:
    events.jobs.discard(int(event["Job ID"]))


def _stage_submitted(events: Events, event: Mapping[str, Any]) -> None:
    stage = events._stage(event["Stage Info"])
    events._take_properties(stage, event.get("Properties") or {})


def _stage_completed(events: Events, event: Mapping[str, Any]) -> None:
    info = event["Stage Info"]
    stage = events._stage(info)
    stage.failure = (info.get("Failure Reason") or "").split("\n")[0]
    accumulables = info.get("Accumulables") or ()
    stage.accumulators = _numbers(accumulables, "Value") or stage.accumulators
    if not (stage.attempt or stage.failure or stage.others):  # otherwise it would count rows written twice
        events.written.update(_numbers(filter(_is_written, accumulables), "Value"))
    stage.over = True
    ended_ms = _milliseconds(info.get("Completion Time") or events._last_ms)
    events._last_ms = max(events._last_ms, ended_ms)
    events._end_stage(stage, ended_ms)
    events._query_of_stage.pop(stage.id, None)


def _task_start(events: Events, event: Mapping[str, Any]) -> None:
    stage = events._stage(event)
    if stage.columns is None or stage.ended:
        return
    info = event["Task Info"]
    launch = _milliseconds(info["Launch Time"])
    events._last_ms = max(events._last_ms, launch)
    events._count_cores(stage)
    values = {"index": int(info["Index"]), "launch_ms": launch, "executor": events._executor(info)}
    stage.launched[int(info["Task ID"])] = array("q", [values.get(name, 0) for name in COLUMNS])


def _task_end(events: Events, event: Mapping[str, Any], accumulators: bytes = b"") -> None:
    stage = events._stage(event)
    events._count_cores(stage)
    info = event["Task Info"]
    launch, finish = _milliseconds(info["Launch Time"]), _milliseconds(info["Finish Time"])
    events._last_ms = max(events._last_ms, finish)
    launched = stage.launched.pop(info.get("Task ID"), None)
    if stage.columns is None or stage.ended:  # a copy of a task that ended after its stage
        return
    succeeded = event["Task End Reason"]["Reason"] == "Success"
    if not succeeded:
        stage.others.add(int(info["Index"]))
        if info.get("Killed", False):
            stage.killed[int(info["Index"])] = launched
            return
    metrics = _known(event.get("Task Metrics"))
    read, written = _known(metrics.get("Shuffle Read Metrics")), _known(metrics.get("Shuffle Write Metrics"))
    source, sink = _known(metrics.get("Input Metrics")), _known(metrics.get("Output Metrics"))
    shuffled = read.get("Remote Bytes Read", 0) + read.get("Local Bytes Read", 0)
    memory = metrics.get("Peak Execution Memory", 0) or metrics.get("Peak On Heap Execution Memory", 0)
    values = array(
        "q",
        (
            int(info["Index"]),
            launch,
            finish,
            metrics.get("Executor Run Time", 0),
            metrics.get("Executor CPU Time", 0),
            metrics.get("JVM GC Time", 0),
            read.get("Fetch Wait Time", 0),
            events._executor(info),
            shuffled + source.get("Bytes Read", 0),
            read.get("Total Records Read", 0) + source.get("Records Read", 0),
            written.get("Shuffle Bytes Written", 0) + sink.get("Bytes Written", 0),
            written.get("Shuffle Records Written", 0) + sink.get("Records Written", 0),
            metrics.get("Memory Bytes Spilled", 0),
            memory,
        ),
    )
    if not succeeded:
        before = stage.failed.get(values[0], values)
        stage.failed[values[0]] = max(before, values, key=lambda each: each[2] - each[1])
        return
    stage.add(values)
    if not accumulators:  # not in Spark's format
        accumulators = json.dumps(info.get("Accumulables") or []).encode()
    stage.keep_accumulators(finish - launch, values[0], accumulators)
    if stage.whole < _WHOLE_TASKS:
        stage.whole += 1
        for id_, value in _updates_in(accumulators).items():
            stage.accumulators[id_] = stage.accumulators.get(id_, 0) + value


def _query_start(events: Events, event: Mapping[str, Any]) -> None:
    start_ms, root = _milliseconds(event["time"]), event.get("rootExecutionId")
    query = Query(int(event["executionId"]), str(event.get("description") or ""), start_ms)
    query.root = None if root is None else int(root)
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
        query.end_ms = _milliseconds(event["time"])
        events._last_ms = max(events._last_ms, query.end_ms)
        if not query.waiting and all(stage.query != query.id for stage in events.open_stages):
            query.plan = None


_HANDLERS: dict[str, Any] = {
    "SparkListenerLogStart": _log_start,
    "SparkListenerApplicationStart": _application_start,
    "SparkListenerApplicationEnd": _application_end,
    "SparkListenerEnvironmentUpdate": _environment,
    "SparkListenerExecutorAdded": _executor_added,
    "SparkListenerExecutorRemoved": _executor_removed,
    "SparkListenerJobStart": _job_start,
    "SparkListenerJobEnd": _job_end,
    "SparkListenerStageSubmitted": _stage_submitted,
    "SparkListenerStageCompleted": _stage_completed,
    "SparkListenerTaskStart": _task_start,
    "SparkListenerTaskEnd": _task_end,
    "SparkListenerSQLExecutionStart": _query_start,
    "SparkListenerSQLAdaptiveExecutionUpdate": _query_update,
    "SparkListenerSQLExecutionEnd": _query_end,
}


def _updates_in(accumulables: bytes) -> dict[int, int]:
    """Return what a task added to each accumulator; nothing if the list of accumulators is damaged."""
    try:
        return _numbers(json.loads(accumulables), "Update")
    except (RecursionError, TypeError, ValueError):
        return {}


def _is_written(accumulable: Any) -> bool:
    return isinstance(accumulable, Mapping) and accumulable.get("Name") == SHUFFLE_RECORDS_WRITTEN


def _numbers(accumulables: Iterable[Mapping[str, Any]], field_: str) -> dict[int, int]:
    found = {}
    for each in accumulables:
        try:
            found[int(each["ID"])] = int(each[field_])
        except (KeyError, OverflowError, TypeError, ValueError):  # not a number
            continue
    return found
