"""Movie reviews under the groupings that were there before FISH: Fig. 2 and 3."""

from __future__ import annotations

from typing import Any

import keysplit as ks
from keysplit_experiments.harness import Parameters, Results, Scale
from keysplit_experiments.harness.figure import LOOKS
from keysplit_experiments.papers.fish import SERVICE_TIME_S, WORKERS
from keysplit_experiments.papers.fish._runs import real

SERIES: dict[str, tuple[str, int | None]] = {
    "SG": ("shuffle", None),
    "FG": ("key", None),
    "PKG": ("partial_key", None),
    "D-C100": ("d_choices", 100),
    "W-C100": ("w_choices", 100),
    "D-C1000": ("d_choices", 1000),
    "W-C1000": ("w_choices", 1000),
}
"""Groupings, and their counters, by the paper's names."""

UTILISATION = 0.8
"""Part of what the workers can do in a second that arrives in a second."""


def cells(scale: Scale) -> list[Parameters]:
    """Every grouping on every number of workers."""
    return [
        {**stream, "workers": workers, "series": series}
        for stream in real(scale, "AM")
        for workers in WORKERS
        for series in SERIES
    ]


def params_of(series: str, workers: int, seed: int) -> ks.Grouping:
    """Make the grouping of a series."""
    grouping, counters = SERIES[series]
    more = {} if counters is None else {"sketch_capacity": counters}
    return ks.grouping(grouping, workers=workers, seed=seed, **more)


def arrival_rate_per_s(workers: int) -> float:
    """Return the messages that arrive in a second."""
    return UTILISATION * workers / SERVICE_TIME_S


def look(series: str) -> dict[str, Any]:
    """Return the look of a series' bars: lighter for 100 counters."""
    grouping, counters = SERIES[series]
    return {"label": series, "color": LOOKS[grouping].color, "alpha": 0.45 if counters == 100 else 1.0}


def by_workers(results: Results, series: str, figure: str) -> list[float]:
    """List a figure of a series by the workers, fewest first."""
    return results.line("workers", figure, series=series)[1]
