"""Frames to route: skewed keys of many types, and how to compare results."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import types as T

UTC = dt.UTC

# name -> (Spark type, Arrow type that the router is given outside Spark, some distinct keys, null among them)
DIRECT_KEYS = {
    "tinyint": (T.ByteType(), pa.int8(), [None, -128, 0, 1, 127]),
    "smallint": (T.ShortType(), pa.int16(), [None, -1, 0, 300]),
    "int": (T.IntegerType(), pa.int32(), [None, -(2**31), 0, 1, 2**31 - 1]),
    # 2^53 and 2^53 + 1 are one double: pandas makes doubles of whole numbers with nulls
    "bigint": (T.LongType(), pa.int64(), [None, -(2**63), 0, 2**53, 2**53 + 1, 2**63 - 1]),
    "string": (T.StringType(), pa.string(), [None, "", "a", "A", "ä", "a\0b", "line\nline"]),
    "binary": (T.BinaryType(), pa.binary(), [None, b"", b"a", b"\xff\0"]),
    "boolean": (T.BooleanType(), pa.bool_(), [None, True, False]),
    "date": (T.DateType(), pa.date32(), [None, dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    "timestamp": (
        T.TimestampType(),
        pa.timestamp("us", "UTC"),
        [
            None,
            dt.datetime(1601, 1, 2, 3, 4, 5, 6, UTC),
            dt.datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
            dt.datetime(2400, 1, 1, tzinfo=UTC),
        ],
    ),
    "decimal": (
        T.DecimalType(20, 2),
        pa.decimal128(20, 2),
        [None, Decimal("0.00"), Decimal("-1.50"), Decimal("3.00"), Decimal("123456789012345678.99")],
    ),
}

# Keys that go to the router as one xxhash64.
HASHED_KEYS = {
    "double": (T.DoubleType(), [None, 0.0, -0.0, 1.5, float("nan"), float("inf")]),
    "float": (T.FloatType(), [None, 0.0, -0.0, 1.5, float("nan")]),
    "struct": (
        T.StructType([T.StructField("a", T.IntegerType()), T.StructField("b", T.StringType())]),
        [None, (1, "x"), (1, None), (None, "x"), (None, None)],
    ),
    "array": (T.ArrayType(T.IntegerType()), [None, [], [1], [1, None], [None, 1]]),
    "timestamp_ntz": (
        T.TimestampNTZType(),
        [None, dt.datetime(1601, 1, 2), dt.datetime(2024, 3, 31, 2, 30), dt.datetime(2400, 1, 1)],
    ),
    "interval": (T.DayTimeIntervalType(), [None, dt.timedelta(0), dt.timedelta(days=-1, microseconds=1)]),
}

KEYS = {name: (type_, keys) for name, (type_, _, keys) in DIRECT_KEYS.items()} | HASHED_KEYS
USUAL = ("array", "bigint", "decimal", "string", "timestamp")
"""A type of each way to hash a key."""


def skewed(keys, rows):
    """Return so many keys in a mixed order: the first one half of the time, the next a quarter, and so on."""
    drawn = []
    for place in range(rows):
        rank = 0
        while rank < len(keys) - 1 and (place * 2654435761 >> (7 + rank)) % 2:
            rank += 1
        drawn.append(keys[rank])
    return drawn


def frame(spark, type_, keys, partitions=3):
    """Make a frame of a key column, a bigint, a decimal and a string, in 2 or 3 partitions."""
    schema = T.StructType(
        [
            T.StructField("key", type_),
            T.StructField("v", T.LongType()),
            T.StructField("d", T.DecimalType(12, 2)),
            T.StructField("s", T.StringType()),
        ]
    )
    rows = [
        (
            key,
            None if i % 7 == 3 else (i * 37) % 101 - 50,
            None if i % 5 == 4 else Decimal(i * 13 % 97) / 100,
            None if i % 11 == 0 else f"s{i % 6}",
        )
        for i, key in enumerate(keys)
    ]
    # a list gets the two partitions of local[2], and only lists are known to be steady, not RDDs
    cut = len(rows) if partitions == 2 else len(rows) * 2 // 3
    first = spark.createDataFrame(rows[:cut], schema)
    return first if partitions == 2 else first.union(spark.createDataFrame(rows[cut:], schema).coalesce(1))


class Collected:
    """The rows of a DataFrame, computed once for all results that are compared with them."""

    def __init__(self, df):
        self.schema, self._rows = df.schema, df.collect()

    def collect(self):
        return self._rows


def same_rows(left, right):
    """Say whether two results have the same columns and types in one order, and the same rows in any."""
    return left.schema == right.schema and sorted(map(repr, left.collect())) == sorted(
        map(repr, right.collect())
    )
