"""Plans: nothing is lost, every grouping's rule holds, and cut_to_fit keeps what its docstring proves."""

import math
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import keysplit as ks
from keysplit import plan as planning
from keysplit.plan import CutToFit, Placement, Summary, bucket_of, expected_loads, place, rules
from reference.solver import solve_choices

Capacities = list[float] | None


def summary_of(keys: dict[int, float], held: int | None = None, error: float = 0.0, bits: int = 6) -> Summary:
    """What a sketch of the heaviest keys, so many as are held, says of keys by their hashes.

    It counts too much, and is less sure of every other key.
    """
    hashes, weights = np.array([*keys], dtype=np.int64), np.array([*keys.values()], dtype=np.float64)
    first = np.lexsort((hashes, -weights))[:held]
    doubts = np.resize([1, 3], len(first))
    return Summary(
        total=float(weights.sum()),
        hashes=hashes[first],
        counts=weights[first] * (1 + error),
        errors=weights[first] * error * doubts,
        buckets=np.bincount(planning.bucket_of(hashes, bits), weights, minlength=2**bits),
    )


def zipf(exponent: float, keys: int, workers: int) -> Summary:
    hashes = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, keys)
    weights = np.round(1e6 * np.arange(1, keys + 1) ** -exponent)
    of = dict(zip(hashes.tolist(), weights.tolist(), strict=True))
    return summary_of(of, held=keys // 2, bits=planning.bucket_bits(workers))


def loads_of(summary: Summary, placement: Placement, workers: int) -> np.ndarray:
    head = summary.hashes[placement.head]
    return expected_loads(summary, head, placement.workers, placement.shares, placement.tail, workers)


def known_weights(summary: Summary, placement: Placement) -> np.ndarray:
    return (summary.counts - summary.errors)[placement.head]


def tail_of(summary: Summary, placement: Placement) -> np.ndarray:
    """What is left in each bucket."""
    bits, known = len(summary.buckets).bit_length() - 1, [0.0] * len(summary.buckets)
    for key, weight in zip(placement.head, known_weights(summary, placement), strict=True):
        known[int(summary.hashes[key]) % 2**64 >> (64 - bits)] += weight
    return np.maximum(summary.buckets - known, 0.0)


def candidates_of(key: int, workers: int, choices: int, seed: int = 0) -> list[int]:
    return (
        ks.PartialKeyGrouping(workers=workers, choices=choices, seed=seed).router().candidates(key).tolist()
    )


# Several keys in some buckets and none in others; weights that repeat.
HASHES = st.integers(-18, 18).map(lambda bucket: bucket << 57) | st.integers(-(2**63), 2**63 - 1)
WEIGHTS = st.integers(0, 20).map(float) | st.integers(0, 10_000).map(float) | st.floats(0, 1000)
KEYS = st.dictionaries(HASHES, WEIGHTS, max_size=60)
SPEEDS = st.sampled_from([1.0, 1.0, 2.0, 0.5, 3.7, 100.0])


@st.composite
def cases(draw: st.DrawFn, names: list[str] | None = None) -> tuple[Summary, Any, Capacities]:
    name = draw(st.sampled_from(names or sorted(planning.PLANS)))
    workers, seed = draw(st.integers(1, 40)), draw(st.integers(0, 2**64 - 1))
    params: dict[str, Any] = {"workers": workers, "seed": seed}
    if name not in ("key", "partial_key"):
        params["threshold"] = draw(st.sampled_from([None, 1e-6, 0.01, 0.3]))
    if name == "partial_key":
        params["choices"] = draw(st.integers(1, 5))
    if name in ("partial_key", "d_choices", "w_choices"):
        params["distinct"] = draw(st.booleans())
    held, error = draw(st.integers(0, 60)), draw(st.sampled_from([0.0, 0.1, 0.5]))
    summary = summary_of(draw(KEYS), held, error)
    capacities = draw(st.none() | st.lists(SPEEDS, min_size=workers, max_size=workers))
    return summary, planning.PLANS[name](**params), capacities


@given(cases())
def test_every_placement_is_whole(case: tuple[Summary, Any, Capacities]) -> None:
    """Shares add up to one over different workers, the head is all that is frequent, no weight is lost."""
    summary, params, capacities = case
    placement = place(summary, params, capacities)
    weights = summary.counts - summary.errors
    least = planning.head_threshold(params) * summary.total
    frequent = {key for key, weight in enumerate(weights) if weight > 0 and weight >= least}
    assert placement.head.dtype == np.int64
    assert set(placement.head.tolist()) == (set() if params.name == "key" else frequent)
    assert all(weights[one] >= weights[next] for one, next in pairwise(placement.head))
    assert len(placement.workers) == len(placement.shares) == len(placement.head)
    for workers, shares in zip(placement.workers, placement.shares, strict=True):
        assert (workers.dtype, shares.dtype) == (np.int64, np.float64)
        assert workers.shape == shares.shape
        assert workers.tolist() == sorted(set(workers.tolist()))
        assert set(workers.tolist()) <= set(range(params.workers))
        assert (shares > 0).all()
        assert math.isclose(shares.sum(), 1)
    assert placement.tail.dtype == np.uint32
    assert placement.tail.shape == summary.buckets.shape
    assert placement.tail.max() < params.workers
    loads = loads_of(summary, placement, params.workers)
    assert (loads.dtype, loads.shape) == (np.float64, (params.workers,))
    assert math.isclose(loads.sum(), summary.total, rel_tol=1e-9)


def test_no_key_has_a_sliver() -> None:
    """Even loads would take 1.5e-4 of the key to the other worker, then 0.25e-4: not worth a copy."""
    for tail, workers in ((9997.0, [0, 1]), (9999.5, [0])):
        summary = summary_of({0: 10_000.0, -1: tail}, held=1)
        assert place(summary, ks.FlexD(workers=2)).workers[0].tolist() == workers


def test_a_key_too_light_to_be_seen_beside_the_loads() -> None:
    params = ks.WChoices(workers=2, threshold=1e-18, sketch_capacity=10)
    placement = place(summary_of({0: 1.0, 1 << 62: 1e17}), params)
    assert [shares.tolist() for shares in placement.shares] == [[0.5, 0.5], [1.0]]


@given(cases())
def test_equal_arguments_give_equal_placements(case: tuple[Summary, Any, Capacities]) -> None:
    one, other = place(*case), place(*case)
    assert (one.head == other.head).all()
    assert (one.tail == other.tail).all()
    for ours, theirs in ((one.workers, other.workers), (one.shares, other.shares)):
        assert [of.tolist() for of in ours] == [of.tolist() for of in theirs]


@given(cases(), KEYS, st.integers(0, 30))
def test_expected_loads_of_another_day(
    case: tuple[Summary, Any, Capacities], keys: dict[int, float], held: int
) -> None:
    """Key by key: those that the plan knows by its shares, all else where the buckets go."""
    yesterday, params, capacities = case
    placement = place(yesterday, params, capacities)
    today = summary_of(keys, held, 0.1)
    loads, buckets = [0.0] * params.workers, today.buckets.tolist()
    counts = dict(zip(today.hashes.tolist(), (today.counts - today.errors).tolist(), strict=True))
    head = yesterday.hashes[placement.head]
    for key, workers, shares in zip(head.tolist(), placement.workers, placement.shares, strict=True):
        buckets[key % 2**64 >> (64 - 6)] -= counts.get(key, 0.0)
        for worker, share in zip(workers, shares, strict=True):
            loads[worker] += counts.get(key, 0.0) * share
    for worker, weight in zip(placement.tail, buckets, strict=True):
        loads[worker] += weight
    ours = expected_loads(today, head, placement.workers, placement.shares, placement.tail, params.workers)
    assert ours == pytest.approx(loads, abs=1e-9 * (1 + today.total))
    assert math.isclose(ours.sum(), today.total, rel_tol=1e-9)


def test_the_heaviest_row_of_a_key_is_whole_on_one_worker() -> None:
    """It is where the load is least with it, and only the rest of its key is in parts."""
    weights = {1: 8.0, 2: 6.0, 3: 1.0}
    summary = replace(summary_of(weights), heaviest=np.array([5.0, 4.0, 1.0]))
    head, tail = np.array([1, 2, 3]), np.zeros(64, dtype=np.uint32)
    own = (np.array([0, 1]), np.array([0, 1]), np.array([1]))
    shares = (np.array([0.5, 0.5]), np.array([0.25, 0.75]), np.array([1.0]))
    # the rest of key 1 is 3, of key 2 it is 2; 5 goes to worker 0, and so 4 to worker 1
    found = expected_loads(summary, head, own, shares, tail, 2)
    assert found.tolist() == [1.5 + 5 + 0.5, 1.5 + 1.5 + 4 + 1]
    slow_first = expected_loads(summary, head, own, shares, tail, 2, np.array([1.0, 9.0]))
    assert slow_first.tolist() == [1.5 + 0.5, 1.5 + 5 + 1.5 + 4 + 1]
    spread = expected_loads(replace(summary, heaviest=None), head, own, shares, tail, 2)
    assert spread.tolist() == [4 + 1.5, 4 + 4.5 + 1]


# cut_to_fit


@given(cases(["cut_to_fit"]))
def test_cut_to_fit_keeps_its_bounds(case: tuple[Summary, Any, Capacities]) -> None:
    summary, params, capacities = case
    placement = place(summary, params, capacities)
    assert sum(len(workers) - 1 for workers in placement.workers) <= params.workers - 1
    speeds = np.array(capacities or [1.0] * params.workers)
    fair = summary.total * speeds / speeds.sum()
    bound = fair + max(1e-4 * fair.min(), tail_of(summary, placement).max())
    assert (loads_of(summary, placement, params.workers) <= bound + 1e-9 * summary.total).all()


def cut_to_fit(summary: Summary, placement: Placement, speeds: list[float]) -> tuple[list[Any], list[int]]:
    """Step by step; of equally free workers the last one is the best fit, the first one has the most free."""
    n, weights, tail = len(speeds), known_weights(summary, placement), tail_of(summary, placement)
    fair = (weights.sum() + tail.sum()) * np.array(speeds) / sum(speeds)
    free = dict(enumerate(fair.tolist()))
    pieces = []
    for weight in weights.tolist():
        parts: dict[int, float] = {}
        while weight > 0:
            fitting = [worker for worker in free if free[worker] >= weight - 1e-4 * fair.min()]
            most = max(free, key=lambda worker: (free[worker], -worker))
            if not fitting and len(free) > 1:
                parts[most] = free.pop(most)
                weight -= parts[most]
                continue
            at = min(fitting or [most], key=lambda worker: (free[worker], -worker))
            parts[at], free[at] = weight, max(free[at] - weight, 0.0)
            if free[at] == 0 and len(free) > 1:
                del free[at]
            weight = 0.0
        pieces.append(parts)
    places = [bucket * n // len(tail) for bucket in range(len(tail))]
    for bucket in sorted(np.flatnonzero(tail).tolist(), key=lambda bucket: (-tail[bucket], bucket)):
        at = max(free, key=lambda worker: (free[worker], -worker))
        places[bucket] = at
        free[at] -= tail[bucket]
    return pieces, places


@given(cases(["cut_to_fit"]))
def test_cut_to_fit_step_by_step(case: tuple[Summary, Any, Capacities]) -> None:
    summary, params, capacities = case
    placement = place(summary, params, capacities)
    pieces, places = cut_to_fit(summary, placement, capacities or [1.0] * params.workers)
    assert [sorted(parts) for parts in pieces] == [workers.tolist() for workers in placement.workers]
    for parts, workers, shares in zip(pieces, placement.workers, placement.shares, strict=True):
        assert shares * sum(parts.values()) == pytest.approx([parts[worker] for worker in workers.tolist()])
    weighing = tail_of(summary, placement) > 0
    assert placement.tail[weighing].tolist() == np.array(places)[weighing].tolist()
    if capacities is None:
        assert placement.tail.tolist() == places


def test_cut_to_fit_cuts_no_more_than_it_must() -> None:
    """Here every key is cut only as often as its weight asks for: the fewest copies there can be."""
    for exponent in (1.0, 1.4, 2.0):
        summary = zipf(exponent, 10_000, 100)
        placement = place(summary, CutToFit(workers=100))
        needed = np.ceil(known_weights(summary, placement) / (summary.total / 100))
        assert [len(workers) for workers in placement.workers] == needed.tolist()
        loads = loads_of(summary, placement, 100)
        assert loads.max() - loads.mean() < 1e-5 * summary.total


def test_cut_to_fit_cuts_no_slivers() -> None:
    """Three workers get 1 each; a load may pass that by a slack of 1e-4 before a key is cut."""
    for most, cuts in ((1.00009, 0), (1.00011, 1)):
        keys = {0: most, 1 << 61: 1.0, 1 << 62: 2.0 - most}
        placement = place(summary_of(keys), CutToFit(workers=3))
        assert sum(map(len, placement.workers)) == 3 + cuts


def test_cut_to_fit_cuts_nothing_on_the_last_worker_that_has_anything_free() -> None:
    """The sums are rounded by more than the second worker gets at all."""
    generator = np.random.default_rng(0)
    for _ in range(50):
        keys = {key << 58: weight for key, weight in enumerate(generator.random(20).tolist())}
        placement = place(summary_of(keys), CutToFit(workers=2, threshold=1e-6), [1e12, 1e-9])
        assert sum(len(workers) - 1 for workers in placement.workers) <= 1
        assert loads_of(summary_of(keys), placement, 2)[1] < 1e-12


def test_cut_to_fit_places_what_is_too_light_to_be_seen_in_the_total() -> None:
    """The first key takes all that is free, and yet something is left to place."""
    placement = place(summary_of({0: 1.0, 1 << 62: 1e-17}), CutToFit(workers=1))
    assert [workers.tolist() for workers in placement.workers] == [[0]]
    assert not placement.tail.any()


def test_cut_to_fit_checks_its_parameters_as_groupings_do() -> None:
    for wrong in (
        {"workers": 0},
        {"workers": 1.5},
        {"workers": 3, "seed": -1},
        {"workers": 3, "threshold": 0.0},
    ):
        with pytest.raises((ValueError, TypeError)) as theirs:
            ks.DistributionAwareKeyGrouping(**wrong)
        with pytest.raises(theirs.type) as ours:
            CutToFit(**wrong)
        assert str(ours.value) == str(theirs.value)
    params = CutToFit(workers=np.int32(7), threshold=np.float32(0.5))
    assert repr(params) == "CutToFit(workers=7, seed=0, threshold=0.5)"
    assert params == CutToFit(workers=7, threshold=0.5)
    with pytest.raises(FrozenInstanceError):
        params.workers = 8  # type: ignore[misc]
    assert CutToFit.name not in ks.GROUPINGS


# The groupings


@given(cases(["key"]))
def test_key_takes_buckets_in_order(case: tuple[Summary, Any, Capacities]) -> None:
    summary, params, capacities = case
    tail = place(summary, params, capacities).tail
    assert (np.diff(tail.astype(np.int64)) >= 0).all()
    size, speeds = len(tail), np.array(capacities or [1.0] * params.workers)
    assert np.bincount(tail, minlength=params.workers) == pytest.approx(speeds / speeds.sum() * size, abs=1)
    if capacities is None:
        assert tail.tolist() == [bucket * params.workers // size for bucket in range(size)]


@given(cases(["partial_key", "d_choices", "w_choices", "round_robin"]), st.data())
def test_buckets_go_to_the_less_loaded_candidate(
    case: tuple[Summary, Any, Capacities], data: st.DataObject
) -> None:
    """Around frequent keys whose shares are known beforehand: those of round_robin, and none.

    Where they are elsewhere, they stay if their worker has little more than that candidate.
    """
    summary, params, capacities = case
    places = st.lists(st.integers(0, params.workers - 1), min_size=64, max_size=64)
    current = data.draw(st.none() | places.map(lambda each: np.array(each, np.uint32)))
    slack = data.draw(st.sampled_from([0.0, 0.1, 3.0]))
    placement = place(summary, params, capacities, current=current, slack=slack)
    assume(params.name == "round_robin" or len(placement.head) == 0)
    loads, tail = np.zeros(params.workers), tail_of(summary, placement)
    for weight, workers, shares in zip(
        known_weights(summary, placement), placement.workers, placement.shares, strict=True
    ):
        loads[workers] += weight * shares
    choices = params.choices if params.name == "partial_key" else 2
    router = ks.PartialKeyGrouping(
        workers=params.workers, seed=params.seed, choices=choices, distinct=params.distinct
    ).router()
    speeds = np.array(capacities or [1.0] * params.workers)
    fair = np.array([summary.total, np.count_nonzero(tail == 0)]) / speeds.sum()
    unseen = np.zeros(params.workers)  # each worker gets as many buckets of which nothing is known
    for bucket in sorted(range(len(tail)), key=lambda bucket: (-tail[bucket], bucket)):
        candidates = router.candidates(bucket)
        beside, weight = (loads, tail[bucket]) if tail[bucket] else (unseen, 1.0)
        best = ((beside[candidates] + weight) / speeds[candidates]).min()
        at, rounding = placement.tail[bucket], 1e-9 * max(summary.total, 1.0)
        here = (beside[at] + weight) / speeds[at]
        if current is None:
            assert at in candidates
            assert here <= best + rounding
        else:
            old, most = current[bucket], best + slack * fair[int(tail[bucket] == 0)]
            stays = (beside[old] + weight) / speeds[old]
            assert at == old or (at in candidates and here <= best + rounding and stays > most - rounding)
            assert here <= most + rounding
        beside[at] += weight


def test_a_plan_that_is_made_anew_moves_few_rare_keys() -> None:
    summary, params = zipf(1.0, 10_000, 16), ks.DChoices(workers=16)
    first = place(summary, params)
    drawn = replace(summary, buckets=summary.buckets + np.random.default_rng(1).normal(0, 30, 4096) ** 2)
    drawn = replace(drawn, total=float(drawn.buckets.sum()))
    anew, kept = place(drawn, params), place(drawn, params, current=first.tail, slack=0.1)
    moved = [float(drawn.buckets[each.tail != first.tail].sum() / drawn.total) for each in (anew, kept)]
    assert moved[1] < 0.25 * moved[0]
    assert loads_of(drawn, kept, 16).max() < 1.1 * drawn.total / 16


@pytest.mark.parametrize(
    "current", [np.zeros(32, np.uint32), np.full(64, 3, np.uint32), np.full(64, -1), np.zeros(64), []]
)
def test_buckets_are_somewhere(current: np.ndarray) -> None:
    with pytest.raises(ValueError, match="current must be a worker below 3 for each of 64 buckets, got"):
        place(summary_of({1: 2.0}), ks.DChoices(workers=3), current=current)
    with pytest.raises(ValueError, match="slack must be at least 0, got -1"):
        place(summary_of({1: 2.0}), ks.DChoices(workers=3), current=np.zeros(64, np.uint32), slack=-1)


def test_buckets_that_a_sample_has_missed_are_spread() -> None:
    hashes = np.arange(1, 300, dtype=np.int64) << 54
    buckets = np.bincount(bucket_of(hashes, 12), minlength=4096).astype(np.float64)
    summary = Summary(buckets.sum(), hashes[:0], np.zeros(0), np.zeros(0), buckets)
    placement = place(summary, ks.PartialKeyGrouping(workers=16))
    missed = np.bincount(placement.tail[buckets == 0], minlength=16)
    assert missed.max() < 1.02 * missed.mean()


@given(cases(["partial_key", "d_choices"]))
def test_frequent_keys_stay_with_their_candidates(case: tuple[Summary, Any, Capacities]) -> None:
    summary, params, capacities = case
    placement = place(summary, params, capacities)
    weights = known_weights(summary, placement).tolist()
    choices = (
        params.choices
        if params.name == "partial_key"
        else solve_choices(weights, summary.total, params.workers, params.tolerance)
        if weights
        else 2
    )
    assume(params.name == "partial_key" or choices < params.workers)
    router = ks.PartialKeyGrouping(
        workers=params.workers, seed=params.seed, choices=choices, distinct=params.distinct
    ).router()
    for key, workers in zip(placement.head, placement.workers, strict=True):
        assert len(workers) <= choices
        assert set(workers.tolist()) <= set(router.candidates(int(summary.hashes[key])).tolist())


def water_level(loads: list[float], weight: float, speeds: list[float]) -> float:
    """To which the lowest rise, found by halving."""
    low, high = (
        0.0,
        max(load / speed for load, speed in zip(loads, speeds, strict=True)) + weight / min(speeds),
    )
    for _ in range(200):
        level = (low + high) / 2
        poured = sum(max(level * speed - load, 0) for load, speed in zip(loads, speeds, strict=True))
        low, high = (level, high) if poured < weight else (low, level)
    return high


@given(cases(["partial_key", "d_choices", "w_choices"]))
def test_a_key_poured_over_its_candidates_reaches_one_level(case: tuple[Summary, Any, Capacities]) -> None:
    """One frequent key: no other share would keep its candidates lower."""
    summary, params, capacities = case
    one = replace(summary, hashes=summary.hashes[:1], counts=summary.counts[:1], errors=summary.errors[:1])
    placement = place(one, params, capacities)
    assume(len(placement.head) == 1)
    (weight,) = known_weights(one, placement)
    speeds = capacities or [1.0] * params.workers
    tail = tail_of(one, placement)
    loads = np.bincount(placement.tail, tail, minlength=params.workers).tolist()
    choices = {
        "partial_key": lambda: params.choices,
        "d_choices": lambda: solve_choices([float(weight)], one.total, params.workers, params.tolerance),
        "w_choices": lambda: params.workers,
    }[params.name]()
    everyone = list(range(params.workers))
    if params.name == "partial_key" or choices < params.workers:
        router = ks.PartialKeyGrouping(
            workers=params.workers, seed=params.seed, choices=choices, distinct=params.distinct
        ).router()
        everyone = sorted(set(router.candidates(int(one.hashes[0])).tolist()))
    level = water_level([loads[w] for w in everyone], weight, [speeds[w] for w in everyone])
    shares = dict(zip(placement.workers[0].tolist(), placement.shares[0].tolist(), strict=True))
    for worker in everyone:
        poured = max(level * speeds[worker] - loads[worker], 0.0)
        assert shares.get(worker, 0.0) * weight == pytest.approx(poured, abs=1.1e-4 * len(everyone) * weight)


@given(
    st.lists(st.tuples(WEIGHTS | st.floats(0, 1e17), SPEEDS), min_size=1, max_size=rules._FEW),
    st.floats(1e-3, 1e9),
)
def test_few_workers_are_filled_to_the_bit_as_many_are(
    workers: list[tuple[float, float]], weight: float
) -> None:
    loads, speeds = map(list, zip(*workers, strict=True))
    filled = rules._fill(np.array(loads), weight, np.array(speeds))
    assert rules._fill_few(loads, weight, speeds) == filled.tolist()


@pytest.mark.parametrize("name", ["d_choices", "w_choices"])
def test_frequent_keys_settle(name: str) -> None:
    """With all of them in place no key has rows on a worker that is above another one of its candidates."""
    n = 30
    summary = zipf(1.2, 3000, n)
    params = planning.PLANS[name](workers=n)
    placement = place(summary, params)
    loads = loads_of(summary, placement, n)
    weights = known_weights(summary, placement)
    d = n if name == "w_choices" else solve_choices(weights.tolist(), summary.total, n, 1e-4)
    assert name == "w_choices" or 2 < d < n
    for key, workers in zip(placement.head, placement.workers, strict=True):
        of_key = range(n) if d >= n else candidates_of(int(summary.hashes[key]), n, d)
        assert loads[workers].max() <= loads[list(of_key)].min() + 1e-4 * summary.total
    assert loads.max() - loads.mean() < (1e-3 if name == "d_choices" else 1e-6) * summary.total


@given(cases(["round_robin"]))
def test_round_robin_shares_equally(case: tuple[Summary, Any, Capacities]) -> None:
    summary, params, capacities = case
    placement = place(summary, params, capacities)
    speeds = np.array(capacities or [1.0] * params.workers)
    for key, workers, shares in zip(placement.head, placement.workers, placement.shares, strict=True):
        weight = summary.counts[key] - summary.errors[key]
        assert len(workers) == min(params.workers, math.ceil(weight / summary.total * 100_000))
        assert shares == pytest.approx(speeds[workers] / speeds[workers].sum())


def test_weights_next_to_zero_are_shared_out_like_others() -> None:
    least = 5e-324
    placement = place(summary_of({0: least}), ks.RoundRobinHead(workers=2), [1.0, 3.0])
    assert placement.shares[0].tolist() == [0.25, 0.75]


def test_round_robin_takes_turns_where_a_key_has_too_little_for_all() -> None:
    """1.5 per mill of the total are 150 pieces at most, 149 with what the others weigh."""
    n = 400
    keys = {0: 1000.0, 1 << 60: 1.5, 2 << 60: 1.5, 3 << 60: 1.5}
    placement = place(summary_of(keys), ks.RoundRobinHead(workers=n))
    pieces = math.ceil(1.5 / 1004.5 * 100_000)
    everyone = [*range(n)] * 2
    assert placement.workers[0].tolist() == everyone[:n]
    for turn, workers in enumerate(placement.workers[1:]):
        assert workers.tolist() == sorted(everyone[(turn * pieces) % n :][:pieces])


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=20),
    st.integers(1, 30),
    st.sampled_from([1.0123, 1.5123, 2.0123, 30.123]),  # no share is on a bar, but for the first
)
def test_flexd_gives_the_workers_of_the_bars_that_a_share_reaches(
    counts: list[int], n: int, growth: float
) -> None:
    keys = {key << 55: float(count) for key, count in enumerate(sorted(counts, reverse=True))}
    summary = summary_of(keys)
    params = ks.FlexD(workers=n, growth=growth)
    placement = place(summary, params)
    loads = np.bincount(placement.tail, tail_of(summary, placement), minlength=n)
    for weight, workers, shares in zip(
        known_weights(summary, placement), placement.workers, placement.shares, strict=True
    ):
        size, bar = 1, 1 / (20 * n)
        while weight / summary.total >= bar and size < n:
            size, bar = size + 1, bar * growth
        lowest = np.sort(loads)[:size]
        assert len(workers) <= size
        assert (loads[workers] <= lowest[-1] + 1e-9).all()
        poured = np.maximum(water_level(lowest.tolist(), float(weight), [1.0] * size) - loads[workers], 0.0)
        assert shares * weight == pytest.approx(poured, abs=1.1e-4 * size * weight)
        loads[workers] += weight * shares


@given(cases(["distribution_aware"]))
def test_distribution_aware_splits_nothing(case: tuple[Summary, Any, Capacities]) -> None:
    summary, params, capacities = case
    placement = place(summary, params, capacities)
    speeds = capacities or [1.0] * params.workers
    tail = tail_of(summary, placement)
    items = [*known_weights(summary, placement).tolist(), *tail.tolist()]
    loads, places = [0.0] * params.workers, {}
    for item in sorted(range(len(items)), key=lambda item: -items[item]):
        if items[item] > 0:
            at = min(range(params.workers), key=lambda w: (loads[w] + items[item]) / speeds[w])
            places[item] = at
            loads[at] += items[item]
    heads = len(placement.head)
    assert [workers.tolist() for workers in placement.workers] == [[places[key]] for key in range(heads)]
    assert [shares.tolist() for shares in placement.shares] == [[1.0]] * heads
    for bucket in np.flatnonzero(tail).tolist():
        assert placement.tail[bucket] == places[heads + bucket]


@pytest.mark.parametrize("name", ["w_choices", "round_robin", "flexd", "cut_to_fit"])
def test_faster_workers_get_more(name: str) -> None:
    n = 20
    summary = zipf(1.4, 2000, n)
    capacities = [1.0] * 10 + [4.0] * 10
    loads = loads_of(summary, place(summary, planning.PLANS[name](workers=n), capacities), n)
    assert loads[10:].sum() / loads.sum() == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("name", sorted(planning.PLANS))
@pytest.mark.parametrize("workers", [1, 3, 65_536])
def test_an_empty_summary_spreads_the_buckets(name: str, workers: int) -> None:
    """Nothing is known, so nothing is placed by itself, and keys that come tomorrow go everywhere."""
    placement = place(
        summary_of({}, bits=planning.bucket_bits(workers)), planning.PLANS[name](workers=workers)
    )
    assert len(placement.head) == 0
    used = len(np.unique(placement.tail))
    assert (
        used == workers
        if name in ("key", "flexd", "cut_to_fit", "distribution_aware")
        else used > workers / 2
    )


@pytest.mark.parametrize("name", sorted(planning.PLANS))
def test_as_many_workers_as_there_can_be(name: str) -> None:
    summary = zipf(1.4, 2000, 65_536)
    placement = place(summary, planning.PLANS[name](workers=65_536))
    assert sum(map(len, placement.workers)) <= 100_000 + len(placement.head)
    assert math.isclose(loads_of(summary, placement, 65_536).sum(), summary.total)


@pytest.mark.parametrize(
    ("capacities", "said"),
    [
        ([1.0] * 3, "capacities must be 4 numbers, one per worker, got shape (3,)"),
        ([[1.0] * 4], "capacities must be 4 numbers, one per worker, got shape (1, 4)"),
        ([1, 2, 0, 4], "capacities must be in 1e-09..=1000000000000.0, got 0.0"),
        ([1, math.nan, 3, 4], "capacities must be in 1e-09..=1000000000000.0, got nan"),
        ([1, 2, 3, math.inf], "capacities must be in 1e-09..=1000000000000.0, got inf"),
    ],
)
def test_wrong_capacities(capacities: Any, said: str) -> None:
    with pytest.raises(ValueError, match="capacities") as error:
        place(summary_of({}), CutToFit(workers=4), capacities)
    assert str(error.value) == said


def test_a_grouping_that_has_no_plan() -> None:
    with pytest.raises(TypeError, match=r"^params must be one of KeyGrouping, .*, CutToFit, got Fish$"):
        place(summary_of({}), ks.Fish(workers=4))


# What a plan starts from, and what it becomes


def test_thresholds_and_capacities_of_sketches() -> None:
    defaults = {name: planning.head_threshold(kind(workers=50)) for name, kind in planning.PLANS.items()}
    assert defaults == {
        "key": 1.0,
        "partial_key": 1 / 250,
        "d_choices": 1 / 250,
        "w_choices": 1 / 250,
        "round_robin": 1 / 250,
        "flexd": 1 / 1000,
        "distribution_aware": 1 / 250,
        "cut_to_fit": 1 / 1000,
    }
    assert planning.head_threshold(ks.WChoices(workers=50, threshold=0.5)) == 0.5
    assert planning.sketch_capacity(CutToFit(workers=50)) == 10_000
    assert planning.sketch_capacity(CutToFit(workers=3)) == 1000
    assert planning.sketch_capacity(CutToFit(workers=65_536)) == 2**20
    assert planning.sketch_capacity(ks.FlexD(workers=50, sketch_capacity=77)) == 77
    assert planning.sketch_capacity(ks.WChoices(workers=50, threshold=0.0003)) == 33_334


@example(64, 0)
@given(st.integers(1, 65_536), st.integers(-(2**63), 2**63 - 1))
def test_buckets_are_the_first_bits(workers: int, key: int) -> None:
    bits = planning.bucket_bits(workers)
    assert 2**bits == min(2**17, max(2**12, 1 << (64 * workers - 1).bit_length()))
    (bucket,) = planning.bucket_of(np.array([key]), bits)
    assert bucket == key % 2**64 >> (64 - bits)


@given(st.lists(st.floats(1e-9, 1) | st.sampled_from([1.0, 0.25]), min_size=1, max_size=70))
def test_alias_cells_have_the_chances_of_the_shares(weights: list[float]) -> None:
    shares = np.array(weights) / sum(weights)
    workers = np.arange(len(shares)) * 3 + 1
    cuts, first, second = planning.alias_cells(workers, shares)
    assert (cuts.dtype, first.dtype, second.dtype) == (np.int64, np.uint32, np.uint32)
    assert first.tolist() == workers.tolist()
    assert len(cuts) == len(second) == len(workers)
    assert ((cuts >= 0) & (cuts <= 2**32)).all()
    chances = dict.fromkeys(workers.tolist(), Fraction(0))
    for cut, one, other in zip(cuts.tolist(), first.tolist(), second.tolist(), strict=True):
        chances[one] += Fraction(cut, 2**32 * len(cuts))
        chances[other] += Fraction(2**32 - cut, 2**32 * len(cuts))
    assert sum(chances.values()) == 1
    for worker, share in zip(workers.tolist(), shares.tolist(), strict=True):
        assert abs(chances[worker] - Fraction(share)) <= Fraction(1, 2**32) + Fraction(1, 10**14)


def test_planning_brings_nothing_heavy() -> None:
    code = "import sys, keysplit.plan; print({'pyspark', 'pandas', 'pyarrow'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"


def test_fractional_weights_may_add_up_to_more_than_the_total() -> None:
    """The total was added in another order, and is 4.5e-13 less than the sum of the frequent keys."""
    weights = np.array([1022.0, 2.28066291, 1.3223469820974])
    total = np.nextafter(np.cumsum(weights)[-1], 0)
    buckets = np.zeros(4096)
    buckets[[4064, 0, 32]] = weights
    hashes = np.array([-(2**57), 0, 2**57])
    summary = Summary(float(total), hashes, weights, np.zeros(3), buckets)
    placement = place(summary, planning.PLANS["d_choices"](workers=3, threshold=1e-6))
    assert len(placement.head) == 3
