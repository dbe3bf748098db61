"""A record: one micro-batch, with the figures for one plan."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keysplit import metrics
from keysplit.spark.streaming.figures import Figures, HotKey
from keysplit.spark.streaming.observing.progress import Progress


@dataclass(frozen=True, eq=False)
class Record:
    """A micro-batch, with the figures for a changing plan; `plan` is None if there is no such plan.

    Attributes:
        progress: Spark's report on the batch.
        plan: the name of the plan, which is also the name of the plan's folder in the checkpoint.
        together: how many neighbouring workers share a counter: 1 up to 4,096 workers.
        figures: the batch's figures for the plan.
    """

    progress: Progress
    plan: str | None = None
    together: int = 1
    figures: Figures | None = None

    @property
    def worker_rows(self) -> np.ndarray:
        """The number of rows per worker counter, int64; empty without a plan."""
        return np.empty(0, np.int64) if self.figures is None else self._of_plan(self.figures.rows)

    @property
    def worker_busy_s(self) -> np.ndarray | None:
        """How long each counter's workers were busy, in seconds; None if unknown."""
        if self.figures is None or self.figures.busy_s is None:
            return None
        return self._of_plan(self.figures.busy_s)

    @property
    def hot(self) -> tuple[HotKey, ...]:
        """The keys that the plan places individually, the most frequent first."""
        return () if self.figures is None else self.figures.hot

    def batch_row(self) -> dict[str, Any]:
        """Return the figures of the whole batch by name; None if missing. The names are public."""
        row = {**self.progress._asdict(), "plan": self.plan, **dict.fromkeys(OF_PLAN)}
        if self.figures is not None:
            figures, rows, busy_s = self.figures, self.worker_rows, self.worker_busy_s
            row |= {
                "version": figures.version,
                "workers": figures.workers,
                "busiest": figures.busiest,
                "busiest_rows": metrics.relative_imbalance(rows) + 1,
                "busiest_time": None if busy_s is None else metrics.relative_imbalance(busy_s) + 1,
                "hash_busiest": figures.hash_busiest,
                "imbalance": metrics.imbalance(rows),
                "relative_imbalance": metrics.relative_imbalance(rows),
                "load_stddev": metrics.load_stddev(rows),
                "replication": figures.replication,
                "copies": figures.copies,
            }
        return row

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types: the batch's figures, and lists of workers and hot keys."""
        row, busy_s = self.batch_row(), self.worker_busy_s
        return {
            **row,
            "time": row["time"].isoformat(),
            "watermark": None if row["watermark"] is None else row["watermark"].isoformat(),
            "workers_per_count": self.together,
            "worker_rows": self.worker_rows.tolist(),
            "worker_busy_s": None if busy_s is None else busy_s.tolist(),
            "hot": [_named(each) for each in self.hot],
        }

    def _of_plan(self, counted: np.ndarray) -> np.ndarray:
        assert self.figures is not None
        return counted[: -(-self.figures.workers // self.together)]


OF_PLAN = (
    "version",
    "workers",
    "busiest",
    "busiest_rows",
    "busiest_time",
    "hash_busiest",
    "imbalance",
    "relative_imbalance",
    "load_stddev",
    "replication",
    "copies",
)
"""The figures that need a plan."""


def _named(hot: HotKey) -> dict[str, Any]:
    return {
        "key": hot.text,
        "share": hot.share,
        "expected": hot.expected,
        "workers": hot.workers,
        "age": hot.age,
    }
