"""Fig. 6: imbalance and memory of schemes that share out messages to virtual workers, by workers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Parameters, Results, Scale
from keysplit_experiments.harness.table import spell
from keysplit_experiments.papers.consistent import EPSILON, VIRTUAL_WORKERS, WORKERS
from keysplit_experiments.papers.consistent._balance import (
    ALLOCATIONS,
    allocation,
    balance,
    draw_over,
    label,
    over,
    per_key,
)
from keysplit_experiments.papers.consistent._streams import drawn, on_stream, real


def cells(scale: Scale) -> list[Parameters]:
    """Every scheme on every stream and number of workers."""
    return [
        {**stream, "workers": workers, "grouping": grouping, "seed": seed}
        for stream in (drawn(scale, "WP"), real(scale, "WP"))
        for workers in WORKERS
        for grouping in ALLOCATIONS
        for seed in scale.grid([1, 2, 3], [1])
    ]


@on_stream
def measure(keys: Any, *, workers: int, grouping: str, seed: int) -> Figures:
    """Simulate one scheme on the workers' virtual workers."""
    return balance(allocation(grouping, VIRTUAL_WORKERS * workers, EPSILON, seed), keys)


def high(results: Results) -> Judged:
    """KG and PKG: at least ten times the bound of PoRC on the most virtual workers."""
    found = [
        results.median("relative_imbalance", grouping=name, workers=WORKERS[-1], like="WP")
        for name in ("key", "partial_key")
    ]
    return Judged(min(found) >= 10 * EPSILON, "; ".join(map(spell, found)))


def linear(results: Results) -> Judged:
    """KG and PKG: the growth of the imbalance against that of the workers."""
    words, fits = [], []
    for grouping in ("key", "partial_key"):
        xs, line = results.line("workers", "relative_imbalance", grouping=grouping, like="WP")
        growth, steps = line[-1] / line[1], xs[-1] / xs[1]
        fits.append(steps / 2 <= growth <= 2 * steps)
        words.append(f"{label(grouping)}: {spell(growth)} times from {xs[1]} to {xs[-1]}")
    return Judged(all(fits), "; ".join(words))


def beyond(results: Results, names: list[str], bound: float, messages: float) -> Judged:
    """The largest load: no more than a bound and some messages above the mean."""
    most = {
        name: max(
            (cell.figures["relative_imbalance"] - bound)
            * cell.figures["messages"]
            / (VIRTUAL_WORKERS * cell.parameters["workers"])
            for cell in results.where(grouping=name)
        )
        for name in names
    }
    return Judged(
        max(most.values()) <= messages,
        "; ".join(f"{label(name)} at most {spell(max(value, 0.0))} messages" for name, value in most.items()),
    )


def nearly_perfect(results: Results) -> Judged:
    """PoTC and SG: a few messages above the mean."""
    return beyond(results, ["power_of_two", "shuffle"], 0.0, 5)


def bounded(results: Results) -> Judged:
    """CH and PoRC: the bound and a message."""
    return beyond(results, ["bounded_ring", "power_of_random"], EPSILON, 1)


def memory_of(first: str, second: str, factor: float) -> Callable[[Results], Judged]:
    """Judge whether one scheme's memory is at most so many times another's, like WP."""

    def judge(results: Results) -> Judged:
        chosen = results.where(like="WP")
        pairs = [
            (per_key(chosen, grouping=first, workers=n), per_key(chosen, grouping=second, workers=n))
            for n in WORKERS
        ]
        words = "; ".join(f"{spell(own)} and {spell(other)}" for own, other in pairs)
        return Judged(all(own <= factor * other for own, other in pairs), f"copies {words}")

    return judge


CLAIMS = [
    Claim(
        says="KG and PKG are badly out of balance (on 100 workers at least ten times epsilon)",
        where="7.2, Q1",
        judge=high,
    ),
    Claim(
        says="The imbalance of KG and PKG grows linearly with the workers (from 10 to 100 workers: 5 to 20 "
        "times)",
        where="7.2, Q1",
        judge=linear,
    ),
    Claim(
        says="PoTC and SG are nearly perfect (at most 5 messages above the mean)",
        where="7.2, Q1",
        judge=nearly_perfect,
    ),
    Claim(
        says="CH and PoRC bound the imbalance near epsilon (at most a message more)",
        where="7.2, Q1",
        judge=bounded,
    ),
    Claim(
        says="PoRC keeps the memory as low as PKG (at most 1.5 times its copies of a key, like WP)",
        where="7.2, Q1",
        judge=memory_of("power_of_random", "partial_key", 1.5),
    ),
]

EXPERIMENT = Experiment(
    name="consistent/fig6",
    label="Fig. 6",
    title="imbalance and memory of schemes for virtual workers, by workers",
    setting="Messages go to 10 n virtual workers, and loads and memory are theirs. Epsilon 0.01 for PoRC "
    "and CH. Medians of three seeds.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=partial(over, x="workers", series="grouping"),
    draw=partial(draw_over, x="workers", series="grouping", x_label="workers n"),
    size=(8, 6),
)
