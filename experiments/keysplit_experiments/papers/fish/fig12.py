"""Fig. 12: FISH by its decay."""

from __future__ import annotations

from functools import partial

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Results, steps
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import spell
from keysplit_experiments.papers.fish._parameters import cells_of, draw_of, table_of
from keysplit_experiments.papers.fish._runs import (
    LIFETIME_COUNTS,
    largest,
    name_place,
    ratio,
    varied,
)

DECAYS = steps(0.0, 1.0, 0.2)
DEFAULT = {"decay": 0.2}


def measure(
    inputs: Inputs, *, exponent: float, seed: int, messages: int, workers: int, decay: float
) -> Figures:
    """Simulate FISH in time."""
    return varied(inputs, exponent, seed, messages, workers, decay=decay)


def lifetime_grows(results: Results) -> Judged:
    """No decay: the time over that with 0.2 grows from the smallest to the largest skew on 128 workers."""
    found = ratio(results, "time", {"decay": 1.0}, DEFAULT)
    low, high = (found[z, 128] for z in (min(results.values("exponent")), max(results.values("exponent"))))
    return Judged(high > low, f"{spell(low)} to {spell(high)} times")


def lifetime_worst(results: Results) -> Judged:
    """No decay: somewhere at least twice the time of 0.2."""
    worst, place = largest(ratio(results, "time", {"decay": 1.0}, DEFAULT))
    return Judged(worst >= 2, f"at most {spell(worst)} times ({place})")


def forgetting_is_fast(results: Results) -> Judged:
    """Everything forgotten: at most 1.1 times the time with 0.2."""
    worst, place = largest(ratio(results, "time", {"decay": 0.0}, DEFAULT))
    return Judged(worst <= 1.1, f"at most {spell(worst)} times ({place})")


def forgetting_costs(results: Results) -> Judged:
    """Everything forgotten: at the smallest skew the most memory over that of 0.2, at least 1.5 times."""
    found = ratio(results, "replication", {"decay": 0.0}, DEFAULT)
    worst = max(found, key=found.__getitem__)
    return Judged(
        worst[0] == min(results.values("exponent")) and found[worst] >= 1.5,
        f"at most {spell(found[worst])} times ({name_place(worst)})",
    )


def best(results: Results) -> Judged:
    """0.2: in most settings no other is better by 10 per cent in time, or in memory at no loss of time."""
    lost = []
    for other in DECAYS:
        times = ratio(results, "time", {"decay": other}, DEFAULT)
        memories = ratio(results, "replication", {"decay": other}, DEFAULT)
        lost += [
            place for place in times if times[place] < 0.9 or (times[place] <= 1.01 and memories[place] < 0.9)
        ]
    settings = len(ratio(results, "time", DEFAULT, DEFAULT))
    return Judged(len(set(lost)) < settings / 2, f"in {settings - len(set(lost))} of {settings} settings")


CLAIMS = [
    Claim(
        says="With decay 1, which counts the whole lifetime, the time grows with the skew (128 workers, "
        "over decay 0.2)",
        where="6.3",
        judge=lifetime_grows,
    ),
    Claim(
        says="It is up to many times that with decay 0.2 (at least twice somewhere)",
        where="6.3",
        paper="up to 12.14 times",
        judge=lifetime_worst,
        because=LIFETIME_COUNTS,
    ),
    Claim(
        says="With decay 0, which forgets everything, the time is low (at most 1.1 times that with 0.2)",
        where="6.3",
        judge=forgetting_is_fast,
    ),
    Claim(
        says="With decay 0 memory is higher, most of all at low skew (at least 1.5 times that with 0.2, at "
        "the smallest skew)",
        where="6.3",
        paper="2.65 times",
        judge=forgetting_costs,
    ),
    Claim(
        says="0.2 is the best in balance and memory for many cases (in most, no other is 10 per cent "
        "faster, or as fast with 10 per cent less memory)",
        where="6.3",
        judge=best,
    ),
]


EXPERIMENT = Experiment(
    name="fish/fig12",
    label="Fig. 12",
    title="execution time and memory of FISH by its decay",
    setting="Time is relative to workers that are never idle, memory to that of FG.",
    cells=partial(cells_of, parameter="decay", values=DECAYS),
    measure=measure,
    claims=CLAIMS,
    table=partial(table_of, parameter="decay"),
    draw=partial(draw_of, parameter="decay", values=DECAYS),
    size=(11, 5.5),
)
