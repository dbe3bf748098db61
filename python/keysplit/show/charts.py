"""Charts as SVG: lines over a stream, named points, bars over time, and steps.

Each chart fills the available width: horizontal positions are per cent of the plot, vertical positions are
pixels, so text keeps its size. Parts without room on a phone have the class `more`, hidden there.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup, escape

from keysplit.text import format_share

_HEIGHT = 330  # pixels, as all vertical positions
_TOP, _BOTTOM = 26, _HEIGHT - 40  # of the plot: above it is the title of the axis
_LEFT = 58
_TEXT, _LETTER = 11, 6.8  # the height of text, and about the width of a letter
_WIDE, _NARROW = 446, 256  # about the width of the plot of points, on a laptop and on a phone
_LANE, _GAP, _FOOT = 15, 4, 26
_TIMELINE, _PHONE = 1052, 322  # about the width of a timeline, on a laptop and on a phone
_STEPS_HEIGHT, _STEPS_TOP = 150, 18
_LEAST_BAR = 0.1  # per cent of the width
_DAY_S = 86_400
# Steps on a clock, in seconds, up to half a day.
_CLOCK = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)


@dataclass(frozen=True)
class Axis:
    """Maps values to positions.

    Attributes:
        low: the value at the start.
        high: the value at the end, above `low`.
        start: the position of `low`.
        end: the position of `high`.
        logarithmic: whether equal ratios have equal lengths; if so, values at or below 0 are drawn at `low`.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value; values beyond the ends are clamped."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        part = (self._scaled(max(value, self.low)) - low) / (high - low)
        return self.start + (self.end - self.start) * min(part, 1.0)

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    def ticks(self, most: int, *, clock: bool = False) -> list[float]:
        """Return round values from `low` to `high`, at most about `most`; for a clock they are seconds."""
        if not self.logarithmic:
            step = (_clock_step if clock else _round_step)((self.high - self.low) / most)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [number * step for number in range(first, last + 1)]
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        if last - first >= 2:
            every = math.ceil((last - first + 1) / most)
            return [10.0**power for power in range(first, last + 1, every)]
        powers = range(first - 1, last + 1)
        values = [digit * 10.0**power for power in powers for digit in (1, 1.2, 1.5, 2, 3, 5, 7)]
        inside = [value for value in values if self.low * 0.999 <= value <= self.high * 1.001]
        return inside[:: max(1, math.ceil(len(inside) / most))]


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least * 0.999)


def _clock_step(least: float) -> float:
    return next((step for step in _CLOCK if step >= least), _round_step(least / _DAY_S) * _DAY_S)


@dataclass(frozen=True)
class Line:
    """A named line.

    Attributes:
        name: the name of the line.
        style: the CSS class of the line's colour.
        x: the position of each value.
        y: the values.
        quiet: whether the line is thin, and named only on hover.
    """

    name: str
    style: str
    x: Sequence[float]
    y: Sequence[float]
    quiet: bool = False


@dataclass(frozen=True)
class Point:
    """A named point; a line joins the points of the `front`."""

    name: str
    style: str
    x: float
    y: float
    front: bool


