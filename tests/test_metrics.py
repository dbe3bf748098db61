"""The metrics equal their formulas."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keysplit as ks
from reference import metrics as reference

OF_LOADS = ["imbalance", "relative_imbalance", "load_stddev"]
OF_KEYS = ["replication", "memory"]
LOADS = st.lists(st.one_of(st.integers(0, 10**6), st.floats(0, 1e9)), min_size=1, max_size=50).filter(
    lambda loads: sum(loads) > 1e-3
)
MESSAGES = st.lists(
    st.tuples(st.one_of(st.integers(0, 9), st.sampled_from(["a", "b"]), st.none()), st.integers(0, 5)),
    min_size=1,
)


@pytest.mark.parametrize("name", OF_LOADS)
@given(loads=LOADS)
def test_metrics_of_loads(name: str, loads: list[float]) -> None:
    expected = getattr(reference, name)(loads)
    for given_loads in (loads, tuple(loads), np.array(loads, dtype=np.float64)):
        value = getattr(ks.metrics, name)(given_loads)
        assert type(value) is float
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", OF_LOADS)
def test_loads_of_any_numbers(name: str) -> None:
    loads = [3, 0, 9, 200]
    metric = getattr(ks.metrics, name)
    for dtype in (np.uint8, np.int64, np.float32, np.float64):
        assert metric(np.array(loads, dtype=dtype)) == metric(loads)
    assert metric(np.repeat(np.array(loads), 2)[::2]) == metric(loads)
    assert metric(pa.array(loads)) == metric(loads)


def test_known_values() -> None:
    loads = [6.0, 2.0, 0.0, 0.0]
    assert ks.metrics.imbalance(loads) == 0.5
    assert ks.metrics.relative_imbalance(loads) == 2.0
    assert ks.metrics.load_stddev(loads) == pytest.approx(np.std([75, 25, 0, 0]))
    assert ks.metrics.memory(["a", "a", "b", "a"], [0, 1, 1, 0]) == 3
    assert ks.metrics.replication(["a", "a", "b", "a"], [0, 1, 1, 0]) == 1.5


@pytest.mark.parametrize("name", OF_LOADS)
def test_even_loads(name: str) -> None:
    assert getattr(ks.metrics, name)([5.0] * 7) == pytest.approx(0, abs=1e-12)
    assert getattr(ks.metrics, name)([5.0]) == 0


@pytest.mark.parametrize("name", OF_LOADS)
@pytest.mark.parametrize("scale", [2.0**-1060, 2.0**-600, 2.0**600, 2.0**1010])
def test_loads_of_any_size(name: str, scale: float) -> None:
    loads = np.array([3, 0, 9, 200])
    assert getattr(ks.metrics, name)(loads * scale) == pytest.approx(getattr(ks.metrics, name)(loads))


@pytest.mark.parametrize("name", OF_LOADS)
def test_loads_of_nothing_sent(name: str) -> None:
    assert getattr(ks.metrics, name)([0.0, 0.0]) == 0


@given(MESSAGES)
def test_metrics_of_keys(messages: list[tuple[Any, int]]) -> None:
    keys = [key for key, _ in messages]
    workers = np.array([worker for _, worker in messages], dtype=np.uint32)
    assert ks.metrics.memory(keys, workers) == reference.memory(keys, workers.tolist())
    assert ks.metrics.replication(keys, workers) == pytest.approx(
        reference.replication(keys, workers.tolist())
    )
    assert type(ks.metrics.memory(keys, workers)) is int
    assert type(ks.metrics.replication(keys, workers)) is float


def test_metrics_of_a_routing() -> None:
    keys = ks.streams.zipf(1.2, keys=1000, messages=20_000, seed=3)
    answer = ks.WChoices(workers=30).router().route(keys)
    pairs = len(np.unique(keys * 30 + answer))
    assert ks.metrics.memory(keys, answer) == pairs
    assert ks.metrics.replication(keys, answer) == pytest.approx(pairs / len(np.unique(keys)))
    assert ks.metrics.memory(pa.array(keys), answer) == pairs


@pytest.mark.parametrize("name", OF_LOADS)
@pytest.mark.parametrize("loads", [[], [-1.0, 2.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_wrong_loads_are_refused(name: str, loads: list[float]) -> None:
    with pytest.raises(ValueError, match="loads") as error:
        getattr(ks.metrics, name)(loads)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", OF_LOADS)
@pytest.mark.parametrize("loads", ["text", 5.0, None, ["a"], np.array(["a"]), object()])
def test_loads_of_other_types_are_refused(name: str, loads: Any) -> None:
    with pytest.raises(TypeError, match="loads") as error:
        getattr(ks.metrics, name)(loads)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", OF_KEYS)
@pytest.mark.parametrize(
    ("keys", "workers", "exception", "word"),
    [
        ([1, 2], [0], ValueError, "workers"),
        ([1], [0, 1], ValueError, "workers"),
        ([1], [-1], ValueError, "workers"),
        ([1], [2**32], ValueError, "workers"),
        ([1], [0.5], TypeError, "workers"),
        ([1], ["a"], TypeError, "workers"),
        ([1.5], [0], TypeError, "key"),
    ],
)
def test_wrong_keys_and_workers_are_refused(
    name: str, keys: Any, workers: Any, exception: type[Exception], word: str
) -> None:
    with pytest.raises(exception, match=word) as error:
        getattr(ks.metrics, name)(keys, workers)
    assert "\n" not in str(error.value)


def test_no_messages() -> None:
    assert ks.metrics.memory([], []) == 0
    with pytest.raises(ValueError, match="keys"):
        ks.metrics.replication([], [])
