"""Routing as one writes it in plain Python, with dicts and lists: the measure of the calls into Rust.

No mixer of its own: the hash of a tuple is what the interpreter does fastest. Each routes a whole list.
"""

from collections.abc import Callable

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
    """Keys in one dict for each count, so that the smallest count is at hand."""

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
    """Solves d as seldom as the router does."""
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


LOOPS: dict[str, Route] = {
    "key": key,
    "partial_key": partial_key,
    "w_choices": w_choices,
    "d_choices": d_choices,
}
