"""Kafka beside deployments: the broker, the deployment from Kafka to Kafka; what others share with it.

Its cells are those of one program, this file, in a process of its own: the Spark session of an emulated
cluster is like no other.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jars
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

import keysplit as ks
from keysplit.cli import main
from keysplit_experiments.deployments import _dynamic_key_claims as claims
from keysplit_experiments.deployments import consistent, dynamic_key, flexd
from keysplit_experiments.deployments._dynamic_key_claims import COST, DEVIATION, LATENCY, LIKE, THROUGHPUT
from keysplit_experiments.deployments.engine import broker, comparing, kafka, segment, session
from keysplit_experiments.deployments.engine.broker import JARS, Broker
from keysplit_experiments.deployments.engine.reports import LATENCIES
from keysplit_experiments.harness import runner
from keysplit_experiments.harness.experiment import FULL, QUICK, Cell, Experiment, Judged, Results, Scale
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.papers.dynamic_key import DKG
from made_up_results import Formula, only

Judge = Callable[[Results], Judged]

TINY = Scale("tiny", 2_000)
SOURCES, WORKERS, SERVICE_TIME_S = 2, 4, 0.0005


# the broker


@pytest.fixture(scope="module")
def kafka_jars() -> Path:
    """The jars of a broker; without them, or without its client, a test is skipped or fails."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        reason = "confluent-kafka is not installed: pip install '.[kafka]'"
        assert os.environ.get("KEYSPLIT_JARS") != "required", reason
        pytest.skip(reason)
    return Path(jars.download("kafka"))


@pytest.fixture(scope="module")
def started(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    running = Broker(tmp_path_factory.mktemp("kafka"), kafka_jars)
    yield running
    running.stop()


def test_without_jars_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="must have the jars of a Kafka broker: scripts/jars kafka"):
        Broker(tmp_path, tmp_path / "none")
    monkeypatch.setenv(JARS, str(tmp_path / "named"))
    with pytest.raises(FileNotFoundError, match=r"named'.*KEYSPLIT_KAFKA_JARS names the folder"):
        Broker(tmp_path)
    monkeypatch.delenv(JARS)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"\.cache/kafka/jars'"):
        broker.folder_of_jars()
    (tmp_path / ".cache/kafka/jars").mkdir(parents=True)
    (tmp_path / ".cache/kafka/jars/kafka_2.13-4.2.2.jar").touch()
    assert broker.folder_of_jars() == tmp_path / ".cache/kafka/jars"


def test_free_ports_differ_and_are_below_those_that_linux_gives() -> None:
    ports = broker.free_ports(20)
    assert len(ports) == 20
    assert all(20_000 <= port < 32_000 for port in ports)


@pytest.mark.spark
def test_a_broker_keeps_what_is_committed_apart(started: Broker) -> None:
    from confluent_kafka import Producer

    assert started.create_topic("words", 3) == "words"
    producer = Producer({"bootstrap.servers": started.servers, "transactional.id": "one"})
    producer.init_transactions(60)
    for value, commit in (("kept", True), ("dropped", False)):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("words", value, partition=partition)
        producer.flush(60)
        producer.commit_transaction(60) if commit else producer.abort_transaction(60)
    assert Counter(message.value() for message in started.read("words")) == {b"kept": 3}
    every = Counter(message.value() for message in started.read("words", committed=False))
    assert every == {b"kept": 3, b"dropped": 3}
    assert started.read(started.create_topic("empty", 1)) == []


def answers(host: str, port: int) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection((host, port), timeout=5):
        return True
    return False


@pytest.mark.spark
def test_a_broker_ends_with_its_program(kafka_jars: Path, tmp_path: Path) -> None:
    program = (
        "import os, pathlib, sys; from keysplit_experiments.deployments.engine.broker import Broker; "
        "folder, jars = map(pathlib.Path, sys.argv[1:]); print(Broker(folder, jars).servers, flush=True); "
        "os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", program, str(tmp_path), str(kafka_jars)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=False)
    assert ran.returncode == -9
    host, port = ran.stdout.strip().split(":")
    end = time.monotonic() + 60
    while answers(host, int(port)):
        assert time.monotonic() < end, "the broker has outlived its program"
        time.sleep(0.05)


