"""Why the slowest task of a stage is the slowest: more rows, or something else."""

from __future__ import annotations

import numpy as np

from keysplit.diagnosis.events import Events, RecordedStage
from keysplit.diagnosis.model import Spread
from keysplit.diagnosis.waiting import LEAST_RATIO, durations_s, is_later, lower_median, usual_s

_PLAIN_RATIO = 4.0  # from this multiple of the median's rows on, rows are the cause at any time per row
_EXPLAINED = 0.3  # rows are the cause if this part of the time above the median is due to more rows
_PAUSED = 0.3  # part of a task's time spent on garbage collection, or on waiting for blocks
_LEAST_OF_HOST = 3  # tasks: with fewer, no machine is blamed


def find_spreads(stage: RecordedStage, slowest: int) -> dict[str, Spread]:
    """Return the figures that are uneven in a stage, by the keys of `WHAT`.

    Args:
        stage: the stage.
        slowest: the index of its slowest task.
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
    """Return the cause, as in `Finding.cause`.

    Args:
        events: the log, for the names of executors.
        stage: the stage.
        slowest: the index of its slowest task.
        spreads: what is uneven in the stage.
        matches: for a join, the slowest task's returned rows, and the other tasks' mean; otherwise zeros.
    """
    seconds, later = durations_s(stage), is_later(stage)
    median = spreads["time"].median
    # The first task on a core may also load things: it is compared with the other first ones.
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
    """Return a machine on which a stage's tasks take longer, and the ratio of times; None if there is none.

    Its median task time must be at least `LEAST_RATIO` times the other machines', and every slow task must
    have run on it.
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
    """Whether the slowest task kept its core busy, so that its rows cost more than other tasks' rows."""
    cpu = stage.array("cpu_ns") / 1e9
    return bool(cpu[slowest] >= 0.5 * durations_s(stage)[slowest])
