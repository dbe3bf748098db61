"""What the papers and their authors' programs report, and the papers' own examples, on seeded streams.

When Two Choices Are Not Enough (Nasir et al., ICDE 2016): section IV-A for d, section V for the imbalance.
The other papers are named where their tests begin.
"""

from functools import cache
from statistics import median

import numpy as np
import pytest

import keysplit as ks
from keysplit import _core
from reference.solver import solve_choices

KEYS = 10_000
MESSAGES = 1_000_000
SOURCES = 5
SEEDS = range(10)
CASES = [(1.0, 20), (1.0, 50), (1.0, 100), (1.4, 20), (1.4, 50), (1.4, 100), (2.0, 50), (2.0, 100)]


# d


def zipf_counts(exponent: float, messages: float, keys: int = KEYS) -> list[float]:
    shares = np.arange(1, keys + 1) ** -exponent
    return (shares / shares.sum() * messages).tolist()


def whole_zipf_counts(exponent: float, messages: int, keys: int) -> list[float]:
    return np.floor(zipf_counts(exponent, messages, keys)).tolist()


def head_of(counts: list[float], total: float, workers: int) -> list[float]:
    return [count for count in counts if count * 5 * workers >= total]


@pytest.mark.parametrize(
    ("exponent", "workers", "d"),
    [
        (1.0, 10, 2),
        (1.0, 20, 3),
        (1.0, 50, 6),
        (1.0, 100, 12),
        (1.4, 10, 8),
        (1.4, 20, 10),
        (1.4, 50, 22),
        (1.4, 100, 43),
        (2.0, 50, 49),
        (2.0, 100, 95),
    ],
)
def test_d_on_exact_zipf_frequencies(exponent: float, workers: int, d: int) -> None:
    for total in (1.0, 1e6):
        head = head_of(zipf_counts(exponent, total), total, workers)
        assert _core.solve_choices(head, total, workers, 1e-4) == d
        assert solve_choices(head, total, workers, 1e-4) == d


