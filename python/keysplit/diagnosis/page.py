"""The report of a diagnosis: one self-contained HTML page, and a small piece of it for notebooks."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keysplit import __version__
from keysplit.diagnosis.drawing import MOST_STAGES, draw_busy, draw_timeline
from keysplit.diagnosis.model import WHAT, Finding, Stage
from keysplit.diagnosis.text import format_bytes, format_core_time, format_time
from keysplit.report.page import render
from keysplit.text import format_ratio

MOST_FINDINGS = 50
"""Findings that the page shows in full."""
_MOST_BARS = 100
_PACKAGE = "keysplit.diagnosis"


def draw_page(title: str, applications: Sequence[dict[str, Any]]) -> str:
    """Return the page.

    Args:
        title: its title.
        applications: what `describe` returns, for each.
    """
    return render(
        _PACKAGE,
        "page.html.j2",
        title=title,
        applications=applications,
        version=__version__,
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def draw_piece(applications: Sequence[dict[str, Any]]) -> str:
    """Return the piece of the page that notebooks show."""
    return render(_PACKAGE, "piece.html.j2", applications=applications)


def describe(
    *,
    title: str,
    subtitle: str,
    verdict: str,
    duration_s: float,
    stages: Sequence[Stage],
    findings: Sequence[Finding],
    notes: Sequence[str],
    pictures: bool,
) -> dict[str, Any]:
    """Return what the templates show of an application.

    Args:
        title: its name.
        subtitle: its figures in a line.
        verdict: what to do first.
        duration_s: how long it took.
        stages: its stages.
        findings: its findings.
        notes: what could not be read.
        pictures: whether to draw.
    """
    shown = findings[:MOST_FINDINGS]
    return {
        "title": title,
        "subtitle": subtitle,
        "verdict": _lines(verdict),
        "line": findings[0].line if findings else None,
        "waiting": format_core_time(sum(of.waiting_core_s for of in findings)),
        "duration": format_time(duration_s),
        "found": len(findings),
        "stages": len(stages),
        "hidden": max(len(stages) - MOST_STAGES, 0),
        "timeline": draw_timeline(stages, shown, duration_s) if pictures and stages else None,
        "findings": [_finding(number, of, pictures) for number, of in enumerate(shown, 1)],
        "more": len(findings) - len(shown),
        "notes": list(notes),
    }


def _finding(number: int, of: Finding, pictures: bool) -> dict[str, Any]:
    time, saved = of.spreads["time"], of.saved_s
    low, high = (f"{each / of.query_s:.0%}" for each in saved)
    return {
        "number": number,
        "what": of.what,
        "stage": of.stage.id,
        "query": of.query,
        "times": of.times,
        "verdict": _lines(of.verdict),
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
        "busy": draw_busy(of) if pictures else None,
        "bars": [_bars(of, name) for name in ("time", "records", "bytes")] if pictures else [],
    }


def _lines(verdict: str) -> list[str]:
    """Return the lines of a verdict as sentences; the sentences of one that is a single line."""
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
    """Return bars for the macro of this name: a bar per task, or per several, of which it shows the most."""
    tasks, show = finding.tasks, _format_of(name)
    values = {"time": tasks.end_s - tasks.start_s, "records": tasks.records, "bytes": tasks.bytes}[name]
    most = float(values.max(initial=0))
    if not most or most != finding.spreads[name].largest:  # of a cache the rows are not known for each task
        return None
    parts = np.array_split(np.arange(len(values)), min(_MOST_BARS, len(values)))
    median = float(np.sort(values)[(len(values) - 1) // 2])
    return {
        "name": {"time": "Time", "records": "Rows read", "bytes": "Bytes read"}[name],
        "bars": [
            {
                "title": (
                    f"task {part[0] + 1}"
                    if len(part) == 1
                    else f"tasks {part[0] + 1} to {part[-1] + 1}, the most"
                )
                + f": {show(float(values[part].max()))}",
                "height": 100 * float(values[part].max()) / most,
                "mean_height": 100 * float(values[part].mean()) / most if len(part) > 1 else None,
            }
            for part in parts
        ],
        "mean_height": 100 * median / most,
        "median": show(median),
        "most": show(most),
        "count": len(values),
    }
