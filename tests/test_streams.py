"""The streams: Zipf's law, and keys from files."""

import gzip
import io
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest

import keysplit as ks
from keysplit.streams import drawn
from keysplit.streams.drawn import _Cells


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0, 1.4, 2.0])
def test_zipf_follows_its_law(exponent: float) -> None:
    messages = 200_000
    keys = ks.streams.zipf(exponent, keys=1000, messages=messages, seed=4)
    assert keys.dtype == np.int64
    assert keys.shape == (messages,)
    assert keys.min() >= 0
    assert keys.max() <= 999
    shares = np.arange(1, 1001, dtype=float) ** -exponent
    shares /= shares.sum()
    counts = np.bincount(keys, minlength=1000)
    # Six standard deviations of a binomial count, for every key.
    assert (np.abs(counts - messages * shares) <= 6 * np.sqrt(messages * shares) + 6).all()
    if exponent >= 0.8:
        assert counts.argmax() == 0


@pytest.mark.parametrize(("exponent", "keys"), [(0.0, 3), (1.4, 10_000), (1.0, 100_000), (0.5, 200_000)])
def test_a_table_of_cells_finds_what_a_search_finds(exponent: float, keys: int) -> None:
    cumulated = np.cumsum(np.arange(1, keys + 1, dtype=float) ** -exponent)
    cumulated /= cumulated[-1]
    edges = np.concatenate([cumulated[:-1], np.arange(1 << 16) / (1 << 16)])  # of keys and of cells
    draws = np.concatenate([edges, np.nextafter(edges[1:], 0), np.random.default_rng(1).random(100_000)])
    draws = draws[draws < 1]
    assert (_Cells(cumulated).search(draws) == np.searchsorted(cumulated, draws, side="right")).all()


def test_zipf_is_repeatable() -> None:
    first = ks.streams.zipf(1.2, 500, 5000, 7)
    np.testing.assert_array_equal(ks.streams.zipf(exponent=1.2, keys=500, messages=5000, seed=7), first)
    np.testing.assert_array_equal(ks.streams.zipf(1.2, 500, 6000, 7)[:5000], first)
    assert (ks.streams.zipf(1.2, 500, 5000, 8) != first).any()


def test_zipf_ignores_the_global_generator() -> None:
    np.random.seed(1)
    first = ks.streams.zipf(1.2, 500, 100, 7)
    np.random.seed(2)
    np.testing.assert_array_equal(ks.streams.zipf(1.2, 500, 100, 7), first)


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0, 1.0 + 1e-12, 1.2, 3.0])
def test_keys_that_no_table_has_are_drawn_as_those_of_a_table(
    monkeypatch: pytest.MonkeyPatch, exponent: float
) -> None:
    by_table = ks.streams.zipf(exponent, 50_000, 200_000, 7)
    monkeypatch.setattr(drawn, "_MOST_IN_TABLE", 49_999)
    monkeypatch.setattr(drawn, "_HEAD", 5_000)
    without = ks.streams.zipf(exponent, 50_000, 200_000, 7)
    other = np.flatnonzero(by_table != without)
    assert len(other) <= 20 * (exponent < 3), "a draw next to the border of two keys may take the other"
    assert (np.abs(by_table - without) <= 1).all()


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.1])
def test_zipf_of_more_keys_than_memory_holds(exponent: float) -> None:
    keys = ks.streams.zipf(exponent, keys=2**53, messages=100_000, seed=5)
    assert 0 <= keys.min() <= keys.max() < 2**53
    for bits in (20, 30, 40, 50, 52):
        sums = [drawn._harmonic(2**each, exponent) for each in (bits, 53)]
        expected = sums[0] / sums[1]
        assert np.mean(keys < 2**bits) == pytest.approx(expected, abs=4 * np.sqrt(expected / 100_000) + 1e-9)
    np.testing.assert_array_equal(ks.streams.zipf(exponent, 2**53, 500, 5), keys[:500])


