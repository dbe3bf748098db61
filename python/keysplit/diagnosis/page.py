"""The sentences, figures and charts of a diagnosis's report, for the templates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from keysplit.diagnosis.model import WHAT, Finding, Stage
from keysplit.diagnosis.text import format_bytes, format_core_time, format_time
from keysplit.show import charts
from keysplit.show.bars import make_bars
from keysplit.text import format_ratio

MOST_FINDINGS = 50
"""Findings that the page shows in full."""
MOST_STAGES = 300
"""The number of stages in the timeline: all findings, then the other stages that took longest."""
_MOST_POINTS = 500  # of a chart of busy cores


def describe(number: int, of: Finding, *, pictures: bool) -> dict[str, Any]:
    """Return a finding for the templates, with or without charts."""
    time, saved = of.spreads["time"], of.saved_s
    low, high = (f"{each / of.query_s:.0%}" for each in saved)
    return {
        "number": number,
        "what": of.what,
        "stage": of.stage.id,
        "query": of.query,
        "times": of.times,
        "verdict": sentences(of.verdict),
        "line": of.line,
        "details": of.details,
        "slowest": format_time(time.slowest),
        "median": format_time(time.median),
        "ratio": format_ratio(of.ratio),
        "share": f"{of.share:.0%}" if of.share else "",
        "waiting": format_core_time(of.waiting_core_s),
        "saved": high if low == high else f"{low} to {high}",
        "saves": high,
        "spreads": [_spread(name, of) for name in of.spreads],
        "busy": _busy(of) if pictures else None,
        "bars": [_bars(of, name) for name in ("time", "records", "bytes")] if pictures else [],
    }


def sentences(verdict: str) -> list[str]:
    """Return the lines of a verdict as sentences; if there is only one line, that line's sentences."""
    lines = verdict.splitlines() if "\n" in verdict else verdict.split(". ")
    return [f"{line[0].upper()}{line[1:]}." for line in lines]


def _format_of(name: str) -> Callable[[float], str]:
    if name == "time":
        return format_time
    return (lambda value: f"{value:,.0f}") if name == "records" else format_bytes


def _spread(name: str, finding: Finding) -> dict[str, str]:
    of, show = finding.spreads[name], _format_of(name)
    ratio = finding.ratio if name == "time" else of.ratio
    return {
        "name": WHAT[name],
        "slowest": show(of.slowest),
        "median": show(of.median),
        "ratio": format_ratio(ratio) if of.median else "",
        "largest": show(of.largest),
        "total": show(of.total),
    }


def _bars(finding: Finding, name: str) -> dict[str, Any] | None:
    """Return bars for the macro `bars`: one bar per task, or per several tasks with their maximum."""
    tasks, show = finding.tasks, _format_of(name)
    values = {"time": tasks.end_s - tasks.start_s, "records": tasks.records, "bytes": tasks.bytes}[name]
    most = float(values.max(initial=0))
    if not most or most != finding.spreads[name].largest:  # rows read from a cache are unknown
        return None
    median = float(np.sort(values)[(len(values) - 1) // 2])
    return {
        "name": {"time": "Time", "records": "Rows read", "bytes": "Bytes read"}[name],
        "bars": make_bars(values, most, show, what="task", first=1, most="the most"),
        "mean_height": 100 * median / most,
        "median": show(median),
        "most": show(most),
        "count": len(values),
    }


def draw_timeline(stages: Sequence[Stage], findings: Sequence[Finding], duration_s: float) -> Markup:
    """Draw the stages as bars over time; findings are numbered, and shaded while they wait."""
    found = {(of.stage.id, of.stage.attempt): (number, of) for number, of in enumerate(findings, 1)}
    longest = sorted(stages, key=lambda stage: ((stage.id, stage.attempt) not in found, -stage.span_s))
    spans = []
    for stage in sorted(longest[:MOST_STAGES], key=lambda stage: (stage.start_s, stage.id)):
        title = f"stage {stage.id}: {format_time(stage.span_s)}, {stage.tasks:,} tasks"
        span = charts.Span(stage.start_s, stage.end_s, title, "stage other")
        if (stage.id, stage.attempt) in found:
            number, of = found[stage.id, stage.attempt]
            waits = float(of.tasks.start_s.max())
            span = charts.Span(span.start, span.end, title, "stage found", str(number), waits)
        spans.append(span)
    label = (
        f"{len(spans)} stages over {format_time(duration_s)}; {len(findings)} of them wait for a slow task"
    )
    return charts.timeline(spans, duration_s, label=label)


def _busy(finding: Finding) -> Markup:
    """Draw a stage's busy cores over time, and the waiting cores after the last launch."""
    tasks, start = finding.tasks, finding.stage.start_s
    times = np.concatenate([tasks.start_s, tasks.end_s])
    changes = np.concatenate([np.ones(len(tasks.start_s)), -np.ones(len(tasks.end_s))])
    order = np.lexsort((changes, times))
    times, running = times[order], np.cumsum(changes[order])
    if len(times) > _MOST_POINTS:
        at = np.unique(np.linspace(0, len(times) - 1, _MOST_POINTS).astype(int))
        times, running = times[at], running[at]
    span_s = finding.stage.end_s - start
    return charts.steps(
        (times - start).tolist(),
        running.tolist(),
        full=finding.stage.slots,
        end_s=span_s,
        waits=float(tasks.start_s.max()) - start,
        label=f"Busy cores of stage {finding.stage.id} over {format_time(span_s)}",
    )
