"""Fig. 17: memory of FISH with and without consistent hashing when workers change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import keysplit as ks
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, bars, legend, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.fish import WORKERS
from keysplit_experiments.papers.fish._runs import evolving, keys_of, params_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHANGES = ["add", "remove"]
OTHER_HASHES = 1_000_003
"""Added to the seed: by hash modulo the workers nearly all keys go elsewhere when their number changes."""


def cells(scale: Scale) -> list[Parameters]:
    """Both changes of workers on every stream and number of workers."""
    return [
        {**stream, "workers": workers, "change": change}
        for stream in evolving(scale)
        for workers in WORKERS
        for change in CHANGES
    ]


def change_at(messages: int, workers: int, seed: int) -> tuple[int, int]:
    """Draw where the workers change, between a quarter and three quarters of the way, and which one goes."""
    generator = np.random.Generator(np.random.PCG64([seed, workers]))
    return int(generator.integers(messages // 4, max(3 * messages // 4, 1))), int(generator.integers(workers))


def measure(
    inputs: Inputs, *, exponent: float, seed: int, messages: int, workers: int, change: str
) -> Figures:
    """Route from one source through the change, on the ring and with all keys rehashed."""
    keys = keys_of(inputs, messages, seed, exponent=exponent)
    position, leaver = change_at(messages, workers, seed)
    ring = params_of("fish", workers, seed).router()
    before = ring.route(keys[:position])
    if change == "add":
        ring.add_worker()
    else:
        ring.remove_worker(leaver)
    on_ring = np.concatenate([before, ring.route(keys[position:])])

    numbers = range(workers + 1) if change == "add" else range(workers)
    present = [worker for worker in numbers if change == "add" or worker != leaver]
    anew = params_of("fish", len(present), seed + OTHER_HASHES).router().route(keys[position:])
    hashed = np.concatenate([before, np.asarray(present, dtype=np.uint32)[anew]])
    return {
        "with": ks.metrics.replication(keys, on_ring),
        "without": ks.metrics.replication(keys, hashed),
    }


def parts(results: Results) -> dict[tuple[float, int, str], float]:
    """Return the memory without consistent hashing over that with it, by skew, workers and change."""
    return {
        (exponent, workers, change): results.median("without", **chosen) / results.median("with", **chosen)
        for exponent in results.values("exponent")
        for workers in WORKERS
        for change in CHANGES
        for chosen in ({"exponent": exponent, "workers": workers, "change": change},)
    }


def twice(results: Results) -> Judged:
    """Low skew: 1.7 times the memory at least, whatever the change and the number of workers."""
    low = min(results.values("exponent"))
    found = [value for place, value in parts(results).items() if place[0] == low]
    return Judged(min(found) >= 1.7, f"{spell(min(found))} to {spell(max(found))} times")


def less_when_skewed(results: Results) -> Judged:
    """High skew: a smaller increase than at low skew, whatever the change and the number of workers."""
    found, exponents = parts(results), results.values("exponent")
    pairs = {
        (workers, change): (found[exponents[0], workers, change], found[exponents[-1], workers, change])
        for workers in WORKERS
        for change in CHANGES
    }
    highs = [high for _, high in pairs.values()]
    return Judged(
        all(high < low for low, high in pairs.values()),
        f"{spell(min(highs))} to {spell(max(highs))} times at z = {exponents[-1]}",
    )


CLAIMS = [
    Claim(
        says="At low skew FISH without consistent hashing needs almost twice the memory when a worker "
        "comes or goes (z = 1.0, at least 1.7 times)",
        where="6.5",
        paper="almost twice",
        judge=twice,
    ),
    Claim(
        says="At high skew the increase is less (z = 2.0 against z = 1.0, every number of workers)",
        where="6.5",
        judge=less_when_skewed,
    ),
]


def table(results: Results) -> Table:
    """Memory with and without consistent hashing."""
    exponents = results.values("exponent")
    rows = [
        [
            workers,
            change,
            hashing,
            *(
                results.median(hashing, workers=workers, change=change, exponent=exponent)
                for exponent in exponents
            ),
        ]
        for workers in WORKERS
        for change in CHANGES
        for hashing in ("with", "without")
    ]
    return Table(["n", "a worker is", "CH", *(f"z = {exponent}" for exponent in exponents)], rows)


def draw(figure: Figure, results: Results) -> None:
    """Memory over the skew: one row per change, one plot per number of workers."""
    exponents = results.values("exponent")
    words = {"add": "one added", "remove": "one removed"}
    settings = [(change, workers) for change in CHANGES for workers in WORKERS]
    titles = [f"{workers} workers, {words[change]}" for change, workers in settings]
    plots = panels(figure, titles, len(WORKERS), x="skew z", y="memory / FG's", share_y=False)
    looks = {
        "with": LOOKS["fish"].bar(label="FISH"),
        "without": LOOKS["fish"].bar(label="FISH without CH", color="#7f7f7f"),
    }
    for axes, (change, workers) in zip(plots, settings, strict=True):
        chosen = results.where(change=change, workers=workers)
        bars(axes, exponents, [(look, chosen.line("exponent", name)[1]) for name, look in looks.items()])
    legend(figure)


EXPERIMENT = Experiment(
    name="fish/fig17",
    label="Fig. 17",
    title="memory of FISH with and without consistent hashing (CH) when a worker comes or goes",
    setting="One worker comes or goes once, between a quarter and three quarters of the stream; the seed "
    "draws where. One source. Without CH the place of a key follows from its hash modulo the number "
    "of workers: after the change FISH starts with other hashes and no counts, which an epoch makes "
    "good. Copies of a key over those of FG.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(11, 5.5),
)
