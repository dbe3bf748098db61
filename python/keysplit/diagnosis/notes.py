"""Notes of a diagnosis beyond its findings: what is still running, what the log lacks, and near misses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from keysplit.diagnosis.advice import Slow, advise
from keysplit.diagnosis.events import Events, RecordedStage
from keysplit.diagnosis.findings import gathering_of, make_stage, query_of, seconds_of, stages_of_interest
from keysplit.diagnosis.model import Finding
from keysplit.diagnosis.operators import Gathering
from keysplit.diagnosis.plan import Fragment
from keysplit.diagnosis.running import say_unended
from keysplit.diagnosis.settings import read_number
from keysplit.diagnosis.text import format_time, shorten
from keysplit.diagnosis.waiting import LEAST_RATIO, LEAST_SHARE, LEAST_TASK_S, is_single, waiting_core_s
from keysplit.text import format_count, format_ratio

_OLDEST = (3, 5)  # the first version of Spark whose logs are tested
_READS = ("AQEShuffleRead", "CustomShuffleReader")
_MOST = 3  # notes on stages of one task


class _Single(NamedTuple):
    took_s: float
    verdict: str = ""
    note: str = ""


def say_without_findings(events: Events) -> str:
    """Return the verdict on a log without findings: what to do first."""
    stages = list(events.stages.values())
    last = {stage.id: stage for stage in stages}  # a later attempt may have succeeded
    if failed := [str(id_) for id_, stage in last.items() if stage.failure]:
        return f"look at why stages failed: {', '.join(failed)}"
    running = [_say_running(events, stage) for stage in stages if not stage.over]
    if not running and not events.ended and any(stage.ran for stage in stages):
        running = [f"Job {job} still runs, and the log has nothing of its stages yet" for job in events.jobs]
    if running:
        wait = "wait for stages to end, or ask the running session, kss.diagnose(spark)"
        return ". ".join(["look at why stages did not end" if events.ended else wait, *running])
    if missing := [str(stage.id) for stage in stages if stage.missing]:
        return (
            "get a complete log: this one lacks the ends of tasks, and a slow one may be among them (of "
            f"stage {', '.join(missing)}). Where Spark dropped events, raise "
            "spark.scheduler.listenerbus.eventqueue.capacity"
        )
    if single := _single(events):
        return single[0].verdict
    if not any(stage.ran for stage in stages):
        return "wait for tasks to end: the log has none yet"
    return f"no action needed: no stage waits for a slow task{_nearest(stages)}"


def list_notes(events: Events, findings: Sequence[Finding]) -> list[str]:
    """Return the notes: what the log lacks, why stages failed, and remarks on stages without findings."""
    notes = []
    version = re.match(r"(\d+)\.(\d+)", events.version)
    if version is not None and (int(version[1]), int(version[2])) < _OLDEST:
        notes.append(
            f"Spark {events.version} wrote this log: only logs of 3.5 and newer are tested, and older ones "
            "may name operators and metrics differently"
        )
    if events.silent_ms and any(stage.unended and not stage.over for stage in events.stages.values()):
        notes.append(
            "tasks without an end are taken to run until the log was last written, "
            f"{format_time(events.silent_ms / 1000)} after its last event"
        )
    told = {(finding.stage.id, finding.stage.attempt) for finding in findings}
    for stage in events.stages.values():
        if findings and stage.ran and not stage.over and (stage.id, stage.attempt) not in told:
            notes.append(_say_running(events, stage))
        if stage.failure:
            notes.append(f"stage {stage.id} failed: {shorten(stage.failure, 200)}")
        if stage.missing and not events.damaged:
            dropped = "the event" if stage.missing == 1 else "their events"
            notes.append(
                f"stage {stage.id} names {format_count(stage.tasks, 'task')}, and the log lacks the end of "
                f"{stage.missing:,} of its tasks: Spark dropped {dropped}"
            )
    said = "" if findings else say_without_findings(events)
    return notes + [each.note for each in _single(events) if each.verdict != said]


def _say_running(events: Events, stage: RecordedStage) -> str:
    what = gathering_of(events, stage)[1].what
    return say_unended(make_stage(events, stage), what, stage.median_ms / 1000)


def _single(events: Events) -> list[_Single]:
    """Return the stages with one task that take a large part of their query's time, the longest first."""
    found: dict[object, _Single] = {}
    for stage, others in stages_of_interest(events):
        if not is_single(stage) or stage.cores == 1 or not stage.over or stage.failure:
            continue
        query_s = seconds_of(events, stage, query_of(events, stage))
        took = stage.longest_ms / 1000
        if took - waiting_core_s(stage, others)[1] < LEAST_SHARE * query_s:
            continue
        fragment, gathering = gathering_of(events, stage)
        if fragment is not None and fragment.first("CollectLimit", "CollectTail") is not None:
            continue  # `show` and `take` try few partitions first
        workers = int(read_number(events.conf, "spark.sql.shuffle.partitions", 200))
        action = _more_tasks(fragment, gathering, Slow("rows", workers, stage.cores, 1.0, (), False, False))
        where = f"one of {stage.cores:,} cores" if stage.cores else "one core"  # 0: the log does not say
        single = f"stage {stage.id} is one task ({gathering.kind})"
        verdict = f"{action}\ntook {format_time(took)} of {format_time(query_s)} on {where}\nsure: {single}"
        note = (
            f"{single}: it took {format_time(took)} of the query's {format_time(query_s)} "
            f"({took / query_s:.0%}) on {where}. To spread it, {action}"
        )
        same = (stage.stream, gathering.kind) if stage.stream else (stage.id, stage.attempt)
        found[same] = max(found.get(same, _Single(0.0)), _Single(took, verdict, note))
    return sorted(found.values(), reverse=True)[:_MOST]


