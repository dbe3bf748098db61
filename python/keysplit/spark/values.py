"""Send key values to the driver unchanged.

Spark has dates in the years 0 and 10,000, NaN, strings that are not UTF-8, and intervals of months. Python
has no objects for some of these values, so a conversion fails or changes the value. So the JVM writes a key
as text, and Python converts the text to an object if there is a suitable one.
"""

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from keysplit.spark.apply import carry

# Arrow preserves every value of these types. All others are sent as text.
_IN_ARROW = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    TimestampNTZType,
    TimestampType,
)
_READ: dict[str, Callable[[str], Any]] = {
    "BinaryType": bytes.fromhex,
    "BooleanType": lambda text: text == "true",
    "ByteType": int,
    "DateType": dt.date.fromisoformat,
    "DecimalType": Decimal,
    "DoubleType": float,
    "FloatType": float,
    "IntegerType": int,
    "LongType": int,
    "ShortType": int,
    "TimeType": dt.time.fromisoformat,
    "TimestampNTZType": dt.datetime.fromisoformat,
}
# Microseconds of an interval's last field, which is Spark's unit in a cast to a number.
_INTERVAL_UNITS = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000)


def send(column: Column, type_: DataType) -> Column:
    """Return key values in a form that Arrow preserves to the bit: unchanged, or as text."""
    return column if _is_in_arrow(type_) else _text(column, type_)


def write(column: Column, type_: DataType) -> Column:
    """Return sent values of a type as text for `read`: UTF-8 as BINARY; null stays null."""
    return _text(column, type_) if _is_in_arrow(type_) else column


def read(text: bytes | None, type_: DataType) -> Any:
    """Return the Python object for a text made by `write`, or Spark's own text if Python has no such object.

    Args:
        text: the UTF-8 of the text.
        type_: the type of the value.

    Returns:
        The object that `collect()` returns for such a value, if `collect()` supports the value.
    """
    if text is None:
        return None
    written = bytes(text).decode("utf-8", errors="replace")
    if isinstance(type_, ArrayType | StructType):
        try:
            return _nested(json.loads(written).get("key"), type_)
        except ValueError:  # the text was truncated
            return written
    return written if isinstance(type_, StringType) else _value(written, type_)


def _is_in_arrow(type_: DataType) -> bool:
    return isinstance(type_, _IN_ARROW) or type_ == StringType()


def _text(column: Column, type_: DataType) -> Column:
    return carry.write(column, type_, _leaf).cast("binary")


def _leaf(column: Column, type_: DataType) -> Column:
    if isinstance(type_, TimestampType):
        # A Python object needs the instant, a readable text the session's time zone.
        return F.concat(F.unix_micros(column).cast("string"), F.lit(" "), column.cast("string"))
    if isinstance(type_, DayTimeIntervalType):
        return column.cast("decimal(20, 6)").cast("string")
    return carry.write_leaf(column, type_)


def _nested(written: Any, type_: DataType) -> Any:
    if written is None:
        return None
    if isinstance(type_, ArrayType):
        return [_nested(each, type_.elementType) for each in written]
    if isinstance(type_, StructType):
        # to_json leaves out nulls
        inner = [_nested(written.get(f"_{at}"), field.dataType) for at, field in enumerate(type_.fields)]
        return Row(*type_.names)(*inner)
    if isinstance(type_, StringType):
        return bytes.fromhex(written).decode("utf-8", errors="replace")
    return _value(written, type_)


def _value(written: str, type_: DataType) -> Any:
    if isinstance(type_, DayTimeIntervalType):
        return dt.timedelta(microseconds=int(Decimal(written) * _INTERVAL_UNITS[type_.endField]))
    shown = written
    try:
        if isinstance(type_, TimestampType):
            micros, shown = written.split(" ", 1)
            return type_.fromInternal(int(micros))
        return _READ[type(type_).__name__](written)
    except (KeyError, OSError, OverflowError, ValueError):
        return shown
