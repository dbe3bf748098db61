"""Results on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keysplit.advice import busiest, figure, outcome, recommend, shown, times, verdict
from keysplit.comparison import pareto
from keysplit.simulation import SimulationResult

if TYPE_CHECKING:
    from keysplit.profile import Profile, TopKey

WIDTH = 80
_BARS = " ▁▂▃▄▅▆▇█"


def terminal() -> Console:
    """Return the terminal; a narrower one than 80 columns gets lines that it wraps itself."""
    console = Console(highlight=False)
    console.width = max(WIDTH, console.width)
    return console


def print_profile(console: Console, profile: Profile, title: str = "") -> None:
    """Print a profile: the verdict, what it rests on, the most frequent keys and how they change."""
    error = profile.distinct_keys_error
    about = f" (standard error at most {error:,.0f})" if error else ""
    keys = f"{'about ' if error else ''}{counted(profile.distinct_keys, 'key')}{about}"
    console.print(Text(_head(title, profile.messages, keys, profile.sources), style="bold"))
    for advice in profile.advice:
        several = f"{advice.workers:,} workers: " if len(profile.advice) > 1 else ""
        console.print(Text(f"{several}{advice.verdict}\n"))
        console.print(_groupings(list(advice.results.values()), advice.recommended))
        console.print()
    certain = [key for key in profile.top if key.certain]
    if certain:
        console.print(_top_keys(profile, certain))
    rest = rarer(profile.top)
    if rest:
        console.print(Text(rest))
    console.print()
    console.print(Text(profile.drift[0].upper() + profile.drift[1:] + "."))


def print_comparison(console: Console, results: Sequence[SimulationResult], title: str) -> None:
    """Print a comparison: for each number of workers the groupings, the most even first."""
    first = results[0]
    console.print(Text(_head(title, first.messages, _keys(first), first.sources), style="bold"))
    for workers, some in by_workers(results).items():
        recommended = recommended_of(some)
        console.print(Text(counted(workers, "worker"), style="bold"))
        console.print(_groupings(some, recommended, ranked=True))
        console.print(Text(f"{told(some)}\n"))
    console.print(
        Text("* Pareto front: nothing is as good in both imbalance and replication and better in one of them")
    )


def print_result(console: Console, result: SimulationResult, title: str) -> None:
    """Print one simulation."""
    console.print(Text(_head(title, result.messages, _keys(result), result.sources), style="bold"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in figures_of(result):
        table.add_row(name, Text(value))
    console.print(table)
    if console.encoding.lower().startswith("utf"):
        marks = _marks(result.loads, WIDTH - 2)
        console.print()
        console.print(Text(f"Loads, a mark {_what_a_mark_is(len(result.loads), len(marks))}:\n{marks}"))


def figures_of(result: SimulationResult) -> list[tuple[str, str]]:
    """Return the figures of a simulation, each with its name."""
    loads = result.loads
    rows = [
        ("grouping", repr(result.params)),
        (
            "busiest worker",
            f"{busiest(result):.3f} times the mean: {loads.max():,.0f} of {loads.mean():,.1f}",
        ),
        ("imbalance", f"{figure(result.imbalance)} at the end, {figure(result.mean_imbalance)} on average"),
        ("load stddev", f"{result.load_stddev:.4g} per cent of all load"),
        ("replication", f"{result.replication:.3f} workers a key"),
        ("partial results", f"{result.memory:,}"),
    ]
    latency_s = result.latency_s
    if latency_s:
        rows.append(("latency", ", ".join(f"{name} {seconds(value)}" for name, value in latency_s.items())))
        rows.append(("throughput", f"{result.throughput_per_s:,.1f} messages a second"))
        rows.append(("makespan", seconds(result.makespan_s)))
    if result.utilisation is not None:
        busy = np.asarray(result.utilisation)
        rows.append(("utilisation", f"{busy.mean():.1%} on average, {busy.min():.1%} to {busy.max():.1%}"))
    return rows


def by_workers(results: Sequence[SimulationResult]) -> dict[int, list[SimulationResult]]:
    """Return the results for each number of workers, the most even first, then those with fewer copies."""
    found: dict[int, list[SimulationResult]] = {}
    for result in results:
        found.setdefault(result.params.workers, []).append(result)
    return {
        workers: sorted(some, key=lambda result: (result.imbalance, result.memory))
        for workers, some in found.items()
    }


def recommended_of(results: Sequence[SimulationResult]) -> str | None:
    """Return the grouping to take among results for one number of workers; None without hash grouping."""
    hashed = next((result for result in results if result.params.name == "key"), None)
    if hashed is None:
        return None
    by_copies = sorted(results, key=lambda result: result.memory)
    return recommend(busiest(hashed), {result.params.name: outcome(result) for result in by_copies})


def told(results: Sequence[SimulationResult]) -> str:
    """Say which of the results for one number of workers to take, and why."""
    named = {result.params.name: result for result in results}
    if "key" in named:
        return verdict(named["key"], named.get(recommended_of(results) or ""))
    best = min(results, key=lambda result: (result.imbalance, result.memory))
    return (
        f"the most even is {best.params.name}: its busiest worker has {times(busiest(best))} times the mean, "
        f"for {best.memory:,} partial results to keep in memory and to merge (replication "
        f"{best.replication:.2f})"
    )


def rarer(keys: Sequence[TopKey]) -> str:
    """Say what is known of the keys that are not certain to be frequent; nothing if there are none."""
    shares = [key.share for key in keys if not key.certain]
    other = "other " if len(shares) < len(keys) else ""
    return f"No {other}key has more than {max(shares):.2%} of the messages." if shares else ""


def counted(number: int, what: str) -> str:
    """Return a number with the name of what is counted."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def seconds(value: float | None) -> str:
    """Return a time as text, in the unit that fits it."""
    if value is None or not np.isfinite(value):
        return "none"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(value) >= size:
            return (
                f"{value / size:,.3g} {unit}" if abs(value) < 1000 * size else f"{value / size:,.0f} {unit}"
            )
    return f"{value * 1e6:.3g} µs"


