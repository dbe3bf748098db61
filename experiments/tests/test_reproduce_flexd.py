"""The experiments of the FlexD paper: the rules that judge its claims, on made-up results."""

from typing import Any

import pytest

from keysplit_experiments.harness import registry
from keysplit_experiments.harness.experiment import FULL
from keysplit_experiments.papers.flexd.fig14 import straight
from made_up_results import Cases, only


def test_a_straight_line_explains_what_is_straight() -> None:
    assert straight([1.0, 2.0, 3.0, 4.0]) == pytest.approx(1)
    assert straight([1.0, 1.0, 1.0]) == 1
    assert straight([0.0, 1.0, 0.0, 1.0, 0.0]) < 0.5


def fig7(p: dict[str, Any]) -> dict[str, Any]:
    copies = 2 - p["growth"] / 10
    return {"relative_imbalance": p["growth"] / 100, "replication": copies}


def fig8(p: dict[str, Any]) -> dict[str, Any]:
    highest, falls = {
        "flexd": (480, 1),
        "pstream": (470, 5),
        "dalton": (400, 20),
        "key": (300, 50),
        "distribution_aware": (200, 30),
    }[p["grouping"]]
    return {"throughput_per_minute": highest - falls * p["exponent"], "replication": 1.0}


def course(first: float, later: float) -> dict[str, Any]:
    return {"imbalance": [first] + 99 * [later], "at_end": later, "replication": 1.0}


def fig9(p: dict[str, Any]) -> dict[str, Any]:
    late = {"pstream": 2.0, "dalton": 3.0}.get(p["grouping"], 9.0)
    if p["grouping"] in ("key", "distribution_aware"):
        return course(1.0, 1.0)
    return course(0.5 if p["exponent"] >= late else 0.05, 0.02 if p["grouping"] == "flexd" else 0.05)


def fig11(p: dict[str, Any]) -> dict[str, Any]:
    levels = {
        "Voters": {"flexd": 0.02, "pstream": 0.025, "dalton": 0.3},
        "Amazon": {"flexd": 0.05, "pstream": 0.1, "dalton": 0.12},
    }[p["stream"]]
    level = levels.get(p["grouping"], 1.0)
    return {**course(level, level), "replication": {"flexd": 1.1, "pstream": 1.5}.get(p["grouping"], 1.2)}


def fig13(p: dict[str, Any]) -> dict[str, Any]:
    words = p["stream"] == "WikiText"
    levels = {"flexd": 0.03, "pstream": 0.02, "dalton": 0.1 if words else 0.02, "key": 0.5 if words else 0.1}
    level = levels.get(p["grouping"], 0.3)
    return course(level, level)


def fig14(p: dict[str, Any]) -> dict[str, Any]:
    part = p["so_far"] / p["messages"]
    copies = {"pstream": 2.0, "flexd": 1.2, "dalton": 1 + 0.2 * part}.get(p["grouping"], 1.0)
    return {"replication": copies, "relative_imbalance": 0.05}


CASES: Cases = {
    "flexd/fig7": (
        fig7,
        [
            only({"relative_imbalance": 0.06}, growth=1.1, exponent=2.0),
            only({"replication": 1.95}, growth=5.0, exponent=1.5),
            only({"relative_imbalance": 0.014, "replication": 1.6}, growth=2.0, exponent=1.5),
        ],
    ),
    "flexd/fig8": (
        fig8,
        [
            only({"throughput_per_minute": 490.0}, grouping="pstream", exponent=2.0),
            only({"throughput_per_minute": 160.0}, grouping="key", exponent=1.0),
            only({"throughput_per_minute": 500.0}, exponent=3.0),
            only({"throughput_per_minute": 300.0}, grouping="flexd", exponent=3.0),
        ],
    ),
    "flexd/fig9": (
        fig9,
        [
            only({"at_end": 0.1}, grouping="distribution_aware", exponent=1.0),
            only({"imbalance": 100 * [0.2]}, grouping="dalton", exponent=1.5),
            only({"imbalance": 100 * [0.05]}, grouping="pstream", exponent=2.0),
            only({"imbalance": 100 * [0.05]}, grouping="dalton", exponent=3.0),
            only({"imbalance": [0.02, 0.11] + 98 * [0.02]}, grouping="flexd", exponent=1.0),
            only({"imbalance": 100 * [0.01]}, grouping="pstream", exponent=2.5),
        ],
    ),
    "flexd/fig11": (
        fig11,
        [
            only({"imbalance": 100 * [0.01]}, grouping="pstream", stream="Voters"),
            only({"imbalance": 100 * [0.04]}, grouping="pstream", stream="Voters"),
            only({"imbalance": 100 * [0.2]}, grouping="dalton", stream="Amazon"),
            only({"replication": 1.6}, grouping="flexd", stream="Voters"),
        ],
    ),
    "flexd/fig13": (
        fig13,
        [
            only({"imbalance": 100 * [0.05]}, grouping="flexd", stream="WikiText"),
            only({"at_end": 0.4}, grouping="key", stream="T4SA"),
            only({"imbalance": 100 * [0.2]}, grouping="pstream", stream="WikiText"),
        ],
    ),
    "flexd/fig14": (
        fig14,
        [
            only({"replication": 1.1}, grouping="distribution_aware", so_far=100_000),
            only({"replication": 1.6}, grouping="flexd", so_far=100_000),
            only({"replication": 5.0}, grouping="dalton", so_far=100_000),
            only({"relative_imbalance": 0.2}, grouping="flexd", so_far=100_000),
        ],
    ),
}


def test_full_runs_have_the_papers_sizes() -> None:
    cells = {name: list(registry.registered()[name].cells(FULL)) for name in CASES}
    assert {cell["exponent"] for cell in cells["flexd/fig9"]} == {1.0, 1.5, 2.0, 2.5, 3.0}
    assert {cell["messages"] for cell in cells["flexd/fig13"]} == {3_400_000, 100_000_000}
