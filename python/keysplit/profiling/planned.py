"""Predict the effect of plans on a stream's keys, counted in one pass, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keysplit import metrics
from keysplit._core import SpaceSaving, hash_keys
from keysplit.plan import (
    PLANS,
    CutToFit,
    Summary,
    bucket_bits,
    bucket_of,
    expected_loads,
    head_threshold,
    place,
    sketch_capacity,
    speeds_of,
)
from keysplit.profiling.advice import (
    DEFAULT_COST,
    Cost,
    advise_simulated,
    plans_of,
    recommend_for,
    recommend_simulated,
)
from keysplit.profiling.model import Advice, Prediction, TopKey
from keysplit.results import SimulationResult

__all__ = ["Keys", "advise_on", "predict"]


class Keys:
    """Counts the keys of a stream for plans: possibly frequent keys, and the weight of buckets.

    Args:
        workers: the numbers of workers for which plans are predicted.

    Example:
        >>> import keysplit as ks
        >>> keys = Keys([10])
        >>> keys.update(ks.streams.zipf(1.4, keys=1_000, messages=10_000, seed=1))
        >>> keys.predict(10)["cut_to_fit"].busiest < 1.01 < keys.predict(10)["key"].busiest
        True
    """

    def __init__(self, workers: Sequence[int]) -> None:
        most = CutToFit(workers=max(workers))
        self._threshold = head_threshold(most)
        self._sketch = SpaceSaving(sketch_capacity(most))
        self._bits = bucket_bits(most.workers)
        self._buckets = np.zeros(2**self._bits)

    def update(self, keys: Any) -> None:
        """Count the keys of a column."""
        hashes = hash_keys(keys).view(np.int64)
        self._sketch.update(hashes)
        self._buckets += np.bincount(bucket_of(hashes, self._bits), minlength=len(self._buckets))

    def predict(self, workers: int) -> dict[str, Prediction]:
        """Return the expected effect of each plan for one of the numbers of workers, by name."""
        total = float(self._sketch.total)
        most = np.ceil(1 / self._threshold)
        found = [each for each in self._sketch.top(int(most)) if each[1] >= self._threshold * total]
        found.sort(key=lambda each: (-each[1], each[0]))
        summary = Summary(
            total=total,
            hashes=np.array([key for key, _, _ in found], np.int64),
            counts=np.array([count for _, count, _ in found], np.float64),
            errors=np.array([error for _, _, error in found], np.float64),
            buckets=self._buckets,
        ).with_buckets(bucket_bits(workers))
        return {name: predict(summary, kind(workers=workers)) for name, kind in PLANS.items()}


def predict(summary: Summary, params: Any, capacities: Sequence[float] | None = None) -> Prediction:
    """Return the expected effect of a plan.

    Args:
        summary: the summary for the plan.
        params: the grouping of the plan.
        capacities: the relative speed of each worker; equal if omitted.
    """
    placement = place(summary, params, capacities)
    speeds = speeds_of(capacities, params.workers)
    loads = expected_loads(
        summary,
        summary.hashes[placement.head],
        placement.workers,
        placement.shares,
        placement.tail,
        params.workers,
        speeds,
    )
    relative = loads / speeds
    return Prediction(
        loads=loads,
        imbalance=metrics.imbalance(relative),
        relative_imbalance=metrics.relative_imbalance(relative),
        extra_partials=sum(len(workers) - 1 for workers in placement.workers),
    )


def advise_on(
    results: Sequence[SimulationResult],
    planned: Mapping[str, Prediction] | None = None,
    *,
    top: TopKey | None = None,
    key: Sequence[str] = (),
    without: Sequence[str] = (),
    cost: Cost = DEFAULT_COST,
) -> Advice:
    """Return the advice on simulations for one number of workers; arguments as in `advise_simulated`."""
    predicted = {result.params.name: Prediction.of(result) for result in results}
    workers = results[0].params.workers
    recommended = recommend_for(planned or plans_of(results), None, cost) if "key" in predicted else None
    verdict = advise_simulated(results, planned=planned, top=top, key=key, without=without, cost=cost)
    return Advice(
        workers=workers,
        predicted=predicted,
        recommended=recommended,
        verdict=verdict.text,
        details=verdict.details,
        results={result.params.name: result for result in results},
        planned=planned or {},
        online=recommend_simulated(results, without=without),
        line=verdict.line,
    )
