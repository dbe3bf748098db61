"""The experiments of the FISH paper: what they compute themselves, and the rules that judge its claims."""

import math
from typing import Any

import numpy as np
import pytest

import keysplit as ks
from keysplit_experiments.harness import registry
from keysplit_experiments.harness.experiment import FULL, Cell, Results
from keysplit_experiments.papers.fish import fig17
from keysplit_experiments.papers.fish._parts import (
    DECAY,
    DEVIATIONS,
    EPOCH_MESSAGES,
    RecentCounts,
    fewest_choices,
    occurrence,
    route,
    time_in_windows,
)
from keysplit_experiments.papers.fish._runs import over_ideal, ratio
from made_up_results import Cases, only


def results(*cells: tuple[dict[str, Any], dict[str, Any]]) -> Results:
    """Make results up."""
    return Results([Cell(*cell) for cell in cells])


# FISH with parts of D-Choices and W-Choices


def test_occurrences_are_counted_from_one() -> None:
    keys = ks.streams.zipf(1.0, keys=20, messages=500, seed=1)
    seen: dict[int, int] = {}
    expected = []
    for key in keys.tolist():
        seen[key] = seen.get(key, 0) + 1
        expected.append(seen[key])
    assert occurrence(keys).tolist() == expected
    assert occurrence(keys[:0]).tolist() == []


def test_recent_counts_say_what_is_hot_when_it_comes() -> None:
    keys = ks.streams.zipf(1.0, keys=300, messages=4_300, seed=1)
    recent = RecentCounts(300, workers=10)
    found = np.concatenate(
        [recent.hot(keys[start : start + EPOCH_MESSAGES]) for start in range(0, len(keys), EPOCH_MESSAGES)]
    )
    counts, total, expected = [0.0] * 300, 0.0, []
    for position, key in enumerate(keys.tolist()):
        if position and position % EPOCH_MESSAGES == 0:
            counts = [int(count * DECAY * 16) / 16 for count in counts]
            total *= DECAY
        counts[key] += 1
        total += 1
        expected.append(counts[key] > total / 40 + DEVIATIONS * math.sqrt(total / 40))
    assert found.tolist() == expected
    assert 0 < sum(expected) < len(expected)


def test_recent_counts_are_those_of_fish() -> None:
    workers = 16
    keys = ks.streams.zipf(1.4, keys=500, messages=5_500, seed=2)
    router = ks.Fish(workers=workers, seed=1).router()
    router.route(keys)
    recent = RecentCounts(500, workers)
    for start in range(0, 5_000, EPOCH_MESSAGES):
        recent.hot(keys[start : start + EPOCH_MESSAGES])
    rest = keys[5_000:]
    hot = [bool(recent_copy(recent).hot(np.append(rest, key))[-1]) for key in range(500)]
    spread = [len(router.candidates(key)) for key in range(500)]
    assert all(is_hot for is_hot, d in zip(hot, spread, strict=True) if d > 2)
    assert sum(d > 2 for d in spread) > 5
    assert all(d == 2 for is_hot, d in zip(hot, spread, strict=True) if not is_hot)


def recent_copy(recent: RecentCounts) -> RecentCounts:
    """Copy counts, so that another epoch can be tried on them."""
    copy = RecentCounts(len(recent.counts), recent.workers)
    copy.counts, copy.total = recent.counts.copy(), recent.total
    return copy


@pytest.mark.parametrize(
    ("exponent", "workers", "choices"),
    [(1.0, 20, 3), (1.0, 50, 6), (1.0, 100, 12), (1.4, 20, 10), (1.4, 50, 22), (1.4, 100, 43), (2.0, 50, 49)],
)
def test_the_fewest_choices_are_those_of_the_paper(exponent: float, workers: int, choices: int) -> None:
    shares = np.arange(1, 10_001) ** -exponent
    shares /= shares.sum()
    assert fewest_choices(shares[shares >= 1 / (5 * workers)].tolist(), workers) == choices


def test_nothing_hot_needs_two_choices() -> None:
    assert fewest_choices([], 10) == 2
    assert fewest_choices([], 1) == 1


@pytest.mark.parametrize("part", ["w_choices", "d_choices"])
def test_hot_keys_are_spread_and_rare_ones_are_not(part: str) -> None:
    keys = ks.streams.zipf(1.6, keys=1_000, messages=20_000, seed=1)
    sent = route(keys, 10, seed=1, part=part)
    plain = ks.Fish(workers=10, seed=1, threshold=1.0).router()
    counts = np.bincount(keys)
    once = np.flatnonzero(counts == 1)
    assert len(set(sent[keys == 0].tolist())) > 2
    assert len(once) > 20
    assert all(int(sent[keys == key][0]) in plain.candidates(int(key)) for key in once)
    assert ks.metrics.imbalance(np.bincount(sent, minlength=10)) < 0.01