def test_all_drawn_streams_refuse_more_keys_than_they_can_have() -> None:
    for draw in (ks.streams.zipf, ks.streams.zipf_evolving):
        with pytest.raises(ValueError, match=rf"^keys must be in 1\.\.={2**53}, got {2**63}$"):
            draw(1.0, 2**63, 10)
    with pytest.raises(ValueError, match=rf"^keys must be in 1\.\.={2**53}, got {2**63}$"):
        ks.streams.zipf_hot_key(1.0, 2**63, 10, share=0.5)
    with pytest.raises(ValueError, match=rf"^keys must be in 1\.\.={2**28}, got {2**28 + 1}$"):
        ks.streams.zipf_drifting(1.0, 2**28 + 1, 10)
    with pytest.raises(ValueError, match=rf"^keys must be in 2\.\.={2**53}, got {2**2000}$"):
        ks.streams.zipf_exponent(2**2000, 0.5)
    few, many = (ks.streams.zipf_evolving(1.0, 10, 10, shift=shift) for shift in (3, 3 + 10 * 2**63))
    np.testing.assert_array_equal(few, many)


def test_zipf_of_little() -> None:
    assert ks.streams.zipf(1.0, 10, 0, 0).tolist() == []
    assert ks.streams.zipf(1.0, 1, 5, 0).tolist() == [0] * 5


@pytest.mark.parametrize(("exponent", "share"), [(0.0, 0.0), (0.0, 0.8), (1.2, 0.4), (0.0, 1.0)])
def test_zipf_hot_key_has_more_than_its_due(exponent: float, share: float) -> None:
    messages = 100_000
    keys = ks.streams.zipf_hot_key(exponent, keys=204, messages=messages, seed=3, share=share)
    others = np.arange(1, 205, dtype=float) ** -exponent
    shares = (1 - share) * others / others.sum()
    shares[0] += share
    counts = np.bincount(keys, minlength=204)
    assert (np.abs(counts - messages * shares) <= 6 * np.sqrt(messages * shares) + 6 * (share < 1)).all()
    np.testing.assert_array_equal(ks.streams.zipf_hot_key(exponent, 204, 5000, 3, share=share), keys[:5000])


@pytest.mark.parametrize(("value", "exception"), [(-0.1, ValueError), (1.1, ValueError), ("1", TypeError)])
def test_zipf_hot_key_checks_its_share(value: Any, exception: type[Exception]) -> None:
    with pytest.raises(exception, match=r"^share must be (a number )?in 0\.\.=1, got "):
        ks.streams.zipf_hot_key(1.0, 10, 10, share=value)


@pytest.mark.parametrize(
    ("argument", "value", "exception"),
    [
        ("exponent", -0.1, ValueError),
        ("exponent", float("nan"), ValueError),
        ("exponent", float("inf"), ValueError),
        ("exponent", "1", TypeError),
        ("exponent", None, TypeError),
        ("keys", 0, ValueError),
        ("keys", -5, ValueError),
        ("keys", 1.5, TypeError),
        ("keys", "10", TypeError),
        ("keys", 2**53 + 1, ValueError),
        ("keys", 2**63, ValueError),
        ("messages", -1, ValueError),
        ("messages", 2**63, ValueError),
        ("messages", 2.5, TypeError),
        ("seed", -1, ValueError),
        ("seed", None, TypeError),
    ],
)
def test_wrong_arguments_are_named(argument: str, value: Any, exception: type[Exception]) -> None:
    arguments = {"exponent": 1.0, "keys": 10, "messages": 10, "seed": 0, argument: value}
    with pytest.raises(exception) as error:
        ks.streams.zipf(**arguments)
    message = str(error.value)
    assert message.startswith(f"{argument} must be ")
    assert message.endswith(f", got {value!r}")
    assert "\n" not in message


# Files

TABLE = pa.table({"number": [3, 1, 3, None], "word": ["b", "a", None, "b"], "share": [0.5, 1.5, 2.5, 3.5]})


def test_parquet(tmp_path: Path) -> None:
    file = tmp_path / "stream.parquet"
    parquet.write_table(TABLE, file, row_group_size=2)
    assert ks.streams.read(file, key="word").to_pylist() == ["b", "a", None, "b"]
    numbers = ks.streams.read(str(file), key="number")
    assert numbers.to_pylist() == [3, 1, 3, None]
    assert ks.hash_keys(numbers).tolist() == ks.hash_keys([3, 1, 3, None]).tolist()


