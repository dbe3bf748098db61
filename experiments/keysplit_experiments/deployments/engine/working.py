"""What a worker does: it sleeps for its messages, counts their keys, and reports when."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import BarrierTaskContext, TaskContext

REPORT = (
    "worker int, began double, ended double, messages int, tags array<double>, keys array<string>, "
    "counts array<bigint>"
)
"""The schema of a report."""

_NO_KEYS, _NO_COUNTS = pa.array([], pa.string()), pa.array([], pa.int64())

START_S = 1.0
"""How long after the last worker is ready all start, so that each knows of it in time."""

_ARROW = pa.schema(
    [
        ("worker", pa.int32()),
        ("began", pa.float64()),
        ("ended", pa.float64()),
        ("messages", pa.int32()),
        ("tags", pa.list_(pa.float64())),
        ("keys", pa.list_(pa.string())),
        ("counts", pa.list_(pa.int64())),
    ]
)


@dataclass(frozen=True)
class Working:
    """The work of all workers, as a function for `mapInArrow`; a worker is the partition with its number.

    A worker reports once when it starts, with no messages, and then for each Arrow batch: when it began and
    ended, a number of each message, and how often each key occurs, which is its partial result.

    Args:
        key: Column of the keys.
        service_time_s: Seconds that a message takes a worker of speed 1.
        speeds: Relative speed of each worker; empty if all are 1.
        tag: Column of numbers to report of each message, its time of arrival or its position; None for none.
        together: Whether workers wait for each other, and start at the same time. It takes a barrier stage.
    """

    key: str
    service_time_s: float
    speeds: tuple[float, ...] = ()
    tag: str | None = None
    together: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work on a worker's messages."""
        worker = TaskContext.get().partitionId()
        each_s = self.service_time_s / (self.speeds[worker] if self.speeds else 1.0)
        batch = next(batches, None)  # before the others are waited for: reading the shuffle is no work
        if self.together:
            times = BarrierTaskContext.get().allGather(repr(time.time()))
            time.sleep(max(0.0, max(map(float, times)) + START_S - time.time()))
        began = time.time()
        yield _report(worker, began, began, 0)
        while batch is not None:
            began = time.time()
            time.sleep(batch.num_rows * each_s)
            ended = time.time()
            counted = pc.value_counts(batch[self.key].cast(pa.string()))
            tags = None if self.tag is None else batch[self.tag]
            yield _report(worker, began, ended, batch.num_rows, tags, *counted.flatten())
            batch = next(batches, None)


def _report(
    worker: int,
    began: float,
    ended: float,
    messages: int,
    tags: pa.Array | None = None,
    keys: pa.Array = _NO_KEYS,
    counts: pa.Array = _NO_COUNTS,
) -> pa.RecordBatch:
    numbers = [pa.array([each]) for each in (worker, began, ended, messages)]
    columns = [*numbers, *map(_in_list, (tags, keys, counts))]
    cast = [column.cast(field.type) for column, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(cast, schema=_ARROW)


def _in_list(values: pa.Array | None) -> pa.Array:
    """Return a list of these values as the only row, null without them."""
    return pa.nulls(1) if values is None else pa.ListArray.from_arrays([0, len(values)], values)