def lines(
    series: Sequence[Line],
    *,
    x_name: str,
    y_name: str,
    logarithmic: bool,
    label: str,
    y_text: Callable[[float], str] | None = None,
    left: float = 0.0,
    clock: bool = False,
    events: Sequence[tuple[float, str]] = (),
) -> Markup:
    """Draw lines over the stream, each with its name at the end.

    Args:
        series: the lines; all have at least one value.
        x_name: title of the horizontal axis.
        y_name: title of the vertical axis.
        logarithmic: whether the vertical axis is logarithmic.
        label: alternative text of the chart.
        y_text: formats a value of the vertical axis.
        left: the position at which the horizontal axis begins.
        clock: whether positions are seconds since 1970, which the axis shows as times of the day, in UTC.
        events: positions to mark with a vertical line, each with the name of the event.

    Returns:
        The chart.
    """
    values = [value for line in series for value in line.y if math.isfinite(value)]
    low, high = _log_range(values) if logarithmic else (0.0, max([*values, 0.0]) * 1.05 or 1.0)
    end = max([left + 4.0, *(value for line in series for value in line.x)])  # ticks are whole numbers
    right = 12 + _LETTER * max(len(line.name) for line in series if not line.quiet or len(series) == 1)
    x, y = Axis(left, float(end), 0.0, 100.0), Axis(low, high, _BOTTOM, _TOP, logarithmic)
    marks = list(
        _axes(
            x, y, x_name=x_name, y_name=y_name, x_text=_time if clock else _count, y_text=y_text or _count,
            clock=clock,
        )
    )  # fmt: skip
    marks += [
        f'<line class="event" x1="{x.at(at):.2f}%" x2="{x.at(at):.2f}%" y1="{y.start}" y2="{y.end}">'
        f"<title>{escape(name)}</title></line>"
        for at, name in events
    ]
    ordered = sorted(series, key=lambda line: not line.quiet)  # coloured ones on top
    paths = []
    for line in ordered:
        pairs = zip(line.x, line.y, strict=True)
        path = "L".join(f"{x.at(a):.2f} {y.at(b):.1f}" for a, b in pairs if math.isfinite(b))
        paths.append(
            f'<path class="mark line {_classes(line)}" data-name="{escape(line.name)}" d="M{path}">'
            f"<title>{escape(line.name)}</title></path>"
        )
    marks.append(_stretched(paths, _HEIGHT))
    ends = [(line, y.at(next(v for v in reversed(line.y) if math.isfinite(v)))) for line in ordered]
    named = _apart([(line, at) for line, at in ends if not line.quiet], low=_TOP, high=_BOTTOM - 2)
    marks += [
        f'<text class="name {_classes(line)}" data-name="{escape(line.name)}" x="100%" dx="6" '
        f'y="{at + 4:.1f}">{escape(line.name)}</text>'
        for line, at in [*named, *((line, at) for line, at in ends if line.quiet)]
    ]
    return _chart(marks, label, height=_HEIGHT, left=_LEFT, right=right)


def points(series: Sequence[Point], *, x_name: str, y_name: str, label: str) -> Markup:
    """Draw points with their names, on two logarithmic axes, and a line through the points of the front.

    Args:
        series: the points; x is at least 1.
        x_name: title of the horizontal axis.
        y_name: title of the vertical axis.
        label: alternative text of the chart.

    Returns:
        The chart.
    """
    low, high = _log_range([point.y for point in series])
    right = max(max(point.x for point in series) * 1.1, 1.2)
    x, y = Axis(1.0, right, 0.0, 100.0, logarithmic=True), Axis(low, high, _BOTTOM, _TOP, logarithmic=True)
    marks = list(_axes(x, y, x_name=x_name, y_name=y_name, x_text="{:g}".format, y_text=format_tick))
    front = sorted((point for point in series if point.front), key=lambda point: (point.x, -point.y))
    if len(front) > 1:
        path = "L".join(f"{x.at(point.x):.2f} {y.at(point.y):.1f}" for point in front)
        marks.append(_stretched([f'<path class="front" d="M{path}"/>'], _HEIGHT))
    ranked = sorted(series, key=lambda point: (point.name != "key", not point.front))
    marks += [
        f'<circle class="mark point {point.style}" data-name="{escape(point.name)}" '
        f'cx="{x.at(point.x):.2f}%" cy="{y.at(point.y):.1f}" r="{5 if point.front else 4}">'
        f"<title>{escape(point.name)}: {y_name} {format_share(point.y)}, {x_name} {point.x:.2f}</title>"
        "</circle>"
        for point in reversed(ranked)  # the first on top
    ]
    places = _places([(point.name, x.at(point.x), y.at(point.y)) for point in ranked])
    for point, place in zip(ranked, places, strict=True):
        if place is not None:
            right_by, top, on_phones = place
            marks.append(
                f'<text class="name {point.style}{"" if on_phones else " more"}" '
                f'data-name="{escape(point.name)}" x="{x.at(point.x):.2f}%" dx="{right_by:.1f}" '
                f'y="{top + _TEXT:.1f}">{escape(point.name)}</text>'
            )
    return _chart(marks, label, height=_HEIGHT, left=_LEFT, right=16)


@dataclass(frozen=True)
class Span:
    """A bar of a timeline.

    Attributes:
        start: where the bar starts.
        end: where the bar ends.
        title: what the bar stands for.
        style: the CSS class of the bar.
        number: the label of the bar, shown if there is room.
        waits: where the shading starts; None for no shading.
    """

    start: float
    end: float
    title: str
    style: str
    number: str = ""
    waits: float | None = None


