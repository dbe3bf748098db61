"""Every registered grouping keeps the contract of the simulator, and wrong arguments are named."""

import io
import json
import math
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keysplit as ks
from keysplit import _core, runs
from keysplit.runs import LEAST_MEMORY, MEMORY

NAMES = sorted(ks.GROUPINGS)
ELASTIC = [name for name in NAMES if ks.GROUPINGS[name].elastic]
KEYS = ks.streams.zipf(1.3, keys=300, messages=5000, seed=2)
WEIGHTS = np.random.default_rng(3).integers(0, 40, len(KEYS)) / 8
TIMED = {"service_time_s": 0.01, "arrival_rate_per_s": 400.0, "feedback_interval_s": 0.5}
MODES: dict[str, dict[str, Any]] = {
    "untimed": {},
    "at a rate": TIMED,
    "in flight": {"service_time_s": 0.01, "in_flight": 7, "feedback_interval_s": 0.1},
}


def params(name: str, workers: int = 5, seed: int = 0) -> ks.Grouping:
    """A grouping, with segments so short that streams of tests have several."""
    short = {"segment_messages": 37} if name == "flexd" else {}
    return ks.grouping(name, workers=workers, seed=seed, **short)


def assert_equal(one: ks.SimulationResult, other: ks.SimulationResult) -> None:
    for field in fields(one):
        np.testing.assert_equal(getattr(one, field.name), getattr(other, field.name), field.name)


def cut(column: Any, *places: int) -> Iterator[Any]:
    return (column[start:end] for start, end in pairwise([0, *places, len(column)]))


# Every grouping


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_figures_agree_with_each_other(name: str, mode: str) -> None:
    result = ks.simulate(params(name), KEYS, sources=3, weights=WEIGHTS, **MODES[mode])
    assert result.messages == len(KEYS)
    assert result.loads.sum() == WEIGHTS.sum()
    assert result.imbalance == ks.metrics.imbalance(result.loads)
    assert result.relative_imbalance == ks.metrics.relative_imbalance(result.loads)
    assert result.load_stddev == ks.metrics.load_stddev(result.loads)
    assert result.distinct_keys == len(np.unique(KEYS))
    assert result.memory == result.replication * result.distinct_keys
    assert result.distinct_keys <= result.memory <= 5 * result.distinct_keys
    positions, imbalances = result.imbalance_over_time
    assert positions.tolist() == [50 * k for k in range(1, 101)]
    assert imbalances[-1] == result.imbalance
    assert result.mean_imbalance == pytest.approx(imbalances.mean())
    timed = (
        "latency_s",
        "throughput_per_s",
        "makespan_s",
        "queue_over_time",
        "latency_over_time",
        "utilisation",
    )
    if mode == "untimed":
        assert [getattr(result, name) for name in timed] == [None] * len(timed)
        return
    assert result.latency_s is not None
    assert 0 <= result.latency_s["p50"] <= result.latency_s["p95"] <= result.latency_s["p99"]
    assert 0.01 * WEIGHTS.mean() <= result.latency_s["mean"] <= result.latency_s["max"] <= result.makespan_s
    assert result.throughput_per_s == len(KEYS) / result.makespan_s
    np.testing.assert_allclose(result.utilisation * result.makespan_s, result.loads * 0.01)
    for positions, table in (result.queue_over_time, result.latency_over_time):
        assert positions.tolist() == [50 * k for k in range(1, 101)]
        assert table.shape == (100, 5)


