"""Fig. 15: FISH with and without its classification of hot keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import keysplit as ks
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, bars, legend, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.fish import WORKERS
from keysplit_experiments.papers.fish._parts import route, time_in_windows
from keysplit_experiments.papers.fish._runs import evolving, keys_of, largest, name_place, params_of, ratio

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = {"fish": "FISH", "w_choices": "FISH w/ W-C", "d_choices": "FISH w/ D-C"}
MESSAGES = 1_000_000
WINDOW = 10_000


def cells(scale: Scale) -> list[Parameters]:
    """FISH and both variants on every stream and number of workers."""
    return [
        {**stream, "messages": scale.messages(MESSAGES), "workers": workers, "part": part}
        for stream in evolving(scale, seeds=[1])
        for workers in WORKERS
        for part in PARTS
    ]


def measure(inputs: Inputs, *, exponent: float, seed: int, messages: int, workers: int, part: str) -> Figures:
    """Route from one source, and give the memory and the time in windows."""
    keys = keys_of(inputs, messages, seed, exponent=exponent)
    if part == "fish":
        sent = params_of("fish", workers, seed).router().route(keys)
    else:
        sent = route(np.asarray(keys), workers, seed, part)
    return {
        "replication": ks.metrics.replication(keys, sent),
        "time": time_in_windows(sent, workers, WINDOW),
    }


def saves(results: Results) -> Judged:
    """CHK: less memory than with W-C's treatment everywhere, and at 128 workers the larger part of it."""
    found = ratio(results, "replication", {"part": "fish"}, {"part": "w_choices"})
    best = {
        workers: max(1 - value for place, value in found.items() if place[1] == workers)
        for workers in WORKERS
    }
    return Judged(
        max(found.values()) < 1.005 and best[128] > best[16],
        "up to " + ", ".join(f"{100 * part:.0f}% on {workers}" for workers, part in best.items()),
    )


def less_with_d_choices(results: Results) -> Judged:
    """D-C's treatment: somewhere less memory than CHK."""
    found = ratio(results, "replication", {"part": "d_choices"}, {"part": "fish"})
    least = min(found, key=found.__getitem__)
    cases = sum(value < 1 for value in found.values())
    return Judged(
        found[least] < 1,
        f"in {cases} of {len(found)} settings, down to {spell(found[least])} times ({name_place(least)})",
    )


def longer_with_d_choices(results: Results) -> Judged:
    """D-C's treatment: somewhere a longer time than CHK by 5 per cent."""
    worst, place = largest(ratio(results, "time", {"part": "d_choices"}, {"part": "fish"}))
    return Judged(worst >= 1.05, f"up to {spell(worst)} times ({place})")


CLAIMS = [
    Claim(
        says="CHK needs less memory than W-C's treatment of hot keys, the more so with more workers "
        "(nowhere more by half a per cent; the largest saving on 128 workers above that on 16)",
        where="6.4",
        judge=saves,
    ),
    Claim(
        says="D-C's treatment needs less memory than CHK in some cases",
        where="6.4",
        judge=less_with_d_choices,
    ),
    Claim(
        says="But it may take longer than CHK (by at least 5 per cent somewhere)",
        where="6.4",
        judge=longer_with_d_choices,
    ),
]


def table(results: Results) -> Table:
    """Memory, and time in windows."""
    exponents = results.values("exponent")
    rows = [
        [
            workers,
            label,
            *(
                results.median(figure, workers=workers, part=part, exponent=exponent)
                for figure in ("replication", "time")
                for exponent in exponents
            ),
        ]
        for workers in WORKERS
        for part, label in PARTS.items()
    ]
    heads = [f"{name}, z = {exponent}" for name in ("memory", "time") for exponent in exponents]
    return Table(["n", "", *heads], rows)


def draw(figure: Figure, results: Results) -> None:
    """Memory over the skew, one plot per number of workers."""
    exponents = results.values("exponent")
    titles = [f"{workers} workers" for workers in WORKERS]
    plots = panels(figure, titles, 2, x="skew z", y="memory / FG's", share_y=False)
    for axes, workers in zip(plots, WORKERS, strict=True):
        lines = [
            (
                LOOKS[part].bar(label=label),
                results.line("exponent", "replication", workers=workers, part=part)[1],
            )
            for part, label in PARTS.items()
        ]
        bars(axes, exponents, lines)
    legend(figure)


EXPERIMENT = Experiment(
    name="fish/fig15",
    label="Fig. 15",
    title="memory of FISH with and without its classification of hot keys (CHK)",
    setting="ZF of 1,000,000 messages, one seed, one source. The variants are plain Python over the "
    "library's public pieces: FISH's decayed counts (exact ones), its ring for the other "
    "keys, and for hot keys all workers (W-C) or the d that D-Choices' rule gives for the "
    "recent counts (D-C). Each message goes to the one that was sent the least. *Time* is "
    "that of the fullest worker of every 10,000 messages, summed, over the ideal.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(9, 5.5),
)
