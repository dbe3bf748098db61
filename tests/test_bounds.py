"""What the papers prove: the sketch's inequalities, a key's workers, capacities, the evenness of turns."""

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keysplit as ks
from keysplit.streams import zipf
from parameters import parameters
from reference.capacity import capacity

STREAMS = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 5)), max_size=60)
WORKERS = st.integers(1, 60)
SEEDS = st.integers(0, 2**64 - 1)


def most_workers_of_a_key(keys: np.ndarray, answer: np.ndarray) -> int:
    pairs = {*zip(keys.tolist(), answer.tolist(), strict=True)}
    return max(Counter(key for key, _ in pairs).values(), default=0)


# SpaceSaving (Metwally, Agrawal, El Abbadi 2005; merging: Berinde et al. 2010, Agarwal et al. 2013)


def assert_bounds(sketch: ks.SpaceSaving, capacity: int, true: Counter[int]) -> None:
    total = sum(true.values())
    assert sketch.total == total
    held = {key: (count, error) for key, count, error in sketch.top(capacity)}
    assert len(held) <= capacity
    for key in range(17):
        count, error = sketch.estimate(key)
        assert true[key] <= count <= true[key] + error
        assert error * capacity <= total
        assert held.get(key, (count, error)) == (count, error)
        if true[key] * capacity > total:
            assert key in held


@given(st.integers(1, 10), STREAMS)
def test_bounds_hold_after_every_insert(capacity: int, stream: list[tuple[int, int]]) -> None:
    sketch = ks.SpaceSaving(capacity)
    true: Counter[int] = Counter()
    for key, weight in stream:
        sketch.update([key], weights=[weight])
        true[key] += weight
        assert_bounds(sketch, capacity, true)


@given(st.integers(1, 10), st.lists(st.tuples(STREAMS, st.booleans()), min_size=1, max_size=6))
def test_bounds_hold_after_every_merge(
    capacity: int, parts: list[tuple[list[tuple[int, int]], bool]]
) -> None:
    """Parts are merged as sketches or fed to the merged one, in any order."""
    sketch = ks.SpaceSaving(capacity)
    true: Counter[int] = Counter()
    for stream, merged in parts:
        target = ks.SpaceSaving(capacity) if merged else sketch
        for key, weight in stream:
            target.update([key], weights=[weight])
            true[key] += weight
        if merged:
            sketch.merge(target)
        assert_bounds(sketch, capacity, true)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
def test_bounds_hold_on_a_long_stream(exponent: float) -> None:
    keys = zipf(exponent, 20_000, 100_000, seed=1)
    true = Counter(keys.tolist())
    sketch = ks.SpaceSaving(500)
    sketch.update(keys)
    counters = sketch.top(500)
    assert sum(count for _, count, _ in counters) == len(keys)
    assert all(true[key] <= count <= true[key] + error for key, count, error in counters)
    assert all(error <= len(keys) / 500 for _, _, error in counters)
    assert {key for key, count in true.items() if count > len(keys) / 500} <= {key for key, _, _ in counters}
    assert all(earlier[1] >= later[1] for earlier, later in pairwise(counters))


# Workers of a key


@given(WORKERS, SEEDS, st.integers(1, 6), st.booleans(), st.integers(0, 2**32))
def test_partial_key_keeps_a_key_on_its_choices(
    workers: int, seed: int, choices: int, distinct: bool, stream: int
) -> None:
    keys = zipf(1.2, 50, 2000, stream)
    router = ks.PartialKeyGrouping(workers=workers, seed=seed, choices=choices, distinct=distinct).router()
    answer = router.route(keys)
    for key in np.unique(keys):
        used = set(answer[keys == key].tolist())
        assert len(used) <= choices
        assert used <= set(router.candidates(int(key)).tolist())
        if distinct:
            assert len(router.candidates(int(key))) == min(choices, workers)


@given(WORKERS, SEEDS, st.integers(0, 2**32))
def test_key_grouping_keeps_a_key_on_one_worker(workers: int, seed: int, stream: int) -> None:
    keys = zipf(1.2, 50, 2000, stream)
    params = ks.KeyGrouping(workers=workers, seed=seed)
    answers = [params.router(source=source).route(keys) for source in (0, 1)]
    np.testing.assert_array_equal(*answers)
    assert ks.metrics.replication(keys, answers[0]) == 1


