"""Plans: where every key goes, decided once from what one pass over the keys has found out.

A plan places the frequent keys one by one, a key's rows split by shares over its workers, and all other keys
by buckets of their hashes, each bucket whole. A row's worker is then a pure function of the hash of its key,
a hash of the row and the plan. This module decides; it knows numbers and arrays only.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, fields
from heapq import heapify, heappop, heappush, heapreplace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keysplit import _core
from keysplit.groupings import (
    DChoices,
    DistributionAwareKeyGrouping,
    FlexD,
    Grouping,
    KeyGrouping,
    PartialKeyGrouping,
    RoundRobinHead,
    WChoices,
)

__all__ = [
    "MOST_COUNTERS",
    "PLANS",
    "CutToFit",
    "Placement",
    "Summary",
    "alias_cells",
    "bucket_bits",
    "bucket_of",
    "expected_loads",
    "head_threshold",
    "place",
    "sketch_capacity",
    "speeds_of",
]

_Integers: TypeAlias = NDArray[np.int64]
_Floats: TypeAlias = NDArray[np.float64]

MOST_COUNTERS = 2**20  # of a sketch in a task
_LEAST_CAPACITY, _MOST_CAPACITY = 1e-9, 1e12

_PIECES = 100_000  # of all frequent keys together, beside one for each
_SMALLEST_SHARE = 1e-4  # of a key
_ROUNDS, _SETTLED = 20, 1e-6  # at most so many; enough where no load changes by this share of the total
_SLACK = 1e-4  # of the smallest capacity


@dataclass(frozen=True, kw_only=True)
class CutToFit:
    """Cut to fit: frequent keys fill workers to the brim and are cut only there; rare ones fill the gaps.

    It needs the frequencies before the first row goes anywhere, so it is a plan and no online grouping. Its
    capacity c_w is the weight that worker w should get: its part of the total, equal parts if the workers
    are equal.

    1. Frequent keys, heaviest first. A key that fits whole into what some worker has free goes to that
       worker, the one with the least free of those. Else it fills the worker with the most free to the brim,
       is cut there, and its rest goes on in the same way. It fits, too, if it passes c_w by a slack of at
       most 1e-4 of the smallest capacity, so that no sliver is cut off; and on the last worker that has
       anything free nothing is cut.
    2. Buckets of rare keys, heaviest first, each whole to the worker with the most free.

    Guarantees: (a) Every rare key is on one worker, and the frequent keys have at most n - 1 copies more than
    one each, all together. (b) No worker gets more than c_w + max(b, slack), where b is the weight of the
    heaviest bucket of rare keys: for equal workers (largest - mean) / total is at most the larger of
    b / total and 1e-4 / n. Both speak of the weights that the plan is made from.

    Proof: (a) Only cuts make copies. A cut fills its worker for good, and on the last worker that has
    anything free there is none: at most n - 1 cuts. (b) What is free, together, is never less than what is
    yet to be placed: both start as the total, and a weight that is placed takes at most itself from what is
    free. So on the last worker that has anything free all that is left fits, and no load passes c_w + slack
    in step 1: a cut ends at c_w, and what goes whole fits. In step 2, as long as a bucket that weighs
    anything waits, some worker has something free. The one with the most has, then: its load is below c_w
    before the bucket and below c_w + b after it. (Rounding adds about 1e-16 of the total for each key.)

    Args:
        workers: Number of workers n, 1 to 65,536.
        seed: Seed of the keys' hashes, 0 to 2**64 - 1.
        threshold: Share of the total from which a key is frequent, 2**-27 to 1; 1/(20n) if None.

    Raises:
        ValueError: If a parameter is outside its range; the message names it, its value and the range.
        TypeError: If a parameter is of the wrong type.

    Source: ours. Filling one worker after the other and cutting at the brim is McNaughton's wrap-around rule
    (Scheduling with Deadlines and Loss Functions, Management Science 6(1), 1959), whose n - 1 cuts are the
    fewest that any rule can promise; heaviest first to the emptiest is LPT (Graham, Bounds on Multiprocessing
    Timing Anomalies, SIAM Journal on Applied Mathematics 17(2), 1969).

    Example:
        >>> from keysplit.planning import CutToFit
        >>> CutToFit(workers=10)
        CutToFit(workers=10, seed=0, threshold=None)
    """

    name: ClassVar[str] = "cut_to_fit"

    workers: int
    seed: int = 0
    threshold: float | None = None

    def __post_init__(self) -> None:
        """Check every parameter, and make NumPy's numbers Python's: as a grouping that has the same ones."""
        checked = DistributionAwareKeyGrouping(workers=self.workers, seed=self.seed, threshold=self.threshold)
        for field in fields(self):
            object.__setattr__(self, field.name, getattr(checked, field.name))


_Parameters: TypeAlias = Grouping | CutToFit

PLANS: dict[str, type[Grouping] | type[CutToFit]] = {
    each.name: each
    for each in (
        KeyGrouping,
        PartialKeyGrouping,
        DChoices,
        WChoices,
        RoundRobinHead,
        FlexD,
        DistributionAwareKeyGrouping,
        CutToFit,
    )
}
"""Every class of parameters that a plan can be made for, by its name."""


@dataclass(frozen=True)
class Summary:
    """What one pass over the keys has found out.

    Args:
        total: Weight of all rows.
        hashes: Hashes of frequent keys by descending count, equal counts by hash; int64, shape (H,).
        counts: The most that each of them weighs; float64, shape (H,).
        errors: By how much ``counts`` may be too large; float64, shape (H,).
        buckets: Exact weight of all rows of each bucket, those of frequent keys included; float64, shape (B,)
            with B a power of two.
    """

    total: float
    hashes: _Integers
    counts: _Floats
    errors: _Floats
    buckets: _Floats


@dataclass(frozen=True)
class Placement:
    """Where everything goes.

    Args:
        head: Which entries of the summary are placed by themselves, heaviest first; int64, shape (h,).
        workers: For each of them its workers, in ascending order, all different; int64.
        shares: For each of them the part of its rows that each of its workers gets, above 0, in sum 1;
            float64.
        tail: Worker of each bucket, for all other keys; uint32, shape (B,).
    """

    head: _Integers
    workers: tuple[_Integers, ...]
    shares: tuple[_Floats, ...]
    tail: NDArray[np.uint32]


def head_threshold(params: _Parameters) -> float:
    """The share of the total from which a key is placed by itself.

    Args:
        params: Parameters of one of the classes in [`PLANS`][keysplit.planning.PLANS].

    Returns:
        Their threshold; the default is 1/(20n) for cut_to_fit and 1/(5n) for the others. 1 for ``key``, which
        places no key by itself.

    Example:
        >>> import keysplit as ks
        >>> from keysplit.planning import head_threshold
        >>> head_threshold(ks.DChoices(workers=50))
        0.004
    """
    if isinstance(params, KeyGrouping):
        return 1.0
    threshold: float | None = getattr(params, "threshold", None)
    if threshold is not None:
        return threshold
    return 1 / ((20 if isinstance(params, CutToFit) else 5) * params.workers)


def sketch_capacity(params: _Parameters) -> int:
    """The number of counters with which a sketch finds the keys that are placed by themselves.

    Args:
        params: Parameters of one of the classes in [`PLANS`][keysplit.planning.PLANS].

    Returns:
        Their ``sketch_capacity``; the larger of 1000 and 10/threshold where it is None, with which a count is
        wrong by at most a tenth of the threshold. At most 2**20.

    Example:
        >>> import keysplit as ks
        >>> from keysplit.planning import sketch_capacity
        >>> sketch_capacity(ks.DChoices(workers=50))
        2500
    """
    capacity: int | None = getattr(params, "sketch_capacity", None)
    if capacity is None:
        capacity = max(1000, math.ceil(10 / head_threshold(params)))
    return min(capacity, MOST_COUNTERS)


def bucket_bits(workers: int) -> int:
    """The number b of bits of a key's hash that name its bucket; there are 2**b buckets.

    Args:
        workers: Number of workers, 1 to 65,536.

    Returns:
        The b with which there are 64 buckets a worker or more, from 12 to 17.

    Example:
        >>> from keysplit.planning import bucket_bits
        >>> [bucket_bits(n) for n in (1, 64, 65, 65_536)]
        [12, 12, 13, 17]
    """
    return min(17, max(12, (64 * workers - 1).bit_length()))


def bucket_of(hashes: _Integers, bits: int) -> _Integers:
    """The bucket of each hash: its first bits.

    Args:
        hashes: Hashes of keys; int64, taken as unsigned.
        bits: Number of bits, 1 to 63.

    Returns:
        Numbers of buckets, 0 to 2**bits - 1; int64.

    Example:
        >>> import numpy as np
        >>> from keysplit.planning import bucket_of
        >>> bucket_of(np.array([0, 2**62, -1]), 12)
        array([   0, 1024, 4095])
    """
    return (hashes.view(np.uint64) >> np.uint64(64 - bits)).astype(np.int64)


def place(summary: Summary, params: _Parameters, capacities: ArrayLike | None = None) -> Placement:
    """Place the frequent keys and the buckets of all others on workers.

    A key is frequent if the least that it may weigh, count - error, has the share ``head_threshold`` of the
    total. It is placed with that weight; what else is in its bucket is placed with the bucket. A load is
    meant relative to the worker's capacity.

    - ``key``: buckets in the order of their numbers, in equal parts (parts as the capacities).
    - ``partial_key``: every frequent key over its candidates, in the shares that keep their largest load
      least; then each bucket, heaviest first, to the one of its candidates that is least loaded with it; then
      the frequent keys anew, around the buckets.
    - ``d_choices``, ``w_choices``: the same with d candidates, or all workers, for a frequent key and two for
      a bucket.
    - ``round_robin``: the same with a frequent key on all workers in equal shares (shares as the capacities).
    - ``flexd``: buckets as ``key``; each frequent key, heaviest first, over as many least loaded workers as
      its share reaches bars of FlexD.
    - ``distribution_aware``: each frequent key and bucket, heaviest first, to the worker that is least loaded
      with it.
    - ``cut_to_fit``: see [`CutToFit`][keysplit.planning.CutToFit].

    The plans that share a key out leave out shares below 1e-4, and give a key with the share f of the total
    at most 1e5 f workers, rounded up: smaller pieces balance nothing, and n * n of them fill the memory.

    The same arguments give the same placement.

    Args:
        summary: What one pass over the keys has found out.
        params: Parameters of one of the classes in [`PLANS`][keysplit.planning.PLANS].
        capacities: Speed of each worker relative to the others, 1e-9 to 1e12; equal if None.

    Returns:
        Where everything goes.

    Raises:
        ValueError: If there are not as many capacities as workers, or one is outside its range.
        TypeError: If no plan can be made for such parameters.

    Example:
        Key 7 has half of the rows and fills two of four workers; key 2**62 fits whole.

        >>> import numpy as np
        >>> from keysplit.planning import CutToFit, Summary, place
        >>> hashes, counts, buckets = np.array([7, 2**62]), np.array([50.0, 20.0]), np.zeros(4096)
        >>> buckets[[0, 1024]] = counts
        >>> buckets[2048:] = 30 / 2048
        >>> placement = place(Summary(100.0, hashes, counts, np.zeros(2), buckets), CutToFit(workers=4))
        >>> [workers.tolist() for workers in placement.workers], placement.shares[0].tolist()
        ([[0, 3], [2]], [0.5, 0.5])
    """
    speeds = speeds_of(capacities, params.workers)
    head = _head(summary, params)
    weights, tail = _weights(summary, head)
    if isinstance(params, CutToFit):
        pieces, buckets = _cut_to_fit(weights, tail, speeds)
    elif isinstance(params, KeyGrouping):
        pieces, buckets = [], _even_parts(len(tail), speeds)
    elif isinstance(params, FlexD):
        pieces, buckets = _by_bars(weights, tail, summary.total, params, speeds)
    elif isinstance(params, DistributionAwareKeyGrouping):
        pieces, buckets = _whole(weights, tail, speeds)
    elif isinstance(params, _CandidateGrouping):
        pieces, buckets = _over_candidates(summary.hashes[head], weights, tail, summary.total, params, speeds)
    else:
        known = ", ".join(kind.__name__ for kind in PLANS.values())
        raise TypeError(f"params must be one of {known}, got {type(params).__name__}")
    return Placement(
        head=head,
        workers=tuple(workers for workers, _ in pieces),
        shares=tuple(amounts / amounts.sum() for _, amounts in pieces),
        tail=buckets.astype(np.uint32),
    )


def expected_loads(
    summary: Summary,
    head_hashes: _Integers,
    workers: Sequence[_Integers],
    shares: Sequence[_Floats],
    tail: NDArray[np.uint32],
    n: int,
) -> _Floats:
    """The loads that a placement gives the rows of a summary, the one it was made from or another.

    A frequent key of the summary that the placement does not know lies in its bucket. Nothing is lost: the
    loads add up to the weight of all rows.

    Args:
        summary: What one pass over the keys has found out.
        head_hashes: Hashes of the keys that the placement places by themselves; int64.
        workers: For each of them its workers.
        shares: For each of them the part that each of its workers gets.
        tail: Worker of each bucket, for all other keys.
        n: Number of workers.

    Returns:
        Load of each worker; float64, shape (n,).

    Example:
        >>> import numpy as np
        >>> from keysplit.planning import CutToFit, Summary, expected_loads, place
        >>> hashes, buckets = np.array([7]), np.full(4096, 30 / 4096)
        >>> buckets[0] += 70
        >>> summary = Summary(100.0, hashes, np.array([70.0]), np.zeros(1), buckets)
        >>> of = place(summary, CutToFit(workers=4))
        >>> expected_loads(summary, hashes[of.head], of.workers, of.shares, of.tail, 4).round(1).tolist()
        [25.0, 25.0, 25.0, 25.0]
    """
    known = {key: at for at, key in enumerate(summary.hashes.tolist())}
    here = [(at, known[key]) for at, key in enumerate(head_hashes.tolist()) if key in known]
    weights, rest = _weights(summary, np.array([entry for _, entry in here], dtype=np.int64))
    loads = np.zeros(n)
    np.add.at(loads, tail, rest)
    for (at, _), weight in zip(here, weights.tolist(), strict=True):
        loads[workers[at]] += weight * shares[at]
    return loads


def alias_cells(
    workers: _Integers, shares: _Floats
) -> tuple[_Integers, NDArray[np.uint32], NDArray[np.uint32]]:
    """A table with which one look-up finds a key's worker for a row, with the chances that the shares say.

    Draw one of the cells, all equally likely, and a number below 2**32: the cell's first worker if the number
    is below its cut, else its second.

    Guarantees: the chance of every worker is its share within 2**-32. There are as many cells as workers.

    Args:
        workers: Workers of one key, all different; int64.
        shares: The part of its rows that each of them gets, in sum 1; float64.

    Returns:
        Cuts, 0 to 2**32, int64; first workers and second workers, uint32.

    Source: Walker, An Efficient Method for Generating Discrete Random Variables with General Distributions
    (ACM Transactions on Mathematical Software 3(3), 1977).

    Deviations: whole numbers, so that the table is the same on every machine.

    Example:
        >>> import numpy as np
        >>> from keysplit.planning import alias_cells
        >>> cuts, first, second = alias_cells(np.array([3, 8]), np.array([0.25, 0.75]))
        >>> (cuts / 2**32).tolist(), first.tolist(), second.tolist()
        ([0.5, 1.0], [3, 8], [8, 8])
    """
    full, size = 2**32, len(workers)
    parts = (shares / shares.sum() * (size * full)).astype(np.int64)
    parts[np.argmax(parts)] += size * full - parts.sum()
    left = parts.tolist()
    second = list(range(size))
    lacking = [cell for cell in range(size) if left[cell] < full]
    giving = [cell for cell in range(size) if left[cell] > full]
    # A cell that lacks something is filled up by one that has too much, and is done with.
    while lacking:
        cell, giver = lacking.pop(), giving[-1]
        second[cell] = giver
        left[giver] -= full - left[cell]
        if left[giver] <= full:
            giving.pop()
        if left[giver] < full:
            lacking.append(giver)
    numbers = workers.astype(np.uint32)
    return np.array(left, dtype=np.int64), numbers, numbers[second]


_CandidateGrouping: TypeAlias = PartialKeyGrouping | RoundRobinHead | DChoices | WChoices
_Pieces: TypeAlias = list[tuple[_Integers, _Floats]]
"""For each frequent key its workers, in ascending order, and the weight that each of them gets."""


def speeds_of(capacities: ArrayLike | None, workers: int) -> _Floats:
    """The speed of each worker relative to the others, checked; all 1 if None."""
    if capacities is None:
        return np.ones(workers)
    try:
        speeds = np.asarray(capacities, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"capacities must be numbers, got {capacities!r:.60}") from error
    if speeds.shape != (workers,):
        raise ValueError(f"capacities must be {workers} numbers, one a worker, got shape {speeds.shape}")
    wrong = speeds[~((speeds >= _LEAST_CAPACITY) & (speeds <= _MOST_CAPACITY))]
    if len(wrong):
        raise ValueError(f"capacities must be in {_LEAST_CAPACITY}..={_MOST_CAPACITY}, got {wrong[0]}")
    return speeds


def _head(summary: Summary, params: _Parameters) -> _Integers:
    if isinstance(params, KeyGrouping):
        return np.empty(0, dtype=np.int64)
    weights = summary.counts - summary.errors
    head = np.flatnonzero((weights > 0) & (weights >= head_threshold(params) * summary.total))
    return head[np.lexsort((summary.hashes[head], -weights[head]))]


def _weights(summary: Summary, head: _Integers) -> tuple[_Floats, _Floats]:
    """What is known to be the weight of each head key, and what else is in each bucket."""
    weights = summary.counts[head] - summary.errors[head]
    size = len(summary.buckets)
    buckets = bucket_of(summary.hashes[head], size.bit_length() - 1)
    return weights, np.maximum(summary.buckets - np.bincount(buckets, weights, minlength=size), 0.0)


def _heaviest_first(weights: _Floats) -> _Integers:
    return np.argsort(-weights, kind="stable")


def _even_parts(size: int, speeds: _Floats) -> _Integers:
    """Bucket j of B to worker floor(j n / B), were all workers equal: in parts as large as the speeds."""
    ends = np.cumsum(speeds)
    parts: _Integers = np.searchsorted(ends, np.arange(size) / size * ends[-1], side="right")
    return parts


def _lightest(loads: _Floats, weight: float, speeds: _Floats) -> int:
    """The worker that is least loaded with this weight; the first among equals."""
    return int(np.argmin((loads + weight) / speeds))


def _fill(loads: _Floats, weight: float, speeds: _Floats) -> _Floats:
    """What each worker gets when a weight is poured over them, so that the lowest rise to a common level."""
    order = np.argsort(loads / speeds, kind="stable")
    # The level if only the first so many workers get something; it is the least with those that should.
    level = ((weight + np.cumsum(loads[order])) / np.cumsum(speeds[order])).min()
    amounts: _Floats = np.maximum(level * speeds - loads, 0.0)
    if not amounts.any():  # too light to be seen beside the loads
        amounts[order[0]] = weight
    # a tenth of an equal part is always kept, however many there are
    amounts[amounts < weight * min(_SMALLEST_SHARE, 0.1 / len(amounts))] = 0.0
    amounts *= weight / amounts.sum()
    return amounts


def _most_pieces(weights: _Floats, total: float, workers: int) -> _Integers:
    return np.clip(np.ceil(weights / total * _PIECES), 1, workers).astype(np.int64)


def _piece(workers: _Integers, amounts: _Floats) -> tuple[_Integers, _Floats]:
    return workers[amounts > 0], amounts[amounts > 0]


def _over_least_loaded(loads: _Floats, weights: _Floats, sizes: _Integers, speeds: _Floats) -> _Pieces:
    """Each key over as many least loaded workers as its size says, the lowest numbers among equals."""
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


def _by_bars(
    weights: _Floats, tail: _Floats, total: float, params: FlexD, speeds: _Floats
) -> tuple[_Pieces, _Integers]:
    """Each frequent key over as many workers as FlexD's list has in the end if the key keeps its share."""
    buckets = _even_parts(len(tail), speeds)
    loads = np.zeros(len(speeds))
    np.add.at(loads, buckets, tail)
    bars = np.log(np.maximum(weights / total / head_threshold(params), 1.0)) / math.log(params.growth)
    sizes = np.minimum(2 + np.floor(bars), _most_pieces(weights, total, len(speeds))).astype(np.int64)
    return _over_least_loaded(loads, weights, sizes, speeds), buckets