def timeline(spans: Sequence[Span], end_s: float, *, label: str) -> Markup:
    """Draw bars over time, each in the first lane that is free.

    Args:
        spans: the bars, in the order in which they start, in seconds.
        end_s: where the axis ends, in seconds.
        label: alternative text of the chart.

    Returns:
        The chart.
    """
    x = Axis(0.0, max(end_s, 1e-3), 0.0, 100.0)
    ends: list[float] = []
    bars = []
    for span in spans:
        lane = next((at for at, end in enumerate(ends) if end <= span.start), len(ends))
        ends[lane : lane + 1] = [span.end]
        start, end, top = x.at(span.start), x.at(span.end), lane * (_LANE + _GAP)
        bars.append(_bar(span.style, start, max(end - start, _LEAST_BAR), top, _LANE, span.title))
        if span.waits is not None:
            waits = x.at(span.waits)
            bars.append(_bar("waits", waits, end - waits, top, _LANE, f"{span.title}: cores wait"))
        needed = 8 * len(span.number) + 4
        if span.number and (end - start) / 100 * _TIMELINE >= needed:
            more = "" if (end - start) / 100 * _PHONE >= needed else " more"
            bars.append(
                f'<text class="number{more}" x="{start:.2f}%" dx="4" y="{top + 11.5}">{span.number}</text>'
            )
    bottom = max(len(ends), 1) * (_LANE + _GAP)
    return _chart([*_time_axis(x, bottom), *bars], label, height=bottom + _FOOT, left=4, right=4)


def steps(
    times: Sequence[float], values: Sequence[float], *, full: int, end_s: float, waits: float, label: str
) -> Markup:
    """Draw busy cores over time as steps, shaded where cores wait.

    Args:
        times: when the number changes, in seconds, ascending.
        values: the number of busy cores from each of these times on.
        full: the top of the axis.
        end_s: where the axis ends, in seconds.
        waits: where the shading starts, in seconds.
        label: alternative text of the chart.

    Returns:
        The chart.
    """
    top, bottom = _STEPS_TOP, _STEPS_HEIGHT
    x, y = Axis(0.0, max(end_s, 1e-3), 0.0, 100.0), Axis(0.0, float(full), bottom, top)
    path = "".join(f"H{x.at(at):.2f}V{y.at(value):.1f}" for at, value in zip(times, values, strict=True))
    marks = [
        *_time_axis(x, bottom),
        _bar("waits", x.at(waits), 100 - x.at(waits), top, bottom - top, "cores wait", rounded=0),
        _stretched([f'<path class="busy" d="M0 {bottom}{path}H100V{bottom}Z"/>'], bottom),
        *_frame(top, bottom),
        f'<text class="tick end" x="-5" y="{top + 4}">{full:,}</text>',
        f'<text class="tick end" x="-5" y="{bottom + 1}">0</text>',
        f'<text class="tick" y="{top - 7}">busy cores; shaded: cores that wait</text>',
    ]
    return _chart(marks, label, height=bottom + _FOOT, left=30, right=4)


def _bar(
    style: str, left: float, width: float, top: float, height: float, title: str, *, rounded: int = 2
) -> str:
    return (
        f'<rect class="{style}" x="{left:.2f}%" y="{top}" width="{max(width, 0.0):.2f}%" height="{height}" '
        f'rx="{rounded}"><title>{escape(title)}</title></rect>'
    )


def _classes(line: Line) -> str:
    return f"{line.style} quiet" if line.quiet else line.style


def _chart(marks: Iterable[str], label: str, *, height: float, left: float, right: float) -> Markup:
    """Put marks between margins, in pixels."""
    margins = f"padding:0 {right:.0f}px 0 {left:.0f}px"
    return Markup(
        f'<div class="chart" role="img" aria-label="{escape(label)}" style="{margins}">'
        f'<svg height="{height:g}">{"".join(marks)}</svg></div>'
    )


def _stretched(paths: Sequence[str], height: float) -> str:
    """Draw paths with horizontal positions in per cent, which SVG paths do not support."""
    return (
        f'<svg viewBox="0 0 100 {height:g}" height="{height:g}" preserveAspectRatio="none">'
        f"{''.join(paths)}</svg>"
    )


def _axes(
    x: Axis,
    y: Axis,
    *,
    x_name: str,
    y_name: str,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
    clock: bool = False,
) -> Iterable[str]:
    for value in y.ticks(7):
        at = y.at(value)
        yield f'<line class="grid" x2="100%" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text class="tick end" x="-6" y="{at + 4:.1f}">{y_text(value)}</text>'
    for number, value in enumerate(x.ticks(5, clock=clock)):
        yield _tick(x.at(value), _BOTTOM, _BOTTOM + 4, x_text(value), more=number % 2 == 1)
    yield from _frame(_TOP, _BOTTOM)
    yield f'<text class="tick end" x="100%" y="{_HEIGHT - 6}">{escape(x_name)}</text>'
    yield f'<text class="tick" x="-6" y="{_TOP - 12}">{escape(y_name)}</text>'


