"""The placement rules of plans: splitting frequent keys, and placing buckets of rare keys."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keysplit import _core
from keysplit.groupings import DChoices, FlexD, PartialKeyGrouping, RoundRobinHead, WChoices
from keysplit.plan.parameters import head_threshold

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
CandidateGrouping: TypeAlias = PartialKeyGrouping | RoundRobinHead | DChoices | WChoices
Pieces: TypeAlias = list[tuple[Integers, Floats]]
"""The workers of each frequent key, in ascending order, and the weight for each of them."""


class Current(NamedTuple):
    """The current places of buckets, see `keysplit.plan.place`."""

    buckets: Integers
    slack: float


_PIECES = 100_000  # of all frequent keys together, beyond one each
_SMALLEST_SHARE = 1e-4  # of a key
_ROUNDS, _SETTLED = 20, 1e-6  # the maximum; done if no load changes by this share of the total
_SLACK = 1e-4  # of the smallest capacity


def even_parts(size: int, speeds: Floats) -> Integers:
    """Assign bucket j of B to worker floor(j n / B) if workers are equal, else in proportion to speeds."""
    ends = np.cumsum(speeds)
    parts: Integers = np.searchsorted(ends, np.arange(size) / size * ends[-1], side="right")
    return parts


def by_bars(
    weights: Floats, tail: Floats, total: float, params: FlexD, speeds: Floats
) -> tuple[Pieces, Integers]:
    """Spread each frequent key over as many workers as FlexD's list would give it at a constant share."""
    buckets = even_parts(len(tail), speeds)
    loads = np.zeros(len(speeds))
    np.add.at(loads, buckets, tail)
    bars = np.log(np.maximum(weights / total / head_threshold(params), 1.0)) / math.log(params.growth)
    sizes = np.minimum(2 + np.floor(bars), _most_pieces(weights, total, len(speeds))).astype(np.int64)
    return _over_least_loaded(loads, weights, sizes, speeds), buckets


def over_candidates(
    hashes: Integers,
    weights: Floats,
    tail: Floats,
    total: float,
    params: CandidateGrouping,
    speeds: Floats,
    current: Current | None = None,
) -> tuple[Pieces, Integers]:
    """Place the frequent keys, then the buckets between them, then the frequent keys again around buckets."""

    def spread(loads: Floats) -> Pieces:
        return _spread(loads, hashes, weights, total, params, speeds)

    choices = params.choices if isinstance(params, PartialKeyGrouping) else 2
    of_bucket = _of_bucket(_candidates(params, choices), len(tail))
    return _around(spread, tail, of_bucket, total, speeds, current)


def over_given(
    candidates: Sequence[Integers],
    weights: Floats,
    tail: Floats,
    total: float,
    params: PartialKeyGrouping,
    speeds: Floats,
    current: Current | None = None,
) -> tuple[Pieces, Integers]:
    """Do the same for given workers of each frequent key; `params` gives the candidates of the buckets."""

    def spread(loads: Floats) -> Pieces:
        return _settle(loads, weights, candidates, total, speeds) if len(weights) else []

    of_bucket = _of_bucket(_candidates(params, params.choices), len(tail))
    return _around(spread, tail, of_bucket, total, speeds, current)


def _around(
    spread: Callable[[Floats], Pieces],
    tail: Floats,
    of_bucket: Callable[[int], list[int]],
    total: float,
    speeds: Floats,
    current: Current | None,
) -> tuple[Pieces, Integers]:
    """Place the frequent keys by `spread`, then the buckets between them, then the frequent keys again."""
    loads = np.zeros(len(speeds))
    spread(loads)
    placed = [0] * len(tail)
    places = None if current is None else current.buckets.tolist()
    slack = 0.0 if current is None else current.slack / float(speeds.sum())
    seen, missed = slack * total, slack * float(np.count_nonzero(tail == 0.0))
    # There are up to 2**17 buckets of two candidates: Python's own floats are faster than arrays of two.
    levels, rates, weights_of = loads.tolist(), speeds.tolist(), tail.tolist()
    # A sample misses some buckets, which may have rows: the workers get equal numbers of them.
    unseen = [0.0] * len(speeds)
    for bucket in _heaviest_first(tail).tolist():
        weight = weights_of[bucket]
        beside, weight, allowed = (levels, weight, seen) if weight else (unseen, 1.0, missed)
        at, *others = of_bucket(bucket)
        lowest = (beside[at] + weight) / rates[at]
        for other in others:
            level = (beside[other] + weight) / rates[other]
            if level < lowest:
                at, lowest = other, level
        if places is not None:
            old = places[bucket]
            if (beside[old] + weight) / rates[old] <= lowest + allowed:
                at = old
        placed[bucket] = at
        beside[at] += weight
    loads, buckets = np.zeros(len(speeds)), np.array(placed, dtype=np.int64)
    np.add.at(loads, buckets, tail)
    return spread(loads), buckets


