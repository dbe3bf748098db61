"""Fig. 5: memory of D-Choices and W-Choices against PKG."""

from __future__ import annotations

from functools import partial

from keysplit_experiments.harness import Claim, Experiment, Judged, Results
from keysplit_experiments.harness.table import share
from keysplit_experiments.papers.d_choices import _memory
from keysplit_experiments.papers.d_choices._memory import WORKERS, overhead

BASE = "partial_key"


def at_most(results: Results) -> Judged:
    """The worst case of both."""
    estimated, simulated = (
        max(
            max(overhead(results, name, BASE, workers, how))
            for name in ("d_choices", "w_choices")
            for workers in WORKERS
        )
        for how in ("estimated", "simulated")
    )
    return Judged(estimated <= 0.3, f"{share(estimated)} (simulated {share(simulated)})")


def of_all_workers(results: Results) -> Judged:
    """W-Choices on 100 workers: from 20 to 30 per cent."""
    most = max(overhead(results, "w_choices", BASE, 100))
    return Judged(0.2 <= most <= 0.3, share(most))


def pairs(results: Results) -> dict[float, list[tuple[float, float]]]:
    """List the overhead of D-Choices and W-Choices by exponent, on 50 and on 100 workers."""
    found: dict[float, list[tuple[float, float]]] = {exponent: [] for exponent in results.values("exponent")}
    for workers in WORKERS:
        few, many = (overhead(results, name, BASE, workers) for name in ("d_choices", "w_choices"))
        for exponent, few_pairs, many_pairs in zip(found, few, many, strict=True):
            found[exponent].append((few_pairs, many_pairs))
    return found


def less(results: Results) -> Judged:
    """D-Choices at moderately high skew, z = 1 to 1.4: less than W-Choices; nowhere more."""
    moderate = [pair for exponent, both in pairs(results).items() if 1 <= exponent <= 1.4 for pair in both]
    everywhere = all(few <= many for both in pairs(results).values() for few, many in both)
    parts = [few / many for few, many in moderate if many > 0]
    return Judged(
        everywhere and all(few < many for few, many in moderate),
        f"{min(parts):.2f} to {max(parts):.2f} of W-C's" if parts else "no key is frequent",
    )


def alike_at_the_end(results: Results) -> Judged:
    """At very high skew, z = 2, D-Choices needs nearly what W-Choices does."""
    ends = [few / many for few, many in pairs(results)[2.0] if many > 0]
    return Judged(bool(ends) and min(ends) >= 0.8, "; ".join(f"{end:.2f} of W-C's" for end in ends))


CLAIMS = [
    Claim(
        says="In the worst case D-C and W-C use at most 30% more memory than PKG",
        where="Fig. 5",
        paper="at most 30%",
        judge=at_most,
    ),
    Claim(
        says="On 100 workers W-C needs up to 25% more memory than PKG (20 to 30)",
        where="IV-B",
        paper="up to 25%",
        judge=of_all_workers,
    ),
    Claim(
        says="D-C needs less memory than W-C when the skew is moderately high (z = 1 to 1.4; nowhere more)",
        where="IV-B",
        judge=less,
    ),
    Claim(
        says="Both approach the same overhead at very high skew (at z = 2, D-C has at least 0.8 of W-C's)",
        where="IV-B",
        judge=alike_at_the_end,
    ),
]


EXPERIMENT = Experiment(
    name="d_choices/fig5",
    label="Fig. 5",
    title="memory of D-Choices and W-Choices against PKG",
    setting="Memory is the number of pairs of key and worker beyond PKG's, in per cent of PKG's, "
    "estimated as in section IV-B; *simulated* counts the pairs that occurred, with one seed. "
    "The claims are about the estimate, which assumes that PKG uses both workers of a key. "
    "Where PKG is out of balance most keys only ever go to one, so the simulated difference "
    "is larger.",
    cells=_memory.cells,
    measure=_memory.measure,
    claims=CLAIMS,
    table=partial(_memory.table, base=BASE),
    draw=partial(_memory.draw, base=BASE),
    size=(8, 3.8),
)
