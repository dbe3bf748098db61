"""The report of a view: one page, with a part for each number of workers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keysplit.show import charts
from keysplit.show.bars import make_bars, make_scaled_bars, name_bars
from keysplit.show.page import render
from keysplit.show.palette import style_of
from keysplit.show.treemap import make_tiles
from keysplit.show.view import Entry, Panel, Timing, View
from keysplit.text import format_imbalance, format_ratio, format_share

MOST_NAMES = 7
"""The lines of a chart that are always named."""


def write(view: View, path: Path, *, title: str = "") -> None:
    """Write the report of a view.

    Args:
        view: the view of a result.
        path: the HTML file, overwritten if it exists.
        title: a description of the rows; the title of the view if omitted.

    Raises:
        OSError: the file cannot be written.
    """
    if view.panels:
        text = render(
            __package__,
            "panels.html.j2",
            title=title or view.title,
            view=view,
            numbers=[draw_panel(each) for each in view.panels],
            timing=None if view.timing is None else draw_timing(view.timing),
        )
    else:
        largest = max((float(loads.max()) for loads in view.loads.values()), default=0.0) or 1.0
        panels = [
            {"name": name, "style": style_of(name), **make_scaled_bars(loads, largest)}
            for name, loads in view.loads.items()
        ]
        text = render(__package__, "view.html.j2", title=title or view.title, view=view, panels=panels)
    path.write_text(text, encoding="utf-8")


def draw_panel(panel: Panel) -> dict[str, Any]:
    """Return the page's panel for one number of workers."""
    entries, best = panel.entries, panel.best
    hashed = next((entry for entry in entries if entry.name == "key"), None)
    enlarged = [hashed, best] if hashed is not None and best is not hashed else [best]
    largest = max(float(entry.loads.max()) for entry in [*entries, best])
    headline, *rest = [f"{line[0].upper()}{line[1:]}" for line in panel.verdict.splitlines()] or [""]
    small = sorted(
        (entry for entry in entries if not any(entry is each for each in enlarged)),
        key=lambda entry: entry.name != "key",
    )
    table = entries if any(entry is best for entry in entries) else [best, *entries]
    quiet = {entry.name for entry in entries if len(entries) > MOST_NAMES} - {"key", best.name}
    return {
        "workers": panel.workers,
        "loads": len(best.loads),  # more than workers if some joined later
        "headline": headline,
        "rest": rest,
        "details": panel.details,
        "line": panel.line,
        "hashed": None if hashed is None else _figures(hashed),
        "best": _figures(best),
        "large": [_bars(entry, largest, panel.messages) for entry in enlarged],
        "small": [_bars(entry._replace(keys={}), largest, 0) for entry in small],
        "all_balanced": all(entry.balanced for entry in entries),
        "named": panel.named,
        "maps": [{**_figures(entry), **make_tiles(entry)} for entry in enlarged if not entry.balanced],
        "over_time": _over_time(entries, quiet),
        "scatter": _scatter(entries) if len(entries) > 1 else None,
        "table": [{**_figures(entry), "take": entry is best} for entry in table],
        "others": [entry.name for entry in entries if entry.name in quiet],
    }


def _figures(entry: Entry) -> dict[str, Any]:
    return {
        **entry._asdict(),
        "style": style_of(entry.name),
        "busiest": format_ratio(entry.busiest),
        "imbalance": format_imbalance(entry.imbalance),
        "mean_imbalance": "" if entry.mean_imbalance is None else format_imbalance(entry.mean_imbalance),
    }


def _bars(entry: Entry, largest: float, messages: float) -> dict[str, Any]:
    found = make_scaled_bars(entry.loads, largest)
    if found["workers_a_bar"] == 1:
        for worker, keys in entry.keys.items():
            shown = ", ".join(f"{name} {format_share(count / messages)}" for name, count in keys[:3])
            found["bars"][worker]["title"] += f"; most frequent: {shown} of all messages"
        name_bars(found["bars"], {worker: keys[0][0] for worker, keys in entry.keys.items()})
    return {**_figures(entry), **found}


def _over_time(entries: Sequence[Entry], quiet: set[str]) -> Any:
    """Return the chart of the imbalance over the stream; None without samples."""
    if not all(len(entry.over_time[0]) for entry in entries):
        return None
    return charts.lines(
        [
            charts.Line(entry.name, style_of(entry.name), *entry.over_time, entry.name in quiet)
            for entry in entries
        ],
        x_name="messages",
        y_name="imbalance",
        logarithmic=True,
        label="Imbalance of the loads so far, over the stream",
        y_text=charts.format_tick,
    )


def _scatter(entries: Sequence[Entry]) -> Any:
    return charts.points(
        [
            charts.Point(
                entry.name, style_of(entry.name), max(entry.replication, 1.0), entry.imbalance, entry.front
            )
            for entry in entries
        ],
        x_name="workers per key",
        y_name="imbalance",
        label="Imbalance against workers per key: lower and further left is better",
    )


def draw_timing(timing: Timing) -> dict[str, Any]:
    """Return the page's part on the times of a simulation."""
    busy, at = timing.busy, list(timing.positions)
    full = max(float(busy.max()), 1.0)  # above 1 only if a worker became faster
    queues = None
    if at:
        queues = charts.lines(
            [
                charts.Line("longest", "hashed", at, timing.queues.max(axis=1).tolist()),
                charts.Line("mean", "split", at, timing.queues.mean(axis=1).tolist()),
            ],
            x_name="messages",
            y_name="waiting messages",
            logarithmic=False,
            label="The longest and the mean queue of a worker, over the stream",
        )
    return {
        "queues": queues,
        "busy": make_bars(busy, full, "{:.1%}".format),
        "busy_full": full,
        "busy_mean": float(np.mean(busy)),
        "busy_most": float(busy.max()),
        "busy_mean_height": 100 * float(np.mean(busy)) / full,
        "last": len(busy) - 1,
    }
