"""Orders of all types, drawn by hypothesis, with rows to sort."""

import datetime as dt
from decimal import Decimal

from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql import types as T

TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))
FLOATS = st.sampled_from([0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5, -2.5])
ORDERS = {
    "bigint": (T.LongType(), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)),
    "tinyint": (T.ByteType(), st.integers(-128, 127)),
    "double": (T.DoubleType(), FLOATS | st.floats(width=64)),
    "float": (T.FloatType(), FLOATS | st.floats(width=32)),
    "decimal": (T.DecimalType(38, 18), st.decimals(-10, 10, places=18)),
    "string": (T.StringType(), st.text(max_size=3) | st.sampled_from(["", "'", "a\0", "\\", "ä"])),
    "binary": (T.BinaryType(), st.binary(max_size=2).map(bytearray)),
    "boolean": (T.BooleanType(), st.booleans()),
    "date": (T.DateType(), TIMES.map(dt.datetime.date)),
    "timestamp": (T.TimestampType(), TIMES.map(lambda time: time.replace(tzinfo=dt.UTC))),
    "timestamp_ntz": (T.TimestampNTZType(), TIMES),
}


def drawn_frame(spark, name, data):
    """Draw rows with a key `k` and an order `o` of a type; `id` differs in each row."""
    type_, values = ORDERS[name]
    drawn = data.draw(st.lists(st.none() | values, min_size=1, max_size=60))
    keys = data.draw(st.lists(st.sampled_from([1, 1, 1, 2, None]), min_size=1, max_size=9))
    made = [(at, keys[at % len(keys)], value, Decimal(at % 7) / 3) for at, value in enumerate(drawn)]
    schema = (
        T.StructType().add("id", "long").add("k", "integer").add("o", type_).add("d", T.DecimalType(38, 10))
    )
    return spark.createDataFrame(made, schema).coalesce(2)


def drawn_sorts(name, data):
    """Draw a direction of a column, and where its nulls are."""
    ways = [f"{way}_nulls_{nulls}" for way in ("asc", "desc") for nulls in ("first", "last")]
    return getattr(F.col(name), data.draw(st.sampled_from(ways)))()
