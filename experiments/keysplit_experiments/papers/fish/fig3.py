"""Fig. 3: memory of the groupings before FISH, on movie reviews."""

from __future__ import annotations

from typing import TYPE_CHECKING

import keysplit as ks
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Results, figures_of
from keysplit_experiments.harness.figure import bars, legend
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.fish import SOURCES, WORKERS
from keysplit_experiments.papers.fish._reviews import SERIES, by_workers, cells, look, params_of
from keysplit_experiments.papers.fish._runs import keys_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def measure(inputs: Inputs, *, stream: str, seed: int, messages: int, workers: int, series: str) -> Figures:
    """Simulate one grouping; FG keeps every key once, so that the replication is the memory over FG's."""
    keys = keys_of(inputs, messages, seed, stream=stream)
    result = ks.simulate(params_of(series, workers, seed), keys, sources=SOURCES, samples=0)
    return figures_of(result, "replication", "distinct_keys", "messages")


def little(results: Results) -> Judged:
    """FG: one copy of every key."""
    most = max(by_workers(results, "FG", "replication"))
    return Judged(most == 1, spell(most))


def highest(results: Results) -> Judged:
    """SG: the largest memory on every number of workers."""
    found = {series: by_workers(results, series, "replication") for series in SERIES}
    worst = [max(values) for values in zip(*found.values(), strict=True)]
    return Judged(
        found["SG"] == worst,
        f"{spell(found['SG'][-1])} times, with "
        f"{results.all('messages')[0] / results.all('distinct_keys')[0]:.1f} messages per key",
    )


def as_shuffle(results: Results) -> Judged:
    """With 100 counters: at least half of SG's memory on every number of workers."""
    all_workers = by_workers(results, "SG", "replication")
    parts = {
        series: [
            own / most
            for own, most in zip(by_workers(results, series, "replication"), all_workers, strict=True)
        ]
        for series in ("D-C100", "W-C100")
    }
    return Judged(
        all(part >= 0.5 for line in parts.values() for part in line),
        "; ".join(f"{series} {', '.join(map(spell, line))} of SG's" for series, line in parts.items()),
    )


def grows(results: Results) -> Judged:
    """SG, D-C100 and W-C100: at least twice the memory on 128 workers as on 16."""
    found = {series: by_workers(results, series, "replication") for series in ("SG", "D-C100", "W-C100")}
    return Judged(
        all(line[-1] >= 2 * line[0] for line in found.values()),
        "; ".join(f"{series} {spell(line[0])} to {spell(line[-1])}" for series, line in found.items()),
    )


CLAIMS = [
    Claim(says="FG has little memory overhead: every key once", where="2.3", judge=little),
    Claim(
        says="SG needs the most memory (on every number of workers; ours: times FG's on 128)",
        where="2.3",
        paper="up to 23.16 times, with 31.6 messages per key",
        judge=highest,
    ),
    Claim(
        says="D-C100 and W-C100 are similar to SG (at least half of its memory)",
        where="2.3",
        judge=as_shuffle,
        because="with 100 counters the smallest has a hundredth of the messages, so on 32 workers and "
        "more every key passes for hot. W-C then equals SG, but D-C's rule gives a hundred "
        "keys of a hundredth each only 5 or 6 of 128 workers. On 16 workers the threshold, "
        "1/80, is above that",
    ),
    Claim(
        says="Their memory increases significantly with the workers (from 16 to 128 at least twice)",
        where="2.3",
        judge=grows,
        because="with 11 messages per key SG cannot spread a rare key much further than over 16 workers; for "
        "D-C100 see the claim before",
    ),
]


def table(results: Results) -> Table:
    """Memory over that of FG."""
    rows = [[series, *by_workers(results, series, "replication")] for series in SERIES]
    return Table(["memory / FG's", *(f"n = {workers}" for workers in WORKERS)], rows)


def draw(figure: Figure, results: Results) -> None:
    """Memory by workers."""
    axes = figure.subplots()
    bars(axes, WORKERS, [(look(series), by_workers(results, series, "replication")) for series in SERIES])
    axes.set_xlabel("workers")
    axes.set_ylabel("memory / FG's")
    legend(figure)


EXPERIMENT = Experiment(
    name="fish/fig3",
    label="Fig. 3",
    title="memory of the groupings before FISH, on movie reviews",
    setting="The groupings of section 2.3, D-C and W-C with 100 and with 1000 counters: copies of a key "
    "over those of FG.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(8, 3.5),
)
