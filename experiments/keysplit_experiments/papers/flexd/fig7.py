"""Fig. 7: FlexD by its growth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import keysplit as ks
from keysplit_experiments.harness import (
    Claim,
    Experiment,
    Figures,
    Judged,
    Parameters,
    Results,
    Scale,
    figures_of,
)
from keysplit_experiments.harness.figure import legend, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.flexd import EXPONENTS, KEYS, MESSAGES, SEEDS, WORKERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROWTHS = [1.1, 1.25, 1.5, 2.0, 3.0, 5.0]
DEFAULT = 1.5
MARGIN = 0.01
"""By which one growth is better than another: in load imbalance, or as a part of the copies."""


def cells(scale: Scale) -> list[Parameters]:
    """FlexD with every growth on every stream."""
    return [
        {"exponent": exponent, "messages": scale.messages(MESSAGES), "seed": seed, "growth": growth}
        for exponent in EXPONENTS
        for seed in scale.grid(SEEDS, [1])
        for growth in GROWTHS
    ]


def measure(inputs: Inputs, *, exponent: float, messages: int, seed: int, growth: float) -> Figures:
    """Simulate FlexD."""
    params = ks.FlexD(workers=WORKERS, seed=seed, growth=growth)
    result = ks.simulate(params, inputs.zipf(exponent, KEYS, messages, seed), samples=0)
    return figures_of(result, "relative_imbalance", "replication")


def ends(results: Results, figure: str) -> dict[float, tuple[float, float]]:
    """Return a figure with the smallest and with the largest growth, by skew, from z = 1.5 on."""
    return {
        exponent: (
            results.median(figure, exponent=exponent, growth=GROWTHS[0]),
            results.median(figure, exponent=exponent, growth=GROWTHS[-1]),
        )
        for exponent in EXPONENTS[1:]
    }


def spell_ends(found: dict[float, tuple[float, float]]) -> str:
    """Format figures with the smallest and with the largest growth."""
    return "; ".join(f"z = {z}: {spell(low)} and {spell(high)}" for z, (low, high) in found.items())


def balances(results: Results) -> Judged:
    """The smallest growth: a lower imbalance than with the largest at every skew from 1.5 on."""
    found = ends(results, "relative_imbalance")
    return Judged(all(low < high for low, high in found.values()), spell_ends(found))


def splits(results: Results) -> Judged:
    """The smallest growth: more copies than with the largest at every skew from 1.5 on."""
    found = ends(results, "replication")
    return Judged(all(low > high for low, high in found.values()), spell_ends(found))


def coordinates(results: Results) -> Judged:
    """1.5: at no skew is another growth better by a margin in one metric, and no worse in the other."""
    beaten = []
    for exponent in EXPONENTS:
        imbalance, copies = (
            {growth: results.median(name, exponent=exponent, growth=growth) for growth in GROWTHS}
            for name in ("relative_imbalance", "replication")
        )
        for growth in GROWTHS:
            less = imbalance[DEFAULT] - imbalance[growth], 1 - copies[growth] / copies[DEFAULT]
            if max(less) > MARGIN and min(less) > -MARGIN / 10:
                beaten.append(f"{growth} at z = {exponent}")
    return Judged(not beaten, "beaten by " + ", ".join(beaten) if beaten else "at none of the skews")


CLAIMS = [
    Claim(
        says="A smaller growth balances better (1.1 against 5, z = 1.5 to 3: imbalance (max - mean) / mean)",
        where="6",
        judge=balances,
    ),
    Claim(says="And it splits more (1.1 against 5, z = 1.5 to 3: copies of a key)", where="6", judge=splits),
    Claim(
        says="1.5 coordinates the two best (no other growth is better in one by more than 0.01 or 1 per "
        "cent, and as good in the other)",
        where="6",
        judge=coordinates,
        because="FlexD is even with every growth up to 2.0, and 2.0 splits 2 to 3 per cent less at z "
        "= 2.5 and 3.0; 3.0 splits 1.5 per cent less at z = 2.0, but is out of balance at 2.5 "
        "and 3.0",
    ),
]


def table(results: Results) -> Table:
    """Both metrics."""
    rows = [
        [
            growth,
            *(
                results.median(figure, exponent=exponent, growth=growth)
                for figure in ("relative_imbalance", "replication")
                for exponent in EXPONENTS
            ),
        ]
        for growth in GROWTHS
    ]
    heads = [f"{name}, z = {z}" for name in ("imbalance", "replication") for z in EXPONENTS]
    return Table(["growth", *heads], rows)


def draw(figure: Figure, results: Results) -> None:
    """Both metrics over the growth."""
    plots = panels(figure, ["load imbalance", "replication factor"], 2, x="growth", share_y=False)
    for axes, name in zip(plots, ("relative_imbalance", "replication"), strict=True):
        for exponent in EXPONENTS:
            axes.plot(*results.line("growth", name, exponent=exponent), marker="o", label=f"z = {exponent}")
        axes.set_xscale("log")
        axes.set_xticks(GROWTHS, [str(growth) for growth in GROWTHS])
        axes.minorticks_off()
    legend(figure)


EXPERIMENT = Experiment(
    name="flexd/fig7",
    label="Fig. 7",
    title="load imbalance and replication factor of FlexD by its growth",
    setting="The growth varies.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(9, 3.8),
    version=2,
)