# what is needed


@pytest.mark.parametrize(("package", "name"), [("pandas", "pandas"), ("pyarrow", "PyArrow")])
def test_packages_that_are_missing_are_named(
    package: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
    monkeypatch.setitem(sys.modules, package, None)
    remedy = rf"^deployments need {name}: pip install '.\[spark\]' ./experiments in a clone of keysplit$"
    with pytest.raises(ImportError, match=remedy):
        session.need_spark()


def test_without_java_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        FileNotFoundError,
        match=r"^Spark needs Java 17 or newer, found none that runs in JAVA_HOME=.*: set JAVA_HOME",
    ):
        session.need_spark()


@pytest.mark.parametrize(
    ("name", "missing", "refused"),
    [
        ("dynamic_key", "jars", "must have the jars of a Kafka broker: scripts/jars kafka"),
        (
            "dynamic_key",
            "client",
            "Kafka needs confluent-kafka: pip install '.[kafka]' in a clone of keysplit",
        ),
        ("flexd", "client", ""),
    ],
)
def test_without_kafka_the_remedy_is_told_before_the_work(
    name: str, missing: str, refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(experiment: Experiment, *_: Any, **__: Any) -> runner.Outcome:
        assert experiment.name == "deployments/flexd", "the work was begun"
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "need_spark", lambda: None)
    monkeypatch.setattr(runner, "run", work)
    if missing == "client":
        monkeypatch.delitem(sys.modules, "keysplit.kafka.client", raising=False)
        monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    else:
        pytest.importorskip("confluent_kafka")
    arguments = ["reproduce", f"deployments/{name}", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, arguments, env={"KEYSPLIT_DATA": "", JARS: str(tmp_path)})
    assert refused in result.stderr
    assert result.exit_code == (2 if refused else 130)


def test_a_source_without_a_message_is_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "session", lambda _: pytest.fail("the work was begun"))
    with pytest.raises(ValueError, match=r"^keys must have at least 6 messages .*, got 5$"):
        kafka.run(grouping(), np.arange(5), sources=SOURCES, batches=3, service_time_s=SERVICE_TIME_S)


# the cells


@pytest.mark.parametrize("scale", [FULL, QUICK, TINY], ids=lambda scale: scale.name)
def test_micro_batches_and_sources_have_equally_many_messages(scale: Scale) -> None:
    for cell in dynamic_key.cells(scale):
        assert cell["messages"] % (cell["sources"] * cell.get("batches", 1)) == 0


def test_the_clock_of_dynamic_key_is_faster_as_the_stream_is_shorter() -> None:
    common = {"messages": 45_290, "whole": 4_529_000, "sources": 5}
    online = dynamic_key.params_of(DKG, 10, 1, lasts_s=None, **common)
    # 1,000 seconds in the paper, of which each of five sources has a fifth of the messages
    assert online == ks.DynamicKeyGrouping(workers=10, seed=1, check_interval_s=60, messages_per_s=9.058)
    planned = dynamic_key.params_of("dynamic_key", 10, 1, lasts_s=10.0, **common)
    assert isinstance(planned, ks.DynamicKeyGrouping)
    intervals = (planned.warm_up_s, planned.teenage_interval_s, planned.old_interval_s)
    assert intervals == pytest.approx((0.15, 0.15, 0.6))
    assert planned.messages_per_s == pytest.approx(905.8)
    assert dynamic_key.params_of("key", 10, 1, lasts_s=None, **common) == ks.KeyGrouping(workers=10, seed=1)


# what it claims


def made(*formulas: Formula) -> Results:
    """Results of a full run, with the figures that formulas give; a later one corrects those before it."""
    cells = []
    for parameters in dynamic_key.cells(FULL):
        figures: dict[str, Any] = {}
        for formula in formulas:
            figures |= formula(parameters)
        cells.append(Cell(parameters, figures))
    return Results(cells, "full", dict.fromkeys(dynamic_key.PAPER.datasets, "x"))


