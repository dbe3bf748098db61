"""What there is to see of each result: one view each, shown by one piece of HTML, one plot, one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keysplit.comparison import Comparison, scalars
from keysplit.display import import_pyplot
from keysplit.palette import COLOURS, style_of
from keysplit.profiling.advice import describe_simulation
from keysplit.profiling.model import Advice, Prediction, Profile
from keysplit.profiling.planned import advise_on
from keysplit.simulation import SimulationResult
from keysplit.tables import sort_by_workers
from keysplit.text import format_count, format_imbalance, format_key, format_ratio, format_share

__all__ = ["View", "html", "plot", "view", "write_report"]

MOST_ROWS = 20  # of a table in a notebook or on a page
MOST_BARS = 60
_WIDTH, _HEIGHT = 300, 90  # pixels of a picture


class View(NamedTuple):
    """What there is to see of a result.

    Attributes:
        title: what it is.
        verdict: what to do, or what it says, in words: a few lines.
        columns: the titles of the table.
        rows: its rows, as text.
        loads: the load of each worker, by grouping; the first is drawn first.
        unit: what loads count.
        records: the figures, a dict per row.
        names: the names of the figures, where there may be no row.
        line: what to paste.
        details: all else, a sentence or more per line.
    """

    title: str
    verdict: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    loads: Mapping[str, np.ndarray]
    unit: str
    records: Sequence[Mapping[str, Any]]
    names: Sequence[str] = ()
    line: str = ""
    details: str = ""


def view(result: Any) -> View:
    """Return what there is to see of a result.

    Raises:
        TypeError: if it is of no class that has a view.
    """
    for kind in type(result).__mro__:
        if kind.__name__ in _VIEWS:
            return _VIEWS[kind.__name__](result)
    raise TypeError(f"result must be one of {', '.join(_VIEWS)}, got {type(result).__name__}")


def html(of: View) -> str:
    """Return a view as a piece of HTML: for light and dark paper, with nothing from elsewhere."""
    shown = list(of.loads.items())[:2]
    colours = "".join(
        f".keysplit-view .{style_of(name)}{{color:{COLOURS.get(name, COLOURS['key'])[0]}}}"
        for name, _ in shown
    )
    dark = "".join(
        f".keysplit-view .{style_of(name)}{{color:{COLOURS.get(name, COLOURS['key'])[1]}}}"
        for name, _ in shown
    )
    largest = max((float(loads.max()) for _, loads in shown), default=0.0)
    pictures = "".join(_picture(name, loads, largest, of.unit) for name, loads in shown)
    head = "".join(f"<th>{escape(column)}</th>" for column in of.columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in of.rows[:MOST_ROWS]
    )
    more = f"<p>... and {len(of.rows) - MOST_ROWS} more</p>" if len(of.rows) > MOST_ROWS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}" if of.rows else ""
    verdict, details = (
        "".join(f"<p>{escape(line)}</p>" for line in text.splitlines()) for text in (of.verdict, of.details)
    )
    verdict += f"<pre>{escape(of.line)}</pre>" if of.line else ""
    details = f"<p><b>Details</b></p>{details}" if details else ""
    return (
        '<div class="keysplit-view"><style>.keysplit-view{max-width:75ch}.keysplit-view svg{margin:.3em 1em '
        ".3em 0}.keysplit-view figure{display:inline-block;margin:0 1em .5em 0}.keysplit-view figcaption"
        f"{{font-size:.85em}}{colours}@media (prefers-color-scheme: dark){{{dark}}}</style>"
        f"<p><b>{escape(of.title)}</b></p>{verdict}{details}<div>{pictures}</div>{table}</div>"
    )


def _picture(name: str, loads: np.ndarray, largest: float, unit: str) -> str:
    parts = np.array_split(loads, min(MOST_BARS, len(loads)))
    step, full = _WIDTH / len(parts), max(largest, 1e-300)
    bars = "".join(
        f'<rect x="{at * step:.1f}" y="{_HEIGHT * (1 - part.max() / full):.1f}" width="{step * 0.9:.1f}" '
        f'height="{_HEIGHT * part.max() / full:.1f}"/>'
        for at, part in enumerate(parts)
    )
    mean = _HEIGHT * (1 - loads.mean() / full)
    label = f"{name}: {unit} per worker, mean {loads.mean():,.0f}, largest {loads.max():,.0f}"
    return (
        f'<figure><svg class="{style_of(name)}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="{escape(label)}" fill="currentColor">{bars}<path d="M0 {mean:.1f}H{_WIDTH}" '
        f'stroke="currentColor" stroke-dasharray="4 3" opacity=".6"/></svg><figcaption>{escape(label)}'
        "</figcaption></figure>"
    )


def plot(of: View, ax: Any = None) -> Any:
    """Draw the loads of a view over their mean, the busiest worker first; return the axes of matplotlib.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    pyplot = import_pyplot()
    if ax is None:
        ax = pyplot.subplots()[1]
    for name, loads in of.loads.items():
        ratios = np.sort(loads)[::-1] / max(float(loads.mean()), 1e-300)
        at = np.arange(len(loads))
        colour = COLOURS.get(name, COLOURS["key"])[0]
        ax.plot(at, ratios, color=colour, label=name, marker="." if len(loads) <= MOST_BARS else "")
    ax.axhline(1, color="grey", linestyle="--", linewidth=1)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("workers, the busiest first")
    ax.set_ylabel("load over the mean")
    ax.set_title(of.title)
    if of.loads:
        ax.legend()
    return ax


