"""Bars side by side, as this paper draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bars(
    axes: Axes, groups: Sequence[Any], series: Sequence[tuple[Mapping[str, Any], Sequence[float]]]
) -> None:
    """Draw a group of bars for every place of the horizontal axis.

    Args:
        axes: Where to draw.
        groups: What is written below the groups.
        series: How the bars of each series look (arguments of ``Axes.bar``), and their heights, one a group.
    """
    width = 0.8 / len(series)
    for place, (look, heights) in enumerate(series):
        offset = (place - (len(series) - 1) / 2) * width
        axes.bar([group + offset for group in range(len(groups))], heights, width, **look)
    axes.set_xticks(range(len(groups)), [str(group) for group in groups])
    axes.grid(False, axis="x")
