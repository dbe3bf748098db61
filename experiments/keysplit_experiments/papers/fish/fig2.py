"""Fig. 2: latency of the groupings before FISH, on movie reviews."""

from __future__ import annotations

from typing import TYPE_CHECKING

import keysplit as ks
from keysplit_experiments.harness import Claim, Experiment, Figures, Judged, Results
from keysplit_experiments.harness.figure import bars, legend, panels
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.table import Table, spell
from keysplit_experiments.papers.fish import SERVICE_TIME_S, SOURCES, WORKERS
from keysplit_experiments.papers.fish._reviews import (
    SERIES,
    arrival_rate_per_s,
    by_workers,
    cells,
    look,
    params_of,
)
from keysplit_experiments.papers.fish._runs import keys_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LATENCIES = ["mean", "p50", "p95", "p99"]


def measure(inputs: Inputs, *, stream: str, seed: int, messages: int, workers: int, series: str) -> Figures:
    """Simulate one grouping in time, and keep its latencies in milliseconds."""
    result = ks.simulate(
        params_of(series, workers, seed),
        keys_of(inputs, messages, seed, stream=stream),
        sources=SOURCES,
        service_time_s=SERVICE_TIME_S,
        arrival_rate_per_s=arrival_rate_per_s(workers),
        samples=0,
    )
    if result.latency_s is None:
        raise ValueError("a simulation with a timing model must report latencies")
    return {f"{name}_ms": 1000 * result.latency_s[name] for name in LATENCIES}


def high(results: Results) -> Judged:
    """FG and PKG: the 99th percentile at 10 times SG's at least, on 128 workers."""
    found = {series: by_workers(results, series, "p99_ms")[-1] for series in ("FG", "PKG", "SG")}
    return Judged(
        min(found["FG"], found["PKG"]) >= 10 * found["SG"],
        ", ".join(f"{series} {spell(value)} ms" for series, value in found.items()),
    )


def key_grouping_worst(results: Results) -> Judged:
    """FG: the largest 99th percentile on every number of workers."""
    found = {series: by_workers(results, series, "p99_ms") for series in SERIES}
    worst = [max(values) for values in zip(*found.values(), strict=True)]
    return Judged(
        found["FG"] == worst and max(found["FG"]) > max(found["PKG"]),
        f"at most {spell(max(found['FG']))} ms (FG), {spell(max(found['PKG']))} ms (PKG)",
    )


def as_pkg(results: Results) -> Judged:
    """With 1000 counters: the 99th percentile within 20 per cent of PKG's on every number of workers."""
    two = by_workers(results, "PKG", "p99_ms")
    parts = {
        series: [own / other for own, other in zip(by_workers(results, series, "p99_ms"), two, strict=True)]
        for series in ("D-C1000", "W-C1000")
    }
    return Judged(
        all(0.8 <= part <= 1.2 for line in parts.values() for part in line),
        "; ".join(f"{series} {', '.join(map(spell, line))} times PKG's" for series, line in parts.items()),
    )


def part_better(results: Results) -> Judged:
    """With 100 counters: a lower 99th percentile than with 1000 on 128 workers, and above SG's."""
    found = {
        series: by_workers(results, series, "p99_ms")[-1]
        for series in ("D-C100", "D-C1000", "W-C100", "W-C1000", "SG")
    }
    return Judged(
        found["SG"] <= found["D-C100"] < found["D-C1000"]
        and found["SG"] <= found["W-C100"] < found["W-C1000"],
        ", ".join(f"{series} {spell(value)} ms" for series, value in found.items()),
    )


CLAIMS = [
    Claim(
        says="FG and PKG have a high latency (99th percentile at least 10 times SG's, 128 workers)",
        where="2.3",
        paper="FG 3,945 ms, PKG 2,808 ms",
        judge=high,
    ),
    Claim(
        says="FG's latency is the highest, and above PKG's (99th percentile, every number of workers)",
        where="2.3",
        paper="3,945 and 2,808 ms",
        judge=key_grouping_worst,
    ),
    Claim(
        says="With 1000 counters D-C and W-C are almost the same as PKG (99th percentile within 20 per cent)",
        where="2.3",
        judge=as_pkg,
        because="with 1000 counters no error exceeds a thousandth of the messages, less than the "
        "threshold of 1/(5n) on 128 workers, so W-C gives all workers to what was hot so far. "
        "On 16 and 32 workers D-C's rule finds two choices enough",
    ),
    Claim(
        says="With 100 counters D-C and W-C improve (99th percentile below that with 1000, not below SG's, "
        "128 workers)",
        where="2.3",
        judge=part_better,
    ),
]


def table(results: Results) -> Table:
    """Mean and 99th percentile."""
    figures = ("mean_ms", "p99_ms")
    rows = [
        [series, *(value for figure in figures for value in by_workers(results, series, figure))]
        for series in SERIES
    ]
    heads = [f"{name}, n = {workers}" for name in ("mean ms", "p99 ms") for workers in WORKERS]
    return Table(["grouping", *heads], rows)


def draw(figure: Figure, results: Results) -> None:
    """Latencies, one plot per number of workers."""
    titles = [f"{workers} workers" for workers in WORKERS]
    plots = panels(figure, titles, 2, y="latency, ms")
    for axes, workers in zip(plots, WORKERS, strict=True):
        lines = [
            (look(series), [results.one(f"{name}_ms", workers=workers, series=series) for name in LATENCIES])
            for series in SERIES
        ]
        bars(axes, LATENCIES, lines)
        axes.set_yscale("log")
    legend(figure)


EXPERIMENT = Experiment(
    name="fish/fig2",
    label="Fig. 2",
    title="latency of the groupings before FISH, on movie reviews",
    setting="The groupings of section 2.3, D-C and W-C with 100 and with 1000 counters. Messages arrive at "
    "equal intervals, at 80 per cent of what all workers can serve. The paper leaves this open; "
    "latencies depend on it and on the length of the stream.",
    cells=cells,
    measure=measure,
    claims=CLAIMS,
    table=table,
    draw=draw,
    size=(9, 6),
)