def _candidates(params: _CandidateGrouping, choices: int) -> _core.Router:
    return PartialKeyGrouping(
        workers=params.workers, seed=params.seed, choices=choices, distinct=params.distinct
    ).router()


def _over_candidates(
    hashes: _Integers,
    weights: _Floats,
    tail: _Floats,
    total: float,
    params: _CandidateGrouping,
    speeds: _Floats,
) -> tuple[_Pieces, _Integers]:
    """The frequent keys, then the buckets between them, then the frequent keys anew around the buckets."""
    loads = np.zeros(params.workers)
    _spread(loads, hashes, weights, total, params, speeds)
    router = _candidates(params, params.choices if isinstance(params, PartialKeyGrouping) else 2)
    buckets = np.empty(len(tail), dtype=np.int64)
    for bucket in _heaviest_first(tail).tolist():
        candidates = router.candidates(bucket)
        at = candidates[_lightest(loads[candidates], tail[bucket], speeds[candidates])]
        buckets[bucket] = at
        loads[at] += tail[bucket]
    loads = np.zeros(params.workers)
    np.add.at(loads, buckets, tail)
    return _spread(loads, hashes, weights, total, params, speeds), buckets


def _spread(
    loads: _Floats,
    hashes: _Integers,
    weights: _Floats,
    total: float,
    params: _CandidateGrouping,
    speeds: _Floats,
) -> _Pieces:
    """Each frequent key over its candidates; ``loads`` grow with it."""
    n = params.workers
    if not len(weights):
        return []
    sizes = _most_pieces(weights, total, n)
    if isinstance(params, RoundRobinHead):
        return _in_turn(loads, weights, sizes, speeds)
    if isinstance(params, PartialKeyGrouping):
        choices = params.choices
    elif isinstance(params, DChoices):
        choices = _core.solve_choices(weights, total, n, params.tolerance)
    if isinstance(params, WChoices) or (isinstance(params, DChoices) and choices >= n):
        return _over_least_loaded(loads, weights, sizes, speeds)
    router = _candidates(params, choices)
    of_keys = [
        np.unique(router.candidates(key)[:size]).astype(np.int64)
        for key, size in zip(hashes.tolist(), sizes.tolist(), strict=True)
    ]
    return _settle(loads, weights, of_keys, total, speeds)


