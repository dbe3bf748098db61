"""Tree maps of loads: a tile per worker, whose area is the load, with tiles for its frequent keys inside."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keysplit.show.view import Entry
from keysplit.text import format_share

MOST_TILES = 150
_TILE_WIDTH, _TILE_HEIGHT = 160.0, 100.0  # aspect ratio of the map
_PIXELS = 360  # width of a map on a phone
_LETTER, _LINE, _EDGES = 7, 17, 15  # pixels


class Rectangle(NamedTuple):
    """A rectangle: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


def squarify(sizes: Sequence[float], inside: Rectangle) -> list[Rectangle]:
    """Divide a rectangle into one per size, as square as possible.

    Args:
        sizes: relative areas, above 0, in descending order.
        inside: the rectangle to divide.

    Returns:
        One rectangle per size.

    Source: Bruls, Huizing, van Wijk, Squarified Treemaps (VisSym 2000), section 3.

    Deviations: none.

    Example:
        >>> [tuple(each) for each in squarify([2, 1, 1], Rectangle(0, 0, 2, 1))]
        [(0, 0.0, 1.0, 1.0), (1.0, 0.0, 1.0, 0.5), (1.0, 0.5, 1.0, 0.5)]
    """
    x, y, width, height = inside
    found: list[Rectangle] = []
    left = float(sum(sizes))
    while len(found) < len(sizes):
        side = min(width, height)
        unit = width * height / left
        row: list[float] = []
        for size in sizes[len(found) :]:
            if row and _worst([*row, size * unit], side) > _worst(row, side):
                break
            row.append(size * unit)
        thickness = sum(row) / side
        at = 0.0
        for area in row:
            length = area / thickness
            if width >= height:  # a column at the left
                found.append(Rectangle(x, y + at, thickness, length))
            else:  # a row at the top
                found.append(Rectangle(x + at, y, length, thickness))
            at += length
        left -= sum(row) / unit
        if width >= height:
            x, width = x + thickness, width - thickness
        else:
            y, height = y + thickness, height - thickness
    return found


def _worst(row: Sequence[float], side: float) -> float:
    """The largest aspect ratio of the rectangles of a row."""
    total = sum(row)
    return max(side**2 * max(row) / total**2, total**2 / (side**2 * min(row)))


def make_tiles(entry: Entry) -> dict[str, Any]:
    """Return a tree map of the loads; the least loaded workers share tiles if there are too many."""
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
                "keys": _key_tiles(entry.keys.get(group[0], ()), load, rectangle) if len(group) == 1 else [],
            }
        )
    return {"tiles": tiles, "idle": idle}


def _key_tiles(keys: Sequence[tuple[str, float]], load: float, around: Rectangle) -> list[dict[str, Any]]:
    """Return tiles for a worker's frequent keys, and one tile for all its other keys."""
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
    """The position of a tile, in per cent of the surrounding tile."""
    return {
        "left": 100 * (tile.x - around.x) / around.width,
        "top": 100 * (tile.y - around.y) / around.height,
        "width": 100 * tile.width / around.width,
        "height": 100 * tile.height / around.height,
    }


def _fits(label: str, tile: Rectangle, letters: int) -> bool:
    """Whether a tile has room for this many letters of its label, or for the whole label."""
    pixels = _PIXELS / _TILE_WIDTH
    width = _LETTER * min(letters, len(label)) + _EDGES
    return tile.width * pixels >= width and tile.height * pixels >= _LINE
