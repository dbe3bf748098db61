"""Fig. 13: load imbalance over time on words."""

from __future__ import annotations

from functools import partial

from keysplit_experiments.harness import Claim, Experiment, Judged, Results
from keysplit_experiments.harness.table import spell
from keysplit_experiments.papers.flexd._balance import (
    SPLITTING,
    draw_of,
    measure_real,
    real_cells,
    settled_by,
    spell_by,
    table_of,
)

STREAMS = ["T4SA", "WikiText"]


def dalton_worst(results: Results) -> Judged:
    """Dalton: the largest imbalance of the groupings that split, over the second half of WikiText."""
    found = settled_by(results, "WikiText", SPLITTING)
    return Judged(found["dalton"] == max(found.values()), spell_by(found))


def hash_and_skew(results: Results) -> Judged:
    """KG: a larger imbalance at the end on WikiText than on T4SA, by a half at least."""
    found = {stream: results.median("at_end", grouping="key", stream=stream) for stream in STREAMS}
    return Judged(
        found["WikiText"] >= 1.5 * found["T4SA"],
        ", ".join(f"{stream} {spell(value)}" for stream, value in found.items()),
    )


def similar(results: Results) -> Judged:
    """FlexD: the lowest imbalance of those that split, over the second half of both, or 0.02 above it."""
    found = {stream: settled_by(results, stream, SPLITTING) for stream in STREAMS}
    return Judged(
        all(each["flexd"] <= min(each.values()) + 0.02 for each in found.values()),
        "; ".join(f"{stream}: {spell_by(each)}" for stream, each in found.items()),
    )


CLAIMS = [
    Claim(
        says="FlexD performs similarly or slightly better (both streams, over the second half: within 0.02 "
        "of the lowest)",
        where="6.2",
        judge=similar,
    ),
    Claim(
        says="Hashing does well where keys are uniform, as in T4SA, and worse where they are skewed, as in "
        "WikiText (imbalance at the end, at least half as much again)",
        where="6.2",
        judge=hash_and_skew,
    ),
    Claim(
        says="Dalton balances worse on WikiText (the worst of the groupings that split, over the second "
        "half)",
        where="6.2",
        judge=dalton_worst,
    ),
]


EXPERIMENT = Experiment(
    name="flexd/fig13",
    label="Fig. 13",
    title="load imbalance over time on words",
    setting="As Fig. 9. The stand-in of T4SA, which the paper calls uniform, is the flattest stream that we "
    "have, and not of words.",
    cells=partial(real_cells, streams=STREAMS),
    measure=measure_real,
    claims=CLAIMS,
    table=partial(table_of, parameter="stream", name="stream"),
    draw=partial(draw_of, parameter="stream", titles=STREAMS),
    size=(9, 3.5),
    version=2,
)
