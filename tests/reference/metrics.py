"""The metrics, straight from their formulas."""

import math
from collections.abc import Sequence


def imbalance(loads: Sequence[float]) -> float:
    return (max(loads) - sum(loads) / len(loads)) / sum(loads)


def relative_imbalance(loads: Sequence[float]) -> float:
    mean = sum(loads) / len(loads)
    return (max(loads) - mean) / mean


def load_stddev(loads: Sequence[float]) -> float:
    shares = [100 * load / sum(loads) for load in loads]
    mean = sum(shares) / len(shares)
    return math.sqrt(sum((share - mean) ** 2 for share in shares) / len(shares))


def memory(keys: Sequence[object], workers: Sequence[int]) -> int:
    return len(set(zip(keys, workers, strict=True)))


def replication(keys: Sequence[object], workers: Sequence[int]) -> float:
    return memory(keys, workers) / len(set(keys))
