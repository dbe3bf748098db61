"""Table 3: the four methods on twitter-election."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.table import Entry, Table, spell, with_paper
from keysplit_experiments.papers.dynamic_key import DKG, GROUPINGS, METHODS, WORKERS
from keysplit_experiments.papers.dynamic_key._performance import (
    ELECTION,
    METRICS,
    election,
    label,
    method,
    name_stream,
    on_election,
    performance,
)

PAPERS = {
    "shuffle": (559.329, 0.0001, 2.4491, 9511),
    "key": (3955.045, 20.3202, 1.0, 1344),
    "partial_key": (1941.879, 12.3513, 1.1647, 2739),
    DKG: (1174.979, 4.0972, 1.2414, 4529),
}
"""The paper's table, in the order of METRICS."""

LIKE = ELECTION.symbol


def cells(scale: Scale) -> list[Parameters]:
    """Every method on every stream."""
    return [
        {**stream, "grouping": grouping, "seed": seed}
        for stream in election(scale)
        for grouping in GROUPINGS
        for seed in scale.grid([1, 2, 3, 4, 5], [1, 2, 3])
    ]


@on_election
def measure(keys: Any, *, grouping: str, seed: int) -> Figures:
    """Simulate one method."""
    return performance(method(grouping, WORKERS, seed), keys, ELECTION.messages)


def near(grouping: str, factor: float, metrics: Sequence[str]) -> Callable[[Results], Judged]:
    """Judge whether our figures are the paper's within a factor."""
    papers = dict(zip(METRICS, PAPERS[grouping], strict=True))

    def judge(results: Results) -> Judged:
        found = {name: results.median(name, like=LIKE, grouping=grouping) for name in metrics}
        fits = all(papers[name] / factor <= value <= papers[name] * factor for name, value in found.items())
        return Judged(fits, "; ".join(map(spell, found.values())))

    return judge


def balanced(results: Results) -> Judged:
    """SG: next to no deviation."""
    found = results.median("load_stddev", like=LIKE, grouping="shuffle")
    return Judged(found <= 0.001, spell(found))


def order(results: Results) -> Judged:
    """The methods: the order of the paper's table in every metric."""
    fits = []
    for place, metric in enumerate(METRICS):
        ranked = sorted(METHODS, key=lambda name, place=place: PAPERS[name][place])  # type: ignore[misc]
        values = [results.median(metric, like=LIKE, grouping=name) for name in ranked]
        fits.append(values == sorted(values))
    return Judged(all(fits), f"in {sum(fits)} of {len(fits)} metrics")


TIMES = ["makespan_s", "throughput_per_s"]

CLAIMS = [
    Claim(
        says="The methods stand in the order of the table in latency, StdDev, DistCost and throughput",
        where="Table 3",
        judge=order,
    ),
    Claim(says="SG: StdDev (at most 0.001)", where="Table 3", paper="0.0001", judge=balanced),
    Claim(
        says="KG: latency, throughput, StdDev (within a tenth)",
        where="Table 3",
        paper="3955; 1344; 20.32",
        judge=near("key", 1.1, [*TIMES, "load_stddev"]),
    ),
    Claim(
        says="PKG: latency, throughput, StdDev (within a tenth)",
        where="Table 3",
        paper="1942; 2739; 12.35",
        judge=near("partial_key", 1.1, [*TIMES, "load_stddev"]),
    ),
    Claim(
        says="PKG: DistCost (within a tenth)",
        where="Table 3",
        paper="1.16",
        judge=near("partial_key", 1.1, ["replication"]),
        because="it depends on the other keys, which the paper does not describe: with flatter ones "
        "(shares of (i + 100)**-1.64) SG's is 2.45, PKG's 1.17 and DKG's 1.24, and the other "
        "figures stay within a tenth but DKG-60's latency and throughput, 1300 s",
    ),
    Claim(
        says="DKG-60: latency, throughput, StdDev (within a tenth)",
        where="Table 3",
        paper="1175; 4529; 4.10",
        judge=near(DKG, 1.1, [*TIMES, "load_stddev"]),
        because="StdDev is within a tenth and the time is not: it depends on how soon the hot key has "
        "its workers. Our five seeds take 1,191 to 1,473 s, DKG without the interval 870; the "
        "paper reports one run",
    ),
    Claim(
        says="DKG-60: DistCost (within a tenth)",
        where="Table 3",
        paper="1.24",
        judge=near(DKG, 1.1, ["replication"]),
    ),
]


def table(results: Results) -> Table:
    """Ours, and the paper's in parentheses."""
    rows: list[Sequence[Entry]] = []
    for stream in ({"like": LIKE}, {"stream": LIKE}):
        for grouping in GROUPINGS:
            one = results.where(**stream, grouping=grouping)
            ours = [one.median(name) for name in METRICS]
            paper = PAPERS.get(grouping, ()) if "like" in stream else ()
            rows.append([name_stream(stream), label(grouping), *with_paper(ours, paper)])
    return Table(["stream", "method", *METRICS.values()], rows)


EXPERIMENT = Experiment(
    name="dynamic_key/table3",
    label="Table 3",
    title="the four methods on twitter-election",
    setting="Medians of five seeds of the hashes. The paper's figures are in parentheses.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
)
