"""Streams of keys: the papers' synthetic ones, and files."""

from __future__ import annotations

from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

if TYPE_CHECKING:
    import os

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
    if isinstance(exponent, bool) or not isinstance(exponent, int | float | np.number):
        raise TypeError(f"exponent must be a number of at least 0, got {exponent!r}")
    if not 0 <= exponent < np.inf:
        raise ValueError(f"exponent must be finite and at least 0, got {exponent!r}")
    for name, value, least in (("keys", keys, 1), ("messages", messages, 0), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise TypeError(f"{name} must be an integer of at least {least}, got {value!r}")
        if index(value) < least:
            raise ValueError(f"{name} must be at least {least}, got {value!r}")
    cumulated = np.cumsum(np.arange(1, keys + 1, dtype=np.float64) ** -float(exponent))
    cumulated /= cumulated[-1]
    generator = np.random.Generator(np.random.PCG64(seed))
    stream = np.empty(messages, dtype=np.int64)
    for start in range(0, messages, BLOCK):
        block = stream[start : start + BLOCK]
        block[:] = np.searchsorted(cumulated, generator.random(len(block)), side="right")
    return stream


def read(path: str | os.PathLike[str], key: str | None = None) -> pa.ChunkedArray:
    """Read the keys of a file, in the order of its rows.

    Args:
        path: A file ending in ``.parquet``, ``.csv`` (also compressed, e.g. ``.csv.gz``), or any other name
            for text in UTF-8, where every word is a key.
        key: The column that holds the keys; only it is read. Not for text. A CSV column gets the type that
            its values look like: ``007`` and ``7`` are one key.

    Returns:
        The keys as a pyarrow ChunkedArray, which routers take as it is.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the column is missing (the message lists the columns) or not given, or the file cannot
            be read as what its name says.

    Example:
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "words.txt"
        >>> _ = file.write_text("to be or not to be")
        >>> read(file).to_pylist()
        ['to', 'be', 'or', 'not', 'to', 'be']
    """
    import pyarrow as pa

    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"path must be a file, got {str(file)!r}")
    suffixes = {suffix.lower() for suffix in file.suffixes}
    kind = "parquet" if ".parquet" in suffixes else "csv" if ".csv" in suffixes else "text"
    if kind == "text" and key is not None:
        raise ValueError(f"key must be None for text, where every word is a key, got {key!r}")
    try:
        if kind == "text":
            return pa.chunked_array([pa.array(file.read_text(encoding="utf-8").split(), pa.string())])
        columns = _columns(file, kind)
        if key not in columns:
            raise ValueError(f"key must be one of the columns {', '.join(columns)}, got {key!r}")
        return _column(file, kind, key)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file.name} cannot be read as {kind}: {str(error).splitlines()[0]}") from error


def _columns(file: Path, kind: str) -> list[str]:
    import pyarrow.csv
    import pyarrow.parquet

    if kind == "parquet":
        return list(pyarrow.parquet.read_schema(file).names)
    with pyarrow.csv.open_csv(file) as reader:
        return list(reader.schema.names)


def _column(file: Path, kind: str, key: str) -> pa.ChunkedArray:
    import pyarrow.csv
    import pyarrow.parquet

    if kind == "parquet":
        return pyarrow.parquet.read_table(file, columns=[key]).column(0)
    return pyarrow.csv.read_csv(
        file, convert_options=pyarrow.csv.ConvertOptions(include_columns=[key])
    ).column(0)
