"""The same key hashes the same through every door, and what is no key is refused."""

import ctypes
import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keysplit as ks
from doors import check, doors
from reference.hashing import hash_key

SMALL = [0, 1, 2, 3, 127, 1, 0]
SIGNED = [0, 1, -1, -128, 127, 5]
WORDS = [
    "",
    "a",
    "word",
    "żółć",
    "東京",
    "🂡",
    "a" * 300,
    "a",
    "with\0zero",
    "13 characters",
    "x" * 17,
    "y" * 240,
]
BLOBS = [b"", b"a", b"\0", b"\0\0", b"\xff\xfe", b"a" * 300, b"a", bytes(range(256))]
DAYS = [
    datetime.date(1970, 1, 1),
    datetime.date(1969, 12, 31),
    datetime.date(2024, 2, 29),
    datetime.date(1, 1, 1),
]
MOMENTS = [
    datetime.datetime(1970, 1, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59),
    datetime.datetime(2024, 2, 29, 12, 30, 15),
    datetime.datetime(2200, 1, 1),
]


# Whole numbers


@pytest.mark.parametrize("dtype", [f"{kind}{width}" for kind in ("int", "uint") for width in (8, 16, 32, 64)])
def test_integers_of_every_width(dtype: str) -> None:
    limits = np.iinfo(dtype)
    values = [limits.min, limits.max, *(SMALL if limits.min == 0 else SIGNED)]
    array = np.array(values, dtype=dtype)
    check(array, values)
    check(pa.array(array), values)
    check(pa.chunked_array([pa.array(array[:3]), pa.array(array[3:])]), values)
    check(values, values)
    check(tuple(values), values)
    check(array.astype(array.dtype.newbyteorder()), values)
    check(np.repeat(array, 3)[::3], values)
    check(array[::-1], values[::-1])
    check(np.asfortranarray(np.stack([array, array]))[1], values)
    frozen = array.copy()
    frozen.flags.writeable = False
    check(frozen, values)
    unaligned = np.frombuffer(b"x" + array.tobytes(), dtype=dtype, offset=1)
    check(unaligned, values)


def test_bytearrays_are_bytes() -> None:
    check([bytearray(b"a"), b"a", bytearray(b"\xff\0"), None], [b"a", b"a", b"\xff\0", None])
    check(np.array([bytearray(b"a"), None], dtype=object), [b"a", None])
    sketch = ks.SpaceSaving(10)
    sketch.update([b"a", bytearray(b"a")])
    assert sketch.estimate(bytearray(b"a")) == (2, 0)
    router = ks.DChoices(workers=100, seed=5).router()
    assert router.candidates(bytearray(b"a")).tolist() == router.candidates(b"a").tolist()


def test_integers_in_a_list() -> None:
    values = [0, -1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, True, False]
    check(values, values)
    check([np.int8(-3), np.uint64(2**64 - 1), np.int64(7)], [-3, 2**64 - 1, 7])


def test_booleans() -> None:
    values = [True, False, True]
    check(np.array(values), values)
    check(np.repeat(np.array(values), 3)[::3], values)
    check(pa.array([None, *values])[1:], values)
    check(values, [1, 0, 1])


@given(
    st.lists(st.one_of(st.integers(-(2**63), 2**64 - 1), st.booleans(), st.text(), st.binary(), st.none()))
)
def test_any_list(values: list[Any]) -> None:
    assert ks.hash_keys(values, seed=5).tolist() == [hash_key(value, 5) for value in values]
    assert ks.hash_keys(tuple(values), seed=5).tolist() == [hash_key(value, 5) for value in values]


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.none())), st.integers(0, 2**64 - 1))
def test_any_integers(values: list[int | None], seed: int) -> None:
    assert ks.hash_keys(pa.array(values, pa.int64()), seed).tolist() == [hash_key(v, seed) for v in values]


