"""The pictures of a diagnosis as SVG: the stages over time, and the busy cores of a stage.

Each is drawn twice, for a wide and for a narrow page, as in `keysplit.report.charts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from markupsafe import Markup, escape

from keysplit.diagnosis.model import Finding, Stage
from keysplit.diagnosis.text import format_time
from keysplit.report.charts import Axis

MOST_STAGES = 300
"""Stages that the timeline shows: all findings, and of the others those that took longest."""
_WIDTHS = {"wide": 1060, "narrow": 330}
_LANE, _GAP, _FOOT = 15, 4, 26
_MOST_POINTS = 500
_BUSY_HEIGHT = 150


def draw_timeline(stages: Sequence[Stage], findings: Sequence[Finding], duration_s: float) -> Markup:
    """Draw the stages as bars over time; that of a finding is numbered, and where it waits it is shaded.

    Args:
        stages: all stages, in the order in which they started.
        findings: the findings, in the order of their numbers.
        duration_s: the length of the time axis, in seconds.

    Returns:
        The picture.
    """
    numbers = {(of.stage.id, of.stage.attempt): at for at, of in enumerate(findings, 1)}
    found = {(of.stage.id, of.stage.attempt): of for of in findings}
    longest = sorted(stages, key=lambda stage: ((stage.id, stage.attempt) not in found, -stage.span_s))
    shown = sorted(longest[:MOST_STAGES], key=lambda stage: (stage.start_s, stage.id))
    ends: list[float] = []
    lanes = []
    for stage in shown:
        lane = next((at for at, end in enumerate(ends) if end <= stage.start_s), len(ends))
        ends[lane : lane + 1] = [stage.end_s]
        lanes.append(lane)
    bottom = max(len(ends), 1) * (_LANE + _GAP)

    def draw(width: int) -> Iterable[str]:
        x = Axis(0.0, max(duration_s, 1e-3), 4.0, width - 4.0)
        yield from _time_axis(x, bottom, width)
        for stage, lane in zip(shown, lanes, strict=True):
            start, end = x.at(stage.start_s), x.at(stage.end_s)
            top = lane * (_LANE + _GAP)
            key = stage.id, stage.attempt
            title = f"stage {stage.id}: {format_time(stage.span_s)}, {stage.tasks:,} tasks"
            kind = "found" if key in found else "other"
            yield (
                f'<rect class="stage {kind}" x="{start:.1f}" y="{top}" width="{max(end - start, 1.0):.1f}" '
                f'height="{_LANE}" rx="2"><title>{escape(title)}</title></rect>'
            )
            if key in found:
                waits = x.at(float(found[key].tasks.start_s.max()))
                yield (
                    f'<rect class="waits" x="{waits:.1f}" y="{top}" width="{max(end - waits, 0.0):.1f}" '
                    f'height="{_LANE}" rx="2"><title>{escape(title)}: cores wait</title></rect>'
                )
                label = str(numbers[key])
                if end - start >= 8 * len(label) + 4:
                    yield f'<text class="number" x="{start + 4:.1f}" y="{top + 11.5}">{label}</text>'

    label = (
        f"{len(shown)} stages over {format_time(duration_s)}; {len(findings)} of them wait for a slow task"
    )
    return _both(draw, bottom + _FOOT, label)


def draw_busy(finding: Finding) -> Markup:
    """Draw how many cores a stage kept busy over time, and how many waited from the last launch on."""
    tasks, slots = finding.tasks, finding.stage.slots
    times = np.concatenate([tasks.start_s, tasks.end_s])
    steps = np.concatenate([np.ones(len(tasks.start_s)), -np.ones(len(tasks.end_s))])
    order = np.lexsort((steps, times))
    times, running = times[order], np.cumsum(steps[order])
    if len(times) > _MOST_POINTS:
        at = np.unique(np.linspace(0, len(times) - 1, _MOST_POINTS).astype(int))
        times, running = times[at], running[at]
    start, end, last = finding.stage.start_s, finding.stage.end_s, float(tasks.start_s.max())
    top = 18

    def draw(width: int) -> Iterable[str]:
        x = Axis(0.0, max(end - start, 1e-3), 30.0, width - 4.0)
        y = Axis(0.0, float(slots), _BUSY_HEIGHT, top)
        yield from _time_axis(x, _BUSY_HEIGHT, width)
        waits = x.at(last - start)
        yield (
            f'<rect class="waits" x="{waits:.1f}" y="{top}" width="{x.end - waits:.1f}" '
            f'height="{_BUSY_HEIGHT - top}"><title>cores wait</title></rect>'
        )
        path = f"M{x.start:.1f} {y.start:.1f}"
        for time, count in zip(times.tolist(), running.tolist(), strict=True):
            path += f"H{x.at(time - start):.1f}V{y.at(count):.1f}"
        yield f'<path class="busy" d="{path}H{x.end:.1f}V{y.start:.1f}Z"/>'
        yield f'<path class="frame" d="M{x.start:.1f} {top}V{y.start:.1f}H{x.end:.1f}"/>'
        yield f'<text class="tick end" x="{x.start - 5:.1f}" y="{top + 4}">{slots:,}</text>'
        yield f'<text class="tick end" x="{x.start - 5:.1f}" y="{_BUSY_HEIGHT + 1}">0</text>'
        yield f'<text class="tick" x="{x.start:.1f}" y="{top - 7}">busy cores; shaded: cores that wait</text>'

    label = f"Busy cores of stage {finding.stage.id} over {format_time(end - start)}"
    return _both(draw, _BUSY_HEIGHT + _FOOT, label)


def _time_axis(x: Axis, bottom: float, width: int) -> Iterable[str]:
    for value in x.ticks(8 if width > 400 else 4):
        at = x.at(value)
        anchor = "tick" if at < x.start + 10 else ("tick end" if at > width - 20 else "tick middle")
        yield f'<path class="grid" d="M{at:.1f} 0V{bottom + 4:.1f}"/>'
        yield f'<text class="{anchor}" x="{at:.1f}" y="{bottom + 17:.1f}">{_clock(value)}</text>'


def _clock(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _both(draw: Callable[[int], Iterable[str]], height: float, label: str) -> Markup:
    return Markup("").join(
        Markup(
            f'<svg class="chart {name}" viewBox="0 0 {width} {height:g}" role="img" '
            f'aria-label="{escape(label)}">{"".join(draw(width))}</svg>'
        )
        for name, width in _WIDTHS.items()
    )
