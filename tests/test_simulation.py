"""`ks.simulate` equals its naive model in every figure, and the figures are those computed by hand.

The Rust core and the model share docs/simulation.md and docs/routing.md and nothing else.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keysplit as ks
from keysplit import runs
from keysplit.streams import zipf
from parameters import SEEDS, parameters
from reference import MODELS
from reference.simulate import (
    AddWorker,
    Event,
    RemoveWorker,
    Result,
    SetCapacity,
    Timing,
    imbalance,
    simulate,
)
from test_differential import QUARTERS, as_input, streams

NAMES = sorted(MODELS)
ELASTIC = [name for name in NAMES if ks.GROUPINGS[name].elastic]
FEW_WORKERS = st.one_of(st.integers(1, 8), st.sampled_from([20, 63, 65, 130]))
WEIGHTS = st.lists(QUARTERS | st.integers(0, 9).map(float) | st.floats(0, 10), min_size=1, max_size=6)
SERVICE_TIMES_S = st.one_of(st.sampled_from([0.0, 0.001, 0.1, 0.5, 1.0, 3.0]), st.floats(1e-3, 3))
CAPACITIES = st.one_of(st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]), st.floats(0.25, 10))
RATES_PER_S = st.one_of(st.sampled_from([0.1, 1.0, 2.0, 7.0, 100.0, 1e4]), st.floats(0.1, 100))


@dataclass
class Case:
    """A simulation as the model takes it, and where its stream is cut if it comes in chunks."""

    name: str
    params: dict[str, Any]
    keys: list[Any]
    weights: list[float] | None = None
    sources: int = 1
    seed: int = 0
    timing: Timing | None = None
    events: list[Event] = field(default_factory=list)
    samples: int = 10
    length_known: bool = True
    most_keys: int = 10_000_000
    most_groups: int = 100_000_000
    cuts: list[int] | None = None

    def chunks(self) -> Iterator[Any]:
        assert self.cuts is not None
        for begin, end in zip([0, *self.cuts], [*self.cuts, len(self.keys)], strict=True):
            yield as_input(self.keys[begin:end])


@st.composite
def timings(draw: st.DrawFn, workers: int) -> Timing:
    def each(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[float]]:
        short = st.lists(values, min_size=1, max_size=4)
        return short.map(lambda pattern: [pattern[worker % len(pattern)] for worker in range(workers)])

    rate_per_s = draw(st.none() | RATES_PER_S)
    if rate_per_s is None:
        in_flight = draw(st.none() | st.integers(1, 5) | st.just(30))
        feedback_interval_s = draw(st.sampled_from([0.1, 0.5, 1.0, 7.0, 100.0]))
    else:
        in_flight = None
        feedback_interval_s = draw(st.sampled_from([0.3, 1.0, 3.5, 20.0, 100.0])) / rate_per_s
    return Timing(
        service_time_s=draw(SERVICE_TIMES_S | each(SERVICE_TIMES_S)),
        capacities=draw(st.none() | each(CAPACITIES)),
        arrival_rate_per_s=rate_per_s,
        in_flight=in_flight,
        feedback_interval_s=feedback_interval_s,
        busy_above=draw(st.sampled_from([0.5, 0.85, 0.9, 2.0])),
        idle_below=draw(st.sampled_from([0.1, 0.5, 0.75])),
    )


@st.composite
def possible_events(draw: st.DrawFn, name: str, workers: int, messages: int, timed: bool) -> list[Event]:
    """Events that can happen one after the other; some after the end of the stream."""
    present = set(range(workers))
    events: list[Event] = []
    for position in sorted(draw(st.lists(st.integers(0, messages + 2), max_size=6))):
        kinds = ["set"] * timed
        if name in ELASTIC:
            kinds += ["add"] + ["remove"] * (len(present) > 1)
        kind = draw(st.sampled_from(kinds)) if kinds else None
        if kind == "add":
            events.append(AddWorker(position, draw(CAPACITIES)))
            present.add(next(number for number in range(len(present) + 1) if number not in present))
        elif kind == "remove":
            worker = draw(st.sampled_from(sorted(present)))
            events.append(RemoveWorker(position, worker))
            present.remove(worker)
        elif kind == "set":
            events.append(SetCapacity(position, draw(st.sampled_from(sorted(present))), draw(CAPACITIES)))
    if draw(st.booleans()):
        events.sort(key=lambda event: -event.position)  # those of one position stay in their order
    return events


@st.composite
def cases(draw: st.DrawFn, name: str, timed: bool) -> Case:
    params = draw(parameters(name)) | {"workers": draw(FEW_WORKERS)}
    keys = draw(streams())
    case = Case(
        name,
        params,
        keys,
        sources=draw(st.integers(1, 4)),
        seed=draw(SEEDS),
        timing=draw(timings(params["workers"])) if timed else None,
        events=draw(possible_events(name, params["workers"], len(keys), timed)),
        samples=draw(st.integers(1, 20)),
        most_keys=draw(st.integers(1, 10) | st.just(10_000_000)),
        most_groups=draw(st.integers(1, 20) | st.just(100_000_000)),
    )
    form = draw(st.sampled_from(["column", "weighted column", "chunks", "chunks of unknown number"]))
    if form == "weighted column":
        weights = draw(WEIGHTS)
        case.weights = [weights[t % len(weights)] for t in range(len(keys))]
    elif form != "column":
        case.cuts = sorted(draw(st.lists(st.integers(0, len(keys)), max_size=4)))
        case.length_known = form == "chunks"
    return case


def model_of(case: Case) -> Result:
    arguments = {each.name: getattr(case, each.name) for each in fields(case) if each.name != "cuts"}
    return simulate(**arguments)


def not_default(timing: Timing) -> dict[str, Any]:
    values = {each: getattr(timing, each.name) for each in fields(timing)}
    return {each.name: value for each, value in values.items() if value != each.default}


def run(case: Case) -> ks.SimulationResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "MOST_KEYS", case.most_keys)
        patch.setattr(runs, "MOST_GROUPS", case.most_groups)
        return ks.simulate(
            ks.grouping(case.name, **case.params),
            as_input(case.keys) if case.cuts is None else case.chunks(),
            weights=case.weights,
            messages=len(case.keys) if case.cuts is not None and case.length_known else None,
            sources=case.sources,
            seed=case.seed,
            events=[getattr(ks, type(event).__name__)(**asdict(event)) for event in case.events],
            samples=case.samples,
            **({} if case.timing is None else not_default(case.timing)),
        )


def figures_of(case: Case, model: Result) -> dict[str, Any]:
    """Every field of a result, as the model has it."""
    positions = [sample.messages for sample in model.samples]
    figures = {
        "params": ks.grouping(case.name, **case.params),
        "sources": case.sources,
        "messages": model.messages,
        "loads": model.loads,
        "imbalance": imbalance(model.loads),
        "relative_imbalance": ks.metrics.relative_imbalance(model.loads),
        "load_stddev": ks.metrics.load_stddev(model.loads),
        "mean_imbalance": model.mean_imbalance,
        "distinct_keys": model.distinct_keys,
        "memory": model.memory,
        "replication": model.replication,
        "exact_keys": model.exact_keys,
        "imbalance_over_time": (positions, [sample.imbalance for sample in model.samples]),
        "latency_s": model.latency_s,
        "throughput_per_s": model.throughput_per_s,
        "makespan_s": model.makespan_s,
        "queue_over_time": None,
        "latency_over_time": None,
        "utilisation": model.utilisation,
    }
    if case.timing is not None:
        shape = (len(positions), len(model.loads))
        queues = np.reshape([sample.queue for sample in model.samples], shape)
        latencies_s = np.reshape([sample.latency_s for sample in model.samples], shape)
        figures |= {"queue_over_time": (positions, queues), "latency_over_time": (positions, latencies_s)}
    return figures


def assert_same(result: ks.SimulationResult, figures: dict[str, Any]) -> None:
    """To the bit; a nan equals a nan."""
    assert [each.name for each in fields(result)] == list(figures)
    for name, expected in figures.items():
        value = getattr(result, name)
        if isinstance(expected, tuple):
            assert [part.dtype for part in value] == [np.int64, np.float64]
            for part, expected_part in zip(value, expected, strict=True):
                np.testing.assert_array_equal(part, expected_part, err_msg=name, strict=False)
                assert part.shape == np.shape(expected_part)
        elif isinstance(expected, dict):
            assert list(value) == list(expected)
            np.testing.assert_array_equal(list(value.values()), list(expected.values()), err_msg=name)
        elif isinstance(expected, list):
            assert value.dtype == np.float64
            np.testing.assert_array_equal(value, expected, err_msg=name)
        else:
            assert type(value) is type(expected)
            assert value == expected or (expected != expected and value != value), name


def check(case: Case) -> ks.SimulationResult:
    result = run(case)
    assert_same(result, figures_of(case, model_of(case)))
    return result


@pytest.mark.parametrize("timed", [False, True], ids=["untimed", "timed"])
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_simulation_equals_model(name: str, timed: bool, data: st.DataObject) -> None:
    check(data.draw(cases(name, timed)))


def skewed(messages: int, seed: int) -> list[int]:
    """A stream whose hot keys change half-way."""
    keys = zipf(1.2, 300, messages, seed=seed)
    keys[messages // 2 :] = 299 - keys[messages // 2 :]
    return keys.tolist()


# Three sources, workers that are not equally fast, at three quarters of what they can serve.
UNEQUAL = [1.0] * 8 + [0.5] * 4
BUSY = Timing([0.04, 0.06] * 6, UNEQUAL, arrival_rate_per_s=0.8 * 10 / 0.05, feedback_interval_s=0.5)
SHORT: dict[str, dict[str, Any]] = {
    "consistent": {"slot_s": 0.5},
    "fish": {"interval_s": 2.0},
    "flexd": {"segment_messages": 100},
    "dynamic_key": {"warm_up_s": 1.0, "teenage_interval_s": 2.0, "old_interval_s": 3.0},
}


LOOPS = {
    "open": BUSY,
    "closed": replace(BUSY, arrival_rate_per_s=None, in_flight=40),
    # Some messages take longer than the time between two feedbacks.
    "one at a time": replace(BUSY, arrival_rate_per_s=None, in_flight=1, feedback_interval_s=0.07),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", NAMES)
def test_long_streams_in_time(name: str, loop: str) -> None:
    """Dozens of feedbacks, and changes of speed between them."""
    timing = LOOPS[loop]
    params = {"workers": len(UNEQUAL), "seed": 5, **SHORT.get(name, {})}
    events: list[Event] = [SetCapacity(1200, 0, 0.25), SetCapacity(2000, 11, 3.0), SetCapacity(2000, 0, 1.0)]
    if name in ELASTIC:
        events += [AddWorker(700, 2.0), RemoveWorker(1000, 3), RemoveWorker(1000, 12), AddWorker(1500)]
        events += [SetCapacity(1600, 3, 0.4)]
    check(Case(name, params, skewed(3000, 6), sources=3, timing=timing, events=events))


@pytest.mark.parametrize("name", ["consistent", "fish", "flexd"])
def test_feedback_reaches_the_routers(name: str) -> None:
    params = {"workers": len(UNEQUAL), "seed": 5, **SHORT[name]}
    case = Case(name, params, skewed(3000, 7), sources=3, timing=BUSY)
    silent = replace(case, timing=replace(BUSY, feedback_interval_s=1e9))
    assert check(case).loads.tolist() != check(silent).loads.tolist()


# By hand: shuffle grouping with seed 0 sends the first message to worker 0, the second to worker 1, ...


def shuffled(messages: int, samples: int = 3, **others: Any) -> ks.SimulationResult:
    params = {"workers": 2, "seed": 0}
    return check(Case("shuffle", params, [f"key {t}" for t in range(messages)], samples=samples, **others))


def test_two_workers_and_three_messages() -> None:
    result = shuffled(3, timing=Timing([3.0, 1.0], arrival_rate_per_s=1.0))
    # worker 0: from 0 to 3 and, for the one that came at 2, from 3 to 6; worker 1: from 1 to 2
    assert result.loads.tolist() == [2.0, 1.0]
    assert result.latency_s == {"mean": 8 / 3, "p50": 3.0, "p95": 4.0, "p99": 4.0, "max": 4.0}
    assert result.makespan_s == 6.0
    assert result.throughput_per_s == 0.5
    assert result.utilisation is not None
    assert result.utilisation.tolist() == [1.0, 1 / 6]
    assert result.queue_over_time is not None
    assert result.queue_over_time[0].tolist() == [1, 2, 3]
    assert result.queue_over_time[1].tolist() == [[1.0, 0.0], [2 / 3, 1.0], [4 / 3, 0.0]]
    assert result.latency_over_time is not None
    assert repr(result.latency_over_time[1].tolist()) == "[[3.0, nan], [nan, 1.0], [4.0, nan]]"
    assert result.imbalance_over_time[1].tolist() == [0.5, 0.0, 0.5 / 3]
    assert (result.distinct_keys, result.memory, result.replication) == (3, 3, 1.0)


def test_one_message_at_a_time() -> None:
    result = shuffled(3, timing=Timing([3.0, 1.0], in_flight=1))
    assert result.latency_s == {"mean": 7 / 3, "p50": 3.0, "p95": 3.0, "p99": 3.0, "max": 3.0}
    assert result.makespan_s == 7.0
    assert result.utilisation is not None
    assert result.utilisation.tolist() == [6 / 7, 1 / 7]


def test_two_messages_at_a_time() -> None:
    """The third comes when the second is finished, and waits for the first."""
    result = shuffled(3, timing=Timing([3.0, 1.0], in_flight=2))
    assert result.latency_s == {"mean": 3.0, "p50": 3.0, "p95": 5.0, "p99": 5.0, "max": 5.0}
    assert result.makespan_s == 6.0


def test_weights_take_time() -> None:
    result = shuffled(3, weights=[2.0, 0.0, 0.5], timing=Timing([3.0, 1.0], arrival_rate_per_s=1.0))
    assert result.loads.tolist() == [2.5, 0.0]
    assert result.latency_s is not None
    assert (result.latency_s["p50"], result.latency_s["max"]) == (5.5, 6.0)  # 0 to 6, none, 2 to 7.5
    assert result.makespan_s == 7.5


def test_a_worker_becomes_faster() -> None:
    timing = Timing([3.0, 1.0], arrival_rate_per_s=1.0)
    result = shuffled(3, timing=timing, events=[SetCapacity(2, 0, 2.0)])
    # at 2, one second of work is left, which now takes half a second; then 1.5 s for the message
    assert result.latency_s is not None
    assert result.latency_s["mean"] == (3.0 + 1.0 + 2.0) / 3
    assert result.makespan_s == 4.0
    assert result.queue_over_time is not None
    assert result.queue_over_time[1][-1].tolist() == [2.0 / 1.5, 0.0]


def test_a_worker_goes_and_another_gets_its_number() -> None:
    params = {"workers": 2}
    first = int(ks.RingGrouping(**params).router().route(["key"])[0])
    timing = Timing(10.0, arrival_rate_per_s=1.0)
    events = [RemoveWorker(1, first), AddWorker(2, capacity=4.0)]
    result = check(Case("ring", params | {"seed": 0}, ["key"] * 3, samples=3, timing=timing, events=events))
    # 0 to 10, the other one 1 to 11, the new one 2 to 4.5
    assert result.loads[[first, 1 - first]].tolist() == [2.0, 1.0]
    assert result.latency_s is not None
    assert (result.latency_s["mean"], result.latency_s["max"]) == (22.5 / 3, 10.0)
    assert result.makespan_s == 11.0
    assert result.queue_over_time is not None
    queues = result.queue_over_time[1][:, [first, 1 - first]]
    assert queues.tolist() == [[1.0, 0.0], [0.9, 1.0], [1.0, 0.9]]
    assert (result.distinct_keys, result.memory) == (1, 2)


def test_numbers_that_are_given_later() -> None:
    timing = Timing([4.0, 2.0], arrival_rate_per_s=1.0)
    result = check(
        Case("ring", {"workers": 2, "seed": 0}, [1, 2, 3], samples=3, timing=timing, events=[AddWorker(2)])
    )
    assert result.loads.shape == (3,)
    assert result.queue_over_time is not None
    assert result.queue_over_time[1][:2, 2].tolist() == [0.0, 0.0]
    assert result.latency_over_time is not None
    assert np.isnan(result.latency_over_time[1][:2, 2]).all()
    assert result.imbalance_over_time[1][0] == 0.5  # two numbers then


@pytest.mark.parametrize(
    ("messages", "samples", "positions"),
    [(10, 3, [4, 7, 10]), (3, 10, [1, 2, 3]), (10, 1, [10]), (0, 3, []), (10, 0, [])],
)
def test_samples(messages: int, samples: int, positions: list[int]) -> None:
    assert shuffled(messages, samples).imbalance_over_time[0].tolist() == positions


@pytest.mark.parametrize(
    ("messages", "samples", "positions"),
    [
        (10, 2, [4, 8, 10]),  # 1, 2, 3, 4: 2, 4; 6, 8: 4, 8
        (8, 2, [4, 8]),
        (7, 2, [4, 7]),  # the last one makes four
        (5, 1, [5]),
        (3, 2, [1, 2, 3]),
        (0, 3, []),
        (9, 0, []),
    ],
)
@pytest.mark.parametrize("cuts", [[], [0, 1, 5]])
def test_samples_of_a_stream_of_unknown_length(
    messages: int, samples: int, positions: list[int], cuts: list[int]
) -> None:
    cuts = [min(cut, messages) for cut in cuts]
    result = shuffled(messages, samples, cuts=cuts, length_known=False)
    assert result.imbalance_over_time[0].tolist() == positions


def test_segments_of_each_source() -> None:
    """Two sources, segments of two messages: 0 and 2, 1 and 3; then 4 and 5 in short ones."""
    params = {"workers": 3, "seed": 0, "segment_messages": 2, "threshold": 0.6}

    def loads(calls: list[tuple[int, list[str]]]) -> list[float]:
        routers = [ks.FlexD(**params).router(source=source) for source in range(2)]
        for source, keys in calls:
            routers[source].route(keys)
        return (routers[0].loads + routers[1].loads).tolist()

    expected = loads([(0, ["a", "a"]), (1, ["b", "c"]), (0, ["a"]), (1, ["c"])])
    assert expected != loads([(t % 2, [key]) for t, key in enumerate("abacac")])
    assert check(Case("flexd", params, list("abacac"), sources=2)).loads.tolist() == expected


# What must hold whatever the model says


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_loads_sum_to_the_weight_of_the_stream(name: str, data: st.DataObject) -> None:
    keys = data.draw(streams())
    weights = data.draw(st.none() | st.lists(QUARTERS, min_size=len(keys), max_size=len(keys)))
    sources = data.draw(st.integers(1, 4))
    result = ks.simulate(
        ks.grouping(name, workers=data.draw(FEW_WORKERS)), keys, weights=weights, sources=sources
    )
    assert result.loads.sum() == (len(keys) if weights is None else sum(weights))
    assert result.messages == len(keys)


@pytest.mark.parametrize("workers", [1, 2, 8, 50])
def test_without_waiting_a_message_takes_its_service_time(workers: int) -> None:
    """One source in turn: each worker gets a message every n / rate seconds, here its service time."""
    result = ks.simulate(
        ks.ShuffleGrouping(workers=workers),
        zipf(1.0, 100, 2000, seed=1),
        service_time_s=workers / 64,
        arrival_rate_per_s=64.0,
    )
    assert result.latency_s == dict.fromkeys(["mean", "p50", "p95", "p99", "max"], workers / 64)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rate_per_s", [1.0, 64.0, 4096.0])
def test_throughput_is_bounded(name: str, rate_per_s: float) -> None:
    """By the rate at which messages arrive, the last one included, and by what all workers can serve."""
    messages, capacities = 2000, np.array([1.0, 0.5, 2.0, 4.0, 0.5])
    result = ks.simulate(
        ks.grouping(name, workers=5),
        zipf(1.4, 100, messages, seed=2),
        service_time_s=0.25,
        capacities=capacities.tolist(),
        arrival_rate_per_s=rate_per_s,
    )
    assert result.throughput_per_s is not None
    assert 0 < result.throughput_per_s <= rate_per_s * messages / (messages - 1)
    assert result.throughput_per_s <= capacities.sum() / 0.25
    assert result.utilisation is not None
    assert (result.utilisation <= 1).all()


def test_consistent_grouping_keeps_the_slow_worker_busy_not_drowned() -> None:
    """At 80 per cent of what workers of three speeds serve, its queue stays short; with shuffle it grows."""
    capacities = [1.0] * 5 + [0.5] * 2 + [2.0] * 3
    slowest = capacities.index(0.5)
    queues = {}
    for name in ("shuffle", "consistent"):
        result = ks.simulate(
            ks.grouping(name, workers=10),
            zipf(1.0, 1000, 40_000, seed=1),
            sources=2,
            service_time_s=0.05,
            capacities=capacities,
            arrival_rate_per_s=0.8 * sum(capacities) / 0.05,
            samples=10,
        )
        assert result.queue_over_time is not None
        queues[name] = result.queue_over_time[1][:, slowest]
    assert (np.diff(queues["shuffle"]) > 100).all()
    assert queues["shuffle"][-1] > 1500
    assert (queues["consistent"] < 60).all()


# What cannot be


@pytest.mark.parametrize(
    "events",
    [
        [RemoveWorker(1, 0), SetCapacity(1, 0, 2.0)],
        [SetCapacity(99, 0, 2.0), RemoveWorker(1, 0)],
        [RemoveWorker(1, 2), AddWorker(2)],
        [AddWorker(1), RemoveWorker(1, 2), RemoveWorker(1, 2)],
        [RemoveWorker(1, 0), RemoveWorker(1, 1), AddWorker(2)],
    ],
)
def test_events_that_cannot_follow_those_before_are_refused(events: list[Event]) -> None:
    """In the order of their positions, whatever that in which they are given; reached or not."""
    with pytest.raises(ValueError, match=r"^events at position \d+: worker must [^\n]*$"):
        run(Case("ring", {"workers": 2, "seed": 0}, ["a", "b", "c"], timing=Timing(1.0), events=events))


def test_times_end() -> None:
    """Routers know times up to 1e12 s: no message arrives, or is finished, later."""
    key = {"name": "key", "params": {"workers": 1, "seed": 0}}
    seldom = Timing(0.0, arrival_rate_per_s=1e-6, feedback_interval_s=1e12)
    assert run(Case(**key, keys=[1] * 1_000_001, timing=seldom)).makespan_s == 1e12
    assert check(Case(**key, keys=[1, 1], timing=Timing(5e11))).makespan_s == 1e12
    for too_late in (
        Case(**key, keys=[1] * 1_000_002, timing=seldom),
        Case(**key, keys=[1, 1, 1], timing=Timing(5e11)),
        Case(**key, keys=[1], weights=[4.0], timing=Timing(5e11)),
    ):
        with pytest.raises(ValueError, match=r"^[^\n]*(1e12|1000000000000)[^\n]*$"):
            run(too_late)
