"""The SpaceSaving sketch equals its model and gives the original keys back."""

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keysplit as ks
from reference.space_saving import SpaceSaving

KEYS = st.one_of(st.integers(-3, 9), st.sampled_from(["a", "b", "c", ""]), st.just(b"a"), st.none())
STREAMS = st.lists(st.tuples(KEYS, st.integers(0, 12).map(lambda quarters: quarters / 4)), max_size=60)


def both(capacity: int, stream: list[tuple[Any, float]]) -> tuple[ks.SpaceSaving, SpaceSaving]:
    sketch, model = ks.SpaceSaving(capacity), SpaceSaving(capacity)
    feed(sketch, model, stream)
    return sketch, model


def feed(sketch: ks.SpaceSaving, model: SpaceSaving, stream: list[tuple[Any, float]]) -> None:
    for key, weight in stream:
        model.update(key, weight)
    sketch.update([key for key, _ in stream], weights=[weight for _, weight in stream])


def assert_equal(sketch: ks.SpaceSaving, model: SpaceSaving) -> None:
    assert sketch.total == model.total
    counters = sorted(model.counters(), key=lambda counter: -counter[1])  # equal counts in slot order
    assert sketch.top(len(counters) + 1) == counters
    assert [type(key) for key, _, _ in sketch.top(100)] == [type(key) for key, _, _ in counters]
    assert sketch.top(2) == counters[:2]
    for key in [*range(-3, 10), "a", "b", "c", "", b"a", None, "never seen"]:
        assert sketch.estimate(key) == model.estimate(key)


@given(st.integers(1, 12), STREAMS, STREAMS)
def test_sketch_equals_model(
    capacity: int, first: list[tuple[Any, float]], second: list[tuple[Any, float]]
) -> None:
    sketch, model = both(capacity, first)
    assert_equal(sketch, model)
    feed(sketch, model, second)
    assert_equal(sketch, model)


@given(st.integers(1, 12), st.lists(KEYS, max_size=80))
def test_unweighted_messages_weigh_one(capacity: int, keys: list[Any]) -> None:
    model = SpaceSaving(capacity)
    for key in keys:
        model.update(key)
    sketch = ks.SpaceSaving(capacity)
    sketch.update(keys)
    assert_equal(sketch, model)
    single = ks.SpaceSaving(capacity)
    for key in keys:
        single.update([key])
    assert_equal(single, model)


@given(st.integers(1, 8), STREAMS, STREAMS, STREAMS, STREAMS)
def test_merge_equals_model(
    capacity: int,
    first: list[tuple[Any, float]],
    second: list[tuple[Any, float]],
    third: list[tuple[Any, float]],
    later: list[tuple[Any, float]],
) -> None:
    sketch, model = both(capacity, first)
    for stream in (second, third):
        other, other_model = both(capacity, stream)
        sketch.merge(other)
        model.merge(other_model)
        assert_equal(sketch, model)
        assert_equal(other, other_model)  # the other one stays as it was
    feed(sketch, model, later)
    assert_equal(sketch, model)


@given(st.integers(1, 8), STREAMS, STREAMS)
def test_bytes_hold_everything(
    capacity: int, stream: list[tuple[Any, float]], later: list[tuple[Any, float]]
) -> None:
    sketch, model = both(capacity, stream)
    data = sketch.to_bytes()
    assert isinstance(data, bytes)
    copy = ks.SpaceSaving.from_bytes(data)
    assert copy.to_bytes() == data
    assert_equal(copy, model)
    feed(copy, model, later)
    assert_equal(copy, model)


def test_long_stream_equals_model() -> None:
    rng = np.random.default_rng(8)
    keys = (rng.zipf(1.3, 30_000) % 5000).astype(np.int64)
    model = SpaceSaving(200)
    for key in keys.tolist():
        model.update(key)
    sketch = ks.SpaceSaving(200)
    for part in np.array_split(keys, 7):
        sketch.update(part)
    counters = sorted(model.counters(), key=lambda counter: -counter[1])
    assert sketch.top(200) == counters


