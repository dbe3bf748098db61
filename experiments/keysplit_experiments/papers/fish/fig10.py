"""Fig. 10: execution time on time-evolving Zipf streams."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from keysplit_experiments.harness import Claim, Experiment, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, legend, logarithmic, panels
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.fish import WORKERS
from keysplit_experiments.papers.fish._groupings import (
    GROUPINGS,
    cells_of,
    close_to_shuffle,
    gains_on_heads,
    measure,
    over_shuffle,
)
from keysplit_experiments.papers.fish._runs import evolving

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping on every stream and number of workers."""
    return cells_of(evolving(scale))


def gap_grows(results: Results) -> Judged:
    """The largest over the smallest time of the four: larger on 128 workers than on 16 at every skew."""
    found = {grouping: over_shuffle(results, grouping) for grouping in GROUPINGS}
    gaps = {
        workers: [
            max(each[z, workers] for each in found.values())
            / min(each[z, workers] for each in found.values())
            for z in results.values("exponent")
        ]
        for workers in (WORKERS[0], WORKERS[-1])
    }
    return Judged(
        all(few < many for few, many in zip(*gaps.values(), strict=True)),
        "; ".join(
            f"n = {workers}: {spell(min(line))} to {spell(max(line))} times" for workers, line in gaps.items()
        ),
    )


def two_choices_worst(results: Results) -> Judged:
    """PKG: the longest of the four, or within 1 per cent of it, everywhere."""
    found = {grouping: over_shuffle(results, grouping) for grouping in GROUPINGS}
    places = list(found["partial_key"])
    worst = sum(
        1.01 * found["partial_key"][place] >= max(each[place] for each in found.values()) for place in places
    )
    return Judged(worst == len(places), f"in {worst} of {len(places)} settings")


def two_choices_and_skew(results: Results) -> Judged:
    """PKG: longer with every step of the skew, on every number of workers."""
    found = over_shuffle(results, "partial_key")
    lines = {workers: [found[z, workers] for z in results.values("exponent")] for workers in WORKERS}
    return Judged(
        all(line == sorted(line) for line in lines.values()),
        "; ".join(f"n = {workers}: {spell(line[0])} to {spell(line[-1])}" for workers, line in lines.items()),
    )


def heads_and_skew(results: Results) -> Judged:
    """D-C and W-C: longer at the largest skew than at the smallest, on 64 and 128 workers."""
    ends = (min(results.values("exponent")), max(results.values("exponent")))
    lines = {}
    for grouping in ("d_choices", "w_choices"):
        found = over_shuffle(results, grouping)
        for workers in (64, 128):
            lines[f"{LOOKS[grouping].label}, n = {workers}"] = [found[z, workers] for z in ends]
    return Judged(
        all(high > low for low, high in lines.values()),
        "; ".join(f"{name}: {spell(low)} to {spell(high)}" for name, (low, high) in lines.items()),
    )


CLAIMS = [
    Claim(
        says="FISH takes about as long as SG (1.32 times at most)",
        where="6.2",
        paper="1.32",
        judge=partial(close_to_shuffle, most=1.32),
    ),
    Claim(
        says="The gap between the four grows with the workers (longest over shortest, 128 against 16, "
        "every skew)",
        where="6.2",
        judge=gap_grows,
    ),
    Claim(
        says="PKG is the worst of the four (everywhere, or within 1 per cent of it)",
        where="6.2",
        judge=two_choices_worst,
    ),
    Claim(
        says="PKG becomes worse with the skew (every step, time over SG's)",
        where="6.2",
        judge=two_choices_and_skew,
    ),
    Claim(
        says="D-C and W-C take longer as the skew grows (64 and 128 workers, largest against smallest "
        "skew, time over SG's)",
        where="6.2",
        judge=heads_and_skew,
    ),
    Claim(
        says="FISH improves on D-C and W-C up to several times (at least twice somewhere)",
        where="6.2",
        paper="up to 13.57 and 12.05 times",
        judge=gains_on_heads,
        because="lifetime counts find new hot keys soon: on 128 workers at z = 2 the new hottest "
        "passes W-C's threshold after 0.22 per cent of the stream (at z = 1 after 0.9). Even "
        "PKG for the whole last fifth would take only 9 times as long as SG; the text does "
        "not say what else costs D-C and W-C time",
    ),
]


def table(results: Results) -> Table:
    """Execution time over that of SG."""
    exponents = results.values("exponent")
    found = {grouping: over_shuffle(results, grouping) for grouping in GROUPINGS}
    rows = [
        [workers, LOOKS[grouping].label, *(found[grouping][z, workers] for z in exponents)]
        for workers in WORKERS
        for grouping in GROUPINGS
    ]
    return Table(["n", "time / SG's", *(f"z = {z}" for z in exponents)], rows)


def draw(figure: Figure, results: Results) -> None:
    """Execution time over that of SG, over the skew: one plot per number of workers, also without PKG."""
    exponents = results.values("exponent")
    found = {grouping: over_shuffle(results, grouping) for grouping in GROUPINGS}
    titles = [f"{workers} workers{part}" for part in ("", ", without PKG") for workers in WORKERS]
    plots = panels(figure, titles, len(WORKERS), x="skew z", y="execution time / SG's", share_y=False)
    for place, (axes, workers) in enumerate(zip(plots, 2 * WORKERS, strict=True)):
        for grouping in GROUPINGS if place < len(WORKERS) else GROUPINGS[1:]:
            axes.plot(exponents, [found[grouping][z, workers] for z in exponents], **LOOKS[grouping].line())
    logarithmic(plots[: len(WORKERS)])
    legend(figure)


EXPERIMENT = Experiment(
    name="fish/fig10",
    label="Fig. 10",
    title="execution time on time-evolving Zipf streams, over that of SG",
    setting="The streams ZF.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(11, 5.5),
)
