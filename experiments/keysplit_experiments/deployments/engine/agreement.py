"""Measured against simulated: the claim that each deployment makes, and the figure over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keysplit_experiments.harness import Claim, Judged, Results
from keysplit_experiments.harness.figure import LOOKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WITHIN = 0.15
"""Most that a measured balance may differ from the simulated one, as a part of it."""

BY_PLAN = (
    "a plan knows the micro-batches before, by a sample of their rows, gives a worker a share of a key, and "
    "changes for a gain of 10 per cent or more; simulated sources choose for each message"
)
"""Why it differs where a plan follows a grouping."""

SIZE = (6.0, 5.5)


def deviation(figures: Mapping[str, Any]) -> float:
    """Return by what part of the simulated balance the measured one differs."""
    return float(abs(figures["balance"] / figures["simulated_balance"] - 1))


def agree(results: Results) -> Judged:
    """Every cell: the measured balance close to the simulated one."""
    found = {_name(cell.parameters): deviation(cell.figures) for cell in results}
    place = max(found, key=found.__getitem__)
    near = sum(each <= WITHIN for each in found.values())
    return Judged(
        near == len(found), f"in {near} of {len(found)} cells; at most {found[place]:.1%} apart ({place})"
    )


def claim(because: str = "") -> Claim:
    """Make the claim of a deployment that the simulator foresees how balanced its workers are.

    Args:
        because: Why it differs, if it does.
    """
    return Claim(
        says="Ours: the time of the busiest worker over the mean of all is the simulated one (within 15 per "
        "cent in every cell)",
        where="ours",
        judge=agree,
        because=because,
    )


def draw(figure: Figure, deployments: Mapping[str, Results]) -> None:
    """Draw the balance of all cells over the simulated one, with the diagonal and the 15 per cent around it.

    Args:
        figure: To draw on.
        deployments: Results, by name of the deployment.
    """
    axes = figure.subplots()
    cells = [cell for results in deployments.values() for cell in results]
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


def _name(parameters: Mapping[str, Any]) -> str:
    left_out = ("grouping", "messages", "seed", "sources", "workers", "batches", "service_time_s")
    others = [
        f"{name} {value}" for name, value in parameters.items() if name not in left_out and value is not None
    ]
    return ", ".join([LOOKS[parameters["grouping"]].label, *others])