@given(st.lists(st.text()), st.integers(0, 2**64 - 1))
def test_any_strings(values: list[str], seed: int) -> None:
    expected = [hash_key(value, seed) for value in values]
    assert ks.hash_keys(pa.array(values, pa.string()), seed).tolist() == expected
    assert ks.hash_keys(values, seed).tolist() == expected


def test_objects_of_every_kind() -> None:
    values = [1, "a", b"a", None, True, DAYS[2], MOMENTS[2], Decimal("1.50"), Decimal(7), 2**64 - 1]
    check(values, values)
    check(np.array(values, dtype=object), values)
    check(np.repeat(np.array(values, dtype=object), 2)[::2], values)
    fields = np.zeros(len(values), dtype=[("before", "i1"), ("value", object)])
    fields["value"] = values
    check(fields["value"], values)


def test_an_object_that_is_not_there_is_none() -> None:
    keys = np.array(["a", None, "b"], dtype=object)
    ctypes.memset(keys.ctypes.data + keys.itemsize, 0, keys.itemsize)
    assert keys.tolist() == ["a", None, "b"]
    check(keys, ["a", None, "b"])


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_moments_of_numpy(unit: str) -> None:
    moments = [datetime.datetime(1970, 1, 1), datetime.datetime(2024, 2, 29), datetime.datetime(1960, 1, 1)]
    array = np.array(moments, dtype=f"datetime64[{unit}]")
    check(array, [moment.date() for moment in moments] if unit == "D" else moments)
    check(
        np.array([array[0], "NaT"], dtype=array.dtype),
        [moments[0].date() if unit == "D" else moments[0], None],
    )


# Strings and bytes


def test_strings_of_numpy() -> None:
    words = [word for word in WORDS if len(word) < 50]
    array = np.array(words)
    assert array.dtype.kind == "U"
    check(array, words)
    check(np.repeat(array, 2)[::2], words)
    check(array.astype(array.dtype.newbyteorder()), words)
    check(np.array(words, dtype="U100"), words)
    check([np.str_("a"), "b"], ["a", "b"])


def test_strings_of_numpy_end_at_their_padding() -> None:
    check(np.array(["a\0", "a\0b"]), ["a", "a\0b"])
    check(np.array([b"a\0", b"a\0b"]), [b"a", b"a\0b"])


def test_bytes_of_numpy() -> None:
    blobs = [b"", b"a", b"\0a", b"\xff\xfe"]
    array = np.array(blobs)
    assert array.dtype.kind == "S"
    check(array, blobs)
    check(np.repeat(array, 2)[::2], blobs)
    check([np.bytes_(b"a"), b"b"], [b"a", b"b"])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_strings_of_arrow(kind: pa.DataType) -> None:
    check_arrow(WORDS, kind)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_binary_of_arrow(kind: pa.DataType) -> None:
    check_arrow(BLOBS, kind)


def test_binary_of_fixed_size() -> None:
    check_arrow([b"abc", b"\0\0\0", b"abd", b"\xff" * 3], pa.binary(3))


def test_a_string_is_not_its_bytes() -> None:
    hashes = ks.hash_keys(["1", b"1", 1, None, "", b"", 0])
    assert len(set(hashes.tolist())) == 7


def check_arrow(values: list[Any], kind: pa.DataType, expected: list[Any] | None = None) -> None:
    """Arrays, slices, nulls and chunks of one Arrow type."""
    expected = values if expected is None else expected
    array = pa.array(values, kind)
    check(array, expected)
    check(array[1:], expected[1:])
    check(array[2:3], expected[2:3])
    check(array[:0], [])
    nulls = [part for value in values for part in (value, None)]
    expected_nulls = [part for value in expected for part in (value, None)]
    check(pa.array(nulls, kind), expected_nulls)
    check(pa.array(nulls, kind)[1:-2], expected_nulls[1:-2])
    check(pa.array([None] * 9, kind), [None] * 9)
    long = pa.array(nulls * 20, kind)
    check_hashes(long[13:], (expected_nulls * 20)[13:])
    empty = array[:0]
    check(pa.chunked_array([empty, array[1:], empty, pa.array(nulls, kind)]), expected[1:] + expected_nulls)
    check(pa.chunked_array([], type=kind), [])
    check(Streams(pa.chunked_array([array, array])), expected * 2)
    check(Arrays(array), expected)


