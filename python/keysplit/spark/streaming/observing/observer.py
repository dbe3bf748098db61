"""`streaming.observe`: the figures of a running query."""

import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql.streaming import StreamingQuery

from keysplit.spark.checks import check_whole, is_query, type_name
from keysplit.spark.streaming.adapting import Adapting, adapting_in
from keysplit.spark.streaming.by_worker import workers_per_count
from keysplit.spark.streaming.engine import Listening, Report, listen, session_of
from keysplit.spark.streaming.observing.history import By, History
from keysplit.spark.streaming.observing.log import ParquetLog
from keysplit.spark.streaming.observing.progress import Progress, progress_of
from keysplit.spark.streaming.observing.prometheus import Totals
from keysplit.spark.streaming.observing.record import Record
from keysplit.spark.warn import warn

if TYPE_CHECKING:
    from keysplit.spark.streaming.observing.endpoint import Endpoint, Shown

LogFunction = Callable[[dict[str, Any]], object]
Log = str | os.PathLike[str] | LogFunction


def observe(
    query: StreamingQuery,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    log: Log | None = None,
    log_every: int = 20,
    keep: int = 1000,
    key_labels: bool = False,
) -> "Observer":
    """Observe a running query: rows per worker, imbalance, hot keys, plan versions, batch durations.

    Rows per worker, hot keys, versions and the effect of hashing are known for an `Adapt`; `Adapt(start=plan,
    every=None)` counts them for a plan that does not change. All other queries have only Spark's figures for
    each batch: rows, duration, rates and backlog. Observing runs nothing on the executors, and changes
    neither plans nor results. The observer ends with the query.

    Args:
        query: the query. If the query is already running, its earlier batches are included as far as Spark
            and the plan still hold their figures: 100 batches by default.
        port: serves a live page at `Observer.url`, its figures as JSON at `history.json`, and metrics for
            Prometheus at `metrics`. Queries of a driver can share a port: the metrics then cover all these
            queries, and the page at `/` lists them. 0 takes the port of another query, or a free port if
            there is none. A port needs the extra `keysplit[observe]`.
        host: the address to serve on. Everyone who can reach it can see hot keys.
        log: a folder, or its URL as in `Plan.save`, for Parquet files with a row for each batch and plan; or
            a function to call with a dict of JSON types for each such row. The function should return soon:
            the next figures wait for it, but the stream does not. Errors in it become warnings.
        log_every: the number of batches per Parquet file, at least 1. The end of the query writes the rest.
        keep: the number of batches in `Observer.history`, at least 1.
        key_labels: whether the values of hot keys are labels in the metrics. Values may name people, and
            Prometheus keeps a series for each value. If False, only ranks identify hot keys.

    Returns:
        The observer.

    Raises:
        TypeError: if an argument has a wrong type.
        ValueError: if an argument is out of its range.
        ImportError: if there is a port, but prometheus_client is not installed.
        OSError: if the port is taken, or the folder of the log cannot be created.

    Source:
        "Dynamic Key Grouping: A Load Balancing Algorithm for Distributed Stream Processing Engines", section
        4.7: the Distribution Observer, which collects count, latency, throughput, StdDev and DistCost.

    Deviations:
        Latency is the duration of batches. DistCost is `replication`, estimated from drawn rows.

    Example:
        >>> observer = kss.streaming.observe(query, port=0)  # doctest: +SKIP
        >>> observer.history()[["batch", "busiest", "hash_busiest"]]  # doctest: +SKIP
    """
    if not is_query(query):
        raise TypeError(f"query must be a streaming query, got {type_name(query)}")
    if port is not None:
        check_whole("port", port, 0, 65_535)
    if not isinstance(host, str):
        raise TypeError(f"host must be an address such as '127.0.0.1', got {host!r}")
    if not host:  # Python's sockets read it as every address
        raise ValueError("host must be an address such as '127.0.0.1', got ''")
    if log is not None and not callable(log) and not isinstance(log, str | os.PathLike):
        raise TypeError(f"log must be a folder or a function, got {log!r}")
    check_whole("log_every", log_every, 1)
    check_whole("keep", keep, 1)
    if not isinstance(key_labels, bool):
        raise TypeError(f"key_labels must be True or False, got {key_labels!r}")
    return Observer(
        query, port=port, host=host, log=log, log_every=log_every, keep=keep, key_labels=key_labels
    )


