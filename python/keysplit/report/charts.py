"""Charts as SVG: lines over the stream, and named points, on linear or logarithmic axes.

Each is drawn twice, for a wide and for a narrow page; the style sheet shows the one that fits, so that text
keeps its size.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup, escape

from keysplit.text import format_share

_WIDTHS = {"wide": 520, "narrow": 330}
_HEIGHT = 330
_TOP = 26  # above it is the axis title
_TEXT = 11  # pixels
_LETTER = 6.8  # pixels, about
_DAY_S = 86_400
# Steps on a clock, in seconds, up to half a day.
_CLOCK = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)


@dataclass(frozen=True)
class Axis:
    """Maps values to pixels.

    Attributes:
        low: the value at the start.
        high: the value at the end, above `low`.
        start: the pixel of `low`.
        end: the pixel of `high`.
        logarithmic: whether equal ratios have equal lengths; then values at or below 0 are drawn at `low`.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a value; values beyond the ends are clamped."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        part = (self._scaled(max(value, self.low)) - low) / (high - low)
        return self.start + (self.end - self.start) * min(part, 1.0)

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    def ticks(self, most: int, *, clock: bool = False) -> list[float]:
        """Return round values from `low` to `high`, at most about `most`; those of a clock are seconds."""
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
        name: its name.
        style: the CSS class of its colour.
        x: the position of each value.
        y: the values.
        quiet: whether it is thin, and named only when asked for.
    """

    name: str
    style: str
    x: Sequence[float]
    y: Sequence[float]
    quiet: bool = False


@dataclass(frozen=True)
class Point:
    """A named point; `front` ones are joined by a line."""

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
    """Draw lines over the stream, each with its name at its end.

    Args:
        series: the lines; all have at least one value.
        x_name: title of the horizontal axis.
        y_name: title of the vertical axis.
        logarithmic: whether the vertical axis is logarithmic.
        label: alternative text of the chart.
        y_text: makes the text of a value on the vertical axis.
        left: the position at which the horizontal axis begins.
        clock: whether positions are seconds since 1970, which the axis shows as times of the day, in UTC.
        events: positions that are marked by a vertical line, each with what happened there.

    Returns:
        The chart.
    """
    values = [value for line in series for value in line.y if math.isfinite(value)]
    low, high = _log_range(values) if logarithmic else (0.0, max([*values, 0.0]) * 1.05 or 1.0)
    right = max([left + 4.0, *(value for line in series for value in line.x)])  # ticks are whole numbers

    def draw(width: int) -> Iterable[str]:
        margin = 12 + _LETTER * max(len(line.name) for line in series if not line.quiet or len(series) == 1)
        x = Axis(left, float(right), 58, width - margin)
        y = Axis(low, high, _HEIGHT - 40, _TOP, logarithmic)
        x_text = _time if clock else _count
        yield from _axes(
            x, y, width, x_name=x_name, y_name=y_name, x_text=x_text, y_text=y_text or _count, clock=clock
        )
        for position, name in events:
            at = x.at(position)
            yield f'<path class="event" d="M{at:.1f} {y.start:.1f}V{y.end:.1f}">'
            yield f"<title>{escape(name)}</title></path>"
        ordered = sorted(series, key=lambda line: not line.quiet)  # the coloured ones on top
        for line in ordered:
            path = "L".join(
                f"{x.at(a):.1f} {y.at(b):.1f}"
                for a, b in zip(line.x, line.y, strict=True)
                if math.isfinite(b)
            )
            yield (
                f'<path class="mark line {_classes(line)}" data-name="{escape(line.name)}" d="M{path}">'
                f"<title>{escape(line.name)}</title></path>"
            )
        ends = [(line, y.at(next(v for v in reversed(line.y) if math.isfinite(v)))) for line in ordered]
        named = _apart([(line, at) for line, at in ends if not line.quiet], low=_TOP, high=_HEIGHT - 42)
        quiet = [(line, at) for line, at in ends if line.quiet]
        for line, at in [*named, *quiet]:
            yield (
                f'<text class="name {_classes(line)}" data-name="{escape(line.name)}" x="{x.end + 6:.1f}" '
                f'y="{at + 4:.1f}">{escape(line.name)}</text>'
            )

    return _both(draw, label)


def points(series: Sequence[Point], *, x_name: str, y_name: str, label: str) -> Markup:
    """Draw points with their names, on two logarithmic axes, and a line through those of the front.

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

    def draw(width: int) -> Iterable[str]:
        x = Axis(1.0, right, 58, width - 16, logarithmic=True)
        y = Axis(low, high, _HEIGHT - 40, _TOP, logarithmic=True)
        yield from _axes(
            x, y, width, x_name=x_name, y_name=y_name, x_text=lambda value: f"{value:g}", y_text=format_tick
        )
        front = sorted((point for point in series if point.front), key=lambda point: (point.x, -point.y))
        if len(front) > 1:
            path = "L".join(f"{x.at(point.x):.1f} {y.at(point.y):.1f}" for point in front)
            yield f'<path class="front" d="M{path}"/>'
        taken = [(x.at(point.x) - 5, y.at(point.y) - 5, 10.0, 10.0) for point in series]
        ranked = sorted(series, key=lambda point: (point.name != "key", not point.front))
        for point in reversed(ranked):  # the first on top
            title = f"{escape(point.name)}: {y_name} {format_share(point.y)}, {x_name} {point.x:.2f}"
            yield (
                f'<circle class="mark point {point.style}" data-name="{escape(point.name)}" '
                f'cx="{x.at(point.x):.1f}" cy="{y.at(point.y):.1f}" r="{5 if point.front else 4}">'
                f"<title>{title}</title></circle>"
            )
        for point in ranked:
            place = _free_place(point.name, (x.at(point.x), y.at(point.y)), taken, width)
            if place is not None:
                taken.append(place)
                yield (
                    f'<text class="name {point.style}" data-name="{escape(point.name)}" x="{place[0]:.1f}" '
                    f'y="{place[1] + _TEXT:.1f}">{escape(point.name)}</text>'
                )

    return _both(draw, label)


