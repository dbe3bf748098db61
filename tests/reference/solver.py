"""The number of choices d of D-Choices."""

import math


def power(b: float, e: int) -> float:
    result = 1.0
    while e > 0:
        if e % 2 == 1:
            result = result * b
        e = e >> 1
        if e > 0:
            b = b * b
    return result


def solve_choices(head_counts: list[float], total: float, workers: int, tolerance: float) -> int:
    """The smallest d that holds every constraint, `workers` if there is none; counts in descending order."""
    if total == 0:  # the frequencies are 0 / 0, no comparison with which holds
        return workers
    least = head_counts[0] * workers / total
    if least == math.inf:
        return workers
    for d in range(2 if math.isnan(least) else max(2, math.ceil(least)), workers):
        if constraints_hold(d, head_counts, total, workers, tolerance):
            return d
    return workers


def constraints_hold(d: int, head_counts: list[float], total: float, workers: int, tolerance: float) -> bool:
    head = sum_of(head_counts) / total
    tail = 1 - head
    r = 1 - 1 / workers
    prefix = 0.0
    for h, count in enumerate(head_counts, start=1):
        prefix += count
        p = prefix / total
        x = 1 - power(r, h * d)
        if not p + power(x, d) * (head - p) + power(x, 2) * tail <= x * (1 + workers * tolerance):
            return False
    return True


def sum_of(counts: list[float]) -> float:
    """The plain sum from left to right: the built-in one rounds less since Python 3.12."""
    total = 0.0
    for count in counts:
        total += count
    return total
