"""What the papers prove: the sketch's inequalities, a key's workers, the evenness of turns."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keysplit as ks

STREAMS = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 5)), max_size=60)
WORKERS = st.integers(1, 60)
SEEDS = st.integers(0, 2**64 - 1)


def zipf(exponent: float, keys: int, messages: int, seed: int) -> np.ndarray:
    shares = 1 / np.arange(1, keys + 1) ** exponent
    return np.random.default_rng(seed).choice(keys, size=messages, p=shares / shares.sum()).astype(np.int64)


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
