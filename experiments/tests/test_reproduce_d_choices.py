"""The rules that judge the claims of When Two Choices Are not Enough, on made-up results."""

import math
from typing import Any

from keysplit_experiments.harness import registry
from keysplit_experiments.harness.experiment import FULL
from made_up_results import Cases, made, only

LOW = {"partial_key": 0.3, "d_choices": 1e-4, "round_robin": 1.1e-4, "w_choices": 1e-6}


def fig1(p: dict[str, Any]) -> dict[str, Any]:
    imbalance = p["workers"] / 1000 if p["workers"] >= 20 else 1e-4
    return {"imbalance": imbalance if p["grouping"] == "partial_key" else 1e-5}


def fig3(p: dict[str, Any]) -> dict[str, Any]:
    return {
        "head": round((p["workers"] if p["threshold"] == "1/(5n)" else 4) * (1 - abs(p["exponent"] - 1.2)))
    }


def fig4(p: dict[str, Any]) -> dict[str, Any]:
    return {"d": max(2, round(0.2 * p["workers"] * p["exponent"] ** 2))}


def memory(p: dict[str, Any]) -> dict[str, Any]:
    bump = 0.25 * math.exp(-((p["exponent"] - 1.2) ** 2)) * p["workers"] / 100
    pairs = {
        "partial_key": 20_000,
        "shuffle": 20_000 * p["workers"],
        "w_choices": round(20_000 * (1 + bump)),
        "d_choices": round(20_000 * (1 + bump * min(1, p["exponent"] / 2))),
    }
    return {f"{name}_{how}": count for name, count in pairs.items() for how in ("estimated", "simulated")}


def fig7(p: dict[str, Any]) -> dict[str, Any]:
    part = {"2/n": 8.0, "1/n": 4.0, "1/(2n)": 2.0, "1/(4n)": 1.0, "1/(8n)": 0.5}[p["threshold"]]
    if p["grouping"] == "round_robin":
        return {"imbalance": part / 1000}
    return {"imbalance": 0.01 if p["threshold"] == "2/n" else 1e-6}


def fig8(p: dict[str, Any]) -> dict[str, Any]:
    return {
        "partial_key": {"head": [0.31, 0.31, 0.1, 0.1, 0.05], "tail": [0.01, 0.01, 0.05, 0.02, 0.04]},
        "w_choices": {"head": [0.19, 0.18, 0.17, 0.16, 0.15], "tail": [0.01, 0.02, 0.03, 0.04, 0.05]},
        "round_robin": {"head": [0.17] * 5, "tail": [0.02, 0.03, 0.03, 0.03, 0.04]},
    }[p["grouping"]]


def fig9(p: dict[str, Any]) -> dict[str, Any]:
    d = max(2, round(p["workers"] * p["exponent"] / 2))
    return {"d": d, "least": max(2, d - 2), "imbalance": 1e-4}


def fig10(p: dict[str, Any]) -> dict[str, Any]:
    imbalance = LOW[p["grouping"]]
    if p["grouping"] == "partial_key":
        imbalance = 1e-4 * p["workers"] * p["exponent"] ** 4
    copies = {"partial_key": 20_000, "w_choices": 30_000, "round_robin": 30_000, "d_choices": 24_000}
    return {"mean_imbalance": imbalance, "imbalance": imbalance, "memory": copies[p["grouping"]]}


def fig11(p: dict[str, Any]) -> dict[str, Any]:
    imbalance = LOW[p["grouping"]] * (0.01 if p["workers"] < 20 else 1) * (3 if p["stream"] == "CT" else 1)
    return {"mean_imbalance": imbalance, "imbalance": imbalance}


def fig12(p: dict[str, Any]) -> dict[str, Any]:
    imbalance = LOW[p["grouping"]] * (3 if p["stream"] == "CT" else 1)
    return {"imbalance": [imbalance] * 100, "position": list(range(100))}


def table1(p: dict[str, Any]) -> dict[str, Any]:
    share = 0.05
    if "exponent" in p:
        share = 1 / sum(rank ** -p["exponent"] for rank in range(1, p["keys"] + 1))
    return {"messages": p["messages"], "keys": p.get("keys", 1000), "top_share": share}