class Observer:
    """The figures of a query, made by `streaming.observe`; several threads may use it.

    The observer is a context manager: it stops at the end of the block, or with the query.

    Example:
        >>> with kss.streaming.observe(query, port=0) as observer:  # doctest: +SKIP
        ...     print(observer.url)
        ...     query.awaitTermination(60)
    """

    def __init__(
        self,
        query: StreamingQuery,
        *,
        port: int | None,
        host: str,
        log: Log | None,
        log_every: int,
        keep: int,
        key_labels: bool,
    ) -> None:
        self._query, self._run = str(query.id), str(query.runId)
        title = query.name or self._query
        self._order = threading.RLock()  # of batches
        self._stopped, self._ended = False, threading.Event()
        self._history = History(keep)
        self._early: list[Progress] = []  # from which plans have not learned yet
        self._totals = Totals(title, key_labels)
        self._log = log if callable(log) else None
        self._file = None
        if log is not None and not callable(log):
            self._file = ParquetLog(log, log_every, self._query, self._run)
        self._served = None if port is None else self._serve(host, port, title)
        self._adapting: list[Adapting] = []  # the plans of the query, also when it has ended
        self._listening: Listening | None = None
        try:
            with self._order:  # later reports wait
                self._listening = listen(
                    session_of(query), self._query, self._run, self._on_report, self.stop
                )
                self._recall(query)
            if self._stopped or not query.isActive:
                self._listening.settle()
                with self._order:
                    if not self._stopped:
                        self._recall(query)
                self.stop()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str | None:
        """The address of the live page; None without a port."""
        return None if self._served is None else f"{self._served[0].server.url}{self._query}/"

    def history(self, by: By = "batch") -> pd.DataFrame:
        """Return the figures of the last batches, the oldest first.

        Args:
            by: the meaning of a row:

                - "batch": a batch and a plan of the query; docs/streaming.md explains the columns.
                - "worker": a worker in a batch: `rows`, and `busy_s`, the seconds for which the worker was
                    busy, NaN if unknown. With more than 4,096 workers, a row stands for a few neighbouring
                    workers, and `worker` is the first of these.
                - "key": a hot key in a batch: its `share` of the rows, estimated from drawn rows, its
                    `expected` share according to the plan, its number of `workers`, and its `age`: the number
                    of consecutive batches in which plans placed the key individually.

        Returns:
            The figures. Unknown values are missing.

        Raises:
            ValueError: if `by` is something else.
        """
        if by not in ("batch", "worker", "key"):
            raise ValueError(f"by must be 'batch', 'worker' or 'key', got {by!r}")
        return self._history.frame(by)

    def stop(self) -> None:
        """Stop observing: close the port and write the rest of the log. `history` stays available."""
        self._stopped = True  # no more reports
        with self._order:
            if self._ended.is_set():
                return
            try:
                self._take_early()
                if self._file is not None:
                    self._file.flush()
            finally:
                if self._served is not None:
                    from keysplit.spark.streaming.observing.endpoint import leave

                    leave(*self._served)
                if self._listening is not None:
                    with suppress(Exception):  # its session may be gone
                        self._listening.stop()
                self._ended.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the query has ended and all its batches are reported, or the observer is stopped.

        Spark reports batches a moment after they have ended; `query.awaitTermination` may return earlier.

        Args:
            timeout_s: the longest time to wait, in seconds; no limit if omitted.

        Returns:
            Whether the query has ended.
        """
        return self._ended.wait(timeout_s)

    def __enter__(self) -> "Observer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _plans(self) -> list[Adapting]:
        self._adapting += [each for each in adapting_in(self._run) if each not in self._adapting]
        return self._adapting

    def _recall(self, query: StreamingQuery) -> None:
        """Add the batches that ran before the observer started, once plans have learned from them."""
        learned = self._learned()
        for progress in filter(None, map(progress_of, query.recentProgress)):
            if progress.batch > learned:
                learned = self._learned()  # meanwhile
            if self._early or progress.batch > learned:
                self._early.append(progress)
            else:
                self._take(progress)

    def _learned(self) -> float:
        """Return the last batch that all plans have learned from; infinity without plans."""
        figures = [each.figures(self._run) for each in self._plans()]
        return min((found[-1].batch if found else -1 for found in figures), default=math.inf)

    def _on_report(self, report: Report) -> None:
        """Add a new report from Spark, after plans have learned from the batch."""
        with self._order:
            if self._stopped:
                return
            for each in self._plans():
                each.learn(self._run, report.batch)
            progress = progress_of(report.to_dict())
            if progress is not None:
                self._take_early(before=progress.batch)
                self._take(progress)

    def _take_early(self, before: float = math.inf) -> None:
        """Add the held-back reports on earlier batches; plans may not have learned from later ones yet."""
        early, self._early = self._early, []
        for each in early:
            if each.batch < before:
                self._take(each)
            else:
                self._early.append(each)

    def _take(self, progress: Progress) -> None:
        if progress.batch > self._history.last:
            self._add(self._records(progress))

    def _records(self, progress: Progress) -> tuple[Record, ...]:
        found = []
        for each in self._plans():
            of_batch = (one for one in reversed(each.figures(self._run)) if one.batch == progress.batch)
            figures = next(of_batch, None)
            if figures is not None:
                found.append(Record(progress, each.name, workers_per_count(each.first.workers), figures))
        return tuple(found) or (Record(progress),)

    def _add(self, records: tuple[Record, ...]) -> None:
        self._history.add(records)
        self._totals.add(records)
        if self._file is not None:
            self._file.add(records)
        if self._log is not None:
            for each in records:
                try:
                    self._log({"query": self._query, "run": self._run, **each.to_dict()})
                except Exception as error:
                    warn(f"the log of an observer was not written: {type(error).__name__}: {error}")

    def _serve(self, host: str, port: int, title: str) -> "tuple[Endpoint, Shown]":
        from keysplit.spark.streaming.observing.endpoint import Shown, join  # these import jinja2

        shown = Shown(self._query, self._run, title, self._history, self._totals)
        return join(host, port, shown), shown
