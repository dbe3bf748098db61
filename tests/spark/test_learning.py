"""What the driver learns of the keys and workers of a stream, and when a new plan pays."""

import numpy as np
import pytest

import keysplit as ks
from keysplit import spark as kss
from keysplit.plan import PLANS, bucket_of, expected_loads, head_threshold, place
from keysplit.spark.streaming import Adapt, rule
from keysplit.spark.streaming.following import Following
from keysplit.spark.streaming.learning import Batch, Memory, Speeds
from keysplit_experiments.measured import driving

ONLINE = sorted(set(ks.GROUPINGS) - set(PLANS))


def batch(number, keys, chance=1.0, weights=None):
    hashes = np.asarray(keys, np.int64) * 0x1E3779B97F4A7C15
    weights = np.ones(len(keys)) if weights is None else weights
    return Batch(number, np.zeros(4, np.int64), hashes, weights, np.full(len(keys), 1 / chance))


def test_memory_adds_up_what_it_was_given():
    rng = np.random.default_rng(1)
    memory = Memory(12, 0.02, 1.0)
    given = [rng.zipf(1.5, 4000) % 1000 for _ in range(3)]
    for number, keys in enumerate(given):
        memory.add(batch(number, keys))
    keys, counts = np.unique(np.concatenate(given), return_counts=True)
    hashes = keys * 0x1E3779B97F4A7C15
    summary = memory.summary()
    frequent = counts >= 0.02 * counts.sum()
    assert dict(zip(summary.hashes.tolist(), summary.counts.tolist(), strict=True)) == dict(
        zip(hashes[frequent].tolist(), counts[frequent].astype(float).tolist(), strict=True)
    )
    assert (np.diff(summary.counts) <= 0).all()
    assert summary.buckets.tolist() == np.bincount(bucket_of(hashes, 12), counts, minlength=4096).tolist()
    assert memory.total == 12_000
    assert memory.effective == 12_000


def test_memory_fades_and_estimates_are_unbiased():
    memory = Memory(12, 0.02, 0.5)
    memory.add(batch(0, [1, 1, 2, 2] * 100, chance=0.1))
    memory.add(batch(1, [1, 1, 2, 2] * 100, chance=0.05))
    summary = memory.summary()
    assert summary.counts.tolist() == [200 * 10 * 0.5 + 200 * 20] * 2
    assert summary.sample.effective == pytest.approx(10_000**2 / (400 * 100 * 0.25 + 400 * 400))


def test_memory_keeps_what_keys_had_before_others_became_frequent():
    memory, rare = Memory(12, 0.02, 0.5), list(range(10, 610))
    for number in range(5):
        memory.add(batch(number, [1] * 400 + rare))
    assert memory.total == 1000 * (1 - 0.5**5) / 0.5
    memory.add(batch(5, [2] * 400 + rare))
    assert memory.total == 1000, "loads are those of the rows since the keys have changed"
    summary, whole = memory.summary(), 2000 * (1 - 0.5**6)
    kept = 400 * (whole - 1000) / whole
    hashes = np.array([2, 1]) * 0x1E3779B97F4A7C15
    assert summary.hashes.tolist() == hashes.tolist()
    assert summary.counts.tolist() == pytest.approx([400, kept])
    assert summary.total == pytest.approx(1000 + kept)
    expected = np.bincount(bucket_of(np.array(rare) * 0x1E3779B97F4A7C15, 12), minlength=4096).astype(float)
    np.add.at(expected, bucket_of(hashes, 12), [400, kept])
    assert summary.buckets == pytest.approx(expected)
    for number in range(6, 12):
        memory.add(batch(number, [2] * 400 + rare))
    assert len(memory.summary().hashes) == 1, "what does not come back fades"


@pytest.mark.parametrize("decay", [0.5, 1])
@pytest.mark.parametrize("turns", ["A, B in turn", "A, B, C in turn", "A, A, B, B", "four batches each"])
def test_keys_that_take_turns_stay_split(turns, decay):
    shown = driving.driven(driving.turning(driving.TURNS[turns], 24), Adapt(8, decay=decay))
    versions = {id(each.plan) for each in shown}
    assert len(versions) <= 4, "the first plan, and one for each key"
    assert max(each.busiest for each in shown[5:]) < 1.3


