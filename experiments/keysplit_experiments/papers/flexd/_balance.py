"""Imbalance over time of the groupings that split keys: Fig. 9, 11 and 13."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import keysplit as ks
from keysplit_experiments.harness import Figures, Parameters, Results, Scale, plain
from keysplit_experiments.harness.figure import LOOKS, legend, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.flexd import EXPONENTS, MESSAGES, PAPER, SEEDS, WORKERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPLITTING = ["pstream", "dalton", "flexd"]
ALL = ["key", "distribution_aware", *SPLITTING]


def zipf_cells(scale: Scale) -> list[Parameters]:
    """Name the cells of every grouping on ZF at every skew."""
    return [
        {"exponent": exponent, "messages": scale.messages(MESSAGES), "seed": seed, "grouping": grouping}
        for exponent in EXPONENTS
        for seed in scale.grid(SEEDS, [1])
        for grouping in ALL
    ]


def real_cells(scale: Scale, streams: Sequence[str]) -> list[Parameters]:
    """Name the cells of every grouping on real streams."""
    return [
        {
            "stream": stream,
            "messages": scale.messages(PAPER.datasets[stream].messages),
            "seed": seed,
            "grouping": grouping,
        }
        for stream in streams
        for seed in scale.grid(SEEDS, [1])
        for grouping in ALL
    ]


def measure_real(inputs: Inputs, *, stream: str, messages: int, seed: int, grouping: str) -> Figures:
    """Simulate one grouping on a real stream."""
    return over_time(grouping, seed, inputs.real(PAPER.datasets[stream], messages))


def over_time(grouping: str, seed: int, keys: Any) -> Figures:
    """Simulate a grouping, and give its imbalance over time, (max - mean) / mean, and at the end."""
    result = ks.simulate(ks.grouping(grouping, workers=WORKERS, seed=seed), keys)
    positions, imbalances = result.imbalance_over_time
    # that of the simulator is over the sum of the loads
    return {
        "position": plain(positions / len(keys)),
        "imbalance": plain(imbalances * WORKERS),
        "at_end": result.relative_imbalance,
        "replication": result.replication,
    }


def course(results: Results, grouping: str, **parameters: Any) -> list[float]:
    """Return the imbalance over time of a grouping on a stream: the median of the seeds at every position."""
    lines = results.all("imbalance", grouping=grouping, **parameters)
    return [float(median(each)) for each in zip(*lines, strict=True)]


def settled(results: Results, grouping: str, **parameters: Any) -> float:
    """Return the mean imbalance over the second half of a stream."""
    line = course(results, grouping, **parameters)
    return fmean(line[len(line) // 2 :])


def at_start(results: Results, grouping: str, **parameters: Any) -> float:
    """Return the imbalance after the first hundredth of a stream."""
    return course(results, grouping, **parameters)[0]


def settled_by(results: Results, stream: str, groupings: Sequence[str]) -> dict[str, float]:
    """Return the mean imbalance over the second half of a real stream, by grouping."""
    return {grouping: settled(results, grouping, stream=stream) for grouping in groupings}


def spell_by(found: Mapping[str, float]) -> str:
    """Format a figure of every grouping."""
    return ", ".join(f"{LOOKS[grouping].label} {spell(value)}" for grouping, value in found.items())


def table_of(results: Results, parameter: str, name: str) -> Table:
    """Tell the imbalance at the start, settled and at the end, and the copies of a key."""
    rows = [
        [
            value,
            LOOKS[grouping].label,
            at_start(results, grouping, **chosen),
            settled(results, grouping, **chosen),
            results.median("at_end", grouping=grouping, **chosen),
            results.median("replication", grouping=grouping, **chosen),
        ]
        for value in results.values(parameter)
        for chosen in ({parameter: value},)
        for grouping in ALL
    ]
    return Table([name, "grouping", "after 1%", "mean of 2nd half", "at the end", "replication"], rows)


def draw_of(figure: Figure, results: Results, parameter: str, titles: Sequence[str]) -> None:
    """Draw the imbalance of the groupings that split over time, a plot a value of a parameter."""
    values: Iterable[Any] = results.values(parameter)
    plots = panels(
        figure, titles, min(3, len(titles)), x="part of the stream", y="load imbalance", share_y=False
    )
    for axes, value in zip(plots, values, strict=True):
        for grouping in SPLITTING:
            chosen = results.where(**{parameter: value})
            positions = chosen.all("position", grouping=grouping)[0]
            axes.plot(positions, course(chosen, grouping), **LOOKS[grouping].line(marker=None))
        axes.set_ylim(bottom=0)
    legend(figure)
