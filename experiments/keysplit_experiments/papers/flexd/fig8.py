"""Fig. 8: throughput as the skew grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import keysplit as ks
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Results
from keysplit_experiments.harness.figure import LOOKS, legend
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.flexd import EXPONENTS, KEYS, WORKERS
from keysplit_experiments.papers.flexd._balance import ALL, spell_by, zipf_cells

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SERVICE_TIME_S = 0.001
SECONDS = 60


def measure(inputs: Inputs, *, exponent: float, messages: int, seed: int, grouping: str) -> Figures:
    """Simulate one grouping in time."""
    result = ks.simulate(
        ks.grouping(grouping, workers=WORKERS, seed=seed),
        inputs.zipf(exponent, KEYS, messages, seed),
        service_time_s=SERVICE_TIME_S,
        samples=0,
    )
    if result.throughput_per_s is None:
        raise ValueError("a simulation with a timing model must report the throughput")
    return {"throughput_per_minute": SECONDS * result.throughput_per_s, "replication": result.replication}


def throughputs(results: Results) -> dict[str, list[float]]:
    """List the throughput by skew, of every grouping."""
    return {
        grouping: results.line("exponent", "throughput_per_minute", grouping=grouping)[1] for grouping in ALL
    }


def highest(results: Results) -> Judged:
    """FlexD: the highest throughput at every skew, or within 1 per cent of it."""
    found = throughputs(results)
    parts = [
        own / max(others)
        for own, others in zip(found["flexd"], zip(*found.values(), strict=True), strict=True)
    ]
    return Judged(min(parts) >= 0.99, "times the highest: " + ", ".join(map(spell, parts)))


def learned_lowest(results: Results) -> Judged:
    """DAKG: the lowest throughput at every skew, or within 1 per cent of it."""
    found = throughputs(results)
    parts = [
        own / min(others)
        for own, others in zip(found["distribution_aware"], zip(*found.values(), strict=True), strict=True)
    ]
    return Judged(max(parts) <= 1.01, "times the lowest: " + ", ".join(map(spell, parts)))


def falls(results: Results) -> Judged:
    """Most groupings: a lower throughput at the largest skew than at the smallest, by 1 per cent at least."""
    parts = {grouping: line[-1] / line[0] for grouping, line in throughputs(results).items()}
    return Judged(
        sum(part <= 0.99 for part in parts.values()) > len(parts) / 2,
        "largest / smallest skew: " + spell_by(parts),
    )


def stable(results: Results) -> Judged:
    """FlexD: the smallest fall from the best to the worst skew of all, or within 1 per cent of it."""
    parts = {grouping: min(line) / max(line) for grouping, line in throughputs(results).items()}
    return Judged(parts["flexd"] >= 0.99 * max(parts.values()), "worst / best skew: " + spell_by(parts))


CLAIMS = [
    Claim(
        says="FlexD has the highest throughput (every skew, or within 1 per cent of it)",
        where="6.2",
        judge=highest,
    ),
    Claim(
        says="DAKG has the lowest (every skew, or within 1 per cent of it)",
        where="6.2",
        judge=learned_lowest,
        because="in a simulation learning takes no time; the paper puts DKG's throughput down to its "
        "lack of parallel processing",
    ),
    Claim(
        says="Most lose throughput as the skew grows (more than half of the groupings, z = 3 against z = "
        "1, by 1 per cent or more)",
        where="6.2",
        judge=falls,
    ),
    Claim(
        says="FlexD is the most stable (least fall from the best to the worst skew, or within 1 per cent "
        "of it)",
        where="6.2",
        judge=stable,
    ),
]


def table(results: Results) -> Table:
    """Throughput, and the copies of a key."""
    rows = [
        [
            LOOKS[grouping].label,
            *results.line("exponent", "throughput_per_minute", grouping=grouping)[1],
            *results.line("exponent", "replication", grouping=grouping)[1],
        ]
        for grouping in ALL
    ]
    heads = [f"{name}, z = {z}" for name in ("a minute", "replication") for z in EXPONENTS]
    return Table(["grouping", *heads], rows)


def draw(figure: Figure, results: Results) -> None:
    """Throughput over the skew."""
    axes = figure.subplots()
    for grouping, line in throughputs(results).items():
        axes.plot(EXPONENTS, [value / 1000 for value in line], **LOOKS[grouping].line())
    axes.set_xlabel("skew z")
    axes.set_ylabel("thousand messages a minute")
    axes.set_ylim(bottom=0)
    legend(figure)


EXPERIMENT = Experiment(
    name="flexd/fig8",
    label="Fig. 8",
    title="throughput as the skew grows",
    setting="A message takes a worker 1 ms, and at most 100 messages per worker are in flight, which the "
    "paper leaves open: 480,000 messages per minute if all workers are busy. Merging the copies of "
    "a key takes no time here.",
    cells=zipf_cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(8, 4),
    version=2,
)