@pytest.mark.parametrize("name", NAMES)
def test_loads_are_those_of_routers_that_take_turns(name: str) -> None:
    grouping, sources = params(name), 4
    found = ks.simulate(grouping, KEYS, sources=sources, weights=WEIGHTS)
    routers = [grouping.router(source) for source in range(sources)]
    pairs = set()
    for source, router in enumerate(routers):
        own = slice(source, None, sources)
        workers = router.route(KEYS[own], weights=WEIGHTS[own])
        pairs |= set(zip(KEYS[own].tolist(), workers.tolist(), strict=True))
    np.testing.assert_array_equal(found.loads, sum(router.loads for router in routers))
    assert found.memory == len(pairs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_cuts_change_nothing(name: str, mode: str) -> None:
    def simulate(keys: Any, **options: Any) -> ks.SimulationResult:
        return ks.simulate(params(name), keys, sources=3, samples=7, **MODES[mode], **options)

    whole = simulate(KEYS)
    some = sorted(np.random.default_rng(5).integers(0, len(KEYS), 20).tolist())
    assert_equal(simulate(cut(KEYS, *some), messages=len(KEYS)), whole)
    assert_equal(simulate((KEYS[at : at + 1] for at in range(len(KEYS))), messages=len(KEYS)), whole)
    unknown = simulate(iter([KEYS]))
    assert_equal(simulate(cut(KEYS, *some)), unknown)
    np.testing.assert_array_equal(unknown.loads, whole.loads)
    positions, _ = unknown.imbalance_over_time
    assert positions.tolist() == [512 * k for k in range(1, 10)] + [5000]


@pytest.mark.parametrize("name", NAMES)
def test_chunks_of_other_kinds_are_the_same_keys(name: str) -> None:
    whole = ks.simulate(params(name), KEYS.tolist(), sources=2)
    first, second, third, fourth = cut(KEYS, 1000, 1001, 3000)
    chunks = iter([first.tolist(), pa.array(second), pa.chunked_array([third]), fourth.astype(np.uint16)])
    assert_equal(ks.simulate(params(name), chunks, sources=2, messages=len(KEYS)), whole)


@pytest.mark.parametrize("name", NAMES)
def test_one_worker_gets_all(name: str) -> None:
    result = ks.simulate(params(name, workers=1), KEYS, sources=2, service_time_s=0.5)
    assert result.loads.tolist() == [len(KEYS)]
    assert result.imbalance == result.mean_imbalance == 0
    assert result.replication == 1
    assert result.makespan_s == len(KEYS) * 0.5
    assert result.utilisation.tolist() == [1]


@pytest.mark.parametrize("chunks", [None, 0, 2])
@pytest.mark.parametrize("name", NAMES)
def test_an_empty_stream(name: str, chunks: int | None) -> None:
    keys = [] if chunks is None else iter([[]] * chunks)
    result = ks.simulate(params(name), keys, sources=2, service_time_s=1.0)
    assert (result.messages, result.distinct_keys, result.memory) == (0, 0, 0)
    assert result.loads.tolist() == [0] * 5
    assert result.imbalance == result.relative_imbalance == result.load_stddev == result.mean_imbalance == 0
    assert math.isnan(result.replication)
    assert result.imbalance_over_time[0].tolist() == []
    assert result.queue_over_time[1].shape == (0, 5)
    assert result.makespan_s == 0
    assert math.isnan(result.throughput_per_s)
    assert result.utilisation.tolist() == [0] * 5
    assert all(math.isnan(seconds) for seconds in result.latency_s.values())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_65536_workers(name: str, mode: str) -> None:
    result = ks.simulate(params(name, workers=65_536), KEYS[:300], sources=2, samples=3, **MODES[mode])
    assert result.loads.shape == (65_536,)
    assert result.loads.sum() == 300
    assert result.memory >= result.distinct_keys


@pytest.mark.parametrize("name", NAMES)
def test_seeds_decide(name: str) -> None:
    groupings = [ks.grouping(name, workers=40, seed=seed) for seed in (1, 1, 2)]
    results = [ks.simulate(grouping, KEYS, sources=2) for grouping in groupings]
    assert_equal(results[0], results[1])
    assert (results[0].loads != results[2].loads).any()


def test_threads_do_not_disturb_each_other() -> None:
    def simulate(name: str) -> ks.SimulationResult:
        return ks.simulate(params(name), np.tile(KEYS, 40), sources=3, **TIMED)

    with ThreadPoolExecutor(8) as pool:
        for name, found in zip(NAMES, pool.map(simulate, NAMES), strict=True):
            assert_equal(found, simulate(name))


@pytest.mark.parametrize("name", ELASTIC)
def test_workers_come_and_go(name: str) -> None:
    events = [ks.AddWorker(4000), ks.RemoveWorker(1000, 2), ks.AddWorker(2000, 0.5), ks.RemoveWorker(9999, 0)]
    result = ks.simulate(params(name), KEYS, sources=2, samples=5, events=events, **TIMED)
    routers = [params(name).router(source) for source in range(2)]
    assert result.loads.shape == (6,)
    assert result.loads.sum() == len(KEYS)
    assert result.loads[5] > 0
    before = ks.simulate(params(name), KEYS[:1000], sources=2, **TIMED)
    assert result.queue_over_time[1][0].tolist() == [*before.queue_over_time[1][-1], 0]
    assert np.isnan(result.latency_over_time[1][:4, 5]).all()
    assert np.isnan(result.latency_over_time[1][1, 2])  # 1,000 to 2,000: it is away
    # without a timing model: the same as routers that are told by hand
    untimed = ks.simulate(params(name), KEYS, sources=2, events=events)
    for start, end in ((0, 1000), (1000, 2000), (2000, 4000), (4000, 5000)):
        for source, router in enumerate(routers):
            if start == 1000:
                router.remove_worker(2)
            elif start > 1000:
                router.add_worker()
            router.route(KEYS[start + source : end : 2])
    np.testing.assert_array_equal(untimed.loads, sum(router.loads for router in routers))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ELASTIC])