def _groupings(
    results: Sequence[SimulationResult], recommended: str | None, *, ranked: bool = False
) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    if ranked:
        table.add_column("", justify="right", no_wrap=True)
    table.add_column("grouping", no_wrap=True, min_width=18)
    for name in ("busiest/mean", "imbalance", "replication", "partials"):
        table.add_column(name, justify="right", no_wrap=True)
    if ranked:
        table.add_column("", no_wrap=True)
    for rank, (result, front) in enumerate(zip(results, pareto(results), strict=True), 1):
        cells: list[Any] = [
            Text(result.params.name, style="bold" if result.params.name == recommended else ""),
            times(busiest(result)),
            figure(result.imbalance),
            f"{result.replication:.2f}",
            f"{result.memory:,}",
        ]
        table.add_row(*([str(rank), *cells, "*" if front else ""] if ranked else cells))
    return table


def _top_keys(profile: Profile, keys: Sequence[TopKey]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("most frequent key")  # the one that gives way where a line is too long
    for name in ("messages", "at most too many", "share", "hot for", "windows"):
        table.add_column(name, justify="right", no_wrap=True)
    for key in keys:
        table.add_row(
            Text(shown(key.key), no_wrap=True, overflow="ellipsis"),
            f"{key.count:,}",
            f"{key.error:,}",
            f"{key.share:.2%}",
            age(key),
            f"{len(key.hot)} of {len(profile.windows) - 1}",
        )
    return table


def age(key: TopKey) -> str:
    """Return how long a key stayed hot, as text."""
    if not key.hot:
        return "never"
    return "always" if len(key.hot) == len(key.shares) else f"{key.age_share:.0%}"


def _keys(result: SimulationResult) -> str:
    return f"{'' if result.exact_keys else 'about '}{counted(result.distinct_keys, 'key')}"


def _head(title: str, messages: int, keys: str, sources: int) -> str:
    start = f"{title}: " if title else ""
    return f"{start}{counted(messages, 'message')}, {keys}, {counted(sources, 'source')}\n"


def _marks(loads: Any, most: int) -> str:
    """Draw the loads as marks of text; where they are too many, the fullest of neighbours."""
    fullest = np.array([part.max() for part in np.array_split(loads, min(most, len(loads)))])
    heights = np.ceil(fullest / max(fullest.max(), 1e-300) * (len(_BARS) - 1)).astype(int)
    return "".join(_BARS[height] for height in heights)


def _what_a_mark_is(workers: int, marks: int) -> str:
    return "a worker" if workers == marks else f"for the fullest of {workers / marks:.1f} workers"
