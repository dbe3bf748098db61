"""Streams in chunks: the same keys as in one piece, whatever the size of the chunks."""

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest

import keysplit as ks
from keysplit import streams

WORDS = ["to", "be", None, "żółć", "not", "to", "be"] * 30
NUMBERS = list(range(100, 310))
TABLE = pa.table({"word": WORDS, "number": NUMBERS})


def written(folder: Path, name: str) -> Path:
    file = folder / name
    if ".parquet" in name:
        parquet.write_table(TABLE, file, row_group_size=64)
    elif ".csv" in name:
        with pa.output_stream(file, compression="gzip" if name.endswith("gz") else None) as out:
            csv.write_csv(TABLE, out)
    else:
        file.write_text("\n".join(f"{number}\tw{number % 7}" for number in NUMBERS), encoding="utf-8")
    return file


@pytest.mark.parametrize("rows", [1, 7, 64, 100, 10**6])
@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.csv.gz", "a.txt"])
def test_chunks_are_the_file_bit_by_bit(tmp_path: Path, name: str, rows: int) -> None:
    file = written(tmp_path, name)
    key = None if name == "a.txt" else "number"
    found = list(streams.chunks(file, key, rows=rows))
    assert all(1 <= len(chunk) <= rows for chunk in found)
    assert all(isinstance(chunk, pa.Array) for chunk in found)
    whole = streams.read(str(file), key)
    assert pa.chunked_array(found) == whole
    if key is not None:
        assert whole.to_pylist() == NUMBERS


def test_a_parquet_file_without_rows_has_a_type(tmp_path: Path) -> None:
    parquet.write_table(TABLE.slice(0, 0), tmp_path / "a.parquet")
    assert streams.read(tmp_path / "a.parquet", "word").type == pa.string()
    assert list(streams.chunks(tmp_path / "a.parquet", "word")) == []
    assert streams.length(tmp_path / "a.parquet") == 0


def test_words_are_whole_wherever_blocks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "  żółć\u2003be,or\n\n not-to ąę  "
    for size in range(1, 30):
        monkeypatch.setattr(streams, "_TEXT_BYTES", size)
        found = [word for chunk in streams.chunks(io.BytesIO(text.encode())) for word in chunk.to_pylist()]
        assert found == text.split(), f"blocks of {size} bytes"


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Piped(io.RawIOBase):
        """Gives a few bytes at a time and cannot go back."""

        def __init__(self, data: bytes) -> None:
            self.rest = data

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            some, self.rest = self.rest[:5], self.rest[5:]
            buffer[: len(some)] = some
            return len(some)

    def given(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Piped(text.encode()))))

    given("to be or not\nto be")
    assert pa.chunked_array(list(streams.chunks("-"))).to_pylist() == ["to", "be", "or", "not", "to", "be"]
    given('id,"a key"\n1,"x, y"\n2,z\n3,x\n')
    assert pa.chunked_array(list(streams.chunks("-", "a key", rows=2))).to_pylist() == ["x, y", "z", "x"]
    given("id,word\n1,a\n")
    with pytest.raises(ValueError, match=r"^key must be one of the columns id, word, got 'wrod'$"):
        streams.chunks("-", "wrod")
    given("id,word\n")
    assert list(streams.chunks("-", "word")) == []
    given("")
    assert list(streams.chunks("-")) == []
    given("")
    with pytest.raises(ValueError, match=r"^the input cannot be read as csv: "):
        streams.chunks("-", "word")


def test_a_csv_value_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_CSV_BYTES", 1000)
    file = tmp_path / "a.csv"
    file.write_text("word,number\n" + "a,1\n" * 1000 + "a,b\n", encoding="utf-8")
    chunks = streams.chunks(file, "number")
    assert next(chunks).to_pylist()[0] == 1
    expected = "^a.csv cannot be read as csv: column number begins as int64 and has other values later: "
    with pytest.raises(ValueError, match=expected):
        list(chunks)
    with pytest.raises(ValueError, match=expected):
        streams.read(file, "number")
    assert len(streams.read(file, "word")) == 1001


def test_errors_come_at_once_where_they_can(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        streams.chunks(tmp_path / "nowhere.csv", "word")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        streams.length(tmp_path / "nowhere.csv")
    with pytest.raises(ValueError, match=r"^key must be one of the columns word, number, got 'wrod'$"):
        streams.chunks(written(tmp_path, "a.parquet"), "wrod")
    with pytest.raises(ValueError, match=r"^key must be None for text"):
        streams.chunks(written(tmp_path, "a.txt"), "word")
    for wrong, exception in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(exception, match=r"^rows must be "):
            streams.chunks(tmp_path / "a.txt", rows=wrong)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"not what it says")
    with pytest.raises(ValueError, match=r"^broken.parquet cannot be read as parquet: "):
        streams.length(broken)


def test_only_parquet_knows_its_length(tmp_path: Path) -> None:
    assert streams.length(written(tmp_path, "a.parquet")) == len(NUMBERS)
    assert streams.length(written(tmp_path, "a.csv")) is None
    assert streams.length(written(tmp_path, "a.txt")) is None
    assert streams.length("-") is None


@pytest.mark.parametrize("messages", [0, 1, 10, 23])
def test_zipf_in_blocks(monkeypatch: pytest.MonkeyPatch, messages: int) -> None:
    whole = streams.zipf(1.1, 50, messages, 3)
    monkeypatch.setattr(streams, "BLOCK", 10)
    blocks = list(streams.zipf_chunks(1.1, 50, messages, 3))
    assert [len(block) for block in blocks] == [10] * (messages // 10) + [messages % 10] * (messages % 10 > 0)
    assert all(block.dtype == np.int64 for block in blocks)
    np.testing.assert_array_equal(np.concatenate([np.empty(0, np.int64), *blocks]), whole)
    np.testing.assert_array_equal(streams.zipf(1.1, 50, messages, 3), whole)


def test_zipf_in_blocks_checks_its_arguments_at_once() -> None:
    with pytest.raises(ValueError, match=r"^keys must be at least 1, got 0$"):
        streams.zipf_chunks(1.0, 0, 10)
    with pytest.raises(TypeError, match=r"^messages must be an integer of at least 0, got 1.5$"):
        streams.zipf_chunks(1.0, 10, 1.5)


def test_a_file_can_be_simulated(tmp_path: Path) -> None:
    file = written(tmp_path, "a.parquet")
    expected = ks.simulate(ks.PartialKeyGrouping(workers=3), WORDS, sources=2)
    chunks = streams.chunks(file, "word", rows=50)
    found = ks.simulate(ks.PartialKeyGrouping(workers=3), chunks, sources=2, messages=streams.length(file))
    assert found.to_dict() == expected.to_dict()
