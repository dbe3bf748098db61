"""Find numbers that put a worker's state into the state partition with the worker's number."""

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

_MASK = (1 << 32) - 1


def slot(seed: Column, worker: Column, workers: int) -> Column:
    """Return the INT that Spark's hash with a seed maps to the worker's number.

    Spark's partition of (window, key, slot) is the hash of the slot, seeded by the hash of window and key,
    modulo the partitions. So the partition is the worker's number, modulo the partitions.

    Source:
        The inverse of the 32-bit MurmurHash3 of four bytes: each of its steps is a bijection.
    """
    numbers = np.arange(workers, dtype=np.uint32)
    with np.errstate(over="ignore"):
        h = numbers ^ (numbers >> np.uint32(16))
        h *= np.uint32(_inverse(0xC2B2AE35))
        h ^= (h >> np.uint32(13)) ^ (h >> np.uint32(26))
        h *= np.uint32(_inverse(0x85EBCA6B))
        h ^= (h >> np.uint32(16)) ^ np.uint32(4)
        h = (h - np.uint32(0xE6546B64)) * np.uint32(_inverse(5))
        h = (h >> np.uint32(13)) | (h << np.uint32(19))
    table = F.split(F.lit(",".join(map(str, h.view(np.int32).tolist()))), ",").cast("array<bigint>")
    k = _times(table[worker].bitwiseXOR(seed.cast("bigint")), _inverse(0x1B873593))
    turned = F.shiftleft(k.bitwiseAND(F.lit(_MASK)), 17)
    k = turned.bitwiseOR(F.shiftright(turned, 32))
    return _times(_signed(k), _inverse(0xCC9E2D51)).cast("int")


def _times(number: Column, factor: int) -> Column:
    """Return the product of two signed 32-bit numbers, modulo 2^32, without overflow."""
    return _signed(number * (factor - (factor >> 31 << 32)))


def _signed(number: Column) -> Column:
    """Return the low 32 bits of a BIGINT as a signed number."""
    return F.shiftright(F.shiftleft(number, 32), 32)


def _inverse(number: int) -> int:
    return pow(number, -1, 1 << 32)
