"""The rule by which a new plan replaces the current plan."""

from typing import NamedTuple

import numpy as np

from keysplit.plan import Plan, Summary, bucket_of
from keysplit.spark.streaming.adapt import Adapt

# Chance explains this many standard deviations of the busiest worker's rows.
_DEVIATIONS = 2.0


class Change(NamedTuple):
    """The gain of a new plan per batch, and its one-time cost, all measured in row weight.

    Attributes:
        gain: the weight that the busiest worker no longer gets.
        fair: the fair share of a worker.
        cost: the copies of frequent keys plus the weight of rare keys that move, per worker because all
            workers share the merging.
    """

    gain: float
    fair: float
    cost: float

    def pays(self, adapt: Adapt) -> bool:
        """Return whether the rule of `Adapt` accepts the new plan."""
        return self.gain >= adapt.gain * self.fair and self.gain * adapt.horizon > self.cost * adapt.copy_cost


def excess(loads: np.ndarray, speeds: np.ndarray) -> float:
    """Return the busiest worker's excess over its fair share, in fair shares, beyond chance.

    Args:
        loads: the rows of each worker in a batch.
        speeds: the relative speed of each worker.
    """
    total = loads.sum()
    if not total:
        return 0.0
    relative = loads / speeds * (speeds.sum() / total)
    at = int(relative.argmax())
    explained = min(_DEVIATIONS / max(loads[at], 1.0) ** 0.5, 1.0)
    return float(relative[at] * (1 - explained)) - 1.0


def change(current: Plan, new: Plan, summary: Summary, rows: float) -> Change:
    """Compare two plans for the same workers on a summary of the keys.

    Args:
        current: the current plan.
        new: the new plan, whose capacities count.
        summary: the summary of the keys.
        rows: the weight of a batch, to which the summary is scaled.
    """
    speeds, scale = new.speeds, rows / summary.total if summary.total else 0.0
    mean = summary.total / speeds.sum()
    before, after = (float((plan.loads_for(summary) / speeds).max()) for plan in (current, new))
    held = {each.hash: set(each.workers) for each in current.head}
    buckets = bucket_of(np.array([each.hash for each in new.head], np.int64), len(new.tail).bit_length() - 1)
    copies, rare = 0, summary.buckets.copy()
    known = dict(zip(summary.hashes.tolist(), summary.counts.tolist(), strict=True))
    for each, bucket in zip(new.head, buckets.tolist(), strict=True):
        old = held.get(each.hash, {int(current.tail[bucket])})
        copies += len(set(each.workers) - old)
        rare[bucket] -= known.get(each.hash, 0.0)
    moved = float(np.maximum(rare[current.tail != new.tail], 0.0).sum())
    return Change((before - after) * scale, mean * scale, (copies + moved * scale) / new.workers)
