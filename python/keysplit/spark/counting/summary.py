"""One pass over the keys: the frequent keys, and the weight of each bucket."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.plan import Summary, bucket_bits, head_threshold
from keysplit.spark import values
from keysplit.spark.counting import by_grouping, by_sample
from keysplit.spark.counting.counted import Counted, Met, sum_of
from keysplit.spark.keys import key_hash
from keysplit.spark.request import Request

# Keys that the driver receives with the buckets of an exact count.
_MOST_CANDIDATES = 1 << 18
# The smallest part of a worker's share that a sample must estimate well.
_LEAST_OF_WORKER = 0.2
# The relative standard deviation of an estimated number of keys.
_ERROR_OF_KEYS = 0.02


@dataclass(frozen=True)
class Pass:
    """The result of a pass over the rows."""

    summary: Summary
    keys: dict[int, tuple[Any, ...]]
    """The values of each frequent key, by hash; text if Python has no such value."""
    met: Met | None = None
    """The rows of each frequent key; None if identities were not requested."""


def summarise(
    request: Request,
    *,
    threshold: float | None = None,
    most_candidates: int = _MOST_CANDIDATES,
    identity: Column | None = None,
) -> Pass:
    """Count the keys of a DataFrame, or of a sample of it.

    The request says which rows are counted. With `sample="auto"` all rows of a small frame are counted, and
    as many rows of a larger one as the shares need: each share of at least the threshold and at least a fifth
    of a worker's share has an error of at most a tenth, 95 times in 100, if a tenth of the rows suffices.

    With `sample=1` all rows are counted exactly, by `groupBy`, with no Python on the executors.

    `group_weight` is added to each key's weight: counts and buckets include both rows and the starts of
    groups. If some keys were not seen, another job estimates their number.

    Args:
        request: a checked request.
        threshold: the share at which a key counts as frequent; the grouping's if omitted.
        most_candidates: the largest number of keys that an exact count may send to the driver with the
            weights of the buckets. If frequent keys may be missing, a second pass reads them.
        identity: the hash of a row's identity, to see whether rows of a key differ; for a sample only.

    Returns:
        The summary and the values of its keys.

    Raises:
        ValueError: if a weight that is read is null, negative or not finite, or their sum is not finite.
    """
    share = head_threshold(request.params) if threshold is None else threshold
    hash_ = key_hash(request.keys, request.key_types, request.params.seed)
    bits = bucket_bits(request.workers)
    if request.sample != 1:
        keys = by_sample.Keys(hash_, request.keys, request.key_types, request.weight, identity)
        names = [request.columns.free(name) for name in ("keysplit_row", "keysplit_number")]
        least = min(share, _LEAST_OF_WORKER / request.workers)
        counted = by_sample.count(request.df, keys, names, share, least, bits, request.sample)
        return _with_groups(request, counted, hash_, _frequent(counted, share, request.key_types))
    key = F.struct(
        *(
            values.send(F.col(name), type_).alias(f"k{at}")
            for at, (name, type_) in enumerate(zip(request.keys, request.key_types, strict=True))
        )
    )
    weight = F.lit(1.0) if request.weight is None else request.weight
    rows = request.df.select(hash_.alias("hash"), key.alias("key"), weight.alias("weight"))
    weighted = request.weight is not None
    counted = by_grouping.count(rows, share, bits, request.key_types, most_candidates, weighted)
    return _with_groups(request, counted, hash_, _frequent(counted, share, request.key_types))


def _with_groups(request: Request, counted: Counted, hash_: Column, found: Pass) -> Pass:
    """Add the cost of starting a group to each key's weight."""
    cost, summary = request.group_weight, found.summary
    if not cost:
        return found
    groups = np.zeros(len(summary.buckets)) if counted.groups is None else counted.groups
    if counted.groups is None or counted.sample is not None:
        # Hashes spread the unseen keys evenly. For a sample only Spark's sketch gives their number.
        keys = request.df.agg(F.approx_count_distinct(hash_, _ERROR_OF_KEYS).alias("keys")).collect()[0].keys
        groups = groups + max(keys - groups.sum(), 0.0) / len(groups)
    buckets = summary.buckets + cost * groups
    weighed = replace(summary, total=sum_of(buckets), counts=summary.counts + cost, buckets=buckets)
    return replace(found, summary=weighed)


def _frequent(counted: Counted, share: float, types: list[DataType]) -> Pass:
    """Return the keys with at least this share of the weight, the most frequent first."""
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
    summary = Summary(
        total,
        hashes,
        counted.counts[order],
        counted.errors[order],
        counted.buckets,
        counted.sample,
        None if counted.heaviest is None else counted.heaviest[order],
    )
    return Pass(summary, keys, counted.met)
