"""Fig. 3: keys in the head as the skew grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import legend, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table
from keysplit_experiments.papers.d_choices import EXPONENTS, FEW_EXPONENTS, KEYS, MESSAGES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLDS = {"2/n": 2.0, "1/(5n)": 0.2}
"""Ends of the range of thresholds, in shares of a worker's part 1/n."""


def cells(scale: Scale) -> list[Parameters]:
    """Both ends of the range on every stream and number of workers."""
    return [
        {
            "exponent": exponent,
            "messages": scale.messages(MESSAGES),
            "workers": workers,
            "threshold": threshold,
        }
        for exponent in scale.grid(EXPONENTS, FEW_EXPONENTS)
        for workers in (50, 100)
        for threshold in THRESHOLDS
    ]


def measure(inputs: Inputs, *, exponent: float, messages: int, workers: int, threshold: str) -> Figures:
    """Count the keys whose share reaches the threshold."""
    counts = np.bincount(inputs.zipf(exponent, KEYS, messages, seed=1))
    return {"head": int(np.sum(counts >= THRESHOLDS[threshold] / workers * messages))}


def bounded(results: Results) -> Judged:
    """At most 5n keys can have a share of 1/(5n)."""
    low = results.where(threshold="1/(5n)")
    most = {workers: max(low.all("head", workers=workers)) for workers in (50, 100)}
    return Judged(
        all(head <= 5 * workers for workers, head in most.items()),
        "; ".join(f"n = {workers}: at most {head}" for workers, head in most.items()),
    )


def rises_and_falls(results: Results) -> Judged:
    """The largest head is neither at the least nor at the largest skew."""
    xs, heads = results.line("exponent", "head", workers=100, threshold="1/(5n)")
    peak = heads.index(max(heads))
    return Judged(
        heads[0] < heads[peak] > heads[-1],
        "n = 100: " + ", ".join(f"{heads[place]:.0f} at z = {xs[place]}" for place in (0, peak, -1)),
    )


def few(results: Results) -> Judged:
    """The part of all keys that pays for replication."""
    most = max(results.all("head"))
    return Judged(most <= KEYS / 50, f"at most {most} of {KEYS:,}")


CLAIMS = [
    Claim(
        says="The head has at most 5n keys at a threshold of 1/(5n)",
        where="III-A",
        paper="5n: 250; 500",
        judge=bounded,
    ),
    Claim(
        says="Replication is paid for a small number of keys only (2 per cent at most)",
        where="III-A",
        judge=few,
    ),
    Claim(
        says="As the skew grows, more keys pass the threshold at first; later only a few are dominant",
        where="IV-B",
        judge=rises_and_falls,
    ),
]


def table(results: Results) -> Table:
    """Keys in the head."""
    pairs = [(workers, threshold) for workers in (50, 100) for threshold in THRESHOLDS]
    rows = [
        [exponent, *(results.one("head", exponent=exponent, workers=n, threshold=t) for n, t in pairs)]
        for exponent in results.values("exponent")
    ]
    return Table(["z", *(f"n = {n}, threshold {t}" for n, t in pairs)], rows)


def draw(figure: Figure, results: Results) -> None:
    """Size of the head over skew."""
    plots = panels(figure, ["n = 50", "n = 100"], 2, x="skew z", y="keys in the head")
    for axes, workers in zip(plots, (50, 100), strict=True):
        for threshold, marker in zip(THRESHOLDS, "s^", strict=True):
            xs, ys = results.line("exponent", "head", workers=workers, threshold=threshold)
            axes.plot(xs, ys, marker=marker, label=f"threshold {threshold}")
    legend(figure)


EXPERIMENT = Experiment(
    name="d_choices/fig3",
    label="Fig. 3",
    title="keys in the head as the skew grows",
    setting="The number of keys whose share of the Zipf stream reaches the threshold, for both ends of its "
    "range.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(8, 3.5),
)
