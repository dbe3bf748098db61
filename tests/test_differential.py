"""Every router equals its naive model, message by message.

The Rust core and the models share docs/routing.md and nothing else.
"""

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keysplit as ks
from keysplit.streams import zipf
from parameters import parameters
from reference import MODELS
from reference.circle import circle
from reference.hashing import MASK, candidates, domain, hash_key

SOURCES = st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1))
QUARTERS = st.integers(0, 40).map(lambda quarters: quarters / 4)
EXTREMES = st.sampled_from(
    [0.0, -0.0, 5e-324, 1e-300, 0.1, 1.0, 2.0**40 - 1, 2.0**40, 2.0**53, 2.0**64, 1e200, 1e308]
)
WEIGHTS = st.one_of(
    *[
        st.lists(each, min_size=1, max_size=6)
        for each in (st.integers(0, 9) | QUARTERS, st.floats(0, 1e6), EXTREMES)
    ]
)
# The time before the first that is told, the last that may be, and how much later something comes.
FIRST_TIMES = st.one_of(st.just(0.0), st.sampled_from([-50.0, -1e12, 1e12 - 100]))
LATEST = 1e12
WAITS = st.one_of(
    st.sampled_from([0.0, 1e-9, 1e-3, 0.5, 1.0, 10.0, 15.0, 60.0, 600.0, 1.7e9]), st.floats(0, 100)
)
SERVICE_TIMES_S = st.one_of(st.sampled_from([1e-12, 1e-6, 0.5, 1.0, 2.0, 1e12]), st.floats(1e-3, 10))
OTHER_LOADS = st.one_of(st.integers(0, 50).map(float), st.floats(0, 100))


@dataclass
class Batch:
    """One call of `route`."""

    keys: list[Any]
    weights: list[float] | None = None
    now: float | None = None


@dataclass
class Case:
    """One router and what happens to it: batches, and feedback as the arguments of `observe`."""

    params: dict[str, Any]
    source: int
    steps: list[Batch | dict[str, Any]] = field(default_factory=list)

    @property
    def keys(self) -> list[Any]:
        return [key for step in self.steps if isinstance(step, Batch) for key in step.keys]


@st.composite
def streams(draw: st.DrawFn) -> list[Any]:
    """Skewed keys of a small universe: short lists that shrink well, or longer drawn ones."""
    universe = draw(
        st.one_of(
            st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=8, unique=True),
            st.lists(st.integers(-5, 5), min_size=1, max_size=8, unique=True),
            st.lists(st.text(max_size=12), min_size=1, max_size=8, unique=True),
            st.integers(1, 200).map(lambda size: list(range(size))),
            st.integers(1, 200).map(lambda size: [f"key {rank}" for rank in range(size)]),
        )
    )
    if draw(st.booleans()):
        universe.insert(draw(st.integers(0, len(universe))), None)
    if draw(st.booleans()):
        return draw(st.lists(st.sampled_from(universe), max_size=50))
    exponent = draw(st.sampled_from([0.0, 0.7, 1.0, 1.4, 2.0, 3.0]))
    shares = [1 / rank**exponent for rank in range(1, len(universe) + 1)]
    rng = random.Random(draw(st.integers(0, 2**32)))
    keys = rng.choices(universe, shares, k=draw(st.integers(0, 400)))
    if draw(st.booleans()):
        # What was frequent becomes rare.
        keys += rng.choices(universe[::-1], shares, k=draw(st.integers(0, 200)))
    return keys


@st.composite
def feedback(draw: st.DrawFn, numbers: int) -> dict[str, Any]:
    """Arguments of `observe` but for the time; `numbers` worker numbers have been given."""
    workers = st.lists(st.integers(0, numbers - 1), max_size=5)

    def each(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[float]]:
        short = st.lists(values, min_size=1, max_size=4)
        return short.map(lambda pattern: [pattern[i % len(pattern)] for i in range(numbers)])

    return draw(
        st.fixed_dictionaries(
            {},
            optional={
                "busy": workers,
                "idle": workers,
                "service_time_s": st.one_of(SERVICE_TIMES_S, each(SERVICE_TIMES_S)),
                "loads": each(OTHER_LOADS),
            },
        )
    )


