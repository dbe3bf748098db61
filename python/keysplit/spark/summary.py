"""One pass over the keys: which are frequent, and how much lies in each bucket of the others."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from keysplit import SpaceSaving
from keysplit.planning import MOST_COUNTERS, Summary, bucket_bits, bucket_of, head_threshold, sketch_capacity
from keysplit.spark import values
from keysplit.spark.keys import key_hash
from keysplit.spark.options import Request

# Rows between two looks at which keys are frequent, and keep their values.
_LOOK = 1 << 20
# Partial results that reach the driver at most.
_PARTS = 32
# Candidates that an exact count brings to the driver in its first pass: at most so many a bucket, and in all.
_MOST_OF_BUCKET = 16
_MOST_CANDIDATES = 1 << 18
_BAD_WEIGHT = "weight must be finite, at least 0 and not null in every row, and have a finite sum"


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
        counted = _by_grouping(rows, share, bits, request.key_types, most_candidates)
    else:
        capacity = min(most_counters, max(sketch_capacity(request.params), counters))
        counted = _by_sketch(rows, share, bits, request.key_types, capacity, request.weight is not None)
    if not np.isfinite(counted.total):
        raise ValueError(_BAD_WEIGHT)
    return counted.frequent(share, request.key_types)


@dataclass(frozen=True)
class _Counted:
    """The weight of the buckets, and the candidates for frequent keys."""

    hashes: np.ndarray
    counts: np.ndarray
    errors: np.ndarray
    buckets: np.ndarray
    texts: dict[int, list[bytes | None]]
    """What `values.text` wrote of each candidate, by its hash."""

    @property
    def total(self) -> float:
        return float(self.buckets.sum())

    def frequent(self, share: float, types: list[DataType]) -> Pass:
        """Return the candidates from a share of the total on, the most frequent first."""
        order = np.lexsort((self.hashes, -self.counts))
        order = order[self.counts[order] >= share * self.total] if self.total else order[:0]
        hashes = self.hashes[order]
        keys = {
            hash_: tuple(
                values.read(text, type_) for text, type_ in zip(self.texts[hash_], types, strict=True)
            )
            for hash_ in hashes.tolist()
        }
        found = Summary(self.total, hashes, self.counts[order], self.errors[order], self.buckets)
        return Pass(found, keys)


def _texts(key: Column, types: list[DataType]) -> Column:
    return F.array(*(values.text(key.getField(f"k{at}"), type_) for at, type_ in enumerate(types)))


def _by_sketch(
    rows: DataFrame, share: float, bits: int, types: list[DataType], capacity: int, weighted: bool
) -> _Counted:
    key = StructType([StructField(f"k{at}", values.sent(type_)) for at, type_ in enumerate(types)])
    schema = StructType(
        [
            StructField("partition", IntegerType()),
            StructField("sketch", BinaryType()),
            StructField("buckets", BinaryType()),
            StructField("hashes", ArrayType(LongType())),
            StructField("keys", ArrayType(key)),
        ]
    )
    counted = rows.mapInArrow(_counting(capacity, share, bits, weighted), schema)
    parts = counted.repartition(F.col("partition") % _PARTS).mapInArrow(_merging(), schema)
    texts = F.transform("keys", lambda key: _texts(key, types)).alias("texts")
    found = parts.select("partition", "sketch", "buckets", "hashes", texts).collect()
    if any(part.sketch is None for part in found):
        raise ValueError(_BAD_WEIGHT)
    sketch = SpaceSaving(capacity)
    buckets = np.zeros(2**bits)
    known: dict[int, list[bytes | None]] = {}
    for part in sorted(found, key=lambda part: part.partition):
        sketch.merge(SpaceSaving.from_bytes(bytes(part.sketch)))
        buckets += np.frombuffer(part.buckets)
        known |= dict(zip(part.hashes, part.texts, strict=True))
    top = _top(sketch, share)
    return _Counted(
        hashes=np.array([hash_ for hash_, _, _ in top], np.int64),
        counts=np.array([count for _, count, _ in top], np.float64),
        errors=np.array([error for _, _, error in top], np.float64),
        buckets=buckets,
        texts=known,
    )


def _counting(
    capacity: int, share: float, bits: int, weighted: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        sketch, buckets = SpaceSaving(capacity), np.zeros(2**bits)
        hashes, keys, known = [], [], pa.array([], pa.int64())
        for table in _tables(batches):
            values = table["hash"].to_numpy()
            weights = table["weight"].to_numpy() if weighted else None
            if weights is not None and not (np.isfinite(weights) & (weights >= 0)).all():
                none = (pa.array([], table[name].type) for name in ("hash", "key"))
                yield _part(TaskContext.get().partitionId(), None, b"", *none)
                return
            sketch.update(values, weights)
            buckets += np.bincount(bucket_of(values, bits), weights, minlength=2**bits)
            # A key that is frequent in the end was so after the last table it is in: there it is kept.
            new = pa.array(sorted(_frequent(sketch, share).difference(known.to_pylist())), pa.int64())
            which = pc.index_in(table["hash"], value_set=new).to_numpy()
            rows = np.flatnonzero(~np.isnan(which))
            _, first = np.unique(which[rows], return_index=True)
            hashes.append(pa.array(values[rows[first]]))
            keys.append(_flat(table["key"].take(pa.array(rows[first]))))
            known = pa.concat_arrays([known, hashes[-1]])
        if not keys:
            return
        frequent = _frequent(sketch, share)
        kept = np.flatnonzero([value in frequent for value in known.to_pylist()])
        yield _part(
            TaskContext.get().partitionId(),
            sketch.to_bytes(),
            buckets.tobytes(),
            known.take(pa.array(kept)),
            pa.concat_arrays(keys).take(pa.array(kept)),
        )

    return count


def _merging() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Blocks of a shuffle come in any order, and a sketch depends on the order in which it is merged.
        rows = [(batch, row) for batch in batches for row in range(batch.num_rows)]
        if not rows:
            return
        rows.sort(key=lambda at: at[0]["partition"][at[1]].as_py())
        for batch, row in rows:
            if not batch["sketch"][row].is_valid:  # a task has met a bad weight
                yield batch.slice(row, 1)
                return
        sketches = [SpaceSaving.from_bytes(batch["sketch"][row].as_py()) for batch, row in rows]
        for other in sketches[1:]:
            sketches[0].merge(other)
        buckets = sum(np.frombuffer(batch["buckets"][row].as_py()) for batch, row in rows)
        hashes, keys = [], []
        for batch, row in rows:
            hashes.append(batch["hashes"][row].values)
            keys.append(batch["keys"][row].values)
        yield _part(
            rows[0][0]["partition"][rows[0][1]].as_py(),
            sketches[0].to_bytes(),
            np.asarray(buckets).tobytes(),
            pa.concat_arrays(hashes),
            pa.concat_arrays(keys),
        )

    return merge


def _part(
    partition: int, sketch: bytes | None, buckets: bytes, hashes: pa.Array, keys: pa.Array
) -> pa.RecordBatch:
    ends = pa.array([0, len(hashes)], pa.int32())
    return pa.RecordBatch.from_arrays(
        [
            pa.array([partition], pa.int32()),
            pa.array([sketch], pa.binary()),
            pa.array([buckets], pa.binary()),
            pa.ListArray.from_arrays(ends, hashes),
            pa.ListArray.from_arrays(ends, keys),
        ],
        ["partition", "sketch", "buckets", "hashes", "keys"],
    )


def _tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting, rows = [], 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _LOOK:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def _top(sketch: SpaceSaving, share: float) -> list[tuple[Any, float, float]]:
    # A merged sketch counts too much, up to a tenth of the share: more than 1 / share keys may seem frequent.
    return [entry for entry in sketch.top(int(2 / share) + 1) if entry[1] >= share * sketch.total]


def _frequent(sketch: SpaceSaving, share: float) -> set[int]:
    return {hash_ for hash_, _, _ in _top(sketch, share)}


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _by_grouping(
    rows: DataFrame, share: float, bits: int, types: list[DataType], most_candidates: int
) -> _Counted:
    counted = rows.groupBy("hash").agg(
        F.sum("weight").alias("count"),
        F.min("weight").alias("least"),
        F.sum(F.col("weight").isNull().cast("int")).alias("nulls"),
        F.first("key").alias("key"),
    )
    most = min(_MOST_OF_BUCKET, max(1, most_candidates >> bits))
    heaviest = F.slice(F.sort_array(F.collect_list(F.struct("count", "hash", "key")), asc=False), 1, most)
    found = (
        counted.groupBy(F.shiftrightunsigned("hash", 64 - bits).alias("bucket"))
        .agg(
            F.sum("count").alias("weight"),
            F.min("least").alias("least"),
            F.sum("nulls").alias("nulls"),
            heaviest.alias("keys"),
        )
        .withColumn("keys", F.transform("keys", lambda each: _candidate(each, types)))
        .collect()
    )
    # what is not at least 0 may be NaN, too
    if any(row.nulls or not row.least >= 0 for row in found):
        raise ValueError(_BAD_WEIGHT)
    buckets = np.zeros(2**bits)
    buckets[[row.bucket for row in found]] = [row.weight for row in found]
    least = share * float(buckets.sum())
    if any(len(row["keys"]) == most and row["keys"][-1]["count"] >= least for row in found):
        each = F.struct("count", "hash", "key")
        frequent = counted.filter(F.col("count") >= least).select(_candidate(each, types).alias("each"))
        candidates = [row["each"] for row in frequent.collect()]
    else:
        candidates = [each for row in found for each in row["keys"]]
    return _Counted(
        hashes=np.array([each["hash"] for each in candidates], np.int64),
        counts=np.array([each["count"] for each in candidates], np.float64),
        errors=np.zeros(len(candidates)),
        buckets=buckets,
        texts={each["hash"]: each["texts"] for each in candidates},
    )


def _candidate(each: Column, types: list[DataType]) -> Column:
    return F.struct(
        each.getField("count").alias("count"),
        each.getField("hash").alias("hash"),
        _texts(each.getField("key"), types).alias("texts"),
    )
