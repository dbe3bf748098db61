"""Streams in chunks: the same keys as in one piece, whatever the size of the chunks."""

import gc
import io
import pickle
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


@pytest.mark.parametrize("name", ["one_group.parquet", "many_groups.parquet", "a.csv", "a.txt"])
def test_a_file_is_never_in_memory_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(streams.files, "_CSV_BYTES", 1 << 16)
    monkeypatch.setattr(streams.files, "_CSV_BLOCK", 1 << 15)
    monkeypatch.setattr(streams.files, "_TEXT_BYTES", 1 << 16)
    messages, file = 1_000_000, tmp_path / name
    words = pa.table({"word": [f"key-number-{number:08}" for number in range(messages)]})
    if name.endswith(".parquet"):
        rows = messages if name == "one_group.parquet" else messages // 50
        parquet.write_table(words, file, row_group_size=rows, use_dictionary=False, compression="none")
    elif name.endswith(".csv"):
        csv.write_csv(words, file)
    else:
        file.write_text(" ".join(words["word"].to_pylist()))
    del words
    gc.collect()
    before, found = pa.total_allocated_bytes(), 0
    for chunk in streams.chunks(file, None if name == "a.txt" else "word", rows=10_000):
        found += len(chunk)
        assert pa.total_allocated_bytes() - before < file.stat().st_size / 3
    assert found == messages


def test_only_the_column_of_the_keys_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, "a.parquet")
    data, metadata = bytearray(file.read_bytes()), parquet.read_metadata(file)
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(1)
        start = min(column.dictionary_page_offset or column.data_page_offset, column.data_page_offset)
        data[start : start + column.total_compressed_size] = b"?" * column.total_compressed_size
    file.write_bytes(data)
    assert streams.read(file, "word").to_pylist() == WORDS
    with pytest.raises(ValueError, match=r"^a.parquet cannot be read as parquet: "):
        streams.read(file, "number")


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_a_name_of_two_columns_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    if name == "a.csv":
        file.write_text("word,word\na,b\n")
    else:
        column = pa.array(["a"])
        parquet.write_table(pa.Table.from_arrays([column, column], names=["word", "word"]), file)
    one = r"^key must be the name of one column, got 'word', the name of 2 columns$"
    with pytest.raises(ValueError, match=one):
        streams.chunks(file, "word")


def test_a_parquet_file_without_rows_has_a_type(tmp_path: Path) -> None:
    parquet.write_table(TABLE.slice(0, 0), tmp_path / "a.parquet")
    assert streams.read(tmp_path / "a.parquet", "word").type == pa.string()
    assert list(streams.chunks(tmp_path / "a.parquet", "word")) == []
    assert streams.length(tmp_path / "a.parquet") == 0


def test_words_are_whole_wherever_blocks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "  żółć\u2003be,or\n\n not-to ąę  "
    for size in range(1, 30):
        monkeypatch.setattr(streams.files, "_TEXT_BYTES", size)
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
    expected = r"^key must be one of the columns id, word, got 'wrod'$"
    with pytest.raises(streams.UnknownColumnError, match=expected) as caught:
        streams.chunks("-", "wrod")
    elsewhere = pickle.loads(pickle.dumps(caught.value))  # from another process
    assert (str(elsewhere), elsewhere.columns) == (str(caught.value), ["id", "word"])
    given("id,word\n")
    assert list(streams.chunks("-", "word")) == []
    given("")
    assert list(streams.chunks("-")) == []
    given("")
    with pytest.raises(ValueError, match=r"^the input cannot be read as csv: "):
        streams.chunks("-", "word")


def test_a_csv_value_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams.files, "_CSV_BYTES", 1000)
    monkeypatch.setattr(streams.files, "_CSV_BLOCK", 1000)
    file = tmp_path / "a.csv"
    file.write_text("word,number\n" + "a,1\n" * 1000 + "a,b\n", encoding="utf-8")
    chunks = streams.chunks(file, "number")
    assert next(chunks).to_pylist()[0] == 1
    expected = (
        r"^a.csv cannot be read as csv: In CSV column #1: .* invalid value 'b' "
        r"\(column number is read as int64, the type of its first values\)$"
    )
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


def test_a_folder_of_parquet_files(tmp_path: Path) -> None:
    folder = tmp_path / "clicks.parquet"
    for name, keys in {
        "part-2.snappy.parquet": [5],
        "part-1.parquet": [3, 4],
        "day=1/part-0.parquet": [1, 2],
        "_temporary/part-9.parquet": [9],
        ".part-8.parquet": [8],
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table({"user": keys}), folder / name)
    (folder / "_SUCCESS").write_text("")
    assert streams.read(folder, "user").to_pylist() == [1, 2, 3, 4, 5]
    assert streams.length(folder) == 5
    assert [chunk.to_pylist() for chunk in streams.chunks(folder, "user", rows=2)] == [[1, 2], [3, 4], [5]]


def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("no Parquet file")
    for use in (lambda: streams.chunks(tmp_path, "user"), lambda: streams.length(tmp_path)):
        with pytest.raises(
            FileNotFoundError, match=r"^path must be a file or a folder of Parquet files, got "
        ):
            use()
    parquet.write_table(pa.table({"user": [1]}), tmp_path / "a.parquet")
    for other, text in (
        (
            {"user": ["x"]},
            r"^column user must have one type, got int64 in a\.parquet and string in b\.parquet$",
        ),
        ({"name": ["x"]}, r"^b\.parquet: key must be one of the columns name, got 'user'$"),
    ):
        parquet.write_table(pa.table(other), tmp_path / "b.parquet")
        with pytest.raises(streams.UnreadableError, match=text):
            streams.read(tmp_path, "user")
    (tmp_path / "b.parquet").write_text("no Parquet at all")
    for read in (streams.read, lambda path, _: streams.length(path)):
        with pytest.raises(ValueError, match=r"^b\.parquet cannot be read as parquet"):
            read(tmp_path, "user")


@pytest.mark.parametrize("messages", [0, 1, 10, 23])
def test_zipf_in_blocks(monkeypatch: pytest.MonkeyPatch, messages: int) -> None:
    whole = streams.zipf(1.1, 50, messages, 3)
    monkeypatch.setattr(streams.drawn, "BLOCK", 10)
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
