"""One bar per worker, for the macro `bars`: heights and positions are per cent of the picture."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keysplit.show.charts import Axis

MOST_BARS = 100
NAMED_BARS, NAME_LETTERS, NAME_HEIGHT = 3, 22, 9  # bars, letters, per cent of the picture
_PIXELS, _LETTER = 360, 7  # width of the picture on a phone, and of a letter


def make_bars(
    values: np.ndarray,
    full: float,
    show: Callable[[float], str],
    *,
    workers_each: int = 1,
    what: str = "worker",
    first: int = 0,
    most: str = "the busiest",
) -> list[dict[str, Any]]:
    """Return one bar per worker; if there are too many, one per group, with the group's largest and mean.

    Args:
        values: the value of each worker.
        full: the value of a full bar.
        show: formats a value.
        workers_each: the number of neighbouring workers per value.
        what: the name of the thing that has a bar.
        first: the number of the first bar.
        most: the meaning of a bar's value if the bar stands for several.
    """
    bars = []
    for part in np.array_split(np.arange(len(values)), min(MOST_BARS, len(values))):
        start, end = part[0] * workers_each + first, (part[-1] + 1) * workers_each - 1 + first
        name = f"{what} {start}" if start == end else f"{what}s {start} to {end}, {most}"
        highest, mean = float(values[part].max()), float(values[part].mean())
        bars.append(
            {
                "title": f"{name}: {show(highest)}",
                "height": 100 * highest / full,
                "mean_height": 100 * mean / full if len(part) > 1 else None,
            }
        )
    return bars


def make_scaled_bars(loads: np.ndarray, largest: float) -> dict[str, Any]:
    """Return bars of loads with an axis, for the macro `bars`; `largest` is the load of a full bar."""
    bars = make_bars(loads, largest, "{:,.0f}".format)
    return {
        "bars": bars,
        "ticks": make_ticks(largest, "{:,.0f}".format),
        "mean": float(loads.mean()),
        "most": float(loads.max()),
        "mean_height": 100 * float(loads.mean()) / largest,
        "last": len(loads) - 1,
        "workers_a_bar": len(loads) / len(bars),
    }


def make_ticks(largest: float, show: Callable[[float], str]) -> list[dict[str, Any]]:
    """Return the ticks of the axis of bars: text, and height in per cent of a full bar."""
    axis = Axis(0.0, largest, 0.0, 100.0)
    return [{"text": show(at), "at": axis.at(at)} for at in axis.ticks(4) if at <= largest]


def name_bars(bars: list[dict[str, Any]], names: Mapping[int, str]) -> None:
    """Label the tallest bars with the key that causes the load, where there is room."""
    room: list[tuple[float, float, float]] = []
    order = sorted(names, key=lambda at: -bars[at]["height"])
    for at in order[:NAMED_BARS]:
        name = names[at] if len(names[at]) <= NAME_LETTERS else names[at][: NAME_LETTERS - 1] + "…"
        width = 100 * _LETTER * (len(name) + 1) / _PIXELS
        start, height = 100 * (at + 1) / len(bars), bars[at]["height"]
        on_left = start + width > 100
        left = 100 * at / len(bars) - width if on_left else start
        beside = bars[max(0, int(left * len(bars) / 100)) : int((left + width) * len(bars) / 100) + 1]
        high = [bar for bar in beside if bar is not bars[at] and bar["height"] > height - NAME_HEIGHT]
        near = [
            each
            for each in room
            if abs(each[2] - height) < NAME_HEIGHT and each[0] < left + width and left < each[1]
        ]
        if left >= 0 and not high and not near:
            room.append((left, left + width, height))
            bars[at] |= {"name": name, "name_left": left, "on_left": on_left, "name_width": width}