def check_hashes(keys: Any, expected: list[Any]) -> None:
    assert ks.hash_keys(keys, seed=9).tolist() == [hash_key(key, 9) for key in expected]


class Streams:
    """An object of another library that exports a stream and nothing else, as pandas' Series does."""

    def __init__(self, data: pa.ChunkedArray) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.data.__arrow_c_stream__(requested_schema)


class Arrays:
    """An object of another library that exports an array and nothing else."""

    def __init__(self, data: pa.Array) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.data.__arrow_c_array__(requested_schema)


# Other Arrow types

ARROW_INTEGERS = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
]


@pytest.mark.parametrize("kind", ARROW_INTEGERS, ids=str)
def test_integers_of_arrow(kind: pa.DataType) -> None:
    check_arrow(SMALL, kind)


def test_booleans_of_arrow() -> None:
    check_arrow([True, False, False, True, True], pa.bool_())


def test_nulls_of_arrow() -> None:
    check(pa.nulls(5), [None] * 5)
    check(pa.chunked_array([pa.nulls(2), pa.nulls(3)]), [None] * 5)


def test_nulls_of_polars() -> None:
    polars = pytest.importorskip("polars")
    check(polars.Series([None] * 5), [None] * 5)
    check(pa.nulls(5)[2:], [None] * 3)
    check([None, None], [None, None])


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_dates_of_arrow(kind: pa.DataType) -> None:
    check_arrow(DAYS, kind)
    days = [(day - datetime.date(1970, 1, 1)).days for day in DAYS]
    check(pa.array(DAYS, kind), days)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Warsaw", "+05:30"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_arrow(unit: str, zone: str | None) -> None:
    check_arrow(MOMENTS, pa.timestamp(unit, zone))


