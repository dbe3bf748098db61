"""The job of the demo: an exact distribution of values per key, computed row by row in Python.

Spark has no partial aggregation for such a job. The distributions of parts of a key's rows add up exactly to
the distribution of all its rows, so a key can be split over workers.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

Histogram = Counter[int | None]
"""How often each value occurs."""


class Part(NamedTuple):
    """One worker's part of a key: the distribution of the key's rows there, and the worker's busy time."""

    key: str
    worker: int
    busy_s: float
    histogram: Histogram

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.histogram.total()


_LIST = pa.list_(pa.int64())
SCHEMA = pa.schema(
    {"key": pa.string(), "worker": pa.int32(), "busy_s": pa.float64(), "values": _LIST, "counts": _LIST}
)
"""The columns of a part."""


def work(
    batches: Iterable[pa.RecordBatch],
    *,
    worker: int,
    service_time_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[pa.RecordBatch]:
    """Do one worker's share: read its rows one by one, and yield its parts in at most one batch.

    A row keeps the worker busy for at least `service_time_s`, including the real work. Waiting for the next
    batch does not count.
    """
    found: dict[str, Histogram] = {}
    busy_s = 0.0
    for batch in batches:
        start = clock()
        for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
            found.setdefault(key, Counter())[value] += 1
        remaining_s = start + batch.num_rows * service_time_s - clock()
        if remaining_s > 0:
            sleep(remaining_s)
        busy_s += clock() - start
    if found:
        parts = [
            {"key": key, "worker": worker, "busy_s": busy_s, "values": list(of), "counts": list(of.values())}
            for key, of in found.items()
        ]
        yield pa.RecordBatch.from_pylist(parts, SCHEMA)


def parts(rows: Iterable[Any]) -> list[Part]:
    """Return the parts as rows with the columns of SCHEMA."""
    return [
        Part(key, worker, busy_s, Counter(dict(zip(values, counts, strict=True))))
        for key, worker, busy_s, values, counts in rows
    ]


def merged(parts: Iterable[Part]) -> dict[str, Histogram]:
    """Return the distribution of each key."""
    found: dict[str, Histogram] = {}
    for part in parts:
        found.setdefault(part.key, Counter()).update(part.histogram)
    return found


def plain(table: pa.Table) -> dict[str, Histogram]:
    """Return the distribution of each key of a stream by PyArrow's own aggregates."""
    found: dict[str, Histogram] = {}
    for row in table.group_by(["key", "value"]).aggregate([([], "count_all")]).to_pylist():
        found.setdefault(row["key"], Counter())[row["value"]] = row["count_all"]
    return found


def quantile(histogram: Histogram, q: float) -> int | None:
    """Return the smallest value that at least a share q of the values do not exceed; None without values."""
    known = sorted(value for value in histogram.elements() if value is not None)
    return known[max(0, math.ceil(q * len(known)) - 1)] if known else None
