"""The job of the demo: an exact distribution of values per key, and its cost per worker.

Spark has no partial step for such a job: the rows go through Python one by one. Two partial answers for one
key add up exactly to the answer for all their rows. So a key can be split over workers.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from keysplit import hash_keys

MASK = 2**64 - 1


@dataclass
class Answer:
    """The answer for one key: the exact distribution of its values, and a fingerprint of its rows.

    The fingerprint is the sum, modulo 2^64, of the hashes of the rows' positions: it does not depend on their
    order, and a lost or repeated row changes it.

    Guarantees: `a.add(b)` is the answer for the rows of both, whatever the order.
    """

    first: int = MASK >> 1
    rows: int = 0
    fingerprint: int = 0
    histogram: Counter[int | None] = field(default_factory=Counter)
    served: list[tuple[int, int, float]] = field(default_factory=list)
    """Worker, rows of this key that it served, total busy time of that worker in seconds."""

    def add(self, other: "Answer") -> None:
        """Add the answer for other rows of the same key."""
        self.first = min(self.first, other.first)
        self.rows += other.rows
        self.fingerprint = (self.fingerprint + other.fingerprint) & MASK
        self.histogram.update(other.histogram)
        self.served += other.served

    @property
    def result(self) -> tuple[int, int, int, Counter[int | None]]:
        """The answer without its workers: equal for equal rows and equal distributions."""
        return self.first, self.rows, self.fingerprint, self.histogram

    @property
    def values(self) -> int:
        """Number of rows that have a value."""
        return self.rows - self.histogram[None]

    @property
    def mean(self) -> float | None:
        """Mean of the values; None when there is none."""
        total = sum(value * count for value, count in self.histogram.items() if value is not None)
        return total / self.values if self.values else None

    def quantile(self, q: float) -> int | None:
        """The smallest value that at least a share q of the values do not exceed; None when there is none."""
        seen = 0
        for value, count in sorted((v, c) for v, c in self.histogram.items() if v is not None):
            seen += count
            if seen >= q * self.values:
                return value
        return None


ANSWER_FIELDS = pa.schema(
    [
        ("first", pa.int64()),
        ("rows", pa.int64()),
        ("fingerprint", pa.int64()),
        ("histogram_values", pa.list_(pa.int64())),
        ("histogram_counts", pa.list_(pa.int64())),
        ("workers", pa.list_(pa.int32())),
        ("worker_rows", pa.list_(pa.int64())),
        ("worker_busy_s", pa.list_(pa.float64())),
    ]
)


def to_arrow(answers: dict[Any, Answer], key_type: pa.DataType) -> pa.RecordBatch:
    """Return answers as a batch with the column `key` and those of ANSWER_FIELDS, one row per key."""
    found = list(answers.values())
    columns: list[Any] = [
        [a.first for a in found],
        [a.rows for a in found],
        [a.fingerprint - 2**64 if a.fingerprint >> 63 else a.fingerprint for a in found],
        [list(a.histogram) for a in found],
        [list(a.histogram.values()) for a in found],
        *([[entry[i] for entry in a.served] for a in found] for i in range(3)),
    ]
    arrays = [pa.array(list(answers), key_type)]
    arrays += [pa.array(column, kind) for column, kind in zip(columns, ANSWER_FIELDS.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, ["key", *ANSWER_FIELDS.names])


def from_rows(rows: Iterable[Any]) -> list[Answer]:
    """Return the answers in rows that have the names of ANSWER_FIELDS: the inverse of `to_arrow`."""
    return [
        Answer(
            row["first"],
            row["rows"],
            row["fingerprint"] & MASK,
            Counter(dict(zip(row["histogram_values"], row["histogram_counts"], strict=True))),
            list(zip(row["workers"], row["worker_rows"], row["worker_busy_s"], strict=True)),
        )
        for row in rows
    ]


def work(
    batches: Iterable[pa.RecordBatch],
    *,
    worker: int,
    service_time_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[pa.RecordBatch]:
    """Do one worker's share: read its rows one by one and yield its answer for each of its keys.

    Guarantees: a batch of n rows keeps the worker busy for at least n times `service_time_s`; time spent
    waiting for the next batch does not count.

    Args:
        batches: rows with the columns `key`, `value` and `position`.
        worker: this worker's number.
        service_time_s: emulated service time per row in seconds, including the real work; 0 emulates nothing.
        clock: returns seconds.
        sleep: waits for seconds.

    Returns:
        Iterator over at most one batch: `key` and ANSWER_FIELDS.
    """
    answers: dict[Any, Answer] = {}
    busy_s = 0.0
    key_type = None
    for batch in batches:
        start = clock()
        key_type = batch.schema.field("key").type
        columns = [batch.column(name).to_pylist() for name in ("key", "value", "position")]
        prints = hash_keys(batch.column("position")).tolist()
        for key, value, position, fingerprint in zip(*columns, prints, strict=True):
            answer = answers.get(key)
            if answer is None:
                answer = answers[key] = Answer()
            answer.first = min(answer.first, position)
            answer.rows += 1
            answer.fingerprint += fingerprint
            answer.histogram[value] += 1
        remaining = start + batch.num_rows * service_time_s - clock()
        if remaining > 0:
            sleep(remaining)
        busy_s += clock() - start
    if key_type is None or not answers:
        return
    for answer in answers.values():
        answer.fingerprint &= MASK
        answer.served = [(worker, answer.rows, busy_s)]
    yield to_arrow(answers, key_type)


def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up the answers that workers gave for the same key.

    Args:
        batches: batches as `work` yields them, all answers for a key among them.

    Returns:
        Iterator over at most one batch of the same form, one row per key.
    """
    answers: dict[Any, Answer] = {}
    key_type = None
    for batch in batches:
        key_type = batch.schema.field("key").type
        for key, part in zip(batch.column("key").to_pylist(), from_rows(batch.to_pylist()), strict=True):
            if key in answers:
                answers[key].add(part)
            else:
                answers[key] = part
    if key_type is not None and answers:
        yield to_arrow(answers, key_type)