def figures(rate: float, deviation: float, cost: float) -> dict[str, Any]:
    return {
        LATENCY: 60_000 / rate,
        DEVIATION: deviation,
        COST: cost,
        THROUGHPUT: rate,
        "simulated_stddev": deviation,
        "simulated_replication": cost,
        "balance": 1.5,
        "simulated_balance": 1.5,
        "p99_latency_s": 60_000 / rate,
        "result_p99_latency_s": 2 + 60_000 / rate,
        "observer_apart": 0.0,
        "memory_mb": 1_500.0,
        "took_s": 6.0,
    }


def as_told(p: dict[str, Any]) -> dict[str, Any]:
    """The figures that the paper tells, or such that its claims hold."""
    name, ratio = p["method"], p.get("ratio")
    if p.get("stream") == dynamic_key.CLICKS and name == "key":
        return figures(9_900.0, 1.0, 1.0)
    if name == "shuffle":
        return figures(9_511.0 * p["workers"] / 10, 0.0001, 10.0 if ratio is not None else 2.45)
    rate, deviation, cost = {
        "key": (1_344.0, 20.3202, 1.0),
        "partial_key": (2_739.0, 12.3513, 1.1647),
    }.get(name, (4_529.0, 4.0972, 1.2414))
    if ratio is not None:
        rates = {"key": 9_000 - 80 * ratio, "partial_key": 9_400 - 65 * ratio * (ratio >= 30)}
        rate = rates.get(name, 9_100 - 1_000 * ratio / 100)
        if ratio == 30:
            rate = {"key": 6_600.0, "partial_key": 7_450.0}.get(name, 8_000.0)
        if ratio == 100:
            rate = rates.get(name, 5_800.0)
    if p.get("stream") not in (None, LIKE, dynamic_key.CLICKS):
        rate = 8_000.0
    return figures(rate, deviation * 10 / p["workers"], cost)


BREAKS: list[Formula] = [
    only({COST: 3.0}, like=LIKE, method=DKG),
    only({THROUGHPUT: 2_000.0}, like=LIKE, method="key"),
    only({DEVIATION: 6.0}, like=LIKE, method=DKG),
    only({COST: 2.0}, stream=LIKE, method=DKG),
    only({LATENCY: 20.0}, stream="twitter-ticker", method=DKG),
    only({LATENCY: 20.0}, stream=dynamic_key.CLICKS, method="key"),
    only({THROUGHPUT: 8_000.0}, ratio=80, method="shuffle"),
    only({THROUGHPUT: 9_000.0}, ratio=80, method="partial_key"),
    only({THROUGHPUT: 9_900.0}, ratio=10, method=DKG),
    only({THROUGHPUT: 9_000.0}, ratio=50, method="key"),
    only({THROUGHPUT: 9_000.0}, ratio=30, method=DKG),
    lambda p: {THROUGHPUT: 4_000.0} if p.get("ratio") in (90, 100) and p["method"] == DKG else {},
    only({DEVIATION: 7.0}, ratio=80, method=DKG),
    only({COST: 4.0}, ratio=80, method="partial_key"),
    only({LATENCY: 30.0}, like=LIKE, workers=100, method=DKG),
    only({LATENCY: 60.0}, like=LIKE, workers=50, method="key"),
    only({DEVIATION: 1.0}, like=LIKE, workers=100, method=DKG),
    only({THROUGHPUT: 6_000.0}, like=LIKE, sources=20, method=DKG),
    only({DEVIATION: 13.0}, like=LIKE, sources=20, method=DKG),
    only({"result_p99_latency_s": 60.0}, way="arriving", method=DKG),
    only({DEVIATION: 7.0}, way="planned"),
    only({"observer_apart": 0.1}, way="planned"),
    only({"balance": 1.8}, way="planned"),
]


def test_every_claim_is_tried() -> None:
    assert len(BREAKS) == len(dynamic_key.CLAIMS)


@pytest.mark.parametrize("place", range(len(dynamic_key.CLAIMS)))
def test_a_claim_holds_in_results_as_the_paper_tells_them_and_no_others(place: int) -> None:
    claim = dynamic_key.CLAIMS[place]
    judged = claim.judge(made(as_told))
    assert judged.holds, f"{claim.says}: {judged.ours}"
    judged = claim.judge(made(as_told, BREAKS[place]))
    assert not judged.holds, f"{claim.says}: {judged.ours}"