def test_more_choices_extend_the_candidates() -> None:
    """Candidate i does not depend on how many are asked for."""
    for distinct in (False, True):
        known: set[int] = set()
        for choices in range(1, 12):
            params = ks.PartialKeyGrouping(workers=100, choices=choices, distinct=distinct)
            found = set(params.router().candidates("key").tolist())
            assert known <= found
            known = found


@pytest.mark.parametrize("name", ["round_robin", "w_choices", "d_choices"])
@pytest.mark.parametrize("distinct", [False, True])
def test_the_tail_stays_on_two_workers(name: str, distinct: bool) -> None:
    """Keys that come once are in the head only while the stream is short."""
    router = ks.grouping(name, workers=20, threshold=0.1, distinct=distinct).router()
    router.route(np.zeros(1000, dtype=np.int64))
    keys = np.arange(1, 5001) % 500 + 1
    answer = router.route(keys)
    partial = ks.PartialKeyGrouping(workers=20, distinct=distinct).router()
    for key in range(1, 501):
        used = set(answer[keys == key].tolist())
        assert used <= set(partial.candidates(key).tolist())


# Workers of a key, whatever the grouping


@pytest.mark.parametrize("name", sorted(ks.GROUPINGS))
@given(data=st.data())
def test_a_key_stays_on_as_many_workers_as_its_grouping_says(name: str, data: st.DataObject) -> None:
    params = ks.grouping(name, **data.draw(parameters(name)))
    keys = zipf(data.draw(st.sampled_from([0.0, 1.2, 2.5])), 20, 400, data.draw(st.integers(0, 100)))
    router = params.router()
    answer = router.route(keys)
    assert answer.max() < params.workers
    assert most_workers_of_a_key(keys, answer) <= params.max_workers_per_key
    for key in (0, 1, 19):
        assert len(router.candidates(key)) <= params.max_workers_per_key


@given(WORKERS | st.integers(1, 65_536), st.integers(1, 6), st.integers(1, 9))
def test_the_most_workers_of_a_key(workers: int, choices: int, max_split: int) -> None:
    """The core says what the class says in a letter for the table."""
    share = 100 / workers
    w = math.floor(100 / (share + math.sqrt(share))) + 1  # test_papers has the numbers of the paper's table
    letters = {"1": 1, "2": 2, "choices": choices, "w": w, "d": workers, "n": workers}
    own = {"partial_key": {"choices": choices}, "dalton": {"max_split": max_split}}
    for name, kind in ks.GROUPINGS.items():
        most = min(workers, letters[kind.workers_per_key])
        if name == "dalton" and max_split == 1:  # else a key that is hot again may get others than before
            most = 1
        assert kind(workers=workers, **own.get(name, {})).max_workers_per_key == most, name


@given(WORKERS, SEEDS, st.integers(1, 300), st.integers(0, 2**32))
def test_distribution_aware_has_one_worker_a_key_before_and_after_its_plan(
    workers: int, seed: int, learning: int, stream: int
) -> None:
    keys = zipf(1.2, 50, 600, stream)
    params = ks.DistributionAwareKeyGrouping(workers=workers, seed=seed, learning_messages=learning)
    answer = params.router().route(keys)
    learned = ks.KeyGrouping(workers=workers, seed=seed).router().route(keys[:learning])
    np.testing.assert_array_equal(answer[:learning], learned)
    assert ks.metrics.replication(keys[learning:], answer[learning:]) == 1


@given(WORKERS, SEEDS, st.integers(1, 30), st.integers(0, 2**32))
def test_dynamic_key_uses_consecutive_workers(workers: int, seed: int, expected: int, stream: int) -> None:
    """From the hashed worker on, at most the maximum; the hot key gains a third where there is room."""
    keys = zipf(2.0, 10, 2000, stream)
    params = ks.DynamicKeyGrouping(
        workers=workers,
        seed=seed,
        expected_keys=expected,
        warm_up_s=0.1,
        teenage_interval_s=0.1,
        old_interval_s=0.1,
    )
    router = params.router()
    answer = router.route(keys)
    hashed = ks.KeyGrouping(workers=workers, seed=seed).router().route(keys)
    distance = (answer.astype(np.int64) - hashed) % workers
    assert distance.max() < params.max_workers_per_key
    for key in np.unique(keys):
        candidates = router.candidates(int(key)).astype(np.int64)
        assert ((candidates - hashed[keys == key][0]) % workers == np.arange(len(candidates))).all()
    if params.max_workers_per_key > 2 and workers >= 10:
        assert distance.max() >= 2


