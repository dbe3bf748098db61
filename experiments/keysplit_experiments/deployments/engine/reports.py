"""What the reports of workers say: loads, throughput and latencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from keysplit_experiments.harness import Figures

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

PERCENTILES = (50, 95, 99)
LATENCIES = {
    "largest_mean_latency_s": "largest mean",
    **{f"p{p}_latency_s": f"p{p}" for p in PERCENTILES},
}
"""Figures of latency, with their names in tables and plots; the first is the largest mean of a worker."""


@dataclass(frozen=True, eq=False)
class Reports:
    """What the workers measured in one stage.

    Args:
        loads: Messages of each worker.
        busy_s: Seconds that each worker slept.
        start: When the first worker started, seconds since the epoch.
        duration_s: From then to the end of the last worker.
        latency_s: Seconds from arrival to finish of each message, in the order of `worker`.
        worker: Worker of each message.
    """

    loads: NDArray[np.int64]
    busy_s: NDArray[np.float64]
    start: float
    duration_s: float
    latency_s: NDArray[np.float64]
    worker: NDArray[np.int64]


def read(
    reports: pd.DataFrame,
    workers: int,
    arrived: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
) -> Reports:
    """Read the reports of one stage.

    A message within an Arrow batch is finished when the worker has slept for it and those before it. With
    times of arrival, a worker serves its messages in their order: all have arrived before it starts, and all
    take it equally long, so that it finishes them at the times at which it has finished one after the other.

    Args:
        reports: As [`Working`][keysplit_experiments.deployments.engine.working.Working] makes them.
        workers: Number of workers.
        arrived: Turns the tags of messages into times of arrival, seconds since the epoch. If None, all
            messages had arrived when the first worker started.
    """
    began, ended = reports.began.to_numpy(), reports.ended.to_numpy()
    messages, by = reports.messages.to_numpy(), reports.worker.to_numpy()
    start = float(began.min())
    place = np.arange(messages.sum()) - np.repeat(np.cumsum(messages) - messages, messages)
    part = (place + 1) / np.repeat(messages, messages)
    finished = np.repeat(began, messages) + part * np.repeat(ended - began, messages)
    worker = np.repeat(by, messages)
    at = np.full(len(finished), start)
    if arrived is not None:
        came = arrived(_tags(reports))
        at[np.lexsort((finished, worker))] = came[np.lexsort((came, worker))]
    return Reports(
        loads=np.bincount(by, messages, workers).astype(np.int64),
        busy_s=np.bincount(by, ended - began, workers).astype(np.float64),
        duration_s=float(ended.max()) - start,
        start=start,
        latency_s=finished - at,
        worker=worker,
    )


def _tags(reports: pd.DataFrame) -> NDArray[np.float64]:
    return np.concatenate([np.asarray(tags, dtype=float) for tags in reports.tags if tags is not None])


def joined(stages: Sequence[Reports]) -> Reports:
    """Add up stages that ran one after the other; the time between them is not counted."""
    return Reports(
        loads=np.sum([each.loads for each in stages], axis=0),
        busy_s=np.sum([each.busy_s for each in stages], axis=0),
        start=stages[0].start,
        duration_s=sum(each.duration_s for each in stages),
        latency_s=np.concatenate([each.latency_s for each in stages]),
        worker=np.concatenate([each.worker for each in stages]),
    )


def balance(loads: NDArray[np.generic]) -> float:
    """Return the load of the busiest worker over the mean of all."""
    return float(loads.max() / loads.mean())


def figures(reports: Reports) -> Figures:
    """Give throughput, balance and latencies, as a cell's figures."""
    sums = np.bincount(reports.worker, reports.latency_s, len(reports.loads))
    means = sums / np.maximum(reports.loads, 1)
    return {
        "messages": int(reports.loads.sum()),
        "loads": reports.loads.tolist(),
        "duration_s": reports.duration_s,
        "throughput_per_s": float(reports.loads.sum() / reports.duration_s),
        "balance": balance(reports.busy_s),
        "mean_latency_s": float(reports.latency_s.mean()),
        "largest_mean_latency_s": float(means.max()),
        **percentiles(reports.latency_s),
    }


def percentiles(latency_s: NDArray[np.float64], prefix: str = "") -> Figures:
    """Give the percentiles of latencies, as figures with a prefix."""
    return {f"{prefix}p{p}_latency_s": float(np.percentile(latency_s, p)) for p in PERCENTILES}


def check(found: Mapping[str, int], plain: Mapping[str, int]) -> None:
    """Check the totals of the aggregator.

    Raises:
        RuntimeError: If a key's total differs from the plain count.
    """
    wrong = {key for key in found.keys() | plain.keys() if found.get(key) != plain.get(key)}
    if wrong:
        some = ", ".join(sorted(wrong)[:3])
        raise RuntimeError(f"totals must equal the plain count, and differ for {len(wrong)} keys: {some}")
