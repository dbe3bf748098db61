"""A plan in Rust over Arrow: only two hashes a row leave the JVM."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
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
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from keysplit.plan import Plan, Tables
from keysplit.spark.engine import columns
from keysplit.spark.session import versions
from keysplit.spark.session.executors import set_aside_once


def with_worker(
    df: DataFrame, plan: Plan, key: str | Column, row: str | None, worker_column: str
) -> DataFrame:
    """Add the worker of each row; arguments and result are those of `columns.with_worker`.

    Where a column is of a type that Spark may not carry past a function over Arrow, `columns` does it.
    """
    if not all(_passes(field.dataType) for field in df.schema):
        return columns.with_worker(df, plan, key, row, worker_column)
    key = F.expr(key) if isinstance(key, str) else key
    worker = _arrow_worker if versions.has_arrow_udf() else _pandas_worker
    found = worker(plan.tables, [key] if row is None else [key, F.expr(row)])
    return df.select("*", F.coalesce(found, F.lit(0)).alias(worker_column))


# Above a columnar source Spark 4.3 moves the other columns in batches. It knows these types only, and no
# collated strings, for instance.
_PASSING = (
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


def _passes(type_: DataType) -> bool:
    if isinstance(type_, StructType):
        return all(_passes(field.dataType) for field in type_)
    if isinstance(type_, ArrayType):
        return _passes(type_.elementType)
    if isinstance(type_, MapType):
        return _passes(type_.keyType) and _passes(type_.valueType)
    return isinstance(type_, _PASSING) or type_ == StringType()


# The tables are built once a task, inside the iterator. The worker is a function of its arguments, so Spark
# may evaluate it as often as it likes.


def _arrow_worker(tables: Tables, hashes: list[Column]) -> Column:
    def keysplit_route(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        set_aside_once()
        plan = tables.in_rust()
        for batch in batches:
            columns = batch if isinstance(batch, tuple) else (batch,)
            workers = plan.route(*(column.to_numpy() for column in columns))
            yield pa.array(workers.view(np.int32))

    return F.arrow_udf(keysplit_route, IntegerType())(*hashes)


def _pandas_worker(tables: Tables, hashes: list[Column]) -> Column:
    def keysplit_route(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.Series]:
        set_aside_once()
        plan = tables.in_rust()
        for batch in batches:
            columns = batch if isinstance(batch, tuple) else (batch,)
            workers = plan.route(*(column.to_numpy() for column in columns))
            yield pd.Series(workers.view(np.int32))

    return F.pandas_udf(keysplit_route, IntegerType())(*hashes)
