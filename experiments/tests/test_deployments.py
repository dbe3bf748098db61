"""Deployments: what they claim, what they read from reports, and their page. None of this needs Spark."""

import sys
import threading
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from matplotlib.figure import Figure

import keysplit as ks
from keysplit.cli import main
from keysplit_experiments.deployments import fish as fish_deployment
from keysplit_experiments.deployments.engine import agreement, reports, segment, stream
from keysplit_experiments.harness import registry, runner
from keysplit_experiments.harness.experiment import FULL, QUICK, Cell, Experiment, Results, Scale
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.store import Store
from made_up_experiment import Counting
from made_up_results import Cases, Formula, only

NAMES = [f"deployments/{name}" for name in ("d_choices", "consistent", "fish", "flexd")]


def keysplit(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["reproduce", *map(str, arguments)], env={"KEYSPLIT_DATA": ""})


# the registry and the command


def test_deployments_are_apart_from_all() -> None:
    assert [each for each in registry.deployments() if each in NAMES] == NAMES
    assert registry.chosen(["deployments"]) == list(registry.deployments().values())
    assert [each.name for each in registry.chosen(["all"]) if each.deploys] == []
    assert registry.chosen(["deployments/fish", "d_choices/fig1"]) == [
        registry.registered()["d_choices/fig1"],
        registry.deployments()["deployments/fish"],
    ]
    with pytest.raises(ValueError, match=r"one of its experiments \(deployments/.*got 'deployments/x'"):
        registry.chosen(["deployments/x"])


def test_deployments_are_listed() -> None:
    listed = keysplit().stdout
    for name, experiment in registry.deployments().items():
        assert f"  {name} " in listed
        assert experiment.title in listed
        assert experiment.paper in registry.papers()


def test_without_spark_the_remedy_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("the work was begun"))
    result = keysplit("deployments/fish", "--out", tmp_path)
    assert result.exit_code == 2
    remedy = "deployments need PySpark: pip install '.[spark]' ./experiments in a clone of keysplit"
    assert result.stderr == f"keysplit: {remedy}\n"


@pytest.mark.parametrize(("deploys", "most"), [(None, 3), ("d_choices", 1)])
def test_cells_of_a_deployment_are_measured_one_after_the_other(
    deploys: str | None, most: int, tmp_path: Path
) -> None:
    under_way, seen, together = [0], [0], threading.Barrier(most)

    def measure(inputs: Inputs, *, place: int) -> dict[str, Any]:
        under_way[0] += 1
        together.wait(10)
        seen[0] = max(seen[0], under_way[0])
        time.sleep(0.01)
        under_way[0] -= 1
        return {"value": place}

    experiment = replace(Counting(cells=3).experiment, deploys=deploys, measure=measure)
    runner.run(experiment, QUICK, Inputs(), Store(tmp_path, "quick"), jobs=3)
    assert seen == [most]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [FULL, QUICK, Scale("tiny", 2_000)], ids=lambda scale: scale.name)
def test_cells_differ_and_fill_their_micro_batches(name: str, scale: Scale) -> None:
    cells = list(registry.deployments()[name].cells(scale))
    assert len({tuple(sorted(cell.items(), key=str)) for cell in cells}) == len(cells)
    for cell in cells:
        if cell.get("batches"):
            assert cell["messages"] % (cell["batches"] * cell["sources"]) == 0


# reports


def report(worker: int, began: float, ended: float, messages: int, tags: Any = None) -> dict[str, Any]:
    return {"worker": worker, "began": began, "ended": ended, "messages": messages, "tags": tags}


REPORTS = pd.DataFrame(
    [
        report(0, 10.0, 10.0, 0),
        report(0, 10.5, 12.5, 2, np.array([0.0, 0.5])),
        report(2, 11.0, 11.0, 0),
        report(2, 11.0, 12.0, 4, np.array([0.1, 0.2, 0.3, 0.4])),
        report(0, 13.0, 14.0, 1, np.array([0.9])),
    ]
)