def _in_turn(loads: _Floats, weights: _Floats, sizes: _Integers, speeds: _Floats) -> _Pieces:
    """Each key over the next workers in turn, so many as its size says, each as its speed."""
    pieces, turn = [], 0
    for weight, size in zip(weights.tolist(), sizes.tolist(), strict=True):
        workers = np.sort(np.arange(turn, turn + size) % len(speeds))
        amounts = weight * speeds[workers] / speeds[workers].sum()
        loads[workers] += amounts
        pieces.append((workers, amounts))
        turn += size
    return pieces


def _settle(
    loads: _Floats, weights: _Floats, candidates: Sequence[_Integers], total: float, speeds: _Floats
) -> _Pieces:
    """Each key over its candidates, and again with the others in place, until nothing changes any more."""
    amounts = [np.zeros(len(workers)) for workers in candidates]
    for _ in range(_ROUNDS):
        change = 0.0
        for key, workers in enumerate(candidates):
            others = loads[workers] - amounts[key]
            filled = _fill(others, float(weights[key]), speeds[workers])
            change = max(change, float(np.abs(filled - amounts[key]).max()))
            loads[workers] = others + filled
            amounts[key] = filled
        if change < _SETTLED * total:
            break
    return [_piece(*of) for of in zip(candidates, amounts, strict=True)]