def test_windows_wait_for_their_fullest_worker() -> None:
    sent = np.array([0, 0, 0, 1, 0, 1, 2, 1], dtype=np.uint32)
    assert time_in_windows(sent, workers=3, window=4) == (3 + 2) * 3 / 8


# figures


def test_times_are_told_over_those_of_workers_that_are_never_idle() -> None:
    told = over_ideal({"messages": 4_000, "makespan_s": 3.0}, workers=4, speed=1.5)
    assert told["time"] == pytest.approx(4.5)


def test_ratios_are_of_medians_by_stream_and_workers() -> None:
    found = ratio(
        results(
            *[
                ({"exponent": 1.0, "workers": 16, "seed": seed, "part": part}, {"time": time * scale})
                for seed, time in ((1, 1.0), (2, 5.0), (3, 2.0))
                for part, scale in (("a", 3.0), ("b", 1.0))
            ],
            ({"stream": "AM", "workers": 16, "seed": 1, "part": "a"}, {"time": 1.0}),
            ({"stream": "AM", "workers": 16, "seed": 1, "part": "b"}, {"time": 4.0}),
        ),
        "time",
        {"part": "a"},
        {"part": "b"},
    )
    assert found == {(1.0, 16): 3.0, ("AM", 16): 0.25}


def test_the_change_of_workers_is_in_the_middle_half() -> None:
    drawn = [fig17.change_at(1_000, 8, seed) for seed in range(200)]
    assert all(250 <= position < 750 for position, _ in drawn)
    assert {worker for _, worker in drawn} == set(range(8))


# results for the claims


def fig2(p: dict[str, Any]) -> dict[str, Any]:
    p99 = {"SG": 2, "FG": 3000, "PKG": 2000, "D-C100": 1000, "W-C100": 900, "D-C1000": 1900, "W-C1000": 1900}
    return {"p99_ms": p99[p["series"]]}


def fig3(p: dict[str, Any]) -> dict[str, Any]:
    n = p["workers"]
    copies = {"SG": 0.2 * n, "D-C100": 0.15 * n, "W-C100": 0.18 * n, "FG": 1.0}
    return {"replication": copies.get(p["series"], 1.8), "messages": 1000, "distinct_keys": 100}


SHUFFLE_S = 1000.0


def fig9(p: dict[str, Any]) -> dict[str, Any]:
    times = {"shuffle": 1.0, "fish": 1.05, "partial_key": 1.05 * p["workers"] / 16}
    return {"makespan_s": SHUFFLE_S * times.get(p["grouping"], 1.05 * (1 + p["workers"] / 64))}


def fig10(p: dict[str, Any]) -> dict[str, Any]:
    hard = p["workers"] * p["exponent"]
    times = {"shuffle": 1.0, "fish": 1.1, "partial_key": 1 + hard / 10}
    return {"makespan_s": SHUFFLE_S * times.get(p["grouping"], 1.1 + hard / 60)}


def fig11(p: dict[str, Any]) -> dict[str, Any]:
    return {"replication": {"shuffle": p["workers"] / 2, "fish": 2.0}.get(p["grouping"], 1.5)}


def fig12(p: dict[str, Any]) -> dict[str, Any]:
    time = 1 + (p["exponent"] - 0.9) * p["workers"] / 64 if p["decay"] == 1 else 1.0
    return {"time": time, "replication": 5.2 - 1.6 * p["exponent"] if p["decay"] == 0 else 2.0}


def fig13(p: dict[str, Any]) -> dict[str, Any]:
    more = p["threshold"] == "1/(8n)" and p["exponent"] == 1
    return {"time": 1.3 if p["threshold"] == "2/n" else 1.0, "replication": 2.2 if more else 2.0}


def fig14(p: dict[str, Any]) -> dict[str, Any]:
    return {"time": 1 + (p["exponent"] - 1) * p["workers"] / 32 if p["counting"] == "lifetime" else 1.0}


def fig15(p: dict[str, Any]) -> dict[str, Any]:
    return {
        "fish": {"replication": 2.0, "time": 1.01},
        "w_choices": {"replication": 2 + p["workers"] / 32, "time": 1.0},
        "d_choices": {"replication": 1.9, "time": 1.1},
    }[p["part"]]


def fig16(p: dict[str, Any]) -> dict[str, Any]:
    return {"time": 2.2 if p["assignment"] == "load" else 1.0}


