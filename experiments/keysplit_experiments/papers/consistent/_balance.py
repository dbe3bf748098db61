"""Balance and memory on a homogeneous cluster: Table 1, Fig. 4, 5, 6, 9 and 10."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import keysplit as ks
from keysplit_experiments.harness import Figures, Results, figures_of
from keysplit_experiments.harness.figure import LOOKS, legend, logarithmic, panels
from keysplit_experiments.harness.table import Entry, Table
from keysplit_experiments.papers.consistent._streams import named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CIRCLE = "circle"
"""The paper's CH with workers (Fig. 9)."""

ALLOCATIONS = ["key", "partial_key", "power_of_two", "power_of_random", "bounded_ring", "shuffle"]
"""The schemes that the paper compares for sharing out messages to virtual workers."""


def allocation(grouping: str, bins: int, epsilon: float, seed: int) -> ks.Grouping:
    """Make a scheme that shares out messages to bins: on the circle of CH a bin is one point."""
    more: dict[str, Any] = {}
    if grouping in ("power_of_random", "bounded_ring"):
        more["epsilon"] = epsilon
    if grouping == "bounded_ring":
        more["virtual_nodes"] = 1
    return ks.grouping(grouping, workers=bins, seed=seed, **more)


def balance(params: ks.Grouping, keys: Any, sources: int = 1) -> Figures:
    """Simulate a grouping, and give its imbalance and its memory."""
    result = ks.simulate(params, keys, sources=sources)
    return figures_of(result, "relative_imbalance", "memory", "distinct_keys", "messages")


def per_key(results: Results, **parameters: Any) -> float:
    """Return the memory of cells over the number of their keys: on how many workers a key is."""
    chosen = results.where(**parameters)
    return chosen.median("memory") / chosen.median("distinct_keys")


def label(name: Any) -> str:
    """Return the paper's name of a grouping; of anything else its own."""
    return "CH" if name == CIRCLE else LOOKS[name].label if name in LOOKS else str(name)


def over(results: Results, x: str, series: str) -> Table:
    """Tell imbalance and copies of a key: a row a stream and series, a column an x."""
    rows: list[Sequence[Entry]] = []
    for name, stream in named(results):
        chosen = results.where(**stream)
        xs = chosen.values(x)
        for each in chosen.values(series):
            line = chosen.where(**{series: each})
            imbalances = [line.median("relative_imbalance", **{x: value}) for value in xs]
            copies = [per_key(line, **{x: value}) for value in xs]
            rows.append([name, label(each), *imbalances, *copies])
    xs = results.values(x)
    heads = [f"imbalance, {value:,}" for value in xs] + [f"copies, {value:,}" for value in xs]
    return Table(["stream", series, *heads], rows)


def draw_over(
    figure: Figure,
    results: Results,
    x: str,
    series: str,
    x_label: str,
    line: Callable[[Any], dict[str, Any]] = lambda name: LOOKS[name].line(),
) -> None:
    """Draw the paper's pair of plots, imbalance and memory over x: a row a stream."""
    streams = named(results)
    titles = [f"{what}, {name}" for name, _ in streams for what in ("imbalance", "memory")]
    plots = panels(figure, titles, 2, x=x_label, share_y=False)
    for place, (_, stream) in enumerate(streams):
        pair = plots[2 * place : 2 * place + 2]
        for each in results.where(**stream).values(series):
            chosen = results.where(**stream, **{series: each})
            xs, imbalances = chosen.line(x, "relative_imbalance")
            pair[0].plot(xs, imbalances, **line(each))
            xs, memories = chosen.line(x, "memory")
            pair[1].plot(xs, memories, **line(each))
        for axes, what in zip(pair, ("normalized imbalance", "keys, over all workers"), strict=True):
            name_axes(axes, what)
            axes.set_xscale("log")
    legend(figure)


def name_axes(axes: Axes, what: str) -> None:
    """Make the vertical axis one over powers of ten, when all lines are drawn."""
    axes.set_ylabel(what)
    logarithmic([axes])
