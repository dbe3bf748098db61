"""Time, balance and cost of the paper's four methods, and of DKG as the authors' program has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keysplit as ks
from keysplit import streams
from keysplit_experiments.harness import Figures, Parameters, Scale, figures_of
from keysplit_experiments.harness.figure import LOOKS
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.papers.dynamic_key import DKG, PAPER, SOURCES

ELECTION = PAPER.datasets["twitter-election"]
SERVICE_TIME_S = 559.329 * 10 / ELECTION.messages
"""Seconds a message: with them SG takes the 559.329 s of Table 3 on 10 workers."""

ELECTION_EXPONENT, ELECTION_KEYS, ELECTION_SHARE = 1.64, 10_000_000, 0.42

METRICS = {
    "makespan_s": "latency, s",
    "load_stddev": "StdDev, per cent",
    "replication": "DistCost",
    "throughput_per_s": "throughput, messages/s",
}

NAMES = ["latency", "StdDev", "DistCost", "throughput"]
"""Of the metrics, in their order, without units."""


def method(name: str, workers: int, seed: int) -> ks.Grouping:
    """Make a grouping of the paper."""
    if name == DKG:
        return ks.DynamicKeyGrouping(workers=workers, seed=seed, check_interval_s=60.0)
    return ks.grouping(name, workers=workers, seed=seed)


def label(name: str) -> str:
    """Return the paper's name of a grouping."""
    return "DKG-60" if name == DKG else LOOKS[name].label


def line(name: str) -> dict[str, Any]:
    """Return the look of a grouping's line."""
    if name == DKG:
        return LOOKS["dynamic_key"].line(label=label(name), linestyle="--", markerfacecolor="none")
    return LOOKS[name].line()


def bar(name: str) -> dict[str, Any]:
    """Return the look of a grouping's bars."""
    return {**LOOKS["dynamic_key" if name == DKG else name].bar(), "label": label(name)}


def performance(params: ks.Grouping, keys: Any, full_messages: int, sources: int = SOURCES) -> Figures:
    """Simulate a grouping, and give the paper's four metrics and the largest share of a worker.

    Args:
        params: The grouping.
        keys: The stream.
        full_messages: Of the paper's stream.
        sources: Spouts.
    """
    service_time_s = SERVICE_TIME_S * full_messages / len(keys)
    result = ks.simulate(params, keys, sources=sources, service_time_s=service_time_s, samples=0)
    # in the paper's time, whatever the length of the stream
    throughput_per_s = full_messages / result.makespan_s if result.makespan_s else 0.0
    return {
        **figures_of(result, "makespan_s", "load_stddev", "replication"),
        "throughput_per_s": throughput_per_s,
        "largest_share": float(result.loads.max() / result.loads.sum()),
    }


def election(scale: Scale) -> list[Parameters]:
    """Name the streams that stand for twitter-election: the drawn one, and the real one."""
    messages = scale.messages(ELECTION.messages, 200_000)
    return [
        {"like": ELECTION.symbol, "messages": messages},
        {"stream": ELECTION.symbol, "messages": messages},
    ]


def election_of(inputs: Inputs, messages: int, stream: str | None = None, like: str | None = None) -> Any:
    """Read or draw what stands for twitter-election."""
    if like is None:
        return inputs.real(ELECTION, messages)
    drawn = (ELECTION_EXPONENT, ELECTION_KEYS, messages, 1)
    return inputs.once(
        ("hot key", *drawn, ELECTION_SHARE), lambda: streams.zipf_hot_key(*drawn, share=ELECTION_SHARE)
    )


def on_election(simulate: Callable[..., Figures]) -> Callable[..., Figures]:
    """Make a measure of a function that takes the keys of a cell's stream, and its other parameters."""

    def measure(
        inputs: Inputs,
        *,
        messages: int,
        stream: str | None = None,
        like: str | None = None,
        **parameters: Any,
    ) -> Figures:
        return simulate(election_of(inputs, messages, stream, like), **parameters)

    return measure


def name_stream(parameters: Parameters) -> str:
    """Return in a word which stream parameters choose."""
    return f"like {parameters['like']}" if "like" in parameters else str(parameters["stream"])


def ratios(values: dict[str, float]) -> dict[str, float]:
    """Divide values by the largest, as the paper's figures do."""
    most = max(values.values())
    return {name: value / most if most > 0 else 0.0 for name, value in values.items()}