two = {"grouping": "partial_key"}
CASES: Cases = {
    "d_choices/fig1": (
        fig1,
        [
            only({"imbalance": 0.02}, grouping="partial_key", workers=10, origin="real"),
            only({"imbalance": 0.04}, grouping="partial_key", workers=100),
            only({"imbalance": 0.0011}, grouping="d_choices", workers=100, origin="drawn"),
        ],
    ),
    "d_choices/fig3": (
        fig3,
        [
            only({"head": 251}, workers=50, exponent=1.2, threshold="1/(5n)"),
            only({"head": 201}, workers=100, exponent=1.2, threshold="1/(5n)"),
            only({"head": 120}, exponent=2.0),
        ],
    ),
    "d_choices/fig4": (
        fig4,
        [
            only({"d": 100}, workers=100, exponent=2.0),
            only({"d": 25}, workers=50, exponent=1.2),
            only({"d": 49}, workers=50, exponent=1.6),
        ],
    ),
    "d_choices/fig5": (
        memory,
        [
            only({"d_choices_estimated": 26_001}, workers=50, exponent=0.8),
            only({"w_choices_estimated": 23_000}, workers=100),
            only({"d_choices_estimated": 25_500, "w_choices_estimated": 25_400}, workers=50, exponent=0.8),
            only({"d_choices_estimated": 20_100}, workers=100, exponent=2.0),
        ],
    ),
    "d_choices/fig6": (
        memory,
        [
            only({"shuffle_estimated": 90_000}, workers=50, exponent=2.0),
            only({"shuffle_estimated": 1_000_000}, workers=100),
        ],
    ),
    "d_choices/fig7": (
        fig7,
        [
            only({"imbalance": 0.5}, grouping="round_robin", threshold="1/(8n)", workers=50, exponent=1.2),
            only({"imbalance": 2e-4}, grouping="w_choices", threshold="1/n", workers=5, exponent=1.2),
            only({"imbalance": 0.001}, grouping="round_robin"),
            only({"imbalance": 0.1}, grouping="w_choices", threshold="1/n", workers=5, exponent=2.0),
        ],
    ),
    "d_choices/fig8": (
        fig8,
        [
            only({"head": [0.33, 0.19, 0.15, 0.15, 0.04]}, grouping="partial_key"),
            only({"tail": [0.011, 0.02, 0.03, 0.04, 0.049]}, grouping="w_choices"),
            only({"head": [0.17] * 5, "tail": [0.03] * 5}, grouping="w_choices"),
            only({"tail": [0.03] * 5}, grouping="round_robin"),
        ],
    ),
    "d_choices/fig9": (
        fig9,
        [
            only({"least": 59}, workers=100, exponent=1.4),
            only({"least": 8}, workers=10, exponent=1.4),
        ],
    ),
    "d_choices/fig10": (
        fig10,
        [
            only({"mean_imbalance": 0.0465}, **two, keys=100_000, workers=100, exponent=1.2),
            only({"mean_imbalance": 0.2}, **two, keys=10_000, workers=50, exponent=2.0),
            only({"mean_imbalance": 0.002}, grouping="w_choices", workers=5, exponent=0.4),
            only({"imbalance": 0.00011}, grouping="w_choices", workers=5, exponent=0.4),
            only({"mean_imbalance": 0.00061}, grouping="round_robin", workers=5, exponent=2.0),
            only({"mean_imbalance": 0.0011}, grouping="d_choices", workers=50, exponent=1.2),
            only({"memory": 30_000}, grouping="d_choices", workers=50, exponent=1.2),
        ],
    ),
    "d_choices/fig11": (
        fig11,
        [
            only({"mean_imbalance": 0.011}, **two, workers=5, stream="TW"),
            only({"mean_imbalance": 0.3}, grouping="d_choices", workers=20, stream="TW"),
            only({"mean_imbalance": 4e-4}, grouping="w_choices", workers=50, stream="CT"),
            only({"imbalance": 5.1e-4}, grouping="d_choices", workers=5, stream="CT"),
            only({"mean_imbalance": 1e-6}, grouping="w_choices", workers=100, stream="CT"),
        ],
    ),
    "d_choices/fig12": (
        fig12,
        [
            only({"imbalance": [0.11] * 100}, grouping="d_choices", workers=100, stream="WP"),
            only({"imbalance": [0.1] * 50 + [0.4] * 50}, **two, workers=50, stream="TW"),
            only({"imbalance": [5e-7] * 100}, grouping="w_choices", workers=100, stream="CT"),
        ],
    ),
    "d_choices/table1": (
        table1,
        [
            only({"top_share": 0.22}, exponent=1.2, keys=10_000),
            only({"top_share": 0.57}, exponent=2.0),
        ],
    ),
}


def test_a_comparison_of_nothing_does_not_hold() -> None:
    claim = registry.registered()["d_choices/fig10"].claims[0]
    low = made("d_choices/fig10", fig10, only({"mean_imbalance": 0.001}, grouping="partial_key"))
    assert not claim.judge(low).holds


def test_full_runs_have_the_papers_sizes() -> None:
    cells = {name: list(registry.registered()[name].cells(FULL)) for name in CASES}
    assert {cell["messages"] for cell in cells["d_choices/fig10"]} == {10_000_000}
    assert sorted({cell["keys"] for cell in cells["d_choices/fig10"]}) == [10_000, 100_000, 1_000_000]
    exponents = sorted({cell["exponent"] for cell in cells["d_choices/fig10"]})
    assert exponents == [round(0.1 * step, 1) for step in range(1, 21)]
    assert {cell["messages"] for cell in cells["d_choices/fig1"]} == {22_000_000}
    assert {cell["workers"] for cell in cells["d_choices/fig11"]} == {5, 10, 20, 50, 100}
    assert {cell["threshold"] for cell in cells["d_choices/fig7"]} == {
        "2/n",
        "1/n",
        "1/(2n)",
        "1/(4n)",
        "1/(8n)",
    }
