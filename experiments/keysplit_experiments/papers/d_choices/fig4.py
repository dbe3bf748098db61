"""Fig. 4: part of the workers that D-Choices takes for the head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import legend, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.d_choices import (
    EXPONENTS,
    FEW_EXPONENTS,
    KEYS,
    MESSAGES,
    WORKERS,
    frequencies,
    solved,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = dict(zip(WORKERS, "osD^v", strict=True))


def cells(scale: Scale) -> list[Parameters]:
    """Every number of workers on every stream."""
    return [
        {"exponent": exponent, "messages": scale.messages(MESSAGES), "workers": workers}
        for exponent in scale.grid(EXPONENTS, FEW_EXPONENTS)
        for workers in WORKERS
    ]


def measure(inputs: Inputs, *, exponent: float, messages: int, workers: int) -> Figures:
    """Solve d on the exact frequencies of the stream."""
    head, d = solved(frequencies(inputs.zipf(exponent, KEYS, messages, seed=1)), workers)
    return {"head": int(head.sum()), "d": d}


def always_fewer(results: Results) -> Judged:
    """On 50 and 100 workers d stays below their number."""
    most = {workers: max(results.all("d", workers=workers)) for workers in (50, 100)}
    return Judged(
        all(d < workers for workers, d in most.items()),
        "; ".join(f"n = {workers}: at most {d}" for workers, d in most.items()),
    )


def grows(results: Results) -> Judged:
    """The more skew, the larger d, on 50 and 100 workers: from z = 0.8 on, where there is a head."""
    lines = [results.where(workers=workers).line("exponent", "d") for workers in (50, 100)]
    kept = [[d for z, d in zip(*line, strict=True) if z >= 0.8] for line in lines]
    return Judged(
        all(line == sorted(line) for line in kept),
        "; ".join(
            f"n = {workers}: {line[0]:.0f} to {line[-1]:.0f}"
            for workers, line in zip((50, 100), kept, strict=True)
        ),
    )


def reduces(results: Results) -> Judged:
    """D-Choices needs fewer workers than W-Choices: a part of them at moderate skew."""
    most = max(d / n for n in (50, 100) for d in results.all("d", workers=n, exponent=[0.8, 1.2]))
    return Judged(most < 0.5, f"at most {spell(most)} of them")


CLAIMS = [
    Claim(says="d is always smaller than n for n = 50 and n = 100", where="IV-B", judge=always_fewer),
    Claim(
        says="D-C reduces the workers of a hot key against W-C and RR (less than half of them at z = 0.8 and"
        " 1.2)",
        where="IV-B",
        judge=reduces,
    ),
    Claim(
        says="Very skewed distributions need a large d (it grows with z on 50 and 100 workers)",
        where="IV-A",
        judge=grows,
    ),
]


def table(results: Results) -> Table:
    """The number d."""
    rows = [
        [exponent, *(results.one("d", exponent=exponent, workers=workers) for workers in WORKERS)]
        for exponent in results.values("exponent")
    ]
    return Table(["z", *(f"d, n = {workers}" for workers in WORKERS)], rows)


def draw(figure: Figure, results: Results) -> None:
    """The part d/n over skew."""
    (axes,) = panels(figure, [""], 1, x="skew z", y="fraction of workers d/n")
    for workers in WORKERS:
        xs, ys = results.line("exponent", "d", workers=workers)
        axes.plot(xs, [d / workers for d in ys], marker=MARKERS[workers], label=f"n = {workers}")
    axes.set_ylim(0, 1.02)
    legend(figure)


EXPERIMENT = Experiment(
    name="d_choices/fig4",
    label="Fig. 4",
    title="part of the workers that D-Choices takes for the head",
    setting="d is solved on the exact frequencies of the Zipf stream. Where no key is frequent, d is 2.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(6, 4),
)
