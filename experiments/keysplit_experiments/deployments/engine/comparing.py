"""How claims compare figures of groupings: along a parameter, as ratios, and only by a margin."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from keysplit_experiments.deployments.engine.agreement import MARGIN
from keysplit_experiments.harness import Results
from keysplit_experiments.harness.figure import LOOKS
from keysplit_experiments.harness.table import spell

_T = TypeVar("_T", bound=Hashable)


def more(value: float, other: float) -> bool:
    """Return whether a figure is above another by more than the margin."""
    return value > (1 + MARGIN) * other


def less(value: float, other: float) -> bool:
    """Return whether a figure is below another by more than the margin."""
    return value < (1 - MARGIN) * other


def rise(values: Sequence[float]) -> bool:
    """Return whether each figure is above the one before by more than the margin."""
    return all(more(later, earlier) for earlier, later in pairwise(values))


def fall(values: Sequence[float]) -> bool:
    """Return whether each figure is below the one before by more than the margin."""
    return all(less(later, earlier) for earlier, later in pairwise(values))


def along(results: Results, x: str, figure: str, **where: Any) -> dict[Any, float]:
    """Return a figure of the cells with these parameters, by parameter x."""
    return dict(zip(*results.line(x, figure, **where), strict=True))


def over(found: Mapping[_T, float], base: Mapping[_T, float]) -> dict[_T, float]:
    """Divide figures by others with the same names."""
    return {name: value / base[name] for name, value in found.items()}


def looks(name: str) -> str:
    """Return the name of a grouping in the papers' figures."""
    return LOOKS[name].label


def spelled(found: Mapping[str, float], label: Callable[[str], str] = looks) -> str:
    """Format a figure of every grouping."""
    return ", ".join(f"{label(name)} {spell(value)}" for name, value in found.items())