@given(
    WORKERS,
    SEEDS,
    st.integers(1, 8),
    st.integers(20, 300),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.integers(0, 2**32),
)
def test_dalton_gives_hot_keys_a_few_workers_at_most(
    workers: int, seed: int, max_split: int, interval: int, exploration: float, stream: int
) -> None:
    """Within an interval max_split; a key is on its hashed worker until it is hot."""
    keys = zipf(1.5, 10, 2000, stream)
    params = ks.Dalton(
        workers=workers,
        seed=seed,
        interval_messages=interval,
        exploration=exploration,
        max_split=max_split,
    )
    answer = params.router().route(keys)
    splits = [
        most_workers_of_a_key(keys[begin : begin + interval], answer[begin : begin + interval])
        for begin in range(0, len(keys), interval)
    ]
    assert max(splits) <= max_split
    if exploration >= 0.5:
        assert max(splits) >= min(2, workers, max_split)
    hashed = ks.KeyGrouping(workers=workers, seed=seed).router().route(keys)
    for key in range(10):
        cold = np.flatnonzero(keys[:interval] == key)[: interval // workers]
        assert (answer[cold] == hashed[cold]).all()


@given(
    st.integers(30, 200), SEEDS, st.sampled_from([1.5, 2.0, 4.0]), st.integers(50, 500), st.integers(0, 2**32)
)
def test_flexd_needs_a_higher_frequency_for_each_worker_more(
    workers: int, seed: int, growth: float, segment: int, stream: int
) -> None:
    """A list of 2 + i workers takes theta * growth**i of the messages; the hashed worker may come on top.

    No key has more than all of them, and the hottest one has more than half.
    """
    keys = zipf(2.0, 20, 2000, stream)
    params = ks.FlexD(workers=workers, seed=seed, growth=growth, segment_messages=segment)
    answer = params.router().route(keys)

    def longest(frequency: float) -> int:
        return 2 + math.floor(math.log(frequency * 20 * workers) / math.log(growth))

    assert longest(0.5) <= most_workers_of_a_key(keys, answer) <= longest(1.0) + 1


@given(WORKERS, SEEDS, st.integers(0, 2**32 - 1))
def test_pstream_spreads_hot_keys_evenly(workers: int, seed: int, source: int) -> None:
    """One key alone is on its hashed worker until it is hot, then on all in turn."""
    keys = np.zeros(2000, dtype=np.int64)
    params = ks.PStream(workers=workers, seed=seed, coins=0, decay=1e-3)
    answer = params.router(source=source).route(keys).astype(np.int64)
    hashed = ks.KeyGrouping(workers=workers, seed=seed).router().route([0])[0]
    cold = next(i for i in range(1000) if (np.diff(answer[i:1000]) % workers == 1 % workers).all())
    assert cold < 50
    assert (answer[: max(0, cold - 1)] == hashed).all()


# Capacity (Mirrokni, Thorup, Zadimoghaddam 2016; Nasir et al., arXiv 1705.09073, section 5.1)

EPSILONS = st.one_of(st.sampled_from([0.001, 0.01, 0.1, 1.0, 1000.0]), st.floats(0.001, 2.0))
WEIGHTED = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=80)


class Received:
    """The loads that the answers make; no worker receives at its capacity."""

    def __init__(self, workers: int, epsilon: float) -> None:
        self.loads = dict.fromkeys(range(workers), 0)
        self.epsilon, self.sent = epsilon, 0

    def send(self, worker: int, weight: int = 1) -> None:
        """A message arrives."""
        assert self.loads[worker] < capacity(self.epsilon, self.sent, weight, len(self.loads))
        self.loads[worker] += weight
        self.sent += weight

    def start_anew(self, workers: list[int]) -> None:
        self.loads, self.sent = dict.fromkeys(workers, 0), 0


