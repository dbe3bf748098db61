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
from reference import MODELS

SKETCHING = {"round_robin", "w_choices", "d_choices"}
SEEDS = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
SOURCES = st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1))
WORKERS = st.one_of(st.sampled_from([1, 2, 3, 5, 10, 50, 64, 100, 1000]), st.integers(1, 40))
QUARTERS = st.integers(0, 40).map(lambda quarters: quarters / 4)
EXTREMES = st.sampled_from(
    [0.0, -0.0, 5e-324, 1e-300, 0.1, 1.0, 2.0**40 - 1, 2.0**40, 2.0**53, 2.0**64, 1e200]
)
WEIGHTS = st.one_of(
    *[
        st.lists(each, min_size=1, max_size=6)
        for each in (st.integers(0, 9) | QUARTERS, st.floats(0, 1e6), EXTREMES)
    ]
)


@dataclass
class Batch:
    """One call of `route`."""

    keys: list[Any]
    weights: list[float] | None


@dataclass
class Case:
    """One router and the stream it gets."""

    params: dict[str, Any]
    source: int
    batches: list[Batch] = field(default_factory=list)


@st.composite
def parameters(draw: st.DrawFn, name: str) -> dict[str, Any]:
    params: dict[str, Any] = {"workers": draw(WORKERS), "seed": draw(SEEDS)}
    if name == "partial_key":
        params["choices"] = draw(st.integers(1, 6))
    if name in SKETCHING:
        params["threshold"] = draw(
            st.one_of(st.none(), st.sampled_from([0.01, 0.1, 0.3, 0.5, 1.0]), st.floats(0.001, 1.0))
        )
        params["sketch_capacity"] = draw(st.one_of(st.none(), st.integers(1, 20)))
    if name == "d_choices":
        params["tolerance"] = draw(st.sampled_from([1e-4, 1e-8, 1e-2, 0.5]))
    if name in {"partial_key", *SKETCHING}:
        params["distinct"] = draw(st.booleans())
    return params


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
    return rng.choices(universe, shares, k=draw(st.integers(0, 400)))


@st.composite
def cases(draw: st.DrawFn, name: str) -> Case:
    case = Case(draw(parameters(name)), draw(SOURCES))
    keys = draw(streams())
    cuts = sorted(draw(st.lists(st.integers(0, len(keys)), max_size=4)))
    weighted_stream = draw(st.booleans())
    for begin, end in zip([0, *cuts], [*cuts, len(keys)], strict=True):
        weights = None
        if weighted_stream and draw(st.booleans()):
            weights = draw(WEIGHTS)
            weights = [float(weights[i % len(weights)]) for i in range(end - begin)]
        case.batches.append(Batch(keys[begin:end], weights))
    return case


def as_input(keys: list[Any]) -> Any:
    """Whole numbers as NumPy does them, for the fast path; everything else as a list."""
    if keys and all(isinstance(key, int) and -(2**63) <= key < 2**63 for key in keys):
        return np.array(keys, dtype=np.int64)
    return keys


def new(name: str, case: Case) -> ks.Router:
    return ks.grouping(name, **case.params).router(source=case.source)


def weights_of(batch: Batch) -> list[float]:
    return [1.0] * len(batch.keys) if batch.weights is None else batch.weights


