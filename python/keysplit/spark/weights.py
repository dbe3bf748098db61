"""The weight of a row, including its weight in bytes."""

from collections.abc import Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
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
    MapType,
    NumericType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from keysplit.spark import versions
from keysplit.spark.frame import Columns, analysed
from keysplit.spark.names import in_sql

# The bytes of a value in Spark's rows, without its null bit.
_FIXED = {
    BooleanType: 1,
    ByteType: 1,
    ShortType: 2,
    IntegerType: 4,
    FloatType: 4,
    DateType: 4,
    LongType: 8,
    DoubleType: 8,
    TimestampType: 8,
    TimestampNTZType: 8,
}


def row_bytes(df: DataFrame) -> Column:
    """Return how many bytes the values of a row take, as a DOUBLE: a weight that balances bytes.

    Args:
        df: the DataFrame.

    Returns:
        The sum over all columns: 1 to 16 bytes for numbers, booleans, dates and timestamps, the length of
        strings and binaries, the WKB length of geometries, and the JSON length of arrays, maps, structs and
        all other types. Null is 0 bytes.

    Example:
        >>> plan = kss.plan(df, "word", workers=8, weight=kss.row_bytes(df))  # doctest: +SKIP
    """
    fields = df.schema.fields
    always = sum(fixed_width(field.dataType) or 0 for field in fields if not field.nullable)
    others = [_bytes(field) for field in fields if field.nullable or fixed_width(field.dataType) is None]
    # One SQL text: a separate column for each term would take three calls of the JVM.
    return F.expr(_sum([f"{always}D", *others]))


def weight_of(columns: Columns, weight: Any) -> Column | None:
    """Return the load of a row as a DOUBLE; None if every row weighs 1.

    Args:
        columns: the columns of the rows.
        weight: a numeric column, an expression, "bytes", or None.

    Raises:
        TypeError: if `weight` is none of these, or not numeric.
        ValueError: if `weight` is not one number per row.
    """
    if weight is None:
        return None
    if isinstance(weight, str) and weight == "bytes" and weight not in columns:
        return row_bytes(columns.df)
    if versions.is_column(weight):
        try:
            described, fields = "an expression", columns.df.select(weight).schema.fields
        except AnalysisException as error:
            raise ValueError(
                f"weight must use only columns of df, got {weight}; df has {columns.names}"
            ) from error
        weight_type, column = fields[0].dataType, weight
        try:
            analysed(columns.df.select("*", weight.cast("double")))
        except AnalysisException as error:  # a query would hide them
            raise ValueError(
                f"weight must be one number per row, got {weight}, an aggregate or a generator"
            ) from error
    else:
        weight_type = columns.type_of("weight", weight)
        described, column = repr(weight), F.col(columns.path(weight))
    if not isinstance(weight_type, NumericType):
        raise TypeError(
            f"weight must name a numeric column, got {described} of type {weight_type.simpleString()}"
        )
    return column.cast("double")


def _sum(terms: Sequence[str]) -> str:
    # A chain of sums is as deep as it is long and overflows the stack; a tree has logarithmic depth.
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return f"({_sum(terms[:half])} + {_sum(terms[half:])})"


def _bytes(field: StructField) -> str:
    name, type_ = in_sql(field.name), field.dataType
    width = fixed_width(type_)
    if width is not None:
        return f"if({name} is null, 0D, {width}D)"
    if isinstance(type_, StructType | ArrayType | MapType):
        name = f"to_json({name})"
    elif type_.simpleString().startswith(("geometry", "geography")):  # these have no text
        name = f"st_asbinary({name})"
    elif not isinstance(type_, StringType | BinaryType):
        name = f"cast({name} as string)"
    return f"coalesce(cast(octet_length({name}) as double), 0D)"


def fixed_width(type_: DataType) -> int | None:
    """Return how many bytes every value of a type takes; None if values differ in size."""
    if isinstance(type_, DecimalType):
        return 8 if type_.precision <= 18 else 16
    return _FIXED.get(type(type_))