def test_reports_give_loads_times_and_the_finish_of_each_message() -> None:
    found = reports.read(REPORTS, 3)
    assert found.loads.tolist() == [3, 0, 4]
    assert found.busy_s.tolist() == [3, 0, 1]
    assert (found.start, found.duration_s) == (10, 4)
    # from the start of the first worker
    assert found.latency_s == pytest.approx([1.5, 2.5, 1.25, 1.5, 1.75, 2, 4])
    assert found.worker.tolist() == [0, 0, 2, 2, 2, 2, 0]
    later = reports.read(REPORTS, 3, lambda tags: 9 + tags)
    assert later.latency_s == pytest.approx([2.5, 3, 2.15, 2.3, 2.45, 2.6, 4.1])


def test_a_worker_serves_in_order_of_arrival() -> None:
    tags = [None, np.array([0.9, 0.0]), None, np.array([0.4, 0.1, 0.3, 0.2]), np.array([0.5])]
    found = reports.read(REPORTS.assign(tags=tags), 3, lambda tags: 9 + tags)
    # worker 0 has messages of 9, 9.5 and 9.9, worker 2 of 9.1 to 9.4
    assert found.latency_s == pytest.approx([2.5, 3, 2.15, 2.3, 2.45, 2.6, 4.1])


def test_figures_of_reports() -> None:
    figures = reports.figures(reports.read(REPORTS, 3))
    assert figures["messages"] == 7
    assert figures["throughput_per_s"] == 7 / 4
    assert figures["balance"] == 3 / (4 / 3)
    assert figures["largest_mean_latency_s"] == pytest.approx((1.5 + 2.5 + 4) / 3)
    assert figures["p50_latency_s"] == pytest.approx(1.75)
    assert set(reports.LATENCIES) < set(figures)


def test_stages_add_up_without_the_time_between_them() -> None:
    first = reports.read(REPORTS, 3)
    both = reports.joined([first, replace(first, start=100.0)])
    assert both.loads.tolist() == [6, 0, 8]
    assert (both.start, both.duration_s) == (10, 8)
    assert len(both.latency_s) == len(both.worker) == 14


def test_micro_batches_are_balanced_over_the_workers_present() -> None:
    busy_s = [np.array([1.0, 1, 2]), np.array([3.0, 1, 0]), np.array([1.0, 1, 1]), np.array([1.0, 1, 1])]
    assert stream.by_batch(busy_s, {1: 2, 3: 3}) == {
        "present": [3, 2, 2, 3],
        "busy_s": [[1, 1, 2], [3, 1, 0], [1, 1, 1], [1, 1, 1]],
        "balances": pytest.approx([1.5, 1.5, 2 / 3, 1]),
    }


def test_too_few_messages_are_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (segment, stream):
        monkeypatch.setattr(module, "session", lambda _: pytest.fail("the work was begun"))
    params = ks.ShuffleGrouping(workers=2)
    common: dict[str, Any] = {"sources": 4, "service_time_s": 0.001}
    with pytest.raises(ValueError, match=r"^keys must have at least 4 messages \(one per source\), got 3$"):
        segment.run(params, np.arange(3), **common)
    text = r"^keys must have at least 12 messages \(one per source in every micro-batch\), got 11$"
    with pytest.raises(ValueError, match=text):
        stream.run(params, np.arange(11), batches=3, **common)
    with pytest.raises(ValueError, match=r"^batches must be at least 3, got 2$"):
        stream.run(params, np.arange(12), batches=2, **common)


def test_wrong_totals_are_refused() -> None:
    reports.check({"a": 2, "b": 1}, {"b": 1, "a": 2})
    for wrong in ({"a": 2}, {"a": 2, "b": 2}, {"a": 2, "b": 1, "c": 1}):
        with pytest.raises(RuntimeError, match="differ for 1 keys"):
            reports.check(wrong, {"a": 2, "b": 1})


