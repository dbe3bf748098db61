"""Streams of keys: the papers' synthetic ones, and files."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BufferedReader, BytesIO, RawIOBase
from itertools import chain, pairwise
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, SupportsIndex

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

BLOCK = 1 << 20
"""Messages drawn in one go."""


def zipf(exponent: float, keys: int, messages: int, seed: int = 0) -> NDArray[np.int64]:
    """Draw a stream whose key i (from 0) has a share proportional to 1 / (i + 1)**exponent.

    Args:
        exponent: Skew z, at least 0; 0 makes all keys equally frequent.
        keys: Number of different keys that may occur, at least 1.
        messages: Length of the stream, at least 0.
        seed: Seed of the draws, at least 0.

    Returns:
        Keys from 0 (the most frequent) to ``keys - 1``; int64, shape ``(messages,)``. A longer stream starts
        with the messages of a shorter one.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If a count is not an integer.

    Source: the stream ZF of Nasir et al., When Two Choices Are Not Enough (ICDE 2016), Table I.

    Deviations: none.

    Example:
        >>> import numpy as np
        >>> keys = zipf(2.0, keys=10_000, messages=100_000, seed=1)
        >>> round(float(np.mean(keys == 0)), 2)
        0.61
    """
    blocks = zipf_chunks(exponent, keys, messages, seed)
    stream, end = np.empty(messages, dtype=np.int64), 0
    for block in blocks:
        start, end = end, end + len(block)
        stream[start:end] = block
    return stream


def zipf_chunks(exponent: float, keys: int, messages: int, seed: int = 0) -> Iterator[NDArray[np.int64]]:
    """Draw the stream of [`zipf`][keysplit.streams.zipf] in blocks, for streams that are larger than memory.

    Args:
        exponent: Skew z, at least 0; 0 makes all keys equally frequent.
        keys: Number of different keys that may occur, at least 1.
        messages: Length of the stream, at least 0.
        seed: Seed of the draws, at least 0.

    Returns:
        An iterator of int64 arrays: some million messages at a time, the last block shorter.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If a count is not an integer.

    Example:
        >>> import numpy as np
        >>> blocks = list(zipf_chunks(1.4, keys=100, messages=3_000_000, seed=1))
        >>> bool((np.concatenate(blocks) == zipf(1.4, keys=100, messages=3_000_000, seed=1)).all())
        True
    """
    if isinstance(exponent, bool) or not isinstance(exponent, int | float | np.number):
        raise TypeError(f"exponent must be a number of at least 0, got {exponent!r}")
    if not 0 <= exponent < np.inf:
        raise ValueError(f"exponent must be finite and at least 0, got {exponent!r}")
    _check_counts(keys=(keys, 1), messages=(messages, 0), seed=(seed, 0))
    cumulated = np.cumsum(np.arange(1, keys + 1, dtype=np.float64) ** -float(exponent))
    cumulated /= cumulated[-1]
    generator = np.random.Generator(np.random.PCG64(seed))
    lengths = (min(BLOCK, messages - start) for start in range(0, messages, BLOCK))
    return (np.searchsorted(cumulated, generator.random(length), side="right") for length in lengths)


def zipf_exponent(keys: int, top_share: float) -> float:
    """Find the exponent of the Zipf distribution whose most frequent key has a given share.

    Args:
        keys: Number of different keys, at least 2.
        top_share: Share of the most frequent key, at least ``1 / keys`` and at most 0.999.

    Returns:
        The exponent z, for [`zipf`][keysplit.streams.zipf]: the share is met to 1e-6 of it or better.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If keys is not an integer or the share no number.

    Source: ours, by bisection. The papers tell the share of the hottest key, not the exponent.

    Example:
        >>> round(zipf_exponent(10_000, 0.0932), 3)
        0.979
    """
    _check_counts(keys=(keys, 2))
    _check_number("top_share", top_share, 1 / keys, 0.999)
    low, high = 0.0, 32.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 / _harmonic(keys, middle) < top_share else (low, middle)
    return (low + high) / 2


def zipf_evolving(
    exponent: float,
    keys: int,
    messages: int,
    seed: int = 0,
    *,
    first: float = 0.8,
    shift: int | None = None,
) -> NDArray[np.int64]:
    """Draw a Zipf stream whose hot keys are others from some point on.

    Before that point, key i (from 0) has a share proportional to 1 / (i + 1)**exponent, as in
    [`zipf`][keysplit.streams.zipf]. Behind it the order of the keys is turned round, so that the last is the
    most frequent, or shifted.

    Args:
        exponent: Skew z, at least 0.
        keys: Number of different keys that may occur, at least 1.
        messages: Length of the stream, at least 0.
        seed: Seed of the draws, at least 0.
        first: Part of the stream before the change, 0 to 1.
        shift: How many keys the order is shifted: behind the change, key ``(i + shift) % keys`` is as
            frequent as key i was. None to turn the order round.

    Returns:
        Keys from 0 to ``keys - 1``; int64, shape ``(messages,)``.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If an argument is of the wrong type.

    Source: the time-evolving stream ZF of Efficient Time-Evolving Stream Processing at Scale
    (arXiv 1806.00760), section 6.1, which turns the order round after 0.8 of the stream.

    Deviations: none; the shift is ours.

    Example:
        >>> import numpy as np
        >>> keys = zipf_evolving(2.0, keys=1_000, messages=10_000, seed=1)
        >>> hottest = [int(np.bincount(part).argmax()) for part in (keys[:8_000], keys[8_000:])]
        >>> hottest
        [0, 999]
    """
    _check_number("first", first, 0, 1)
    if shift is not None:
        _check_counts(shift=(shift, 0))
    stream = zipf(exponent, keys, messages, seed)
    rest = stream[round(messages * first) :]
    rest[:] = keys - 1 - rest if shift is None else (rest + shift) % keys
    return stream


def zipf_drifting(
    exponent: float, keys: int, messages: int, seed: int = 0, *, periods: int = 10
) -> NDArray[np.int64]:
    """Draw a Zipf stream in which the hot keys are others in each of several periods.

    Args:
        exponent: Skew z, at least 0.
        keys: Number of different keys that may occur, at least 1.
        messages: Length of the stream, at least 0.
        seed: Seed of the draws, at least 0.
        periods: Equal parts of the stream, at least 1. In the first, key i (from 0) has a share proportional
            to 1 / (i + 1)**exponent; in every other the keys' order is drawn anew.

    Returns:
        Keys from 0 to ``keys - 1``; int64, shape ``(messages,)``.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If an argument is of the wrong type.

    Source: ours, for real streams with drift, which papers name without their data (the cashtags of Nasir et
    al., When Two Choices Are Not Enough, ICDE 2016).

    Example:
        >>> import numpy as np
        >>> keys = zipf_drifting(2.0, keys=1_000, messages=10_000, seed=1, periods=2)
        >>> first, second = (np.bincount(part).argmax() for part in (keys[:5_000], keys[5_000:]))
        >>> bool(first == 0), bool(second == 0)
        (True, False)
    """
    _check_counts(periods=(periods, 1))
    stream = zipf(exponent, keys, messages, seed)
    orders = np.random.Generator(np.random.PCG64([seed, periods]))
    edges = [messages * period // periods for period in range(periods + 1)]
    for start, end in pairwise(edges[1:]):
        stream[start:end] = orders.permutation(keys)[stream[start:end]]
    return stream


def zipf_hot_key(
    exponent: float, keys: int, messages: int, seed: int = 0, *, share: float
) -> NDArray[np.int64]:
    """Draw a Zipf stream in which one key has more messages than is its due.

    Args:
        exponent: Skew z, at least 0; 0 makes all other keys equally frequent.
        keys: Number of different keys that may occur, at least 1.
        messages: Length of the stream, at least 0.
        seed: Seed of the draws, at least 0.
        share: Part of the messages, drawn at random, whose key is replaced by the hot key 0; 0 to 1. The hot
            key has what it has by Zipf's law beside.

    Returns:
        Keys from 0 to ``keys - 1``; int64, shape ``(messages,)``. A longer stream starts with the messages of
        a shorter one.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If an argument is of the wrong type.

    Source: the streams country-skew of Dalabasmaz and Can, Dynamic Key Grouping, section 5.1: exponent 0 and
    204 keys, as the authors' program draws them.

    Deviations: keys are numbers, not the names of countries.

    Example:
        >>> import numpy as np
        >>> keys = zipf_hot_key(0.0, keys=204, messages=10_000, seed=1, share=0.8)
        >>> round(float(np.mean(keys == 0)), 1)
        0.8
    """
    _check_number("share", share, 0, 1)
    stream = zipf(exponent, keys, messages, seed)
    generator = np.random.Generator(np.random.PCG64([seed, 1]))
    for start in range(0, messages, BLOCK):
        block = stream[start : start + BLOCK]
        block[generator.random(len(block)) < share] = 0
    return stream


def _check_counts(**counts: tuple[int, int]) -> None:
    for name, (value, least) in counts.items():
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise TypeError(f"{name} must be an integer of at least {least}, got {value!r}")
        if index(value) < least:
            raise ValueError(f"{name} must be at least {least}, got {value!r}")


def _check_number(name: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} must be a number in {low:g}..={high:g}, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be in {low:g}..={high:g}, got {value!r}")


def _harmonic(keys: int, exponent: float) -> float:
    """Sum i**-exponent for i = 1 ... keys: the first terms one by one, the others by Euler and Maclaurin."""
    exact = min(keys, 10_000)
    total = float(np.sum(np.arange(1, exact + 1, dtype=np.float64) ** -exponent))
    if exact < keys:
        low, high = float(exact), float(keys)
        flat = abs(exponent - 1) < 1e-12
        area = (
            np.log(high / low) if flat else (high ** (1 - exponent) - low ** (1 - exponent)) / (1 - exponent)
        )
        total += float(area) + (high**-exponent - low**-exponent) / 2
    return total


def read(path: str | os.PathLike[str], key: str | None = None) -> pa.ChunkedArray:
    """Read the keys of a file, in the order of its rows.

    Args:
        path: A file ending in ``.parquet``, ``.csv`` (also compressed, e.g. ``.csv.gz``), or any other name
            for text in UTF-8, where every word is a key; or a folder of Parquet files, as Spark writes them,
            which are read in the order of their names. Names that begin with ``_`` or ``.`` are left out.
        key: The column that holds the keys; only it is read. Not for text. A CSV column gets the type that
            its values look like: ``007`` and ``7`` are one key.

    Returns:
        The keys as a pyarrow ChunkedArray, which routers take as it is.

    Raises:
        FileNotFoundError: If there is no such file, or no Parquet file in the folder.
        ValueError: If the column is missing (the message lists the columns) or not given, the file cannot be
            read as what its name says, or the column has another type in another file of the folder. What a
            CSV column looks like in its first 16 megabytes is its type; a later value that does not fit it
            is such an error.

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
    r"""Read the keys of a file bit by bit, for files that are larger than memory.

    Args:
        path: A file as [`read`][keysplit.streams.read] takes it; or ``-`` for standard input, or a file that
            is open in binary mode. These hold CSV if a key is given, else text.
        key: The column that holds the keys; only it is read. Not for text. A CSV column has the type that its
            values look like in the first 16 megabytes.
        rows: Keys of a chunk at most, at least 1.

    Returns:
        An iterator of pyarrow arrays. It holds a few chunks in memory, whatever the size of the file.

    Raises:
        FileNotFoundError: If there is no such file, or no Parquet file in the folder.
        TypeError: If ``rows`` is not an integer.
        ValueError: If the column is missing (the message lists the columns) or not given; while reading, if
            the file cannot be read as what its name says, or if a value of a CSV column does not fit its
            type.

    Example:
        >>> import io
        >>> words = [chunk.to_pylist() for chunk in chunks(io.BytesIO(b"to be or not"), rows=3)]
        >>> words
        [['to', 'be', 'or'], ['not']]
        >>> numbers = [chunk.to_pylist() for chunk in chunks(io.BytesIO(b"a,b\n1,2\n3,4\n"), key="b")]
        >>> numbers
        [[2, 4]]
    """
    _check_counts(rows=(rows, 1))
    return _open(path, key, rows)[1]