@st.composite
def cases(draw: st.DrawFn, name: str) -> Case:
    case = Case(draw(parameters(name)), draw(SOURCES))
    keys = draw(streams())
    cuts = sorted(draw(st.lists(st.integers(0, len(keys)), max_size=4)))
    weighted_stream, timed_stream, told_stream = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    now = draw(FIRST_TIMES)

    def later() -> float:
        nonlocal now
        now = min(now + draw(WAITS), LATEST)
        return now

    for begin, end in zip([0, *cuts], [*cuts, len(keys)], strict=True):
        if told_stream and draw(st.booleans()):
            told = draw(feedback(case.params["workers"]))
            if timed_stream and draw(st.booleans()):
                told["now"] = later()
            case.steps.append(told)
        if timed_stream and draw(st.booleans()):
            case.steps.append(Batch([], now=later()))  # its time is checked and moves no clock
        batch = Batch(keys[begin:end])
        if weighted_stream and draw(st.booleans()):
            weights = draw(WEIGHTS)
            batch.weights = [float(weights[i % len(weights)]) for i in range(end - begin)]
        if timed_stream and draw(st.booleans()):
            batch.now = later()
        case.steps.append(batch)
    return case


def as_input(keys: list[Any]) -> Any:
    """Whole numbers as NumPy does them, for the fast path; everything else as a list."""
    if keys and all(isinstance(key, int) and -(2**63) <= key < 2**63 for key in keys):
        return np.array(keys, dtype=np.int64)
    return keys


def new(name: str, case: Case) -> ks.Router:
    return ks.grouping(name, **case.params).router(source=case.source)


def segment_of(name: str, params: dict[str, Any]) -> int:
    """Cuts at multiples of this many messages change nothing; anywhere, but for the micro-batched ones."""
    return getattr(ks.grouping(name, **params), "segment_messages", 1)


def weights_of(batch: Batch) -> list[float]:
    return [1.0] * len(batch.keys) if batch.weights is None else batch.weights


def joined(steps: list[Batch | dict[str, Any]], segment: int) -> list[Batch | dict[str, Any]]:
    """The same with as few batches as possible."""
    result: list[Batch | dict[str, Any]] = []
    for step in steps:
        last = result[-1] if result else None
        if (
            isinstance(step, Batch)
            and isinstance(last, Batch)
            and step.now == last.now
            and len(last.keys) % segment == 0
        ):
            weights = None
            if step.weights is not None or last.weights is not None:
                weights = weights_of(last) + weights_of(step)
            result[-1] = Batch(last.keys + step.keys, weights, step.now)
        else:
            result.append(step)
    return result


def in_pieces(steps: list[Batch | dict[str, Any]], segment: int) -> list[Batch | dict[str, Any]]:
    """The same with a batch for every segment: for every message, if nothing is micro-batched."""
    result: list[Batch | dict[str, Any]] = []
    for step in steps:
        if not isinstance(step, Batch) or not step.keys:
            result.append(step)
            continue
        for begin in range(0, len(step.keys), segment):
            piece = slice(begin, begin + segment)
            weights = None if step.weights is None else step.weights[piece]
            result.append(Batch(step.keys[piece], weights, step.now))
    return result


def run(router: ks.Router, steps: list[Batch | dict[str, Any]]) -> list[int]:
    """Every answer of the router."""
    answer = []
    for step in steps:
        if isinstance(step, Batch):
            answer += router.route(step.keys, weights=step.weights, now=step.now).tolist()
        else:
            router.observe(**step)
    return answer


