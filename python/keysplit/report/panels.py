"""The data of a page's charts: results reduced to as many marks as a person can distinguish."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keysplit.comparison import pareto
from keysplit.palette import style_of
from keysplit.plan import BALANCED
from keysplit.profiling.model import Advice, Prediction, Profile, TopKey, describe_rare
from keysplit.profiling.planned import advise_on
from keysplit.report import charts
from keysplit.report.treemap import Rectangle, squarify
from keysplit.simulation import SimulationResult
from keysplit.tables import sort_by_workers
from keysplit.text import (
    format_imbalance,
    format_key,
    format_ratio,
    format_seconds,
    format_share,
)

MOST_BARS = 100
MOST_NAMES = 7
"""Lines of a chart that are named without being asked for."""
NAMED_BARS, NAME_LETTERS, NAME_HEIGHT = 3, 22, 9  # bars, letters, per cent of the picture
MOST_TILES = 150
TOP_KEYS = 20
SHORT_LIVED_KEYS = 10
_TILE_WIDTH, _TILE_HEIGHT = 160.0, 100.0  # aspect ratio of the map
_PIXELS = 360  # width of a map on a phone
_LETTER, _LINE, _EDGES = 7, 17, 15  # pixels


class _Entry(NamedTuple):
    """What a page shows of a grouping: of its simulation, or of its plan."""

    name: str
    label: str
    loads: np.ndarray
    of: Prediction
    mean_imbalance: float | None
    replication: float
    partials: int
    front: bool = False
    hashed_by: Any = None
    """The grouping, where each key has one worker that it names."""

    @property
    def figures(self) -> dict[str, Any]:
        """What templates show."""
        return {
            "name": self.name,
            "label": self.label,
            "style": style_of(self.name),
            "busiest": format_ratio(self.of.busiest),
            "imbalance": format_imbalance(self.of.imbalance),
            "mean_imbalance": "" if self.mean_imbalance is None else format_imbalance(self.mean_imbalance),
            "replication": self.replication,
            "partials": self.partials,
            "front": self.front,
        }


def make_panels(
    results: Sequence[SimulationResult],
    *,
    keys: Sequence[TopKey] = (),
    advice: Mapping[int, Advice] | None = None,
    best: str | None = None,
    verdict: str = "",
) -> list[dict[str, Any]]:
    """Return the contents of the page for each number of workers.

    Args:
        results: the simulations.
        keys: frequent keys, for the pictures of hash partitioning.
        advice: what to do, by number of workers, if already known.
        best: the grouping that the page is about; that of the advice if left out.
        verdict: what to say of it.

    Returns:
        One template dict per number of workers.
    """
    found = []
    for workers, some in sort_by_workers(results).items():
        if best is not None:
            found.append(
                _panels(
                    workers,
                    some,
                    keys,
                    Advice(workers=workers, predicted={}, recommended=None, verdict=verdict, online=best),
                )
            )
        else:
            found.append(_panels(workers, some, keys, advise_on(some) if advice is None else advice[workers]))
    return found


def _panels(
    workers: int, results: Sequence[SimulationResult], keys: Sequence[TopKey], advice: Advice
) -> dict[str, Any]:
    entries = [_entry(result, on_front) for result, on_front in zip(results, pareto(results), strict=True)]
    named = {entry.name: entry for entry in entries}
    hashed = named.get("key")
    best = _best(advice, named, results)
    enlarged = [hashed, best] if hashed is not None and best is not hashed else [best]
    largest = max(float(entry.loads.max()) for entry in [*entries, best])
    headline, *rest = [f"{line[0].upper()}{line[1:]}" for line in advice.verdict.splitlines()] or [""]
    ranked = sorted(entries, key=lambda entry: entry.name != "key")
    small = [entry for entry in ranked if entry not in enlarged]
    uneven = [entry for entry in enlarged if entry.of.busiest > BALANCED]
    table = entries if any(entry is best for entry in entries) else [best, *entries]
    return {
        "workers": workers,
        "loads": len(best.loads),  # more than workers if some joined later
        "headline": headline,
        "rest": rest,
        "details": advice.details,
        "line": advice.line,
        "hashed": hashed.figures if hashed is not None else None,
        "best": best.figures,
        "large": [_bars(entry, largest, keys, results[0].messages) for entry in enlarged],
        "small": [_bars(entry, largest, (), 0) for entry in small],
        "all_balanced": all(entry.of.busiest <= BALANCED for entry in entries),
        "named": bool(keys),
        "maps": [_tiles(entry, keys) for entry in uneven],
        "over_time": _over_time(results, {entry.name for entry in (hashed, best) if entry is not None}),
        "scatter": _scatter(entries) if len(results) > 1 else None,
        "table": [{**entry.figures, "take": entry is best} for entry in table],
        "others": [name for name in named if _is_quiet(name, results, {"key", best.name})],
    }


def _entry(result: SimulationResult, on_front: bool) -> _Entry:
    name = result.params.name
    return _Entry(
        name=name,
        label=f"{name}, hash partitioning" if name == "key" else name,
        loads=np.asarray(result.loads, float),
        of=Prediction.of(result),
        mean_imbalance=result.mean_imbalance,
        replication=result.replication,
        partials=result.memory,
        front=on_front,
        hashed_by=result.params if name == "key" else None,
    )


def _best(advice: Advice, named: Mapping[str, _Entry], results: Sequence[SimulationResult]) -> _Entry:
    """Return what the page is about: the recommended plan, or else the grouping that is recommended."""
    plan = advice.planned.get(advice.recommended or "")
    if plan is None:
        wanted = advice.recommended or advice.online or "key"
        return named.get(wanted, named[results[0].params.name])
    partials = results[0].distinct_keys + plan.extra_partials
    name = advice.recommended or ""
    return _Entry(
        name=name,
        label=f"{name}, planned",
        loads=plan.loads,
        of=plan,
        mean_imbalance=None,
        replication=partials / max(results[0].distinct_keys, 1),
        partials=partials,
    )


def _is_quiet(name: str, results: Sequence[SimulationResult], loud: set[str]) -> bool:
    return len(results) > MOST_NAMES and name not in loud


def _bars(entry: _Entry, largest: float, keys: Sequence[TopKey], messages: float) -> dict[str, Any]:
    """Bars of the loads, for the macro of this name."""
    loads = entry.loads
    inside = _keys_of(entry, keys)
    bars = make_bars(loads, largest, "{:,.0f}")
    each = len(loads) / len(bars)
    if each == 1:
        for worker, found in inside.items():
            shown = ", ".join(f"{name} {format_share(count / messages)}" for name, count in found[:3])
            bars[worker]["title"] += f"; most frequent: {shown} of all messages"
        name_bars(bars, {worker: found[0][0] for worker, found in inside.items()})
    return {**entry.figures, **make_panel(entry.name, loads, largest), "bars": bars}


def make_panel(name: str, loads: np.ndarray, largest: float) -> dict[str, Any]:
    """Return bars of loads with their axis, for the macro of this name.

    Args:
        name: the grouping.
        loads: the load of each worker.
        largest: the load of a full bar.
    """
    bars = make_bars(loads, largest, "{:,.0f}")
    return {
        "name": name,
        "style": style_of(name),
        "bars": bars,
        "ticks": make_ticks(largest, "{:,.0f}"),
        "mean": float(loads.mean()),
        "most": float(loads.max()),
        "mean_height": 100 * float(loads.mean()) / largest,
        "last": len(loads) - 1,
        "workers_a_bar": len(loads) / len(bars),
    }


def make_ticks(largest: float, shown: str) -> list[dict[str, Any]]:
    """Return the ticks of an axis of bars: their text, and their height in per cent of a full bar."""
    axis = charts.Axis(0.0, largest, 0.0, 100.0)
    return [{"text": shown.format(at), "at": axis.at(at)} for at in axis.ticks(4) if at <= largest]


def name_bars(bars: list[dict[str, Any]], names: Mapping[int, str]) -> None:
    """Write the key that makes a bar beside the tallest ones, where nothing is in the way."""
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


def make_bars(values: np.ndarray, full: float, shown: str, workers_each: int = 1) -> list[dict[str, Any]]:
    """Return a bar per worker; if they are too many, bars of several, with the busiest and their mean.

    Args:
        values: the value of each worker.
        full: the value of a full bar.
        shown: the format of a value.
        workers_each: for how many neighbouring workers each value stands.
    """
    bars = []
    for part in np.array_split(np.arange(len(values)), min(MOST_BARS, len(values))):
        first, last = part[0] * workers_each, (part[-1] + 1) * workers_each - 1
        name = f"worker {first}" if first == last else f"workers {first} to {last}, the busiest"
        most, mean = float(values[part].max()), float(values[part].mean())
        bars.append(
            {
                "title": f"{name}: {shown.format(most)}",
                "height": 100 * most / full,
                "mean_height": 100 * mean / full if len(part) > 1 else None,
            }
        )
    return bars


def _tiles(entry: _Entry, keys: Sequence[TopKey]) -> dict[str, Any]:
    """A tree map of the loads; the least loaded workers share tiles if there are too many."""
    loads = entry.loads
    mean = float(loads.mean())
    order = [worker for worker in np.argsort(-loads, kind="stable").tolist() if loads[worker] > 0]
    idle = len(loads) - len(order)
    groups: list[list[int]] = []
    fill = math.inf
    for worker in order:
        if len(loads) <= MOST_TILES or fill >= loads.sum() / MOST_TILES:
            groups.append([])
            fill = 0.0
        groups[-1].append(worker)
        fill += float(loads[worker])
    groups.sort(key=lambda group: -float(loads[group].sum()))
    inside = _keys_of(entry, keys)
    rectangles = squarify(
        [float(loads[group].sum()) for group in groups], Rectangle(0, 0, _TILE_WIDTH, _TILE_HEIGHT)
    )
    tiles, labelled = [], {1}
    for group, rectangle in zip(groups, rectangles, strict=True):
        load = float(loads[group].sum())
        label = "" if len(group) in labelled else f"{len(group):,} workers"  # one label per tile size
        label = f"{group[0]}" if len(group) == 1 else label
        labelled.add(len(group))
        who = f"worker {group[0]}" if len(group) == 1 else f"{len(group):,} workers together"
        ratio = load / len(group) / mean
        tiles.append(
            {
                **_place(rectangle, Rectangle(0, 0, _TILE_WIDTH, _TILE_HEIGHT)),
                "label": label if _fits(label, rectangle, len(label)) else "",
                "title": f"{who}: {load:,.0f}, {format_share(load / loads.sum())} of all, {ratio:.2f} times "
                "the mean",
                "ink": round(100 * ratio / (1 + ratio)),
                "keys": _key_tiles(inside.get(group[0], []), load, rectangle) if len(group) == 1 else [],
            }
        )
    return {**entry.figures, "tiles": tiles, "idle": idle}


def _keys_of(entry: _Entry, keys: Sequence[TopKey]) -> dict[int, list[tuple[str, float]]]:
    """Return the frequent keys of each worker, known only with hash partitioning: one worker per key."""
    if entry.hashed_by is None or not keys:
        return {}
    try:
        workers = entry.hashed_by.router().route([each.key for each in keys]).tolist()
    except (TypeError, ValueError):  # a key unsupported in lists, such as a time in nanoseconds
        return {}
    found: dict[int, list[tuple[str, float]]] = {}
    for key, worker in zip(keys, workers, strict=True):
        found.setdefault(worker, []).append((format_key(key.key), key.count - key.error))
    return found


def _key_tiles(keys: Sequence[tuple[str, float]], load: float, around: Rectangle) -> list[dict[str, Any]]:
    """Tiles for the frequent keys of a worker, and one for all its other keys."""
    if not keys or around.width < 0.08 * _TILE_WIDTH or around.height < 0.1 * _TILE_HEIGHT:
        return []
    named = sorted((each for each in keys if each[1] > 0), key=lambda each: -each[1])
    rest = load - sum(count for _, count in named)
    if rest > 0:
        named.append(("other keys", round(rest)))
        named.sort(key=lambda each: -each[1])
    named = [each for each in named if each[1] > 0]
    rectangles = squarify([count for _, count in named], around)
    return [
        {
            **_place(rectangle, around),
            "label": name if _fits(name, rectangle, 8) else "",
            "title": f"{name}: {count:,.0f}, {format_share(count / load)} of its worker",
            "other": name == "other keys",
        }
        for (name, count), rectangle in zip(named, rectangles, strict=True)
    ]


def _place(tile: Rectangle, around: Rectangle) -> dict[str, float]:
    """The position of a tile, in per cent of its surroundings."""
    return {
        "left": 100 * (tile.x - around.x) / around.width,
        "top": 100 * (tile.y - around.y) / around.height,
        "width": 100 * tile.width / around.width,
        "height": 100 * tile.height / around.height,
    }


def _fits(label: str, tile: Rectangle, letters: int) -> bool:
    """Whether a tile has room for this many letters of its label, or for all of them."""
    pixels = _PIXELS / _TILE_WIDTH
    width = _LETTER * min(letters, len(label)) + _EDGES
    return tile.width * pixels >= width and tile.height * pixels >= _LINE


def _over_time(results: Sequence[SimulationResult], loud: set[str]) -> Any:
    """Return the chart of the imbalance over the stream, None without samples."""
    if not all(len(result.imbalance_over_time[0]) for result in results):
        return None
    series = []
    for result in results:
        positions, values = result.imbalance_over_time
        name = result.params.name
        quiet = _is_quiet(name, results, loud)
        series.append(charts.Line(name, style_of(name), positions.tolist(), values.tolist(), quiet))
    return charts.lines(
        series,
        x_name="messages",
        y_name="imbalance",
        logarithmic=True,
        label="Imbalance of the loads so far, over the stream",
        y_text=charts.format_tick,
    )


def _scatter(entries: Sequence[_Entry]) -> Any:
    series = [
        charts.Point(
            entry.name, style_of(entry.name), max(entry.replication, 1.0), entry.of.imbalance, entry.front
        )
        for entry in entries
    ]
    return charts.points(
        series,
        x_name="workers per key",
        y_name="imbalance",
        label="Imbalance against workers per key: lower and further left is better",
    )


def make_timing(result: SimulationResult) -> dict[str, Any] | None:
    """Return the timing model's part of the page, None without one."""
    if result.queue_over_time is None:
        return None
    busy = np.asarray(result.utilisation, float)
    full = max(float(busy.max()), 1.0)  # above 1 only if a worker became faster
    positions, queues = result.queue_over_time
    queues = np.asarray(queues, float)
    at = np.asarray(positions).tolist()
    series = [
        charts.Line("longest", "hashed", at, queues.max(axis=1).tolist()),
        charts.Line("mean", "split", at, queues.mean(axis=1).tolist()),
    ]
    return {
        "latency": {name: format_seconds(value) for name, value in (result.latency_s or {}).items()},
        "throughput": f"{result.throughput_per_s:,.0f}",
        "queues": charts.lines(
            series,
            x_name="messages",
            y_name="waiting messages",
            logarithmic=False,
            label="The longest and the mean queue of a worker, over the stream",
        )
        if at
        else None,
        "busy": make_bars(busy, full, "{:.1%}"),
        "busy_full": full,
        "busy_mean": float(busy.mean()),
        "busy_most": float(busy.max()),
        "busy_mean_height": 100 * float(busy.mean()) / full,
        "last": len(busy) - 1,
    }