def length(path: str | os.PathLike[str]) -> int | None:
    """Tell how many keys a file holds, if that can be told without reading them.

    Args:
        path: A file as [`chunks`][keysplit.streams.chunks] takes it.

    Returns:
        The number of rows of a Parquet file or of all in a folder, else None.

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


_ROWS = 1 << 20
_CSV_BYTES = 1 << 24  # of which the types of columns are inferred
_CSV_BLOCK = 1 << 21  # bytes; the reader is up to forty of them ahead, and a row must not be much longer
_TEXT_BYTES = 1 << 22
_STANDARD = "-"


def _existing(path: str | os.PathLike[str]) -> list[Path]:
    """The file, or the Parquet files of the folder."""
    given = Path(path)
    if given.is_file():
        return [given]
    files = sorted(
        file
        for file in given.rglob("*.parquet")
        if file.is_file() and not any(part[0] in "_." for part in file.relative_to(given).parts)
    )
    if not files:
        raise FileNotFoundError(f"path must be a file or a folder of Parquet files, got {str(given)!r}")
    return files


def _kind(file: Path) -> str:
    suffixes = {suffix.lower() for suffix in file.suffixes}
    return "parquet" if ".parquet" in suffixes else "csv" if ".csv" in suffixes else "text"


def _open(
    path: str | os.PathLike[str] | BinaryIO, key: str | None, rows: int
) -> tuple[pa.DataType, Iterator[pa.Array]]:
    """The type of the keys, and the keys; the caller has checked `rows`."""
    import pyarrow as pa

    if path == _STANDARD:
        path = sys.stdin.buffer
    file: Path | BinaryIO
    if isinstance(path, str | os.PathLike):
        file, *others = _existing(path)
        kind, name = _kind(file), file.name
    else:
        file, others, kind, name = path, [], "text" if key is None else "csv", "the input"
    if kind == "text":
        if key is not None:
            raise ValueError(
                "key must be None for text, where every word is a key (columns are read from files named "
                f".parquet or .csv), got {key!r}"
            )
        return pa.string(), _sliced(_words(file), rows, kind, name)
    with _readable_as(kind, name):
        type_, arrays = (_parquet if kind == "parquet" else _csv)(file, key, rows)
    return type_, chain(_sliced(arrays, rows, kind, name), _alike(others, key, rows, type_, name))


def _alike(
    files: list[Path], key: str | None, rows: int, first: pa.DataType, name: str
) -> Iterator[pa.Array]:
    """The keys of the other files of a folder, which have the type of those of the first."""
    for file in files:
        type_, arrays = _open(file, key, rows)
        if type_ != first:
            raise ValueError(
                f"column {key} must have one type, got {first} in {name} and {type_} in {file.name}"
            )
        yield from arrays


@contextmanager
def _readable_as(kind: str, name: str) -> Iterator[None]:
    """Turn what goes wrong inside into a ValueError that names the file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} cannot be read as {kind}: {str(error).splitlines()[0]}") from error