def _whole(weights: _Floats, tail: _Floats, speeds: _Floats) -> tuple[_Pieces, _Integers]:
    """Frequent keys and buckets, heaviest first, each to the worker that is least loaded with it."""
    loads = np.zeros(len(speeds))
    places = np.concatenate([np.zeros(len(weights), dtype=np.int64), _even_parts(len(tail), speeds)])
    everything = np.concatenate([weights, tail])
    for item in _heaviest_first(everything).tolist():
        if everything[item] == 0:
            break  # nothing is known of the buckets that are left
        places[item] = at = _lightest(loads, everything[item], speeds)
        loads[at] += everything[item]
    pieces = [(places[key : key + 1], weights[key : key + 1]) for key in range(len(weights))]
    return pieces, places[len(weights) :]


def _cut_to_fit(weights: _Floats, tail: _Floats, speeds: _Floats) -> tuple[_Pieces, _Integers]:
    capacities = (weights.sum() + tail.sum()) * speeds / speeds.sum()
    slack = _SLACK * capacities.min()
    # What each worker has free, the most last, the lowest number last among equals.
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
    buckets = _even_parts(len(tail), speeds)
    for bucket in _heaviest_first(tail).tolist():
        if tail[bucket] == 0:
            break  # nothing is known of the buckets that are left
        room, worker = most_free[0]
        buckets[bucket] = worker
        heapreplace(most_free, (room + float(tail[bucket]), worker))
    return pieces, buckets


def _first(pair: tuple[float, int]) -> float:
    return pair[0]
