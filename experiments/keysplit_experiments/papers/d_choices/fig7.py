"""Fig. 7: imbalance of W-Choices and Round-Robin by the threshold of the head."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import keysplit as ks
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, legend, logarithmic, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.d_choices import EXPONENTS, FEW_EXPONENTS, KEYS, MESSAGES, balance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLDS = {"2/n": 2.0, "1/n": 1.0, "1/(2n)": 0.5, "1/(4n)": 0.25, "1/(8n)": 0.125}
"""In shares of a worker's part 1/n, from the largest."""
WORKERS = [5, 10, 50, 100]
GROUPINGS = ["w_choices", "round_robin"]
COLORS = ["#440154", "#3b528b", "#21918c", "#5ec962", "#c9b800"]
IDEAL = 1e-4
"""The end imbalance up to which a stream counts as ideally balanced: the tolerance of D-Choices."""


def cells(scale: Scale) -> list[Parameters]:
    """Both groupings with every threshold on every stream and number of workers."""
    return [
        {
            "exponent": exponent,
            "seed": seed,
            "messages": scale.messages(MESSAGES),
            "workers": workers,
            "grouping": grouping,
            "threshold": threshold,
        }
        for exponent in scale.grid(EXPONENTS, FEW_EXPONENTS)
        for seed in scale.grid([1, 2, 3], [1])
        for workers in WORKERS
        for grouping in GROUPINGS
        for threshold in THRESHOLDS
    ]


def measure(
    inputs: Inputs,
    *,
    exponent: float,
    seed: int,
    messages: int,
    workers: int,
    grouping: str,
    threshold: str,
) -> Figures:
    """Simulate one grouping."""
    above = THRESHOLDS[threshold] / workers
    params = ks.grouping(grouping, workers=workers, seed=seed, threshold=above)
    return balance(params, inputs.zipf(exponent, KEYS, messages, seed))


def worst(results: Results, grouping: str, threshold: str, workers: Sequence[int] = WORKERS) -> float:
    """Return the largest imbalance over all skews and numbers of workers, each the median over the seeds."""
    chosen = results.where(grouping=grouping, threshold=threshold)
    return max(max(chosen.line("exponent", "imbalance", workers=number)[1]) for number in workers)


def smaller_is_better(results: Results) -> Judged:
    """The worst case of each threshold against that of twice the threshold."""
    lines = {name: [worst(results, name, threshold) for threshold in THRESHOLDS] for name in GROUPINGS}
    return Judged(
        all(low <= max(high * 1.1, IDEAL) for line in lines.values() for high, low in pairwise(line)),
        "; ".join(f"{LOOKS[name].label}: {', '.join(map(spell, line))}" for name, line in lines.items()),
    )


def ideal(results: Results) -> Judged:
    """W-Choices: balanced with any threshold up to 1/n."""
    most = {threshold: worst(results, "w_choices", threshold) for threshold in list(THRESHOLDS)[1:]}
    return Judged(
        max(most.values()) <= IDEAL, "; ".join(f"{name}: {spell(value)}" for name, value in most.items())
    )


def spread(results: Results) -> Judged:
    """Round-Robin on 50 and 100 workers: what the threshold changes, next to W-Choices."""
    least = min(THRESHOLDS, key=THRESHOLDS.__getitem__)
    found = {
        name: max(
            results.median("imbalance", grouping=name, threshold="1/n", workers=n, exponent=z)
            - results.median("imbalance", grouping=name, threshold=least, workers=n, exponent=z)
            for n in (50, 100)
            for z in results.values("exponent")
        )
        for name in GROUPINGS
    }
    return Judged(
        found["round_robin"] > 10 * max(found["w_choices"], IDEAL / 10),
        "; ".join(f"{LOOKS[name].label}: {spell(value)}" for name, value in found.items()),
    )


def harder_for_round_robin(results: Results) -> Judged:
    """Round-Robin at the highest skew is above W-Choices with every threshold up to 1/n."""
    pairs = [
        [
            results.median("imbalance", grouping=name, threshold=t, workers=n, exponent=2.0)
            for name in GROUPINGS
        ]
        for n in WORKERS
        for t in list(THRESHOLDS)[1:]
    ]
    won = sum(ours < theirs for ours, theirs in pairs)
    return Judged(won == len(pairs), f"in {won} of {len(pairs)} settings")


CLAIMS = [
    Claim(
        says="A lower threshold lowers the imbalance (the largest over all settings, for 2/n down to 1/(8n);"
        " up to a tenth of it, or 1e-4)",
        where="V-B, Q1",
        judge=smaller_is_better,
    ),
    Claim(
        says="W-C achieves ideal balance for any threshold up to 1/n (at most 1e-4 at the end)",
        where="V-B, Q1",
        judge=ideal,
    ),
    Claim(
        says="RR exhibits a larger gradient of results (what 1/(8n) gains over 1/n at most, 50 and 100 "
        "workers; ten times W-C's)",
        where="V-B, Q1",
        judge=spread,
    ),
    Claim(
        says="W-C provides better balance than RR at high skew (z = 2, thresholds up to 1/n)",
        where="Fig. 7",
        judge=harder_for_round_robin,
    ),
]


def table(results: Results) -> Table:
    """Imbalance at the end, the largest over all skews."""
    rows = [
        [
            LOOKS[name].label,
            workers,
            *(worst(results, name, threshold, [workers]) for threshold in THRESHOLDS),
        ]
        for name in GROUPINGS
        for workers in WORKERS
    ]
    return Table(["grouping", "n", *(f"threshold {threshold}" for threshold in THRESHOLDS)], rows)


def draw(figure: Figure, results: Results) -> None:
    """Imbalance over skew: a row of plots a grouping, a column a number of workers."""
    settings = [(name, workers) for name in GROUPINGS for workers in WORKERS]
    titles = [f"{LOOKS[name].label}, n = {workers}" for name, workers in settings]
    plots = panels(figure, titles, len(WORKERS), x="skew z", y="imbalance I(m)")
    for axes, (name, workers) in zip(plots, settings, strict=True):
        for threshold, color, marker in zip(THRESHOLDS, COLORS, "sD^vo", strict=True):
            xs, ys = results.line(
                "exponent", "imbalance", grouping=name, workers=workers, threshold=threshold
            )
            axes.plot(xs, ys, color=color, marker=marker, label=f"threshold {threshold}")
    logarithmic(plots, top=1)
    legend(figure)


EXPERIMENT = Experiment(
    name="d_choices/fig7",
    label="Fig. 7",
    title="imbalance of W-Choices and Round-Robin by the threshold of the head",
    setting="The imbalance at the end, the median of three seeds of the stream and of the hashes.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(11, 6),
)
