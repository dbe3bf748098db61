"""Verdicts in words: the action first, then its reasons."""

from __future__ import annotations

from collections.abc import Mapping

from keysplit.diagnosis.advice import Advice
from keysplit.diagnosis.causes import costs_more_cpu, slow_host
from keysplit.diagnosis.events import Events, RecordedStage
from keysplit.diagnosis.model import Finding, Spread
from keysplit.diagnosis.running import say_unended
from keysplit.diagnosis.text import format_bytes, format_time
from keysplit.profiling.text import format_ratio

_SPECULATION = "spark.speculation=true repeats slow tasks elsewhere"


def advise_without_rows(events: Events, stage: RecordedStage, slowest: int, cause: str) -> Advice:
    """Say what helps where the slowest task has no more rows than others: nothing of keysplit's.

    Args:
        events: the log, for the names of machines.
        stage: the stage.
        slowest: which of its tasks is the slowest.
        cause: as `Finding.cause`.
    """
    if cause == "unended":
        place = events.executors[stage.array("executor")[slowest]]
        task = f"task {stage.array('index')[slowest]} of stage {stage.id}"
        return Advice(f"look at what {task} does: Spark's UI has the thread dump of executor {place}", None)
    slow = slow_host(events, stage) if cause == "host" else None
    if cause == "gc":
        action = (
            "give executors more memory, or fewer cores each: no split helps, the slowest task collected "
            "garbage"
        )
    elif cause == "fetch":
        action = (
            "check the network and the disks that serve the shuffle: no split helps, the slowest task waited "
            "for its blocks"
        )
    elif slow is not None:
        action = (
            f"check the machine {slow[0]}: no split helps, tasks there take {format_ratio(slow[1])} times as "
            f"long for as many rows. {_SPECULATION}"
        )
    elif stage.pickled:
        action = (
            "count the rows of each key: the log has those of RDDs as batches, so it does not say whether "
            "the slowest task has more"
        )
    elif costs_more_cpu(stage, slowest):
        action = (
            "look at the rows of the slowest task: no split by key helps, they are as many as others, and "
            "cost more"
        )
    else:
        action = (
            "check the machine and what the slowest task waits for: no split helps, it has as many rows as "
            f"others. {_SPECULATION}"
        )
    return Advice(action, None)


def write_verdict(finding: Finding, advice: Advice, matches: tuple[float, float]) -> str:
    """Return the verdict.

    Args:
        finding: all but its verdict.
        advice: what to do.
        matches: of a join, how many rows the slowest task returned, and the mean of the others.
    """
    stage, slowest = finding.stage, finding.spreads["time"].slowest
    took = f"took {format_time(slowest)}, {format_ratio(finding.ratio)} times the median"
    usual_s = finding.spreads["time"].median
    what = (
        say_unended(stage, finding.what, usual_s)
        if stage.running
        else f"Task {finding.task} of {stage.tasks:,} {took}"
    )
    share = _share(finding.spreads)
    if finding.cause == "matches":
        share = f"its rows match {matches[0]:,.0f} rows, those of another task {matches[1]:,.0f} on average"
    low, high = (format_time(each) for each in finding.balanced_s)
    cost = (
        f"Cores waited {finding.waiting_core_s:,.1f} core-seconds; if balanced, the query would take "
        f"{low if low == high else f'{low} to {high}'} instead of {format_time(finding.query_s)}"
    )
    sentences = [advice.action, f"{what}: {share}" if share else what, cost]
    return ". ".join([*sentences, finding.adaptive] if finding.adaptive else sentences)


def _share(spreads: Mapping[str, Spread]) -> str:
    """Say what part of all the slowest task read."""
    for name, show, unit in (("records", "{:,.0f}".format, " rows"), ("bytes", format_bytes, "")):
        of = spreads.get(name)
        if of is not None and of.slowest >= 2 * of.median:
            return f"it read {show(of.slowest)} of {show(of.total)}{unit} ({of.slowest / of.total:.0%})"
    records = spreads.get("records")
    return (
        "" if records is None else f"it read {records.slowest:,.0f} rows, the median is {records.median:,.0f}"
    )
