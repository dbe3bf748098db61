"""The rules that judge the claims of Load Balancing for Skewed Streams on Heterogeneous Cluster."""

from typing import Any

import numpy as np
import pytest

from keysplit.streams import zipf
from keysplit_experiments.harness import registry
from keysplit_experiments.harness.experiment import FULL, QUICK, Cell, Results
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.papers.consistent import _queues, _streams, fig9, table1
from made_up_results import Cases, only

KEYS = 1000


def table_1(p: dict[str, Any]) -> dict[str, Any]:
    papers = dict(zip(table1.BINS, table1.PAPERS[p.get("like", "WP"), p["grouping"]], strict=True))
    return {"relative_imbalance": papers[p["bins"]], "messages": p["messages"]}


def fig4(p: dict[str, Any]) -> dict[str, Any]:
    imbalances = {"key": 0.1, "partial_key": 0.05, "power_of_random": 0.3, "bounded_ring": 0.3}
    by_key = p["grouping"] in ("key", "partial_key")
    imbalance = imbalances.get(p["grouping"], 0.0) * (p["exponent"] * p["bins"] if by_key else 1)
    copies = {"key": 1, "partial_key": 1.1, "power_of_random": 1.2, "bounded_ring": 1.3}.get(p["grouping"], 2)
    return {
        "relative_imbalance": imbalance,
        "memory": copies * KEYS,
        "distinct_keys": KEYS,
        "messages": p["messages"],
    }


def fig5(p: dict[str, Any]) -> dict[str, Any]:
    imbalance = {"key": 1.0, "shuffle": 0.0}.get(p["grouping"], (p["epsilon"] or 0) / 20)
    memory = {"key": 1.0, "shuffle": 3.0}.get(p["grouping"], 2 - (p["epsilon"] or 0) / 20)
    return {"relative_imbalance": imbalance, "memory": memory * KEYS, "distinct_keys": KEYS}


COPIES = {
    "key": 1.0,
    "partial_key": 1.2,
    "power_of_two": 3.0,
    "shuffle": 3.1,
    "bounded_ring": 2.0,
    "power_of_random": 1.5,
    "consistent": 1.5,
    "circle": 2.0,
}


def by_workers(p: dict[str, Any]) -> dict[str, Any]:
    grouping, workers = p["grouping"], p["workers"]
    imbalance = {"key": workers, "power_of_two": 1e-6, "shuffle": 0.0}.get(grouping, 0.01)
    if grouping == "partial_key":
        imbalance = workers / 2 if workers > 10 else 1e-5
    return {
        "relative_imbalance": imbalance,
        "memory": COPIES[grouping] * KEYS,
        "distinct_keys": KEYS,
        "messages": p["messages"],
    }


def fig6(p: dict[str, Any]) -> dict[str, Any]:
    two_choices = {"relative_imbalance": p["workers"] / 2} if p["grouping"] == "partial_key" else {}
    return by_workers(p) | two_choices


def fig10(p: dict[str, Any]) -> dict[str, Any]:
    return {"relative_imbalance": 0.01, "memory": KEYS * (1 + p["sources"] / 100), "distinct_keys": KEYS}


