"""The parts of a diagnosis: stages, what is uneven in them, and findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

WHAT = {
    "time": "time",
    "bytes": "bytes read",
    "records": "records read",
    "spill": "bytes spilled",
    "memory": "peak execution memory",
}
"""The figures to compare between the tasks of a stage."""


class Spread(NamedTuple):
    """One figure over the tasks of a stage.

    Attributes:
        slowest: the figure of the slowest task.
        median: the median of all tasks; of two middle values, the lower.
        largest: the maximum of all tasks.
        total: the sum over all tasks.
    """

    slowest: float
    median: float
    largest: float
    total: float

    @property
    def ratio(self) -> float:
        """The slowest task's figure as a multiple of the median, or of 1 if the median is smaller."""
        return self.slowest / max(self.median, 1.0)


def share_of(spreads: Mapping[str, Spread]) -> float:
    """Return the slowest task's share of a stage's rows or bytes, whichever is larger; 0 without input."""
    read = [of for name, of in spreads.items() if name in ("records", "bytes") and of.total]
    return max((of.slowest / of.total for of in read), default=0.0)


class Bounds(NamedTuple):
    """A lower and an upper bound."""

    low: float
    high: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Stage:
    """A stage, in seconds from the start of the application.

    Attributes:
        id: the stage's number in Spark.
        attempt: the number of the attempt, from 0.
        name: Spark's name for the stage.
        start_s: when its first task started.
        end_s: when its last task ended.
        tasks: how many tasks ended: they succeeded, or made the stage fail.
        named: how many tasks the stage has.
        state: "ended"; "cancelled"; "running" if the log ends first; "stopped" if the application ended
            first.
        running: how many tasks have a start in the log but no end.
        running_s: how long the longest of these tasks has run.
        work_s: the total task time.
        slots: how many tasks may run at once.
    """

    id: int
    attempt: int
    name: str
    start_s: float
    end_s: float
    tasks: int
    named: int
    state: str
    running: int
    running_s: float
    work_s: float
    slots: int

    @property
    def span_s(self) -> float:
        """How long the stage took."""
        return self.end_s - self.start_s


@dataclass(frozen=True, eq=False, kw_only=True)
class Tasks:
    """The tasks of a stage that waits, in the order in which they started.

    Attributes:
        start_s: when each task started, in seconds from the start of the application.
        end_s: when each task ended.
        bytes: the bytes that each task read.
        records: the rows that each task read.
    """

    start_s: np.ndarray = field(repr=False)
    end_s: np.ndarray = field(repr=False)
    bytes: np.ndarray = field(repr=False)
    records: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Finding:
    """A stage that waits for its slowest task: the cause, the cost, and what to do.

    Attributes:
        stage: the stage; for a stream, the stage of the batch that waited longest.
        query: the description of the query.
        query_id: the number of the SQL execution; None for a query without SQL.
        stream: the id of the streaming query; None for a batch.
        times: the number of batches of the stream with this finding; 1 for a batch.
        operator: "join", "aggregate", "window", "python group", "write", "repartition", "rebalance" (the
            hint), "stateful stream", "scan" or "other".
        node: Spark's name for the operator, such as "SortMergeJoin".
        columns: the columns by which the operator's rows are partitioned; empty if there are none.
        cause: "rows" if the slowest task has more rows; otherwise "matches" (its rows have more matches than
            other rows), "gc", "fetch", "host", "lost" (the executor was lost, and the figures with it),
            "unended" (the task's end is not in the log, so there are no figures), "time".
        spreads: what is uneven, by the keys of `WHAT`.
        task: the index of the task that cores wait for, called the slowest here.
        executor: the executor that ran this task.
        waiting_core_s: how long cores waited, in core-seconds.
        query_s: how long the query took.
        balanced_s: how long the query would have taken if the stage were balanced.
        adaptive: the effect of adaptive execution, or why there was none, in words.
        verdict: three lines: what to do; what waiting costs today, as a ratio; how certain this is.
        details: further sentences.
        line: the line of code to paste; None if keysplit cannot help.
        tasks: all tasks of the stage.
    """

    stage: Stage
    query: str
    query_id: int | None
    stream: str | None = None
    times: int = 1
    operator: str
    node: str
    columns: tuple[str, ...]
    cause: str
    spreads: Mapping[str, Spread] = field(repr=False)
    task: int
    executor: str
    waiting_core_s: float
    query_s: float
    balanced_s: Bounds
    adaptive: str = field(repr=False)
    verdict: str = field(repr=False)
    details: str = field(repr=False)
    line: str | None
    tasks: Tasks = field(repr=False)

    @property
    def saved_s(self) -> Bounds:
        """How much earlier the query would have ended if the stage were balanced."""
        return Bounds(self.query_s - self.balanced_s.high, self.query_s - self.balanced_s.low)

    @property
    def ratio(self) -> float:
        """The slowest task's time as a multiple of the median."""
        of = self.spreads["time"]
        return of.slowest / max(of.median, 1e-3)

    @property
    def share(self) -> float:
        """The slowest task's share of the stage's rows or bytes, whichever is larger; 0 without input."""
        return share_of(self.spreads)

    @property
    def what(self) -> str:
        """The operator with its columns, in a few words."""
        by = f" by {', '.join(self.columns)}" if self.columns else ""
        return f"{self.operator}{by}"

    def to_dict(self) -> dict[str, Any]:
        """Return all fields except the tasks, as JSON types."""
        return {
            "stage": self.stage.id,
            "attempt": self.stage.attempt,
            "stage_name": self.stage.name,
            "query": self.query,
            "query_id": self.query_id,
            "stream": self.stream,
            "times": self.times,
            "operator": self.operator,
            "node": self.node,
            "columns": list(self.columns),
            "cause": self.cause,
            "tasks": self.stage.tasks,
            "tasks_named": self.stage.named,
            "state": self.stage.state,
            "slots": self.stage.slots,
            "task": self.task,
            "executor": self.executor,
            "stage_s": self.stage.span_s,
            "slowest_over_median": self.ratio,
            "spreads": {name: of._asdict() for name, of in self.spreads.items()},
            "waiting_core_s": self.waiting_core_s,
            "query_s": self.query_s,
            "balanced_s": self.balanced_s._asdict(),
            "adaptive": self.adaptive,
            "verdict": self.verdict,
            "line": self.line,
            "details": self.details,
        }
