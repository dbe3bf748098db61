"""Why the slowest task of a stage is the slowest: more rows, or something else."""

from __future__ import annotations

import numpy as np

from keysplit.diagnosis.events import Events, RecordedStage
from keysplit.diagnosis.model import Spread
from keysplit.diagnosis.waiting import LEAST_RATIO, durations_s, is_later, lower_median, usual_s

_PLAIN_RATIO = 4.0  # so many times the median's rows are the cause whatever the time per row is
_EXPLAINED = (
    0.3  # of the time above the median, by rows at the median's pace: from here on rows are the cause
)
_PAUSED = 0.3  # of a task's time in which it collected garbage, or waited for blocks
_LEAST_OF_HOST = 3  # tasks: from fewer nothing is said of a machine


def find_spreads(stage: RecordedStage, slowest: int) -> dict[str, Spread]:
    """Return what is uneven in a stage, by the keys of `WHAT`.

    Args:
        stage: the stage.
        slowest: which of its tasks is the slowest.
    """
    seconds = durations_s(stage)
    spreads = {"time": _spread(seconds, slowest)._replace(median=float(usual_s(stage)[slowest]))}
    for name in ("bytes", "records", "spill", "memory"):
        values = stage.array(name)
        if values.any() and not (name == "records" and stage.pickled):
            spreads[name] = _spread(values, slowest)
    return spreads


def _spread(values: np.ndarray, slowest: int) -> Spread:
    return Spread(float(values[slowest]), lower_median(values), float(values.max()), float(values.sum()))


def find_cause(
    events: Events,
    stage: RecordedStage,
    slowest: int,
    spreads: dict[str, Spread],
    matches: tuple[float, float],
) -> str:
    """Return the cause, as `Finding.cause`.

    Args:
        events: the log, for the names of executors.
        stage: the stage.
        slowest: which of its tasks is the slowest.
        spreads: what is uneven in it.
        matches: of a join, how many rows the slowest task returned, and the mean of the others; else zeros.
    """
    seconds, later = durations_s(stage), is_later(stage)
    median = spreads["time"].median
    # What the first task on a core takes may hold what it loads: so do the others that are first.
    alike = seconds[later == later[slowest]]
    excess = float(seconds[slowest]) - max(median, lower_median(alike))
    for name in ("records", "bytes"):
        of = spreads.get(name)
        if of is None or of.slowest < LEAST_RATIO * of.median or of.slowest < 1.5 * of.total / stage.ran:
            continue
        if of.ratio >= _PLAIN_RATIO or (of.ratio - 1) * median >= _EXPLAINED * excess:
            return "rows"
    if matches[0] >= _PLAIN_RATIO * max(matches[1], 1.0):
        return "matches"
    run = float(stage.array("run_ms")[slowest])
    if int(stage.array("index")[slowest]) in stage.unended:
        return "unended"
    if not run:
        return "lost"
    if stage.array("gc_ms")[slowest] >= _PAUSED * run:
        return "gc"
    if stage.array("wait_ms")[slowest] >= _PAUSED * run:
        return "fetch"
    if slow_host(events, stage) is not None:
        return "host"
    return "time"


def slow_host(events: Events, stage: RecordedStage) -> tuple[str, float] | None:
    """Return a machine on which the tasks of a stage take longer, and how many times as long; None if none.

    The median of the tasks on it must be above that of the others by the least ratio of a finding, and the
    slow tasks must all be on it.
    """
    seconds = durations_s(stage)
    hosts = np.array([events.executors[number].partition(" ")[2] for number in stage.array("executor")])
    slow = seconds >= LEAST_RATIO * max(lower_median(seconds), 1e-3)
    found = set(hosts[slow])
    if len(found) != 1:
        return None
    host = found.pop()
    here, there = seconds[hosts == host], seconds[hosts != host]
    if len(here) < _LEAST_OF_HOST or not len(there):
        return None
    ratio = lower_median(here) / max(lower_median(there), 1e-3)
    return (host, ratio) if ratio >= LEAST_RATIO else None


def costs_more_cpu(stage: RecordedStage, slowest: int) -> bool:
    """Whether the slowest task kept its core busy, so that its rows cost more than those of others."""
    cpu = stage.array("cpu_ns") / 1e9
    return bool(cpu[slowest] >= 0.5 * durations_s(stage)[slowest])
