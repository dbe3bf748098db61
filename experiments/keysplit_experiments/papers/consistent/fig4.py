"""Fig. 4: imbalance and memory of schemes that share out messages to virtual workers, as the skew grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale, steps
from keysplit_experiments.harness.figure import LOOKS, legend, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Entry, Table, spell
from keysplit_experiments.papers.consistent._balance import (
    ALLOCATIONS,
    allocation,
    balance,
    label,
    name_axes,
    per_key,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MESSAGES = 10_000_000
KEYS = 100_000
EPSILON = 0.3
BINS = [10, 100, 1000]
SHOWN = [0.4, 0.8, 1.2, 1.6, 2.0]
"""Skews of the table, and of a quick run."""


def cells(scale: Scale) -> list[Parameters]:
    """Every scheme on every skew and number of virtual workers."""
    return [
        {"exponent": exponent, "messages": scale.messages(MESSAGES), "bins": bins, "grouping": grouping}
        for exponent in scale.grid(steps(0.1, 2.0, 0.1), SHOWN)
        for bins in BINS
        for grouping in ALLOCATIONS
    ]


def measure(inputs: Inputs, *, exponent: float, messages: int, bins: int, grouping: str) -> Figures:
    """Simulate one scheme."""
    return balance(allocation(grouping, bins, EPSILON, seed=1), inputs.zipf(exponent, KEYS, messages, seed=1))


def high(results: Results) -> Judged:
    """Hashing and PKG: the imbalance at the smallest and the largest skew and number of virtual workers."""
    found = []
    for grouping in ("key", "partial_key"):
        lines = {
            bins: results.line("exponent", "relative_imbalance", grouping=grouping, bins=bins)[1]
            for bins in BINS
        }
        by_skew = all(line[0] < line[-1] for line in lines.values())
        by_bins = [line[-1] for line in lines.values()]
        found.append((by_skew and by_bins == sorted(by_bins), by_bins))
    return Judged(
        all(grows for grows, _ in found),
        "z = 2: " + "; ".join(", ".join(map(spell, by_bins)) for _, by_bins in found),
    )


def fair(results: Results) -> Judged:
    """The others: at most epsilon, and a message, above the mean."""
    most = {}
    for grouping in ("power_of_two", "power_of_random", "bounded_ring", "shuffle"):
        beyond = [
            cell.figures["relative_imbalance"] - 5 * cell.parameters["bins"] / cell.figures["messages"]
            for cell in results.where(grouping=grouping)
        ]
        most[label(grouping)] = max(beyond)
    return Judged(
        max(most.values()) <= EPSILON,
        "; ".join(f"{name} {spell(max(value, 0.0))}" for name, value in most.items()),
    )


def at_a_cost(results: Results) -> Judged:
    """Memory on 100 and 1000 virtual workers: KG's the least, SG's the most, PoRC's and CH's between."""
    fits = []
    for exponent in results.values("exponent"):
        for bins in BINS[1:]:
            one = results.where(exponent=exponent, bins=bins)
            few, many = one.one("memory", grouping="key"), one.one("memory", grouping="shuffle")
            between = [one.one("memory", grouping=name) for name in ("power_of_random", "bounded_ring")]
            fits.append(few <= min(between) and max(between) < many)
    copies = [
        f"{label(name)} {spell(per_key(results, exponent=SHOWN[2], bins=BINS[-1], grouping=name))}"
        for name in ALLOCATIONS
    ]
    return Judged(all(fits), f"copies of a key at z = {SHOWN[2]} on {BINS[-1]:,}: {', '.join(copies)}")


CLAIMS = [
    Claim(
        says="Hashing and PKG are badly out of balance as the skew and the number of virtual workers grow "
        "(more at z = 2 than at the least skew; at z = 2 more on more virtual workers)",
        where="5.1",
        judge=high,
    ),
    Claim(
        says="The other schemes perform well (the largest load at most 0.3 above the mean, and five "
        "messages)",
        where="5.1",
        judge=fair,
    ),
    Claim(
        says="Balance is paid for with memory (on 100 and 1000: H at most PoRC and CH, these less than SG)",
        where="5.1",
        judge=at_a_cost,
    ),
]


def table(results: Results) -> Table:
    """Imbalance and copies of a key at some skews."""
    exponents = [exponent for exponent in results.values("exponent") if exponent in SHOWN]
    rows: list[Sequence[Entry]] = []
    for bins in BINS:
        for grouping in ALLOCATIONS:
            chosen = results.where(bins=bins, grouping=grouping)
            imbalances = [chosen.one("relative_imbalance", exponent=exponent) for exponent in exponents]
            copies = [per_key(chosen, exponent=exponent) for exponent in exponents[::2]]
            rows.append([bins, label(grouping), *imbalances, *copies])
    heads = [f"imbalance, z = {z}" for z in exponents] + [f"copies, z = {z}" for z in exponents[::2]]
    return Table(["virtual workers", "scheme", *heads], rows)


def draw(figure: Figure, results: Results) -> None:
    """Imbalance above, memory below, over the skew: a column a number of virtual workers."""
    titles = [f"{bins:,} virtual workers" for bins in BINS]
    plots = panels(figure, titles * 2, len(BINS), x="skew z", share_y=False)
    for place, bins in enumerate(BINS):
        above, below = plots[place], plots[place + len(BINS)]
        for grouping in ALLOCATIONS:
            xs, imbalances = results.line("exponent", "relative_imbalance", bins=bins, grouping=grouping)
            above.plot(xs, imbalances, **LOOKS[grouping].line())
            xs, memories = results.line("exponent", "memory", bins=bins, grouping=grouping)
            below.plot(xs, memories, **LOOKS[grouping].line())
        name_axes(above, "normalized imbalance")
        name_axes(below, "keys, over all workers")
    legend(figure)


EXPERIMENT = Experiment(
    name="consistent/fig4",
    label="Fig. 4",
    title="imbalance and memory of schemes for virtual workers, over the skew",
    setting="Zipf streams of 10,000,000 messages and 100,000 keys. Epsilon 0.3 for PoRC and CH, as in Table "
    "1. H is KG.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(10, 6),
)