def test_groupings_that_are_not_elastic_say_so(name: str) -> None:
    with pytest.raises(ValueError, match=f"^events at position 3: {name} has a fixed number of workers, 5$"):
        ks.simulate(params(name), KEYS, events=[ks.AddWorker(3)])


# Results


def test_a_result_can_be_told() -> None:
    result = ks.simulate(params("key"), KEYS, **TIMED)
    found = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert set(found) == {field.name for field in fields(result)}
    assert found["params"] == {"name": "key", "workers": 5, "seed": 0}
    assert found["loads"] == result.loads.tolist()
    assert found["latency_s"] == result.latency_s
    empty = ks.simulate(params("key"), [], **TIMED).to_dict()
    assert empty["replication"] is None
    assert repr(result).startswith(
        "<SimulationResult of KeyGrouping(workers=5, seed=0), 1 source: messages 5,000,"
    )
    assert "p99_latency_s" in repr(result)
    assert "latency" not in repr(ks.simulate(params("key"), KEYS))
    with pytest.raises(FrozenInstanceError):
        result.messages = 1


def test_swapped_arguments_are_named_in_a_line() -> None:
    with pytest.raises(TypeError, match=r"^params must be a grouping .*, with the keys second, got list$"):
        ks.simulate(list(range(100_000)), ks.KeyGrouping(workers=4))  # type: ignore[arg-type]


def test_compare_equals_single_simulations() -> None:
    groupings = ["key", ks.DChoices(workers=1, seed=4), "flexd"]
    expected = [
        ks.simulate(grouping, KEYS, sources=5, seed=7, **TIMED)
        for workers in (3, 20)
        for grouping in (
            ks.KeyGrouping(workers=workers, seed=7),
            ks.DChoices(workers=workers, seed=4),
            ks.FlexD(workers=workers, seed=7),
        )
    ]
    for keys, messages in ((KEYS, None), (cut(KEYS, 10, 3000), len(KEYS))):
        found = ks.compare(keys, [3, 20], groupings, seed=7, messages=messages, **TIMED)
        assert [result.params for result in found] == [result.params for result in expected]
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    weighted = ks.compare(KEYS, 3, groupings[:1], weights=WEIGHTS)[0]
    assert weighted.loads.sum() == WEIGHTS.sum()
    assert [result.params.name for result in ks.compare(KEYS, 3)] == list(ks.GROUPINGS)


def test_a_frame_has_a_row_a_result() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    results = ks.compare(KEYS, [3, 4], ["key", "shuffle"], **TIMED)
    frame = ks.to_frame(results)
    assert isinstance(frame, pandas.DataFrame)
    assert frame["workers"].tolist() == [3, 3, 4, 4]
    assert frame["latency_p99_s"].tolist() == [result.latency_s["p99"] for result in results]
    assert frame["imbalance"].tolist() == [result.imbalance for result in results]
    assert "latency_p99_s" not in ks.to_frame(ks.compare(KEYS, 3, ["key"]))


def test_a_result_without_samples_has_a_report(tmp_path: Path) -> None:
    for timed in ({}, {"service_time_s": 1.0}):
        result = ks.simulate(ks.DChoices(workers=4), ["a", "b"], samples=0, **timed)
        result.report(tmp_path / "report.html")
        assert "d_choices" in (tmp_path / "report.html").read_text()


def test_workers_that_are_no_whole_numbers_are_named() -> None:
    for function in (ks.compare, ks.profile):
        with pytest.raises((TypeError, ValueError), match=r"workers must be .* got 2\.5"):
            function(["a"], workers=2.5)


