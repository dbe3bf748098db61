"""Fig. 13: the methods with more and more spouts."""

from __future__ import annotations

from functools import partial

from keysplit_experiments.harness import Claim, Experiment, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.table import spell
from keysplit_experiments.papers.dynamic_key import DKG, GROUPINGS, METHODS, WORKERS
from keysplit_experiments.papers.dynamic_key._election import along, draw, measure, table
from keysplit_experiments.papers.dynamic_key._performance import (
    METRICS,
    election,
    label,
)

LATENCY, DEVIATION, COST, THROUGHPUT = METRICS


def cells(scale: Scale) -> list[Parameters]:
    """Every method with every number of sources, on both streams."""
    return [
        {**stream, "workers": WORKERS, "sources": sources, "grouping": grouping, "seed": seed}
        for stream in election(scale)
        for sources in (5, 10, 15, 20)
        for grouping in GROUPINGS
        for seed in scale.grid([1, 2, 3], [1])
    ]


def no_effect(results: Results) -> Judged:
    """Latency and throughput of every method: within a tenth over all numbers of sources."""
    spread = {
        name: max(
            max(values) / min(values)
            for values in (along(results, "sources", name, metric) for metric in (LATENCY, THROUGHPUT))
        )
        for name in METHODS
    }
    return Judged(
        max(spread.values()) <= 1.1,
        ", ".join(f"{label(name)} within {spell(most)} times" for name, most in spread.items()),
    )


def better(results: Results) -> Judged:
    """DKG: better than KG and PKG in latency, StdDev and throughput, with every number of sources."""
    fits = []
    for metric in (LATENCY, DEVIATION, THROUGHPUT):
        own, *others = (along(results, "sources", name, metric) for name in (DKG, "key", "partial_key"))
        sign = -1 if metric == THROUGHPUT else 1
        fits += [
            sign * mine < min(sign * value for value in theirs)
            for mine, *theirs in zip(own, *others, strict=True)
        ]
    return Judged(all(fits), f"in {sum(fits)} of {len(fits)} figures")


def similar_cost(results: Results) -> Judged:
    """DistCost of KG, PKG and DKG: within a factor of 1.5."""
    found = {name: along(results, "sources", name, COST) for name in ("key", "partial_key", DKG)}
    values = [value for line in found.values() for value in line]
    return Judged(
        max(values) <= 1.5 * min(values),
        "; ".join(f"{label(name)} {', '.join(map(spell, line))}" for name, line in found.items()),
    )


CLAIMS = [
    Claim(
        says="More spouts have no effect on the performance (latency and throughput of every method within "
        "a tenth)",
        where="5.6",
        judge=no_effect,
        because="DKG-60 alone gains 12 per cent from 5 to 15 sources, as much as seeds differ by "
        "(1,243 to 1,419 s with 5): with more sources the hot key gets its next worker "
        "sooner; without the interval sources change nothing",
    ),
    Claim(says="DKG has better latency, StdDev and throughput than KG and PKG", where="5.6", judge=better),
    Claim(
        says="The DistCosts of KG, PKG and DKG are similar (within a factor of 1.5)",
        where="5.6",
        judge=similar_cost,
    ),
]

EXPERIMENT = Experiment(
    name="dynamic_key/fig13",
    label="Fig. 13",
    title="the methods with more and more spouts",
    setting="The figure shows the drawn stream. Medians of three seeds.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=partial(table, x="sources"),
    draw=partial(draw, x="sources", x_label="spouts"),
    size=(9, 6.5),
)
