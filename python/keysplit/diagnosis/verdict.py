"""Verdicts in words: the action first, then its reasons."""

from __future__ import annotations

from keysplit.diagnosis.advice import Advice
from keysplit.diagnosis.causes import costs_more_cpu, slow_host
from keysplit.diagnosis.events import Events, RecordedStage
from keysplit.diagnosis.model import Finding
from keysplit.diagnosis.running import say_state, say_unended
from keysplit.diagnosis.text import format_bytes, format_time
from keysplit.text import format_ratio

_SPECULATION = "spark.speculation=true repeats slow tasks elsewhere"
_CERTAIN = 4.0  # times the median's rows: from here on rows are the cause regardless of their cost


def advise_without_rows(events: Events, stage: RecordedStage, slowest: int, cause: str) -> Advice:
    """Return the advice if the slowest task has no more rows than others, so keysplit cannot help.

    Args:
        events: the log, for the names of machines.
        stage: the stage.
        slowest: the index of its slowest task.
        cause: as in `Finding.cause`.
    """
    task = f"task {stage.array('index')[slowest]}"
    if cause == "unended":
        place = events.executors[stage.array("executor")[slowest]]
        look = f"look at what {task} of stage {stage.id} does: its thread dump is in Spark's UI"
        return Advice(look, None, f"It runs on executor {place}", "unsure: its figures come with its end")
    rows = f"{task} has as many rows as others"
    slow = slow_host(events, stage) if cause == "host" else None
    if cause == "gc":
        action = "give executors more memory, or fewer cores each: no split helps"
        return Advice(action, None, "", f"likely: {rows}, and collected garbage")
    if cause == "fetch":
        action = "check the network and the disks that serve the shuffle: no split helps"
        return Advice(action, None, "", f"likely: {rows}, and waited for its blocks")
    if slow is not None:
        sure = f"likely: tasks there take {format_ratio(slow[1])} times as long for as many rows"
        return Advice(f"check the machine {slow[0]}: no split helps", None, _SPECULATION, sure)
    if stage.pickled:
        why = "unsure: the log counts batches of pickled rows, not rows"
        action = "count the rows per key: the log does not show which task has more rows"
        return Advice(action, None, "", why)
    if costs_more_cpu(stage, slowest):
        action = "look at the rows of the slowest task: no split by key helps, they cost more"
        return Advice(action, None, "", f"likely: {rows}, and kept its core busy")
    action = "check the machine and what the slowest task waits for: no split helps"
    return Advice(action, None, _SPECULATION, f"unsure: {rows}, and why it waits is not in the log")


def write_verdict(finding: Finding, advice: Advice, matches: tuple[float, float]) -> tuple[str, str]:
    """Return the verdict in three lines, and further details in sentences.

    Args:
        finding: the finding, without its verdict.
        advice: what to do.
        matches: for a join, the rows that the slowest task returned, and the mean of the other tasks.
    """
    stage, time = finding.stage, finding.spreads["time"]
    balanced = [format_time(each) for each in dict.fromkeys(finding.balanced_s)]
    least, most = (finding.query_s / max(each, 1e-3) for each in reversed(finding.balanced_s))
    ratio = format_ratio(most) if len(balanced) == 1 else f"{format_ratio(least)} to {format_ratio(most)}"
    if len({each.split()[1] for each in balanced}) == 1:  # in one unit
        balanced[:-1] = [each.split()[0] for each in balanced[:-1]]
    took, then = format_time(finding.query_s), " to ".join(balanced)
    cost = f"today {ratio} times as long as balanced: {took} instead of {then}"
    sure = advice.sure or _sure(finding, matches)
    unended = ""
    if stage.running:
        sure = f"{sure}; {say_state(stage)}"
        unended = say_unended(stage, finding.what, time.median)
    details = [
        unended,
        advice.why,
        f"Task {finding.task} of {stage.named:,} took {format_time(time.slowest)}, "
        f"{format_ratio(finding.ratio)} times the median",
        f"Cores waited {finding.waiting_core_s:,.1f} core-seconds",
        finding.adaptive,
    ]
    return "\n".join([advice.action, cost, sure]), ". ".join(filter(None, details))


def _sure(finding: Finding, matches: tuple[float, float]) -> str:
    """Describe how certain it is that rows are the cause, and which figures show it."""
    if finding.cause == "lost":
        return f"unsure: the figures of task {finding.task} were lost with its executor"
    if finding.cause == "matches":
        return f"sure: its rows match {matches[0]:,.0f} rows, those of other tasks {matches[1]:,.0f} each"
    for name, show, unit in (("records", "{:,.0f}".format, " rows"), ("bytes", format_bytes, "")):
        of = finding.spreads.get(name)
        if of is not None and of.slowest >= 2 * of.median:
            is_whole = finding.stage.tasks + finding.stage.running == finding.stage.named
            how = "sure" if of.ratio >= _CERTAIN and is_whole else "likely"
            share = f"{show(of.slowest)} of {show(of.total)}{unit} ({of.slowest / of.total:.0%})"
            of_all = (
                "" if finding.stage.running else f" of {finding.stage.named:,}"
            )  # the stage's state already says so
            return f"{how}: task {finding.task}{of_all} read {share}"
    return f"unsure: the log does not say what task {finding.task} has read"
