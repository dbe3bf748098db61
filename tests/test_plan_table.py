"""The tables of a plan send every row where the rule says."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keysplit._core import PlanTable
from reference import plan_table as reference

# The largest and smallest of each half of a hash, and of both.
EXTREMES = [0, 1, -1, 2**32 - 1, 2**32, -(2**32), 2**63 - 1, -(2**63), 2**31, -(2**31)]
LONGS = st.one_of(st.sampled_from(EXTREMES), st.integers(-(2**63), 2**63 - 1))
# These share both places of the look-up.
HASHES = st.one_of(LONGS, st.integers(-30, 30).map(lambda number: number << 20))
WORKERS = st.one_of(st.sampled_from([0, 65_535]), st.integers(0, 65_535))
CUTS = st.one_of(st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**32]), st.integers(0, 2**32))
DTYPES = dict(zip(reference.PlanTable._fields, ["u4", "i8", "u4", "u4", "i8", "u4", "u4"], strict=True))


def made(**columns: Any) -> PlanTable:
    """The table of columns given as lists; a small one where they are not given."""
    small = {
        "tail": [0, 1],
        "hashes": [7, 8],
        "starts": [0, 1],
        "lengths": [1, 2],
        "cuts": [1, 2, 3],
        "first": [4, 5, 6],
        "second": [7, 8, 9],
    }
    columns = {
        name: np.array(column, dtype=DTYPES[name]) if isinstance(column, list) else column
        for name, column in (small | columns).items()
    }
    return PlanTable(**columns)


def longs(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@st.composite
def models(draw: st.DrawFn) -> reference.PlanTable:
    buckets = 2 ** draw(st.integers(1, 7))
    tail = draw(st.lists(WORKERS, min_size=buckets, max_size=buckets))
    cells = draw(st.lists(st.tuples(CUTS, WORKERS, WORKERS), max_size=30))
    hashes = draw(st.lists(HASHES, unique=True, max_size=40)) if cells else []
    starts = [draw(st.integers(0, len(cells) - 1)) for _ in hashes]
    lengths = [draw(st.integers(1, len(cells) - start)) for start in starts]
    cuts, first, second = ([cell[column] for cell in cells] for column in range(3))
    return reference.PlanTable(tail, hashes, starts, lengths, cuts, first, second)


@given(models(), st.data())
def test_rows_go_where_the_rule_says(model: reference.PlanTable, data: st.DataObject) -> None:
    table = made(**model._asdict())
    keys = st.one_of(HASHES, st.sampled_from(model.hashes)) if model.hashes else HASHES
    messages = data.draw(st.lists(st.tuples(keys, LONGS), max_size=50))
    hashes, rows = [key for key, _ in messages], [row for _, row in messages]
    workers = table.route(longs(hashes), longs(rows))
    assert workers.dtype == np.uint32
    assert workers.tolist() == model.route(hashes, rows)
    assert table.route(longs(hashes)).tolist() == model.route(hashes)
    cut = data.draw(st.integers(0, len(messages)))
    parts = [table.route(longs(hashes[part]), longs(rows[part])) for part in (slice(cut), slice(cut, None))]
    assert np.concatenate(parts).tolist() == workers.tolist()


@pytest.mark.parametrize("crowded", [False, True])
def test_large_tables(crowded: bool) -> None:
    random = np.random.default_rng(5)
    hashes = random.integers(-(2**63), 2**63, 300)
    hashes[::7] = np.arange(len(hashes[::7])) << (16 if crowded else 43)
    lengths = random.integers(1, 9, 300)
    ends = lengths.cumsum()
    cells = ends[-1]
    model = reference.PlanTable(
        tail=random.integers(0, 65_536, 4096).tolist(),
        hashes=hashes.tolist(),
        starts=(ends - lengths).tolist(),
        lengths=lengths.tolist(),
        cuts=random.integers(0, 2**32 + 1, cells).tolist(),
        first=random.integers(0, 65_536, cells).tolist(),
        second=random.integers(0, 65_536, cells).tolist(),
    )
    keys = np.where(
        random.random(5000) < 0.5, random.choice(hashes, 5000), random.integers(-(2**63), 2**63, 5000)
    )
    rows = random.integers(-(2**63), 2**63, 5000)
    assert made(**model._asdict()).route(keys, rows).tolist() == model.route(keys.tolist(), rows.tolist())


def test_rows_are_split_by_the_shares() -> None:
    # workers 0, 1 and 2 take 1/2, 1/3 and 1/6 of a key's rows: three cells of 1/3 each
    half = 2**31
    table = made(
        hashes=[-5], starts=[0], lengths=[3], cuts=[2**32, half, 2**32], first=[0, 0, 1], second=[0, 2, 0]
    )
    rows = np.arange(0, 2**64, 2**64 // 60_000, dtype=np.uint64).view(np.int64)
    rows = rows ^ np.random.default_rng(1).integers(0, 2**32, len(rows))  # any low halves
    shares = np.bincount(table.route(np.full(len(rows), -5), rows)) / len(rows)
    assert shares == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=0.005)


def test_arrays_of_any_layout() -> None:
    table = made(tail=np.arange(8, dtype=np.uint32)[::2], hashes=np.array([7, 0, 8], dtype=np.int64)[::2])
    hashes = np.arange(-20, 20) << 58
    rows = np.arange(40) << 40
    expected = table.route(hashes, rows).tolist()
    assert table.route(np.repeat(hashes, 2)[::2], np.repeat(rows, 3)[::3]).tolist() == expected
    assert table.route(hashes[::-1], rows[::-1]).tolist() == expected[::-1]
    hashes.flags.writeable = False
    assert table.route(hashes, rows=rows).tolist() == expected
    assert table.route(longs([])).shape == (0,)


def test_a_table_keeps_no_array() -> None:
    tail, hashes = np.array([0, 1], dtype=np.uint32), longs([7, 8])
    table = made(tail=tail, hashes=hashes)
    keys = longs([7, 8, 9, -1])
    before = table.route(keys)
    tail[:], hashes[:] = 9, 9
    before[:] += 100
    assert table.route(keys).tolist() == [4, 5, 0, 1]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"tail": []}, "tail must have a power of two in 2..=1048576 as its length, got 0"),
        ({"tail": [0]}, "tail must have a power of two in 2..=1048576 as its length, got 1"),
        ({"tail": [0, 1, 2]}, "tail must have a power of two in 2..=1048576 as its length, got 3"),
        ({"tail": [0] * 2**21}, "tail must have a power of two in 2..=1048576 as its length, got 2097152"),
        ({"tail": [0, 65_536]}, "tail must be in 0..=65535, got 65536 at position 1"),
        ({"first": [0, 65_536, 0]}, "first must be in 0..=65535, got 65536 at position 1"),
        ({"second": [2**32 - 1, 0, 0]}, "second must be in 0..=65535, got 4294967295 at position 0"),
        ({"cuts": [0, -1, 0]}, "cuts must be in 0..=4294967296, got -1 at position 1"),
        ({"cuts": [0, 0, 2**32 + 1]}, "cuts must be in 0..=4294967296, got 4294967297 at position 2"),
        ({"hashes": [-1, -1]}, "hashes must differ from each other, got 0xffffffffffffffff twice"),
        ({"starts": [0]}, "starts must be one per hash, 2 in all, got 1"),
        ({"lengths": [1, 1, 1]}, "lengths must be one per hash, 2 in all, got 3"),
        ({"first": [1]}, "first must be one per cut, 3 in all, got 1"),
        ({"second": [1] * 4}, "second must be one per cut, 3 in all, got 4"),
        ({"lengths": [1, 0]}, "lengths must be at least 1, got 0 at position 1"),
        (
            {"lengths": [1, 3]},
            "starts + lengths must be at most the number of cells, 3, got 4 at position 1",
        ),
        (
            {"starts": [2**32 - 1, 0]},
            "starts + lengths must be at most the number of cells, 3, got 4294967296 at position 0",
        ),
        (
            {"cuts": [], "first": [], "second": []},
            "starts + lengths must be at most the number of cells, 0, got 1 at position 0",
        ),
    ],
    ids=range(18),
)
def test_wrong_tables_are_refused(columns: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        made(**columns)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize(
    ("column", "got"),
    [
        ([0, 1], "list"),
        (None, "NoneType"),
        (np.array([0, 1], dtype="i4"), "one of int32"),
        (np.array([0, 1], dtype="u8"), "one of uint64"),
        (np.array([0.0, 1.0]), "one of float64"),
        (np.array([0, 1], dtype=object), "one of object"),
    ],
    ids=range(6),
)
def test_columns_of_other_types_are_refused(name: str, column: Any, got: str) -> None:
    columns = [np.array([0, 1], dtype=dtype) for dtype in DTYPES.values()]
    columns[list(DTYPES).index(name)] = column
    text = f"{name} must be a NumPy array of {np.dtype(DTYPES[name])}, got {got}"
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        PlanTable(*columns)


@pytest.mark.parametrize("name", ["hashes", "rows"])
@pytest.mark.parametrize(
    ("column", "error", "text"),
    [
        ([1, 2], TypeError, "must be a NumPy array of int64, got list"),
        (np.array([1, 2], dtype=np.uint64), TypeError, "must be a NumPy array of int64, got one of uint64"),
        (np.array([1, 2], dtype=">i8"), TypeError, "must be a NumPy array of int64, got one of >i8"),
        (np.array([[1, 2]]), TypeError, "must have one dimension, got 2"),
        (np.ma.masked_array([1, 2]), TypeError, "must not be a masked array"),
        (np.array([1, 2, 3]), ValueError, "rows must be one per key, "),
    ],
    ids=range(6),
)
def test_wrong_batches_are_refused(name: str, column: Any, error: type[Exception], text: str) -> None:
    batch = {"hashes": longs([1, 2]), "rows": longs([1, 2]), name: column}
    with pytest.raises(error, match=text) as raised:
        made().route(**batch)
    assert "\n" not in str(raised.value)