# claims

RATES = {"key": 1_000.0, "partial_key": 2_000.0, "shuffle": 10_000.0}


def made(name: str, *formulas: Formula) -> Results:
    """Results of a full run, with the figures that formulas give; a later one corrects those before it."""
    cells = []
    for parameters in registry.deployments()[name].cells(FULL):
        figures: dict[str, Any] = {}
        for formula in formulas:
            figures |= formula(parameters)
        cells.append(Cell(parameters, figures))
    streams = [cell.parameters["stream"] for cell in cells if "stream" in cell.parameters]
    return Results(cells, "full", dict.fromkeys(streams, "x.parquet"))


def like(rate: float, balance: float = 1.0, replication: float = 1.0) -> dict[str, Any]:
    """The figures of a cell with this throughput, and latencies that fit it."""
    latencies = (*reports.LATENCIES, "mean_latency_s", "whole_p99_latency_s")
    return {
        **dict.fromkeys(latencies, 10_000 / rate),
        "throughput_per_s": rate,
        "balance": balance,
        "simulated_balance": balance,
        "replication": replication,
        "memory_mb": 1_500.0,
        "took_s": 6.0,
    }


def d_choices(p: dict[str, Any]) -> dict[str, Any]:
    rate = RATES.get(p["grouping"], 9_900.0)
    figures = like(rate * (1 - p["exponent"] / 10 if p["grouping"] in ("key", "partial_key") else 1))
    if p["exponent"] == 1.4:
        figures["p99_latency_s"] = min(figures["p99_latency_s"], 1.9)
    return figures


def consistent(p: dict[str, Any]) -> dict[str, Any]:
    copies = {"key": 1.0, "partial_key": 1.1, "consistent": 1.2, "shuffle": 2.0}[p["grouping"]]
    rate = {**RATES, "consistent": 9_000.0}
    slow = {"key": 1_000.0, "partial_key": 2_000.0, "shuffle": 2_500.0, "consistent": 9_000.0}
    figures = like((slow if p["slow"] else rate)[p["grouping"]], replication=copies)
    return {**figures, "balances": [2.0, 1.2], "balance": 1.1, "simulated_balance": 1.1}


def fish(p: dict[str, Any]) -> dict[str, Any]:
    rate = {**RATES, "d_choices": 3_000.0, "w_choices": 2_500.0, "fish": 9_900.0}[p["grouping"]]
    figures = like(rate, replication=1.5 if p["grouping"] == "fish" else 20.0)
    if p["grouping"] == "w_choices":
        figures |= {"mean_latency_s": 10.0, "p99_latency_s": 10.0}
    if p["way"] != "elastic":
        return figures
    return {
        **{name: value for name, value in figures.items() if name != "simulated_balance"},
        "by_plan": True,
        "balances": [1.2] * 6,
        "present": [3, 3, 2, 2, 3, 3],
        "busy_s": [[1, 1, 1], [1, 1, 1], [2, 1, 0], [1, 2, 0], [1, 1, 1], [1, 1, 2]],
    }


def flexd(p: dict[str, Any]) -> dict[str, Any]:
    split = p["grouping"] in ("pstream", "dalton", "flexd")
    rate = {"flexd": 8_000.0, "pstream": 7_900.0, "dalton": 7_000.0}.get(p["grouping"], 5_000.0)
    balance = 8_000.0 / rate
    slower = 1 - p.get("exponent", 1.0) / 10
    return like(rate * slower, balance, 2.0 if split else 1.0)


