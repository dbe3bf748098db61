"""The streams of the paper's experiments: real ones, and drawn ones with the figures that it reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keysplit import streams
from keysplit_experiments.harness import Figures, Parameters, Results, Scale
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.papers.consistent import MESSAGES, PAPER

TABLE_1_SHARE = 0.2469
"""Of the hottest key of TW in Table 1: KG on 10,000 workers is out of balance by 10,000 times that share."""

LIKE = {"WP": (2_900_000, 0.0932), "TW": (570_000, TABLE_1_SHARE)}
"""Keys that may occur in a drawn stream, and the share of the hottest."""


def drawn(scale: Scale, symbol: str, quick: int = 100_000) -> Parameters:
    """Name a stream that is drawn to the figures of one of the paper's."""
    return {"like": symbol, "messages": scale.messages(MESSAGES, quick)}


def real(scale: Scale, symbol: str, quick: int = 100_000) -> Parameters:
    """Name a real stream."""
    return {"stream": symbol, "messages": scale.messages(PAPER.datasets[symbol].messages, quick)}


def keys_of(inputs: Inputs, messages: int, *, stream: str | None = None, like: str | None = None) -> Any:
    """Read or draw the stream that the parameters of a cell name."""
    if like is None:
        return inputs.real(PAPER.datasets[str(stream)], messages)
    keys, share = LIKE[like]
    return inputs.zipf(streams.zipf_exponent(keys, share), keys, messages, seed=1)


def on_stream(simulate: Callable[..., Figures]) -> Callable[..., Figures]:
    """Make a measure of a function that takes the keys of a cell's stream, and its other parameters."""

    def measure(
        inputs: Inputs,
        *,
        messages: int,
        stream: str | None = None,
        like: str | None = None,
        **parameters: Any,
    ) -> Figures:
        return simulate(keys_of(inputs, messages, stream=stream, like=like), **parameters)

    return measure


def named(results: Results) -> list[tuple[str, Parameters]]:
    """List the streams of cells, each once: its name, and the parameters that choose its cells."""
    found: dict[str, Parameters] = {}
    for cell in results:
        name = "like" if "like" in cell.parameters else "stream"
        symbol = cell.parameters[name]
        found[f"like {symbol}" if name == "like" else symbol] = {name: symbol}
    return list(found.items())