def test_keys_that_do_not_come_back_cost_no_balance():
    shown = driving.driven(driving.drifting(8, 24), Adapt(8))
    settled = [each.busiest for number, each in enumerate(shown) if number % 8 > 2]
    assert np.mean(settled) < 1.15


def test_rows_that_stand_for_more_count_for_more():
    memory, following = Memory(12, 0.02, 0.5), Following(ks.Fish(workers=4))
    hashes, repeats = np.array([1, 2, 2], np.int64), np.array([40.0, 10.0, 10.0])
    some = Batch(0, np.zeros(4, np.int64), hashes, np.array([1.0, 1.0, 2.0]), repeats)
    memory.add(some)
    assert memory.total == 40 + 10 + 20
    following.add(some, np.zeros(0), np.ones(4))
    assert following._router.loads.sum() == 4 + 1 + 2


def test_empty_batches_change_nothing():
    memory = Memory(12, 0.02, 0.5)
    memory.add(batch(0, []))
    assert memory.summary().total == 0
    memory.add(batch(1, [1] * 100))
    memory.add(batch(2, []))
    assert memory.total == 100


@pytest.mark.parametrize(
    ("loads", "speeds", "least", "most"),
    [
        ([10_000, 10_000], [1, 1], -0.1, 0.0),
        ([15_000, 5_000], [1, 1], 0.45, 0.5),
        ([15_000, 5_000], [3, 1], -0.1, 0.0),
        ([3, 1], [1, 1], -1.0, 0.0),
        ([0, 0], [1, 1], 0.0, 0.0),
    ],
)
def test_the_excess_is_what_chance_does_not_explain(loads, speeds, least, most):
    assert least <= rule.excess(np.array(loads, float), np.array(speeds, float)) <= most


def test_a_change_is_worth_what_it_saves(spark):
    rows = spark.range(10_000).selectExpr("IF(id % 2 = 0, 0, id) AS key", "id")
    current, new = (kss.plan(rows, "key", 4, grouping=name, row_id="id") for name in ("key", "w_choices"))
    change = rule.change(current, new, new.summary, 10_000.0)
    assert change.fair == 2500
    assert change.gain == pytest.approx((current.busiest - new.busiest) * 2500)
    assert 3 <= 4 * change.cost <= 5003  # the copies of key 0, and the rare keys that move, per worker
    assert change.pays(Adapt(4))
    assert not change.pays(Adapt(4, gain=4.0))
    assert not change.pays(Adapt(4, copy_cost=1e6))
    assert not rule.change(new, new, new.summary, 10_000.0).pays(Adapt(4))


def added(speeds, *batches):
    """Add times of 1,000 rows each, after two batches that are left out."""
    for times in [[9.0, 1.0, 1.0, 1.0]] * 2 + list(batches):
        speeds.add(np.full(4, 1000), np.array(times))
    return speeds


def test_speeds_are_measured_relative_to_the_median():
    assert added(Speeds(4)).relative.tolist() == [1, 1, 1, 1], "the first batches of a run say nothing"
    few = added(Speeds(4), *[[0.01, 0.01, 0.04, 0.01]] * 5)
    assert few.relative.tolist() == [1, 1, 1, 1], "the start of a task counts for more than its rows"
    speeds = Speeds(4)
    for _ in range(5):
        speeds.add(np.array([1000, 500, 1000, 0]), np.array([1.0, 0.55, 4.0, 9.0]))
    assert speeds.relative.tolist() == pytest.approx([1, 1, 0.275, 1])