CASES: Cases = {
    "deployments/d_choices": (
        d_choices,
        [
            only(like(20_000.0), grouping="key", exponent=1.7),
            only(like(20_000.0), grouping="partial_key", exponent=2.0),
            only(like(8_000.0), grouping="w_choices", exponent=1.4),
            only(like(3_000.0), grouping="key", exponent=2.0),
            only(like(2_000.0), grouping="d_choices"),
            only({"p99_latency_s": 3.0}, grouping="key", exponent=1.4),
            only({"largest_mean_latency_s": 9.9}, grouping="partial_key", exponent=2.0),
            only({"p99_latency_s": 2.9}, grouping="partial_key"),
            only({"p99_latency_s": 1.3}, grouping="d_choices", exponent=2.0),
            only({"p99_latency_s": 5.0}, grouping="w_choices"),
            only({"balance": 1.2}, grouping="key", exponent=1.4),
        ],
    ),
    "deployments/consistent": (
        consistent,
        [
            only({"p99_latency_s": 20.0}, grouping="shuffle", delay_ms=0.4),
            only({"replication": 2.1}, grouping="consistent", slow=0),
            only({"p99_latency_s": 0.1}, grouping="shuffle", slow=2),
            only({"p99_latency_s": 6.0}, grouping="consistent", slow=2),
            only({"throughput_per_s": 3_400.0}, grouping="consistent", slow=2),
            only({"balance": 1.3, "simulated_balance": 1.3}, grouping="consistent", slow=2),
            only({"balance": 0.9}, grouping="consistent", slow=2),
        ],
    ),
    "deployments/fish": (
        fish,
        [
            only(like(20_000.0), grouping="key", stream="AM"),
            only(like(1_100.0), grouping="partial_key", stream="MT"),
            only(like(20_000.0), grouping="d_choices", stream="MT"),
            only(like(9_000.0), grouping="d_choices"),
            only({"throughput_per_s": 8_000.0}, grouping="fish", stream="AM", way="online"),
            only({"mean_latency_s": 2.0}, grouping="fish"),
            only({"p50_latency_s": 1.3}, grouping="fish", stream="MT"),
            only({"replication": 11.0}, grouping="fish", exponent=2.0),
            only({"throughput_per_s": 8_000.0}, grouping="fish", stream="AM", way="planned"),
            only({"balances": [1.2, 1.2, 1.6, 1.2, 1.2, 1.2]}, way="elastic"),
            only({"balance": 1.2}, grouping="shuffle", stream="MT"),
        ],
    ),
    "deployments/flexd": (
        flexd,
        [
            only({"throughput_per_s": 9_000.0}, grouping="pstream", exponent=2.0),
            only({"throughput_per_s": 1_000.0}, grouping="key", exponent=2.0),
            only({"throughput_per_s": 9_000.0}, exponent=3.0),
            only({"throughput_per_s": 9_000.0}, grouping="pstream", stream="Amazon"),
            only({"balance": 0.9}, grouping="dalton", stream="Voters"),
            only({"throughput_per_s": 9_000.0}, grouping="key", stream="WikiText"),
            only({"balance": 9.0}, grouping="flexd", stream="WikiText"),
            only({"replication": 1.0}, grouping="dalton", exponent=3.0),
            only({"balance": 1.2}, grouping="flexd", exponent=1.0),
        ],
    ),
}
CLAIMS = [(name, place) for name, (_, breaks) in CASES.items() for place in range(len(breaks))]


def test_every_claim_is_tried() -> None:
    claims = {name: len(registry.deployments()[name].claims) for name in NAMES}
    assert {name: len(breaks) for name, (_, breaks) in CASES.items()} == claims


@pytest.mark.parametrize(("name", "place"), CLAIMS, ids=[f"{name}-{place}" for name, place in CLAIMS])
def test_a_claim_holds_in_results_as_the_paper_tells_them_and_no_others(name: str, place: int) -> None:
    formula, breaks = CASES[name]
    claim = registry.deployments()[name].claims[place]
    judged = claim.judge(made(name, formula))
    assert judged.holds, f"{claim.says}: {judged.ours}"
    judged = claim.judge(made(name, formula, breaks[place]))
    assert not judged.holds, f"{claim.says}: {judged.ours}"


