"""`profile`: how skewed the keys are, what the skew costs, and what would fix it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyspark.sql import Column, DataFrame

from keysplit.plan import PLANS, Summary, speeds_of
from keysplit.profiling.advice import OPERATIONS, Cost, Operation, advise, recommend_for
from keysplit.profiling.model import Advice, Profile, TopKey
from keysplit.profiling.planned import predict
from keysplit.spark.checks import by_name
from keysplit.spark.counting.summary import summarise
from keysplit.spark.plan import Sample, planning


@by_name
def profile(
    df: DataFrame,
    key: str | Sequence[str],
    workers: int,
    *,
    operation: Operation | None = None,
    sample: Sample = "auto",
    weight: str | Column | None = None,
    seed: int | None = None,
    capacities: Sequence[float] | None = None,
    seconds_per_row: float | None = None,
    cores: int | None = None,
) -> Profile:
    """Report from a sample or all rows how skewed the keys are, and whether splitting keys would help.

    All keys with at least 1/(20 workers) of the weight are found, with bounds, or with a sample's error. The
    loads of each grouping come from a plan made in the same pass. `keysplit.metrics` defines the metrics.

    Args:
        df: a batch DataFrame.
        key: as in `route`.
        workers: as in `route`.
        operation: the operation by key that the verdict covers: "sum" (sums, counts, minima, maxima,
            averages), "collect" (lists, percentiles, distinct counts), "apply" (whole-group Python), "join",
            "write", "stream" or "window"; if omitted, the verdict covers all but the last two.
        sample: the part of the rows that is counted, above 0, up to 1; "auto" as in `plan`. `Profile.sample`
            has the sample's size and error.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            omitted.
        seed: the seed of the hashes, 0 if omitted.
        capacities: the relative speed of each worker, above 0; equal if omitted.
        seconds_per_row: the time per row, above 0. If given, the verdict shows times, computed from the
            loads, instead of a ratio.
        cores: the number of concurrent tasks, at least 1; one per worker if omitted. With fewer cores than
            workers a plan is recommended only if it saves time on these cores.

    Returns:
        The profile; print it, or show it in a notebook.

    Raises:
        TypeError: as in `route`.
        ValueError: as in `route`, or if `operation` is none of these.

    Example:
        >>> verdict = kss.profile(df, "word", workers=64).verdict  # doctest: +SKIP
    """
    if operation is not None and operation not in OPERATIONS:
        raise ValueError(f"operation must be one of {', '.join(OPERATIONS)}, got {operation!r}")
    cost = Cost(seconds_per_row, cores)
    request = planning(
        df,
        key,
        workers,
        grouping="cut_to_fit",
        sample=sample,
        weight=weight,
        capacities=capacities,
        seed=seed,
        remedy=": profile a batch of its rows",
    )
    counted = summarise(request)
    found = counted.summary
    top = []
    for hash_, count, error in zip(
        found.hashes.tolist(), found.counts.tolist(), found.errors.tolist(), strict=True
    ):
        values = counted.keys[hash_]
        value = values[0] if len(request.keys) == 1 else tuple(values)
        top.append(TopKey(value, count, error, count / found.total))
    predicted = {
        name: predict(found, kind(workers=request.workers, seed=request.params.seed), request.capacities)
        for name, kind in PLANS.items()
    }
    unit = "rows" if request.weight is None else "weight"
    recommended = recommend_for(predicted, operation, cost, unit) if found.total else None
    verdict = advise(
        found.total,
        unit,
        top,
        predicted,
        recommended,
        operation,
        key=request.keys,
        workers=request.workers,
        cost=cost,
        sample=found.sample,
        heaviest_row=_heaviest_row(found, speeds_of(request.capacities, request.workers)),
    )
    advice = Advice(
        workers=request.workers,
        predicted=predicted,
        recommended=recommended,
        verdict=verdict.text,
        details=verdict.details,
        line=verdict.line,
    )
    return Profile(
        key=tuple(request.keys),
        total=found.total,
        unit=unit,
        top=top,
        advice=(advice,),
        sample=found.sample,
    )


def _heaviest_row(found: Summary, speeds: np.ndarray) -> float:
    """Return the load of the fastest worker if it had only the heaviest row, in fair shares; 0 if unknown."""
    if found.heaviest is None or not found.total:
        return 0.0
    return float(found.heaviest.max(initial=0.0) / speeds.max() * speeds.sum() / found.total)