def _tick(at: float, top: float, bottom: float, text: str, *, more: bool, anchor: str = " middle") -> str:
    hidden = " more" if more else ""
    return (
        f'<line class="grid{hidden}" x1="{at:.2f}%" x2="{at:.2f}%" y1="{top}" y2="{bottom}"/>'
        f'<text class="tick{anchor}{hidden}" x="{at:.2f}%" y="{bottom + 13}">{text}</text>'
    )


def _frame(top: float, bottom: float) -> Iterable[str]:
    yield f'<line class="frame" y1="{top}" y2="{bottom}"/>'
    yield f'<line class="frame" x2="100%" y1="{bottom}" y2="{bottom}"/>'


def _time_axis(x: Axis, bottom: float) -> Iterable[str]:
    for number, value in enumerate(x.ticks(8)):
        at = x.at(value)
        anchor = "" if at < 1 else (" end" if at > 97 else " middle")
        yield _tick(at, 0, bottom + 4, _duration(value), more=number % 2 == 1, anchor=anchor)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _log_range(values: Iterable[float]) -> tuple[float, float]:
    """Return whole decades around the values; 0 is drawn at the lower end."""
    positive = [value for value in values if math.isfinite(value) and value > 0] or [1e-3, 1.0]
    low = 10.0 ** math.floor(math.log10(min(positive)) - 1e-9)
    high = 10.0 ** math.ceil(math.log10(max(positive)) + 1e-9)
    return low, max(high, low * 10)


def _apart(ends: Iterable[tuple[Line, float]], low: float, high: float) -> list[tuple[Line, float]]:
    """Move overlapping names apart."""
    ordered = sorted(ends, key=lambda end: end[1])
    gap = _TEXT + 2
    heights: list[float] = []
    for _, at in ordered:
        heights.append(max(at, heights[-1] + gap if heights else low))
    for place in range(len(heights) - 1, -1, -1):
        heights[place] = min(heights[place], heights[place + 1] - gap if place + 1 < len(heights) else high)
    return [(line, at) for (line, _), at in zip(ordered, heights, strict=True)]


def _places(points: Sequence[tuple[str, float, float]]) -> Iterable[tuple[float, float, bool] | None]:
    """Find a free place for each name next to its point, in order.

    Args:
        points: the name of each point, its position in per cent of the width, and its height.

    Returns:
        How far right of its point a name is, its top, and whether a phone has it too; None if no place is
        free.
    """
    height = _TEXT + 3.0
    taken = {
        width: [(x / 100 * width - 5, y - 5, 10.0, 10.0) for _, x, y in points] for width in (_WIDE, _NARROW)
    }

    def free(width: int, box: tuple[float, float, float, float]) -> bool:
        inside = 2 <= box[0] <= width + 16 - box[2] and _TOP - 12 <= box[1] <= _BOTTOM - height
        return inside and not any(_overlap(box, other) for other in taken[width])

    for name, x, y in points:
        length = len(name) * _LETTER
        left, middle = -8 - length, -length / 2
        offsets = (
            *((8, -8), (left, -8), (middle, -22), (middle, 7)),
            *((8, -20), (8, 5), (left, -20), (left, 5)),
        )
        best: dict[int, tuple[float, float, float, float]] = {}
        for right_by, down in offsets:
            boxes = {width: (x / 100 * width + right_by, y + down, length, height) for width in taken}
            found = {width: box for width, box in boxes.items() if free(width, box)}
            if _WIDE in found and len(found) > len(best):  # the first free one on both, or on a laptop
                best, place = found, (right_by, y + down, _NARROW in found)
        for width, box in best.items():
            taken[width].append(box)
        yield place if best else None


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return (
        one[0] < other[0] + other[2]
        and other[0] < one[0] + one[2]
        and one[1] < other[1] + other[3]
        and other[1] < one[1] + one[3]
    )


def _count(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g} {unit}"
    return _short(value)


def _time(value: float) -> str:
    time = datetime.fromtimestamp(value, UTC)
    if value % _DAY_S == 0:
        return f"{time:%m-%d}"
    return f"{time:%H:%M}" if value % 60 == 0 else f"{time:%H:%M:%S}"


def format_tick(share: float) -> str:
    """Return a round share as text, in per cent."""
    return f"{_short(100 * share)} %"


def _short(value: float) -> str:
    """Return a value with all its digits, because two ticks must not have the same text."""
    return f"{value:g}".replace("e-0", "e-").replace("e+0", "e")
