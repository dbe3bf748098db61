"""Fig. 12: queues, latencies and utilisation over time when workers become faster and slower."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS
from keysplit_experiments.harness.table import spell
from keysplit_experiments.papers.consistent import MESSAGES
from keysplit_experiments.papers.consistent._balance import label
from keysplit_experiments.papers.consistent._queues import (
    GROUPINGS,
    STRONG,
    TIMES,
    capacities,
    course,
    draw_over_time,
    over_time,
    params_of,
    queues,
)
from keysplit_experiments.papers.consistent._streams import drawn, on_stream, real

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUICK_MESSAGES = 2_000_000
VIRTUAL_WORKERS = 100
CHANGES = [6_000_000 / MESSAGES, 12_000_000 / MESSAGES]
"""After which parts of the stream the speeds change: 6 and 12 million messages."""


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping on every stream."""
    return [
        {**stream, "grouping": grouping}
        for stream in (drawn(scale, "WP", QUICK_MESSAGES), real(scale, "TW", QUICK_MESSAGES))
        for grouping in GROUPINGS
    ]


@on_stream
def measure(keys: Any, *, grouping: str) -> Figures:
    """Simulate one grouping, whose strong workers are others after each change."""
    changes = [
        (round(part * len(keys)), capacities(STRONG, TIMES, first=STRONG * (place + 1)))
        for place, part in enumerate(CHANGES)
    ]
    return queues(params_of(grouping, VIRTUAL_WORKERS), keys, capacities(STRONG, TIMES), changes)


def periods(results: Results, figure: str, grouping: str) -> list[tuple[float, float]]:
    """Return the peak of a gap like WP in each period, and its mean over the period's last quarter."""
    chosen = results.where(like="WP", grouping=grouping)
    positions, values = np.array(course(chosen, "position")), np.array(course(chosen, figure))
    edges = [0.0, *CHANGES, 1.0]
    found = []
    for start, end in pairwise(edges):
        inside = values[(positions > start) & (positions <= end)]
        late = values[(positions > end - (end - start) / 4) & (positions <= end)]
        found.append((float(np.max(inside)), float(np.mean(late))))
    return found


def adapts(results: Results) -> Judged:
    """CG: before the next change, the gap of utilisation is back at a tenth of its peak."""
    found = periods(results, "utilisation_gap", "consistent")
    return Judged(
        all(late <= peak / 10 for peak, late in found),
        "; ".join(f"{spell(peak)} down to {spell(late)}" for peak, late in found),
    )


def others_do_not(results: Results) -> Judged:
    """CG against KG and SG: the gap of queue before the end of each period."""
    own = [late for _, late in periods(results, "queue_gap", "consistent")]
    others: Sequence[Sequence[float]] = [
        [late for _, late in periods(results, "queue_gap", name)] for name in ("key", "shuffle")
    ]
    fits = all(mine <= min(theirs) / 10 for mine, *theirs in zip(own, *others, strict=True))
    lines = zip(GROUPINGS, [*others, own], strict=True)
    return Judged(fits, "; ".join(f"{label(name)} {', '.join(map(spell, line))}" for name, line in lines))


CLAIMS = [
    Claim(
        says="CG adapts very efficiently to the change (like WP: before the next change the gap of "
        "utilisation is at most a tenth of its peak)",
        where="7.2, Q3",
        judge=adapts,
    ),
    Claim(
        says="KG and SG are there for comparison only (the limit is ours, like WP: at the end of "
        "each period CG's gap of queue is at most a tenth of theirs)",
        where="7.2, Q3",
        judge=others_do_not,
    ),
]


def draw(figure: Figure, results: Results) -> None:
    """The gaps over time, and when the speeds change."""
    draw_over_time(figure, results, "grouping", lambda name: LOOKS[name].line())
    for axes in figure.axes:
        for change in CHANGES:
            axes.axvline(change, color="#bbbbbb", linewidth=0.8, zorder=0)


EXPERIMENT = Experiment(
    name="consistent/fig12",
    label="Fig. 12",
    title="queues, latencies and utilisation over time when workers become faster and slower",
    setting="As Fig. 8, but after 6 and after 12 of 22 million messages three other workers are the fast "
    "ones (the paper does not say which). CG has 100 virtual workers each.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=partial(over_time, series="grouping", label=label),
    draw=draw,
    size=(11, 6),
)
