"""pandas' Series and Index are doors like the others, whatever their dtype.

`make test-pandas` runs this on another pandas.
"""

import datetime
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keysplit as ks
from doors import check, doors

pd = pytest.importorskip("pandas", minversion="2.2", reason="pandas is not installed")

UTC = datetime.UTC
MOMENTS = [datetime.datetime(1970, 1, 1), datetime.datetime(1969, 12, 31, 23, 59, 59, 250_000), None]
ZONED = [
    datetime.datetime(2024, 7, 1, 12, 0, tzinfo=UTC),
    None,
    datetime.datetime(1960, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
]
IN_UTC = [moment and moment.replace(tzinfo=None) for moment in ZONED]
WORDS = ["b", "a", None, "żółć", "a string longer than a view", "b"]
DAYS = [datetime.date(1970, 1, 1), None, datetime.date(1, 1, 1)]
SMALL = [3, 1, 2, 3]

# name: values, dtype, and the Python objects that hash the same where they are not the values
DTYPES: dict[str, tuple[list[Any], Any] | tuple[list[Any], Any, list[Any]]] = {
    **{
        f"{kind}{width}": (SMALL, f"{kind}{width}")
        for kind in ("int", "uint", "Int", "UInt")
        for width in (8, 16, 32, 64)
    },
    "large unsigned": ([2**64 - 1, 0], "uint64"),
    "nullable integers": ([3, None, -(2**63), 3], "Int64"),
    "nullable unsigned": ([2**64 - 1, None, 3], "UInt64"),
    "bool": ([True, False, True], "bool"),
    "nullable booleans": ([True, None, False], "boolean"),
    "objects that are strings": (WORDS, object),
    "objects that are bytes": ([b"a", b"", None], object),
    "objects that are integers": ([2**64 - 1, -(2**63), None, 7], object),
    "objects that are booleans": ([True, None], object),
    "objects that are decimals": ([Decimal("1.50"), None, Decimal(7)], object, [Decimal("1.5"), None, 7]),
    "objects that are dates": (DAYS, object),
    "objects that are moments": (MOMENTS, object),
    "objects of many kinds": ([1, "a", b"a", None, True, Decimal("0.5"), DAYS[0]], object),
    "objects and missing values": (["a", np.nan, pd.NA, pd.NaT, None], object, ["a", None, None, None, None]),
    "bytearrays": ([bytearray(b"a"), b"a"], object, [b"a", b"a"]),
    "str": (WORDS, "str" if pd.__version__ >= "3" else object),
    "strings of Python": (WORDS, pd.StringDtype("python")),
    "strings of pyarrow": (WORDS, pd.StringDtype("pyarrow")),
    "string": (WORDS, "string"),
    "categories of strings": (WORDS, "category"),
    "categories of integers": ([7, 5, 7, None], pd.CategoricalDtype([5, 7, 9])),
    "ordered categories": (["b", "a", None], pd.CategoricalDtype(["b", "a"], ordered=True)),
    "categories of many kinds": ([1, "a", None, 1], pd.CategoricalDtype([1, "a", b"a"])),
    "datetime64[ns]": (MOMENTS, "datetime64[ns]"),
    "datetime64[us]": (MOMENTS, "datetime64[us]"),
    "datetime64[s]": ([MOMENTS[0], None], "datetime64[s]"),
    "datetimes of UTC": (ZONED, "datetime64[ns, UTC]", IN_UTC),
    "datetimes of a zone": (ZONED, "datetime64[us, Europe/Warsaw]", IN_UTC),
    "Arrow's strings": (WORDS, pd.ArrowDtype(pa.string())),
    "Arrow's integers": ([1, None, -5], pd.ArrowDtype(pa.int16())),
    "Arrow's bytes": ([b"a", None], pd.ArrowDtype(pa.binary())),
    "Arrow's decimals": (
        [Decimal("1.50"), None],
        pd.ArrowDtype(pa.decimal128(10, 2)),
        [Decimal("1.5"), None],
    ),
    "Arrow's dates": (DAYS, pd.ArrowDtype(pa.date32())),
    "Arrow's moments": (ZONED, pd.ArrowDtype(pa.timestamp("us", "Europe/Warsaw")), IN_UTC),
    "Arrow's nulls": ([None, None], pd.ArrowDtype(pa.null())),
    "Arrow's dictionaries": (WORDS, pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
    "no values": ([], object),
    "no floats": ([], "float64"),
}


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name: str) -> None:
    values, dtype, *others = DTYPES[name]
    expected = others[0] if others else values
    column = pd.Series(values, dtype=dtype)
    check(column, expected)
    check(column[::-1], expected[::-1])
    check(column.iloc[1:], expected[1:])
    check(pd.Series(values, dtype=dtype, index=np.linspace(5, 4, len(values))), expected)
    check(pd.DataFrame({"key": column, "value": 0.5})["key"], expected)
    check(pd.Index(column, dtype=column.dtype), expected)
    check(pd.concat([column, column]), expected + expected)


def test_indexes_of_their_own_class() -> None:
    check(pd.RangeIndex(5, 0, -2), [5, 3, 1])
    check(pd.CategoricalIndex(["b", None, "a"]), ["b", None, "a"])
    check(pd.DatetimeIndex(["2024-07-01 14:00"], tz="Europe/Warsaw"), [datetime.datetime(2024, 7, 1, 12)])
    check(pd.DatetimeIndex([MOMENTS[1], None]), [MOMENTS[1], None])
    levels = pd.MultiIndex.from_arrays([["a", "b"], [1, 2]], names=["word", "number"])
    check(levels.get_level_values("number"), [1, 2])


def test_nanoseconds_are_kept() -> None:
    moment = pd.Timestamp(7, unit="ns")
    for column in (
        pd.Series([moment]),
        pd.Series([moment], dtype=object),
        pd.Series([moment.tz_localize("UTC")]),
    ):
        check(column, [7])


def test_chunks_of_arrow_are_one_column() -> None:
    chunks = pa.chunked_array([["a", None], [], ["b"]])
    check(chunks.to_pandas(types_mapper=pd.ArrowDtype), ["a", None, "b"])


@pytest.mark.parametrize(
    "column",
    [
        lambda: pd.Series([1.0, 2.5]),
        lambda: pd.Series([1.5, None], dtype="Float64"),
        lambda: pd.Series([1.5], dtype=pd.ArrowDtype(pa.float32())),
        lambda: pd.Series([1.0, 2**60]),
        lambda: pd.Series([1, "a", 2.5], dtype=object),
        lambda: pd.Series([1.5], dtype="category"),
        lambda: pd.Index([0.5]),
    ],
)
def test_floats_are_refused(column: Callable[[], Any]) -> None:
    for door in doors():
        with pytest.raises(TypeError, match=r"must not be floats, got .*: round them explicitly") as error:
            door(column())
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "column",
    [
        lambda: pd.Series([3, None, 2]),
        lambda: pd.Series([np.nan, np.nan]),
        lambda: pd.Series([3.0, -2.0], dtype="float32"),
        lambda: pd.Series([3, None], dtype="Float64"),
        lambda: pd.Index([3, None]),
    ],
)
def test_integers_with_nulls_that_became_floats_are_refused_with_the_way_to_pass_them(
    column: Callable[[], Any],
) -> None:
    for door in doors():
        with pytest.raises(TypeError, match=r"all whole or missing.*type=pa\.int64\(\)") as error:
            door(column())
        assert "\n" not in str(error.value)
        assert column().astype("Int64").dtype == "Int64"
    keys = column()
    expected = [None if value != value else int(value) for value in keys.to_numpy("float64", na_value=np.nan)]
    check(pa.Array.from_pandas(keys, type=pa.int64()), expected)
    check(keys.astype("Int64"), expected)


