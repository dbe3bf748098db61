"""The placement made from the summary of one pass over the keys, and its loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keysplit.groupings import (
    DistributionAwareKeyGrouping,
    FlexD,
    Grouping,
    KeyGrouping,
    PartialKeyGrouping,
)
from keysplit.plan import rules
from keysplit.plan.parameters import PLANS, CutToFit, Parameters, head_threshold
from keysplit.plan.rules import CandidateGrouping, Floats, Integers
from keysplit.plan.summary import Summary, weights_of

_LEAST_CAPACITY, _MOST_CAPACITY = 1e-9, 1e12
# A row below this part of the mean load counts as spread.
_HEAVY = 0.02
# A smaller total cannot be divided.
_TINY = 2.0**-900


@dataclass(frozen=True)
class Placement:
    """The workers of all keys.

    Args:
        head: Entries of the summary that are placed individually, heaviest first; int64, shape (h,).
        workers: The workers of each of these keys, ascending and distinct; int64.
        shares: The share of each key's rows per worker, above 0 and with sum 1; float64.
        tail: The worker of each bucket, for all other keys; uint32, shape (B,).
    """

    head: Integers
    workers: tuple[Integers, ...]
    shares: tuple[Floats, ...]
    tail: NDArray[np.uint32]


def place(
    summary: Summary,
    params: Parameters | Grouping,
    capacities: ArrayLike | None = None,
    candidates: Sequence[Integers] | None = None,
    *,
    current: ArrayLike | None = None,
    slack: float = 0.0,
) -> Placement:
    """Place the frequent keys, and the buckets of all other keys, on workers.

    A key is frequent if its guaranteed weight, count - error, is at least the share ``head_threshold`` of the
    total. The key is placed with that weight; its remaining weight is placed with its bucket. Loads are
    relative to the worker's capacity.

    - ``key``: buckets in the order of their numbers, in equal parts (or in proportion to the capacities).
    - ``partial_key``: every frequent key over its candidates, with the shares that minimise their largest
      load; then each bucket, heaviest first, to the candidate that is least loaded with the bucket, and
      buckets without weight in equal numbers to the workers; then the frequent keys again, around the
      buckets.
    - ``d_choices``, ``w_choices``: the same with d candidates, or all workers, for a frequent key and two for
      a bucket.
    - ``round_robin``: the same with a frequent key on all workers in equal shares (or in proportion to the
      capacities).
    - ``flexd``: buckets as ``key``; each frequent key, heaviest first, over the least loaded workers, one for
        each bar of FlexD that its share reaches.
    - ``distribution_aware``: each frequent key and bucket, heaviest first, to the then least loaded worker.
    - ``cut_to_fit``: see [`CutToFit`][keysplit.plan.CutToFit].

    Plans that split keys by shares drop shares below 1e-4, and give a key with the share f of the total at
    most 1e5 f workers, rounded up: smaller pieces do not improve the balance, and n * n of them exhaust
    memory.

    The same arguments give the same placement.

    Args:
        summary: The summary of one pass over the keys.
        params: Parameters of one of the classes in [`PLANS`][keysplit.plan.PLANS]; with ``candidates``, of
            any grouping.
        capacities: Speed of each worker relative to the others, 1e-9 to 1e12; equal if None.
        candidates: The workers of each key of the summary, ascending and distinct. Shares and buckets then
            follow ``partial_key``. If None, the grouping chooses the workers.

        current: The worker of each bucket so far, for plans that place buckets by candidates. A bucket stays
            where it is unless its worker's load exceeds that of its best candidate by more than ``slack``.
        slack: The difference, as a fraction of a fair share, at least 0.

    Returns:
        The placement.

    Raises:
        ValueError: If there are not as many capacities as workers, or a capacity is outside its range; if
            ``current`` does not give a worker of the grouping for each bucket.
        TypeError: If no plan can be made for such parameters.

    Example:
        Key 7 has half of the rows and fills two of four workers; key 2**62 fits whole.

        >>> import numpy as np
        >>> from keysplit.plan import CutToFit, Summary, place
        >>> hashes, counts, buckets = np.array([7, 2**62]), np.array([50.0, 20.0]), np.zeros(4096)
        >>> buckets[[0, 1024]] = counts
        >>> buckets[2048:] = 30 / 2048
        >>> placement = place(Summary(100.0, hashes, counts, np.zeros(2), buckets), CutToFit(workers=4))
        >>> [workers.tolist() for workers in placement.workers], placement.shares[0].tolist()
        ([[0, 3], [2]], [0.5, 0.5])
    """
    speeds = speeds_of(capacities, params.workers)
    held = None if current is None else _checked(current, slack, summary, params.workers)
    head = _head(summary, params)
    hashes, total = summary.hashes[head], summary.total
    weights, tail = weights_of(summary, head)
    if total < _TINY:  # its parts would be zero; powers of two scale exactly
        weights, tail, total = weights / _TINY, tail / _TINY, total / _TINY
    if candidates is not None:
        of_keys = [candidates[at] for at in head.tolist()]
        tails = PartialKeyGrouping(workers=params.workers, seed=params.seed)
        pieces, buckets = rules.over_given(of_keys, weights, tail, total, tails, speeds, held)
    elif isinstance(params, CutToFit):
        pieces, buckets = rules.cut_to_fit(weights, tail, speeds)
    elif isinstance(params, KeyGrouping):
        pieces, buckets = [], rules.even_parts(len(tail), speeds)
    elif isinstance(params, FlexD):
        pieces, buckets = rules.by_bars(weights, tail, total, params, speeds)
    elif isinstance(params, DistributionAwareKeyGrouping):
        pieces, buckets = rules.whole(weights, tail, speeds)
    elif isinstance(params, CandidateGrouping):
        pieces, buckets = rules.over_candidates(hashes, weights, tail, total, params, speeds, held)
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
    head_hashes: Integers,
    workers: Sequence[Integers],
    shares: Sequence[Floats],
    tail: NDArray[np.uint32],
    n: int,
    speeds: Floats | None = None,
) -> Floats:
    """The loads of a summary's rows under a placement, which may be made from a different summary.

    A frequent key of the summary that the placement does not list counts in its bucket. The loads add up to
    the weight of all rows.

    A placement cuts keys, but not rows. If the summary has the heaviest row of each key, this row counts
    whole on the key's worker where it raises the load least, and only the key's other rows are spread by its
    shares. A heaviest row below a fiftieth of the mean load is spread like the others.

    Args:
        summary: The summary of one pass over the keys.
        head_hashes: Hashes of the keys that the placement lists; int64.
        workers: The workers of each of these keys.
        shares: The shares of each of these keys, per worker.
        tail: Worker of each bucket, for all other keys.
        n: Number of workers.
        speeds: Speed of each worker relative to the others; equal if None.

    Returns:
        Load of each worker; float64, shape (n,).

    Example:
        >>> import numpy as np
        >>> from keysplit.plan import CutToFit, Summary, expected_loads, place
        >>> hashes, buckets = np.array([7]), np.full(4096, 30 / 4096)
        >>> buckets[0] += 70
        >>> summary = Summary(100.0, hashes, np.array([70.0]), np.zeros(1), buckets)
        >>> of = place(summary, CutToFit(workers=4))
        >>> expected_loads(summary, hashes[of.head], of.workers, of.shares, of.tail, 4).round(1).tolist()
        [25.0, 25.0, 25.0, 25.0]
    """
    known = {key: at for at, key in enumerate(summary.hashes.tolist())}
    here = [(at, known[key]) for at, key in enumerate(head_hashes.tolist()) if key in known]
    weights, rest = weights_of(summary, np.array([entry for _, entry in here], dtype=np.int64))
    loads = np.zeros(n)
    np.add.at(loads, tail, rest)
    for (at, _), weight in zip(here, weights.tolist(), strict=True):
        loads[workers[at]] += weight * shares[at]
    if summary.heaviest is None:
        return loads
    rates = np.ones(n) if speeds is None else speeds
    rows = np.minimum(summary.heaviest[[entry for _, entry in here]], weights)
    for entry in np.argsort(-rows, kind="stable").tolist():
        at, row = here[entry][0], rows[entry]
        own = workers[at]
        if len(own) > 1 and row >= _HEAVY * summary.total / n:
            loads[own] = np.maximum(loads[own] - row * shares[at], 0.0)
            loads[own[np.argmin((loads[own] + row) / rates[own])]] += row
    return loads


def speeds_of(capacities: ArrayLike | None, workers: int) -> Floats:
    """The speed of each worker relative to the others, checked; all 1 if None."""
    if capacities is None:
        return np.ones(workers)
    try:
        speeds = np.asarray(capacities, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"capacities must be numbers, got {capacities!r:.60}") from error
    if speeds.shape != (workers,):
        raise ValueError(f"capacities must be {workers} numbers, one per worker, got shape {speeds.shape}")
    wrong = speeds[~((speeds >= _LEAST_CAPACITY) & (speeds <= _MOST_CAPACITY))]
    if len(wrong):
        raise ValueError(f"capacities must be in {_LEAST_CAPACITY}..={_MOST_CAPACITY}, got {wrong[0]}")
    return speeds


def _checked(current: ArrayLike, slack: float, summary: Summary, workers: int) -> rules.Current:
    places = np.asarray(current)
    if places.shape != summary.buckets.shape or places.dtype.kind not in "iu":
        raise ValueError(
            f"current must be a worker below {workers} for each of {len(summary.buckets)} buckets, "
            f"got shape {places.shape} of {places.dtype}"
        )
    wrong = places[(places < 0) | (places >= workers)]
    if len(wrong):
        raise ValueError(
            f"current must be a worker below {workers} for each of {len(summary.buckets)} buckets, "
            f"got {wrong[0]}"
        )
    if not slack >= 0:
        raise ValueError(f"slack must be at least 0, got {slack}")
    return rules.Current(places.astype(np.int64), slack)


def _head(summary: Summary, params: Parameters | Grouping) -> Integers:
    if isinstance(params, KeyGrouping):
        return np.empty(0, dtype=np.int64)
    weights = summary.counts - summary.errors
    head = np.flatnonzero((weights > 0) & (weights >= head_threshold(params) * summary.total))
    return head[np.lexsort((summary.hashes[head], -weights[head]))]