@pytest.mark.parametrize(
    ("name", "rule", "formula"),
    [
        ("d_choices", "between", only({"throughput_per_s": 870.0}, grouping="partial_key", exponent=1.4)),
        ("d_choices", "harder", only({"throughput_per_s": 1_700.0}, grouping="partial_key", exponent=1.7)),
        ("d_choices", "gains", only(like(3_200.0), grouping="key")),
        ("d_choices", "half", only({"largest_mean_latency_s": 4.0}, grouping="partial_key", exponent=2.0)),
        ("d_choices", "thrice", only({"p99_latency_s": 1.02}, grouping="partial_key", exponent=1.4)),
        ("d_choices", "reduced", only({"p99_latency_s": 3.0}, grouping="key")),
        ("consistent", "superior", only({"throughput_per_s": 1_020.0}, grouping="partial_key", delay_ms=0.4)),
        ("consistent", "memory", only({"replication": 1.09}, grouping="key", slow=0)),
        ("consistent", "memory", only({"replication": 1.6}, grouping="consistent", slow=0)),
        ("consistent", "best", only({"throughput_per_s": 8_900.0}, grouping="shuffle", slow=2)),
        ("fish", "in_between", only(like(2_050.0), grouping="w_choices", stream="AM")),
        ("fish", "faster", only(like(8_000.0), grouping="w_choices")),
        ("fish", "reduces", only({"p99_latency_s": 3.0}, grouping="fish")),
        ("fish", "near_shuffle_in_latency", only({"p99_latency_s": 1.3}, grouping="fish", stream="AM")),
        ("fish", "elastic", only({"balances": [1.2] * 5 + [1.6]}, way="elastic")),
        ("flexd", "best_on_streams", only({"throughput_per_s": 9_000.0}, grouping="key", stream="Voters")),
        ("flexd", "most_balanced", only({"balance": 0.9}, grouping="pstream", stream="Amazon")),
        ("flexd", "similar_on_words", only({"throughput_per_s": 9_000.0}, grouping="key", stream="T4SA")),
        ("flexd", "copies", only({"replication": 1.2}, grouping="distribution_aware", exponent=3.0)),
    ],
)
def test_every_part_of_a_claim_counts(name: str, rule: str, formula: Formula) -> None:
    judge = getattr(import_module(f"keysplit_experiments.deployments.{name}"), rule)
    told, _ = CASES[f"deployments/{name}"]
    assert judge(made(f"deployments/{name}", told)).holds
    judged = judge(made(f"deployments/{name}", told, formula))
    assert not judged.holds, judged.ours


@pytest.mark.parametrize(
    ("place", "busy_s"),
    [(2, [2, 1, 0.1]), (3, [2, 1, 0.1]), (4, [2, 1, 0]), (5, [2, 1, 0])],
    ids=["gone too late", "back too early", "back too late", "gone again"],
)
def test_elastic_workers_leave_and_come_back_when_they_should(place: int, busy_s: list[float]) -> None:
    results = made("deployments/fish", fish)
    assert fish_deployment.elastic(results).holds
    results.where(way="elastic").cells[0].figures["busy_s"][place] = busy_s
    assert not fish_deployment.elastic(results).holds


@pytest.mark.parametrize(("ratio", "holds"), [(0.96, True), (0.98, False)])
def test_less_is_less_by_the_margin(ratio: float, holds: bool) -> None:
    results = made("deployments/fish", fish, only({"throughput_per_s": 2_000 * ratio}, grouping="key"))
    assert fish_deployment.lowest(results).holds == holds


def test_kept_counts_the_hot_keys_that_stay() -> None:
    first = [f"key {place}" for place in range(10) for _ in range(3)] + ["rare"] * 2
    other = [each.replace("key 9", "rare") for each in first]
    assert fish_deployment.kept(pa.array(first * 3), 3) == 10
    assert fish_deployment.kept(pa.array(first + other + other), 3) == 9.5


