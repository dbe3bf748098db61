"""The groupings next to each other: Fig. 9, 10 and 11."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from keysplit_experiments.harness import Figures, Judged, Parameters, Results
from keysplit_experiments.harness.figure import LOOKS
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import spell
from keysplit_experiments.papers.fish import WORKERS
from keysplit_experiments.papers.fish._runs import keys_of, largest, params_of, ratio, run

GROUPINGS = ["partial_key", "d_choices", "w_choices", "fish"]
"""That are compared with SG."""


def cells_of(streams: Iterable[Parameters]) -> list[Parameters]:
    """Name the cells of SG and the others on streams: every number of workers."""
    return [
        {**stream, "workers": workers, "grouping": grouping}
        for stream in streams
        for workers in WORKERS
        for grouping in ["shuffle", *GROUPINGS]
    ]


def measure(
    inputs: Inputs,
    *,
    seed: int,
    messages: int,
    workers: int,
    grouping: str,
    exponent: float | None = None,
    stream: str | None = None,
) -> Figures:
    """Simulate one grouping in time; FG keeps every key once: the replication is the memory over FG's."""
    keys = keys_of(inputs, messages, seed, exponent=exponent, stream=stream)
    return run(params_of(grouping, workers, seed), keys)


def over_shuffle(results: Results, grouping: str) -> dict[Any, float]:
    """Return the execution time over that of SG by stream and workers."""
    return ratio(results, "makespan_s", {"grouping": grouping}, {"grouping": "shuffle"})


def over_fish(results: Results, grouping: str) -> dict[Any, float]:
    """Return the execution time over that of FISH by stream and workers."""
    return ratio(results, "makespan_s", {"grouping": grouping}, {"grouping": "fish"})


def close_to_shuffle(results: Results, most: float) -> Judged:
    """FISH: at most so many times SG's time everywhere."""
    found, place = largest(over_shuffle(results, "fish"))
    return Judged(found <= most, f"at most {spell(found)} times ({place})")


def gains_on_heads(results: Results) -> Judged:
    """D-C and W-C: somewhere at least twice FISH's time."""
    most = {name: largest(over_fish(results, name)) for name in ("d_choices", "w_choices")}
    return Judged(
        all(value >= 2 for value, _ in most.values()),
        "; ".join(
            f"{LOOKS[name].label} at most {spell(value)} times ({place})"
            for name, (value, place) in most.items()
        ),
    )
