"""Figures in the papers' form: one style per grouping, reproducible files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keysplit_experiments.harness.experiment import Experiment, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SETTINGS = {
    "svg.hashsalt": "keysplit",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Look:
    """The style of a series, the same in every figure."""

    label: str
    color: str
    marker: str
    dash: str = "-"

    def line(self, **more: Any) -> dict[str, Any]:
        """Return the arguments of ``Axes.plot``."""
        return {
            "label": self.label, "color": self.color, "marker": self.marker, "linestyle": self.dash, **more,
        }  # fmt: skip

    def bar(self, **more: Any) -> dict[str, Any]:
        """Return the arguments of ``Axes.bar``."""
        return {"label": self.label, "color": self.color, **more}


LOOKS = {
    "key": Look("KG", "#7f7f7f", "x", ":"),
    "shuffle": Look("SG", "#000000", "+", ":"),
    "partial_key": Look("PKG", "#d55e00", "s"),
    "power_of_two": Look("PoTC", "#8c6d31", "1"),
    "d_choices": Look("D-C", "#0072b2", "o"),
    "w_choices": Look("W-C", "#009e73", "^"),
    "round_robin": Look("RR", "#cc79a7", "D", "--"),
    "ring": Look("CH", "#999933", "P", ":"),
    "bounded_ring": Look("CH-BL", "#882255", "p", "--"),
    "power_of_random": Look("PoRC", "#e69f00", "v"),
    "consistent": Look("CG", "#56b4e9", "h"),
    "fish": Look("FISH", "#b2182b", "*"),
    "flexd": Look("FlexD", "#332288", "8"),
    "dynamic_key": Look("DKG", "#117733", "d"),
    "distribution_aware": Look("DAKG", "#aa4499", "<", "--"),
    "pstream": Look("PStream", "#44aa99", ">", "--"),
    "dalton": Look("Dalton", "#ddaa33", "X", "--"),
}
"""The groupings, with their names in the papers' figures."""

DARK = {
    "#000000": "#d5d8df", "#ffffff": "none", "#b0b0b0": "#8a8f98", "#0072b2": "#4aa3df",
    "#332288": "#9a8cf0", "#117733": "#4dbb73", "#882255": "#d8649a", "#b2182b": "#ef6a75",
    "#8c6d31": "#c2a05c", "#8c564b": "#c78f83", "#440154": "#b06fd0", "#3b528b": "#7f9be0",
    "#21918c": "#3fbdb6", "#1f77b4": "#5aaee6", "#9467bd": "#b897dd",
}  # fmt: skip
"""The colors that a dark page needs lighter, and what they become there."""


def need_matplotlib() -> None:
    """Check that figures can be plotted.

    Raises:
        ImportError: If matplotlib is missing.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "figures and the page of --docs need matplotlib: pip install matplotlib (or pass --no-figures)"
        ) from error


def draw(experiment: Experiment, results: Results) -> Figure | None:
    """Plot the figure of an experiment; None if the paper has a table."""
    if experiment.draw is None:
        return None
    need_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=experiment.size, layout="constrained")
        experiment.draw(figure, results)
    return figure


def save(figure: Figure, *paths: Path) -> None:
    """Write a figure to files, in the format of each name's suffix."""
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            nothing = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            figure.savefig(path, dpi=120, metadata=nothing)
            if path.suffix == ".svg":
                path.write_text(for_dark_pages(path.read_text(encoding="utf-8")), encoding="utf-8")


def for_dark_pages(svg: str) -> str:
    """Add a style to a drawing of matplotlib that a dark page uses."""
    rules = "".join(
        f'[style*="{part}: {light}"] {{{part}: {dark} !important}}'
        for light, dark in DARK.items()
        for part in ("fill", "stroke")
    )
    ink = DARK["#000000"]
    # matplotlib leaves the fill of what is black to the default
    black = f'text, g > path:not([style*="fill"]), use:not([style*="fill"]) {{fill: {ink}}}'
    style = f"@media (prefers-color-scheme: dark) {{{black}{rules}}}"
    return svg.replace("</style>", f"{style}</style>", 1)


def panels(
    figure: Figure, titles: Sequence[str], columns: int, *, x: str = "", y: str = "", share_y: bool = True
) -> list[Axes]:
    """Divide a figure into a grid of plots with common axes.

    Args:
        figure: To divide.
        titles: One per plot.
        columns: Plots per row.
        x: Label of the horizontal axes.
        y: Label of the vertical axes.
        share_y: Whether all have the same vertical scale.

    Returns:
        The plots, one per title.
    """
    rows = -(-len(titles) // columns)
    grid = figure.subplots(rows, columns, sharex=False, sharey=share_y, squeeze=False)
    plots: list[Axes] = list(grid.flat)
    for empty in plots[len(titles) :]:
        empty.remove()
    for place, (axes, title) in enumerate(zip(plots, titles, strict=False)):
        axes.set_title(title)
        if place % columns == 0:
            axes.set_ylabel(y)
        if place + columns >= len(titles):
            axes.set_xlabel(x)
    return plots[: len(titles)]


def logarithmic(plots: Sequence[Axes], top: float | None = None) -> None:
    """Set a common logarithmic vertical axis, over whole powers of ten.

    Args:
        plots: With their lines; zeros are on the lower edge.
        top: Upper end; by default what the lines need.
    """
    drawn: list[float] = []
    for line in (line for axes in plots for line in axes.get_lines()):
        drawn += np.asarray(line.get_ydata(), dtype=float).tolist()
    positive = [y for y in drawn if 0 < y < math.inf] or [1.0]
    low, high = (math.log10(end) for end in (min(positive), max(positive)))
    for axes in plots:
        # the limits first: otherwise matplotlib warns about all-zero lines
        axes.set_ylim(10.0 ** math.floor(low), top or 10.0 ** max(math.ceil(high), math.floor(low) + 1))
        axes.set_yscale("log", nonpositive="clip")


def bars(
    axes: Axes, groups: Sequence[Any], series: Sequence[tuple[Mapping[str, Any], Sequence[float]]]
) -> None:
    """Draw a group of bars per position on the horizontal axis.

    Args:
        axes: The axes to draw on.
        groups: Labels of the groups.
        series: The style of each series' bars (arguments of ``Axes.bar``) and their heights.
    """
    width = 0.8 / len(series)
    for place, (look, heights) in enumerate(series):
        offset = (place - (len(series) - 1) / 2) * width
        axes.bar([group + offset for group in range(len(groups))], heights, width, **look)
    axes.set_xticks(range(len(groups)), [str(group) for group in groups])
    axes.grid(False, axis="x")


def legend(figure: Figure) -> None:
    """Add one legend above all plots, with every series once."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()), list(handles), loc="outside upper center", ncols=max(1, min(len(handles), 8))
    )
