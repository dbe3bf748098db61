"""One pass over the keys: which are frequent, and how much lies in each bucket of the others."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from keysplit import SpaceSaving
from keysplit.planning import MOST_COUNTERS, Summary, bucket_bits, bucket_of, head_threshold, sketch_capacity
from keysplit.spark.keys import key_hash
from keysplit.spark.options import Request

# Rows between two looks at which keys are frequent, and keep their values.
_LOOK = 1 << 20
# Partial results that reach the driver at most.
_PARTS = 32
_BAD_WEIGHT = "weight must be finite, at least 0 and not null in every row"


@dataclass(frozen=True)
class Pass:
    """What a pass over the rows found out."""

    summary: Summary
    keys: dict[int, tuple[Any, ...]]
    """The values of each frequent key, by its hash."""


def summarise(request: Request, *, threshold: float | None = None) -> Pass:
    """Count the keys of a DataFrame in one pass.

    Args:
        request: a checked request. Its engine says how to count: "columns" exactly by `groupBy`, with no
            Python on the executors; else by SpaceSaving in each task, in Rust, merged.
        threshold: the share from which a key is frequent; that of the grouping if left out.

    Returns:
        The summary. All keys above the threshold are in it. SpaceSaving overestimates them by at most a
        tenth of the threshold.
    """
    share = head_threshold(request.params) if threshold is None else threshold
    rows = request.df.select(
        key_hash(request.keys, request.key_types, request.params.seed).alias("hash"),
        F.struct(
            *(F.col(name).alias(f"k{i}") for i, name in enumerate(request.keys)),
        ).alias("key"),
        (F.lit(1.0) if request.weight is None else request.weight).alias("weight"),
    )
    bits = bucket_bits(request.workers)
    count = _by_grouping if request.engine == "columns" else _by_sketch
    total, hashes, counts, errors, buckets, keys = count(
        rows, share, bits, request, weighted=request.weight is not None
    )
    order = np.lexsort((hashes, -counts))
    order = order[counts[order] >= share * total] if total else order[:0]
    found = Summary(
        total=total, hashes=hashes[order], counts=counts[order], errors=errors[order], buckets=buckets
    )
    return Pass(found, {int(value): keys[int(value)] for value in found.hashes})


_Counted = tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[int, tuple[Any, ...]]]


def _by_sketch(rows: DataFrame, share: float, bits: int, request: Request, *, weighted: bool) -> _Counted:
    schema = StructType(
        [
            StructField("partition", IntegerType()),
            StructField("sketch", BinaryType()),
            StructField("buckets", BinaryType()),
            StructField("hashes", ArrayType(LongType())),
            StructField("keys", ArrayType(rows.schema["key"].dataType)),
        ]
    )
    capacity = min(MOST_COUNTERS, max(sketch_capacity(request.params), math.ceil(10 / share)))
    counted = rows.mapInArrow(_counting(capacity, share, bits, weighted), schema)
    try:
        parts = counted.repartition(F.col("partition") % _PARTS).mapInArrow(_merging(), schema).collect()
    except PySparkException as error:
        if "ValueError: weights must" in str(error):
            raise ValueError(_BAD_WEIGHT) from error
        raise
    sketch = SpaceSaving(capacity)
    buckets = np.zeros(2**bits)
    keys: dict[int, tuple[Any, ...]] = {}
    for part in sorted(parts, key=lambda part: part.partition):
        sketch.merge(SpaceSaving.from_bytes(bytes(part.sketch)))
        buckets += np.frombuffer(part.buckets)
        keys |= {hash_: tuple(key) for hash_, key in zip(part.hashes, part.keys, strict=True)}
    top = [entry for entry in sketch.top(int(1 / share) + 1) if entry[1] >= share * sketch.total]
    hashes, counts, errors = (
        np.array([entry[i] for entry in top], kind)
        for i, kind in enumerate((np.int64, np.float64, np.float64))
    )
    return float(sketch.total), hashes, counts, errors, buckets, keys


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


def _part(partition: int, sketch: bytes, buckets: bytes, hashes: pa.Array, keys: pa.Array) -> pa.RecordBatch:
    ends = pa.array([0, len(hashes)], pa.int32())
    return pa.RecordBatch.from_arrays(
        [
            pa.array([partition], pa.int32()),
            pa.array([sketch]),
            pa.array([buckets]),
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


def _frequent(sketch: SpaceSaving, share: float) -> set[int]:
    return {key for key, count, _ in sketch.top(int(1 / share) + 1) if count >= share * sketch.total}


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _by_grouping(rows: DataFrame, share: float, bits: int, request: Request, *, weighted: bool) -> _Counted:
    counted = rows.groupBy("hash").agg(
        F.sum("weight").alias("count"),
        F.min("weight").alias("least"),
        F.sum(F.col("weight").isNull().cast("int")).alias("nulls"),
        F.first("key").alias("key"),
    )
    # A bucket holds more frequent keys than this by a chance that is not worth a thought.
    most = max(16, math.ceil(8 / (share * 2**bits)))
    entry = F.struct("count", "hash", "key")
    found = (
        counted.groupBy(F.shiftrightunsigned("hash", 64 - bits).alias("bucket"))
        .agg(
            F.sum("count").alias("weight"),
            F.min("least").alias("least"),
            F.sum("nulls").alias("nulls"),
            F.slice(F.sort_array(F.collect_list(entry), asc=False), 1, most).alias("keys"),
        )
        .collect()
    )
    if weighted and any(row.nulls or row.least < 0 or not np.isfinite(row.weight) for row in found):
        raise ValueError(_BAD_WEIGHT)
    buckets = np.zeros(2**bits)
    buckets[[row.bucket for row in found]] = [row.weight for row in found]
    total = float(buckets.sum())
    entries = [entry for row in found for entry in row["keys"] if entry["count"] >= share * total]
    counts = np.array([entry["count"] for entry in entries], np.float64)
    hashes = np.array([entry["hash"] for entry in entries], np.int64)
    return (
        total,
        hashes,
        counts,
        np.zeros(len(entries)),
        buckets,
        {e["hash"]: tuple(e["key"]) for e in entries},
    )
