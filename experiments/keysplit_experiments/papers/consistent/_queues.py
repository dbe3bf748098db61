"""Queues, latencies and utilisation over time on ten workers: Fig. 7, 8, 11 and 12."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import keysplit as ks
from keysplit.simulation import SetCapacity
from keysplit_experiments.harness import Figures, Results, plain
from keysplit_experiments.harness.figure import legend, logarithmic, panels
from keysplit_experiments.harness.table import Entry, Table
from keysplit_experiments.papers.consistent import EPSILON, MESSAGES, VIRTUAL_WORKERS
from keysplit_experiments.papers.consistent._streams import named

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

GROUPINGS = ["key", "shuffle", "consistent"]
"""That Fig. 7, 8 and 12 compare."""

WORKERS = 10
STRONG, TIMES = 3, 5.0
"""Workers y that are z times as fast as the others."""

DURATION_S = MESSAGES / 10_817
"""Of every stream: that of WP at the arrival rate of Table 2, taken as messages per second."""

UTILISATION = 0.8
"""Part of what all workers can do in a second that arrives in a second."""

SLOT_S = 0.1
BUSY_ABOVE, IDLE_BELOW = 0.85, 0.75
GAPS = {
    "queue_gap": "queue length, messages",
    "latency_gap_s": "mean latency, seconds",
    "utilisation_gap": "queue length / capacity",
}
"""Values over time: the largest minus the smallest value of a worker."""


def capacities(strong: int, times: float, first: int = 0) -> list[float]:
    """List the workers' speeds: some times as fast as the others, from one of them on."""
    fast = {(first + place) % WORKERS for place in range(strong)}
    return [times if worker in fast else 1.0 for worker in range(WORKERS)]


def queues(
    params: ks.Grouping,
    keys: Any,
    speeds: Sequence[float],
    changes: Sequence[tuple[int, Sequence[float]]] = (),
) -> Figures:
    """Simulate a grouping in time, and give the gaps between workers, and the latencies.

    Args:
        params: The grouping, for ten workers.
        keys: The stream.
        speeds: Of the workers at the start; their sum must stay.
        changes: Positions from which on the workers have other speeds, ascending.
    """
    rate_per_s = len(keys) / DURATION_S
    result = ks.simulate(
        params,
        keys,
        service_time_s=UTILISATION * sum(speeds) / rate_per_s,
        arrival_rate_per_s=rate_per_s,
        capacities=speeds,
        events=[
            SetCapacity(position, worker, speed)
            for position, others in changes
            for worker, speed in enumerate(others)
        ],
        feedback_interval_s=SLOT_S,
        busy_above=BUSY_ABOVE,
        idle_below=IDLE_BELOW,
    )
    if result.queue_over_time is None or result.latency_over_time is None or result.latency_s is None:
        raise ValueError("a simulation with a timing model must report queues and latencies")
    positions, queue = result.queue_over_time
    speed_then = np.array([speeds, *(others for _, others in changes)])
    periods = np.searchsorted([position for position, _ in changes], positions)
    gaps = {
        "queue_gap": gap(queue),
        "latency_gap_s": gap(result.latency_over_time[1]),
        "utilisation_gap": gap(queue / speed_then[periods]),
    }
    return plain({"position": positions / len(keys), **gaps, **_latencies(result.latency_s)})  # type: ignore[no-any-return]


def gap(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest less the smallest value of each row, but for nan."""
    highest: NDArray[np.float64] = np.fmax.reduce(values, axis=1) - np.fmin.reduce(values, axis=1)
    return highest


def _latencies(latency_s: dict[str, float]) -> dict[str, float]:
    return {f"{name}_latency_s": seconds for name, seconds in latency_s.items()}


def params_of(grouping: str, virtual_workers: int = VIRTUAL_WORKERS) -> ks.Grouping:
    """Make a grouping of these experiments; the virtual workers are CG's."""
    more = {"virtual_workers": virtual_workers, "epsilon": EPSILON, "slot_s": SLOT_S}
    return ks.grouping(grouping, workers=WORKERS, seed=1, **(more if grouping == "consistent" else {}))


def course(results: Results, figure: str, **parameters: Any) -> list[float]:
    """Return a gap over time of the only cell with these parameters."""
    values: list[float] = results.one(figure, **parameters)
    return values


def settled(results: Results, figure: str, **parameters: Any) -> float:
    """Return the mean of a gap over the second half of the stream."""
    values = course(results, figure, **parameters)
    return float(np.mean(values[len(values) // 2 :]))


def grows(results: Results, figure: str, **parameters: Any) -> bool:
    """Return whether a gap is more than 1.5 times as large at the end as at half the stream."""
    values = course(results, figure, **parameters)
    return values[-1] > 1.5 * values[len(values) // 2 - 1] > 0


def over_time(results: Results, series: str, label: Callable[[Any], Any]) -> Table:
    """Tell the gaps: settled, and at the end; and the mean and the 99th percentile of the latency."""
    rows: list[Sequence[Entry]] = []
    for name, stream in named(results):
        for each in results.where(**stream).values(series):
            one = results.where(**stream, **{series: each})
            means = [settled(one, figure) for figure in GAPS]
            ends = [course(one, figure)[-1] for figure in GAPS]
            rows.append(
                [name, label(each), *means, *ends, one.one("mean_latency_s"), one.one("p99_latency_s")]
            )
    heads = [
        f"{what}, {when}" for when in ("2nd half", "end") for what in ("queue", "latency s", "utilisation")
    ]
    return Table(["stream", series.replace("_", " "), *heads, "mean latency s", "p99 s"], rows)


def draw_over_time(
    figure: Figure, results: Results, series: str, look: Callable[[Any], dict[str, Any]]
) -> None:
    """Draw the three gaps over time, side by side: a row a stream."""
    streams = named(results)
    titles = [f"{what}, {name}" for name, _ in streams for what in GAPS.values()]
    plots = panels(figure, titles, len(GAPS), x="part of the stream", y="largest - smallest", share_y=False)
    for place, (_, stream) in enumerate(streams):
        for axes, what in zip(plots[len(GAPS) * place :], GAPS, strict=False):
            for each in results.where(**stream).values(series):
                one = results.where(**stream, **{series: each})
                style = {**look(each), "marker": None}
                axes.plot(course(one, "position"), course(one, what), **style)
            logarithmic([axes])
    legend(figure)
