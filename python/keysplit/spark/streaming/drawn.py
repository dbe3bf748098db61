"""Rows that a micro-batch draws for the driver, which its tasks send as they end.

How many rows a batch has is not known before it is read: the first one, or one after an outage, may have any
number. So a row is drawn in two steps. By a chance that is the same for all rows of a batch, it *may* be
drawn. Of those that may, each is drawn by a chance of `Bounds.rows` over its place, which is its number among
those of its task times the number of the task. So n rows in p tasks send at most about
`rows * (1 + log n) * (1 + log p)` to the driver; some `rows` of them where the batch is as large as the one
before. A row that was drawn stands for one over its chance, so estimates are unbiased.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.spark import values
from keysplit.spark.counting.by_sample import MOST_BYTES
from keysplit.spark.expr.hashes import plan_hash
from keysplit.spark.request import Request
from keysplit.spark.streaming.tables import last_of
from keysplit.spark.streaming.tally import Sent, Tally, random_number, task_number

MOST_WEIGHT = 1e100
"""The largest weight of a row that a stream learns from: squares of sums of such weights are finite."""

# What stands in place of a null value, and between two values: no hexadecimal digits.
_NULL, _BETWEEN = "x", "_"


class Bounds(NamedTuple):
    """How many rows are drawn.

    Attributes:
        rows: the chance of a row that may be drawn is this over its place, 1 at most.
        shown: the chance of a row that was drawn to come along with the values of its key.
    """

    rows: int
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

    def without_wrong_weights(self) -> "Drawn":
        """Return the rows whose weights can be added up: of one that is NaN all plans would come out so."""
        right = (self.weights >= 0) & (self.weights <= MOST_WEIGHT)
        return self._replace(
            hashes=self.hashes[right], weights=self.weights[right], repeats=self.repeats[right]
        )


def noted(
    request: Request, rows: DataFrame, tally: Tally, counter: Column, bounds: Bounds, last: Column
) -> Column:
    """Count a row and send it if it is drawn; the column is TRUE whatever there is.

    Of a row the hash of its key is sent, its place, its weight if there are others than 1, and of some rows
    the values of the key.

    Args:
        request: the request.
        rows: the rows.
        tally: what counts and sends.
        counter: the number of its counter, INT.
        bounds: how many rows are drawn.
        last: up to which random BIGINT a row may be drawn.
    """
    types = request.key_types
    weights = [] if request.weight is None else [F.coalesce(request.weight.cast("double"), F.lit(0.0))]

    def drawn(known: Sequence[Column]) -> tuple[Column, Sequence[Column]]:
        next_place, place = tally.place((task_number() + 1).cast("bigint"))
        hash_, keys, weight = known[0], known[1 : 1 + len(types)], known[1 + len(types) :]
        texts = [
            F.coalesce(F.hex(_shown(key, type_)), F.lit(_NULL))
            for key, type_ in zip(keys, types, strict=True)
        ]
        shown = F.when(random_number() <= last_of(bounds.shown), F.concat_ws(_BETWEEN, *texts))
        return random_number(below=next_place) < F.lit(bounds.rows), [hash_, place, *weight, shown]

    known = [plan_hash(request), *map(F.col, request.keys), *weights]
    return tally.note(rows, counter, random_number() <= last, known, drawn)


def read(fields: list[str], chance: float, bounds: Bounds, types: list[DataType], weighted: bool) -> Drawn:
    """Return the rows that `noted` has sent.

    Args:
        fields: their fields, one row after the other.
        chance: the chance by which a row might be drawn.
        bounds: how many were drawn.
        types: the types of the key columns.
        weighted: whether rows have weights.
    """
    number = 4 if weighted else 3  # of fields of a row
    hashes, places = np.array(fields[::number], np.int64), np.array(fields[1::number], np.float64)
    return Drawn(
        hashes=hashes,
        weights=np.array(fields[2::number], np.float64) if weighted else np.ones(len(hashes)),
        repeats=np.maximum(places / bounds.rows, 1.0) / chance,
        texts={
            hash_: tuple(map(_value, written.split(_BETWEEN), types))
            for hash_, written in zip(hashes.tolist(), fields[number - 1 :: number], strict=True)
            if written != "null"
        },
    )


class SentByBatch:
    """What tasks have sent, by query and micro-batch: several queries may use one plan.

    Args:
        tally: what they send it by.
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._lock = threading.Lock()
        self._sent: dict[tuple[str, int], list[Sent]] = {}

    def of(self, query: str, number: int) -> list[Sent]:
        """Return what the tasks of a micro-batch that has ended have sent, and forget all until then."""
        with self._lock:
            self._take()
            found = self._sent.pop((query, number), [])
            # where Spark runs a task twice, the slower one may send in a later batch
            self._keep(lambda of, batch: of != query or batch > number)
        return found

    def forget(self, query: str) -> None:
        """Forget what the tasks of a query have sent."""
        with self._lock:
            self._take()
            self._keep(lambda of, _: of != query)

    def _take(self) -> None:
        for each in self._tally.take():
            if each.batch is not None:  # else of a thread of the user that does not say what it belongs to
                self._sent.setdefault((each.query, each.batch), []).append(each)

    def _keep(self, wanted: Callable[[str, int], bool]) -> None:
        self._sent = {place: sent for place, sent in self._sent.items() if wanted(*place)}


def _shown(value: Column, type_: DataType) -> Column:
    """Return the text of a value, BINARY, with one byte more than is shown: it may have megabytes."""
    return F.substring(values.write(values.send(value, type_), type_), 1, MOST_BYTES + 1)


def _value(written: str, type_: DataType) -> str | None:
    if written == _NULL:
        return None
    text = bytes.fromhex(written)
    if len(text) > MOST_BYTES:
        text = text[:MOST_BYTES] + "…".encode()
    value = values.read(text, type_)
    return None if value is None else str(value)