def test_example() -> None:
    """Two counters: c takes the counter of b, the smallest, and its count as error."""
    sketch = ks.SpaceSaving(2)
    sketch.update(["a", "b", "a", "c"])
    assert sketch.top(2) == [("a", 2, 0), ("c", 2, 1)]
    assert sketch.estimate("b") == (2, 2)
    assert sketch.total == 4


MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)


@pytest.mark.parametrize(
    ("keys", "originals"),
    [
        ([7, -1, 2**64 - 1, 0], None),
        (["a", "", "żółć"], None),
        ([b"a", b"", b"\xff"], None),
        ([None, 5], None),
        ([True, False], None),
        ((1, "a", b"a", None), [1, "a", b"a", None]),
        (np.array([3, -3], dtype=np.int8), [3, -3]),
        (np.array([3, 2**64 - 1], dtype=np.uint64), [3, 2**64 - 1]),
        (np.array([True, False]), [True, False]),
        (np.array(["b", "a"]), ["b", "a"]),
        (np.array([b"b", b"a"]), [b"b", b"a"]),
        (pa.array(["b", None, "a"]), ["b", None, "a"]),
        (pa.array([1, None, 2], pa.uint8()), [1, None, 2]),
        (pa.array([True, None, False]), [True, None, False]),
        (pa.array([b"b", b"a"], pa.large_binary()), [b"b", b"a"]),
        (pa.array([b"bb", b"aa"], pa.binary(2)), [b"bb", b"aa"]),
        (pa.array([datetime.date(2024, 2, 29), datetime.date(1969, 1, 1)]), None),
        (pa.array([datetime.date(2024, 2, 29)], pa.date64()), None),
        (pa.array([Decimal("1.50"), Decimal("-2.00")]), None),
        (pa.array([Decimal("1.50"), Decimal(10**60)], pa.decimal256(76, 2)), None),
        (pa.array([MOMENT], pa.timestamp("us")), None),
        (pa.array([MOMENT.replace(microsecond=0)], pa.timestamp("s")), None),
        (pa.array([MOMENT], pa.timestamp("us", "UTC")), None),
        (pa.array(["b", "a", "b"]).dictionary_encode(), ["b", "a"]),
        (pa.chunked_array([["b"], [], ["a"]]), ["b", "a"]),
    ],
    ids=lambda value: str(getattr(value, "type", getattr(value, "dtype", type(value).__name__))),
)
def test_top_gives_the_original_keys(keys: Any, originals: list[Any] | None) -> None:
    if originals is None:
        originals = keys if isinstance(keys, list) else keys.to_pylist()
    sketch = ks.SpaceSaving(10)
    sketch.update(keys)
    for each in (sketch, ks.SpaceSaving.from_bytes(sketch.to_bytes())):
        found = [key for key, _, _ in each.top(10)]
        assert len(found) == len(originals)
        assert set(found) == set(originals)
        assert {type(key) for key in found} == {type(key) for key in originals}


def test_counts_are_numbers_that_add_up() -> None:
    sketch = ks.SpaceSaving(3)
    sketch.update(["a", "b", "a"], weights=[0.5, 0.25, 1])
    assert sketch.top(3) == [("a", 1.5, 0), ("b", 0.25, 0)]
    assert sketch.total == 1.75
    sketch.update(pa.array(["b"]), weights=np.array([2], dtype=np.int32))
    assert sketch.top(1) == [("b", 2.25, 0)]


def test_an_empty_sketch() -> None:
    sketch = ks.SpaceSaving(3)
    assert sketch.top(3) == []
    assert sketch.total == 0
    assert sketch.estimate("a") == (0, 0)
    sketch.update([])
    sketch.merge(ks.SpaceSaving(3))
    assert sketch.top(3) == []
    assert ks.SpaceSaving.from_bytes(sketch.to_bytes()).top(3) == []


def test_a_sketch_merges_with_itself() -> None:
    sketch, model = both(2, [("a", 3), ("b", 2), ("c", 1)])
    model.merge(both(2, [("a", 3), ("b", 2), ("c", 1)])[1])
    sketch.merge(sketch)
    assert_equal(sketch, model)


@pytest.mark.parametrize("capacity", [0, -1, 2**64])
def test_wrong_capacities_are_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match=rf"^capacity must be in 1\.\.=\d+, got {capacity}$"):
        ks.SpaceSaving(capacity)