def list_keys(profile: Profile) -> dict[str, Any]:
    """Return the most frequent keys, and those hot only for a while, with the times when each was hot."""
    top = [key for key in profile.top[:TOP_KEYS] if key.certain]
    others = [key for key in profile.hot if key not in top and key.age_share < 1]
    brief = sorted(others, key=lambda key: -max(key.shares))[:SHORT_LIVED_KEYS]
    return {
        "top": [_strip(key, profile) for key in top],
        "rarer": describe_rare(profile.top[:TOP_KEYS]),
        "brief": [_strip(key, profile) for key in brief],
    }


def _strip(key: TopKey, profile: Profile) -> dict[str, Any]:
    most = max(*key.shares, 1e-300)
    stops = profile.windows
    return {
        "name": format_key(key.key),
        "count": key.count,
        "error": key.error,
        "share": key.share,
        "age": key.age,
        "most": max(key.shares),
        "cells": [
            {
                "width": stops[number + 1] - stops[number],
                "hot": number in key.hot,
                "ink": round(25 + 75 * (share / most) ** 0.5),
                "title": f"messages {stops[number]:,} to {stops[number + 1]:,}: {format_share(share)}"
                + (", hot" if number in key.hot else ""),
            }
            for number, share in enumerate(key.shares)
        ],
    }
