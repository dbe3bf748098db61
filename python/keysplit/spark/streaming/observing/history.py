"""The figures of a query's batches, in memory."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from keysplit.spark.streaming.observing.progress import Progress
from keysplit.spark.streaming.observing.record import OF_PLAN, Record

By = Literal["batch", "worker", "key"]
_BATCH = ["batch", "time", "plan", "version"]
_COLUMNS = {
    "batch": [*Progress._fields, "plan", *OF_PLAN],
    "worker": [*_BATCH, "worker", "rows", "busy_s"],
    "key": [*_BATCH, "key", "share", "expected", "workers", "age"],
}
_TYPES = {
    **dict.fromkeys(("time", "watermark"), "datetime64[ns, UTC]"),
    **dict.fromkeys(("plan", "key"), "object"),
    **dict.fromkeys(("batch", "input_rows", "worker", "rows", "age"), "int64"),
    # may be missing
    **dict.fromkeys(("backlog_rows", "version", "workers", "copies"), "Int64"),
    **dict.fromkeys(("state_rows", "state_bytes", "late_rows"), "Int64"),
}
"""The other columns are float64."""


class History:
    """The records of the last batches; several threads may use it.

    Args:
        keep: the number of batches to keep.
    """

    def __init__(self, keep: int) -> None:
        self._lock = threading.Lock()
        self._batches: deque[tuple[Record, ...]] = deque(maxlen=keep)

    @property
    def last(self) -> int:
        """The number of the newest batch; -1 if there is none."""
        with self._lock:
            return self._batches[-1][0].progress.batch if self._batches else -1

    def add(self, records: Sequence[Record]) -> None:
        """Add the records of a batch; there must be at least one record."""
        with self._lock:
            self._batches.append(tuple(records))

    def records(self, after: int = -1) -> list[Record]:
        """Return the records of the batches after a given batch, the oldest first."""
        with self._lock:
            batches = list(self._batches)
        return [each for batch in batches for each in batch if each.progress.batch > after]

    def frame(self, by: By) -> pd.DataFrame:
        """Return the records in the form of `Observer.history`."""
        records = self.records()
        if by == "batch":
            rows = [each.batch_row() for each in records]
        elif by == "worker":
            rows = [row for each in records for row in _workers(each)]
        else:
            rows = [_head(each) | hot for each in records for hot in each.to_dict()["hot"]]
        frame = pd.DataFrame(rows, columns=_COLUMNS[by])
        return frame.astype({name: _TYPES.get(name, "float64") for name in frame})


def _head(record: Record) -> dict[str, object]:
    row = record.batch_row()
    return {name: row[name] for name in _BATCH}


def _workers(record: Record) -> list[dict[str, object]]:
    rows, busy_s, head = record.worker_rows, record.worker_busy_s, _head(record)
    busy_s = np.full(len(rows), np.nan) if busy_s is None else busy_s
    return [
        {**head, "worker": at * record.together, "rows": int(rows[at]), "busy_s": float(busy_s[at])}
        for at in range(len(rows))
    ]