def _sliced(arrays: Iterator[pa.Array], rows: int, kind: str, name: str) -> Iterator[pa.Array]:
    with _readable_as(kind, name):
        for array in arrays:
            for start in range(0, len(array), rows):
                yield array[start : start + rows]


def _words(file: Path | BinaryIO) -> Iterator[pa.Array]:
    import pyarrow as pa

    decoder = codecs.getincrementaldecoder("utf-8")()
    begun: str | None = ""
    with open(file, "rb") if isinstance(file, Path) else nullcontext(file) as text:
        while begun is not None:
            data = text.read(_TEXT_BYTES)
            block = begun + decoder.decode(data, final=not data)
            words = block.split()
            # the last word may go on in the next block
            begun = None if not data else words.pop() if words and not block[-1].isspace() else ""
            yield pa.array(words, pa.string())


def _check_column(key: str | None, columns: list[str]) -> str:
    if key is None or key not in columns:
        raise ValueError(f"key must be one of the columns {', '.join(columns)}, got {key!r}")
    if columns.count(key) > 1:
        raise ValueError(f"key must be the name of one column, got {key!r}, that of {columns.count(key)}")
    return key


def _parquet(file: Path | BinaryIO, key: str | None, rows: int) -> tuple[pa.DataType, Iterator[pa.Array]]:
    import pyarrow.parquet

    # page by page: read ahead, the column of a whole row group would be in memory
    opened = pyarrow.parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
    key = _check_column(key, opened.schema_arrow.names)
    batches = opened.iter_batches(batch_size=rows, columns=[key])
    return opened.schema_arrow.field(key).type, (batch.column(key) for batch in batches)


