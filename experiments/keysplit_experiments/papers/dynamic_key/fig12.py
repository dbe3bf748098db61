"""Fig. 12: the methods with more and more workers."""

from __future__ import annotations

from functools import partial

from keysplit_experiments.harness import Claim, Experiment, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.table import spell
from keysplit_experiments.papers.dynamic_key import DKG, GROUPINGS, METHODS, SOURCES
from keysplit_experiments.papers.dynamic_key._election import along, draw, measure, table
from keysplit_experiments.papers.dynamic_key._performance import (
    METRICS,
    election,
    label,
)

LATENCY, DEVIATION, COST, THROUGHPUT = METRICS
OTHERS = [name for name in METHODS if name != "shuffle"]


def cells(scale: Scale) -> list[Parameters]:
    """Every method on every number of workers, on both streams."""
    return [
        {**stream, "workers": workers, "sources": SOURCES, "grouping": grouping, "seed": seed}
        for stream in election(scale)
        for workers in (10, 50, 100)
        for grouping in GROUPINGS
        for seed in scale.grid([1, 2, 3], [1])
    ]


def lines(results: Results, metric: str) -> dict[str, list[float]]:
    """List a metric over the workers, by method."""
    return {name: along(results, "workers", name, metric) for name in METHODS}


def words(found: dict[str, list[float]], names: list[str]) -> str:
    """Tell the figures of some methods."""
    return "; ".join(f"{label(name)} {', '.join(map(spell, found[name]))}" for name in names)


def same_latency(results: Results, names: list[str]) -> Judged:
    """The latency of some methods: within a quarter from 10 to 100 workers."""
    found = lines(results, LATENCY)
    return Judged(
        all(max(found[name]) <= 1.25 * min(found[name]) for name in names), words(found, names) + " s"
    )


def ranks(results: Results) -> Judged:
    """Latency on every number of workers: KG, PKG, DKG, SG."""
    found = lines(results, LATENCY)
    fits = all(
        kg > pkg > dkg > sg
        for kg, pkg, dkg, sg in zip(
            *(found[name] for name in ("key", "partial_key", DKG, "shuffle")), strict=True
        )
    )
    return Judged(fits, words(found, METHODS) + " s")


def deviations(results: Results) -> Judged:
    """StdDev: falls for all; KG's the highest, SG's the lowest, DKG's at most half of PKG's."""
    found = lines(results, DEVIATION)
    falls = all(found[name] == sorted(found[name], reverse=True) for name in OTHERS)
    ranked = all(
        kg >= max(pkg, dkg, sg) and sg <= min(kg, pkg, dkg) and dkg <= pkg / 2
        for kg, pkg, dkg, sg in zip(
            *(found[name] for name in ("key", "partial_key", DKG, "shuffle")), strict=True
        )
    )
    return Judged(falls and ranked, words(found, OTHERS))


def costs(results: Results) -> Judged:
    """DistCost: SG's the highest; the others' close to each other and stable."""
    found = lines(results, COST)
    highest = all(values[0] == max(values) for values in zip(*(found[name] for name in METHODS), strict=True))
    close = [value for name in OTHERS for value in found[name]]
    return Judged(highest and max(close) <= 2 * min(close), words(found, METHODS))


def flat_throughput(results: Results) -> Judged:
    """Throughput: SG's the highest; the others' gain little from 10 to 100 workers."""
    found = lines(results, THROUGHPUT)
    gains = {name: found[name][-1] / found[name][0] for name in METHODS}
    fits = all(gains[name] <= gains["shuffle"] / 2 for name in OTHERS)
    return Judged(
        fits and all(values[0] == max(values) for values in zip(*found.values(), strict=True)),
        "100 over 10 workers: " + ", ".join(f"{label(name)} {spell(gain)}" for name, gain in gains.items()),
    )


CLAIMS = [
    Claim(
        says="Latencies of KG and PKG hardly change with the number of workers (10, 50, 100: within a "
        "quarter)",
        where="5.5",
        judge=partial(same_latency, names=["key", "partial_key"]),
    ),
    Claim(
        says="DKG's latency hardly changes, it rises slightly (within a quarter)",
        where="5.5",
        judge=partial(same_latency, names=[DKG]),
        because="it rises by a third: on 100 workers the hot key, 68 per cent of the messages, needs "
        "34 workers and gets at most one per minute and source; without that interval the "
        "time falls, to a third on 100 workers",
    ),
    Claim(
        says="KG's latency is the highest, DKG's is below PKG's, SG's is the lowest", where="5.5", judge=ranks
    ),
    Claim(
        says="StdDev falls with more workers for KG, PKG and DKG; KG's is the highest, SG's the lowest, "
        "DKG's much below PKG's (at most half)",
        where="5.5",
        judge=deviations,
    ),
    Claim(
        says="SG's DistCost is the highest, the others' are close and stable (all within a factor of 2)",
        where="5.5",
        judge=costs,
    ),
    Claim(
        says="SG's throughput is the highest; the others' hardly gain (from 10 to 100 workers at "
        "most half of SG's gain)",
        where="5.5",
        judge=flat_throughput,
    ),
]

EXPERIMENT = Experiment(
    name="dynamic_key/fig12",
    label="Fig. 12",
    title="the methods with more and more workers",
    setting="The figure shows the drawn stream. Medians of three seeds.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=partial(table, x="workers"),
    draw=partial(draw, x="workers", x_label="workers"),
    size=(9, 6.5),
)