@pytest.mark.parametrize("wrong", [None, ["key"], {"a": 1}])
def test_what_are_no_results_is_named(wrong: Any) -> None:
    for function in (ks.to_frame, ks.pareto):
        with pytest.raises(TypeError, match="results must be a list of simulation results, got"):
            function(wrong)
    one = ks.simulate(ks.KeyGrouping(workers=2), [1, 2])
    with pytest.raises(TypeError, match="got SimulationResult"):
        ks.to_frame(one)


def test_a_frame_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        ks.to_frame([])


def test_the_front_has_what_nothing_beats() -> None:
    names = ["key", "partial_key", "shuffle", "power_of_two"]
    results = ks.compare(KEYS, [4, 8], names, sources=1)
    figures = [(result.imbalance, result.replication) for result in results]
    for part in (slice(0, 4), slice(4, 8)):
        for own, on_front in zip(figures[part], ks.pareto(results)[part], strict=True):
            beaten = [other for other in figures[part] if other != own and np.less_equal(other, own).all()]
            assert on_front == (not beaten)
    assert ks.pareto(results)[0]
    assert not all(ks.pareto(results))


def test_a_sample_of_the_keys_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = np.arange(40_000) % 20_000
    exact = ks.simulate(params("shuffle"), keys, sources=3)
    monkeypatch.setattr("keysplit.runs.MOST_KEYS", 5000)
    found = [ks.simulate(params("shuffle"), keys, sources=3, seed=seed) for seed in range(5)]
    assert exact.exact_keys
    assert not any(result.exact_keys for result in found)
    # six standard errors, of at least 2,500 kept keys each
    assert abs(np.mean([result.distinct_keys for result in found]) / 20_000 - 1) < 6 / math.sqrt(5 * 2500)
    assert len({result.distinct_keys for result in found}) > 1
    assert all(result.replication == pytest.approx(exact.replication, rel=0.05) for result in found)
    assert all(result.memory / result.distinct_keys == result.replication for result in found)
    np.testing.assert_array_equal(found[0].loads, exact.loads)


# Arguments

GROUPING = ks.RingGrouping(workers=5)
WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"sources": 0}, ValueError, "sources must be in 1..=65536, got 0"),
    ({"sources": 1.5}, TypeError, "sources must be an integer in 1..=65536, got 1.5"),
    ({"seed": -1}, ValueError, "seed must be in 0..=18446744073709551615, got -1"),
    ({"samples": -1}, ValueError, "samples must be in 0..=1000000, got -1"),
    ({"samples": "7"}, TypeError, "samples must be an integer in 0..=1000000, got '7'"),
    ({"messages": 7}, ValueError, "messages must be the length of the stream, 5000, got 7"),
    ({"weights": [1.0]}, ValueError, "weights must be one per key, 5000 in all, got 1"),
    (
        {"weights": np.full(5000, -1)},
        ValueError,
        "weights must be finite and at least 0, got -1.0 at position 0",
    ),
    ({"service_time_s": -1}, ValueError, "service_time_s must be in 0..=1e12, got -1.0"),
    ({"service_time_s": math.nan}, ValueError, "service_time_s must be in 0..=1e12, got nan"),
    ({"service_time_s": [1, 2]}, ValueError, "service_time_s must be one per worker, 5 in all, got 2"),
    (
        {"service_time_s": [1, 2, 3, 4, 1e13]},
        ValueError,
        "service_time_s must be in 0..=1e12, got 10000000000000.0",
    ),
    (
        {"service_time_s": "1"},
        TypeError,
        "service_time_s must be numbers, got str where a sequence is needed",
    ),
    (
        {"service_time_s": 1, "capacities": [1, 2]},
        ValueError,
        "capacities must be one per worker, 5 in all, got 2",
    ),
    (
        {"service_time_s": 1, "capacities": [1, 2, 0, 1, 1]},
        ValueError,
        "capacities must be in 1e-12..=1e12, got 0.0",
    ),
    ({"capacities": [1] * 5}, ValueError, "capacities must be None without service_time_s"),
    ({"arrival_rate_per_s": 1}, ValueError, "arrival_rate_per_s must be None without service_time_s"),
    ({"in_flight": 1}, ValueError, "in_flight must be None without service_time_s"),
    (
        {"service_time_s": 1, "arrival_rate_per_s": 0},
        ValueError,
        "arrival_rate_per_s must be in 1e-6..=1e12, got 0.0",
    ),
    (
        {"service_time_s": 1, "arrival_rate_per_s": 1, "in_flight": 1},
        ValueError,
        "in_flight must be None if arrival_rate_per_s is given",
    ),
    ({"service_time_s": 1, "in_flight": 0}, ValueError, "in_flight must be in 1..=100000000, got 0"),
    (
        {"service_time_s": 1, "feedback_interval_s": 0},
        ValueError,
        "feedback_interval_s must be in 1e-6..=1e12, got 0.0",
    ),
    ({"service_time_s": 1, "busy_above": -0.1}, ValueError, "busy_above must be in 0..=1e12, got -0.1"),
    (
        {"service_time_s": 1, "idle_below": None},
        TypeError,
        "idle_below must be a number in 0..=1e12, got None",
    ),
    ({"service_time_s": 1e12}, ValueError, "simulated time must be in 0..=1e12 seconds, got 2000000000000.0"),
    ({"events": [7]}, TypeError, "events must be AddWorker, RemoveWorker or SetCapacity, got 7"),
    ({"events": [ks.AddWorker(-1)]}, ValueError, "position must be in 0..=9007199254740992, got -1"),
    (
        {"events": [ks.AddWorker(1, 0)]},
        ValueError,
        "events at position 1: capacity must be in 1e-12..=1e12, got 0.0",
    ),
    ({"events": [ks.AddWorker(1, "2")]}, TypeError, "capacity must be a number, got '2'"),
    (
        {"events": [ks.RemoveWorker(9999, 5)]},
        ValueError,
        "events at position 9999: worker must be the number of a present worker, got 5",
    ),
    (
        {"events": [ks.RemoveWorker(9, worker) for worker in range(5)]},
        ValueError,
        "events at position 9: worker must not be the last one, got 4",
    ),
    (
        {"events": [ks.SetCapacity(9, 1, 2.0)]},
        ValueError,
        "events at position 9: SetCapacity must not be used without service_time_s",
    ),
    (
        {"events": [ks.SetCapacity(9, 7, 2.0)], "service_time_s": 1},
        ValueError,
        "events at position 9: worker must be the number of a present worker, got 7",
    ),
]


