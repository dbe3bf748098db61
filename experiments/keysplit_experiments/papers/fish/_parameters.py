"""FISH with one of its parameters varied: Fig. 12 and 13."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from keysplit_experiments.harness import Parameters, Results, Scale
from keysplit_experiments.harness.figure import legend, panels
from keysplit_experiments.harness.table import Table
from keysplit_experiments.papers.fish import WORKERS
from keysplit_experiments.papers.fish._runs import evolving

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = {"time": "execution time / ideal", "replication": "memory / FG's"}


def cells_of(scale: Scale, parameter: str, values: Iterable[Any]) -> list[Parameters]:
    """Name the cells of FISH with every value of a parameter, on every stream and number of workers."""
    return [
        {**stream, "workers": workers, parameter: value}
        for stream in evolving(scale)
        for workers in WORKERS
        for value in values
    ]


def table_of(results: Results, parameter: str) -> Table:
    """Tell time and memory for every value of a parameter, on the fewest and the most workers."""
    exponents = results.values("exponent")
    rows = [
        [
            workers,
            str(value),
            *(
                results.median(figure, workers=workers, exponent=exponent, **{parameter: value})
                for figure in FIGURES
                for exponent in exponents
            ),
        ]
        for workers in (WORKERS[0], WORKERS[-1])
        for value in results.values(parameter)
    ]
    heads = [f"{name}, z = {exponent}" for name in ("time", "memory") for exponent in exponents]
    return Table(["n", parameter, *heads], rows)


def draw_of(figure: Figure, results: Results, parameter: str, values: Sequence[Any]) -> None:
    """Draw time and memory over the values of a parameter: one row each, one plot per number of workers."""
    titles = [f"{workers} workers" for _ in FIGURES for workers in WORKERS]
    plots = panels(figure, titles, len(WORKERS), x=parameter, share_y=False)
    for row, (name, label) in enumerate(FIGURES.items()):
        for axes, workers in zip(plots[row * len(WORKERS) :], WORKERS, strict=False):
            for place, exponent in enumerate(results.values("exponent")):
                chosen = results.where(workers=workers, exponent=exponent)
                heights = [chosen.median(name, **{parameter: value}) for value in values]
                axes.plot(range(len(values)), heights, f"C{place}", marker="o", label=f"z = {exponent}")
            axes.set_xticks(range(len(values)), [str(value) for value in values], fontsize=7)
        plots[row * len(WORKERS)].set_ylabel(label)
    legend(figure)