@pytest.mark.parametrize("name", sorted(MODELS))
@given(data=st.data())
def test_router_equals_model(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    keys = [key for batch in case.batches for key in batch.keys]
    weights = [weight for batch in case.batches for weight in weights_of(batch)]

    model = MODELS[name](source=case.source, **case.params)
    router = new(name, case)
    expected: list[int] = []
    for batch in case.batches:
        answer = [model.route(key, weight) for key, weight in zip(batch.keys, weights_of(batch), strict=True)]
        assert router.route(as_input(batch.keys), weights=batch.weights).tolist() == answer
        assert router.loads.tolist() == model.loads
        expected += answer
        # What comes next is decided by the snapshot alone.
        router = ks.grouping(name, **case.params).router(source=case.source, snapshot=router.snapshot())

    whole = new(name, case)
    everything = None if all(batch.weights is None for batch in case.batches) else weights
    assert whole.route(as_input(keys), weights=everything).tolist() == expected
    assert whole.loads.tolist() == model.loads

    single = new(name, case)
    answer = []
    for batch in case.batches:
        for i, key in enumerate(batch.keys):
            weight = None if batch.weights is None else batch.weights[i : i + 1]
            answer += single.route([key], weights=weight).tolist()
    assert answer == expected
    assert single.loads.tolist() == model.loads


@pytest.mark.parametrize("name", sorted(MODELS))
@given(data=st.data())
def test_candidates_equal_the_models(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    model = MODELS[name](source=case.source, **case.params)
    router = new(name, case)
    for batch in case.batches:
        for key, weight in zip(batch.keys, weights_of(batch), strict=True):
            model.route(key, weight)
        router.route(batch.keys, weights=batch.weights)
        for key in [*batch.keys[-1:], *case.batches[0].keys[:1], "a key never seen"]:
            candidates = router.candidates(key)
            assert candidates.dtype == np.uint32
            assert set(candidates.tolist()) == model.candidates(key)
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
}


def has(name: str, params: dict[str, Any]) -> bool:
    return set(params) <= set(ks.GROUPINGS[name].__dataclass_fields__)


@pytest.mark.parametrize("exponent", [0.8, 1.4, 2.0])
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
    expected = np.array([model.route(key) for key in keys.tolist()])
    router = ks.grouping(name, **params).router(source=3)
    answer = []
    for begin, end in [(0, 1), (1, 1000), (1000, 1001), (1001, 5000), (5000, messages)]:
        answer.append(router.route(keys[begin:end]))
        router = ks.grouping(name, **params).router(source=3, snapshot=router.snapshot())
    np.testing.assert_array_equal(np.concatenate(answer), expected)
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


@pytest.mark.parametrize("name", sorted(MODELS))
def test_long_weighted_stream(name: str) -> None:
    """Weighted and unweighted calls mixed, integer and fractional weights, over a long stream."""
    keys = zipf(1.2, 500, 12_000, seed=5)
    rng = np.random.default_rng(6)
    params = {"workers": 24, "seed": 9}
    model = MODELS[name](**params)
    router = ks.grouping(name, **params).router()
    for begin in range(0, len(keys), 3000):
        part = keys[begin : begin + 3000]
        weights = [None, rng.integers(0, 5, 3000).astype(float), rng.random(3000)][begin // 3000 % 3]
        expected = [
            model.route(key, weight) for key, weight in zip(part.tolist(), ones_or(weights), strict=True)
        ]
        np.testing.assert_array_equal(router.route(part, weights=weights), expected)
        np.testing.assert_array_equal(router.loads, model.loads)


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_sums_beyond_two_to_the_53(name: str, fraction: float) -> None:
    """Sums are those of doubles in the order of the messages, wherever the stream is cut."""
    keys = zipf(1.2, 50, 2000, seed=13)
    weights = np.random.default_rng(14).integers(2**43, 2**45, len(keys)).astype(float)
    weights[1500] += fraction
    for params in ({"workers": 1}, {"workers": 6, "seed": 15}):
        model = MODELS[name](**params)
        expected = [model.route(key, weight) for key, weight in zip(keys.tolist(), weights, strict=True)]
        assert sum(model.loads) > 2**53
        for cuts in ([], [1000], [1, 400, 1501]):
            router = ks.grouping(name, **params).router()
            parts = zip(np.split(keys, cuts), np.split(weights, cuts), strict=True)
            answer = [router.route(part, weights=weight) for part, weight in parts]
            assert np.concatenate(answer).tolist() == expected
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


def zipf(exponent: float, keys: int, messages: int, seed: int) -> np.ndarray:
    shares = 1 / np.arange(1, keys + 1) ** exponent
    return np.random.default_rng(seed).choice(keys, size=messages, p=shares / shares.sum()).astype(np.int64)


def ones_or(weights: np.ndarray | None) -> list[float]:
    return [1] * 3000 if weights is None else weights.tolist()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_most_workers(name: str) -> None:
    params = {"workers": 65_536, "seed": 11}
    keys = zipf(1.4, 100, 300, seed=12)
    model = MODELS[name](**params)
    router = ks.grouping(name, **params).router()
    assert router.route(keys).tolist() == [model.route(key) for key in keys.tolist()]
    assert router.loads.tolist() == model.loads


def test_every_grouping_has_a_model() -> None:
    assert set(MODELS) == set(ks.GROUPINGS)