@pytest.mark.parametrize("name", ["stream.csv", "stream.csv.gz", "STREAM.CSV"])
def test_csv(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    rows = b"number,word\n3,b\n1,a\n3,b\n"
    with pa.output_stream(file, compression="gzip" if name.endswith("gz") else None) as out:
        out.write(rows)
    assert ks.streams.read(file, key="number").to_pylist() == [3, 1, 3]
    assert ks.streams.read(file, key="word").to_pylist() == ["b", "a", "b"]


def test_csv_with_commas_and_spaces_in_its_keys(tmp_path: Path) -> None:
    file = tmp_path / "stream.csv"
    csv.write_csv(pa.table({"a key": ["x, y", 'with "quotes"', "z"], "n": [1, 2, 3]}), file)
    assert ks.streams.read(file, key="a key").to_pylist() == ["x, y", 'with "quotes"', "z"]


def test_text(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("to be\tor  not\n\nto be żółć\n", encoding="utf-8")
    assert ks.streams.read(file).to_pylist() == ["to", "be", "or", "not", "to", "be", "żółć"]
    file.write_text("", encoding="utf-8")
    assert ks.streams.read(file).to_pylist() == []


def test_files_can_be_routed(tmp_path: Path) -> None:
    file = tmp_path / "stream.parquet"
    parquet.write_table(TABLE, file)
    keys = ks.streams.read(file, key="word")
    answer = ks.KeyGrouping(workers=5).router().route(keys)
    np.testing.assert_array_equal(answer, ks.KeyGrouping(workers=5).router().route(["b", "a", None, "b"]))


def refused(exception: type[Exception], *arguments: Any, **keywords: Any) -> str:
    with pytest.raises(exception) as error:
        ks.streams.read(*arguments, **keywords)
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2", "__HIVE_DEFAULT_PARTITION__"], [1, 2, None]),
        (["07", "7", "x%2Fy"], ["07", "7", "x/y"]),
        (["DE", "__HIVE_DEFAULT_PARTITION__"], ["DE", None]),
    ],
)
def test_a_column_in_the_names_of_folders(tmp_path: Path, values: list[str], expected: list[Any]) -> None:
    for number, value in enumerate(values, 1):
        folder = tmp_path / "day=1" / f"k={value}"
        folder.mkdir(parents=True)
        parquet.write_table(pa.table({"v": list(range(number))}), folder / "part-0.parquet")
    times = {value: number for number, value in enumerate(expected, 1)}
    assert Counter(ks.streams.read(tmp_path, "k").to_pylist()) == times
    pieces = list(ks.streams.chunks(tmp_path, "k", rows=2))
    assert max(map(len, pieces)) == 2
    assert Counter(key for piece in pieces for key in piece.to_pylist()) == times
    assert set(ks.streams.read(tmp_path, "day").to_pylist()) == {1}
    assert len(ks.streams.read(tmp_path, "v")) == ks.streams.length(tmp_path) == sum(times.values())
    (tmp_path / "other").mkdir()
    parquet.write_table(pa.table({"v": [1]}), tmp_path / "other" / "part-0.parquet")
    with pytest.raises(ValueError, match="key must be one of the columns v, got 'k'"):
        ks.streams.read(tmp_path, "k")


@pytest.mark.parametrize("path", [None, 3, io.StringIO("a b")])
def test_what_is_no_file_is_named(path: Any) -> None:
    for function in (ks.streams.read, ks.streams.chunks):
        with pytest.raises(TypeError, match="path must be a path, '-' or a file open in binary mode, got"):
            function(path)


@pytest.mark.parametrize("path", ["", "s3://bucket/x.parquet"])
def test_neither_nothing_nor_a_url_is_a_file(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet.write_table(pa.table({"k": [1]}), tmp_path / "here.parquet")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=re.escape(f"got {path!r}")):
        ks.streams.read(path, key="k")


@pytest.mark.parametrize("opened", [io.BytesIO, lambda data: io.BufferedReader(io.BytesIO(data))])
def test_a_gzipped_input_is_unzipped(opened: Any) -> None:
    assert ks.streams.read(opened(gzip.compress(b"k\n1\n2\n")), key="k").to_pylist() == [1, 2]
    assert ks.streams.read(opened(gzip.compress(b"to be"))).to_pylist() == ["to", "be"]
    given = opened(b"to be")
    assert ks.streams.read(given).to_pylist() == ["to", "be"]
    assert not given.closed, "it is the caller's"
    assert ks.streams.read(opened(b"")).to_pylist() == []
    with pytest.raises(ValueError, match=r"^the input cannot be read as csv: "):
        ks.streams.read(opened(gzip.compress(b"k\n1\n2\n")[:20]), key="k")


