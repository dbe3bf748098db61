"""Fig. 7: queues, latencies and utilisation over time on equal workers."""

from __future__ import annotations

from functools import partial
from typing import Any

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS
from keysplit_experiments.harness.table import spell
from keysplit_experiments.papers.consistent._balance import label
from keysplit_experiments.papers.consistent._queues import (
    GROUPINGS,
    WORKERS,
    capacities,
    course,
    draw_over_time,
    grows,
    over_time,
    params_of,
    queues,
    settled,
)
from keysplit_experiments.papers.consistent._streams import drawn, on_stream, real

QUICK_MESSAGES = 1_000_000


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping on every stream."""
    return [
        {**stream, "grouping": grouping}
        for stream in (drawn(scale, "WP", QUICK_MESSAGES), real(scale, "TW", QUICK_MESSAGES))
        for grouping in GROUPINGS
    ]


@on_stream
def measure(keys: Any, *, grouping: str) -> Figures:
    """Simulate one grouping."""
    return queues(params_of(grouping), keys, capacities(WORKERS, 1.0))


def hashing_falls_behind(results: Results) -> Judged:
    """KG: the gaps of queue and latency at half the stream and at the end."""
    chosen = results.where(like="WP", grouping="key")
    words = []
    for figure in ("queue_gap", "latency_gap_s"):
        values = course(chosen, figure)
        words.append(f"{spell(values[len(values) // 2 - 1])} to {spell(values[-1])}")
    fits = all(grows(chosen, figure) for figure in ("queue_gap", "latency_gap_s"))
    return Judged(fits, f"queue {words[0]} messages; latency {words[1]} s")


def stays_low(results: Results) -> Judged:
    """CG: a hundredth of KG's gaps of queue and latency."""
    words, fits = [], []
    for figure in ("queue_gap", "latency_gap_s"):
        own, other = (settled(results, figure, like="WP", grouping=name) for name in ("consistent", "key"))
        fits.append(own <= other / 100)
        words.append(f"{spell(own)} against {spell(other)}")
    return Judged(all(fits), f"queue {words[0]} messages; latency {words[1]} s")


def even_utilisation(results: Results) -> Judged:
    """The gap of utilisation: above 0 with KG, near 0 with CG."""
    own, other = (
        settled(results, "utilisation_gap", like="WP", grouping=name) for name in ("consistent", "key")
    )
    return Judged(own <= other / 100 and other > 0, f"{spell(own)} against {spell(other)}")


CLAIMS = [
    Claim(
        says="With KG the gaps of queue and latency grow over time (like WP, from half the stream to its "
        "end by more than a half)",
        where="7.2, Q2",
        judge=hashing_falls_behind,
    ),
    Claim(
        says="With CG both stay very low (like WP, over the second half: at most a hundredth of KG's)",
        where="7.2, Q2",
        judge=stays_low,
    ),
    Claim(
        says="The gap of utilisation is positive with KG and near zero with CG (at most a hundredth of KG's)",
        where="7.2, Q2",
        judge=even_utilisation,
    ),
]


EXPERIMENT = Experiment(
    name="consistent/fig7",
    label="Fig. 7",
    title="queues, latencies and utilisation over time on equal workers",
    setting="All workers are equal.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=partial(over_time, series="grouping", label=label),
    draw=partial(draw_over_time, series="grouping", look=lambda name: LOOKS[name].line()),
    size=(11, 6),
)
