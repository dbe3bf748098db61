"""Fig. 6: memory of D-Choices and W-Choices against shuffle grouping."""

from __future__ import annotations

from functools import partial

from keysplit_experiments.harness import Claim, Experiment, Judged, Results
from keysplit_experiments.harness.table import share
from keysplit_experiments.papers.d_choices import _memory
from keysplit_experiments.papers.d_choices._memory import WORKERS, overhead

BASE = "shuffle"


def saves(results: Results) -> Judged:
    """Both need at least 80 per cent less, whatever skew and scale."""
    estimated, simulated = (
        [
            -max(max(overhead(results, name, BASE, workers, how)) for name in ("d_choices", "w_choices"))
            for workers in WORKERS
        ]
        for how in ("estimated", "simulated")
    )
    return Judged(
        min(estimated) >= 0.8,
        "; ".join(
            f"n = {workers}: at least {share(part)} less (simulated {share(real)})"
            for workers, part, real in zip(WORKERS, estimated, simulated, strict=True)
        ),
    )


def saves_at_scale(results: Results) -> Judged:
    """The part that W-Choices needs is smaller on 100 workers than on 50, at every skew up to 1."""
    low = results.where(exponent=[z for z in results.values("exponent") if z <= 1])
    few, many = (overhead(low, "w_choices", BASE, workers) for workers in WORKERS)
    return Judged(
        all(at_100 < at_50 for at_50, at_100 in zip(few, many, strict=True)),
        f"n = 50: {share(1 + max(few))} of SG's at most; n = 100: {share(1 + max(many))}",
    )


CLAIMS = [
    Claim(
        says="In the worst case D-C and W-C still use 80% less memory than SG",
        where="Fig. 6",
        paper="80% less",
        judge=saves,
    ),
    Claim(
        says="The cost against SG is negligible especially at larger scales (a smaller part of it on 100 "
        "workers than on 50, z up to 1)",
        where="IV-B",
        judge=saves_at_scale,
    ),
]


EXPERIMENT = Experiment(
    name="d_choices/fig6",
    label="Fig. 6",
    title="memory of D-Choices and W-Choices against shuffle grouping",
    setting="As Fig. 5, but the difference from SG's memory, in per cent of SG's.",
    cells=_memory.cells,
    measure=_memory.measure,
    claims=CLAIMS,
    table=partial(_memory.table, base=BASE),
    draw=partial(_memory.draw, base=BASE),
    size=(8, 3.8),
)
