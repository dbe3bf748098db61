"""Key values on their way through Python and back.

pandas takes null and NaN for one, confuses the two hours where a clock is set back, and turns arrays of whole
numbers with nulls into floats. Keys of such types travel as text that the JVM writes and reads.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

# A value of these comes back from pandas as it went, when its column holds no other: all rows of a group have
# one key.
_STEADY = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
)


def is_steady(type_: DataType) -> bool:
    """Say whether keys of a type travel as they are."""
    return isinstance(type_, _STEADY) or type_ == StringType()


def text(column: Column, type_: DataType) -> Column:
    """Return keys as text: equal where `groupBy` finds them equal, but for collated strings; null if null."""
    if not isinstance(type_, ArrayType | StructType):
        return _text(column, type_)
    return F.when(column.isNotNull(), F.to_json(F.struct(_text(column, type_).alias("key"))))


def value(column: Column, type_: DataType) -> Column:
    """Return the keys that `text` wrote."""
    if not isinstance(type_, ArrayType | StructType):
        return _value(column, type_)
    schema = StructType([StructField("key", _text_type(type_))])
    # the schema as text, as Spark Connect takes no other before Spark 4
    return _value(F.from_json(column, schema.json()).getField("key"), type_)


def _text(column: Column, type_: DataType) -> Column:
    if isinstance(type_, StructType):
        fields = [
            _text(column.getField(field.name), field.dataType).alias(f"_{at}")
            for at, field in enumerate(type_.fields)
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(type_, ArrayType):
        element = type_.elementType
        return F.transform(column, lambda each: _text(each, element))
    if isinstance(type_, BinaryType):
        return F.hex(column)
    if isinstance(type_, FloatType | DoubleType):
        column = column + F.lit(0.0)  # of -0.0 it makes 0.0
    if isinstance(type_, TimestampType):
        column = F.unix_micros(column)
    return column.cast("string")


def _value(column: Column, type_: DataType) -> Column:
    if isinstance(type_, StructType):
        fields = [
            _value(column.getField(f"_{at}"), field.dataType).alias(field.name)
            for at, field in enumerate(type_.fields)
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(type_, ArrayType):
        element = type_.elementType
        return F.transform(column, lambda each: _value(each, element))
    if isinstance(type_, BinaryType):
        return F.unhex(column)
    if isinstance(type_, TimestampType):
        return F.timestamp_micros(column.cast("bigint"))
    return column.cast(type_)


def _text_type(type_: DataType) -> DataType:
    if isinstance(type_, StructType):
        return StructType(
            [StructField(f"_{at}", _text_type(field.dataType)) for at, field in enumerate(type_.fields)]
        )
    if isinstance(type_, ArrayType):
        return ArrayType(_text_type(type_.elementType))
    return StringType()