def _csv(file: Path | BinaryIO, key: str | None, rows: int) -> tuple[pa.DataType, Iterator[pa.Array]]:
    import pyarrow as pa
    import pyarrow.csv

    whole: Path | BufferedReader
    if isinstance(file, Path):
        whole = file
        with pa.input_stream(file) as opened:
            beginning = opened.read(_CSV_BYTES + 1)
    else:  # it can be read once
        beginning = file.read(_CSV_BYTES + 1)
        whole = BufferedReader(_Begun(beginning, file))
    options = pyarrow.csv.ReadOptions(block_size=_CSV_BYTES)
    with pyarrow.csv.open_csv(BytesIO(beginning), options) as reader:
        key = _check_column(key, reader.schema.names)
        type_ = reader.schema.field(key).type
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
            if "conversion error" not in str(error):
                raise
            text = f"column {key} begins as {type_} and has other values later: {error}"
            raise pa.ArrowInvalid(text) from error

    return type_, arrays()


class _Begun(RawIOBase):
    """A file from its beginning, of which some bytes have been read."""

    def __init__(self, read: bytes, rest: BinaryIO) -> None:
        self._read, self._rest = read, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        some, self._read = self._read[: len(buffer)], self._read[len(buffer) :]
        some = some or self._rest.read(len(buffer))
        buffer[: len(some)] = some
        return len(some)