@pytest.mark.parametrize("name", ["bounded_ring", "power_of_random"])
@given(WORKERS, SEEDS, EPSILONS, WEIGHTED)
def test_no_worker_at_its_capacity_receives(
    name: str, workers: int, seed: int, epsilon: float, stream: list[tuple[int, int]]
) -> None:
    router = ks.grouping(name, workers=workers, seed=seed, epsilon=epsilon).router()
    keys, weights = [key for key, _ in stream], [weight for _, weight in stream]
    received = Received(workers, epsilon)
    for worker, weight in zip(router.route(keys, weights=weights).tolist(), weights, strict=True):
        received.send(worker, weight)
    assert router.loads.tolist() == list(received.loads.values())


@pytest.mark.parametrize("name", ["bounded_ring", "power_of_random"])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 3.0])
def test_no_worker_at_its_capacity_receives_on_a_long_stream(name: str, exponent: float) -> None:
    keys = zipf(exponent, 1000, 20_000, seed=3)
    received = Received(10, 0.01)
    for worker in ks.grouping(name, workers=10).router().route(keys).tolist():
        received.send(worker)
    largest, mean = max(received.loads.values()), len(keys) / 10
    assert largest <= math.ceil(1.01 * mean)
    if exponent == 3.0:  # the hottest key alone fills one worker after the other
        assert largest == math.ceil(1.01 * mean)


@given(
    st.integers(1, 8),
    SEEDS,
    EPSILONS,
    st.lists(st.one_of(WEIGHTED, st.just("add"), st.integers(0, 9)), max_size=12),
)
def test_bounded_ring_keeps_its_capacity_while_workers_come_and_go(
    workers: int, seed: int, epsilon: float, steps: list[Any]
) -> None:
    """Adding or removing a worker starts the count of loads anew."""
    router = ks.BoundedRingGrouping(workers=workers, seed=seed, epsilon=epsilon).router()
    received = Received(workers, epsilon)
    for step in steps:
        if step == "add":
            router.add_worker()
        elif isinstance(step, int) and router.workers > 1:
            router.remove_worker(int(router.worker_numbers[step % router.workers]))
        elif isinstance(step, list):
            weights = [weight for _, weight in step]
            answer = router.route([key for key, _ in step], weights=weights)
            for worker, weight in zip(answer.tolist(), weights, strict=True):
                received.send(worker, weight)
            continue
        if list(received.loads) != router.worker_numbers.tolist():
            received.start_anew(router.worker_numbers.tolist())


@given(WORKERS, SEEDS, EPSILONS, st.integers(0, 2**32))
def test_consistent_grouping_with_one_bin_a_worker_is_power_of_random(
    workers: int, seed: int, epsilon: float, stream: int
) -> None:
    keys = zipf(1.2, 50, 500, stream)
    common = {"workers": workers, "seed": seed, "epsilon": epsilon}
    answer = ks.ConsistentGrouping(**common, virtual_workers=1).router().route(keys)
    np.testing.assert_array_equal(answer, ks.PowerOfRandomChoices(**common).router().route(keys))


@given(st.integers(1, 12), SEEDS, st.integers(1, 12), EPSILONS, st.integers(0, 2**32))
def test_bins_bound_the_workers_of_consistent_grouping(
    workers: int, seed: int, virtual_workers: int, epsilon: float, stream: int
) -> None:
    """While no worker signals, each has the same number of bins."""
    params = ks.ConsistentGrouping(
        workers=workers, seed=seed, virtual_workers=virtual_workers, epsilon=epsilon
    )
    bins = virtual_workers * workers
    loads = [0] * workers
    for t, worker in enumerate(params.router().route(zipf(2.0, 20, 500, stream)).tolist()):
        loads[worker] += 1
        most_of_a_bin = max(1, math.ceil((1 + epsilon) * (t + 1) / bins))
        assert loads[worker] <= virtual_workers * most_of_a_bin


# The virtual workers of consistent grouping (Nasir et al., arXiv 1705.09073, section 6)

SIGNALS = st.lists(st.integers(0, 5), max_size=3)


def virtual_workers(router: ks.Router, number: int) -> list[int]:
    """How many each worker has: of many different keys each of all their `number` gets 400."""
    answer = router.route(np.arange(400 * number))
    return np.rint(np.bincount(answer, minlength=router.workers) / 400).astype(int).tolist()


