"""Streams read from Parquet, CSV and text: files, folders of files and standard input."""

from __future__ import annotations

import codecs
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import GzipFile
from io import BufferedReader, BytesIO, RawIOBase, TextIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from keysplit.paths import is_url
from keysplit.streams.drawn import check_counts

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1 << 20
_CSV_BYTES = 1 << 24  # from which the types of columns are inferred
_CSV_BLOCK = 1 << 21  # bytes; the reader is up to forty blocks ahead; a row must not be much longer
_TEXT_BYTES = 1 << 22
_STANDARD = "-"
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")


class UnreadableError(ValueError):
    """The contents of a file, or part of them, do not match the file's name."""


class UnknownColumnError(ValueError):
    """A file has no such column, or several columns of that name.

    Attributes:
        columns: the file's columns; none for text.
    """

    def __init__(self, text: str, columns: list[str]) -> None:
        super().__init__(text)
        self.columns = columns

    def __reduce__(self) -> tuple[type[UnknownColumnError], tuple[str, list[str]]]:
        return type(self), (str(self), self.columns)


def read(path: str | os.PathLike[str], key: str | None = None) -> pa.ChunkedArray:
    """Read the keys of a file, in the order of its rows.

    Args:
        path: A file ending in ``.parquet`` or ``.csv`` (or compressed, e.g. ``.csv.gz``), or with any other
            name for UTF-8 text, where every word is a key; or a folder of Parquet files, such as Spark
            writes, read in the order of their names. Names that begin with ``_`` or ``.`` are skipped.
        key: The column that holds the keys; no other column is read. Not for text. A CSV column gets the type
            inferred from its values: ``007`` and ``7`` are one key. A partition column written by Spark is
            read from folder names such as ``country=DE``: as integers if all values are integers, otherwise
            as strings.

    Returns:
        The keys as a pyarrow ChunkedArray, which routers accept.

    Raises:
        FileNotFoundError: If there is no such file, or no Parquet file in the folder.
        ValueError: If the column is missing (the message lists the columns) or not given, the file cannot be
            read as its name implies, or the column's type differs between files of the folder. The type of a
            CSV column is inferred from its first 16 megabytes; a later value that does not fit this type is
            an error.

    Example:
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "words.txt"
        >>> _ = file.write_text("to be or not to be")
        >>> read(file).to_pylist()
        ['to', 'be', 'or', 'not', 'to', 'be']
    """
    import pyarrow as pa

    kind, arrays = _open(path, key, _ROWS)
    return pa.chunked_array(list(arrays), kind)


def chunks(
    path: str | os.PathLike[str] | BinaryIO, key: str | None = None, *, rows: int = 1 << 20
) -> Iterator[pa.Array]:
    r"""Read the keys of a file in chunks, for files larger than memory.

    Args:
        path: A file as in [`read`][keysplit.streams.read]; or ``-`` for standard input, or a file open in
            binary mode. The last two hold CSV if a key is given, otherwise text.
        key: The column that holds the keys; no other column is read. Not for text. A CSV column has the type
            inferred from its first 16 megabytes.
        rows: Maximum number of keys per chunk, at least 1.

    Returns:
        An iterator of pyarrow arrays, which holds a few chunks in memory, whatever the file's size.

    Raises:
        FileNotFoundError: If there is no such file, or no Parquet file in the folder.
        TypeError: If ``rows`` is not an integer.
        ValueError: If the column is missing (the message lists the columns) or not given; while reading, if
            the file cannot be read as its name implies, or if a value of a CSV column does not fit its type.

    Example:
        >>> import io
        >>> words = [chunk.to_pylist() for chunk in chunks(io.BytesIO(b"to be or not"), rows=3)]
        >>> words
        [['to', 'be', 'or'], ['not']]
        >>> numbers = [chunk.to_pylist() for chunk in chunks(io.BytesIO(b"a,b\n1,2\n3,4\n"), key="b")]
        >>> numbers
        [[2, 4]]
    """
    check_counts(rows=(rows, 1))
    return _open(path, key, rows)[1]


