"""The live page: the figures of the last batches as charts and tables."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np

from keysplit.show import charts
from keysplit.show.bars import make_bars
from keysplit.show.page import render
from keysplit.spark.streaming.observing.progress import Progress
from keysplit.spark.streaming.observing.record import Record

MOST_BATCHES = 300
"""Batches that the charts show."""
MOST_KEYS = 20
"""Hot keys that the table shows."""


def draw(title: str, query: str, records: Sequence[Record]) -> str:
    """Return the page, which redraws itself in a browser when there are new batches.

    Args:
        title: the name of the query.
        query: the id of the query, with which the page requests figures.
        records: the records of the query's batches, the oldest first.
    """
    batches = list({each.progress.batch: each.progress for each in records}.values())[-MOST_BATCHES:]
    context: dict[str, Any] = {"last": None, "durations": None, "rates": None, "plans": []}
    if batches:
        first = batches[0].batch
        shown = [each for each in records if each.progress.batch >= first]
        plans = dict.fromkeys(each.plan for each in shown if each.plan is not None)
        context = {
            "last": batches[-1],
            "durations": _lines(
                [("duration", "fourth", [each.duration_s for each in batches])],
                [each.time for each in batches],
                y_name="seconds",
                label="How long each batch took",
            ),
            "rates": _rates(batches),
            "plans": [_plan(name, [each for each in shown if each.plan == name]) for name in plans],
        }
    return render(__package__, "live.html.j2", title=title, query=query, **context)


def draw_list(queries: Sequence[tuple[str, str, Sequence[Record]]]) -> str:
    """Return the page that lists queries, each with its id, name and records."""
    rows = [(query, title, records[-1].batch_row() if records else None) for query, title, records in queries]
    return render(__package__, "queries.html.j2", queries=rows)


def _rates(batches: Sequence[Progress]) -> Any:
    found = [
        ("arrived", "third", [_or_nan(each.input_rows_per_s) for each in batches]),
        ("processed", "fourth", [_or_nan(each.processed_rows_per_s) for each in batches]),
    ]
    known = [each for each in found if any(map(math.isfinite, each[2]))]
    if not known:
        return None
    return _lines(
        known,
        [each.time for each in batches],
        y_name="rows per second",
        label="How fast the rows of each batch arrived, and were processed",
    )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


# The lines of the busiest worker: with hashing and in busy time if known.
_BUSIEST = (
    ("hash, at least", "hashed", "hash_busiest"),
    ("fair share", "third", "busiest"),
    ("rows", "split", "busiest_rows"),
    ("busy time", "fourth", "busiest_time"),
)


def _plan(name: str, records: Sequence[Record]) -> dict[str, Any]:
    """Return the page's section on a plan; the last record is for the newest batch."""
    last, rows = records[-1], [each.batch_row() for each in records]
    at = [row["time"] for row in rows]
    changes = [
        (new["time"].timestamp(), f"version {new['version']}, from batch {new['batch']} on")
        for old, new in pairwise(rows)
        if new["version"] != old["version"]
    ]
    by_speed = any(not math.isclose(row["busiest"], row["busiest_rows"]) for row in rows)
    lines = [
        (called, style, [_or_nan(row[figure]) for row in rows])
        for called, style, figure in _BUSIEST
        if any(row[figure] is not None for row in rows) and (figure != "busiest" or by_speed)
    ]
    most_frequent = max((each.share for each in last.hot), default=0.0) or 1.0
    return {
        "name": name,
        "last": rows[-1],
        "changes": len(changes),
        "by_speed": by_speed,
        "hot": [(each, 100 * each.share / most_frequent) for each in last.hot[:MOST_KEYS]],
        "more": max(len(last.hot) - MOST_KEYS, 0),
        "balance": _lines(
            lines,
            at,
            y_name="busiest worker over the mean",
            label="The busiest worker over the mean of all: " + ", ".join(called for called, *_ in lines),
            events=changes,
        ),
        "rows": _bars(last.worker_rows, "{:,.0f} rows".format, last.together),
        "busy": None
        if last.worker_busy_s is None
        else _bars(last.worker_busy_s, "{:.3f} s".format, last.together),
    }


def _lines(
    series: Sequence[tuple[str, str, Sequence[float]]],
    at: Sequence[datetime],
    *,
    y_name: str,
    label: str,
    events: Sequence[tuple[float, str]] = (),
) -> Any:
    seconds = [each.timestamp() for each in at]
    return charts.lines(
        [charts.Line(name, style, seconds, values) for name, style, values in series],
        x_name="time, UTC",
        y_name=y_name,
        logarithmic=False,
        label=label,
        left=seconds[0],
        clock=True,
        events=events,
    )


def _bars(values: np.ndarray, show: Callable[[float], str], workers_each: int) -> dict[str, Any]:
    most, mean = float(values.max(initial=0.0)), float(values.mean()) if len(values) else math.nan
    full = most or 1.0
    return {
        "bars": make_bars(values, full, show, workers_each=workers_each),
        "mean_height": 100 * mean / full,
        "mean": show(mean),
        "most": show(most),
    }
