"""Reports: a profile, a comparison or a simulation as one self-contained HTML page."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from keysplit import __version__
from keysplit.palette import styles
from keysplit.profiling.advice import describe_simulation
from keysplit.profiling.model import Advice, Profile, TopKey
from keysplit.report import panels
from keysplit.report.page import render
from keysplit.simulation import SimulationResult
from keysplit.tables import list_figures

NAMED_KEYS = 100
"""The most frequent keys that pictures may name."""

__all__ = ["NAMED_KEYS", "write_comparison", "write_profile", "write_simulation", "write_view"]


def write_profile(profile: Profile, path: Path, *, title: str) -> None:
    """Write the report of a profile.

    Args:
        profile: the result to report.
        path: the HTML file, overwritten if it exists.
        title: a description of the messages.

    Raises:
        OSError: the file cannot be written.
    """
    results = [result for advice in profile.advice for result in advice.results.values()]
    _write(
        path,
        title=title,
        results=results,
        numbers=panels.make_panels(
            results,
            keys=profile.top,
            advice={each.workers: each for each in profile.advice},
        ),
        keys_error=profile.distinct_keys_error,
        keys=panels.list_keys(profile),
        drift=profile.drift[0].upper() + profile.drift[1:] + ".",
        threshold=profile.threshold,
        overlap=(profile.overlap_of_any, profile.steady_overlap) if len(profile.windows) > 2 else None,
    )


def write_comparison(
    results: Sequence[SimulationResult],
    path: Path,
    *,
    title: str,
    advice: Mapping[int, Advice] | None = None,
    keys: Sequence[TopKey] = (),
) -> None:
    """Write the report of a comparison.

    Args:
        results: the results to report, at least one.
        path: the HTML file, overwritten if it exists.
        title: a description of the messages.
        advice: what to do, by number of workers, if the keys were counted.
        keys: frequent keys, to name what makes a load.

    Raises:
        OSError: the file cannot be written.
    """
    _write(path, title=title, results=results, numbers=panels.make_panels(results, advice=advice, keys=keys))


def write_simulation(
    result: SimulationResult,
    path: Path,
    *,
    title: str,
    baseline: SimulationResult | None = None,
    keys: Sequence[TopKey] = (),
) -> None:
    """Write the report of a simulation.

    Args:
        result: the result to report.
        path: the HTML file, overwritten if it exists.
        title: a description of the messages.
        baseline: key grouping on the same stream, to compare with.
        keys: frequent keys, to name what makes a load.

    Raises:
        OSError: the file cannot be written.
    """
    results = [result] if baseline is None else [result, baseline]
    numbers = panels.make_panels(
        results, keys=keys, best=result.params.name, verdict=describe_simulation(result)
    )
    figures = list_figures(result)
    _write(
        path,
        title=title,
        results=[result],
        numbers=numbers,
        figures=figures,
        timing=panels.make_timing(result),
    )


def write_view(view: Any, path: Path) -> None:
    """Write the report of what has no page of its own.

    Args:
        view: what there is to see, a `keysplit.views.View`.
        path: the HTML file, overwritten if it exists.

    Raises:
        OSError: the file cannot be written.
    """
    largest = max((float(loads.max()) for loads in view.loads.values()), default=0.0) or 1.0
    page = render(
        __name__,
        "view.html.j2",
        view=view,
        panels=[panels.make_panel(name, loads, largest) for name, loads in view.loads.items()],
        palette=Markup(styles()),
        version=__version__,
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    path.write_text(page, encoding="utf-8")


def _write(path: Path, *, title: str, results: Sequence[SimulationResult], **context: Any) -> None:
    first = results[0]
    unset: dict[str, Any] = dict.fromkeys(("keys", "drift", "threshold", "overlap", "figures", "timing"))
    page = render(
        __name__,
        "simulation.html.j2",
        **{
            "keys_error": 0.0,
            **unset,
            **context,
            "title": title,
            "messages": first.messages,
            "distinct_keys": first.distinct_keys,
            "exact_keys": first.exact_keys,
            "sources": first.sources,
            "version": __version__,
            "palette": Markup(styles()),
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        },
    )
    path.write_text(page, encoding="utf-8")
