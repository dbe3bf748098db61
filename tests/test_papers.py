"""What the papers and their authors' programs report, on seeded streams.

When Two Choices Are Not Enough (Nasir et al., ICDE 2016): section IV-A for d, section V for the imbalance.
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
