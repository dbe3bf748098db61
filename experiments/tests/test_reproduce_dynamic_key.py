"""The rules that judge the claims of Dynamic Key Grouping, on made-up results, and its measures."""

from typing import Any

import numpy as np
import pytest

import keysplit as ks
from keysplit_experiments.harness import registry
from keysplit_experiments.harness.experiment import FULL
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.papers.dynamic_key import DKG, PAPER
from keysplit_experiments.papers.dynamic_key import _performance as performance
from keysplit_experiments.papers.dynamic_key import table1 as thresholds
from keysplit_experiments.papers.dynamic_key import table3 as election
from made_up_results import Cases, only


def metrics(latency: float, deviation: float, cost: float, throughput: float) -> dict[str, Any]:
    return dict(zip(performance.METRICS, (latency, deviation, cost, throughput), strict=True))


def table1(p: dict[str, Any]) -> dict[str, Any]:
    ideal, threshold, most = thresholds.PAPERS[p["workers"]]
    return {"ideal": ideal, "threshold": threshold, "allowed": most, "reached": most}


def table3(p: dict[str, Any]) -> dict[str, Any]:
    return metrics(*election.PAPERS.get(p["grouping"], (900.0, 4.0, 1.3, 6000.0)))


def fig9(p: dict[str, Any]) -> dict[str, Any]:
    if p["stream"] == "wikipedia-clickstream" and p["grouping"] == "key":
        return metrics(100.0, 2.0, 1.0, 9000.0)
    even = {"shuffle": (500.0, 0.0, 9.0, 9500.0), "key": (900.0, 5.0, 1.0, 5000.0)}
    two = (600.0, 1.0, 1.2, 8000.0)
    return table3(p) if p["stream"] == "twitter-election" else metrics(*even.get(p["grouping"], two))


def skew(p: dict[str, Any]) -> dict[str, Any]:
    """A worker's largest share decides: KG and PKG are as skewed as the stream, DKG little."""
    ratio, grouping = p["ratio"], p["grouping"]
    if grouping == "shuffle":
        return metrics(1000.0, 0.0, 10.0, 9500.0)
    share = {"key": max(0.13, ratio / 100 * 0.65), "partial_key": max(0.1, ratio / 200)}.get(grouping)
    if share is None:
        share = 0.102 + 0.0004 * ratio + (0.02 if ratio == 20 else 0.025 if ratio == 30 else 0)
    cost = {"key": 1.0, "partial_key": 1.6}.get(grouping, 8.0 if ratio == 100 else 2.0)
    return metrics(10_000 * share, 100 * (share - 0.1), cost, 950 / share)


def fig12(p: dict[str, Any]) -> dict[str, Any]:
    latency = {"shuffle": 5000 / p["workers"], "key": 4000.0, "partial_key": 2000.0}.get(
        p["grouping"], 1000.0
    )
    deviation = {"shuffle": 0.0, "key": 200.0, "partial_key": 120.0}.get(p["grouping"], 40.0) / p["workers"]
    cost = {"shuffle": 3.0, "key": 1.0, "partial_key": 1.1}.get(p["grouping"], 1.2)
    return metrics(latency, deviation, cost, 5_000_000 / latency)


