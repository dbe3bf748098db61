"""Routing in plain Python, with dicts and lists: the baseline for the calls into Rust.

It has no mixer: the hash of a tuple is the interpreter's fastest hash. Each function routes a whole list.
"""

from bisect import bisect_left
from collections.abc import Callable
from math import ceil, log2

Route = Callable[[list[int], int], list[int]]


def key(keys: list[int], workers: int) -> list[int]:
    return [hash((key, 0)) % workers for key in keys]


def partial_key(keys: list[int], workers: int) -> list[int]:
    loads, chosen = [0] * workers, []
    for key in keys:
        one, two = hash((key, 0)) % workers, hash((key, 1)) % workers
        worker = one if loads[one] <= loads[two] else two
        loads[worker] += 1
        chosen.append(worker)
    return chosen


class SpaceSaving:
    """Keys in one dict per count, so that the smallest count is found at once."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.total, self.smallest = capacity, 0, 1
        self.counts: dict[int, int] = {}
        self.keys: dict[int, dict[int, None]] = {}

    def update(self, key: int) -> int:
        self.total += 1
        count = self.counts.get(key)
        if count is None and len(self.counts) < self.capacity:
            count, self.smallest = 0, 1
        else:
            if count is None:
                count = self.smallest
                gone = next(iter(self.keys[count]))
                del self.counts[gone], self.keys[count][gone]
            else:
                del self.keys[count][key]
            if not self.keys[count]:
                del self.keys[count]
                if count == self.smallest:
                    self.smallest += 1
        self.counts[key] = count + 1
        self.keys.setdefault(count + 1, {})[key] = None
        return count + 1


def w_choices(keys: list[int], workers: int) -> list[int]:
    sketch, loads, chosen = SpaceSaving(50 * workers), [0] * workers, []
    for key in keys:
        if sketch.update(key) * 5 * workers >= sketch.total:
            worker = loads.index(min(loads))
        else:
            one, two = hash((key, 0)) % workers, hash((key, 1)) % workers
            worker = one if loads[one] <= loads[two] else two
        loads[worker] += 1
        chosen.append(worker)
    return chosen


def d_choices(keys: list[int], workers: int) -> list[int]:
    """Solves d on the router's schedule."""
    sketch, loads, chosen = SpaceSaving(50 * workers), [0] * workers, []
    d, next_solve = 2, 0
    for position, key in enumerate(keys):
        if sketch.update(key) * 5 * workers >= sketch.total:
            if position >= next_solve:
                d = solve(sketch, workers)
                next_solve = position + 1 + min(10_000, position // 8)
            if d < workers:
                candidates = [hash((key, choice)) % workers for choice in range(d)]
                worker = min(candidates, key=loads.__getitem__)
            else:
                worker = loads.index(min(loads))
        else:
            one, two = hash((key, 0)) % workers, hash((key, 1)) % workers
            worker = one if loads[one] <= loads[two] else two
        loads[worker] += 1
        chosen.append(worker)
    return chosen


def solve(sketch: SpaceSaving, workers: int) -> int:
    total = sketch.total
    counts = sorted((count for count in sketch.counts.values() if count * 5 * workers >= total), reverse=True)
    whole = sum(counts) / total
    for d in range(max(2, -(-counts[0] * workers // total)), workers):
        prefix = 0.0
        for number, count in enumerate(counts, start=1):
            prefix += count / total
            reached = 1 - (1 - 1 / workers) ** (number * d)
            load = prefix + reached**d * (whole - prefix) + reached**2 * (1 - whole)
            if load > reached * (1 + workers * 1e-4):
                break
        else:
            return d
    return workers


def power_of_random(keys: list[int], workers: int) -> list[int]:
    loads, chosen = [0] * workers, []
    for position, key in enumerate(keys, start=1):
        capacity = ceil(1.01 * position / workers)
        choice = 0
        while loads[worker := hash((key, choice)) % workers] >= capacity:
            choice += 1
        loads[worker] += 1
        chosen.append(worker)
    return chosen


def fish(keys: list[int], workers: int) -> list[int]:
    """Evaluates the head on the router's schedule; a worker serves 10 of an interval's 10,000 messages."""
    ring = sorted((hash((worker, node)), worker) for worker in range(workers) for node in range(1, 101))
    points = [point for point, _ in ring]
    counts: dict[int, float] = {}
    remembered: dict[int, int] = {}
    total, chosen = 0.0, []
    top, least, next_look = 0.0, 2, 0
    backlog, sent = [0.0] * workers, [0] * workers
    for position, key in enumerate(keys):
        if position and position % 1000 == 0:
            counts = {counted: count * 0.2 for counted, count in counts.items()}
            total *= 0.2
        if position and position % 10_000 == 0:
            backlog = [max(0.0, old + new - 10) for old, new in zip(backlog, sent, strict=True)]
            sent = [0] * workers
        if key in counts or len(counts) < 1000:
            counts[key] = counts.get(key, 0.0) + 1
        else:
            gone = min(counts, key=counts.__getitem__)
            counts[key] = counts.pop(gone) + 1
            remembered.pop(gone, None)
        total += 1
        if position >= next_look:
            hot = [count for count in counts.values() if count * 4 * workers > total]
            top = max(hot, default=0.0)
            least = max(2, ceil(workers * sum(hot) / total / max(1, len(hot))))
            next_look = position + 1 + min(position // 8, 250)
        choices, count = 2, counts[key]
        if count * 4 * workers > total:
            wanted = max(workers >> int(log2(max(top, count) / count)), least, remembered.get(key, 0))
            choices = remembered[key] = min(workers, wanted)
        if choices == workers:
            candidates = list(range(workers))
        else:
            candidates, place = [], bisect_left(points, hash((key, 0)))
            while len(candidates) < choices:
                worker = ring[place % len(ring)][1]
                if worker not in candidates:
                    candidates.append(worker)
                place += 1
        worker = min(candidates, key=lambda worker: backlog[worker] + sent[worker])
        sent[worker] += 1
        chosen.append(worker)
    return chosen


LOOPS: dict[str, tuple[Route, str, int]] = {
    "key": (key, "key", 100),
    "partial_key": (partial_key, "partial_key", 100),
    "power_of_random_1000": (power_of_random, "power_of_random", 1000),
    "w_choices": (w_choices, "w_choices", 100),
    "d_choices": (d_choices, "d_choices", 100),
    "fish": (fish, "fish", 100),
}
"""Every loop, with the grouping for which it is the baseline and a number of workers."""
