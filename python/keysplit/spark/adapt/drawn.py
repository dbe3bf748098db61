"""Rows that a micro-batch draws for the driver, each a text among the metrics of the batch.

As one text they are one column that Spark observes, and one aggregate that is run for every row.

How many rows a batch has is not known before it is read: the first one, or one after an outage, may have any
number. So a row is drawn in two steps. By a chance that is the same for all rows of a batch, it *may* be
drawn. Of those that may, each is drawn by a chance of `Bounds.rows` over its place, which is its number among
those of its task times the number of the task. So n rows in p tasks send at most about
`rows * (1 + log n) * (1 + log p)` to the driver; some `rows` of them where the batch is as large as the one
before. A row that was drawn stands for one over its chance, so estimates are unbiased.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.spark import values
from keysplit.spark.adapt.tables import last_of
from keysplit.spark.counting.by_sample import texts_shown
from keysplit.spark.hashes import plan_hash
from keysplit.spark.options import Request
from keysplit.spark.session import counter, random_number

BETWEEN = ","
"""What stands between the texts of two rows."""

# What stands in place of a null value: no hexadecimal digits.
_NULL = "x"


class Bounds(NamedTuple):
    """How many rows are drawn.

    Attributes:
        rows: the chance of a row that may be drawn is this over its place, 1 at most.
        shown: the chance of a row that was drawn to come along with the values of its key.
    """

    rows: float
    shown: float


class Drawn(NamedTuple):
    """Rows that a micro-batch has drawn.

    Attributes:
        hashes: the hash of the key of each row, int64.
        weights: their weights, float64.
        repeats: how many rows each of them stands for, float64.
        texts: the values of some of these keys, by their hash.
    """

    hashes: np.ndarray
    weights: np.ndarray
    repeats: np.ndarray
    texts: Mapping[int, tuple[str | None, ...]]


def written(request: Request, bounds: Bounds, last: Column) -> Column:
    """Return the text of a row that is drawn, null for others.

    It has the hash of the key, the place of the row, its weight if there are others than 1, and of some rows
    the values of the key.

    Args:
        request: the request.
        bounds: how many rows are drawn.
        last: up to which random BIGINT a row may be drawn.
    """
    count, counted = counter()
    task = F.spark_partition_id() + 1
    number = random_number() * F.lit(2.0**-64) + F.lit(0.5)  # 0 to 1
    is_drawn = (random_number() <= last) & (number * count * task < F.lit(float(bounds.rows)))
    fields = [F.hex(plan_hash(request)), F.hex(counted * task)]
    if request.weight is not None:
        fields.append(F.coalesce(request.weight, F.lit(0.0)).cast("double").cast("string"))
    texts = [F.coalesce(F.hex(text), F.lit(_NULL)) for text in texts_shown(request.keys, request.key_types)]
    fields.append(F.when(random_number() <= last_of(bounds.shown), F.concat_ws(" ", *texts)))
    return F.when(is_drawn, F.concat_ws(" ", *fields))


def read(texts: str, chance: float, bounds: Bounds, types: list[DataType], weighted: bool) -> Drawn:
    """Return the rows that `written` wrote.

    Args:
        texts: their texts.
        chance: the chance by which a row might be drawn.
        bounds: how many were drawn.
        types: the types of the key columns.
        weighted: whether rows have weights.
    """
    rows = [text.split(" ") for text in texts.split(BETWEEN)] if texts else []
    hashes = np.array([int(fields[0], 16) for fields in rows], np.uint64).astype(np.int64)
    places = np.array([int(fields[1], 16) for fields in rows], np.float64)
    first = 3 if weighted else 2
    return Drawn(
        hashes=hashes,
        weights=np.array([float(fields[2]) for fields in rows]) if weighted else np.ones(len(rows)),
        repeats=np.maximum(places / bounds.rows, 1.0) / chance,
        texts={
            hash_: tuple(map(_value, fields[first:], types))
            for hash_, fields in zip(hashes.tolist(), rows, strict=True)
            if len(fields) > first
        },
    )


def _value(written: str, type_: DataType) -> str | None:
    value = values.read(None if written == _NULL else bytes.fromhex(written), type_)
    return None if value is None else str(value)