@pytest.mark.parametrize("scale", [FULL, QUICK, TINY], ids=lambda scale: scale.name)
def test_claims_and_table_and_figure_need_only_the_cells_of_their_scale(scale: Scale) -> None:
    results = Results([Cell(cell, as_told(cell)) for cell in dynamic_key.cells(scale)], scale.name)
    assert all(claim.judge(results).ours for claim in dynamic_key.CLAIMS)
    assert len(dynamic_key.table(results).rows) == len(results.cells)
    figure = Figure()
    dynamic_key.draw(figure, results)
    assert len(figure.axes) == 16


@pytest.mark.parametrize(
    ("claim", "formula"),
    [
        (claims.ranked, only({COST: 1.18}, like=LIKE, method=DKG)),
        (claims.better, only({THROUGHPUT: 2_739.0 * 1.02}, stream=LIKE, method=DKG)),
        (claims.hashing_wins, only({LATENCY: 6.2}, stream=dynamic_key.CLICKS, method="key")),
        (claims.declines, only({THROUGHPUT: 4_900.0}, ratio=80, method="key")),
        (claims.more_above_30, only({THROUGHPUT: 6_200.0}, ratio=50, method=DKG)),
        (claims.at_30, only({THROUGHPUT: 7_600.0}, ratio=30, method=DKG)),
        (claims.at_30, only({LATENCY: 7.9}, ratio=30, method=DKG)),
        (claims.order_by_workers, only({LATENCY: 21.7}, like=LIKE, workers=50, method=DKG)),
        (claims.deviation_falls, only({DEVIATION: 20.0}, like=LIKE, workers=50, method="key")),
        (claims.better_by_sources, only({LATENCY: 21.7}, like=LIKE, sources=20, method=DKG)),
        (claims.better_by_sources, only({THROUGHPUT: 2_750.0}, like=LIKE, sources=20, method=DKG)),
        (claims.sooner, only({"result_p99_latency_s": 23.8}, way="arriving", method=DKG)),
        (claims.plan_follows, only({THROUGHPUT: 2_800.0}, way="planned")),
    ],
)
def test_nearly_equal_figures_are_neither_more_nor_less(claim: Judge, formula: Formula) -> None:
    judged = claim(made(as_told))
    assert judged.holds, judged.ours
    judged = claim(made(as_told, formula))
    assert not judged.holds, judged.ours


# what the deployments share


def test_more_and_less_are_so_by_a_margin() -> None:
    assert comparing.more(1.04, 1.0)
    assert not comparing.more(1.02, 1.0)
    assert comparing.less(0.96, 1.0)
    assert not comparing.less(0.98, 1.0)
    assert comparing.rise([1.0, 1.1, 1.2])
    assert not comparing.rise([1.0, 1.1, 1.11])
    assert comparing.fall([1.2, 1.1, 1.0])
    assert not comparing.fall([1.2, 1.19, 1.0])


@pytest.mark.parametrize(("stream", "keys"), [("Voters", 900), ("WikiText", 18_000)])
def test_a_drawn_stream_is_the_beginning_of_a_long_one(
    stream: str, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "run", lambda params, found, **_: {"keys": len(np.unique(found))})
    cell = {"stream": stream, "messages": flexd.MESSAGES, "seed": 1, "service_time_s": 0.001}
    found = flexd.measure(Inputs(), **cell, grouping="key")
    assert found["keys"] == pytest.approx(keys, rel=0.05)


def alike(module: Any, **more: Any) -> Results:
    """Results of a full run in which all cells are alike."""
    names = ("throughput_per_s", "balance", "simulated_balance", "replication", *LATENCIES)
    cells = module.cells(FULL)
    return Results([Cell(cell, {**dict.fromkeys(names, 1_000.0), **more}) for cell in cells], "full")