@pytest.mark.parametrize("tolerance", [1e-6, 1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("workers", [1, 2, 3, 10, 100, 1000])
def test_d_equals_the_models(workers: int, tolerance: float) -> None:
    for exponent in np.arange(0.1, 2.01, 0.3):
        head = head_of(whole_zipf_counts(exponent, 100_000, keys=2000), 1e5, workers)
        if head:
            expected = solve_choices(head, 1e5, workers, tolerance)
            assert _core.solve_choices(head, 1e5, workers, tolerance) == expected


@pytest.mark.parametrize("tolerance", [1e-12, 1e-4])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_d_equals_the_models_where_the_head_is_longer_than_needed(tolerance: float, share: float) -> None:
    # nearly every worker is a candidate of the first few hundred keys
    head = head_of(whole_zipf_counts(1.0, 1e7, keys=20_000), 1e7, 3000)
    assert len(head) > 1000
    expected = solve_choices(head, 1e7 / share, 3000, tolerance)
    assert 2 < expected < 3000 or tolerance < 1e-4
    assert _core.solve_choices(head, 1e7 / share, 3000, tolerance) == expected


def test_d_grows_with_the_skew_and_falls_with_the_tolerance() -> None:
    by_skew = [
        _core.solve_choices(head_of(zipf_counts(z, 1.0), 1.0, 50), 1.0, 50, 1e-4)
        for z in (0.8, 1.0, 1.2, 1.4, 1.6, 1.8)
    ]
    assert by_skew == sorted(by_skew)
    assert by_skew[0] < by_skew[-1] < 50
    head = head_of(zipf_counts(1.4, 1.0), 1.0, 50)
    by_tolerance = [_core.solve_choices(head, 1.0, 50, tolerance) for tolerance in (1e-6, 1e-4, 1e-2, 0.1)]
    assert by_tolerance == sorted(by_tolerance, reverse=True)
    assert by_tolerance[0] > by_tolerance[-1]


# Imbalance and replication of streams that five sources share


@cache
def measured(
    name: str, exponent: float, workers: int, seed: int, messages: int = MESSAGES
) -> tuple[float, float]:
    """Imbalance and replication at the end of a stream that goes to the sources in turn."""
    keys = stream(exponent, seed, messages)
    params = ks.grouping(name, workers=workers, seed=seed)
    answer = np.empty(len(keys), dtype=np.uint32)
    loads = np.zeros(workers)
    for source in range(SOURCES):
        router = params.router(source=source)
        answer[source::SOURCES] = router.route(keys[source::SOURCES])
        loads += router.loads
    return ks.metrics.imbalance(loads), ks.metrics.replication(keys, answer)


@cache
def stream(exponent: float, seed: int, messages: int) -> np.ndarray:
    return ks.streams.zipf(exponent, keys=KEYS, messages=messages, seed=1000 + seed)


def medians(name: str, exponent: float, workers: int) -> tuple[float, float]:
    runs = [measured(name, exponent, workers, seed) for seed in SEEDS]
    return median(run[0] for run in runs), median(run[1] for run in runs)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("exponent", "workers"), [(1.0, 50), (1.4, 50), (1.4, 100), (2.0, 100)])
def test_more_choices_balance_better(exponent: float, workers: int, seed: int) -> None:
    """Key grouping, then PKG, D-Choices and W-Choices, by wide margins at this skew and scale."""
    key, partial, d_choices, w_choices = (
        measured(name, exponent, workers, seed, 200_000)[0]
        for name in ("key", "partial_key", "d_choices", "w_choices")
    )
    assert key > 1.5 * partial
    assert partial > 5 * d_choices
    assert d_choices >= w_choices
    assert w_choices < 1e-4


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_more_choices_replicate_more(seed: int) -> None:
    """D-Choices costs less memory than W-Choices, shuffle grouping most of all."""
    replication = {
        name: measured(name, 1.4, 50, seed, 200_000)[1]
        for name in ("key", "partial_key", "d_choices", "w_choices", "shuffle")
    }
    assert replication["key"] == 1
    assert sorted(replication, key=replication.__getitem__) == list(replication)


def test_greedy_d_improves_with_d() -> None:
    keys = stream(1.4, 1, 200_000)
    imbalances = []
    for choices in (1, 2, 4, 8, 16):
        router = ks.PartialKeyGrouping(workers=50, choices=choices).router()
        router.route(keys)
        imbalances.append(ks.metrics.imbalance(router.loads))
    assert imbalances == sorted(imbalances, reverse=True)
    assert imbalances[-1] < imbalances[0] / 10


@pytest.mark.slow
@pytest.mark.parametrize(("name", "imbalance"), [("key", 0.330), ("partial_key", 0.145)])
def test_imbalance_of_the_baselines(name: str, imbalance: float) -> None:
    assert medians(name, 1.4, 50)[0] == pytest.approx(imbalance, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("exponent", "workers"), CASES)
def test_imbalance_of_w_choices(exponent: float, workers: int) -> None:
    assert max(measured("w_choices", exponent, workers, seed)[0] for seed in SEEDS) <= 1e-5


# What one run of the authors' program gave; another hash seed gives another, up to orders of magnitude away.
AUTHORS = {
    "d_choices": [1.3e-5, 1.2e-5, 9e-6, 3e-6, 2.9e-3, 3.1e-5, 5e-6, 8.3e-4],
    "round_robin": [5e-6, 6e-6, 8e-6, 8.6e-3, 2.4e-5, 5.8e-5, 1.3e-3, 4.5e-4],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AUTHORS)
def test_imbalance_as_a_distribution(name: str) -> None:
    """Each of the authors' runs is within an order of magnitude of our ten, save one; so are the means.

    The one is Round-Robin at z = 1.4 on 20 workers: 8.6e-3 there, 1e-5 here with every seed.
    """
    ours = [[measured(name, *case, seed)[0] for seed in SEEDS] for case in CASES]
    assert all(min(runs) / 10 <= theirs for runs, theirs in zip(ours, AUTHORS[name], strict=True))
    assert sum(theirs <= 10 * max(runs) for runs, theirs in zip(ours, AUTHORS[name], strict=True)) >= 7
    assert np.log10(ours).mean() == pytest.approx(np.log10(AUTHORS[name]).mean(), abs=1)


# D-Choices at z = 1.4 on 20 workers is missing: the authors' program solved d = 14 there, on over-estimated
# frequencies, where the exact ones give 10; a key's replication goes with d.
REPLICATION = {
    "key": {(1.0, 20): 1.0, (1.0, 50): 1.0, (1.0, 100): 1.0, (1.4, 50): 1.0, (2.0, 50): 1.0},
    "partial_key": {(1.0, 20): 1.6, (1.0, 50): 1.5, (1.0, 100): 1.5, (1.4, 50): 1.1},
    "d_choices": {
        (1.0, 20): 1.8,
        (1.0, 50): 1.9,
        (1.0, 100): 2.0,
        (1.4, 50): 1.3,
        (1.4, 100): 1.4,
        (2.0, 50): 1.7,
        (2.0, 100): 1.9,
    },
    "w_choices": dict(zip(CASES, [2.0, 2.2, 2.7, 1.4, 1.6, 1.9, 1.8, 2.7], strict=True)),
    "round_robin": dict(zip(CASES, [2.0, 2.2, 2.8, 1.5, 1.6, 1.9, 1.7, 2.7], strict=True)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "exponent", "workers", "replication"),
    [(name, *case, value) for name, values in REPLICATION.items() for case, value in values.items()],
)
def test_replication(name: str, exponent: float, workers: int, replication: float) -> None:
    assert medians(name, exponent, workers)[1] == pytest.approx(replication, rel=0.15)


# Power of random choices and consistent grouping (Nasir et al., arXiv 1705.09073)


@pytest.mark.parametrize("name", ["power_of_random", "bounded_ring", "consistent"])
@pytest.mark.parametrize(("workers", "bound"), [(10, 1e-3), (50, 2e-4)])
def test_imbalance_ends_at_the_bound_of_epsilon(name: str, workers: int, bound: float) -> None:
    """The largest load is (1 + epsilon) of the mean, so the imbalance is epsilon / n."""
    keys = stream(1.4, 1, 200_000)
    router = ks.grouping(name, workers=workers).router()
    router.route(keys)
    imbalance = ks.metrics.imbalance(router.loads)
    assert 0.9 * bound <= imbalance <= bound + 10 / len(keys)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "exponent", "replication"),
    [(10, 1.0, 2.95), (10, 1.4, 2.08), (50, 1.0, 4.02), (50, 1.4, 2.41)],
)
def test_replication_of_consistent_grouping(workers: int, exponent: float, replication: float) -> None:
    """One source, 10 virtual workers a worker, no signals."""
    keys = stream(exponent, 1, MESSAGES)
    answer = ks.ConsistentGrouping(workers=workers).router().route(keys)
    assert ks.metrics.replication(keys, answer) == pytest.approx(replication, rel=0.1)


