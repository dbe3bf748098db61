"""Fig. 8: load of head and tail on each worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import keysplit as ks
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, legend, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, share, spell
from keysplit_experiments.papers.d_choices import KEYS, MESSAGES, SOURCES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUPINGS = ["partial_key", "w_choices", "round_robin"]
WORKERS, EXPONENT = 5, 2.0
THRESHOLD = 1 / (8 * WORKERS)


def cells(scale: Scale) -> list[Parameters]:
    """Three groupings on one stream."""
    return [{"messages": scale.messages(MESSAGES), "grouping": grouping} for grouping in GROUPINGS]


def measure(inputs: Inputs, *, messages: int, grouping: str) -> Figures:
    """Route message by message, source by source: what a simulation does, with the workers kept."""
    stream = inputs.zipf(EXPONENT, KEYS, messages, seed=1)
    head = (np.bincount(stream, minlength=KEYS) >= THRESHOLD * messages)[stream]
    more = {} if grouping == "partial_key" else {"threshold": THRESHOLD}
    params = ks.grouping(grouping, workers=WORKERS, seed=1, **more)
    loads = np.zeros((2, WORKERS))
    for source in range(SOURCES):
        workers = params.router(source=source).route(stream[source::SOURCES])
        for row, part in enumerate((head, ~head)):
            loads[row] += np.bincount(workers[part[source::SOURCES]], minlength=WORKERS)
    return {"head": (loads[0] / messages).tolist(), "tail": (loads[1] / messages).tolist()}


def loads(results: Results, grouping: str) -> NDArray[np.float64]:
    """Return the share of all messages that each worker gets."""
    head, tail = (np.array(results.one(part, grouping=grouping)) for part in ("head", "tail"))
    together: NDArray[np.float64] = head + tail
    return together


def overloads_two(results: Results) -> Judged:
    """PKG: two workers far above their part."""
    found = np.sort(loads(results, "partial_key"))[::-1]
    return Judged(
        bool(found[1] > 1.2 / WORKERS and found[2] < 1 / WORKERS), ", ".join(share(load) for load in found)
    )


def ideal(results: Results) -> Judged:
    """W-Choices: every worker has its part."""
    most = ks.metrics.imbalance(loads(results, "w_choices"))
    return Judged(most <= 1e-4, f"imbalance {spell(most)}")


def mixes(results: Results) -> Judged:
    """W-Choices: the head is not spread evenly, but fills what the tail leaves."""
    found = results.one("head", grouping="w_choices")
    return Judged(max(found) - min(found) > 1e-3, f"head {share(min(found))} to {share(max(found))} a worker")


def falls_short(results: Results) -> Judged:
    """Round-Robin: the head is even, the whole is not."""
    head = results.one("head", grouping="round_robin")
    apart, whole = max(head) - min(head), ks.metrics.imbalance(loads(results, "round_robin"))
    return Judged(apart <= 1e-3 < whole, f"head {spell(apart)} apart, imbalance {spell(whole)}")


CLAIMS = [
    Claim(
        says="The most frequent key overloads the two workers that PKG gives it (both above 1.2/n, all "
        "others below 1/n)",
        where="V-B, Q1",
        judge=overloads_two,
    ),
    Claim(says="W-C achieves ideal balance (at most 1e-4)", where="V-B, Q1", judge=ideal),
    Claim(
        says="W-C mixes head and tail across all workers (the head is uneven)", where="V-B, Q1", judge=mixes
    ),
    Claim(
        says="RR splits the head evenly, but falls short of perfect balance (apart by at most 1e-3; an "
        "imbalance above 1e-3)",
        where="V-B, Q1",
        judge=falls_short,
    ),
]


def table(results: Results) -> Table:
    """Shares of all messages, per cent."""
    rows = [
        [LOOKS[name].label, part, *(round(100 * load, 2) for load in results.one(part, grouping=name))]
        for name in GROUPINGS
        for part in ("head", "tail")
    ]
    return Table(["grouping", "per cent of", *(f"worker {worker + 1}" for worker in range(WORKERS))], rows)


def draw(figure: Figure, results: Results) -> None:
    """Head and tail stacked, a bar a worker."""
    plots = panels(
        figure, [LOOKS[name].label for name in GROUPINGS], 3, x="worker", y="share of the load, per cent"
    )
    places = range(1, WORKERS + 1)
    for axes, name in zip(plots, GROUPINGS, strict=True):
        head, tail = (100 * np.array(results.one(part, grouping=name)) for part in ("head", "tail"))
        axes.bar(places, head, color="#0072b2", label="head")
        axes.bar(places, tail, bottom=head, color="#e69f00", label="tail")
        axes.axhline(100 / WORKERS, color="black", linestyle=":", label="1/n")
    legend(figure)


EXPERIMENT = Experiment(
    name="d_choices/fig8",
    label="Fig. 8",
    title="load of head and tail on each worker",
    setting="z = 2 on 5 workers, one seed. Head are the keys whose share of the stream is at least 1/(8n), "
    "which is also the threshold of W-C and RR.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(9, 3.5),
)
