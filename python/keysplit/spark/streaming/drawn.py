"""Rows that a micro-batch draws for the driver; each task sends its drawn rows when it ends.

The size of a batch is unknown before the batch is read: the first batch, or a batch after an outage, may have
any size. So a row is drawn in two steps. First the row becomes a candidate, with the same chance for all rows
of a batch. Then a candidate is drawn with a chance of `Bounds.rows` / place; the place is its number among
its task's candidates times the task's number. So n rows in p tasks send at most about `rows * (1 + log n) *
(1 + log p)` rows to the driver, and about `rows` if the batch is as large as the previous batch. A drawn row
stands for 1/chance rows, so estimates are unbiased.
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
"""The largest row weight from which a stream learns; squared sums of such weights stay finite."""

# Characters for a null value, and between two values: not hexadecimal digits.
_NULL, _BETWEEN = "x", "_"


class Bounds(NamedTuple):
    """How many rows are drawn.

    Attributes:
        rows: a candidate's chance is `rows` / place, at most 1.
        shown: the chance that a drawn row includes the values of its key.
    """

    rows: int
    shown: float


class Drawn(NamedTuple):
    """The drawn rows of a micro-batch.

    Attributes:
        hashes: the hash of the key of each row, int64.
        weights: the weight of each row, float64.
        repeats: how many rows each drawn row stands for, float64.
        texts: the values of some of the keys, by hash.
    """

    hashes: np.ndarray
    weights: np.ndarray
    repeats: np.ndarray
    texts: Mapping[int, tuple[str | None, ...]]

    def without_wrong_weights(self) -> "Drawn":
        """Return the rows with valid weights: a single NaN would spoil all plans."""
        right = (self.weights >= 0) & (self.weights <= MOST_WEIGHT)
        return self._replace(
            hashes=self.hashes[right], weights=self.weights[right], repeats=self.repeats[right]
        )


def noted(
    request: Request, rows: DataFrame, tally: Tally, counter: Column, bounds: Bounds, last: Column
) -> Column:
    """Count a row, and send the row if it is drawn; the column is always TRUE.

    A task sends a row's key hash, place, and weight if weights differ from 1, and for some rows the key.

    Args:
        request: the request.
        rows: the rows.
        tally: counts and sends.
        counter: the number of the row's counter, INT.
        bounds: how many rows are drawn.
        last: the largest random BIGINT with which a row is a candidate.
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
        fields: the fields of the rows, one row after another.
        chance: the chance with which a row was a candidate.
        bounds: how many rows were drawn.
        types: the types of the key columns.
        weighted: whether rows have weights.
    """
    number = 4 if weighted else 3  # fields per row
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
    """The rows that tasks have sent, by query and micro-batch: several queries may use one plan.

    Args:
        tally: the tally with which the tasks send rows.
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._lock = threading.Lock()
        self._sent: dict[tuple[str, int], list[Sent]] = {}

    def of(self, query: str, number: int) -> list[Sent]:
        """Return the rows sent by a finished micro-batch's tasks; forget these and older rows."""
        with self._lock:
            self._take()
            found = self._sent.pop((query, number), [])
            # if Spark runs a task twice, the slower one may send in a later batch
            self._keep(lambda of, batch: of != query or batch > number)
        return found

    def forget(self, query: str) -> None:
        """Forget the rows that the tasks of a query have sent."""
        with self._lock:
            self._take()
            self._keep(lambda of, _: of != query)

    def _take(self) -> None:
        for each in self._tally.take():
            if each.batch is not None:  # otherwise from a user's thread without the query's properties
                self._sent.setdefault((each.query, each.batch), []).append(each)

    def _keep(self, wanted: Callable[[str, int], bool]) -> None:
        self._sent = {place: sent for place, sent in self._sent.items() if wanted(*place)}


def _shown(value: Column, type_: DataType) -> Column:
    """Return a value's text as BINARY, truncated to one byte more than is shown: it may have megabytes."""
    return F.substring(values.write(values.send(value, type_), type_), 1, MOST_BYTES + 1)


def _value(written: str, type_: DataType) -> str | None:
    if written == _NULL:
        return None
    text = bytes.fromhex(written)
    if len(text) > MOST_BYTES:
        text = text[:MOST_BYTES] + "…".encode()
    value = values.read(text, type_)
    return None if value is None else str(value)