# FISH (Huang, arXiv 1806.00760)


def test_the_example_of_figure_7() -> None:
    """400, 440, 280 and 180 messages assigned at time 500, of which 50, 40, 50 and 30 are unprocessed.

    They wait 50, 40, 100 and 60, because the third and the fourth worker take twice as long for a message.
    The fourth has the fewest, assigned or unprocessed; the second is free first.
    """
    router = ks.Fish(workers=4).router()
    router.observe(now=0, service_time_s=[1, 1, 2, 2])
    # One key is all that comes, so it is as hot as can be. What finds idle workers goes to the first of them.
    assert router.route(["key"] * 4, weights=[340, 390, 225, 145], now=0).tolist() == [0, 1, 2, 3]
    # All is done by 490, which the end of an interval of 10 seconds shows.
    assert router.route(["key"] * 4, weights=[60, 50, 55, 35], now=490).tolist() == [0, 1, 2, 3]
    assert router.loads.tolist() == [400, 440, 280, 180]

    router.observe(now=500)
    assert router.candidates("key").tolist() == [0, 1, 2, 3]
    # It gets all until a message would wait as long as at the first.
    assert router.route(["key"] * 11).tolist() == [1] * 10 + [0]


def drifting(exponent: float, seed: int) -> np.ndarray:
    """A stream whose keys change their frequencies every 10,000 messages."""
    ranks = ks.streams.zipf(exponent, keys=1000, messages=100_000, seed=seed)
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(1000)[part] for part in np.split(ranks, 10)])


