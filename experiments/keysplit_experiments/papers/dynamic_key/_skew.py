"""Fig. 10 and 11 are of the same runs: the methods on streams of more and more skew."""

from __future__ import annotations

from collections.abc import Sequence

from keysplit import streams
from keysplit_experiments.harness import Figures, Parameters, Results, Scale
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Entry, Table
from keysplit_experiments.papers.dynamic_key import GROUPINGS, WORKERS
from keysplit_experiments.papers.dynamic_key._performance import METRICS, label, method, performance

MESSAGES = 10_000_000
COUNTRIES = 204
RATIOS = list(range(0, 101, 10))
"""Skewness ratio: per cent of the messages with the hot key."""


def cells(scale: Scale) -> list[Parameters]:
    """Every method at every skewness ratio."""
    return [
        {"ratio": ratio, "messages": scale.messages(MESSAGES, 200_000), "grouping": grouping, "seed": seed}
        for ratio in RATIOS
        for grouping in GROUPINGS
        for seed in scale.grid([1, 2, 3], [1])
    ]


def measure(inputs: Inputs, *, ratio: int, messages: int, grouping: str, seed: int) -> Figures:
    """Simulate one method."""
    keys = inputs.once(
        ("country-skew", ratio, messages),
        lambda: streams.zipf_hot_key(0.0, COUNTRIES, messages, seed=1, share=ratio / 100),
    )
    return performance(method(grouping, WORKERS, seed), keys, MESSAGES)


def line(results: Results, grouping: str, metric: str, first: int = 0, last: int = 100) -> list[float]:
    """List a metric of a method over the ratios from one to another."""
    ratios = [ratio for ratio in RATIOS if first <= ratio <= last]
    return [results.median(metric, grouping=grouping, ratio=ratio) for ratio in ratios]


def table(results: Results) -> Table:
    """Every metric by ratio."""
    rows: list[Sequence[Entry]] = [
        [name, label(grouping), *line(results, grouping, metric)]
        for metric, name in METRICS.items()
        for grouping in GROUPINGS
    ]
    return Table(["metric", "method", *(f"r{ratio}" for ratio in RATIOS)], rows)
