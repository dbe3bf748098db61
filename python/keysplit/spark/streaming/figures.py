"""The figures of a micro-batch and its plan."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from keysplit.plan import Plan, Sample, bucket_of
from keysplit.spark.streaming.learning import Batch

MOST_HOT = 100
"""The maximum number of hot keys in the figures, the most frequent first."""


class HotKey(NamedTuple):
    """A key that a micro-batch's plan places individually.

    Attributes:
        text: the key's values in one line.
        expected: the key's share of the rows according to the plan.
        share: the key's share of the batch, estimated from the drawn rows.
        workers: the number of the key's workers.
        age: the number of consecutive batches, up to this one, whose plans have placed the key individually.
    """

    text: str
    expected: float
    share: float
    workers: int
    age: int


class Figures(NamedTuple):
    """The figures of a micro-batch.

    Attributes:
        batch: the number of the micro-batch.
        version: the version of the plan that the batch used.
        workers: the workers of the plan.
        rows: the rows of each worker counter, int64.
        busiest: the busiest worker's load as a multiple of its fair share.
        hash_busiest: the same for hash partitioning; see `Plan.hash_busiest`.
        replication: the mean number of workers per key, over drawn keys; an upper bound for all keys, because
            rare keys are rarely drawn.
        copies: the number of workers of the plan's frequent keys, not counting one worker per key.
        hot: the keys that the plan places individually, the most frequent first.
        busy_s: the seconds that each counter's workers were busy, float64; None if unknown.
    """

    batch: int
    version: int
    workers: int
    rows: np.ndarray
    busiest: float
    hash_busiest: float
    replication: float
    copies: int
    hot: tuple[HotKey, ...]
    busy_s: np.ndarray | None = None


def busiest_of(rows: np.ndarray, speeds: np.ndarray) -> float:
    """Return the busiest worker's load as a multiple of its fair share; 1 without rows."""
    total = int(rows.sum())
    return float((rows / speeds).max() * speeds.sum() / total) if total else 1.0


def figures_of(
    batch: Batch,
    version: int,
    plan: Plan,
    speeds: np.ndarray,
    ages: Mapping[int, int],
    busy_s: np.ndarray | None = None,
) -> Figures:
    """Return the figures of a micro-batch.

    Args:
        batch: the counts of the micro-batch.
        version: the version of the batch's plan.
        plan: the batch's plan.
        speeds: the relative speed of each counter's workers.
        ages: the age of each key that the plan places individually, by its hash.
        busy_s: how long each counter's workers were busy, if known.
    """
    drawn, at = np.unique(batch.hashes, return_inverse=True)
    counts = np.bincount(at, batch.repeats, minlength=len(drawn))
    met = dict(zip(drawn.tolist(), counts.tolist(), strict=True))
    number = float(batch.repeats.sum()) or 1.0
    return Figures(
        batch=batch.number,
        version=version,
        workers=plan.workers,
        rows=batch.rows,
        busiest=busiest_of(batch.rows[: len(speeds)], speeds),
        hash_busiest=_by_hash(batch, plan),
        replication=1
        + sum(_copies(each.workers, met.get(each.hash, 0.0)) for each in plan.head) / max(len(drawn), 1),
        copies=sum(len(each.workers) - 1 for each in plan.head),
        hot=tuple(
            HotKey(
                each.text,
                each.count / plan.total if plan.total else 0.0,
                met.get(each.hash, 0.0) / number,
                len(each.workers),
                ages.get(each.hash, 1),
            )
            for each in plan.head[:MOST_HOT]
        ),
        busy_s=busy_s,
    )


def _by_hash(batch: Batch, plan: Plan) -> float:
    rows, total = len(batch.hashes), float(batch.repeats.sum())
    buckets = bucket_of(batch.hashes, len(plan.tail).bit_length() - 1)
    sample = None
    if rows < total:
        sample = Sample(rows, rows / total, total**2 / float((batch.repeats**2).sum()))
    return replace(
        plan,
        total=total,
        buckets=np.bincount(buckets, batch.repeats, minlength=len(plan.tail)),
        sample=sample,
    ).hash_busiest


def _copies(workers: tuple[int, ...], met: float) -> int:
    """Return on how many workers, not counting the first, a key was seen: at most one per row."""
    return min(len(workers), round(met)) - 1 if met else 0