def test_beside_slow_workers_consistent_grouping_goes_by_a_plan() -> None:
    results = alike(consistent, balances=[2.0, 1.0])
    found = {(row[0], row[2]) for row in consistent.table(results).rows}
    assert {name for workers, name in found if workers == "equal"} == {"KG", "PKG", "SG", "CG"}
    assert {name for workers, name in found if workers == "two slow"} == {"KG", "PKG", "SG", "CG, planned"}
    figure = Figure()
    consistent.draw(figure, results)
    assert [axes.get_legend_handles_labels()[1][-1] for axes in figure.axes] == ["CG"] * 2 + [
        "CG, planned"
    ] * 2
    # 22 workers of a message per millisecond, and two of 0.3
    assert consistent.throughput(results).ours == "1 times; perfectly balanced workers would have 22.6 times"


# on Spark


def keys_of(messages: int) -> pa.Array:
    numbers = ks.streams.zipf_hot_key(1.2, 300, messages, seed=1, share=0.5)
    return pa.array([f"word {number}" for number in numbers])


def grouping() -> ks.Grouping:
    return ks.DynamicKeyGrouping(workers=WORKERS, seed=3, messages_per_s=20)


def program() -> dict[str, Any]:
    common: dict[str, Any] = {"sources": SOURCES, "service_time_s": SERVICE_TIME_S}
    found: dict[str, Any] = {"segment": kafka.run(grouping(), keys_of(2_001), **common)}
    found["arriving"] = kafka.run(grouping(), keys_of(2_400), batches=4, rate_per_s=1_200.0, **common)
    for cell in dynamic_key.cells(TINY):
        if cell["way"] == "planned":
            found["planned"] = dynamic_key.measure(Inputs(), **cell)
    try:
        kafka.totals_of = lambda topic: {"word 0": 1}
        kafka.run(grouping(), keys_of(400), **common)
    except RuntimeError as error:
        found["wrong"] = str(error)
    return found


@pytest.fixture(scope="module")
def found(kafka_jars: Path) -> dict[str, Any]:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
    environment = {**os.environ, JARS: str(kafka_jars)}
    environment["PYTHONPATH"] = str(Path(jars.__file__).parent)
    command = [sys.executable, __file__]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr
    result: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return result


@pytest.mark.spark
@pytest.mark.slow
def test_messages_from_kafka_go_where_the_simulator_says(found: dict[str, Any]) -> None:
    simulated = ks.simulate(grouping(), keys_of(2_000), sources=SOURCES)
    own = found["segment"]
    assert own["loads"] == simulated.loads.tolist()
    assert own["replication"] == pytest.approx(simulated.replication)
    assert own["load_stddev"] == own["simulated_stddev"] == pytest.approx(simulated.load_stddev)
    assert own["duration_s"] >= simulated.loads.max() * SERVICE_TIME_S
    assert own["memory_mb"] > 100


@pytest.mark.spark
@pytest.mark.slow
def test_routers_go_on_while_messages_arrive(found: dict[str, Any]) -> None:
    first, whole = (ks.simulate(grouping(), keys_of(2_400)[:end], sources=SOURCES) for end in (1_200, 2_400))
    own = found["arriving"]
    assert own["loads"] == (whole.loads - first.loads).tolist()
    assert own["replication"] == pytest.approx(whole.replication)
    # a micro-batch of 600 messages takes half a second to arrive, and its results come after the work
    assert 0.4 <= own["result_p99_latency_s"] < own["took_s"]
    assert own["result_p50_latency_s"] > own["p50_latency_s"]


@pytest.mark.spark
@pytest.mark.slow
def test_the_observer_hears_of_a_plan_what_workers_count(found: dict[str, Any]) -> None:
    planned = found["planned"]
    assert planned["messages"] == 1_000
    assert planned["observer_apart"] == pytest.approx(0, abs=1e-9)
    assert planned["load_stddev"] == pytest.approx(100 * np.std(planned["loads"]) / np.sum(planned["loads"]))


@pytest.mark.spark
@pytest.mark.slow
def test_wrong_totals_in_the_topic_are_refused(found: dict[str, Any]) -> None:
    assert found["wrong"].startswith("totals must equal the plain count, and differ for ")


if __name__ == "__main__":
    print(json.dumps(program()))
