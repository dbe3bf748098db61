"""Fig. 14: FISH with and without counting by epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, legend, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.fish import WORKERS
from keysplit_experiments.papers.fish._runs import (
    LIFETIME_COUNTS,
    evolving,
    largest,
    ratio,
    varied,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNTINGS = {"epochs": 0.2, "lifetime": 1.0}
"""What counts are multiplied with after an epoch."""


def cells(scale: Scale) -> list[Parameters]:
    """FISH with both ways to count, on every stream and number of workers."""
    return [
        {**stream, "workers": workers, "counting": counting}
        for stream in evolving(scale)
        for workers in WORKERS
        for counting in COUNTINGS
    ]


def measure(
    inputs: Inputs, *, exponent: float, seed: int, messages: int, workers: int, counting: str
) -> Figures:
    """Simulate FISH in time."""
    return varied(inputs, exponent, seed, messages, workers, decay=COUNTINGS[counting])


def gains(results: Results) -> dict[tuple[float, int], float]:
    """Return the time with lifetime counting over that with epochs, by skew and workers."""
    return ratio(results, "time", {"counting": "lifetime"}, {"counting": "epochs"})


def faster(results: Results) -> Judged:
    """Epochs: somewhere at most half the time, and nowhere more than 1.05 times."""
    found = gains(results)
    best, place = largest(found)
    return Judged(
        best >= 2 and min(found.values()) >= 1 / 1.05,
        f"{spell(min(found.values()))} to {spell(best)} times ({place})",
    )


def grows(results: Results) -> Judged:
    """The gain: larger with the workers at the largest skew, and larger with the skew on 128 workers."""
    found, exponents = gains(results), results.values("exponent")
    by_workers = [found[exponents[-1], workers] for workers in WORKERS]
    by_skew = [found[exponents[0], 128], found[exponents[-1], 128]]
    return Judged(
        by_workers == sorted(by_workers) and by_skew[0] < by_skew[1],
        f"z = {exponents[-1]}: {', '.join(map(spell, by_workers))}; n = 128: {spell(by_skew[0])} to "
        f"{spell(by_skew[1])} times",
    )


CLAIMS = [
    Claim(
        says="Counting by epochs shortens the time greatly (at least by half somewhere, and nowhere longer "
        "by more than 5 per cent)",
        where="6.4",
        paper="up to 11.91 times",
        judge=faster,
        because=LIFETIME_COUNTS,
    ),
    Claim(
        says="The more so with more workers and more skew (at the largest skew with every doubling; 128 "
        "workers, largest against smallest skew)",
        where="6.4",
        judge=grows,
    ),
]


def table(results: Results) -> Table:
    """Time with both ways to count."""
    exponents = results.values("exponent")
    rows = [
        [
            workers,
            counting,
            *(results.median("time", workers=workers, counting=counting, exponent=z) for z in exponents),
        ]
        for workers in WORKERS
        for counting in COUNTINGS
    ]
    return Table(["n", "time / ideal", *(f"z = {z}" for z in exponents)], rows)


def draw(figure: Figure, results: Results) -> None:
    """Time over the skew, one plot per number of workers."""
    plots = panels(
        figure, [f"{workers} workers" for workers in WORKERS], 4, x="skew z", y="execution time / ideal"
    )
    looks = {
        "epochs": LOOKS["fish"].line(label="FISH"),
        "lifetime": LOOKS["fish"].line(
            label="FISH, counting the whole lifetime", color="#7f7f7f", linestyle="--"
        ),
    }
    for axes, workers in zip(plots, WORKERS, strict=True):
        for counting, look in looks.items():
            axes.plot(*results.line("exponent", "time", workers=workers, counting=counting), **look)
    legend(figure)


EXPERIMENT = Experiment(
    name="fish/fig14",
    label="Fig. 14",
    title="execution time of FISH with and without counting by epochs",
    setting="FISH, and FISH that counts the whole lifetime as D-C and W-C do (decay 1). Time is relative to "
    "workers that are never idle.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(11, 3.2),
)