def test_timestamps_with_a_zone_are_moments() -> None:
    local = datetime.datetime(2024, 7, 1, 14, 0, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    check(pa.array([local], pa.timestamp("us", "Europe/Warsaw")), [datetime.datetime(2024, 7, 1, 12, 0)])


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_timestamps_beyond_64_bits_of_nanoseconds(unit: str) -> None:
    per_unit = {"s": 10**9, "ms": 10**6, "us": 10**3}[unit]
    ticks = [2**62, -(2**62), 2**63 // per_unit, 2**63 // per_unit + 1, 2**64 // per_unit + 1, 3, 10**15]
    ticks += [-(2**63) // per_unit, -(2**63) // per_unit - 1]
    check(pa.array(ticks, pa.timestamp(unit)), [Decimal(tick * per_unit) for tick in ticks])


def test_nanoseconds_are_kept() -> None:
    ticks = [1, -1, 2**63 - 1, -(2**63)]
    check(pa.array(ticks, pa.timestamp("ns")), ticks)


DECIMALS = [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(38, 2), pa.decimal256(76, 2)]


@pytest.mark.parametrize("kind", DECIMALS, ids=str)
def test_decimals_of_every_width(kind: pa.DataType) -> None:
    values = ["0", "1.50", "1.5", "-1.5", "0.01", "-0.01", "100", "-100.00", "1234567.89", "-9999999.99"]
    check_arrow([Decimal(value) for value in values], kind)
    check(pa.array([Decimal("1.00"), Decimal("-7"), Decimal("0.00")], kind), [1, -7, 0])


@pytest.mark.parametrize("scale", [-3, 0, 1, 5, 20])
@pytest.mark.parametrize("width", [128, 256])
def test_decimals_of_every_scale(width: int, scale: int) -> None:
    kind = pa.decimal128(38, scale) if width == 128 else pa.decimal256(76, scale)
    unscaled = [0, 1, -1, 10, 15, 1500, -1500, 10**20, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**30 + 1]
    values = [Decimal((int(u < 0), tuple(map(int, str(abs(u)))), -scale)) for u in unscaled]
    check(pa.array(values, kind), values)


def test_equal_decimals_of_different_scales_are_one_key() -> None:
    hashes = [
        ks.hash_keys(pa.array([Decimal("12.5")], kind)).tolist()
        for kind in [pa.decimal128(5, 1), pa.decimal128(20, 9), pa.decimal256(70, 30), pa.decimal32(9, 3)]
    ]
    assert hashes == [hashes[0]] * len(hashes)


def test_the_largest_decimals() -> None:
    values = [
        Decimal(10**76 - 1),
        Decimal(-(10**76) + 1),
        Decimal(2**64 - 1),
        Decimal(2**64),
        Decimal(10**75),
    ]
    check(pa.array(values, pa.decimal256(76, 0)), values)
    assert ks.hash_keys(pa.array(values, pa.decimal256(76, 0)))[2] == ks.hash_keys([2**64 - 1])[0]


@given(
    st.lists(
        st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**25), max_value=10**25)
    )
)
def test_any_decimals(values: list[Decimal]) -> None:
    check_hashes(pa.array(values, pa.decimal128(38, 4)), values)
    check_hashes(pa.array(values, pa.decimal256(60, 9)), values)


# Dictionaries


@pytest.mark.parametrize("index", [kind for kind in ARROW_INTEGERS if kind != pa.uint64()], ids=str)
def test_dictionaries_of_every_index(index: pa.DataType) -> None:
    indices = pa.array([2, 0, None, 1, 2, 3], index)
    check(
        pa.DictionaryArray.from_arrays(indices, ["a", "b", "c", "unused"]),
        ["c", "a", None, "b", "c", "unused"],
    )


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["x", None, "z"], pa.string()),
        (["x", None, "z"], pa.large_string()),
        ([b"x", None, b"z"], pa.binary()),
        ([5, None, -7], pa.int64()),
        ([True, None, False], pa.bool_()),
        ([Decimal("1.5"), None, Decimal(2)], pa.decimal128(5, 2)),
        ([datetime.date(2024, 1, 1), None, datetime.date(1969, 1, 1)], pa.date32()),
        ([None, None, None], pa.null()),
    ],
    ids=str,
)
def test_dictionaries_of_every_value(values: list[Any], kind: pa.DataType) -> None:
    indices = [0, 1, 2, None, 0, 2]
    expected = [None if i is None else values[i] for i in indices]
    array = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values, kind))
    check(array, expected)
    check(array[1:5], expected[1:5])
    check(pa.chunked_array([array, array[2:]]), expected + expected[2:])


def test_dictionaries_that_differ_from_chunk_to_chunk() -> None:
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a", None]).dictionary_encode()]
    check(pa.chunked_array(chunks), ["a", "b", "c", "a", None])


def test_sliced_dictionary_values() -> None:
    values = pa.array(["no", "yes", "maybe", None])[1:]
    check(
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0], pa.int8()), values),
        ["yes", "maybe", None, "yes"],
    )


def test_record_batches_are_no_keys() -> None:
    table = pa.table({"a": [1, 2], "b": [1, 2]})
    with pytest.raises(TypeError, match="key"):
        ks.hash_keys(table)


# Data frames


def test_polars() -> None:
    pl = pytest.importorskip("polars", reason="polars is not installed")
    check(pl.Series([3, 1, None]), [3, 1, None])
    check(pl.Series([3, 1, 2], dtype=pl.UInt16)[1:], [1, 2])
    check(pl.Series(["a", "a string longer than a view", None]), ["a", "a string longer than a view", None])
    check(pl.Series([b"a", None]), [b"a", None])
    check(pl.Series([True, None]), [True, None])
    check(pl.Series(["b", "a", "b", None], dtype=pl.Categorical), ["b", "a", "b", None])
    check(pl.Series(DAYS), DAYS)
    check(pl.Series(MOMENTS), MOMENTS)
    check(pl.Series([Decimal("1.50"), Decimal("2.00")]), [Decimal("1.5"), 2])
    with pytest.raises(TypeError, match="float"):
        ks.hash_keys(pl.Series([1.5]))