def length(path: str | os.PathLike[str]) -> int | None:
    """Return the number of keys in a file, if known without reading the keys.

    Args:
        path: A file as in [`chunks`][keysplit.streams.chunks].

    Returns:
        The number of rows of a Parquet file or a folder of Parquet files, otherwise None.

    Raises:
        FileNotFoundError: If there is no such file, or no Parquet file in the folder.
        ValueError: If a Parquet file cannot be read.
    """
    import pyarrow.parquet

    if path == _STANDARD:
        return None
    files = _existing(path)
    if _kind(files[0]) != "parquet":
        return None
    rows = 0
    for file in files:
        with _readable_as("parquet", file.name):
            rows += pyarrow.parquet.read_metadata(file).num_rows
    return rows


def _existing(path: str | os.PathLike[str]) -> list[Path]:
    """The file, or the folder's Parquet files."""
    given = Path(path)
    if given.is_file():
        return [given]
    # `Path` turns an empty path into the current folder
    files = sorted(
        file
        for file in given.rglob("*.parquet")
        if file.is_file() and not any(part[0] in "_." for part in file.relative_to(given).parts)
    )
    if not files or not os.fspath(path):
        where = " on this machine" if is_url(path) else ""
        raise FileNotFoundError(
            f"path must be a file or a folder of Parquet files{where}, got {os.fspath(path)!r}"
        )
    return files


def _kind(file: Path) -> str:
    suffixes = {suffix.lower() for suffix in file.suffixes}
    return "parquet" if ".parquet" in suffixes else "csv" if ".csv" in suffixes else "text"


def _open(
    path: str | os.PathLike[str] | BinaryIO, key: str | None, rows: int
) -> tuple[pa.DataType, Iterator[pa.Array]]:
    """The type of the keys, and the keys; `rows` is already checked."""
    import pyarrow as pa

    if path == _STANDARD:
        path = sys.stdin.buffer
    if isinstance(path, str | os.PathLike):
        files = _existing(path)
        kind, name = _kind(files[0]), files[0].name
        if kind == "parquet":
            return _parquet(files, Path(path), key, rows)
        with _readable_as(kind, name):
            file: BinaryIO = pa.input_stream(files[0], compression="detect" if kind == "csv" else None)
    elif isinstance(path, TextIOBase) or not hasattr(path, "read"):
        found = type(path).__name__
        raise TypeError(f"path must be a path, '-' or a file open in binary mode, got {found}")
    else:
        kind, name = "text" if key is None else "csv", "the input"
        file = path if isinstance(path, BufferedReader) else BufferedReader(_Begun(b"", path))
        if file.peek(2)[:2] == b"\x1f\x8b":  # gzipped, which a file's name would show
            file = cast(BinaryIO, GzipFile(fileobj=file))
    if kind == "csv":
        with _readable_as(kind, name):
            type_, arrays = _csv(file, key)
    elif key is None:
        type_, arrays = pa.string(), _words(file)
    else:
        raise UnknownColumnError(
            "key must be None for text, where every word is a key (columns are read from files named "
            f".parquet or .csv), got {key!r}",
            [],
        )
    return type_, _sliced(arrays, rows, kind, name)


