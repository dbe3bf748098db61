"""Keys as text, written by the JVM.

pandas treats null and NaN as equal, confuses the two hours when a clock is set back, and turns integer arrays
with nulls into floats. Keys of such types are sent as text.
"""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    FloatType,
    StringType,
    StructType,
    TimestampType,
)


def text(column: Column, type_: DataType) -> Column:
    """Return keys as text; null stays null. Keys equal in `groupBy` have equal texts, unless collated."""
    return write(column, type_, write_leaf)


def write(column: Column, type_: DataType, leaf: Callable[[Column, DataType], Column]) -> Column:
    """Return values as text: arrays and structs as JSON of the texts of their elements.

    Args:
        column: the values.
        type_: their type.
        leaf: writes all other values. A string inside an array or struct is written here, as hexadecimal
            bytes: JSON is UTF-8, and Spark's strings need not be.

    Returns:
        A string column, null where the value is null.
    """
    if not isinstance(type_, ArrayType | StructType):
        return leaf(column, type_)
    return F.when(column.isNotNull(), F.to_json(F.struct(_inside(column, type_, leaf).alias("key"))))


def write_leaf(column: Column, type_: DataType) -> Column:
    """Return values as text; their type is neither array nor struct."""
    if isinstance(type_, BinaryType):
        return F.hex(column)
    if isinstance(type_, FloatType | DoubleType):
        column = column + F.lit(0.0)  # turns -0.0 into 0.0
    if isinstance(type_, TimestampType):
        column = F.unix_micros(column)
    return column.cast("string")


def _inside(column: Column, type_: DataType, leaf: Callable[[Column, DataType], Column]) -> Column:
    if isinstance(type_, StructType):
        fields = [
            _inside(column.getField(field.name), field.dataType, leaf).alias(f"_{at}")
            for at, field in enumerate(type_.fields)
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(type_, ArrayType):
        element = type_.elementType
        return F.transform(column, lambda each: _inside(each, element, leaf))
    return F.hex(column.cast("binary")) if isinstance(type_, StringType) else leaf(column, type_)
