"""What a micro-batch has shown of its plan."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from keysplit.plan import Plan, Sample, bucket_of
from keysplit.spark.streaming.learning import Batch

MOST_HOT = 100
"""Hot keys of which the figures say something; the most frequent come first."""


class HotKey(NamedTuple):
    """A key that the plan of a micro-batch places by itself.

    Attributes:
        text: its values in one line.
        expected: the part of the rows that the plan expects of it.
        share: the part that it had in the batch, estimated from the rows that were drawn.
        workers: the number of its workers.
        age: for how many batches in a row plans have placed it by itself, this one included.
    """

    text: str
    expected: float
    share: float
    workers: int
    age: int


class Figures(NamedTuple):
    """What a micro-batch has shown.

    Attributes:
        batch: its number.
        version: the version of the plan that it used.
        workers: the workers of the plan.
        rows: the rows of each counter of workers, int64.
        busiest: the load of the busiest worker in multiples of its fair share.
        hash_busiest: the same if all rows of a key went where its hash says; see `Plan.hash_busiest`.
        replication: the mean number of workers of a key. It is over the keys that were drawn, and a key
            that was met rarely is drawn rarely: over all keys it is at most this.
        copies: the workers that the plan's frequent keys have beyond one each.
        hot: the keys that the plan places by themselves, the most frequent first.
        busy_s: the seconds that each counter's workers were busy, float64; None where that is not known.
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
    """Return the load of the busiest worker in multiples of its fair share, 1 without rows."""
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
    """Return what a micro-batch has shown.

    Args:
        batch: what it has counted.
        version: the version of its plan.
        plan: its plan.
        speeds: the relative speed of each counter's workers.
        ages: the age of each key that the plan places by itself, by its hash.
        busy_s: for how long each counter's workers were busy, if that is known.
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
    """Return on how many workers beyond one a key was met: it has no more workers than rows."""
    return min(len(workers), round(met)) - 1 if met else 0
