"""Move each row to the partition with its worker's number."""

from functools import lru_cache

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keysplit.spark import versions
from keysplit.spark.names import in_sql, quoted


def placed(df: DataFrame, worker_column: str, workers: int, keep: bool = True) -> DataFrame:
    """Move each row of a routed DataFrame to the partition with its worker's number.

    Args:
        df: the rows.
        worker_column: the name of the column with each row's worker.
        workers: the number of workers.
        keep: whether to keep the worker column.
    """
    if versions.has_repartition_by_id(df):
        rows = df.repartitionById(workers, F.col(quoted(worker_column)))
    else:
        rows = df.repartition(workers, _preimage(worker_column, workers))
    return rows if keep else rows.drop(worker_column)


def placed_for_groups(df: DataFrame, worker_column: str, workers: int) -> DataFrame:
    """Move each row as `placed` does, so that groups and windows by the worker column move none.

    Before Spark 4.1 the column then holds other numbers, one for each worker: Spark finds rows in place only
    by the column that moved them.
    """
    if not versions.has_repartition_by_id(df):
        df = df.withColumn(worker_column, _preimage(worker_column, workers))
        return df.repartition(workers, F.col(quoted(worker_column)))
    return placed(df, worker_column, workers)


def _preimage(worker_column: str, workers: int) -> Column:
    # Before Spark 4.1 `repartition` always hashes, so it gets numbers that hash to the right partitions.
    numbers = ",".join(map(str, preimages(workers)))
    # Spark folds the array into one literal.
    return F.expr(f"get(CAST(split('{numbers}', ',') AS ARRAY<INT>), {in_sql(worker_column)})")


@lru_cache(maxsize=16)
def preimages(partitions: int) -> tuple[int, ...]:
    """Return for each partition the smallest number that `df.repartition(partitions, number)` sends there."""
    found = np.full(partitions, -1, dtype=np.int64)
    start, step = 0, 1 << 16
    while (found < 0).any():
        numbers = np.arange(start, start + step, dtype=np.int64)
        partition, first = np.unique(partition_of(numbers, partitions), return_index=True)
        new = found[partition] < 0
        found[partition[new]] = numbers[first[new]]
        start += step
    return tuple(found.tolist())


def partition_of(numbers: np.ndarray, partitions: int) -> np.ndarray:
    """Return the partition, int64, of each INT number in Spark's `repartition(partitions, number)`.

    Source:
        Spark's HashPartitioning: the signed 32-bit MurmurHash3 of the four bytes, seed 42, modulo the
        partitions.
    """
    with np.errstate(over="ignore"):
        k = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
        k = _rotate(k, 15) * np.uint32(0x1B873593)
        h = _rotate(k ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    return h.view(np.int32).astype(np.int64) % partitions


def _rotate(x: np.ndarray, bits: int) -> np.ndarray:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