def windowed_imbalance(answer: np.ndarray, workers: int) -> float:
    """The mean of the imbalances of windows of 1000 messages."""
    windows = answer.reshape(-1, 1000)
    return float(np.mean([ks.metrics.imbalance(np.bincount(part, minlength=workers)) for part in windows]))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("workers", [10, 50])
@pytest.mark.parametrize("exponent", [1.0, 1.4])
def test_fish_beats_w_choices_under_drift(exponent: float, workers: int, seed: int) -> None:
    """A key that has just become hot is among the head of the whole past too late."""
    keys = drifting(exponent, seed)
    fish, w_choices = (
        windowed_imbalance(ks.grouping(name, workers=workers).router().route(keys), workers)
        for name in ("fish", "w_choices")
    )
    assert 1.5 * fish < w_choices


# FlexD (Liu et al. 2024)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_flexd_replicates_less_than_w_choices(seed: int) -> None:
    flexd, w_choices = (measured(name, 1.4, 50, seed, 200_000) for name in ("flexd", "w_choices"))
    assert flexd[1] < w_choices[1]
    assert flexd[0] < measured("partial_key", 1.4, 50, seed, 200_000)[0] / 5


def test_the_first_message_of_a_burst_benefits() -> None:
    """A segment is collected before it is assigned, so a new hot key never goes to its hashed worker."""
    params = ks.FlexD(workers=10, segment_messages=1000)
    calm = np.arange(1000)
    burst = np.concatenate([np.arange(1000, 1500), np.full(500, 7777)])
    router = params.router()
    before = params.router()
    for each in (router, before):
        each.route(calm)
    before.route(burst[:500])
    hashed = ks.KeyGrouping(workers=10).router().route([7777])[0]
    least_loaded = before.loads.argmin()
    assert hashed != least_loaded
    assert router.route(burst)[500] == least_loaded
    # Without the burst in its segment the key is like any other.
    assert before.route([7777]) == [hashed]


def test_growth_slows_the_splitting_of_a_key() -> None:
    """Figure 7: the smaller the growth factor, the better the balance and the more workers a key has."""
    keys = stream(2.0, 1, 200_000)
    runs = []
    for growth in (1.1, 1.5, 4.0):
        router = ks.FlexD(workers=50, growth=growth).router()
        answer = router.route(keys)
        runs.append((ks.metrics.imbalance(router.loads), -len(set(answer[keys == 0].tolist()))))
    assert runs == sorted(runs)


def imbalance_of_two_schedulers(seed: int, exchange: bool) -> float:
    keys = ks.streams.zipf(1.4, keys=KEYS, messages=200_000, seed=seed)
    params = ks.FlexD(workers=50, seed=seed, segment_messages=2000)
    one, two = params.router(source=0), params.router(source=1)
    for part in np.split(keys, 50):
        one.route(part[0::2])
        two.route(part[1::2])
        if exchange:
            one_sent, two_sent = one.loads, two.loads
            one.observe(loads=two_sent)
            two.observe(loads=one_sent)
    return ks.metrics.imbalance(one.loads + two.loads)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_schedulers_that_exchange_loads_balance_better(seed: int) -> None:
    """A key's list is chosen by the loads, so one that knows of the other takes other workers for it."""
    alone = imbalance_of_two_schedulers(seed, exchange=False)
    assert imbalance_of_two_schedulers(seed, exchange=True) < alone / 3


