"""Measured against simulated: the claim that each deployment makes, and the figure over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from keysplit_experiments.harness import FULL, Cell, Claim, Judged, Results
from keysplit_experiments.harness.figure import LOOKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WITHIN = 0.15
"""Most that a measured balance may differ from the simulated one, as a part of it."""

MARGIN = 0.03
"""By what part a figure must be above another for "more than" to hold, or below it for "less than"."""

BY_PLAN = (
    "a plan knows only a sample of the micro-batches before, gives a worker a share of a key, "
    "and changes for a gain of 10 per cent or more; simulated sources choose for each message"
)
"""Why it may differ where a plan follows a grouping."""

BY_ROUTER = (
    "a sleep may be longer than asked for, and a grouping that uses time may meet other times "
    "than the simulated ones"
)
"""Why it may differ elsewhere."""

SIZE = (6.0, 5.5)


def deviation(figures: Mapping[str, Any]) -> float:
    """Return by what part of the simulated balance the measured one differs."""
    return float(abs(figures["balance"] / figures["simulated_balance"] - 1))


def agree(results: Results, because: str = BY_PLAN) -> Judged:
    """Every cell that is simulated: the measured balance close to the simulated one.

    Args:
        results: The cells.
        because: Why cells that follow a plan may differ.
    """
    found = _simulated(results)
    apart = [cell for cell in found if deviation(cell.figures) > WITHIN]
    worst = max(found, key=lambda cell: deviation(cell.figures))
    ours = (
        f"in {len(found) - len(apart)} of {len(found)} cells; at most {deviation(worst.figures):.1%} apart "
        f"({_name(worst.parameters)})"
    )
    by_plan = [cell.figures.get("by_plan", False) for cell in apart]
    if any(by_plan):
        ours += f"; by a plan it may differ because {because}"
    if not all(by_plan):
        ours += f"; with routers it may differ because {BY_ROUTER}"
    return Judged(not apart, ours)


def claim(because: str = BY_PLAN) -> Claim:
    """Make the claim of a deployment that the simulator foresees how balanced its workers are.

    Args:
        because: Why cells that follow a plan may differ. It is given if one of them does.
    """
    return Claim(
        says="Ours: the time of the busiest worker over the mean of all is the simulated one (within 15 per "
        "cent in every cell)",
        where="ours",
        judge=partial(agree, because=because),
    )


def draw(figure: Figure, deployments: Mapping[str, Results]) -> None:
    """Draw the balance of all cells over the simulated one, with the diagonal and the 15 per cent around it.

    Args:
        figure: To draw on.
        deployments: Results, by name of the deployment. If some are of full runs, only these are drawn, and
            the title names those left out.
    """
    axes = figure.subplots()
    full = {name: results for name, results in deployments.items() if results.scale == FULL.name}
    cells = [cell for results in (full or deployments).values() for cell in _simulated(results)]
    if not full:
        axes.set_title("quick runs")
    elif len(full) < len(deployments):
        left_out = sorted(name.split("/")[-1] for name in deployments.keys() - full.keys())
        axes.set_title(f"full runs, without {', '.join(left_out)}")
    ends = [each for cell in cells for each in (cell.figures["balance"], cell.figures["simulated_balance"])]
    line = [min(ends) * 0.8, max(ends) * 1.2]
    axes.plot(line, line, color="black", linewidth=0.8)
    axes.fill_between(line, [x * (1 - WITHIN) for x in line], [x * (1 + WITHIN) for x in line], alpha=0.15)
    for grouping in dict.fromkeys(cell.parameters["grouping"] for cell in cells):
        own = [cell.figures for cell in cells if cell.parameters["grouping"] == grouping]
        xs, ys = ([each[name] for each in own] for name in ("simulated_balance", "balance"))
        axes.plot(xs, ys, **LOOKS[grouping].line(linestyle=""))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*line)
    axes.set_ylim(*line)
    axes.set_xlabel("simulated: load of the busiest worker / mean")
    axes.set_ylabel("measured: time of the busiest worker / mean")
    axes.legend(loc="lower right", ncols=2)


def _simulated(results: Results) -> list[Cell]:
    return [cell for cell in results if "simulated_balance" in cell.figures]


def _name(parameters: Mapping[str, Any]) -> str:
    left_out = ("grouping", "messages", "seed", "sources", "workers", "batches", "service_time_s")
    others = [
        f"{name} {value}" for name, value in parameters.items() if name not in left_out and value is not None
    ]
    return ", ".join([LOOKS[parameters["grouping"]].label, *others])
