"""Fig. 9: imbalance and memory of CG and the other groupings, by workers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import keysplit as ks
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS
from keysplit_experiments.harness.table import spell
from keysplit_experiments.papers.consistent import EPSILON, VIRTUAL_WORKERS, WORKERS
from keysplit_experiments.papers.consistent._balance import (
    CIRCLE,
    allocation,
    balance,
    draw_over,
    label,
    over,
    per_key,
)
from keysplit_experiments.papers.consistent._streams import drawn, on_stream, real

GROUPINGS = ["key", "partial_key", "power_of_two", CIRCLE, "consistent", "shuffle"]
MORE: dict[str, dict[str, Any]] = {
    "bounded_ring": {"virtual_nodes": VIRTUAL_WORKERS, "epsilon": EPSILON},
    "consistent": {"virtual_workers": VIRTUAL_WORKERS, "epsilon": EPSILON},
}
"""Parameters other than workers and seed."""


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping on every stream and number of workers."""
    return [
        {**stream, "workers": workers, "grouping": grouping, "seed": seed}
        for stream in (drawn(scale, "WP"), real(scale, "WP"))
        for workers in WORKERS
        for grouping in [*GROUPINGS, "bounded_ring"]
        for seed in scale.grid([1, 2, 3], [1])
    ]


@on_stream
def measure(keys: Any, *, workers: int, grouping: str, seed: int) -> Figures:
    """Simulate one grouping."""
    if grouping == CIRCLE:
        return circle(keys, workers, seed)
    return balance(ks.grouping(grouping, workers=workers, seed=seed, **MORE.get(grouping, {})), keys)


def circle(keys: Any, workers: int, seed: int) -> Figures:
    """Share out messages to virtual workers, bounded points of a circle, and these to workers in turn."""
    points = allocation("bounded_ring", VIRTUAL_WORKERS * workers, EPSILON, seed)
    owners = points.router().route(keys) % workers
    memory, copies = ks.metrics.memory(keys, owners), ks.metrics.replication(keys, owners)
    loads = np.bincount(owners, minlength=workers).astype(float)
    return {
        "relative_imbalance": ks.metrics.relative_imbalance(loads),
        "memory": memory,
        "distinct_keys": round(memory / copies),
        "messages": len(owners),
    }


def lines(results: Results) -> dict[str, list[float]]:
    """List the imbalances like WP over workers, by grouping."""
    return {
        name: results.line("workers", "relative_imbalance", grouping=name, like="WP")[1] for name in GROUPINGS
    }


def copies(results: Results) -> dict[str, list[float]]:
    """List the copies of a key like WP over workers, by grouping."""
    return {
        name: [per_key(results, grouping=name, workers=n, like="WP") for n in WORKERS] for name in GROUPINGS
    }


def words(found: dict[str, list[float]], *names: str) -> str:
    """Tell the figures of some groupings."""
    return "; ".join(f"{label(name)} {', '.join(map(spell, found[name]))}" for name in names)


def extremes(results: Results) -> Judged:
    """KG: no grouping is more out of balance, and a key is on one worker."""
    imbalances, memories = lines(results), copies(results)
    worst = all(
        own >= max(others)
        for own, *others in zip(imbalances["key"], *(imbalances[name] for name in GROUPINGS[1:]), strict=True)
    )
    return Judged(worst and set(memories["key"]) == {1.0}, words(imbalances, "key"))


def two_choices(results: Results) -> Judged:
    """PKG: even on 5 and 10 workers, not on 50 and 100."""
    imbalances, memories = lines(results)["partial_key"], copies(results)["partial_key"]
    return Judged(
        max(imbalances[:2]) <= EPSILON and EPSILON < imbalances[2] < imbalances[3] and max(memories) <= 2,
        f"imbalance {', '.join(map(spell, imbalances))}; copies {', '.join(map(spell, memories))}",
    )


def even(results: Results) -> Judged:
    """PoTC and SG: both even, with the same memory, more than CH's and CG's."""
    imbalances, memories = lines(results), copies(results)
    both = ("power_of_two", "shuffle")
    alike = all(max(pair) <= 1.2 * min(pair) for pair in zip(*(memories[name] for name in both), strict=True))
    more = all(
        min(memories[name][place] for name in both) > memories[other][place]
        for place in range(len(WORKERS))
        for other in (CIRCLE, "consistent")
    )
    fits = alike and more and max(max(imbalances[name]) for name in both) <= EPSILON
    return Judged(fits, f"copies: {words(memories, *both, CIRCLE)}")


def bounded(results: Results) -> Judged:
    """CH and CG: epsilon, and a message a virtual worker."""
    chosen = results.where(grouping=[CIRCLE, "consistent"])
    most = max(
        (cell.figures["relative_imbalance"] - EPSILON) * cell.figures["messages"] / cell.parameters["workers"]
        for cell in chosen
    )
    found = words(lines(results), CIRCLE, "consistent")
    return Judged(most <= VIRTUAL_WORKERS, f"{found}; at most {spell(max(most, 0.0))} messages more")


def less_memory(results: Results) -> Judged:
    """CG against CH: fewer copies of a key. CH-BL is reported, too."""
    memories = copies(results)
    direct = [per_key(results, grouping="bounded_ring", workers=n, like="WP") for n in WORKERS]
    return Judged(
        all(own < other for own, other in zip(memories["consistent"], memories[CIRCLE], strict=True)),
        f"copies: {words({**memories, 'bounded_ring': direct}, 'consistent', CIRCLE, 'bounded_ring')}",
    )


CLAIMS = [
    Claim(
        says="KG has the worst imbalance and the least memory (like WP; one copy of a key)",
        where="7.2, Q2",
        judge=extremes,
    ),
    Claim(
        says="PKG is nearly even with the least memory on 5 and 10 workers (like WP: at most 0.01, at most "
        "two copies of a key); its imbalance grows with more (above 0.01 on 50, and more on 100)",
        where="7.2, Q2",
        judge=two_choices,
    ),
    Claim(
        says="PoTC and SG are nearly even (at most 0.01) and need the same memory, more than CH "
        "and CG (like WP; memories within a fifth)",
        where="7.2, Q2",
        judge=even,
    ),
    Claim(
        says="CH and CG bound the imbalance (0.01, and a message a virtual worker)",
        where="7.2, Q2",
        judge=bounded,
    ),
    Claim(says="CG needs less memory than CH (like WP)", where="7.2, Q2", judge=less_memory),
]


def look(grouping: Any) -> dict[str, Any]:
    """Return the look of a grouping's line."""
    return {**LOOKS["ring" if grouping == CIRCLE else grouping].line(), "label": label(grouping)}


EXPERIMENT = Experiment(
    name="consistent/fig9",
    label="Fig. 9",
    title="imbalance and memory of CG and the other groupings, by workers",
    setting="Equal workers send no signals, as nothing waits. CG and CH bound the loads of virtual "
    "workers; CH-BL bounds those of the workers, which have 10 points each on the circle. "
    "Medians of three seeds. (The text says which captions of the paper's Fig. 6, 7 and 9 are "
    "those of another figure.)",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=partial(over, x="workers", series="grouping"),
    draw=partial(draw_over, x="workers", series="grouping", x_label="workers n", line=look),
    size=(8, 6),
)