def test_a_speed_needs_repeated_evidence_and_fades_without():
    slow, fast, equal = [1.0, 1.0, 2.0, 1.0], [1.0, 1.0, 0.5, 1.0], [1.0] * 4
    assert added(Speeds(4), slow, slow, equal, slow, slow).relative.tolist() == [1, 1, 1, 1]
    assert added(Speeds(4), slow, slow, fast, slow, fast).relative.tolist() == [1, 1, 1, 1]
    assert added(Speeds(4), slow, [1.0, 1.0, 1.6, 1.0], slow).relative[2] == pytest.approx(1 / 1.6)
    assert added(Speeds(4), fast, fast, fast).relative[2] == pytest.approx(2)
    refuted = added(Speeds(4), slow, slow, slow, *[equal] * 6)
    assert refuted.relative[2] == pytest.approx(1, abs=0.02)
    silent = added(Speeds(4), slow, slow, slow, [1.0, 1.0, 0.01, 1.0])
    assert 0.5 < silent.relative[2] < 0.6, "a short batch refutes nothing"
    alone = added(Speeds(4), slow, slow, slow, *[[1.0, 0.01, 0.01, 0.01]] * 30)
    assert alone.relative[2] == pytest.approx(1, abs=0.05), "what is never confirmed fades"


@pytest.mark.parametrize("name", [name for name in driving.SPEEDS if "then short" in name])
def test_workers_that_are_equal_are_taken_for_equal_again(name):
    adapt = Adapt(driving.WORKERS, capacities="measured")
    shown = driving.driven(driving.drifting(30, 30), adapt, busy=driving.SPEEDS[name]())
    assert shown[-1].plan.speeds == pytest.approx(np.ones(driving.WORKERS), abs=0.1)
    assert max(each.busiest for each in shown[-10:]) < 1.2


def test_workers_that_are_slow_are_learned():
    adapt = Adapt(driving.WORKERS, capacities="measured")
    shown = driving.driven(driving.drifting(12, 12), adapt, busy=driving.SPEEDS["one at half speed"]())
    speeds = shown[-1].plan.speeds
    assert speeds[2] == pytest.approx(0.5, abs=0.1)
    assert np.delete(speeds, 2) == pytest.approx(np.ones(driving.WORKERS - 1), abs=0.1)
    assert shown[-1].rows[2] < 0.7 * shown[-1].rows.mean()


@pytest.mark.parametrize("name", ONLINE)
def test_online_groupings_say_which_workers_a_key_has(name):
    params = ks.GROUPINGS[name](workers=8)
    following, memory = Following(params), Memory(12, head_threshold(params), 0.5)
    rng = np.random.default_rng(5)
    for number in range(6):
        drawn = batch(number, rng.zipf(1.4, 4000) % 1000)
        memory.add(drawn)
        following.add(drawn, np.array([900.0, *[500.0] * 6, 100.0]), np.ones(8))
    summary = memory.summary()
    candidates = following.candidates(summary)
    assert len(candidates) == len(summary.hashes) > 0
    assert all((np.diff(each) > 0).all() and 0 <= each[0] <= each[-1] < 8 for each in candidates)
    splits = name not in ("ring", "pstream", "dalton", "dynamic_key")  # or not yet
    assert (len(candidates[0]) > 1) >= splits
    placement = place(summary, params, None, candidates)
    assert [
        set(each) <= set(candidates[at]) for at, each in zip(placement.head, placement.workers, strict=True)
    ]
    hashes = summary.hashes[placement.head]
    loads = expected_loads(summary, hashes, placement.workers, placement.shares, placement.tail, 8)
    assert loads.sum() == pytest.approx(summary.total)
    if splits:
        assert loads.max() < 1.1 * loads.mean()


def test_fish_gives_slow_workers_less():
    following = Following(ks.Fish(workers=4))
    speeds = np.array([1.0, 1.0, 1.0, 0.1])
    drawn = batch(0, np.random.default_rng(5).zipf(1.4, 4000) % 1000)
    following.add(drawn, np.full(4, 1000.0), speeds)
    summary = Memory(12, 0.05, 0.5)
    summary.add(drawn)
    placement = place(summary.summary(), ks.Fish(workers=4), speeds, following.candidates(summary.summary()))
    slow = [
        share
        for each, shares in zip(placement.workers, placement.shares, strict=True)
        for worker, share in zip(each, shares, strict=True)
        if worker == 3
    ]
    assert max(slow, default=0.0) < 0.15