def _more_tasks(fragment: Fragment | None, gathering: Gathering, slow: Slow) -> str:
    """Return how to give a stage more than one task."""
    operators = () if fragment is None else fragment.operators
    inputs = () if fragment is None else fragment.inputs
    if any(each.name.startswith(("GlobalLimit", "TakeOrderedAndProject")) for each in operators):
        return "put df.repartition(n) after the limit, which leaves its rows in one task"
    if any(each.name == "Coalesce" for each in operators):
        return "put repartition(1) in the place of coalesce(1), so that what is before it runs in many tasks"
    if any("coalesced" in each.text for each in operators if each.name.startswith(_READS)):
        return (
            "set spark.sql.adaptive.coalescePartitions.enabled=false, or put df.repartition(n, key) before "
            "it: adaptive execution has made its partitions one, by bytes"
        )
    if any("SinglePartition" in each.text for each in inputs):
        line = advise(gathering, slow).line if gathering.kind == "window" else None
        if line is not None:
            return f"split the window by ranges of its order: {line}"
        by = "the window" if gathering.kind == "window" else "what gathers all rows"
        return f"partition {by} by columns: without, all rows go to one task"
    if gathering.kind == "scan":
        unzip = "" if gathering.is_columnar else " (a gzip file cannot be split)"
        return f"read the input in more parts: smaller files{unzip}, or df.repartition(n) after reading"
    return "give the stage more partitions"


def _nearest(stages: list[RecordedStage]) -> str:
    """Name the stage that is nearest to being a finding, and the rule that it does not meet."""
    several = [stage for stage in stages if stage.ran > 1]
    if not several:
        return ""
    nearest = max(several, key=_nearness)
    share, ratio, seconds = _nearness(nearest)
    what = f". The nearest is stage {nearest.id}: its slowest task took"
    if seconds < LEAST_TASK_S:
        return f"{what} {seconds:.2f} s, below {LEAST_TASK_S:g} s"
    if ratio < LEAST_RATIO:
        return f"{what} {format_ratio(ratio)} times the median, below {LEAST_RATIO:g}"
    return (
        f"{what} {format_ratio(ratio)} times the median, and a balanced stage would save {share:.1%} of its "
        f"query's time, below {LEAST_SHARE:.0%}"
    )


def _nearness(stage: RecordedStage) -> tuple[float, float, float]:
    """Return a stage's figures for the rules, the last rule first: saving, ratio, time."""
    seconds = stage.longest_ms / 1000
    ratio = stage.longest_ms / max(stage.median_ms, 1) if seconds >= LEAST_TASK_S else 0.0
    return stage.share, ratio, seconds