def test_a_missing_file(tmp_path: Path) -> None:
    assert "nowhere.parquet" in refused(FileNotFoundError, tmp_path / "nowhere.parquet", key="word")
    assert tmp_path.name in refused(FileNotFoundError, tmp_path, key="word")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_missing_column(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"stream.{suffix}"
    write = parquet.write_table if suffix == "parquet" else csv.write_csv
    write(TABLE, file)
    message = refused(ValueError, file, key="wrod")
    assert "wrod" in message
    assert "number, word, share" in message
    assert "None" in refused(ValueError, file)


def test_a_column_of_a_text(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("to be", encoding="utf-8")
    assert "key" in refused(ValueError, file, key="word")


@pytest.mark.parametrize("name", ["broken.parquet", "broken.csv", "broken.csv.gz", "broken.txt"])
def test_broken_files(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"word,number\na,1\nb\n" if name.endswith("csv") else b"\xff\xfe\x00not what it says")
    key = None if name.endswith("txt") else "word"
    assert name in refused(ValueError, file, key=key)


@pytest.mark.parametrize("name", ["empty.parquet", "empty.csv"])
def test_empty_files(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.touch()
    refused(ValueError, file, key="word")


def test_float_columns_are_read_and_refused_by_routers(tmp_path: Path) -> None:
    file = tmp_path / "stream.parquet"
    parquet.write_table(TABLE, file)
    keys = ks.streams.read(file, key="share")
    with pytest.raises(TypeError, match="float"):
        ks.KeyGrouping(workers=5).router().route(keys)


@pytest.mark.parametrize(
    ("keys", "share"), [(2, 0.6), (10_000, 0.0932), (31_000_000, 0.0267), (100, 0.01), (100_000, 0.9)]
)
def test_zipf_exponent_meets_the_share(keys: int, share: float) -> None:
    exponent = ks.streams.zipf_exponent(keys, share)
    ranks = np.arange(1, keys + 1, dtype=np.float64)
    assert 1 / np.sum(ranks**-exponent) == pytest.approx(share, rel=1e-6)


def test_zipf_exponent_refuses_what_no_exponent_gives() -> None:
    with pytest.raises(ValueError, match=r"top_share must be in 0\.01\.\.=0\.999, got 0\.009"):
        ks.streams.zipf_exponent(100, 0.009)
    with pytest.raises(ValueError, match="keys must be at least 2, got 1"):
        ks.streams.zipf_exponent(1, 0.5)
    with pytest.raises(TypeError, match="top_share must be a number"):
        ks.streams.zipf_exponent(100, "0.5")  # type: ignore[arg-type]


def test_zipf_evolving_turns_the_order_round_or_shifts_it() -> None:
    before = ks.streams.zipf(1.2, 500, 10_000, 7)
    turned = ks.streams.zipf_evolving(1.2, 500, 10_000, 7)
    np.testing.assert_array_equal(turned[:8_000], before[:8_000])
    np.testing.assert_array_equal(turned[8_000:], 499 - before[8_000:])
    shifted = ks.streams.zipf_evolving(1.2, 500, 10_000, 7, first=0.25, shift=499)
    np.testing.assert_array_equal(shifted[:2_500], before[:2_500])
    np.testing.assert_array_equal(shifted[2_500:], (before[2_500:] + 499) % 500)
    np.testing.assert_array_equal(ks.streams.zipf_evolving(1.2, 500, 10_000, 7, first=1), before)
    with pytest.raises(ValueError, match=r"first must be in 0\.\.=1, got 1\.5"):
        ks.streams.zipf_evolving(1.2, 500, 10, first=1.5)
    with pytest.raises(ValueError, match="shift must be at least 0, got -1"):
        ks.streams.zipf_evolving(1.2, 500, 10, shift=-1)


def test_zipf_drifting_has_the_same_shares_for_other_keys() -> None:
    plain = ks.streams.zipf(1.2, 500, 9_001, 7)
    stream = ks.streams.zipf_drifting(1.2, 500, 9_001, 7, periods=3)
    np.testing.assert_array_equal(stream[:3_000], plain[:3_000])
    for start, end in ((3_000, 6_000), (6_000, 9_001)):
        assert (stream[start:end] != plain[start:end]).mean() > 0.9
        # one key for one key: the same counts, under other names
        pairs = set(zip(plain[start:end].tolist(), stream[start:end].tolist(), strict=True))
        assert len(pairs) == len(set(plain[start:end].tolist())) == len(set(stream[start:end].tolist()))
    np.testing.assert_array_equal(ks.streams.zipf_drifting(1.2, 500, 9_001, 7, periods=1), plain)
    with pytest.raises(ValueError, match="periods must be at least 1, got 0"):
        ks.streams.zipf_drifting(1.2, 500, 10, periods=0)
