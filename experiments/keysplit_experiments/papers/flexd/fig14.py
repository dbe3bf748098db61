"""Fig. 14: replication factor at high skew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
from keysplit_experiments.harness.figure import LOOKS, legend
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.flexd import KEYS, MESSAGES, SEEDS, WORKERS
from keysplit_experiments.papers.flexd._balance import ALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPONENT = 3.0
PARTS = 10


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping on ten lengths of the stream."""
    messages = scale.messages(MESSAGES)
    return [
        {"messages": messages, "seed": seed, "so_far": messages * part // PARTS, "grouping": grouping}
        for seed in scale.grid(SEEDS, [1])
        for part in range(1, PARTS + 1)
        for grouping in ALL
    ]


def measure(inputs: Inputs, *, messages: int, seed: int, so_far: int, grouping: str) -> Figures:
    """Simulate one grouping on the first part of the stream."""
    keys = inputs.zipf(EXPONENT, KEYS, messages, seed)[:so_far]
    result = ks.simulate(ks.grouping(grouping, workers=WORKERS, seed=seed), keys, samples=0)
    return figures_of(result, "replication", "relative_imbalance")


def course(results: Results, grouping: str) -> list[float]:
    """List the replication factor by the messages so far."""
    return results.line("so_far", "replication", grouping=grouping)[1]


def straight(values: list[float]) -> float:
    """Return how well a straight line fits: the part of the variance that it explains; 1 if there is none."""
    places = np.arange(len(values))
    spread = float(np.var(values))
    if spread == 0:
        return 1.0
    rest = np.asarray(values) - np.polyval(np.polyfit(places, values, 1), places)
    return 1 - float(np.var(rest)) / spread


def one_choice(results: Results) -> Judged:
    """KG and DAKG: one worker a key, always."""
    most = {grouping: max(course(results, grouping)) for grouping in ("key", "distribution_aware")}
    return Judged(
        max(most.values()) == 1,
        ", ".join(f"{LOOKS[grouping].label} at most {spell(value)}" for grouping, value in most.items()),
    )


def aggressive(results: Results) -> Judged:
    """PStream: more than FlexD from the first to the last part, and twice FlexD's extra copies at the end."""
    theirs, ours = course(results, "pstream"), course(results, "flexd")
    return Judged(
        all(other > own for other, own in zip(theirs, ours, strict=True))
        and theirs[-1] - 1 >= 2 * (ours[-1] - 1),
        f"PStream {spell(theirs[0])} to {spell(theirs[-1])}, FlexD {spell(ours[0])} to {spell(ours[-1])}",
    )


def linear(results: Results) -> Judged:
    """Dalton: a straight line explains nine tenths of the variance, or it changes by less than 1 per cent."""
    line = course(results, "dalton")
    return Judged(
        straight(line) >= 0.9 or max(line) <= 1.01 * min(line),
        f"{spell(line[0])} to {spell(line[-1])}, a straight line explains {spell(straight(line))}",
    )


def balanced(results: Results) -> Judged:
    """FlexD: at the end an imbalance of 0.1 at most."""
    at_end = results.where(so_far=max(results.values("so_far")))
    ours = at_end.median("relative_imbalance", grouping="flexd")
    return Judged(ours <= 0.1, spell(ours))


CLAIMS = [
    Claim(
        says="The 1-choice groupings KG and DAKG keep a replication factor of 1",
        where="6.2",
        paper="1",
        judge=one_choice,
        because="a key's worker may change once, after the 10,000 messages that DAKG learns from, which "
        "are routed by hash; the authors' program drops them",
    ),
    Claim(
        says="PStream is more aggressive than FlexD (more in every part; at the end at least twice the "
        "extra copies)",
        where="6.2",
        judge=aggressive,
    ),
    Claim(
        says="Dalton's replication factor is usually linear (a straight line explains nine tenths of its "
        "variance, or it is flat)",
        where="6.2",
        judge=linear,
        because="it is flat except at the start: our factor is over all keys so far, and rare ones, which "
        "come late, have one worker each",
    ),
    Claim(
        says="FlexD maintains a good balance with it (load imbalance of 0.1 at most)",
        where="6.2",
        judge=balanced,
    ),
]


def table(results: Results) -> Table:
    """Replication factor by the messages so far."""
    rows = [[LOOKS[grouping].label, *course(results, grouping)] for grouping in ALL]
    return Table(["grouping", *(f"{so_far:,}" for so_far in results.values("so_far"))], rows)


def draw(figure: Figure, results: Results) -> None:
    """Replication factor by the messages so far."""
    axes = figure.subplots()
    for grouping in ALL:
        axes.plot(*results.line("so_far", "replication", grouping=grouping), **LOOKS[grouping].line())
    axes.set_xlabel("messages so far")
    axes.set_ylabel("replication factor")
    legend(figure)


EXPERIMENT = Experiment(
    name="flexd/fig14",
    label="Fig. 14",
    title="replication factor at high skew (z = 3.0)",
    setting="The number of workers that a key has met so far, on average.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(8, 4),
    version=2,
)