# What is no key

LONE = "\ud800"


@pytest.mark.parametrize(
    "keys",
    [
        lambda: np.array([1.0, 2.0]),
        lambda: np.array([1.0], dtype=np.float16),
        lambda: np.array([1.0], dtype=np.float32),
        lambda: [1.5],
        lambda: [1, "a", 2.0],
        lambda: [np.float64(1.0)],
        lambda: pa.array([1.0]),
        lambda: pa.array([1.0], pa.float32()),
        lambda: pa.array([1.0], pa.float16()),
        lambda: pa.array([1.0, 2.0]).dictionary_encode(),
        lambda: pa.chunked_array([[1.0], [2.0]]),
    ],
)
def test_floats_are_refused_with_advice(keys: Callable[[], Any]) -> None:
    for door in doors():
        with pytest.raises(TypeError, match="float") as error:
            door(keys())
        message = str(error.value)
        assert "\n" not in message
        assert any(advice in message for advice in ("integer", "string", "decimal"))


@pytest.mark.parametrize(
    "keys",
    [
        "word",
        b"word",
        bytearray(b"word"),
        5,
        True,
        None,
        1.5,
        {"a": 1},
        {"a", "b"},
        object(),
        np.int64(5),
        [[1, 2], [3, 4]],
        [(1, 2)],
        [object()],
        [{"a": 1}],
        [1 + 2j],
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_other_objects_are_refused(keys: Any) -> None:
    for door in doors():
        with pytest.raises(TypeError, match="key") as error:
            door(keys)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "keys",
    [
        lambda: np.array(5),
        lambda: np.zeros((2, 2), dtype=np.int64),
        lambda: np.zeros((2, 0), dtype=np.int64),
        lambda: np.ma.array([1, 2], mask=[False, True]),
        lambda: np.array([1j]),
        lambda: np.array([(1, 2)], dtype=[("a", "i4"), ("b", "i4")]),
        lambda: np.array([1], dtype="timedelta64[D]"),
        lambda: pa.array([[1, 2]]),
        lambda: pa.array([{"a": 1}]),
        lambda: pa.array([datetime.time(1)]),
        lambda: pa.array([datetime.timedelta(1)]),
        lambda: pa.array([[1]], pa.list_(pa.int8(), 1)),
        lambda: pa.table({"a": [1], "b": [2]}),
        lambda: pa.RecordBatch.from_pydict({"a": [1], "b": [2]}),
    ],
)
def test_other_arrays_are_refused(keys: Callable[[], Any]) -> None:
    for door in doors():
        with pytest.raises(TypeError, match="key") as error:
            door(keys())
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**30, -(10**30)])
def test_integers_beyond_64_bits_are_refused(value: int) -> None:
    for door in doors():
        with pytest.raises(ValueError, match="keys") as error:
            door([1, value])
        message = str(error.value)
        assert str(value) in message
        assert "\n" not in message


@pytest.mark.parametrize("keys", [["a", LONE], (LONE,), np.array(["a", LONE])], ids=ascii)
def test_lone_surrogates_are_refused(keys: Any) -> None:
    for door in doors():
        with pytest.raises(ValueError, match=r"UTF-8|surrogate") as error:
            door(keys)
        assert "\n" not in str(error.value)


def test_exceptions_of_the_users_object_pass_through() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ZeroDivisionError("the user's own")

    for door in doors():
        with pytest.raises(ZeroDivisionError, match="the user's own"):
            door(Broken())


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_wrong_seeds_are_refused(seed: int) -> None:
    with pytest.raises(ValueError, match="seed") as error:
        ks.hash_keys([1], seed=seed)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("seed", ["1", 1.5, True])
def test_seeds_of_other_types_are_refused(seed: Any) -> None:
    with pytest.raises(TypeError, match="seed"):
        ks.hash_keys([1], seed=seed)