@pytest.mark.parametrize("name", sorted(MODELS))
@given(data=st.data())
def test_router_equals_model(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    model = MODELS[name](source=case.source, **case.params)
    router = new(name, case)
    expected: list[int] = []
    for step in case.steps:
        if isinstance(step, Batch):
            answer = model.route_batch(step.keys, step.weights, step.now)
            keys = as_input(step.keys)
            assert router.route(keys, weights=step.weights, now=step.now).tolist() == answer
            expected += answer
        else:
            model.observe(**step)
            router.observe(**step)
        assert router.loads.tolist() == model.loads
        # What comes next is decided by the snapshot alone.
        router = ks.grouping(name, **case.params).router(source=case.source, snapshot=router.snapshot())

    segment = segment_of(name, case.params)
    for other_cuts in (joined(case.steps, segment), in_pieces(case.steps, segment)):
        router = new(name, case)
        assert run(router, other_cuts) == expected
        assert router.loads.tolist() == model.loads


@pytest.mark.parametrize("name", sorted(MODELS))
@given(data=st.data())
def test_candidates_equal_the_models(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    model = MODELS[name](source=case.source, **case.params)
    router = new(name, case)
    for step in case.steps:
        if isinstance(step, Batch):
            model.route_batch(step.keys, step.weights, step.now)
            router.route(step.keys, weights=step.weights, now=step.now)
        else:
            model.observe(**step)
            router.observe(**step)
        for key in [*case.keys[:1], *case.keys[-1:], "a key never seen"]:
            candidates = router.candidates(key)
            assert candidates.dtype == np.uint32
            assert candidates.tolist() == model.candidates(key)
            copy = ks.grouping(name, **case.params).router(source=case.source, snapshot=router.snapshot())
            assert copy.route([key])[0] in candidates


LONG = {
    "plain": {"workers": 50},
    "two workers": {"workers": 2, "seed": 1},
    "few counters": {"workers": 20, "seed": 2, "sketch_capacity": 30},
    "low threshold": {"workers": 20, "seed": 3, "threshold": 0.002, "sketch_capacity": 300},
    "high threshold": {"workers": 64, "seed": 4, "threshold": 0.05},
    "loose": {"workers": 100, "seed": 5, "tolerance": 1e-2},
    "distinct": {"workers": 30, "seed": 6, "distinct": True},
    "many choices": {"workers": 40, "seed": 7, "choices": 5},
    "many distinct choices": {"workers": 300, "seed": 8, "choices": 100, "distinct": True},
    "wide capacity": {"workers": 30, "seed": 9, "epsilon": 0.5},
    "few points": {"workers": 30, "seed": 10, "virtual_nodes": 2},
    "short epochs": {"workers": 20, "seed": 11, "epoch_messages": 200, "decay": 0.7, "interval_s": 0.5},
    "short segments": {"workers": 20, "seed": 12, "segment_messages": 250, "table_keys": 20},
    "quick promotion": {
        "workers": 20,
        "seed": 13,
        "warm_up_s": 5.0,
        "teenage_interval_s": 0.3,
        "old_interval_s": 0.7,
    },
    "little learning": {"workers": 20, "seed": 14, "learning_messages": 500},
    "few coins": {"workers": 20, "seed": 15, "coins": 1, "filter_counters": 512},
    "short intervals": {"workers": 20, "seed": 16, "interval_messages": 300},
    # Sums of whole weights at which the capacity is rounded.
    "capacity of rounded sums": {"workers": 10, "seed": 18, "epsilon": 0.1},
    "often cleaned": {
        "workers": 20,
        "seed": 19,
        "segment_messages": 250,
        "table_keys": 20,
        "clean_interval_s": 0.5,
    },
    "cleaned between segments": {
        "workers": 20,
        "seed": 20,
        "segment_messages": 250,
        "table_keys": 20,
        "clean_interval_s": 0.6,
    },
    # A limit of 30 per cent of all, which loads meet exactly.
    "whole limit": {
        "workers": 4,
        "seed": 21,
        "warm_up_s": 0.1,
        "teenage_interval_s": 0.05,
        "old_interval_s": 0.1,
        "check_interval_s": 0.01,
    },
    # The hottest key comes to more workers than are compared one by one.
    "wide rows": {
        "workers": 2000,
        "seed": 32,
        "warm_up_s": 0.1,
        "teenage_interval_s": 0.05,
        "old_interval_s": 0.1,
        "check_interval_s": 0.0,
    },
    "seldom checked": {
        "workers": 20,
        "seed": 22,
        "warm_up_s": 0.5,
        "teenage_interval_s": 0.3,
        "old_interval_s": 0.7,
        "check_interval_s": 0.25,
    },
    "learning in a drift": {
        "workers": 3,
        "seed": 23,
        "learning_messages": 20_000,
        "threshold": 0.15,
        "buckets": 5000,
    },
    # More than are looked at in one go.
    "many candidates": {"workers": 500, "seed": 30, "virtual_nodes": 20},
    "hundreds of choices": {"workers": 400, "seed": 31, "tolerance": 1e-4},
    "shortest epochs": {"workers": 20, "seed": 29, "epoch_messages": 3, "decay": 0.9},
    "many hot keys": {
        "workers": 300,
        "seed": 24,
        "interval_messages": 300,
        "exploration": 0.5,
        "max_split": 30,
    },
}


def has(name: str, params: dict[str, Any]) -> bool:
    return set(params) <= set(ks.GROUPINGS[name].__dataclass_fields__)


@pytest.mark.parametrize(
    "exponent", [pytest.param(0.8, marks=pytest.mark.slow), 1.4, pytest.param(2.0, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("name", "setting"),
    [(name, setting) for name in sorted(MODELS) for setting in LONG if has(name, LONG[setting])],
)
def test_long_streams(name: str, setting: str, exponent: float) -> None:
    """Long enough for many solves of d, evictions and levels of load; the keys drift half-way."""
    params = LONG[setting]
    messages = 25_000
    keys = zipf(exponent, 3000, messages, seed=17)
    keys[messages // 2 :] = 2999 - keys[messages // 2 :]

    model = MODELS[name](source=3, **params)
    router = ks.grouping(name, **params).router(source=3)
    for begin, end in [(0, 1), (1, 1000), (1000, 1001), (1001, 5000), (5000, messages)]:
        np.testing.assert_array_equal(
            router.route(keys[begin:end]), model.route_batch(keys[begin:end].tolist())
        )
        router = ks.grouping(name, **params).router(source=3, snapshot=router.snapshot())
    np.testing.assert_array_equal(router.loads, model.loads)
    if name == "d_choices" and setting == "plain":
        assert model.solves > 30


@pytest.mark.parametrize("drift", [85_000, 99_000])
def test_longest_distance_of_solves(drift: int) -> None:
    """From message 80,000 on, d stands still for 10,000 messages; the skew changes after that."""
    keys = zipf(0.9, 3000, 130_000, seed=21)
    keys[drift:] = zipf(2.0, 3000, 130_000 - drift, seed=22)
    model = MODELS["d_choices"](workers=50)
    expected = np.array([model.route(key) for key in keys.tolist()])
    router = ks.DChoices(workers=50).router()
    np.testing.assert_array_equal(router.route(keys), expected)


def test_a_key_whose_number_of_workers_changed_in_another_slot() -> None:
    """A key of many workers moves to another slot, loses workers there, and comes back to the first one."""
    params: dict[str, Any] = {"workers": 10_000, "expected_keys": 4, "warm_up_s": 0.0}
    params |= {"teenage_interval_s": 1.0, "old_interval_s": 1.0}
    # What a key's first worker is decides whether others share its workers.
    firsts = {key: candidates(hash_key(key, 0), 10_000, 1)[0] for key in range(5000)}
    hot = next(key for key, first in firsts.items() if 1000 < first < 2000)
    far = iter([key for key, first in firsts.items() if first > 5000])
    heavy, other = next(far), next(far)
    events = [(0, heavy, 1), *[(0, hot, 1)] * 2, *[(1, hot, 1)] * 29, (2, heavy, 40), (3, other, 36)]
    events += [(4, next(far), 1) for _ in range(3)]
    events += [*[(5, hot, 1)] * 19, (5, heavy, 1000), (5, hot, 1), (6, next(far), 1), (7, hot, 1)]
    model = MODELS["dynamic_key"](**params)
    router = ks.DynamicKeyGrouping(**params).router()
    for now, key, weight in events:
        routed = router.route([key], weights=[float(weight)], now=float(now))
        assert routed.tolist() == model.route_batch([key], [float(weight)], float(now))


@pytest.mark.parametrize("last", range(4))
def test_of_keys_of_equal_count_the_one_seen_last_is_promoted(last: int) -> None:
    """Each key is the last one once, so that the order of the hashes cannot answer for the times."""
    params: dict[str, Any] = {"workers": 20, "seed": 2, "expected_keys": 10, "warm_up_s": 0.0}
    params |= {"teenage_interval_s": 5.0, "old_interval_s": 5.0}
    model = MODELS["dynamic_key"](**params)
    router = ks.DynamicKeyGrouping(**params).router()
    others = [key for key in range(4) if key != last]
    batches = [[key] for key in others] + [[last], [], [], [last, *others] * 500]  # one per second
    for now, keys in enumerate(batches):
        routed = router.route(keys, now=now)
        assert routed.tolist() == model.route_batch(keys, None, now)
    # Counts were equal when `old` took one key, and whenever it might have taken another.
    used = {key: len(set(routed[np.array(keys) == key].tolist())) for key in keys}
    assert [key for key in used if used[key] > 2] == [last]


@pytest.mark.parametrize(
    ("name", "params"),
    [(name, {"workers": 24, "seed": 9}) for name in sorted(MODELS)]
    + [
        ("dalton", {"workers": 24, "interval_messages": 20, "exploration": 0.5, "learning_rate": 1.0}),
        ("fish", LONG["short epochs"]),
        ("flexd", LONG["short segments"]),
    ],
)
def test_long_weighted_stream(name: str, params: dict[str, Any]) -> None:
    """Weighted and unweighted calls mixed, weights of all sizes, over a long stream."""
    keys = zipf(1.2, 500, 15_000, seed=5)
    rng = np.random.default_rng(6)
    model = MODELS[name](**params)
    router = ks.grouping(name, **params).router()
    for begin in range(0, len(keys), 3000):
        part = keys[begin : begin + 3000]
        weights = [
            None,
            rng.integers(0, 5, 3000).astype(float),
            rng.random(3000),
            rng.choice([1.0, 3.0, 2.0**55], 3000, p=[0.5, 0.48, 0.02]),
        ][begin // 3000 % 4]
        expected = model.route_batch(part.tolist(), None if weights is None else weights.tolist())
        np.testing.assert_array_equal(router.route(part, weights=weights), expected)
        np.testing.assert_array_equal(router.loads, model.loads)


@pytest.mark.parametrize(
    ("name", "setting"),
    [(name, {}) for name in sorted(MODELS)]
    + [
        ("consistent", {"virtual_workers": 2, "slot_s": 3.0}),
        # The warm-up ends at the time of a batch.
        ("dynamic_key", {"warm_up_s": 20.0, "teenage_interval_s": 3.0, "old_interval_s": 7.0}),
    ],
)
def test_long_stream_in_time(name: str, setting: dict[str, Any]) -> None:
    """Two minutes of batches, with a time and without, and feedback: every interval ends more than once."""
    keys = zipf(1.4, 500, 12_000, seed=5)
    keys[6000:] = 499 - keys[6000:]
    rng = np.random.default_rng(6)
    params = {"workers": 24, "seed": 17, **setting}
    model = MODELS[name](**params)
    router = ks.grouping(name, **params).router()
    for turn, part in enumerate(np.split(keys, 60)):
        told = {
            "now": 2.0 * turn,
            "busy": rng.choice(24, 3).tolist(),
            "idle": rng.choice(24, 3).tolist(),
            "service_time_s": [0.02, (1 + rng.integers(0, 9, 24) / 2) / 64][turn % 2],
            "loads": rng.integers(0, 500, 24).astype(float),
        }
        model.observe(**told)
        router.observe(**told)
        now = [None, 2.0 * turn, 2.0 * turn + 1][turn % 3]
        np.testing.assert_array_equal(router.route(part, now=now), model.route_batch(part.tolist(), now=now))
        np.testing.assert_array_equal(router.loads, model.loads)
        router = ks.grouping(name, **params).router(snapshot=router.snapshot())


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_sums_beyond_two_to_the_53(name: str, fraction: float) -> None:
    """Sums are those of doubles in the order of the messages, wherever the stream is cut."""
    keys = zipf(1.2, 50, 2000, seed=13)
    weights = np.random.default_rng(14).integers(2**43, 2**45, len(keys)).astype(float)
    weights[1500] += fraction
    for params in ({"workers": 1}, {"workers": 6, "seed": 15}):
        for cuts in ([], [1000], [1, 400, 1501]):
            model = MODELS[name](**params)
            router = ks.grouping(name, **params).router()
            for part, weight in zip(np.split(keys, cuts), np.split(weights, cuts), strict=True):
                expected = model.route_batch(part.tolist(), weight.tolist())
                assert router.route(part, weights=weight).tolist() == expected
            assert sum(model.loads) > 2**53
            assert router.loads.tolist() == model.loads


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("weights", [[1, 2**53], [2**53, 1], [2**53 - 1, 1, 1], [2**52, 2**52, 3]])
def test_sums_at_two_to_the_53(name: str, weights: list[int]) -> None:
    model = MODELS[name](workers=1)
    router = ks.grouping(name, workers=1).router()
    for weight in weights:
        assert router.route(["a"], weights=[weight]) == [model.route("a", weight)]
        assert router.loads.tolist() == model.loads
        router = ks.grouping(name, workers=1).router(snapshot=router.snapshot())


@pytest.mark.parametrize("name", [name for name in sorted(MODELS) if has(name, {"epsilon": 0.1})])
@pytest.mark.parametrize("workers", [1, 3, 4])
def test_when_nobody_is_free(name: str, workers: int) -> None:
    """An epsilon lost in rounding and equal loads: a message without weight finds nobody below capacity."""
    params = {"workers": workers, "epsilon": 1e-17, "seed": 18}
    model = MODELS[name](**params)
    router = ks.grouping(name, **params).router()
    for weights in ([1.0] * 120, [0.0] * 7, [1.0] * 120, [0.0, 0.5, 0.0]):
        keys = list(range(len(weights)))
        assert router.route(keys, weights=weights).tolist() == model.route_batch(keys, weights)


@pytest.mark.parametrize("name", [name for name in sorted(MODELS) if has(name, {"virtual_nodes": 1})])
def test_keys_at_the_points_of_the_ring(name: str) -> None:
    """A key whose hash is that of a point belongs to it, one further on to the next."""
    for workers, virtual_nodes in [(1, 1), (7, 3), (20, 100)]:
        params = {"workers": workers, "virtual_nodes": virtual_nodes, "seed": 25}
        points, _ = circle(25, tuple(range(workers)), virtual_nodes)
        hashes = [int(p) + step & MASK for p in points[:200] for step in (-1, 0, 1)] + [0, MASK]
        keys = [whole_key(h, seed=25) for h in hashes]
        assert [hash_key(key, 25) for key in keys] == hashes
        model = MODELS[name](**params)
        assert ks.grouping(name, **params).router().route(keys).tolist() == model.route_batch(keys)


def whole_key(h: int, seed: int) -> int:
    """The whole number of 64 bits with a sign that has this hash: `mix` undone."""
    h ^= h >> 31 ^ h >> 62
    h = h * pow(0x94D049BB133111EB, -1, 2**64) & MASK
    h ^= h >> 27 ^ h >> 54
    h = h * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MASK
    h ^= h >> 30 ^ h >> 60
    h ^= domain(seed, 1)
    return h - 2**64 if h >= 2**63 else h


def test_dalton_with_more_keys_than_it_counts_exactly() -> None:
    """Dalton's counts of an interval with more than 10,000 keys: others share counters with them."""
    params = {"workers": 1000, "interval_messages": 30_000, "exploration": 0.5, "seed": 26}
    rng = np.random.default_rng(27)
    hot = np.concatenate([np.arange(9_970, 10_030), np.arange(20_000, 20_060)])
    model = MODELS["dalton"](**params)
    router = ks.grouping("dalton", **params).router()
    for _ in range(2):
        keys = np.concatenate([np.arange(25_000), rng.choice(hot, 5000)])
        assert router.route(keys).tolist() == model.route_batch(keys.tolist())
        router = ks.grouping("dalton", **params).router(snapshot=router.snapshot())


def test_fish_with_a_key_at_its_threshold() -> None:
    """A quarter of all is not above a quarter: when the head is looked at, one key is hot, not two."""
    params = {"workers": 20, "threshold": 0.25, "seed": 34}
    model = MODELS["fish"](**params)
    router = ks.grouping("fish", **params).router()
    keys = [0] * 15 + [1] * 6
    assert router.route(keys).tolist() == model.route_batch(keys)
    assert router.candidates(1).tolist() == model.candidates(1)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_most_workers(name: str) -> None:
    params = {"workers": 65_536, "seed": 11}
    keys = zipf(1.4, 100, 300, seed=12)
    model = MODELS[name](**params)
    router = ks.grouping(name, **params).router()
    assert router.route(keys).tolist() == model.route_batch(keys.tolist())
    assert router.loads.tolist() == model.loads


def test_every_grouping_has_a_model() -> None:
    assert set(MODELS) == set(ks.GROUPINGS)
