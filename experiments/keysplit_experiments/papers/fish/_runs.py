"""The streams of these experiments, and how long the workers take for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keysplit as ks
from keysplit import streams
from keysplit_experiments.harness import Figures, Parameters, Results, Scale, figures_of
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.papers.fish import (
    COUNTERS,
    EXPONENTS,
    FEW_EXPONENTS,
    IN_FLIGHT,
    KEYS,
    MESSAGES,
    PAPER,
    SEEDS,
    SERVICE_TIME_S,
    SOURCES,
)

COUNTING = ("d_choices", "w_choices")
"""With other numbers of counters than those by default; FISH has 1000."""

LIFETIME_COUNTS = (
    "a new hottest key is soon hot in lifetime counts too, and its workers double as it catches up with "
    "the old one (z = 2, 128 workers: 8 after 0.3 per cent of the stream, 16 after 5, 32 after 10), so "
    "that time is lost only in between"
)
"""Why they cost less time than the paper reports."""


def evolving(scale: Scale, seeds: Iterable[int] = SEEDS) -> list[Parameters]:
    """Name the streams ZF: every skew, every seed."""
    return [
        {"exponent": exponent, "seed": seed, "messages": scale.messages(MESSAGES)}
        for exponent in scale.grid(EXPONENTS, FEW_EXPONENTS)
        for seed in scale.grid(list(seeds), [1])
    ]


def real(scale: Scale, *symbols: str) -> list[Parameters]:
    """Name real streams."""
    return [
        {"stream": symbol, "seed": 1, "messages": scale.messages(PAPER.datasets[symbol].messages)}
        for symbol in symbols
    ]


def keys_of(
    inputs: Inputs, messages: int, seed: int, *, exponent: float | None = None, stream: str | None = None
) -> Any:
    """Read or draw the stream that the parameters of a cell name."""
    if exponent is None:
        return inputs.real(PAPER.datasets[str(stream)], messages)
    return inputs.once(
        ("zipf_evolving", exponent, KEYS, messages, seed),
        lambda: streams.zipf_evolving(exponent, KEYS, messages, seed),
    )


def params_of(grouping: str, workers: int, seed: int, **more: Any) -> ks.Grouping:
    """Make a grouping as the paper has it: with 1000 counters where it counts."""
    counters = {"sketch_capacity": COUNTERS} if grouping in COUNTING else {}
    return ks.grouping(grouping, workers=workers, seed=seed, **counters, **more)


def run(params: ks.Grouping, keys: Any, **more: Any) -> Figures:
    """Simulate a grouping in time, and give how long it takes and the memory it needs."""
    result = ks.simulate(
        params,
        keys,
        sources=SOURCES,
        service_time_s=SERVICE_TIME_S,
        in_flight=IN_FLIGHT * params.workers,
        samples=0,
        **more,
    )
    return figures_of(result, "makespan_s", "replication", "imbalance", "messages")


def over_ideal(figures: Figures, workers: int, speed: float = 1.0) -> Figures:
    """Add the execution time over that of workers that are never idle.

    Args:
        figures: What [`run`][keysplit_experiments.papers.fish._runs.run] gave.
        workers: Their number.
        speed: Their mean speed.
    """
    ideal_s = figures["messages"] * SERVICE_TIME_S / (workers * speed)
    return {**figures, "time": figures["makespan_s"] / ideal_s}


def varied(
    inputs: Inputs, exponent: float, seed: int, messages: int, workers: int, **parameters: Any
) -> Figures:
    """Simulate FISH with some of its parameters on ZF, and give what `over_ideal` does."""
    params = params_of("fish", workers, seed, **parameters)
    return over_ideal(run(params, keys_of(inputs, messages, seed, exponent=exponent)), workers)


def ratio(results: Results, figure: str, of: Mapping[str, Any], to: Mapping[str, Any]) -> dict[Any, float]:
    """Compare two series: the median over the seeds of the one, over that of the other.

    Args:
        results: The cells.
        figure: What to compare.
        of: Parameters of the one series.
        to: Parameters of the other.

    Returns:
        The ratios by stream (the skew of ZF, or the symbol) and workers.
    """
    return {
        (stream, workers): results.median(figure, **chosen, **of) / results.median(figure, **chosen, **to)
        for stream, where in named(results).items()
        for workers in results.where(**where).values("workers")
        for chosen in ({**where, "workers": workers},)
    }


def largest(ratios: Mapping[Any, float]) -> tuple[float, str]:
    """Return the largest of some ratios, and say where it was found."""
    place = max(ratios, key=ratios.__getitem__)
    return ratios[place], name_place(place)


def named(results: Results) -> dict[Any, Parameters]:
    """List the streams by their skew or symbol, with the parameters that choose their cells."""
    found: dict[Any, Parameters] = {}
    for cell in results:
        name = "exponent" if "exponent" in cell.parameters else "stream"
        found[cell.parameters[name]] = {name: cell.parameters[name]}
    return found


def name_stream(name: Any) -> str:
    """Return which stream: its symbol, or the skew of ZF."""
    return name if isinstance(name, str) else f"z = {name}"


def name_place(place: tuple[Any, Any]) -> str:
    """Return where a ratio was found."""
    return f"{name_stream(place[0])}, n = {place[1]}"
