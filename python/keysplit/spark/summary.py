"""One pass over the keys: which are frequent, and how much lies in each bucket of the others."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.planning import MOST_COUNTERS, Summary, bucket_bits, head_threshold, sketch_capacity
from keysplit.spark import values
from keysplit.spark.counting import by_grouping, by_sketch
from keysplit.spark.counting.counted import Counted, sum_of
from keysplit.spark.keys import key_hash
from keysplit.spark.options import Request

# Keys that an exact count brings to the driver along with the buckets.
_MOST_CANDIDATES = 1 << 18


@dataclass(frozen=True)
class Pass:
    """What a pass over the rows found out."""

    summary: Summary
    keys: dict[int, tuple[Any, ...]]
    """The values of each frequent key, by its hash; text where Python has no such value."""


def summarise(
    request: Request,
    *,
    threshold: float | None = None,
    most_counters: int = MOST_COUNTERS,
    most_candidates: int = _MOST_CANDIDATES,
) -> Pass:
    """Count the keys of a DataFrame.

    All keys from the threshold on are in the summary. No count is too large by more than a tenth of the
    threshold.

    The engine of the request says how to count. "columns" counts exactly by `groupBy`, with no Python on the
    executors. "rust" counts by SpaceSaving in each task, and merges. Ten counters for each possible frequent
    key keep the promise; where these are more than `most_counters`, the keys are counted exactly.

    Args:
        request: a checked request.
        threshold: the share from which a key is frequent; that of the grouping if left out.
        most_counters: the most counters that a task may have.
        most_candidates: the most keys that an exact count may bring to the driver along with the weights of
            the buckets. Where they may not be all frequent keys, a second pass reads exactly these.

    Returns:
        The summary and the values of its keys.

    Raises:
        ValueError: if a weight is null, negative or not finite, or if their sum is not finite.
    """
    share = head_threshold(request.params) if threshold is None else threshold
    rows = request.df.select(
        key_hash(request.keys, request.key_types, request.params.seed).alias("hash"),
        F.struct(
            *(
                values.send(F.col(name), type_).alias(f"k{at}")
                for at, (name, type_) in enumerate(zip(request.keys, request.key_types, strict=True))
            )
        ).alias("key"),
        (F.lit(1.0) if request.weight is None else request.weight).alias("weight"),
    )
    bits = bucket_bits(request.workers)
    counters = math.ceil(10 / share)
    if request.engine == "columns" or counters > most_counters:
        counted = by_grouping.count(rows, share, bits, request.key_types, most_candidates)
    else:
        capacity = min(most_counters, max(sketch_capacity(request.params), counters))
        counted = by_sketch.count(rows, share, bits, request.key_types, capacity, request.weight is not None)
    return _frequent(counted, share, request.key_types)


def _frequent(counted: Counted, share: float, types: list[DataType]) -> Pass:
    """Return the keys from a share of the weight on, the most frequent first."""
    total = sum_of(counted.buckets)
    order = np.lexsort((counted.hashes, -counted.counts))
    order = order[counted.counts[order] >= share * total] if total else order[:0]
    hashes = counted.hashes[order]
    keys = {
        hash_: tuple(
            values.read(text, type_) for text, type_ in zip(counted.texts[hash_], types, strict=True)
        )
        for hash_ in hashes.tolist()
    }
    return Pass(Summary(total, hashes, counted.counts[order], counted.errors[order], counted.buckets), keys)
