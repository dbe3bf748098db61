"""Tree maps: rectangles whose areas are shares."""

from collections.abc import Sequence
from typing import NamedTuple


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