@given(st.integers(2, 6), SEEDS, st.integers(1, 4), st.lists(st.tuples(SIGNALS, SIGNALS), max_size=30))
def test_virtual_workers_stay_the_same_number_and_no_worker_is_without_one(
    workers: int, seed: int, each: int, slots: list[tuple[list[int], list[int]]]
) -> None:
    router = ks.ConsistentGrouping(workers=workers, seed=seed, virtual_workers=each, epsilon=1e-3).router()
    for slot, signals in enumerate(slots):
        busy, idle = ([worker % workers for worker in some] for some in signals)
        router.observe(now=slot, busy=busy, idle=idle)
    found = virtual_workers(router, each * workers)
    assert sum(found) == each * workers
    assert min(found) >= 1


def test_a_worker_stands_in_a_queue_once() -> None:
    """Whoever signals again before a partner has come gets one partner and not two."""
    router = ks.ConsistentGrouping(workers=3, virtual_workers=4, epsilon=1e-3).router()
    for slot in range(3):
        router.observe(now=slot, busy=[0])
    for slot in range(3, 6):
        router.observe(now=slot, idle=[1])  # the first signal finds worker 0, the others wait
    for slot in range(6, 9):
        router.observe(now=slot, busy=[0])  # the first signal finds worker 1
    assert virtual_workers(router, 12) == [2, 6, 4]


def test_a_worker_is_heard_once_a_slot() -> None:
    router = ks.ConsistentGrouping(workers=3, virtual_workers=4, epsilon=1e-3, slot_s=2.0).router()
    router.observe(now=0, busy=[0])
    router.observe(now=1.9, idle=[0])
    router.observe(now=2, idle=[1])
    assert virtual_workers(router, 12) == [3, 5, 4]


def test_a_worker_that_signals_the_contrary_leaves_the_queue() -> None:
    router = ks.ConsistentGrouping(workers=3, virtual_workers=4, epsilon=1e-3).router()
    router.observe(now=0, busy=[0])
    router.observe(now=1, idle=[0])
    router.observe(now=2, busy=[2])
    assert virtual_workers(router, 12) == [5, 4, 3]


# Turns


@given(WORKERS, SEEDS, st.integers(0, 2**32 - 1), st.integers(0, 3000))
def test_shuffle_is_even_to_one_message(workers: int, seed: int, source: int, messages: int) -> None:
    router = ks.ShuffleGrouping(workers=workers, seed=seed).router(source=source)
    answer = router.route(np.zeros(messages, dtype=np.int64))
    assert router.loads.max() - router.loads.min() <= 1
    assert (np.diff(answer.astype(np.int64)) % workers == 1 % workers).all()


def test_shuffle_sources_start_apart() -> None:
    params = ks.ShuffleGrouping(workers=1000)
    starts = {int(params.router(source=source).route([0])[0]) for source in range(100)}
    assert len(starts) > 80


@given(WORKERS, SEEDS, st.integers(0, 2000))
def test_round_robin_spreads_its_head_evenly(workers: int, seed: int, messages: int) -> None:
    """One key alone is all head."""
    router = ks.RoundRobinHead(workers=workers, seed=seed).router()
    router.route(np.zeros(messages, dtype=np.int64))
    assert router.loads.max() - router.loads.min() <= 1


@given(WORKERS, SEEDS, st.integers(0, 2000))
def test_w_choices_is_even_on_its_head(workers: int, seed: int, messages: int) -> None:
    router = ks.WChoices(workers=workers, seed=seed).router()
    router.route(np.zeros(messages, dtype=np.int64))
    assert router.loads.max() - router.loads.min() <= 1


@pytest.mark.parametrize("weights", [None, np.arange(20_000) % 4 / 2])
def test_power_of_two_beats_chance(weights: np.ndarray | None) -> None:
    """One choice puts the largest of 100 loads of 200 some 30 above the mean; two, a few."""
    router = ks.PowerOfTwoChoices(workers=100, seed=1).router()
    router.route(np.zeros(20_000, dtype=np.int64), weights=weights)
    assert router.loads.max() - router.loads.mean() < 8


def test_d_choices_keeps_the_hottest_key_on_its_candidates() -> None:
    """While d stands still, a key of the head stays on the d candidates; on fewer than all workers."""
    keys = zipf(1.0, 1000, 60_000, seed=2)
    router = ks.DChoices(workers=50).router()
    router.route(keys[:50_000])
    before = set(router.candidates(0).tolist())
    answer = router.route(keys[50_000:50_500])
    after = set(router.candidates(0).tolist())
    assert 2 < len(after) < 50
    assert set(answer[keys[50_000:50_500] == 0].tolist()) <= before | after