def fig17_(p: dict[str, Any]) -> dict[str, Any]:
    return {"with": 2.0, "without": 5.2 - 1.4 * p["exponent"]}


fish, two, learned = {"grouping": "fish"}, {"grouping": "partial_key"}, {"grouping": "w_choices"}
CASES: Cases = {
    "fish/fig2": (
        fig2,
        [
            only({"p99_ms": 19}, series="PKG", workers=128),
            only({"p99_ms": 3001}, series="PKG", workers=16),
            only({"p99_ms": 1500}, series="W-C1000", workers=16),
            only({"p99_ms": 1950}, series="W-C100", workers=128),
        ],
    ),
    "fish/fig3": (
        fig3,
        [
            only({"replication": 1.1}, series="FG", workers=32),
            only({"replication": 2.8}, series="SG", workers=16),
            only({"replication": 6.0}, series="D-C100", workers=64),
            only({"replication": 4.7}, series="D-C100", workers=128),
        ],
    ),
    "fish/fig9": (
        fig9,
        [
            only({"makespan_s": 1.08 * SHUFFLE_S}, **fish, stream="AM", workers=16),
            only({"makespan_s": SHUFFLE_S}, **learned, stream="MT", workers=32),
            only({"makespan_s": SHUFFLE_S}, **two, stream="AM", workers=64),
            only({"makespan_s": 2 * SHUFFLE_S}, **learned),
        ],
    ),
    "fish/fig10": (
        fig10,
        [
            only({"makespan_s": 1.33 * SHUFFLE_S}, **fish, exponent=1.4, workers=16),
            only({"makespan_s": 30 * SHUFFLE_S}, **two, exponent=1.0, workers=16),
            only({"makespan_s": 10 * SHUFFLE_S}, **learned, exponent=1.0, workers=32),
            only({"makespan_s": 5 * SHUFFLE_S}, **two, exponent=1.4, workers=64),
            only({"makespan_s": 1.1 * SHUFFLE_S}, **learned, exponent=2.0, workers=128),
            only({"makespan_s": 2 * SHUFFLE_S}, **learned),
        ],
    ),
    "fish/fig11": (
        fig11,
        [
            only({"replication": 2.7}, **fish, exponent=1.0, workers=128),
            only({"replication": 9.9}, grouping="shuffle", exponent=2.0, workers=128),
            only({"replication": 2.7}, **learned, stream="AM", workers=128),
        ],
    ),
    "fish/fig12": (
        fig12,
        [
            only({"time": 1.1}, decay=1.0, exponent=2.0, workers=128),
            only({"time": 1.9}, decay=1.0),
            only({"time": 1.2}, decay=0.0, exponent=2.0, workers=16),
            only({"replication": 2.9}, decay=0.0),
            only({"replication": 1.7}, decay=0.6),
        ],
    ),
    "fish/fig13": (
        fig13,
        [
            only({"time": 1.3}, threshold="1/n", workers=64),
            only({"replication": 1.4}, threshold="2/n", workers=16),
            only({"replication": 2.0}, threshold="1/(8n)", workers=64),
        ],
    ),
    "fish/fig14": (
        fig14,
        [
            only({"time": 0.9}, counting="lifetime", exponent=1.0, workers=16),
            only({"time": 1.9}, counting="lifetime", exponent=2.0, workers=64),
        ],
    ),
    "fish/fig15": (
        fig15,
        [
            only({"replication": 1.9}, part="w_choices", exponent=1.4, workers=32),
            only({"replication": 2.1}, part="d_choices"),
            only({"time": 1.02}, part="d_choices"),
        ],
    ),
    "fish/fig16": (
        fig16,
        [
            only({"time": 1.0}, assignment="load", stream="AM", workers=64),
            only({"time": 1.9}, assignment="load"),
        ],
    ),
    "fish/fig17": (
        fig17_,
        [
            only({"without": 3.3}, change="add", exponent=1.0, workers=16),
            only({"without": 4.0}, change="remove", exponent=2.0, workers=64),
        ],
    ),
}


def test_full_runs_have_the_papers_sizes() -> None:
    cells = {name: list(registry.registered()[name].cells(FULL)) for name in CASES}
    assert {cell["messages"] for cell in cells["fish/fig10"]} == {5_000_000}
    assert {cell["messages"] for cell in cells["fish/fig9"]} == {49_210_000, 7_910_000}
    assert {cell["workers"] for cell in cells["fish/fig10"]} == {16, 32, 64, 128}
    assert {cell["exponent"] for cell in cells["fish/fig12"]} == {1.0, 1.2, 1.4, 1.6, 1.8, 2.0}
    assert {cell["decay"] for cell in cells["fish/fig12"]} == {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}