def whole(weights: Floats, tail: Floats, speeds: Floats) -> tuple[Pieces, Integers]:
    """Place frequent keys and buckets, heaviest first, each on the worker that is then least loaded."""
    loads = np.zeros(len(speeds))
    places = np.concatenate([np.zeros(len(weights), dtype=np.int64), even_parts(len(tail), speeds)])
    everything = np.concatenate([weights, tail])
    for item in _heaviest_first(everything).tolist():
        if everything[item] == 0:
            break  # nothing is known about the remaining buckets
        places[item] = at = _lightest(loads, everything[item], speeds)
        loads[at] += everything[item]
    pieces = [(places[key : key + 1], weights[key : key + 1]) for key in range(len(weights))]
    return pieces, places[len(weights) :]


def cut_to_fit(weights: Floats, tail: Floats, speeds: Floats) -> tuple[Pieces, Integers]:
    """Place keys, then buckets, as [`CutToFit`][keysplit.plan.CutToFit] defines."""
    capacities = (weights.sum() + tail.sum()) * speeds / speeds.sum()
    slack = _SLACK * capacities.min()
    # Free capacity per worker, ascending; among equals the lowest number is last.
    free = sorted((capacity, -worker) for worker, capacity in enumerate(capacities.tolist()))
    pieces = []
    for weight in weights.tolist():
        left, parts = weight, {}
        while left > 0:
            fits = bisect_left(free, left - slack, key=_first)
            if fits < len(free) or len(free) == 1:
                room, worker = free.pop(min(fits, len(free) - 1))
                parts[-worker] = left
                if room > left or not free:
                    insort(free, (room - left, worker))
                left = 0.0
            else:
                room, worker = free.pop()
                parts[-worker] = room
                left -= room
        workers = np.array(sorted(parts), dtype=np.int64)
        pieces.append((workers, np.array([parts[worker] for worker in workers.tolist()])))

    most_free = [(-room, -worker) for room, worker in free]
    heapify(most_free)
    buckets = even_parts(len(tail), speeds)
    for bucket in _heaviest_first(tail).tolist():
        if tail[bucket] == 0:
            break  # nothing is known about the remaining buckets
        room, worker = most_free[0]
        buckets[bucket] = worker
        heapreplace(most_free, (room + float(tail[bucket]), worker))
    return pieces, buckets


def _heaviest_first(weights: Floats) -> Integers:
    return np.argsort(-weights, kind="stable")


def _lightest(loads: Floats, weight: float, speeds: Floats) -> int:
    """Return the worker that is least loaded with this weight; the first among equals."""
    return int(np.argmin((loads + weight) / speeds))


def _fill(loads: Floats, weight: float, speeds: Floats) -> Floats:
    """Return by water-filling the parts of a weight that raise the least loaded workers to one level."""
    order = np.argsort(loads / speeds, kind="stable")
    # The level if only the first k workers get a part; the right k has the lowest.
    level = ((weight + np.cumsum(loads[order])) / np.cumsum(speeds[order])).min()
    amounts: Floats = np.maximum(level * speeds - loads, 0.0)
    if not amounts.any():  # too light to change the loads
        amounts[order[0]] = weight
    # a tenth of an equal part is always kept
    amounts[amounts < weight * min(_SMALLEST_SHARE, 0.1 / len(amounts))] = 0.0
    amounts *= weight / amounts.sum()
    return amounts


_FEW = 7
"""The most numbers that NumPy adds in sequence, like Python's loop; of more it adds pairs."""


def _fill_few(loads: list[float], weight: float, speeds: list[float]) -> list[float]:
    """Return the same as `_fill`, to the bit, for at most `_FEW` workers."""
    order = sorted([(load / speed, at) for at, (load, speed) in enumerate(zip(loads, speeds))])  # noqa: B905
    below, speed, level = 0.0, 0.0, math.inf
    for _, at in order:
        below += loads[at]
        speed += speeds[at]
        reached = (weight + below) / speed
        if reached < level:
            level = reached
    least, total, amounts = weight * _SMALLEST_SHARE, 0.0, []  # the minimum is a tenth of an equal part
    for load, speed in zip(loads, speeds):  # noqa: B905
        amount = level * speed - load
        amounts.append(amount if amount >= least else 0.0)
        total += amounts[-1]
    if total == 0.0:  # too light to change the loads
        amounts[order[0][1]] = weight
        total = weight
    scale = weight / total
    return [amount * scale for amount in amounts]


def _most_pieces(weights: Floats, total: float, workers: int) -> Integers:
    return np.clip(np.ceil(weights / total * _PIECES), 1, workers).astype(np.int64)


def _piece(workers: Integers, amounts: Floats) -> tuple[Integers, Floats]:
    return workers[amounts > 0], amounts[amounts > 0]