@pytest.mark.parametrize("capacity", ["10", 1.5, None])
def test_capacities_of_other_types_are_refused(capacity: Any) -> None:
    with pytest.raises(TypeError, match="capacity"):
        ks.SpaceSaving(capacity)


@pytest.mark.parametrize(
    ("weights", "exception"),
    [
        ([1.0], ValueError),
        ([1.0, -1.0], ValueError),
        ([1.0, float("nan")], ValueError),
        ([1.0, float("inf")], ValueError),
        (["a", "b"], TypeError),
    ],
)
def test_wrong_weights_change_nothing(weights: Any, exception: type[Exception]) -> None:
    sketch = ks.SpaceSaving(3)
    sketch.update(["a"])
    before = sketch.to_bytes()
    with pytest.raises(exception, match="weights") as error:
        sketch.update(["a", "b"], weights=weights)
    assert "\n" not in str(error.value)
    assert sketch.to_bytes() == before


def test_merging_needs_equal_capacities() -> None:
    with pytest.raises(ValueError, match="capacity") as error:
        ks.SpaceSaving(3).merge(ks.SpaceSaving(4))
    assert "3" in str(error.value)
    assert "4" in str(error.value)
    with pytest.raises(TypeError):
        ks.SpaceSaving(3).merge("sketch")


@pytest.mark.parametrize("k", [-1, "3", 1.5])
def test_wrong_k_is_refused(k: Any) -> None:
    with pytest.raises(ValueError if k == -1 else TypeError, match="k"):
        ks.SpaceSaving(3).top(k)


@pytest.mark.parametrize("key", [1.5, [1], object()])
def test_wrong_keys_are_refused(key: Any) -> None:
    with pytest.raises(TypeError, match="key"):
        ks.SpaceSaving(3).estimate(key)


def test_broken_bytes_are_refused() -> None:
    sketch = ks.SpaceSaving(5)
    sketch.update(["a", "b", None, 7, b"x", 2**64 - 1], weights=[1, 2, 3, 4, 5, 6])
    data = sketch.to_bytes()
    broken = [b"", b"x", b"no sketch at all", data + b"x", data[1:], bytes(len(data))]
    broken += [data[:length] for length in range(len(data))]
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x41
        broken.append(bytes(damaged))
    for each in broken:
        with pytest.raises(ValueError, match=r"data|bytes|sketch") as error:
            ks.SpaceSaving.from_bytes(each)
        assert "\n" not in str(error.value)
    with pytest.raises(TypeError):
        ks.SpaceSaving.from_bytes("text")
    with pytest.raises(ValueError, match=r"data|bytes|sketch"):
        ks.SpaceSaving.from_bytes(ks.DChoices(workers=3).router().snapshot())


def test_totals_double_without_end() -> None:
    sketch = ks.SpaceSaving(4)
    sketch.update(list("aaabb"))
    for _ in range(70):
        sketch.merge(sketch)
    assert sketch.total == 5 * 2.0**70
    assert sketch.top(2) == [("a", 3 * 2.0**70, 0), ("b", 2 * 2.0**70, 0)]
    assert ks.SpaceSaving.from_bytes(sketch.to_bytes()).total == sketch.total


def test_many_whole_weights_do_not_wrap() -> None:
    sketch = ks.SpaceSaving(4)
    for _ in range(3):
        sketch.update(["a"] * 1000, weights=np.full(1000, 2.0**52))
    assert sketch.estimate("a") == (3000 * 2.0**52, 0)


def test_a_sketch_of_infinite_counts_is_restored() -> None:
    sketch = ks.SpaceSaving(4)
    sketch.update(["a"] * 3, weights=[1e308] * 3)
    assert ks.SpaceSaving.from_bytes(sketch.to_bytes()).top(1) == [("a", float("inf"), 0.0)]


def test_keys_of_many_chunks_are_kept() -> None:
    sketch = ks.SpaceSaving(100)
    sketch.update(pa.chunked_array([[], ["a", "b"], [], ["c"], ["d", "e"], []], pa.string()))
    assert [key for key, *_ in sketch.top(10)] == ["a", "b", "c", "d", "e"]
