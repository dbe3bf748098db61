"""Fig. 11: queues, latencies and utilisation over time, by CG's number of virtual workers."""

from __future__ import annotations

from functools import partial
from typing import Any

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.table import share, spell
from keysplit_experiments.papers.consistent._queues import (
    STRONG,
    TIMES,
    capacities,
    course,
    draw_over_time,
    over_time,
    params_of,
    queues,
    settled,
)
from keysplit_experiments.papers.consistent._streams import drawn, on_stream, real

VIRTUAL_WORKERS = [5, 10, 20, 50, 100, 1000]
QUICK_MESSAGES = 2_000_000
EVEN = 10
"""Times the gap of utilisation that is left in the end: what is below it has converged."""


def cells(scale: Scale) -> list[Parameters]:
    """CG with every number of virtual workers on every stream."""
    return [
        {**stream, "virtual_workers": virtual_workers}
        for stream in (drawn(scale, "WP", QUICK_MESSAGES), real(scale, "TW", QUICK_MESSAGES))
        for virtual_workers in VIRTUAL_WORKERS
    ]


@on_stream
def measure(keys: Any, *, virtual_workers: int) -> Figures:
    """Simulate CG with a number of virtual workers."""
    return queues(params_of("consistent", virtual_workers), keys, capacities(STRONG, TIMES))


def converged(results: Results) -> dict[int, float]:
    """Tell after which part of the stream like WP the gap of utilisation stays low, by virtual workers.

    Low is at most ten times the mean gap of the second half with 100 of them.
    """
    low = EVEN * settled(results, "utilisation_gap", like="WP", virtual_workers=100)
    found = {}
    for number in VIRTUAL_WORKERS:
        chosen = results.where(like="WP", virtual_workers=number)
        gaps, positions = course(chosen, "utilisation_gap"), course(chosen, "position")
        above = [position for position, gap in zip(positions, gaps, strict=True) if gap > low]
        found[number] = max(above, default=0.0)
    return found


def latencies(results: Results) -> dict[int, float]:
    """Return the mean latencies like WP."""
    return {n: results.one("mean_latency_s", like="WP", virtual_workers=n) for n in VIRTUAL_WORKERS}


def too_few(results: Results) -> Judged:
    """Five: over the second half larger gaps of queue and utilisation than with 10, 20, 50 and 100."""
    fits, words = [], []
    for figure, what in (("queue_gap", "queue"), ("utilisation_gap", "utilisation")):
        found = {n: settled(results, figure, like="WP", virtual_workers=n) for n in VIRTUAL_WORKERS[:-1]}
        fits.append(found[5] == max(found.values()))
        words.append(f"{what} " + ", ".join(f"{n}: {spell(gap)}" for n, gap in found.items()))
    return Judged(all(fits), "; ".join(words))


def too_many(results: Results) -> Judged:
    """A thousand: the last to converge, and a higher mean latency than with 10 to 100."""
    after, mean = converged(results), latencies(results)
    most = max(mean[n] for n in (10, 20, 50, 100))
    return Judged(
        all(after[1000] > after[n] for n in VIRTUAL_WORKERS[:-1]) and mean[1000] > most,
        f"converged after {', '.join(f'{n}: {share(part)}' for n, part in after.items())}; mean latency "
        f"{spell(mean[1000])} s against at most {spell(most)} s",
    )


def alike(results: Results) -> Judged:
    """Ten and twenty: mean latencies within a factor of two."""
    mean = latencies(results)
    return Judged(
        max(mean[10], mean[20]) <= 2 * min(mean[10], mean[20]), f"{spell(mean[10])} and {spell(mean[20])} s"
    )


def best(results: Results) -> Judged:
    """A hundred: over the second half the smallest gap of utilisation."""
    found = {n: settled(results, "utilisation_gap", like="WP", virtual_workers=n) for n in VIRTUAL_WORKERS}
    return Judged(
        found[100] == min(found.values()), ", ".join(f"{n}: {spell(gap)}" for n, gap in found.items())
    )


CLAIMS = [
    Claim(
        says="Five virtual workers are too few to move (like WP, over the second half the gaps of queue and "
        "utilisation are larger than with 10, 20, 50 and 100)",
        where="7.2, Q3",
        judge=too_few,
    ),
    Claim(
        says="With 1000 CG takes longer to converge, at the cost of performance (like WP: the gap of "
        "utilisation is the last to stay low, and the mean latency is above that with 10 to 100)",
        where="7.2, Q3",
        judge=too_many,
    ),
    Claim(
        says="10 and 20 perform equally well (like WP: mean latencies within a factor of 2)",
        where="7.2, Q3",
        judge=alike,
    ),
    Claim(
        says="100 give the best results (like WP: the smallest gap of utilisation over the second half)",
        where="7.2, Q3",
        judge=best,
    ),
]


def look(virtual_workers: Any) -> dict[str, Any]:
    """Return the look of the line of a number of virtual workers."""
    return {"label": f"{virtual_workers:,}", "color": f"C{VIRTUAL_WORKERS.index(virtual_workers)}"}


EXPERIMENT = Experiment(
    name="consistent/fig11",
    label="Fig. 11",
    title="queues, latencies and utilisation over time, by CG's number of virtual workers",
    setting="As Fig. 8, by the number of virtual workers.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=partial(over_time, series="virtual_workers", label=lambda number: number),
    draw=partial(draw_over_time, series="virtual_workers", look=look),
    size=(11, 6),
)