@contextmanager
def _readable_as(kind: str, name: str) -> Iterator[None]:
    """Convert errors inside into an UnreadableError that names the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, EOFError, OSError, UnicodeDecodeError, zlib.error) as error:
        what = str(error).splitlines()[0]
        raise UnreadableError(f"{name} cannot be read as {kind}: {what}") from error


def _sliced(arrays: Iterator[pa.Array], rows: int, kind: str, name: str) -> Iterator[pa.Array]:
    with _readable_as(kind, name):
        for array in arrays:
            for start in range(0, len(array), rows):
                yield array[start : start + rows]


def _words(file: BinaryIO) -> Iterator[pa.Array]:
    import pyarrow as pa

    decoder = codecs.getincrementaldecoder("utf-8")()
    begun: str | None = ""
    while begun is not None:
        data = file.read(_TEXT_BYTES)
        block = begun + decoder.decode(data, final=not data)
        words = block.split()
        # the last word may continue in the next block
        begun = None if not data else words.pop() if words and not block[-1].isspace() else ""
        yield pa.array(words, pa.string())


def _check_column(key: str | None, columns: list[str]) -> str:
    if key is None or key not in columns:
        raise UnknownColumnError(f"key must be one of the columns {', '.join(columns)}, got {key!r}", columns)
    if columns.count(key) > 1:
        text = f"key must be the name of one column, got {key!r}, the name of {columns.count(key)} columns"
        raise UnknownColumnError(text, columns)
    return key


def _parquet(
    files: list[Path], folder: Path, key: str | None, rows: int
) -> tuple[pa.DataType, Iterator[pa.Array]]:
    """The keys of Parquet files, from the names of their folders or from a column."""
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet

    hive = ds.partitioning(pa.schema([(key or "", pa.string())]), flavor="hive")
    parsed = [ds.get_partition_keys(hive.parse(str(file.relative_to(folder)))) for file in files]
    values = [each.get(key) for each in parsed]
    partitioned = all(key in each for each in parsed)
    whole = set(values) != {None} and all(_WHOLE.fullmatch(value) for value in values if value is not None)

    def opened(file: Path) -> tuple[pyarrow.parquet.ParquetFile, pa.DataType]:
        with _readable_as("parquet", file.name):
            # page by page; pyarrow.dataset would load the column of a whole row group
            found = pyarrow.parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
        if partitioned:
            return found, pa.int64() if whole else pa.string()
        return found, found.schema_arrow.field(_check_column(key, found.schema_arrow.names)).type

    _, first = opened(files[0])

    def arrays() -> Iterator[pa.Array]:
        for file, value in zip(files, values, strict=True):
            try:
                found, type_ = opened(file)
            except UnknownColumnError as error:
                raise UnreadableError(f"{file.name}: {error}") from error
            if type_ != first:
                got = f"{first} in {files[0].name} and {type_} in {file.name}"
                raise UnreadableError(f"column {key} must have one type, got {got}")
            key_of_all = pa.scalar(int(value) if whole and value else value, first) if partitioned else None
            with _readable_as("parquet", file.name):
                for batch in found.iter_batches(rows, columns=[] if partitioned else [key]):
                    yield pa.repeat(key_of_all, batch.num_rows) if partitioned else batch.column(0)

    return first, arrays()


def _csv(file: BinaryIO, key: str | None) -> tuple[pa.DataType, Iterator[pa.Array]]:
    import pyarrow as pa
    import pyarrow.csv

    beginning = file.read(_CSV_BYTES + 1)
    options = pyarrow.csv.ReadOptions(block_size=_CSV_BYTES)
    with pyarrow.csv.open_csv(BytesIO(beginning), options) as reader:
        key = _check_column(key, reader.schema.names)
        type_ = reader.schema.field(key).type
    whole = file
    if isinstance(file, pa.NativeFile) and file.seekable():
        file.seek(0)
    else:
        whole = BufferedReader(_Begun(beginning, file))
    reader = pyarrow.csv.open_csv(
        whole,
        pyarrow.csv.ReadOptions(block_size=_CSV_BLOCK),
        convert_options=pyarrow.csv.ConvertOptions(include_columns=[key], column_types={key: type_}),
    )

    def arrays() -> Iterator[pa.Array]:
        try:
            for batch in reader:
                yield batch.column(key)
        except pa.ArrowInvalid as error:
            what = str(error).splitlines()[0]
            text = f"{what} (column {key} is read as {type_}, the type of its first values)"
            raise pa.ArrowInvalid(text) from error

    return type_, arrays()


class _Begun(RawIOBase):
    """A file from its beginning, though some bytes were already read; `close` leaves the file open."""

    def __init__(self, read: bytes, rest: BinaryIO) -> None:
        self._read, self._rest = read, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        some, self._read = self._read[: len(buffer)], self._read[len(buffer) :]
        some = some or self._rest.read(len(buffer))
        buffer[: len(some)] = some
        return len(some)