COUNTS = {"like": "twitter-election"}
CASES: Cases = {
    "dynamic_key/table1": (
        table1,
        [
            only({"threshold": 7.25}, workers=20),
            only({"reached": 50}, workers=100),
        ],
    ),
    "dynamic_key/table3": (
        table3,
        [
            only({"load_stddev": 13.0}, **COUNTS, grouping=DKG),
            only({"load_stddev": 0.01}, **COUNTS, grouping="shuffle"),
            only({"makespan_s": 3500.0}, **COUNTS, grouping="key"),
            only({"throughput_per_s": 2400.0}, **COUNTS, grouping="partial_key"),
            only({"replication": 1.03}, **COUNTS, grouping="partial_key"),
            only({"makespan_s": 1000.0}, **COUNTS, grouping=DKG),
            only({"replication": 1.4}, **COUNTS, grouping=DKG),
        ],
    ),
    "dynamic_key/fig9": (
        fig9,
        [
            only({"throughput_per_s": 9999.0}, stream="twitter-election", grouping="key"),
            only({"replication": 2.0}, stream="twitter-election", grouping=DKG),
            only({"makespan_s": 800.0}, stream="wikipedia-pageviews", grouping=DKG),
            only({"makespan_s": 700.0}, stream="wikipedia-clickstream", grouping="key"),
        ],
    ),
    "dynamic_key/fig10": (
        skew,
        [
            only({"throughput_per_s": 9000.0}, grouping="shuffle", ratio=90),
            only({"throughput_per_s": 1000.0}, grouping="key", ratio=20),
            only({"throughput_per_s": 5000.0}, grouping="key", ratio=90),
            only({"throughput_per_s": 6000.0}, grouping="partial_key", ratio=20),
            only({"replication": 3.0}, grouping=DKG, ratio=80),
            only({"throughput_per_s": 2000.0}, grouping=DKG, ratio=80),
            only({"replication": 11.0}, grouping="key", ratio=0),
        ],
    ),
    "dynamic_key/fig11": (
        skew,
        [
            only({"makespan_s": 2600.0}, grouping=DKG, ratio=50),
            only({"load_stddev": 6.0}, grouping=DKG, ratio=40),
            only({"replication": 4.0}, grouping=DKG, ratio=50),
            only({"replication": 3.0}, grouping=DKG, ratio=100),
            only({"throughput_per_s": 1.0}, grouping="key", ratio=0),
            only({"throughput_per_s": 9501.0}, grouping=DKG, ratio=10),
            only({"throughput_per_s": 3000.0}, grouping=DKG, ratio=60),
            only({"makespan_s": 1200.0}, grouping=DKG, ratio=30),
            only({"throughput_per_s": 5000.0}, grouping="partial_key"),
        ],
    ),
    "dynamic_key/fig12": (
        fig12,
        [
            only({"makespan_s": 1500.0}, **COUNTS, grouping="partial_key", workers=100),
            only({"makespan_s": 500.0}, **COUNTS, grouping=DKG, workers=100),
            only({"makespan_s": 2100.0}, **COUNTS, grouping=DKG),
            only({"load_stddev": 3.0}, **COUNTS, grouping=DKG),
            only({"replication": 2.1}, **COUNTS, grouping=DKG, workers=100),
            only({"throughput_per_s": 30_000.0}, **COUNTS, grouping=DKG, workers=100),
        ],
    ),
    "dynamic_key/fig13": (
        table3,
        [
            only({"throughput_per_s": 3100.0}, **COUNTS, grouping="partial_key", sources=20),
            only({"load_stddev": 13.0}, **COUNTS, grouping=DKG, sources=15),
            only({"replication": 1.6}, **COUNTS, grouping=DKG, sources=15),
        ],
    ),
}


def test_full_runs_have_the_papers_sizes() -> None:
    cells = {name: list(registry.registered()[name].cells(FULL)) for name in CASES}
    assert {cell["messages"] for cell in cells["dynamic_key/fig10"]} == {10_000_000}
    assert {cell["ratio"] for cell in cells["dynamic_key/fig11"]} == set(range(0, 101, 10))
    assert {cell["workers"] for cell in cells["dynamic_key/fig12"]} == {10, 50, 100}
    assert {cell["sources"] for cell in cells["dynamic_key/fig13"]} == {5, 10, 15, 20}


def test_a_short_stream_takes_the_time_of_the_papers() -> None:
    for messages in (10_000, 20_000):
        found = performance.performance(ks.ShuffleGrouping(workers=10), np.arange(messages), 5_320_000)
        assert found["makespan_s"] == pytest.approx(559.329, rel=0.01)
        assert found["throughput_per_s"] == pytest.approx(9511, rel=0.01)
        assert found["largest_share"] == pytest.approx(0.1, rel=0.01)


def test_the_drawn_election_has_the_papers_hot_key() -> None:
    keys = performance.election_of(Inputs(), 200_000, like="twitter-election")
    dataset = PAPER.datasets["twitter-election"]
    assert np.mean(keys == 0) == pytest.approx(dataset.top_share, abs=0.01)
    assert ks.simulate(ks.ShuffleGrouping(workers=10), keys, sources=5).replication == pytest.approx(
        2.45, rel=0.05
    )


def test_ratios_are_over_the_largest() -> None:
    assert performance.ratios({"a": 2.0, "b": 4.0}) == {"a": 0.5, "b": 1.0}
    assert performance.ratios({"a": 0.0}) == {"a": 0.0}