def plain(table: pa.Table) -> list[Answer]:
    """Return the answers for a whole stream, in order of first arrival, without Spark, with NumPy alone.

    Guarantees: shares with `work` nothing but the fingerprint of a row, so that each checks the other.

    Args:
        table: columns `key`, `value` and `position`, the last counting from 0.

    Returns:
        One answer per key, without workers.
    """
    keys, _ = _numbered(table["key"])
    values, names = _numbered(table["value"])
    _, first = np.unique(keys, return_index=True)
    rows = np.bincount(keys)
    prints = np.zeros(len(first), np.uint64)
    np.add.at(prints, keys, hash_keys(table["position"]))
    pairs, counts = np.unique(keys * len(names) + values, return_counts=True)
    answers = [Answer(*entry) for entry in zip(first.tolist(), rows.tolist(), prints.tolist(), strict=True)]
    for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
        answers[pair // len(names)].histogram[names[pair % len(names)]] = count
    return answers


def _numbered(column: pa.ChunkedArray) -> tuple[np.ndarray, list[Any]]:
    """Number the distinct values of a column, null too, by first arrival: (a number per row, the values)."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()


def differences(expected: list[Answer], found: list[Answer]) -> list[int]:
    """Return the first positions of the keys whose answers are not the same in both, in ascending order.

    A key that is missing from one of them, or occurs twice in one, is among them.
    """
    wrong = {a.first for a in expected} ^ {a.first for a in found}
    by_first = {a.first: a for a in expected}
    wrong |= {a.first for a in found if a.first in by_first and a.result != by_first[a.first].result}
    counts = Counter(a.first for a in expected) + Counter(a.first for a in found)
    return sorted(wrong | {first for first, count in counts.items() if count > 2})