def _over_least_loaded(loads: Floats, weights: Floats, sizes: Integers, speeds: Floats) -> Pieces:
    """Spread each key over as many least loaded workers as its size says, the lowest among equals."""
    levels = list(zip((loads / speeds).tolist(), range(len(speeds)), strict=True))
    heapify(levels)
    pieces = []
    for weight, size in zip(weights.tolist(), sizes.tolist(), strict=True):
        workers = np.array(sorted(heappop(levels)[1] for _ in range(size)))
        amounts = _fill(loads[workers], weight, speeds[workers])
        loads[workers] += amounts
        for level, worker in zip((loads[workers] / speeds[workers]).tolist(), workers.tolist(), strict=True):
            heappush(levels, (level, worker))
        pieces.append(_piece(workers, amounts))
    return pieces


def _candidates(params: CandidateGrouping, choices: int) -> PartialKeyGrouping:
    return PartialKeyGrouping(
        workers=params.workers, seed=params.seed, choices=choices, distinct=params.distinct
    )


def _of_bucket(params: PartialKeyGrouping, buckets: int) -> Callable[[int], list[int]]:
    """Return a function that gives the candidates of a bucket."""
    if params.choices == 2:
        return _of_buckets(params, buckets).__getitem__
    router = params.router()
    return lambda bucket: router.candidates(bucket).tolist()


@lru_cache(maxsize=2)
def _of_buckets(params: PartialKeyGrouping, buckets: int) -> list[list[int]]:
    """Return the two candidates of each bucket; cached, because plans of a stream use the same candidates."""
    router = params.router()
    return [router.candidates(bucket).tolist() for bucket in range(buckets)]


def _spread(
    loads: Floats,
    hashes: Integers,
    weights: Floats,
    total: float,
    params: CandidateGrouping,
    speeds: Floats,
) -> Pieces:
    """Spread each frequent key over its candidates, and add it to ``loads``."""
    n = params.workers
    if not len(weights):
        return []
    sizes = _most_pieces(weights, total, n)
    if isinstance(params, RoundRobinHead):
        return _in_turn(loads, weights, sizes, speeds)
    if isinstance(params, PartialKeyGrouping):
        choices = params.choices
    elif isinstance(params, DChoices):
        # summed in another order, fractional weights may slightly exceed the total
        choices = _core.solve_choices(weights, max(total, float(np.cumsum(weights)[-1])), n, params.tolerance)
    if isinstance(params, WChoices) or (isinstance(params, DChoices) and choices >= n):
        return _over_least_loaded(loads, weights, sizes, speeds)
    router = _candidates(params, choices).router()
    of_keys = [
        np.unique(router.candidates(key)[:size]).astype(np.int64)
        for key, size in zip(hashes.tolist(), sizes.tolist(), strict=True)
    ]
    return _settle(loads, weights, of_keys, total, speeds)


def _in_turn(loads: Floats, weights: Floats, sizes: Integers, speeds: Floats) -> Pieces:
    """Spread each key over the next workers in turn, as many as its size, in proportion to speeds."""
    pieces, turn = [], 0
    for weight, size in zip(weights.tolist(), sizes.tolist(), strict=True):
        workers = np.sort(np.arange(turn, turn + size) % len(speeds))
        amounts = weight * speeds[workers] / speeds[workers].sum()
        loads[workers] += amounts
        pieces.append((workers, amounts))
        turn += size
    return pieces


def _settle(
    loads: Floats, weights: Floats, candidates: Sequence[Integers], total: float, speeds: Floats
) -> Pieces:
    """Spread each key over its candidates, one key after another, repeatedly until the loads converge."""
    levels, rates = loads.tolist(), speeds.tolist()
    of_keys = [
        (workers, weight, [rates[at] for at in workers])
        for workers, weight in zip(map(np.ndarray.tolist, candidates), weights.tolist(), strict=True)
    ]
    amounts = [[0.0] * len(workers) for workers in candidates]
    for _ in range(_ROUNDS):
        change = 0.0
        for key, (workers, weight, own) in enumerate(of_keys):
            before = amounts[key]
            others = [levels[at] - amount for at, amount in zip(workers, before)]  # noqa: B905
            if len(workers) <= _FEW:
                filled = _fill_few(others, weight, own)
            else:
                filled = _fill(np.array(others), weight, np.array(own)).tolist()
            amounts[key] = filled
            for at, other, new, old in zip(workers, others, filled, before):  # noqa: B905
                levels[at] = other + new
                if abs(new - old) > change:
                    change = abs(new - old)
        if change < _SETTLED * total:
            break
    loads[:] = levels
    return [_piece(workers, np.array(of)) for workers, of in zip(candidates, amounts, strict=True)]


def _first(pair: tuple[float, int]) -> float:
    return pair[0]