def write_report(result: Any, path: Path, title: str) -> None:
    """Write the report of a result: the page of its command, or else one of its view.

    Raises:
        OSError: if the file cannot be written.
    """
    from keysplit import report

    named = title or view(result).title
    if isinstance(result, SimulationResult) and result.loads.any():
        report.write_simulation(result, path, title=named)
    elif isinstance(result, Comparison) and result and all(each.loads.any() for each in result):
        report.write_comparison(result, path, title=named)
    elif isinstance(result, Profile) and result.windows:
        report.write_profile(result, path, title=named)
    else:
        report.write_view(view(result)._replace(title=named), path)


def _of_profile(profile: Profile) -> View:
    records = []
    for advice in profile.advice:
        plans = [(name, "plan", of) for name, of in advice.plans.items()]
        online = [(name, "online", of) for name, of in advice.predicted.items()] if advice.results else []
        for name, how, of in plans + online:
            records.append(
                {
                    "workers": advice.workers,
                    "grouping": name,
                    "routed": how,
                    "busiest_over_mean": of.busiest,
                    "imbalance": of.imbalance,
                    "extra_partials": of.extra_partials,
                    "recommended": name == (advice.recommended if how == "plan" else advice.online),
                }
            )
    first = profile.advice[0]
    loads = {"key": first.plans["key"].loads}
    if first.recommended is not None:
        loads[first.recommended] = first.plans[first.recommended].loads
    rows = [
        (format_key(key.key), f"{key.count:,.0f}", format_share(key.share))
        for key in profile.top
        if key.certain
    ]
    named = f" of {', '.join(profile.key)}" if profile.key else ""
    return View(
        f"Profile{named}: {profile.total:,.0f} {profile.unit}",
        profile.verdict,
        ("most frequent key", profile.unit, "share"),
        rows,
        loads,
        profile.unit,
        records,
        line=first.line,
        details="\n".join(filter(None, [*_details(profile.advice), profile.rare, profile.drift])),
    )


def _details(advice: Sequence[Advice]) -> list[str]:
    """Return what verdicts leave out, for each number of workers."""
    several = len(advice) > 1
    return [
        f"{format_count(each.workers, 'worker')}: {each.details}" if several else each.details
        for each in advice
        if each.details
    ]


def _of_simulation(result: SimulationResult) -> View:
    return View(
        f"Simulation of {result.params.name} on {format_count(result.params.workers, 'worker')}",
        describe_simulation(result),
        _RANKED,
        [_ranked(result)],
        {result.params.name: np.asarray(result.loads, float)},
        "messages",
        [scalars(result)],
    )


_RANKED = ("grouping", "workers", "busiest/mean", "imbalance", "workers per key", "partial results")


def _ranked(result: SimulationResult) -> tuple[str, ...]:
    of = Prediction.of(result)
    return (
        result.params.name,
        f"{result.params.workers:,}",
        format_ratio(of.busiest),
        format_imbalance(of.imbalance),
        f"{result.replication:.2f}",
        f"{result.memory:,}",
    )


def _of_comparison(results: Comparison) -> View:
    groups = sort_by_workers(results)
    advice = {workers: advise_on(some) for workers, some in groups.items()}
    several = len(groups) > 1
    verdict = "\n".join(
        f"{format_count(workers, 'worker')}: {each.verdict}" if several else each.verdict
        for workers, each in advice.items()
    )
    loads: dict[str, np.ndarray] = {}
    for workers, some in list(groups.items())[:1]:
        wanted = ("key", advice[workers].recommended or advice[workers].online or some[0].params.name)
        named = {result.params.name: np.asarray(result.loads, float) for result in some}
        loads = {name: named[name] for name in wanted if name in named}
    return View(
        f"Comparison of {len(results)} simulations",
        verdict,
        _RANKED,
        [_ranked(result) for some in groups.values() for result in some],
        loads,
        "messages",
        list(map(scalars, results)),
        line=next((each.line for each in advice.values()), ""),
        details="\n".join(_details(list(advice.values()))),
    )


def _of_plan(plan: Any) -> View:
    shown = [(key.text, format_share(key.count / plan.total), f"{len(key.workers):,}") for key in plan.head]
    return View(
        f"Plan of {', '.join(plan.key)} for {format_count(plan.workers, 'worker')} by {plan.grouping.name}",
        f"Max/mean load is expected to be {format_ratio(plan.busiest)}, and with hash partitioning "
        f"{format_ratio(plan.hash_busiest)}. {format_count(len(plan.split_keys), 'key')} split.",
        ("frequent key", "share", "workers"),
        shown,
        {plan.grouping.name: plan.loads},
        "weight",
        [
            {
                "key": key.text,
                "count": key.count,
                "error": key.error,
                "share": key.count / plan.total,
                "workers": list(key.workers),
                "shares": list(key.shares),
            }
            for key in plan.head
        ],
        ("key", "count", "error", "share", "workers", "shares"),
    )


def _of_drift(drift: Any) -> View:
    keys = [(key, share, "new") for key, share in drift.new_keys.items()]
    keys += [(key, share, "gone") for key, share in drift.gone_keys.items()]
    return View(
        f"Drift: {format_share(drift.moved)} of the weight lies elsewhere",
        f"{drift.verdict}\nImbalance is {format_imbalance(drift.imbalance)}, by a new plan "
        f"{format_imbalance(drift.fresh_imbalance)}.",
        ("frequent key", "share", "today"),
        [(key, format_share(share), what) for key, share, what in keys],
        {"old plan": np.asarray(drift.loads, float)},
        "weight",
        [{"key": key, "share": share, "today": what} for key, share, what in keys],
        ("key", "share", "today"),
    )


# By the names of classes: those of Spark are not imported here.
_VIEWS: dict[str, Callable[[Any], View]] = {
    "Comparison": _of_comparison,
    "Drift": _of_drift,
    "Plan": _of_plan,
    "Profile": _of_profile,
    "SimulationResult": _of_simulation,
}
