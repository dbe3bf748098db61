"""Fig. 12 and 13: the methods on twitter-election by some number, of workers or of sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keysplit_experiments.harness import Figures, Results
from keysplit_experiments.harness.figure import legend, panels
from keysplit_experiments.harness.table import Entry, Table
from keysplit_experiments.papers.dynamic_key import GROUPINGS
from keysplit_experiments.papers.dynamic_key._performance import (
    ELECTION,
    METRICS,
    label,
    line,
    method,
    name_stream,
    on_election,
    performance,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIKE = ELECTION.symbol


@on_election
def measure(keys: Any, *, workers: int, sources: int, grouping: str, seed: int) -> Figures:
    """Simulate one method."""
    return performance(method(grouping, workers, seed), keys, ELECTION.messages, sources)


def along(results: Results, x: str, grouping: str, metric: str) -> list[float]:
    """List a metric of a method over a number, on the drawn stream."""
    return results.line(x, metric, grouping=grouping, like=LIKE)[1]


def table(results: Results, x: str) -> Table:
    """Every metric by a number, on both streams."""
    rows: list[Sequence[Entry]] = []
    for stream in ({"like": LIKE}, {"stream": LIKE}):
        for metric, name in METRICS.items():
            for grouping in GROUPINGS:
                values = results.line(x, metric, grouping=grouping, **stream)[1]
                rows.append([name_stream(stream), name, label(grouping), *values])
    return Table(["stream", "metric", "method", *(f"{x} {value}" for value in results.values(x))], rows)


def draw(figure: Figure, results: Results, x: str, x_label: str) -> None:
    """Every method over a number, on the drawn stream: a plot a metric."""
    plots: Any = panels(figure, list(METRICS.values()), 2, x=x_label, share_y=False)
    for axes, metric in zip(plots, METRICS, strict=True):
        for grouping in GROUPINGS:
            axes.plot(results.values(x), along(results, x, grouping, metric), **line(grouping))
        axes.set_ylim(bottom=0)
    legend(figure)