@pytest.mark.parametrize(
    "column",
    [
        lambda: pd.Series(pd.period_range("2024-01", periods=2, freq="M")),
        lambda: pd.PeriodIndex(["2024-01"], freq="M").astype("category"),
        lambda: pd.Series(pd.interval_range(0, 2)),
        lambda: pd.Series(pd.to_timedelta([1, 2], unit="s")),
        lambda: pd.Series([1 + 2j]),
        lambda: pd.Series([(1, 2)]),
        lambda: pd.Series([{"a": 1}]),
        lambda: pd.MultiIndex.from_arrays([["a"], [1]]),
        lambda: pd.DataFrame({"a": [1], "b": [2]}),
        lambda: pd.Series([[1]], dtype=pd.ArrowDtype(pa.list_(pa.int8()))),
    ],
)
def test_what_is_no_key_is_refused(column: Callable[[], Any]) -> None:
    for door in doors():
        with pytest.raises(TypeError, match=r"^keys must") as error:
            door(column())
        assert "\n" not in str(error.value)


def test_numbers_beside_the_keys() -> None:
    keys = pd.Series(["a", "b", "a"], index=[9, 7, 9])
    expected = ks.KeyGrouping(workers=4).router()
    expected.route(["a", "b", "a"], weights=[1.0, 2.0, 0.5])
    for weights in (pd.Series([1.0, 2.0, 0.5]), pd.Series([1.0, 2.0, 0.5], dtype="Float64")):
        router = ks.KeyGrouping(workers=4).router()
        workers = router.route(keys, weights=weights)
        assert router.loads.tolist() == expected.loads.tolist()
    assert ks.metrics.imbalance(pd.Series([1, 2, 3])) == ks.metrics.imbalance([1, 2, 3])
    assert ks.metrics.imbalance(pd.Index([1, 2, 3])) == ks.metrics.imbalance([1, 2, 3])
    assert ks.metrics.replication(keys, pd.Series(workers)) == 1.0
    with pytest.raises(ValueError, match="null"):
        ks.KeyGrouping(workers=4).router().route(keys, weights=pd.Series([1, None, 2], dtype="Int64"))
    with pytest.raises(TypeError, match="weights must be numbers, got str"):
        ks.KeyGrouping(workers=4).router().route(keys, weights=pd.Series(["x", "y", "z"], dtype=object))


def test_simulations_and_profiles_of_a_series() -> None:
    """Slices of a Series go by its labels where these are floats; messages come in order all the same."""
    values = ks.streams.zipf(1.4, keys=1000, messages=20_000, seed=1)
    series = pd.Series(values, index=np.linspace(1.0, 0.0, len(values)))
    params = ks.DChoices(workers=10)
    assert ks.simulate(params, series).to_dict() == ks.simulate(params, values).to_dict()
    words = pd.Series([f"word {value}" for value in values], index=series.index)
    for column, same in ((series, values), (words, words.tolist())):
        profile, expected = ks.profile(column, workers=10), ks.profile(same, workers=10)
        assert (profile.top, profile.windows) == (expected.top, expected.windows)


def test_importing_keysplit_imports_no_pandas() -> None:
    program = (
        "import sys, keysplit as ks; ks.hash_keys(['a']); router = ks.KeyGrouping(workers=3).router();"
        "router.route([1], weights=[2]); sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