@pytest.mark.parametrize(("options", "exception", "message"), WRONG, ids=[message for *_, message in WRONG])
def test_wrong_arguments_are_named(options: dict[str, Any], exception: type[Exception], message: str) -> None:
    with pytest.raises(exception) as error:
        ks.simulate(GROUPING, KEYS, **options)
    assert str(error.value) == message


def test_wrong_keys_and_groupings() -> None:
    with pytest.raises(TypeError, match=r"^params must be a grouping such as .*, got 'key'$"):
        ks.simulate("key", KEYS)
    with pytest.raises(TypeError, match=r"^keys must not be floats"):
        ks.simulate(GROUPING, [0.5])
    with pytest.raises(TypeError, match=r"^keys must not be floats"):
        ks.compare(iter([[1, 2], [0.5]]), 3)
    with pytest.raises(TypeError, match=r"^keys must be an Arrow array or stream"):
        ks.simulate(GROUPING, 7)
    with pytest.raises(TypeError, match=r"^keys must be a column of keys, got a single str"):
        ks.simulate(GROUPING, "word")
    with pytest.raises(ValueError, match=r"^weights must be None if keys come in chunks$"):
        ks.simulate(GROUPING, iter([KEYS]), weights=WEIGHTS)
    with pytest.raises(ValueError, match=r"^grouping must be one of .*, got 'kee'$"):
        ks.compare(KEYS, 3, ["kee"])
    with pytest.raises(TypeError, match=r"^groupings must be a list of names or groupings, got 'key'$"):
        ks.compare(KEYS, 3, "key")
    with pytest.raises(TypeError, match="service_time_ms"):
        ks.compare(KEYS, 3, ["key"], service_time_ms=1)


@pytest.mark.parametrize("said", [0, 4999, 5001])
def test_a_stream_that_is_not_as_long_as_it_was_said_to_be(said: int) -> None:
    with pytest.raises(ValueError, match=f"^messages must be the length of the stream, 5000, got {said}$"):
        ks.simulate(GROUPING, cut(KEYS, 700), messages=said)


def test_errors_of_the_stream_itself_pass_through() -> None:
    def chunks() -> Iterator[Any]:
        yield KEYS
        raise KeyError("the stream broke")

    with pytest.raises(KeyError, match="the stream broke"):
        ks.compare(chunks(), 3, ["key", "shuffle"])