# Dynamic Key Grouping (Dalabasmaz and Can)


@pytest.mark.parametrize(
    ("workers", "threshold", "most"),
    [(5, 24.47, 5), (10, 13.16, 8), (20, 7.24, 14), (50, 3.41, 30), (100, 2.00, 51)],
)
def test_the_thresholds_of_table_1(workers: int, threshold: float, most: int) -> None:
    """The most machines of a key, and L_s per cent of the messages, which decides when a key gets one more.

    With one very hot key the largest load settles there and does not fall to the mean. (In the authors'
    program, which drops fractions of per cents, it settles up to 1 per cent higher.)
    """
    params = ks.DynamicKeyGrouping(workers=workers, messages_per_s=100.0)
    assert params.max_workers_per_key == most
    router = params.router()
    answer = router.route(skewed(70, 600_000))
    largest = router.loads.max() / len(answer) * 100
    assert largest == pytest.approx(threshold, abs=0.05)


def skewed(percent: int, messages: int) -> np.ndarray:
    """204 countries, one of which has this share of the messages and the others the same share each."""
    rng = np.random.default_rng(percent)
    return np.where(rng.random(messages) < percent / 100, 0, rng.integers(1, 204, messages))


@pytest.mark.parametrize("percent", [0, 10, 30, 40, 50, 60, 70, 80, 90])
def test_dynamic_key_beats_partial_key_above_30_per_cent_skew(percent: int) -> None:
    keys = skewed(percent, 300_000)
    stddev, replication = {}, {}
    for name in ("partial_key", "dynamic_key"):
        router = ks.grouping(name, workers=10).router()
        replication[name] = ks.metrics.replication(keys, router.route(keys))
        stddev[name] = ks.metrics.load_stddev(router.loads)
    if percent >= 30:
        assert 1.5 * stddev["dynamic_key"] < stddev["partial_key"]
        assert replication["dynamic_key"] < 2 * replication["partial_key"]
    else:  # no worker exceeds its threshold, and nothing is to be done
        assert stddev["dynamic_key"] < 0.1
        assert stddev["partial_key"] < 0.1


def test_no_key_gets_more_workers_before_the_warm_up_ends() -> None:
    """However hot and old it is; the 5 seconds are 5000 messages."""
    params = ks.DynamicKeyGrouping(workers=10, warm_up_s=5.0, teenage_interval_s=0.3, old_interval_s=0.7)
    router = params.router()
    keys = skewed(70, 6000)
    router.route(keys[:5000])
    assert len(router.candidates(0)) == 2
    router.route(keys[5000:5001])
    assert len(router.candidates(0)) == 3


def test_a_key_that_cools_gives_its_workers_back() -> None:
    """As the others' messages raise what a worker may have, down to the two that every key has."""
    params = ks.DynamicKeyGrouping(workers=10, warm_up_s=1.0, teenage_interval_s=1.0, old_interval_s=2.0)
    router = params.router()
    hot = skewed(70, 20_000)
    assert len(set(router.route(hot)[hot == 0].tolist())) == 7
    router.route(skewed(0, 20_000))
    assert len(router.candidates(0)) == 2