def _classes(line: Line) -> str:
    return f"{line.style} quiet" if line.quiet else line.style


def _both(draw: Callable[[int], Iterable[str]], label: str) -> Markup:
    return Markup("").join(
        Markup(
            f'<svg class="chart {name}" viewBox="0 0 {width} {_HEIGHT}" role="img" '
            f'aria-label="{escape(label)}">{"".join(draw(width))}</svg>'
        )
        for name, width in _WIDTHS.items()
    )


def _axes(
    x: Axis,
    y: Axis,
    width: int,
    *,
    x_name: str,
    y_name: str,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
    clock: bool = False,
) -> Iterable[str]:
    for value in y.ticks(7):
        at = y.at(value)
        yield f'<path class="grid" d="M{x.start:.1f} {at:.1f}H{x.end:.1f}"/>'
        yield f'<text class="tick end" x="{x.start - 6:.1f}" y="{at + 4:.1f}">{y_text(value)}</text>'
    for value in x.ticks(5 if width > 400 else 3, clock=clock):
        at = x.at(value)
        yield f'<path class="grid" d="M{at:.1f} {y.start:.1f}v4"/>'
        yield f'<text class="tick middle" x="{at:.1f}" y="{y.start + 17:.1f}">{x_text(value)}</text>'
    yield f'<path class="frame" d="M{x.start:.1f} {y.end:.1f}V{y.start:.1f}H{x.end:.1f}"/>'
    yield f'<text class="tick end" x="{x.end:.1f}" y="{_HEIGHT - 6}">{escape(x_name)}</text>'
    yield f'<text class="tick" x="{x.start - 6:.1f}" y="{y.end - 12:.1f}">{escape(y_name)}</text>'


def _log_range(values: Iterable[float]) -> tuple[float, float]:
    """Whole decades around the values; 0 is drawn at the lower end."""
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


def _free_place(
    name: str, at: tuple[float, float], taken: Sequence[tuple[float, float, float, float]], width: int
) -> tuple[float, float, float, float] | None:
    """Find a free place for a name beside its point."""
    length, height = len(name) * _LETTER, _TEXT + 3
    x, y = at
    for left, top in (
        (x + 8, y - 8),
        (x - 8 - length, y - 8),
        (x - length / 2, y - 22),
        (x - length / 2, y + 7),
        (x + 8, y - 20),
        (x + 8, y + 5),
        (x - 8 - length, y - 20),
        (x - 8 - length, y + 5),
    ):
        place = (left, top, length, height)
        inside = left >= 60 and left + length <= width and _TOP - 12 <= top <= _HEIGHT - 40 - height
        if inside and not any(_overlap(place, other) for other in taken):
            return place
    return None


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
    """Return a value with all its digits: two ticks must not have one text."""
    return f"{value:g}".replace("e-0", "e-").replace("e+0", "e")
