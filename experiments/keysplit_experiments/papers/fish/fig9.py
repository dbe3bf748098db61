"""Fig. 9: execution time on real streams."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from keysplit_experiments.harness import Claim, Experiment, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, bars, legend, panels
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.fish import PAPER, WORKERS
from keysplit_experiments.papers.fish._groupings import (
    GROUPINGS,
    cells_of,
    close_to_shuffle,
    gains_on_heads,
    measure,
    over_fish,
    over_shuffle,
)
from keysplit_experiments.papers.fish._runs import real

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STREAMS = ["MT", "AM"]


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping on every stream and number of workers."""
    return cells_of(real(scale, *STREAMS))


def best(results: Results) -> Judged:
    """FISH: the shortest of the four, or within 1 per cent of it, everywhere."""
    others = [over_fish(results, other) for other in GROUPINGS[:-1]]
    lost = sum(1.01 * min(each[place] for each in others) < 1 for place in others[0])
    return Judged(lost == 0, f"in {len(others[0]) - lost} of {len(others[0])} settings")


def gains_on_pkg(results: Results) -> Judged:
    """PKG: longer than FISH by a factor that never falls as the workers double, and is 2 at the end."""
    found = over_fish(results, "partial_key")
    lines = {stream: [found[stream, workers] for workers in WORKERS] for stream in STREAMS}
    return Judged(
        all(line == sorted(line) and line[-1] >= 2 for line in lines.values()),
        "; ".join(f"{stream} {spell(line[0])} to {spell(line[-1])} times" for stream, line in lines.items()),
    )


CLAIMS = [
    Claim(
        says="FISH takes almost as long as SG (1.07 times at most)",
        where="6.2",
        paper="1.07",
        judge=partial(close_to_shuffle, most=1.07),
    ),
    Claim(
        says="FISH has the shortest time of PKG, D-C, W-C and FISH (or within 1 per cent of it)",
        where="6.2",
        judge=best,
    ),
    Claim(
        says="PKG takes longer than FISH, the more the more workers there are (16 to 128; at least twice "
        "on 128)",
        where="6.2",
        paper="MT 1.19 to 8.32 times, AM 1.12 to 7.31",
        judge=gains_on_pkg,
        because="on MT's stand-in PKG has the same busiest key on 32 and on 64 workers: 1.08524 and 1.08523 "
        "times FISH's time",
    ),
    Claim(
        says="FISH improves on D-C and W-C up to several times (at least twice somewhere)",
        where="6.2",
        paper="up to 7.44 and 6.95 times",
        judge=gains_on_heads,
        because="lifetime counts find the hot keys of these streams in time: W-C is within 4 per cent "
        "of SG. Our streams are shorter, and words change less than MemeTracker's",
    ),
]


def table(results: Results) -> Table:
    """Execution time over that of SG."""
    found = {grouping: over_shuffle(results, grouping) for grouping in GROUPINGS}
    rows = [
        [stream, workers, *(found[grouping][stream, workers] for grouping in GROUPINGS)]
        for stream in STREAMS
        for workers in WORKERS
    ]
    return Table(["stream", "n", *(f"{LOOKS[grouping].label} / SG" for grouping in GROUPINGS)], rows)


def draw(figure: Figure, results: Results) -> None:
    """Execution time over that of SG, a plot a stream."""
    titles = [PAPER.datasets[stream].title for stream in STREAMS]
    plots = panels(figure, titles, 2, x="workers", y="execution time / SG's")
    for axes, stream in zip(plots, STREAMS, strict=True):
        lines = []
        for grouping in GROUPINGS:
            found = over_shuffle(results.where(stream=stream), grouping)
            lines.append((LOOKS[grouping].bar(), [found[stream, workers] for workers in WORKERS]))
        bars(axes, WORKERS, lines)
        axes.axhline(1, color="black", linewidth=0.8, linestyle=":")
    legend(figure)


EXPERIMENT = Experiment(
    name="fish/fig9",
    label="Fig. 9",
    title="execution time on real streams, over that of SG",
    setting="Streams are as long as their stand-ins.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(9, 3.5),
)
