"""The data of a page's charts: results reduced to as many marks as a person can distinguish."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keysplit.comparison import pareto
from keysplit.profiling.advice import advise_simulated, recommend_simulated
from keysplit.profiling.model import Prediction, Profile, TopKey, describe_rare
from keysplit.profiling.text import format_imbalance, format_key, format_ratio, format_seconds
from keysplit.report import charts
from keysplit.report.treemap import Rectangle, squarify
from keysplit.simulation import SimulationResult
from keysplit.tables import sort_by_workers

MOST_BARS = 100
MOST_TILES = 150
TOP_KEYS = 20
SHORT_LIVED_KEYS = 10
_COLOURS = ("third", "fourth", "fifth", "sixth", "seventh")
_TILE_WIDTH, _TILE_HEIGHT = 160.0, 100.0  # aspect ratio of the map
_PIXELS = 360  # width of a map on a phone
_LETTER, _LINE, _EDGES = 7, 17, 15  # pixels


def make_panels(
    results: Sequence[SimulationResult],
    *,
    keys: Sequence[TopKey] = (),
    verdicts: Mapping[int, str] | None = None,
    recommended: Mapping[int, str | None] | None = None,
) -> list[dict[str, Any]]:
    """Return the contents of the page for each number of workers.

    Args:
        results: the simulations.
        keys: frequent keys, for the tree map of hash partitioning.
        verdicts: what to do, in words, if already known.
        recommended: which grouping to take, if already known.

    Returns:
        One template dict per number of workers.
    """
    return [
        _panels(
            workers,
            some,
            keys,
            advise_simulated(some) if verdicts is None else verdicts[workers],
            recommend_simulated(some) if recommended is None else recommended[workers],
        )
        for workers, some in sort_by_workers(results).items()
    ]


def _panels(
    workers: int,
    results: Sequence[SimulationResult],
    keys: Sequence[TopKey],
    verdict: str,
    recommended: str | None,
) -> dict[str, Any]:
    named = {result.params.name: result for result in results}
    best = named.get(recommended or "key", results[0])
    enlarged = [named["key"], best] if "key" in named and best is not named["key"] else [best]
    front = {id(result) for result, on in zip(results, pareto(results), strict=True) if on}
    styles = _styles(results, best, front)
    largest = max(float(result.loads.max()) for result in results)
    headline, _, rest = verdict.partition(". ")
    ranked = sorted(results, key=lambda result: result.params.name != "key")
    return {
        "workers": workers,
        "loads": len(best.loads),  # more than workers if some joined later
        "headline": headline[0].upper() + headline[1:],
        "rest": rest,
        "hashed": _figures(named["key"]) if "key" in named else None,
        "best": _figures(best),
        "large": [_bars(result, styles, largest) for result in enlarged],
        "small": [_bars(result, styles, largest) for result in ranked if result not in enlarged],
        "maps": [_tiles(result, styles, keys) for result in enlarged],
        "over_time": _over_time(results, styles),
        "scatter": _scatter(results, styles, front) if len(results) > 1 else None,
        "table": [
            {**_figures(result), "style": styles[result.params.name], "front": id(result) in front}
            for result in results
        ],
        "others": [name for name, style in styles.items() if style == "other"],
    }


def _styles(results: Sequence[SimulationResult], best: SimulationResult, front: set[int]) -> dict[str, str]:
    """Assign colours to hash partitioning, the recommended grouping and those on the Pareto front."""
    styles = {"key": "hashed"} | {best.params.name: "hashed" if best.params.name == "key" else "split"}
    colours = iter(_COLOURS)
    wanted = results if len(results) <= 2 + len(_COLOURS) else [r for r in results if id(r) in front]
    for result in wanted:
        if result.params.name not in styles:
            styles[result.params.name] = next(colours, "other")
    return {result.params.name: styles.get(result.params.name, "other") for result in results}


def _figures(result: SimulationResult) -> dict[str, Any]:
    return {
        "name": result.params.name,
        "busiest": format_ratio(Prediction.of(result).busiest),
        "imbalance": format_imbalance(result.imbalance),
        "mean_imbalance": format_imbalance(result.mean_imbalance),
        "replication": result.replication,
        "partials": result.memory,
    }


def _bars(result: SimulationResult, styles: Mapping[str, str], largest: float) -> dict[str, Any]:
    """Bars of the loads, for the macro of this name."""
    loads = np.asarray(result.loads, float)
    bars = make_bars(loads, largest, "{:,.0f}")
    return {
        **_figures(result),
        "style": styles[result.params.name],
        "bars": bars,
        "mean": float(loads.mean()),
        "most": float(loads.max()),
        "mean_height": 100 * float(loads.mean()) / largest,
        "last": len(loads) - 1,
        "workers_a_bar": len(loads) / len(bars),
    }


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


def _tiles(result: SimulationResult, styles: Mapping[str, str], keys: Sequence[TopKey]) -> dict[str, Any]:
    """A tree map of the loads; the least loaded workers share tiles if there are too many."""
    loads = np.asarray(result.loads, float)
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
    inside = _keys_of(result, keys)
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
                "title": f"{who}: {load:,.0f}, {load / loads.sum():.1%} of all, {ratio:.2f} times the mean",
                "ink": round(100 * ratio / (1 + ratio)),
                "keys": _key_tiles(inside.get(group[0], []), load, rectangle) if len(group) == 1 else [],
            }
        )
    return {**_figures(result), "style": styles[result.params.name], "tiles": tiles, "idle": idle}


def _keys_of(result: SimulationResult, keys: Sequence[TopKey]) -> dict[int, list[tuple[str, float]]]:
    """Return the frequent keys of each worker, known only with hash partitioning: one worker per key."""
    if result.params.name != "key" or not keys:
        return {}
    try:
        workers = result.params.router().route([each.key for each in keys]).tolist()
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
            "title": f"{name}: {count:,.0f}, {count / load:.1%} of its worker",
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


def _over_time(results: Sequence[SimulationResult], styles: Mapping[str, str]) -> Any:
    series = []
    for result in results:
        positions, values = result.imbalance_over_time
        name = result.params.name
        series.append(charts.Line(name, styles[name], positions.tolist(), values.tolist()))
    return charts.lines(
        series,
        x_name="messages",
        y_name="imbalance",
        logarithmic=True,
        label="Imbalance of the loads so far, over the stream",
    )


def _scatter(results: Sequence[SimulationResult], styles: Mapping[str, str], front: set[int]) -> Any:
    series = [
        charts.Point(
            result.params.name,
            styles[result.params.name],
            max(result.replication, 1.0),
            result.imbalance,
            id(result) in front,
        )
        for result in results
    ]
    return charts.points(
        series,
        x_name="replication",
        y_name="imbalance",
        label="Imbalance against replication: lower and further left is better",
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
        ),
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
                "title": f"messages {stops[number]:,} to {stops[number + 1]:,}: {share:.2%}"
                + (", hot" if number in key.hot else ""),
            }
            for number, share in enumerate(key.shares)
        ],
    }
