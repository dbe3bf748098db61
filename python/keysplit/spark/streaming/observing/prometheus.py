"""The figures of queries as Prometheus metrics."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyspark

from keysplit import __version__
from keysplit.extras import missing
from keysplit.spark.streaming.observing.record import Record

MOST_KEYS = 20
"""The number of hot keys with series."""

GAUGES = {
    "batch": ("batch", "number of the last batch"),
    "batch_start_timestamp_seconds": ("time", "when the last batch began"),
    "batch_duration_seconds": ("duration_s", "how long the last batch took"),
    "batch_input_rows": ("input_rows", "rows that the last batch has read"),
    "input_rows_per_second": ("input_rows_per_s", "how fast the rows of the last batch arrived"),
    "processed_rows_per_second": ("processed_rows_per_s", "how fast the last batch processed its rows"),
    "backlog_rows": ("backlog_rows", "rows that the sources had beyond the last batch"),
    "watermark_timestamp_seconds": ("watermark", "the watermark of the last batch"),
    "state_rows": ("state_rows", "rows of state after the last batch"),
    "state_bytes": ("state_bytes", "memory that the state takes after the last batch"),
}
"""Gauges of a query: the figure of a record, and its description."""

PLAN_GAUGES = {
    "plan_version": ("version", "version of the plan that the last batch used"),
    "plan_workers": ("workers", "workers of the plan"),
    "busiest_ratio": ("busiest", "load of the busiest worker over its fair share, in rows by speed"),
    "busiest_rows_ratio": ("busiest_rows", "rows of the busiest worker over the mean"),
    "busiest_time_ratio": ("busiest_time", "busy time of the busiest worker over the mean"),
    "hash_busiest_ratio": ("hash_busiest", "busiest_ratio, at least, if each key were on its hash's worker"),
    "imbalance": ("imbalance", "(max - mean) / sum of the rows of workers"),
    "relative_imbalance": ("relative_imbalance", "(max - mean) / mean of the rows of workers"),
    "load_stddev_ratio": ("load_stddev", "standard deviation of the rows of workers over their sum"),
    "replication": ("replication", "mean number of workers of a key"),
    "copies": ("copies", "workers that frequent keys have beyond one each"),
}
"""Gauges of a plan of a query."""

_lock = threading.Lock()


class Totals:
    """A query's Prometheus metrics: those of the last batch, and sums over the reported batches.

    Args:
        query: the name of the query, or its id.
        key_labels: whether the values of hot keys are labels.
    """

    def __init__(self, query: str, key_labels: bool) -> None:
        self.query, self.key_labels = query, key_labels
        self.batches = 0
        self.input_rows = 0
        self.late_rows: int | None = None
        self.changes: Counter[str] = Counter()
        self.worker_rows: dict[str, np.ndarray] = {}
        self.worker_busy_s: dict[str, np.ndarray] = {}
        self.last: Record | None = None
        self.plans: dict[str, Record] = {}

    def add(self, records: tuple[Record, ...]) -> None:
        """Add the records of a batch."""
        with _lock:
            self.last, progress = records[0], records[0].progress
            self.batches += 1
            self.input_rows += progress.input_rows
            if progress.late_rows is not None:
                self.late_rows = (self.late_rows or 0) + progress.late_rows
            for each in records:
                if each.plan is None or each.figures is None:
                    continue
                before = self.plans.get(each.plan, each).figures
                self.changes[each.plan] += before is not None and before.version != each.figures.version
                self.plans[each.plan] = each
                self.worker_rows[each.plan] = _sum(self.worker_rows.get(each.plan), each.worker_rows)
                if each.worker_busy_s is not None:
                    self.worker_busy_s[each.plan] = _sum(
                        self.worker_busy_s.get(each.plan), each.worker_busy_s
                    )

    def by_worker(self, found: Mapping[str, np.ndarray]) -> dict[tuple[str, ...], float]:
        """Return sums by plan and worker."""
        return {
            (plan, str(at * self.plans[plan].together)): value
            for plan, values in found.items()
            for at, value in enumerate(values.tolist())
        }


def _sum(one: np.ndarray | None, other: np.ndarray) -> np.ndarray:
    if one is None or not len(one):
        return other
    size = max(len(one), len(other))
    added: np.ndarray = np.pad(one, (0, size - len(one))) + np.pad(other, (0, size - len(other)))
    return added


class Exposition:
    """The Prometheus metrics of all observed queries, with the label `query`.

    The series of hot keys are labelled by rank, which limits the number of series and names nobody.

    Args:
        totals: returns the totals of each query, under distinct names.

    Raises:
        ImportError: if prometheus_client is not installed.
    """

    def __init__(self, totals: Callable[[], Sequence[Totals]]) -> None:
        try:
            from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, core, generate_latest
        except ImportError as error:
            raise ImportError(missing("port", "prometheus_client", "observe")) from error
        self.content_type: str = CONTENT_TYPE_LATEST
        self._core, self._write, self._totals = core, generate_latest, totals
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """Return the metrics in Prometheus's format."""
        return self._write(self._registry)

    def collect(self) -> Iterator[Any]:
        """Yield the families of metrics; the registry calls this."""
        with _lock:
            yield from list(self._collected(self._totals()))

    def _collected(self, every: Sequence[Totals]) -> Iterator[Any]:
        info = self._core.InfoMetricFamily("keysplit_build", "versions of keysplit and of Spark")
        info.add_metric([], {"version": __version__, "spark": pyspark.__version__})
        yield info
        counter, gauge = self._core.CounterMetricFamily, self._core.GaugeMetricFamily
        rows = [(each, each.last.batch_row()) for each in every if each.last is not None]
        for name, figure, meaning in (
            ("batches", "batches", "batches that were observed"),
            ("input_rows", "input_rows", "rows that they have read"),
            ("late_rows", "late_rows", "rows that they have dropped, because the watermark had passed them"),
        ):
            sums = [((each.query,), getattr(each, figure)) for each in every]
            yield _filled(counter, name, meaning, ("query",), sums)
        for name, (figure, meaning) in GAUGES.items():
            last = [((each.query,), _number(row[figure])) for each, row in rows]
            yield _filled(gauge, name, meaning, ("query",), last)
        of_plans = [
            ((each.query, plan), record.batch_row()) for each in every for plan, record in each.plans.items()
        ]
        for name, (figure, meaning) in PLAN_GAUGES.items():
            scale = _PER_CENT.get(figure, 1)
            shown = [(of, None if row[figure] is None else row[figure] / scale) for of, row in of_plans]
            yield _filled(gauge, name, meaning, ("query", "plan"), shown)
        changes = [((each.query, plan), number) for each in every for plan, number in each.changes.items()]
        yield _filled(counter, "plan_changes", "changes of the plan", ("query", "plan"), changes)
        for name, figure, meaning in (
            ("worker_rows", "worker_rows", "rows of a worker"),
            ("worker_busy_seconds", "worker_busy_s", "how long a worker was busy"),
        ):
            found = [
                ((each.query, *of), value)
                for each in every
                for of, value in each.by_worker(getattr(each, figure)).items()
            ]
            yield _filled(counter, name, meaning, ("query", "plan", "worker"), found)
        hot = [
            (each, (each.query, plan, str(rank)), key)
            for each in every
            for plan, record in each.plans.items()
            for rank, key in enumerate(record.hot[:MOST_KEYS])
        ]
        of_key = ("query", "plan", "rank")
        for name, figure, meaning in (
            ("hot_key_share", "share", "part of the rows of the last batch that a hot key had"),
            ("hot_key_age_batches", "age", "for how many batches in a row plans have placed it by itself"),
            ("hot_key_workers", "workers", "workers of a hot key"),
        ):
            yield _filled(gauge, name, meaning, of_key, [(of, getattr(key, figure)) for _, of, key in hot])
        named = [((*of, key.text), 1) for each, of, key in hot if each.key_labels]
        yield _filled(gauge, "hot_key_info", "the value of a hot key", (*of_key, "key"), named)


# Figures in per cent, which are ratios in Prometheus.
_PER_CENT = {"load_stddev": 100}


def _number(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else value


def _filled(
    kind: Any, name: str, meaning: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], Any]]
) -> Any:
    """Return a family of metrics with the known values."""
    family = kind(f"keysplit_{name}", meaning, labels=labels)
    for of, value in values:
        if value is not None:
            family.add_metric(of, value)
    return family
