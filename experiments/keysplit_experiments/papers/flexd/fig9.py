"""Fig. 9: load imbalance over time as the skew grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Results
from keysplit_experiments.harness.figure import LOOKS
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.flexd import EXPONENTS, KEYS
from keysplit_experiments.papers.flexd._balance import (
    SPLITTING,
    at_start,
    course,
    draw_of,
    over_time,
    settled,
    table_of,
    zipf_cells,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOW, HIGH = [1.0, 1.5], [2.0, 2.5]
GOOD = 0.1
"""A load imbalance, (max - mean) / mean, that is taken for good."""


def measure(inputs: Inputs, *, exponent: float, messages: int, seed: int, grouping: str) -> Figures:
    """Simulate one grouping."""
    return over_time(grouping, seed, inputs.zipf(exponent, KEYS, messages, seed))


def one_choice(results: Results) -> Judged:
    """KG and DAKG: an imbalance above the good one at the end, at every skew."""
    least = {
        grouping: min(results.median("at_end", grouping=grouping, exponent=z) for z in EXPONENTS)
        for grouping in ("key", "distribution_aware")
    }
    return Judged(
        min(least.values()) > GOOD,
        ", ".join(f"{LOOKS[grouping].label} at least {spell(value)}" for grouping, value in least.items()),
    )


def good_when_low(results: Results) -> Judged:
    """PStream and Dalton: a good imbalance over the second half at low skew."""
    found = {
        f"{LOOKS[grouping].label}, z = {exponent}": settled(results, grouping, exponent=exponent)
        for grouping in ("pstream", "dalton")
        for exponent in LOW
    }
    return Judged(
        max(found.values()) <= GOOD, "; ".join(f"{name}: {spell(value)}" for name, value in found.items())
    )


def late(results: Results, grouping: str, exponent: float) -> tuple[float, float]:
    """Return the imbalance after the first hundredth, and over the second half."""
    return at_start(results, grouping, exponent=exponent), settled(results, grouping, exponent=exponent)


def pstream_late(results: Results) -> Judged:
    """PStream at z = 2 and 2.5: at the start at least twice its later imbalance, and above FlexD's."""
    found = {exponent: late(results, "pstream", exponent) for exponent in HIGH}
    ours = {exponent: at_start(results, "flexd", exponent=exponent) for exponent in HIGH}
    return Judged(
        all(first >= 2 * later and first > ours[z] for z, (first, later) in found.items()),
        "; ".join(
            f"z = {z}: {spell(first)}, later {spell(later)} (FlexD {spell(ours[z])})"
            for z, (first, later) in found.items()
        ),
    )


def both_late(results: Results) -> Judged:
    """PStream and Dalton at z = 3: at the start at least twice their later imbalance, and above FlexD's."""
    found = {grouping: late(results, grouping, 3.0) for grouping in ("pstream", "dalton")}
    ours = at_start(results, "flexd", exponent=3.0)
    return Judged(
        all(first >= 2 * later and first > ours for first, later in found.values()),
        "; ".join(
            f"{LOOKS[grouping].label} {spell(first)}, later {spell(later)}"
            for grouping, (first, later) in found.items()
        )
        + f" (FlexD {spell(ours)})",
    )


def flexd_good(results: Results) -> Judged:
    """FlexD: a good imbalance after the first hundredth, always."""
    most = {exponent: max(course(results, "flexd", exponent=exponent)) for exponent in EXPONENTS}
    return Judged(
        max(most.values()) <= GOOD,
        "at most " + ", ".join(f"{spell(value)} (z = {z})" for z, value in most.items()),
    )


def flexd_lowest(results: Results) -> Judged:
    """FlexD: the lowest imbalance of the three over the second half from z = 2 on, or 10 per cent above."""
    found = {
        exponent: {grouping: settled(results, grouping, exponent=exponent) for grouping in SPLITTING}
        for exponent in (2.0, 2.5, 3.0)
    }
    return Judged(
        all(each["flexd"] <= 1.1 * min(each.values()) for each in found.values()),
        "; ".join(
            f"z = {z}: " + ", ".join(f"{LOOKS[name].label} {spell(value)}" for name, value in each.items())
            for z, each in found.items()
        ),
    )


CLAIMS = [
    Claim(
        says="KG and DAKG show significant load imbalance (above 0.1 at the end, every skew)",
        where="6.2",
        judge=one_choice,
    ),
    Claim(
        says="PStream and Dalton balance well at low skew (z = 1 and 1.5: 0.1 at most over the second half)",
        where="6.2",
        judge=good_when_low,
        because="on 8 workers a key is hot for Dalton above 1/8 of an interval; at z = 1 the hottest "
        "has 10 per cent, so Dalton splits nothing. The paper's number of workers is lost in "
        "our text",
    ),
    Claim(
        says="At z = 2 and 2.5 PStream is out of balance in the initial stage (after 1 per cent of the "
        "stream at least twice as much as later, and more than FlexD)",
        where="6.2",
        judge=pstream_late,
    ),
    Claim(
        says="At z = 3 both PStream and Dalton are",
        where="6.2",
        judge=both_late,
        because="Dalton stays out of balance: at most 6 of 8 workers share the hottest key, which has "
        "83 per cent, so each gets at least 0.11 more than the mean",
    ),
    Claim(
        says="FlexD balances well at every skew, and stays so (0.1 at most, from 1 per cent of the stream "
        "on)",
        where="6.2",
        judge=flexd_good,
    ),
    Claim(
        says="FlexD has a substantial advantage on skewed streams (z = 2 to 3: the lowest over the second "
        "half, or within 10 per cent of it)",
        where="6.2",
        judge=flexd_lowest,
    ),
]


def table(results: Results) -> Table:
    """Imbalance at three points."""
    return table_of(results, "exponent", "z")


def draw(figure: Figure, results: Results) -> None:
    """Imbalance over time, a plot a skew."""
    draw_of(figure, results, "exponent", [f"z = {exponent}" for exponent in results.values("exponent")])


EXPERIMENT = Experiment(
    name="flexd/fig9",
    label="Fig. 9",
    title="load imbalance over time as the skew grows",
    setting="The imbalance is that of the loads so far.",
    cells=zipf_cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(10, 5.5),
    version=2,
)
