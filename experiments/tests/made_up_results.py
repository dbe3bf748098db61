"""Made-up results of experiments, on which the rules that judge their claims are tried."""

from collections.abc import Callable
from typing import Any

from keysplit_experiments.harness import registry
from keysplit_experiments.harness.experiment import QUICK, Cell, Results

Formula = Callable[[dict[str, Any]], dict[str, Any]]
"""Gives the figures of a cell with these parameters, or some of them."""

Cases = dict[str, tuple[Formula, list[Formula]]]
"""By experiment: figures with which all its claims hold, and for each claim a change that breaks it."""


def made(name: str, *formulas: Formula) -> Results:
    """The cells of a quick run, with the figures that formulas give; a later one corrects those before it."""
    cells = []
    for parameters in registry.registered()[name].cells(QUICK):
        figures: dict[str, Any] = {}
        for formula in formulas:
            figures |= formula(parameters)
        cells.append(Cell(parameters, figures))
    return Results(cells, "full")


def only(figures: dict[str, Any], **parameters: Any) -> Formula:
    """A formula that changes figures of the cells with these parameters."""
    return lambda p: figures if all(p.get(name) == value for name, value in parameters.items()) else {}
