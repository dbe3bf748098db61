"""The log of an observer: a folder of Parquet files."""

import io
import os
import re
from collections import deque

import pyarrow as pa
import pyarrow.parquet as pq

from keysplit import paths
from keysplit.spark.streaming.observing.record import Record
from keysplit.spark.warn import warn

# The most records that wait for a failing store.
_MOST = 10_000

_HOT = pa.struct(
    {
        "key": pa.string(),
        "share": pa.float64(),
        "expected": pa.float64(),
        "workers": pa.int64(),
        "age": pa.int64(),
    }
)
SCHEMA = pa.schema(
    {
        "query": pa.string(),
        "run": pa.string(),
        "batch": pa.int64(),
        "time": pa.timestamp("ms", "UTC"),
        "duration_s": pa.float64(),
        "input_rows": pa.int64(),
        "input_rows_per_s": pa.float64(),
        "processed_rows_per_s": pa.float64(),
        "backlog_rows": pa.int64(),
        "watermark": pa.timestamp("ms", "UTC"),
        "state_rows": pa.int64(),
        "state_bytes": pa.int64(),
        "late_rows": pa.int64(),
        "plan": pa.string(),
        "version": pa.int64(),
        "workers": pa.int64(),
        "busiest": pa.float64(),
        "busiest_rows": pa.float64(),
        "busiest_time": pa.float64(),
        "hash_busiest": pa.float64(),
        "imbalance": pa.float64(),
        "relative_imbalance": pa.float64(),
        "load_stddev": pa.float64(),
        "replication": pa.float64(),
        "copies": pa.int64(),
        "workers_per_count": pa.int64(),
        "worker_rows": pa.list_(pa.int64()),
        "worker_busy_s": pa.list_(pa.float64()),
        "hot": pa.list_(_HOT),
    }
)
"""One row per batch and plan: the query, then `Record.to_dict`."""


class ParquetLog:
    """Writes records to Parquet files, each created atomically and holding several batches.

    Args:
        folder: a path, or a URL as in `Plan.save`; created if it does not exist.
        every: the number of batches per file.
        query: the id of the query.
        run: the id of the query's current run; file names begin with this id.

    Raises:
        OSError: if the folder cannot be created.
        ValueError: if pyarrow knows no file system for the URL.
    """

    def __init__(self, folder: str | os.PathLike[str], every: int, query: str, run: str) -> None:
        self._every = every
        self._query, self._run = query, run
        self._batches = 0
        self._waiting: deque[Record] = deque(maxlen=_MOST)
        paths.make_folder(os.fspath(folder), "log")
        self._folder = paths.absolute(folder)  # valid after a change of directory
        self._written = self._last_written()

    def add(self, records: tuple[Record, ...]) -> None:
        """Add a batch's records, and write a file once enough batches are waiting. A failure only warns."""
        new = [each for each in records if each.progress.batch > self._written]
        if not new:  # an earlier observer has written them
            return
        self._waiting += new
        self._batches += 1
        if self._batches >= self._every:
            self.flush()

    def flush(self) -> None:
        """Write the remaining records. A failure only warns, and the next call tries again."""
        if not self._waiting:
            return
        rows = [
            {
                "query": self._query,
                "run": self._run,
                **each.to_dict(),
                "time": each.progress.time,
                "watermark": each.progress.watermark,
            }
            for each in self._waiting
        ]
        first, last = (self._waiting[at].progress.batch for at in (0, -1))
        data = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), data)
        try:
            name = f"/{self._run}-{first:09}-{last:09}.parquet"
            paths.write_bytes(paths.extended(self._folder, name), data.getvalue())
        except OSError as error:
            warn(f"the log of an observer cannot be written for now, so records are kept in memory: {error}")
            return
        self._waiting.clear()
        self._batches = 0

    def _last_written(self) -> int:
        """Return the number of the run's last batch in the folder; -1 if there is none."""
        name = re.compile(rf"{re.escape(self._run)}-\d+-(\d+)\.parquet")
        found = filter(None, map(name.fullmatch, paths.names(self._folder)))
        return max((int(each[1]) for each in found), default=-1)
