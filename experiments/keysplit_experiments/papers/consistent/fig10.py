"""Fig. 10: imbalance and memory of CG with more and more sources."""

from __future__ import annotations

from functools import partial
from typing import Any

import keysplit as ks
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.table import spell
from keysplit_experiments.papers.consistent import EPSILON, VIRTUAL_WORKERS, WORKERS
from keysplit_experiments.papers.consistent._balance import balance, draw_over, over
from keysplit_experiments.papers.consistent._streams import drawn, on_stream, real

SOURCES = [1, 10, 50, 100]
LINES = {1: ("o", "-"), 10: ("s", "--"), 50: ("^", "-."), 100: ("v", ":")}
DECADE = 10


def cells(scale: Scale) -> list[Parameters]:
    """CG with every number of sources and workers on every stream."""
    return [
        {**stream, "workers": workers, "sources": sources, "seed": seed}
        for stream in (drawn(scale, "WP"), real(scale, "WP"))
        for workers in WORKERS
        for sources in SOURCES
        for seed in scale.grid([1, 2, 3], [1])
    ]


@on_stream
def measure(keys: Any, *, workers: int, sources: int, seed: int) -> Figures:
    """Simulate CG with a number of sources."""
    params = ks.ConsistentGrouping(
        workers=workers, seed=seed, virtual_workers=VIRTUAL_WORKERS, epsilon=EPSILON
    )
    return balance(params, keys, sources)


def spread(results: Results, figure: str) -> list[float]:
    """Return the largest over the smallest figure of all numbers of sources like WP, by workers."""
    chosen = results.where(like="WP")
    found = []
    for workers in WORKERS:
        values = [chosen.median(figure, workers=workers, sources=sources) for sources in SOURCES]
        found.append(max(values) / min(values) if min(values) else float("inf"))
    return found


def same(results: Results, figure: str) -> Judged:
    """Imbalance or memory: the same on a logarithmic scale, whatever the number of sources."""
    found = spread(results, figure)
    return Judged(max(found) < DECADE, f"at most {', '.join(map(spell, found))} times")


def same_over_workers(results: Results, figure: str) -> Judged:
    """Imbalance or memory with one source: the same on a log scale, whatever the number of workers."""
    _, values = results.line("workers", figure, like="WP", sources=1)
    return Judged(max(values) < DECADE * min(values), ", ".join(map(spell, values)))


CLAIMS = [
    Claim(
        says="The imbalance stays almost the same on a log scale with more sources (like WP: within a "
        "factor of 10 for each number of workers)",
        where="7.2, Q3",
        judge=partial(same, figure="relative_imbalance"),
    ),
    Claim(
        says="The memory stays almost the same on a log scale with more sources (like WP: within a factor "
        "of 10)",
        where="7.2, Q3",
        judge=partial(same, figure="memory"),
    ),
    Claim(
        says="The imbalance stays almost the same on a log scale with more workers (like WP, one source: "
        "within a factor of 10)",
        where="7.2, Q3",
        judge=partial(same_over_workers, figure="relative_imbalance"),
    ),
    Claim(
        says="The memory stays almost the same on a log scale with more workers (like WP, one source: "
        "within a factor of 10)",
        where="7.2, Q3",
        judge=partial(same_over_workers, figure="memory"),
    ),
]


def look(sources: Any) -> dict[str, Any]:
    """Return the look of the line of a number of sources."""
    marker, dash = LINES[sources]
    name = "1 source" if sources == 1 else f"{sources} sources"
    return {"label": name, "color": f"C{SOURCES.index(sources)}", "marker": marker, "linestyle": dash}


EXPERIMENT = Experiment(
    name="consistent/fig10",
    label="Fig. 10",
    title="imbalance and memory of CG with more and more sources",
    setting="Messages go to the sources in turn. Equal workers; medians of three seeds.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=partial(over, x="workers", series="sources"),
    draw=partial(draw_over, x="workers", series="sources", x_label="workers n", line=look),
    size=(8, 6),
)
