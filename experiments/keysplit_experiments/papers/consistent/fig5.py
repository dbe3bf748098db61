"""Fig. 5: imbalance and memory of CG over epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keysplit as ks
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, legend, panels
from keysplit_experiments.harness.table import Entry, Table, spell
from keysplit_experiments.papers.consistent import EPSILON, VIRTUAL_WORKERS
from keysplit_experiments.papers.consistent._balance import balance, name_axes, per_key
from keysplit_experiments.papers.consistent._streams import drawn, named, on_stream, real

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKERS = 10
EPSILONS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]


def cells(scale: Scale) -> list[Parameters]:
    """CG with every epsilon, next to KG and SG, on every stream."""
    return [
        {**stream, "grouping": grouping, "epsilon": epsilon}
        for stream in (drawn(scale, "WP"), real(scale, "WP"))
        for grouping, epsilon in [
            ("key", None),
            ("shuffle", None),
            *(("consistent", epsilon) for epsilon in EPSILONS),
        ]
    ]


@on_stream
def measure(keys: Any, *, grouping: str, epsilon: float | None) -> Figures:
    """Simulate one grouping."""
    if epsilon is None:
        params = ks.grouping(grouping, workers=WORKERS, seed=1)
    else:
        params = ks.ConsistentGrouping(
            workers=WORKERS, seed=1, virtual_workers=VIRTUAL_WORKERS, epsilon=epsilon
        )
    return balance(params, keys)


def trade_off(results: Results) -> Judged:
    """A larger epsilon: less memory, more imbalance, from one end to the other."""
    fits, words = [], []
    for name, stream in named(results):
        chosen = results.where(**stream, grouping="consistent")
        _, imbalances = chosen.line("epsilon", "relative_imbalance")
        _, memories = chosen.line("epsilon", "memory")
        fits.append(imbalances[0] < EPSILON <= imbalances[-1] and memories == sorted(memories, reverse=True))
        words.append(
            f"{name}: imbalance {spell(imbalances[0])} to {spell(imbalances[-1])}, copies "
            f"{spell(per_key(chosen, epsilon=EPSILONS[0]))} to {spell(per_key(chosen, epsilon=EPSILONS[-1]))}"
        )
    return Judged(all(fits), "; ".join(words))


def interpolates(results: Results) -> Judged:
    """CG's imbalance and memory: between those of KG and SG."""
    outside = 0
    for _, stream in named(results):
        chosen = results.where(**stream)
        for figure in ("relative_imbalance", "memory"):
            ends = sorted(chosen.one(figure, grouping=name) for name in ("key", "shuffle"))
            outside += sum(
                not ends[0] <= value <= ends[1] for value in chosen.all(figure, grouping="consistent")
            )
    return Judged(outside == 0, f"{outside} figures outside")


CLAIMS = [
    Claim(
        says="CG has a low imbalance at low epsilon (below 0.01) and little memory at high epsilon (the "
        "memory falls all the way)",
        where="7.2, Q1",
        judge=trade_off,
    ),
    Claim(
        says="CG interpolates between KG and SG (no figure outside theirs)",
        where="7.2, Q1",
        judge=interpolates,
    ),
]


def table(results: Results) -> Table:
    """Imbalance and copies of a key, by epsilon."""
    rows: list[Sequence[Entry]] = []
    for name, stream in named(results):
        for cell in results.where(**stream):
            parameters = cell.parameters
            copies = per_key(
                results, **stream, grouping=parameters["grouping"], epsilon=parameters["epsilon"]
            )
            what = LOOKS[parameters["grouping"]].label
            rows.append([name, what, parameters["epsilon"], cell.figures["relative_imbalance"], copies])
    return Table(["stream", "grouping", "epsilon", "imbalance", "copies"], rows)


def draw(figure: Figure, results: Results) -> None:
    """Imbalance and memory over epsilon, KG and SG as lines: a row a stream."""
    streams = named(results)
    titles = [f"{what}, {name}" for name, _ in streams for what in ("imbalance", "memory")]
    plots = panels(figure, titles, 2, x="epsilon", share_y=False)
    for place, (_, stream) in enumerate(streams):
        chosen = results.where(**stream)
        for axes, what in zip(plots[2 * place :], ("relative_imbalance", "memory"), strict=False):
            axes.plot(*chosen.line("epsilon", what, grouping="consistent"), **LOOKS["consistent"].line())
            for grouping in ("key", "shuffle"):
                value = chosen.one(what, grouping=grouping)
                if value > 0:
                    look = LOOKS[grouping]
                    axes.axhline(value, color=look.color, linestyle=look.dash, label=look.label)
            axes.set_xscale("log")
            name_axes(axes, "normalized imbalance" if what != "memory" else "keys, over all workers")
    legend(figure)


EXPERIMENT = Experiment(
    name="consistent/fig5",
    label="Fig. 5",
    title="imbalance and memory of CG over epsilon",
    setting="Ten equal workers. The paper does not say which epsilons.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(8, 6),
)
