"""Keys counted by a sketch in each task."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
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
from keysplit.plan import bucket_of
from keysplit.spark import values
from keysplit.spark.counting.counted import Counted, bad_weight, heaviest_of, write_texts, wrong_weights
from keysplit.spark.session.executors import set_aside_once

# Rows between two looks at which keys are frequent, and keep their values.
_LOOK = 1 << 20
# Partial results that reach the driver at most.
_PARTS = 32
_SLACK = 0.99


def count(
    rows: DataFrame, share: float, bits: int, types: list[DataType], capacity: int, weighted: bool
) -> Counted:
    """Count the rows of each key by a SpaceSaving sketch in each task, in Rust over Arrow, and merge.

    No count is too large by more than a part 1 / capacity of the weight. A row that weighs so much is found;
    of a key without one the heaviest row counts as 0.

    Args:
        rows: the columns `hash`, `key` and `weight`.
        share: the part of the weight from which a key is frequent.
        bits: how many bits of the hash name the bucket.
        types: the types of the key columns.
        capacity: the counters of a sketch, at least 10 / share.
        weighted: whether `weight` is anything but 1.

    Returns:
        At least all frequent keys.

    Raises:
        ValueError: if a weight is null, negative or not finite.
    """
    key = StructType([StructField(f"k{at}", values.sent_type(type_)) for at, type_ in enumerate(types)])
    schema = StructType(
        [
            StructField("partition", IntegerType()),
            StructField("sketch", BinaryType()),
            StructField("buckets", BinaryType()),
            StructField("heavy", BinaryType()),
            StructField("hashes", ArrayType(LongType())),
            StructField("keys", ArrayType(key)),
        ]
    )
    counted = rows.mapInArrow(_counting(capacity, share, bits, weighted), schema)
    parts = counted.repartition(F.col("partition") % _PARTS).mapInArrow(_merging(), schema)
    texts = F.transform("keys", lambda key: write_texts(key, types)).alias("texts")
    found = parts.select("partition", "sketch", "buckets", "heavy", "hashes", texts).collect()
    for part in found:
        if part.sketch is None:
            raise bad_weight(bytes(part.buckets).decode())
    sketch = SpaceSaving(capacity)
    buckets = np.zeros(2**bits)
    known: dict[int, list[bytes | None]] = {}
    heavy = _Heavy()
    for part in sorted(found, key=lambda part: part.partition):
        sketch.merge(SpaceSaving.from_bytes(bytes(part.sketch)))
        buckets += np.frombuffer(part.buckets)
        heavy.add(*_unpacked(part.heavy))
        known |= dict(zip(part.hashes, part.texts, strict=True))
    top = _top(sketch, share)
    heaviest = dict(zip(heavy.hashes.tolist(), heavy.weights.tolist(), strict=True))
    return Counted(
        hashes=np.array([hash_ for hash_, _, _ in top], np.int64),
        counts=np.array([count for _, count, _ in top], np.float64),
        errors=np.array([error for _, _, error in top], np.float64),
        buckets=buckets,
        texts=known,
        heaviest=np.array([heaviest.get(hash_, 0.0) for hash_, _, _ in top]) if weighted else None,
    )


class _Heavy:
    """The heaviest row of each key, of those rows that are heavy.

    Attributes:
        hashes: the hashes of the keys, int64.
        weights: the weight of the heaviest row of each, float64.
    """

    def __init__(self) -> None:
        self.hashes, self.weights = np.empty(0, np.int64), np.empty(0)

    def add(self, hashes: np.ndarray, weights: np.ndarray, least: float = 0.0) -> None:
        """Add rows, and keep those from a weight on."""
        kept = [np.concatenate(pair) for pair in ((self.hashes, hashes), (self.weights, weights))]
        heavy = np.flatnonzero((kept[1] >= least) & (kept[1] > 0))
        self.hashes, self.weights = heaviest_of(*(each[heavy] for each in kept))

    def packed(self) -> bytes:
        """Return them as bytes, which `_unpacked` reads."""
        return self.hashes.tobytes() + self.weights.tobytes()


def _unpacked(heavy: bytes) -> tuple[np.ndarray, np.ndarray]:
    half = len(heavy) // 2
    return np.frombuffer(heavy[:half], np.int64), np.frombuffer(heavy[half:])


def _counting(
    capacity: int, share: float, bits: int, weighted: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def count_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        set_aside_once()
        sketch, buckets = SpaceSaving(capacity), np.zeros(2**bits)
        hashes, keys, known, heavy = [], [], pa.array([], pa.int64()), _Heavy()
        for table in _tables(batches):
            numbers = table["hash"].to_numpy()
            wrong = wrong_weights(table["weight"]) if weighted else None
            if wrong is not None:  # it goes to the driver in the place of the buckets
                none = (pa.array([], table[name].type) for name in ("hash", "key"))
                yield _part(TaskContext.get().partitionId(), None, wrong.encode(), b"", *none)
                return
            weights = table["weight"].to_numpy() if weighted else None
            sketch.update(numbers, weights)
            if weights is not None:
                # All rows from a part of the whole weight on are among them: what has come weighs no more.
                heavy.add(numbers, weights, sketch.total / capacity)
            buckets += np.bincount(bucket_of(numbers, bits), weights, minlength=2**bits)
            # A key that is frequent in the end was so after the last table it is in: there it is kept.
            new = pa.array(sorted(_frequent(sketch, share).difference(known.to_pylist())), pa.int64())
            which = pc.index_in(table["hash"], value_set=new).to_numpy()
            rows = np.flatnonzero(~np.isnan(which))
            _, first = np.unique(which[rows], return_index=True)
            hashes.append(pa.array(numbers[rows[first]]))
            keys.append(_flat(table["key"].take(pa.array(rows[first]))))
            known = pa.concat_arrays([known, hashes[-1]])
        if not keys:
            return
        frequent = _frequent(sketch, share)
        kept = np.flatnonzero([hash_ in frequent for hash_ in known.to_pylist()])
        yield _part(
            TaskContext.get().partitionId(),
            sketch.to_bytes(),
            buckets.tobytes(),
            heavy.packed(),
            known.take(pa.array(kept)),
            pa.concat_arrays(keys).take(pa.array(kept)),
        )

    return count_task


def _merging() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def merge_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
        hashes, keys, heavy = [], [], _Heavy()
        for batch, row in rows:
            hashes.append(batch["hashes"][row].values)
            keys.append(batch["keys"][row].values)
            heavy.add(*_unpacked(batch["heavy"][row].as_py()))
        yield _part(
            rows[0][0]["partition"][rows[0][1]].as_py(),
            sketches[0].to_bytes(),
            np.asarray(buckets).tobytes(),
            heavy.packed(),
            pa.concat_arrays(hashes),
            pa.concat_arrays(keys),
        )

    return merge_tasks


def _part(
    partition: int, sketch: bytes | None, buckets: bytes, heavy: bytes, hashes: pa.Array, keys: pa.Array
) -> pa.RecordBatch:
    ends = pa.array([0, len(hashes)], pa.int32())
    return pa.RecordBatch.from_arrays(
        [
            pa.array([partition], pa.int32()),
            pa.array([sketch], pa.binary()),
            pa.array([buckets], pa.binary()),
            pa.array([heavy], pa.binary()),
            pa.ListArray.from_arrays(ends, hashes),
            pa.ListArray.from_arrays(ends, keys),
        ],
        ["partition", "sketch", "buckets", "heavy", "hashes", "keys"],
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
    """Return the keys of a task of which the values are kept: all that may be frequent in the end.

    A key with the share of the whole has it in some task. There it has a counter, as a key without one has a
    tenth of the share at most. The slack is for the rounding of sums.
    """
    return {hash_ for hash_, _, _ in _top(sketch, share * _SLACK)}


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
