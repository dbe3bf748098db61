"""Convert key columns for a router.

The router needs one column whose values are equal where `groupBy` treats the keys as equal. Integers,
strings, binary, booleans, dates, timestamps and decimals are passed unchanged; several columns, and every
other type, are passed as one `xxhash64`. The router treats two keys with the same hash as one key, which can
only move load: results never depend on routing.
"""

from collections.abc import Iterator, Sequence

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from keysplit.spark.jvm import collation_key
from keysplit.spark.names import path_in_sql

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_DIRECT = (
    *_WHOLE,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    StringType,
    TimestampType,
    TimestampNTZType,
)


def refuse_unhashable(names: Sequence[str], types: Sequence[DataType]) -> None:
    """Raise TypeError if Spark has no hash for a key column that is consistent with equality.

    Args:
        names: the key columns.
        types: their Spark types.

    Raises:
        TypeError: if a column holds maps, or collated strings inside another type, which Spark cannot hash.
    """
    for name, type_ in zip(names, types, strict=True):
        for inner in _inner_types(type_):
            if isinstance(inner, MapType):
                raise TypeError(f"key must not hold maps, got {name!r} of type {type_.simpleString()}")
            if type(inner).__name__ in ("GeometryType", "GeographyType", "VariantType"):
                raise TypeError(
                    "key must be of a type that Spark can group by, got "
                    f"{name!r} of type {type_.simpleString()}"
                )
            if _is_collated(inner) and inner is not type_:
                raise TypeError(
                    f"key must not hold collated strings inside, got {name!r} of type {type_.simpleString()}"
                )


def key_column(names: Sequence[str], types: Sequence[DataType]) -> tuple[Column, DataType]:
    """Combine the key columns into one column.

    Keys that are equal in `groupBy` are equal in this column: null is a key, NaN is one key, -0.0 is 0.0, and
    strings follow their collation.

    Args:
        names: the key columns.
        types: their Spark types.

    Returns:
        The column and its type.
    """
    columns = [
        collation_key(F.col(name)) if _is_collated(type_) else F.col(name)
        for name, type_ in zip(names, types, strict=True)
    ]
    if len(names) == 1 and _is_collated(types[0]):
        return columns[0], BinaryType()
    if len(names) == 1 and isinstance(types[0], _DIRECT):
        return columns[0], types[0]
    # xxhash64 skips nulls: without the isNull columns (1, null) and (null, 1) would be one key.
    return F.xxhash64(*(part for column in columns for part in (column, column.isNull()))), LongType()


def key_kinds(types: Sequence[DataType]) -> list[str]:
    """Return a name for the type of each key column; types with the same name hash equal values equally."""
    return ["bigint" if isinstance(type_, _WHOLE) else type_.simpleString() for type_ in types]


def seeded_hash_in_sql(seed: int, columns: Sequence[str]) -> str:
    """Return the same as `seeded_hash`, in SQL."""
    return f"xxhash64({seed - 2**64 if seed >> 63 else seed}L, {', '.join(columns)})"


def seeded_hash(seed: int, columns: Sequence[Column]) -> Column:
    """Return one BIGINT hash of some columns: Spark's `xxhash64` with a seed in 0..=2^64 - 1."""
    signed = seed - 2**64 if seed >> 63 else seed
    return F.xxhash64(F.lit(signed).cast("bigint"), *columns)


def key_hash(names: Sequence[str], types: Sequence[DataType], seed: int) -> Column:
    """Return the BIGINT hash of a key that plans use.

    Keys that are equal in `groupBy` have equal hashes, including integers of different widths.

    Args:
        names: the key columns.
        types: their Spark types.
        seed: in 0..=2^64 - 1.

    Returns:
        The column.
    """
    text = key_hash_in_sql(names, types, seed)
    if text is not None:
        # SQL, as each PySpark function calls the JVM a dozen times
        return F.expr(text)
    columns = [_comparable(name, type_) for name, type_ in zip(names, types, strict=True)]
    if len(columns) > 1:
        # xxhash64 skips nulls: without the isNull columns (1, null) and (null, 1) would be one key.
        columns = [part for column in columns for part in (column, column.isNull())]
    return seeded_hash(seed, columns)


def key_hash_in_sql(names: Sequence[str], types: Sequence[DataType], seed: int) -> str | None:
    """Return the same as `key_hash`, in SQL; None for a collated key, because SQL has no collation keys."""
    if any(_is_collated(type_) for type_ in types):
        return None
    paths = [
        f"CAST({path_in_sql(name)} AS BIGINT)" if isinstance(type_, _WHOLE) else path_in_sql(name)
        for name, type_ in zip(names, types, strict=True)
    ]
    if len(paths) > 1:
        paths = [part for path in paths for part in (path, f"{path} IS NULL")]
    return seeded_hash_in_sql(seed, paths)


def _comparable(name: str, type_: DataType) -> Column:
    if isinstance(type_, _WHOLE):
        return F.col(name).cast("bigint")
    return collation_key(F.col(name)) if _is_collated(type_) else F.col(name)


def pandas_columns(key: Column, type_: DataType) -> list[Column]:
    """Split a key column into columns that survive pandas, which turns integers with nulls into floats.

    Args:
        key: a column made by `key_column`.
        type_: its type.

    Returns:
        The columns that `from_pandas` combines again.
    """
    if isinstance(type_, (*_WHOLE, BooleanType)):
        return [F.coalesce(key.cast("bigint"), F.lit(0)), key.isNull()]
    if isinstance(type_, DateType):
        return [F.coalesce(F.unix_date(key), F.lit(0)), key.isNull()]
    if isinstance(type_, TimestampType):
        return [F.coalesce(F.unix_micros(key), F.lit(0)), key.isNull()]
    if isinstance(type_, TimestampNTZType):
        # Before Spark 4.1 no function returns its microseconds, and pandas has only the years 1678 to 2261.
        return [F.coalesce(F.xxhash64(key), F.lit(0)), key.isNull()]
    return [key]


def from_pandas(columns: Sequence[pd.Series], type_: DataType) -> pa.Array:
    """Combine the columns from `pandas_columns` again.

    Args:
        columns: one batch of these columns.
        type_: the type given to `pandas_columns`.

    Returns:
        The keys for a router.
    """
    if len(columns) == 1:
        arrow_type = {
            StringType: pa.string,
            BinaryType: pa.binary,
            DecimalType: lambda: pa.decimal128(type_.precision, type_.scale),
        }[type(type_)]()
        return pa.Array.from_pandas(columns[0], type=arrow_type)
    values, nulls = columns
    keys = pa.array(values.to_numpy(), mask=nulls.to_numpy())
    return keys.cast(pa.timestamp("us")) if isinstance(type_, TimestampType) else keys


def _inner_types(type_: DataType) -> Iterator[DataType]:
    yield type_
    for field in getattr(type_, "fields", []):
        yield from _inner_types(field.dataType)
    if hasattr(type_, "elementType"):
        yield from _inner_types(type_.elementType)


def _is_collated(type_: DataType) -> bool:
    # Spark 4 introduced collations; StringType() has the default one.
    return isinstance(type_, StringType) and type_ != StringType()
