"""The figures of a query as metrics of Prometheus."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from keysplit.extras import missing
from keysplit.spark.streaming.observing.record import Record

MOST_KEYS = 20
"""Hot keys that have series of their own."""

GAUGES = {
    "batch": ("batch", "number of the last batch"),
    "batch_duration_seconds": ("duration_s", "how long the last batch took"),
    "batch_input_rows": ("input_rows", "rows that the last batch has read"),
    "input_rows_per_second": ("input_rows_per_s", "how fast the rows of the last batch arrived"),
    "processed_rows_per_second": ("processed_rows_per_s", "how fast the last batch processed its rows"),
    "backlog_rows": ("backlog_rows", "rows that the sources had beyond the last batch"),
}
"""Gauges of a query: the figure of a record, and what it means."""

PLAN_GAUGES = {
    "plan_version": ("version", "version of the plan that the last batch went by"),
    "plan_workers": ("workers", "workers of the plan"),
    "busiest_ratio": ("busiest", "load of the busiest worker over its fair share, in rows"),
    "hash_busiest_ratio": ("hash_busiest", "the same, at least, if each key were on the worker of its hash"),
    "imbalance": ("imbalance", "(max - mean) / sum of the rows of workers"),
    "relative_imbalance": ("relative_imbalance", "(max - mean) / mean of the rows of workers"),
    "load_stddev_percent": (
        "load_stddev",
        "standard deviation of the rows of workers, in per cent of their sum",
    ),
    "replication": ("replication", "mean number of workers of a key"),
    "copies": ("copies", "workers that frequent keys have beyond one each"),
    "busy_relative_imbalance": ("busy_imbalance", "(max - mean) / mean of the busy time of workers"),
}
"""Gauges of a plan of a query."""


class _Totals:
    """What is added up over the batches that were heard of."""

    def __init__(self) -> None:
        self.batches = 0
        self.input_rows = 0
        self.changes: Counter[str] = Counter()
        self.worker_rows: dict[str, np.ndarray] = {}
        self.worker_busy_s: dict[str, np.ndarray] = {}
        self._versions: dict[str, int] = {}

    def add(self, records: tuple[Record, ...]) -> None:
        """Add the records of a batch."""
        self.batches += 1
        self.input_rows += records[0].progress.input_rows
        for each in records:
            if each.plan is None or each.figures is None:
                continue
            version = each.figures.version
            self.changes[each.plan] += self._versions.get(each.plan, version) != version
            self._versions[each.plan] = version
            self.worker_rows[each.plan] = _sum(self.worker_rows.get(each.plan), each.worker_rows)
            if each.worker_busy_s is not None:
                self.worker_busy_s[each.plan] = _sum(self.worker_busy_s.get(each.plan), each.worker_busy_s)


def _sum(one: np.ndarray | None, other: np.ndarray) -> np.ndarray:
    if one is None or not len(one):
        return other
    size = max(len(one), len(other))
    added: np.ndarray = np.pad(one, (0, size - len(one))) + np.pad(other, (0, size - len(other)))
    return added


class Exposition:
    """What Prometheus reads: the last batch, and totals over the batches since the observer began.

    Series of keys that are hot no longer vanish.

    Args:
        query: the name of the query, or its id: a label of all series.

    Raises:
        ImportError: if prometheus_client is not installed.
    """

    def __init__(self, query: str) -> None:
        try:
            from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, core, generate_latest
        except ImportError as error:
            raise ImportError(missing("port", "prometheus_client", "observe")) from error
        self.content_type: str = CONTENT_TYPE_LATEST
        self._families, self._write, self._query = core, generate_latest, query
        self._lock = threading.Lock()
        self._totals = _Totals()
        self._last: Record | None = None
        self._plans: dict[str, Record] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def add(self, records: tuple[Record, ...]) -> None:
        """Take the records of a batch."""
        with self._lock:
            self._totals.add(records)
            self._last = records[0]
            self._plans.update((each.plan, each) for each in records if each.plan is not None)

    def text(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        with self._lock:
            return self._write(self._registry)

    def collect(self) -> Iterator[Any]:
        """Yield the families of metrics; the registry calls this."""
        totals, plans = self._totals, self._plans
        yield self._counter("batches", "batches that were observed", {(): totals.batches})
        yield self._counter("input_rows", "rows that they have read", {(): totals.input_rows})
        if self._last is None:
            return
        first = self._last.batch_row()
        started = first["time"].timestamp()
        yield self._gauge("batch_start_timestamp_seconds", "when the last batch began", {(): started})
        for name, (figure, meaning) in GAUGES.items():
            yield self._gauge(name, meaning, {(): first[figure]})
        rows = {(plan,): each.batch_row() for plan, each in plans.items()}
        for name, (figure, meaning) in PLAN_GAUGES.items():
            yield self._gauge(name, meaning, {of: row[figure] for of, row in rows.items()}, "plan")
        changes = {(plan,): number for plan, number in totals.changes.items()}
        yield self._counter("plan_changes", "changes of the plan", changes, "plan")
        for name, meaning, sums in (
            ("worker_rows", "rows of a worker", totals.worker_rows),
            ("worker_busy_seconds", "how long a worker was busy", totals.worker_busy_s),
        ):
            yield self._counter(name, meaning, self._by_worker(sums), "plan", "worker")
        hot = {(plan, key.text): key for plan, each in plans.items() for key in each.hot[:MOST_KEYS]}
        for name, figure, meaning in (
            ("hot_key_share", "share", "part of the rows of the last batch that a hot key had"),
            ("hot_key_age_batches", "age", "for how many batches in a row plans have placed it by itself"),
            ("hot_key_workers", "workers", "workers of a hot key"),
        ):
            found = {of: getattr(key, figure) for of, key in hot.items()}
            yield self._gauge(name, meaning, found, "plan", "key")

    def _by_worker(self, found: Mapping[str, np.ndarray]) -> dict[tuple[str, ...], float]:
        return {
            (plan, str(at * self._plans[plan].together)): value
            for plan, values in found.items()
            for at, value in enumerate(values.tolist())
        }

    def _gauge(self, name: str, meaning: str, values: Mapping[Any, Any], *labels: str) -> Any:
        return self._filled(self._families.GaugeMetricFamily, name, meaning, values, labels)

    def _counter(self, name: str, meaning: str, values: Mapping[Any, Any], *labels: str) -> Any:
        return self._filled(self._families.CounterMetricFamily, name, meaning, values, labels)

    def _filled(
        self,
        kind: Any,
        name: str,
        meaning: str,
        values: Mapping[Any, Any],
        labels: tuple[str, ...],
    ) -> Any:
        family = kind(f"keysplit_{name}", meaning, labels=["query", *labels])
        for of, value in values.items():  # the values of the other labels
            if value is not None:
                family.add_metric([self._query, *of], value)
        return family