def course(*gaps: float) -> dict[str, Any]:
    """The same gaps in queue, latency and utilisation, each for an equal part of the stream."""
    values = np.repeat(gaps, 100 // len(gaps)).tolist()
    positions = [(place + 1) / 100 for place in range(100)]
    return {"position": positions, **dict.fromkeys(_queues.GAPS, values), "mean_latency_s": sum(gaps)}


GROWING = course(1000.0, 2000.0, 3000.0, 4000.0, 5000.0)


def in_time(p: dict[str, Any]) -> dict[str, Any]:
    return course(1.0) if p["grouping"] == "consistent" else GROWING


def fig11(p: dict[str, Any]) -> dict[str, Any]:
    late = {5: 3.0, 10: 2.0, 20: 1.8, 50: 1.5, 100: 1.0, 1000: 1.2}[p["virtual_workers"]]
    early = 1000.0 if p["virtual_workers"] == 1000 else late
    return course(early, late, late, late)


def changing(peaks: float, late: float) -> dict[str, Any]:
    """Gaps that are high after the start and after each change, low else."""
    positions = [(place + 1) / 100 for place in range(100)]
    values = [
        peaks if any(start < position <= start + 0.05 for start in (0, 6 / 22, 12 / 22)) else late
        for position in positions
    ]
    return {**course(1.0), "position": positions, **dict.fromkeys(_queues.GAPS, values)}


def fig12(p: dict[str, Any]) -> dict[str, Any]:
    return changing(100.0, 1.0) if p["grouping"] == "consistent" else GROWING


like_wp = {"like": "WP"}
CASES: Cases = {
    "consistent/table1": (
        table_1,
        [
            only({"relative_imbalance": 103.0}, **like_wp, grouping="key", bins=1000),
            only({"relative_imbalance": 3.3}, **like_wp, grouping="partial_key", bins=100),
            only({"relative_imbalance": 1e-3}, **like_wp, grouping="partial_key", bins=10),
            only({"relative_imbalance": 1.0}, like="TW", grouping="key", bins=10),
            only({"relative_imbalance": 10.0}, like="TW", grouping="partial_key", bins=100),
            only({"relative_imbalance": 122.0}, like="TW", grouping="partial_key", bins=1000),
            only({"relative_imbalance": 0.3}, like="TW", grouping="partial_key", bins=10),
            only({"relative_imbalance": 6e-3}, stream="TW", grouping="power_of_two", bins=100),
            only({"relative_imbalance": 4e-3}, stream="WP", grouping="shuffle", bins=100),
            only({"relative_imbalance": 0.26}, like="TW", grouping="bounded_ring", bins=10),
            only({"relative_imbalance": 0.1}, stream="TW", grouping="partial_key", bins=1000),
        ],
    ),
    "consistent/fig4": (
        fig4,
        [
            only({"relative_imbalance": 1.0}, grouping="partial_key", exponent=2.0, bins=1000),
            only({"relative_imbalance": 0.31}, grouping="bounded_ring", exponent=0.8, bins=10),
            only({"memory": 2 * KEYS}, grouping="power_of_random", exponent=0.8, bins=1000),
        ],
    ),
    "consistent/fig5": (
        fig5,
        [
            only({"memory": 2 * KEYS}, epsilon=0.1, stream="WP"),
            only({"relative_imbalance": 1.1}, epsilon=0.1, like="WP"),
        ],
    ),
    "consistent/fig6": (
        fig6,
        [
            only({"relative_imbalance": 0.09}, grouping="partial_key", workers=100),
            only({"relative_imbalance": 21 * 10.0}, grouping="key", workers=100),
            only({"relative_imbalance": 0.2}, grouping="power_of_two", workers=100, stream="WP"),
            only({"relative_imbalance": 0.02}, grouping="power_of_random", workers=5, stream="WP"),
            only({"memory": 1.9 * KEYS}, grouping="power_of_random", workers=5),
        ],
    ),
    "consistent/fig9": (
        by_workers,
        [
            only({"relative_imbalance": 101.0}, grouping="partial_key", workers=100),
            only({"relative_imbalance": 0.011}, grouping="partial_key", workers=10),
            only({"memory": 1.9 * KEYS}, grouping="shuffle", workers=10),
            only({"relative_imbalance": 0.02}, grouping="consistent", workers=5, like="WP"),
            only({"memory": 2.1 * KEYS}, grouping="consistent", workers=50),
        ],
    ),
    "consistent/fig10": (
        fig10,
        [
            only({"relative_imbalance": 0.2}, sources=100, workers=5),
            only({"memory": 11 * KEYS}, sources=50, workers=5),
            only({"relative_imbalance": 0.2}, workers=100),
            only({"memory": 20 * KEYS}, workers=100),
        ],
    ),
    "consistent/fig7": (
        in_time,
        [
            only(course(1000.0, 2000.0, 2900.0), grouping="key"),
            only({"latency_gap_s": [50.0] * 100}, grouping="consistent"),
            only({"utilisation_gap": [50.0] * 100}, grouping="consistent"),
        ],
    ),
    "consistent/fig8": (
        in_time,
        [
            only(course(1000.0, 1000.0), grouping="shuffle", strong=3),
            only({"queue_gap": [500.0] * 100}, grouping="consistent", strong=3),
            only({"utilisation_gap": [50.0] * 100}, grouping="consistent", strong=3),
            only({"queue_gap": [500.0] * 100}, grouping="consistent", strong=9),
        ],
    ),
    "consistent/fig11": (
        fig11,
        [
            only({"utilisation_gap": [1.9] * 100}, virtual_workers=5),
            only(course(1.2), virtual_workers=1000),
            only({"mean_latency_s": 1000.0}, virtual_workers=20),
            only({"utilisation_gap": [0.9] * 100}, virtual_workers=50),
        ],
    ),
    "consistent/fig12": (
        fig12,
        [
            only(changing(100.0, 11.0), grouping="consistent"),
            only(changing(10_000.0, 250.0), grouping="consistent"),
        ],
    ),
}


def test_full_runs_have_the_papers_sizes() -> None:
    cells = {name: list(registry.registered()[name].cells(FULL)) for name in CASES}
    assert {cell["messages"] for cell in cells["consistent/fig12"] if "like" in cell} == {22_000_000}
    assert {cell["bins"] for cell in cells["consistent/table1"]} == {10, 100, 1000, 10_000}
    assert {cell["messages"] for cell in cells["consistent/fig4"]} == {10_000_000}
    assert {cell["sources"] for cell in cells["consistent/fig10"]} == {1, 10, 50, 100}
    assert {cell["virtual_workers"] for cell in cells["consistent/fig11"]} == {5, 10, 20, 50, 100, 1000}


def test_streams_are_told_apart() -> None:
    cells = [_streams.drawn(QUICK, "WP"), _streams.real(QUICK, "WP"), _streams.drawn(QUICK, "WP")]
    named = _streams.named(Results([Cell(cell, {}) for cell in cells]))
    assert named == [("like WP", {"like": "WP"}), ("WP", {"stream": "WP"})]
    keys = _streams.keys_of(Inputs(), 50_000, like="WP")
    assert np.mean(np.asarray(keys) == 0) == pytest.approx(0.0932, abs=0.005)


def test_virtual_workers_on_a_circle_are_bounded() -> None:
    keys = zipf(1.2, 1000, 20_000, seed=1)
    found = fig9.circle(keys, workers=5, seed=1)
    # 400 messages a virtual worker, 1 per cent and one more at most
    assert found["relative_imbalance"] <= 405 / 400 - 1
    assert found["distinct_keys"] == len(set(keys.tolist()))
    assert found["distinct_keys"] < found["memory"] <= 5 * found["distinct_keys"]


def test_speeds_keep_their_sum() -> None:
    assert _queues.capacities(3, 5.0) == [5.0] * 3 + [1.0] * 7
    assert _queues.capacities(3, 5.0, first=9) == [5.0] * 2 + [1.0] * 7 + [5.0]
    assert _queues.capacities(10, 1.0) == [1.0] * 10


def test_the_gap_leaves_out_workers_without_messages() -> None:
    assert _queues.gap(np.array([[1.0, 4.0, 2.0], [np.nan, 3.0, 5.0]])).tolist() == [3.0, 2.0]


def test_shuffle_grouping_asks_for_four_fifths_of_equal_workers() -> None:
    keys = np.arange(20_000)
    equal = _queues.queues(_queues.params_of("shuffle"), keys, [1.0] * 10)
    # a message waits for none: every worker has one in hand four fifths of the time
    service_time_s = 0.8 * 10 * _queues.DURATION_S / 20_000
    assert equal["max_latency_s"] == pytest.approx(service_time_s)
    weak = _queues.queues(_queues.params_of("shuffle"), keys, _queues.capacities(3, 5.0))
    # a slow worker gets a tenth of the messages and does 1/22 of all: 2000 less what it can serve by then
    assert weak["queue_gap"][-1] == pytest.approx(2000 - 20_000 / 22 / 0.8, rel=0.01)


def test_a_change_of_speeds_counts_from_its_position() -> None:
    keys = np.arange(20_000)
    speeds, others = _queues.capacities(1, 2.0), _queues.capacities(1, 2.0, first=1)
    found = _queues.queues(_queues.params_of("key"), keys, speeds, [(10_000, others)])
    never = _queues.queues(_queues.params_of("key"), keys, speeds)
    for figure in _queues.GAPS:
        assert found[figure][:50] == never[figure][:50]
        assert found[figure][50:] != never[figure][50:]
