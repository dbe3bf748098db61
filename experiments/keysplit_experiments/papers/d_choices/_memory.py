"""Memory of section IV-B: what figures 5 and 6 share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import keysplit as ks
from keysplit_experiments.harness import Figures, Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS, legend, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table
from keysplit_experiments.papers.d_choices import (
    EXPONENTS,
    FEW_EXPONENTS,
    KEYS,
    MESSAGES,
    balance,
    frequencies,
    solved,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKERS = [50, 100]


def cells(scale: Scale) -> list[Parameters]:
    """Every number of workers on every stream."""
    return [
        {"exponent": exponent, "messages": scale.messages(MESSAGES), "workers": workers}
        for exponent in scale.grid(EXPONENTS, FEW_EXPONENTS)
        for workers in WORKERS
    ]


def measure(inputs: Inputs, *, exponent: float, messages: int, workers: int) -> Figures:
    """Estimate the memory of each grouping, and count it in a simulation."""
    stream = inputs.zipf(exponent, KEYS, messages, seed=1)
    counts = frequencies(stream)
    head, d = solved(counts, workers)
    two = np.minimum(counts, 2)
    estimated = {
        "partial_key": two,
        "shuffle": np.minimum(counts, workers),
        "d_choices": np.where(head, np.minimum(counts, d), two),
        "w_choices": np.where(head, np.minimum(counts, workers), two),
    }
    simulated = {
        name: balance(ks.grouping(name, workers=workers, seed=1), stream)["memory"] for name in estimated
    }
    return {
        "d": d,
        **{f"{name}_estimated": int(pairs.sum()) for name, pairs in estimated.items()},
        **{f"{name}_simulated": pairs for name, pairs in simulated.items()},
    }


def overhead(results: Results, grouping: str, base: str, workers: int, how: str = "estimated") -> list[float]:
    """List the memory of a grouping beyond that of another, as a share of the other's, by exponent."""
    chosen = results.where(workers=workers)
    own, others = (chosen.all(f"{name}_{how}") for name in (grouping, base))
    return [pairs / other - 1 for pairs, other in zip(own, others, strict=True)]


def table(results: Results, base: str) -> Table:
    """Memory against that of another grouping, in per cent."""
    columns = [
        (n, name, how)
        for n in WORKERS
        for name in ("d_choices", "w_choices")
        for how in ("estimated", "simulated")
    ]
    lines = [overhead(results, name, base, n, how) for n, name, how in columns]
    rows = [
        [exponent, *(round(100 * line[place], 1) for line in lines)]
        for place, exponent in enumerate(results.values("exponent"))
    ]
    heads = [
        f"{LOOKS[name].label}, n = {n}" + (", simulated" if how == "simulated" else "")
        for n, name, how in columns
    ]
    return Table(["z", *heads], rows)


def draw(figure: Figure, results: Results, base: str) -> None:
    """Memory against that of another grouping over skew."""
    plots = panels(
        figure,
        [f"n = {workers}" for workers in WORKERS],
        2,
        x="skew z",
        y=f"memory against {LOOKS[base].label}, per cent",
    )
    for axes, workers in zip(plots, WORKERS, strict=True):
        for name in ("d_choices", "w_choices"):
            look = LOOKS[name]
            estimated = [100 * part for part in overhead(results, name, base, workers)]
            axes.plot(results.values("exponent"), estimated, **look.line())
            simulated = [100 * part for part in overhead(results, name, base, workers, "simulated")]
            axes.plot(
                results.values("exponent"),
                simulated,
                **look.line(label=f"{look.label}, simulated", marker="", linestyle=":"),
            )
    legend(figure)