# Distribution-aware key grouping, PStream, Dalton


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_plan_is_near_the_best_that_one_worker_a_key_allows(seed: int) -> None:
    """Where the hottest key is more than a worker's share, its worker gets hardly anything else."""
    keys = stream(1.2, seed, 200_000)
    planned = ks.DistributionAwareKeyGrouping(workers=10, seed=seed).router().route(keys)[10_000:]
    hottest = np.mean(keys[10_000:] == 0)
    assert np.bincount(planned).max() / len(planned) <= hottest + 0.005
    hashed = ks.KeyGrouping(workers=10, seed=seed).router().route(keys)[10_000:]
    assert np.bincount(hashed).max() / len(hashed) > hottest + 0.02


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_small_filter_takes_nearly_every_key_for_hot(seed: int) -> None:
    """The authors' 16 counters saturate."""
    keys = stream(1.4, seed, 200_000)
    replication = {}
    for counters in (16, 16_384):
        answer = ks.PStream(workers=50, seed=seed, filter_counters=counters).router().route(keys)
        replication[counters] = ks.metrics.replication(keys, answer)
    assert replication[16] > 2.5 * replication[16_384]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_key_that_cools_leaves_the_filter(seed: int) -> None:
    """Decay empties its bitmap while others enter, each of them once, which makes none of them hot."""
    router = ks.PStream(workers=50, seed=seed, coins=0, decay=0.1).router()
    hashed = router.candidates("key").tolist()
    router.route(["key"] * 50)
    assert len(set(router.route(["key"] * 50).tolist())) == 50
    router.route(np.arange(17 * 10))  # most_coins + 1 bits, of which ten entries shift one out
    assert router.candidates("key").tolist() == hashed
    assert router.route(["key"]).tolist() == hashed


@pytest.mark.parametrize(
    ("exponent", "counters", "imbalance", "replication", "tolerance"),
    [(1.4, 16_384, 5e-3, 1.65, 0.05), (1.7, 16_384, 3e-3, 1.80, 0.05), (1.4, 16, 1e-3, 6.6, 0.15)],
)
def test_figures_of_pstream(
    exponent: float, counters: int, imbalance: float, replication: float, tolerance: float
) -> None:
    """The authors' program: 1.0e-3 / 1.65, 8.5e-4 / 1.80; with its 16 counters a replication of 6.6.

    Its imbalance is lower because Java's hashes of numbers that follow each other spread the rare keys
    better than chance.
    """
    imbalances, replications = [], []
    for seed in SEEDS:
        keys = stream(exponent, seed, MESSAGES)
        router = ks.PStream(workers=50, seed=seed, filter_counters=counters).router()
        replications.append(ks.metrics.replication(keys, router.route(keys)))
        imbalances.append(ks.metrics.imbalance(router.loads))
    assert median(imbalances) < imbalance
    assert median(replications) == pytest.approx(replication, rel=tolerance)


def test_dalton_learns_to_spread_the_hot_keys() -> None:
    """A reward is better where the load is small; without exploration a key stays on its hashed worker."""
    keys = stream(1.4, 1, 200_000)
    imbalances, replications = [], []
    for exploration in (0.0, 0.1):
        router = ks.Dalton(workers=10, exploration=exploration).router()
        replications.append(ks.metrics.replication(keys, router.route(keys)))
        imbalances.append(ks.metrics.imbalance(router.loads))
    assert replications[0] == 1 < replications[1] < 1.1
    assert imbalances[1] < imbalances[0] / 5


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_dalton_forgets_what_has_left_its_window(seed: int) -> None:
    """A hot key avoids the worker that others load now, not the one that they have loaded most so far."""
    common = {"workers": 3, "seed": seed}
    hashed = ks.KeyGrouping(**common).router().route(np.arange(60_000))
    router = ks.Dalton(**common, interval_messages=1000, max_split=2).router()

    def workers_of_the_hot_key(loaded: int, intervals: int) -> np.ndarray:
        """Its messages to each worker in the last interval; the others, 60 per cent, come once each."""
        keys = np.zeros(1000 * intervals, dtype=np.int64)
        others = np.flatnonzero(hashed == loaded)[1:]
        keys[np.arange(len(keys)) % 5 < 3] = others[: 600 * intervals]
        answer = router.route(keys)[-1000:]
        return np.bincount(answer[keys[-1000:] == 0], minlength=3)

    first = hashed[0]
    before = workers_of_the_hot_key(first, 20)
    second = before.argmax()
    assert second != first
    assert before[second] > 0.9 * before.sum()
    after = workers_of_the_hot_key(second, 3)
    assert after[first] > 0.9 * after.sum()