def test_a_simulation_ends_once() -> None:
    options = {"sources": 1, "seed": 0, "messages": None, "samples": 1, "most_keys": 9, "most_groups": 9}
    options |= {"arrival_rate_per_s": None, "in_flight": None}
    simulation = _core.Simulation("key", {"workers": 2, "seed": 0}, options)
    simulation.add([1, 2])
    with pytest.raises(TypeError):
        simulation.add([0.5])
    simulation.add([1])
    assert simulation.finish()["messages"] == 3
    for again in (simulation.finish, lambda: simulation.add([1])):
        with pytest.raises(RuntimeError, match="has ended"):
            again()


def test_a_stream_from_a_file_object() -> None:
    text = b"to be or not to be " * 1000
    result = ks.simulate(GROUPING, ks.streams.chunks(io.BytesIO(text), rows=100), sources=2)
    assert result.messages == 6000
    assert result.distinct_keys == 4


# Memory

SEVERAL: dict[str, Any] = {"workers": [3, 70], "groupings": ["key", "shuffle", "fish", "flexd"], "sources": 2}


def runs_of(monkeypatch: pytest.MonkeyPatch, keys: Any, memory: int, **options: Any) -> tuple[list[int], Any]:
    """How many simulations were started in each run, and the results."""
    started: list[int] = []
    choose = runs.choose

    def watched(*arguments: Any) -> list[int]:
        chosen = choose(*arguments)
        started.append(len(chosen))
        return chosen

    monkeypatch.setattr(runs, "choose", watched)
    return started, ks.compare(keys, memory=memory, **SEVERAL, **options)


@pytest.mark.parametrize("form", ["column", "chunks", "function"])
def test_compare_in_several_runs_equals_one(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    opened = 0

    def chunks() -> Iterator[Any]:
        nonlocal opened
        opened += 1
        yield KEYS[:1234].tolist()
        yield KEYS[1234:4000]
        yield pa.array(KEYS[4000:])

    stream: Any = {"column": KEYS, "chunks": chunks(), "function": chunks}[form]
    monkeypatch.setattr(runs, "_ROUTER_BYTES", 10**5)
    # samples where the length of the stream is not known are others
    length = {} if form == "column" else {"messages": len(KEYS)}
    expected = ks.compare(KEYS, **SEVERAL)
    started, found = runs_of(monkeypatch, stream, memory=LEAST_MEMORY, **length)
    assert len(started) > 1
    assert sum(started) == len(expected) == 8
    if form == "function":
        assert opened == len(started)
    if form == "chunks":
        assert opened == 1
    for one, other in zip(found, expected, strict=True):
        assert_equal(one, other)


def test_what_does_not_need_the_bound_runs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_of(monkeypatch, KEYS, memory=MEMORY)[0] == [8]
    assert runs_of(monkeypatch, iter([KEYS]), memory=MEMORY, messages=len(KEYS))[0] == [8]


@dataclass
class Sized:
    """What `choose` asks of a simulation."""

    workers: int
    sources: int = 5


@pytest.mark.parametrize(
    ("memory", "keys", "messages", "expected"),
    [
        (5 * 10**9, 10**7, None, [1, 3]),  # 1 GB each for 10 workers, 10 GB for 1000
        (5 * 10**9, 10**7, 10**7, [0, 1, 2, 3]),  # no more pairs than messages
        (5 * 10**9, 10**4, None, [0, 1, 2, 3]),
        (10**8, 10**7, None, [1]),  # does not fit, and runs alone
    ],
)
def test_as_many_run_together_as_fit(
    memory: int, keys: int, messages: int | None, expected: list[int]
) -> None:
    assert runs.choose([Sized(1000), Sized(10), Sized(1000), Sized(10)], memory, keys, messages) == expected


@pytest.mark.parametrize(
    ("memory", "exception", "message"),
    [
        (10**8 - 1, ValueError, "memory must be at least 100000000 bytes, got 99999999"),
        (1e9, TypeError, "memory must be a whole number of bytes, at least 100000000, got 1000000000.0"),
    ],
)
def test_wrong_memory(memory: Any, exception: type[Exception], message: str) -> None:
    with pytest.raises(exception, match=re.escape(message)):
        ks.compare(KEYS, 3, ["key"], memory=memory)