# agreement and the page


def test_agreement_names_the_cell_that_is_furthest_off() -> None:
    cells = [
        Cell({"grouping": name, "exponent": 1.4, "workers": 8}, {"balance": own, "simulated_balance": 2.0})
        for name, own in (("key", 2.1), ("fish", 1.6), ("shuffle", 2.3))
    ]
    judged = agreement.agree(Results(cells))
    assert not judged.holds
    assert judged.ours.startswith("in 2 of 3 cells; at most 20.0% apart (FISH, exponent 1.4); with routers ")
    assert agreement.agree(Results([cells[0], cells[2]])).holds


def test_reasons_are_those_of_the_cells_that_differ() -> None:
    near, far = {"balance": 1.0, "simulated_balance": 1.1}, {"balance": 1.0, "simulated_balance": 1.3}
    for by_plan, by_router in [(far, near), (near, far), (far, far), (near, near)]:
        cells = [
            Cell({"grouping": "key"}, by_router),
            Cell({"grouping": "fish"}, {**by_plan, "by_plan": True}),
        ]
        unsimulated = Cell({"grouping": "key"}, {"balance": 5.0})
        judged = agreement.claim().judge(Results([*cells, unsimulated]))
        assert judged.holds == (by_plan is by_router is near)
        assert (agreement.BY_PLAN in judged.ours) == (by_plan is far)
        assert (agreement.BY_ROUTER in judged.ours) == (by_router is far)
        assert " of 2 cells" in judged.ours


def test_agreement_of_full_runs_is_drawn_without_quick_ones() -> None:
    def drawn(**scales: str) -> tuple[int, str]:
        cells = [Cell({"grouping": "key"}, {"balance": 1.0, "simulated_balance": 1.0})]
        figure = Figure()
        results = {f"deployments/{name}": Results(cells, scale) for name, scale in scales.items()}
        agreement.draw(figure, results)
        (axes,) = figure.axes
        return len(axes.lines[1].get_xdata()), axes.get_title()

    assert drawn(fish="full", flexd="full") == (2, "")
    assert drawn(fish="full", flexd="quick") == (1, "full runs, without flexd")
    assert drawn(fish="quick", flexd="quick") == (2, "quick runs")


def stored(folder: Path, experiment: Experiment) -> None:
    results = made(experiment.name, CASES[experiment.name][0])
    Store(folder, "full").write(experiment, results, runner.judged(experiment, results).rows())


def test_the_page_has_every_deployment_and_the_agreement(tmp_path: Path) -> None:
    refused = keysplit("--docs-deployments", tmp_path / "page.md", "--out", tmp_path)
    assert refused.exit_code == 2
    assert "run `keysplit reproduce deployments` first" in refused.stderr
    for name in NAMES[:3]:
        stored(tmp_path, registry.deployments()[name])
    (tmp_path / "page").mkdir()
    (tmp_path / "page/old.svg").write_text("")
    result = keysplit("--docs-deployments", tmp_path / "page.md", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert text.startswith("# Deployments\n")
    assert (
        "| [Efficient Time-Evolving Stream Processing at Scale](#fish) | 21 | 2.1 | 1.5 | 11 | 11 | 0 |"
        in text
    )
    assert "flexd" not in text
    for name in ("agreement", "d_choices", "consistent", "fish"):
        assert f"](page/{name}.svg)" in text
        assert (tmp_path / f"page/{name}.svg").is_file()
    assert not (tmp_path / "page/old.svg").exists()
    assert "`keysplit reproduce deployments/d_choices`. 48 sources" in text


def test_the_page_of_simulated_experiments_has_no_deployment(tmp_path: Path) -> None:
    stored(tmp_path, registry.deployments()["deployments/flexd"])
    refused = keysplit("--docs", tmp_path / "page.md", "--out", tmp_path)
    assert refused.exit_code == 2
    assert "must hold results, got none" in refused.stderr
