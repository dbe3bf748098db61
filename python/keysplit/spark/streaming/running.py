"""A changing plan in one run of a query."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pyspark.sql.types import DataType

from keysplit.plan import PLANS, Plan, Summary, head_threshold, place, speeds_of
from keysplit.spark.streaming import by_worker, drawn, rule
from keysplit.spark.streaming.adapt import Adapt
from keysplit.spark.streaming.drawn import Bounds, SentByBatch
from keysplit.spark.streaming.engine import Listening, MicroBatch
from keysplit.spark.streaming.figures import Figures, figures_of
from keysplit.spark.streaming.following import Following
from keysplit.spark.streaming.learning import Batch, Memory, Speeds
from keysplit.spark.streaming.log import REMEDY, Log
from keysplit.spark.streaming.tables import Tables
from keysplit.spark.warn import warn

_log = logging.getLogger("keysplit")

MOST_BATCHES = 1000
"""The number of a query's batches for which the driver keeps figures."""

# Drawn rows per batch: this many for each key that may be frequent, within these bounds.
_PER_KEY, _LEAST, _MOST = 100, 4_000, 20_000
# Batches that Spark may not have reported yet.
_UNREPORTED = 256
# The longest wait for the report of the previous batch: a part of that batch's time, and seconds.
_WAIT, _LONGEST_WAIT_S = 0.1, 1.0


@dataclass(frozen=True)
class Shared:
    """The common data of all runs of queries that use one plan.

    Attributes:
        task_times: returns how long the tasks of a run took, see `engine.task_times`.
        first: the plan to begin with.
        adapt: how the plan changes.
        types: the types of the key columns.
        weighted: whether the plan balances weights instead of row counts.
        sent: the rows that the tasks of micro-batches have sent.
        bounds: how micro-batches draw rows.
    """

    task_times: Callable[[str, int, int], list[float] | None]
    first: Plan
    adapt: Adapt
    types: list[DataType]
    weighted: bool
    sent: SentByBatch
    bounds: Bounds


@dataclass
class _Used:
    """The plan of a running micro-batch."""

    number: int
    version: int
    plan: Plan
    tables: Tables
    chance: float
    began_s: float


class Running:
    """A changing plan in one run of a query.

    Args:
        of: the common data of all runs that use the plan.
        batch: the first micro-batch of the run.
        folder: the folder of the plan log.
        listen: starts forwarding Spark's reports on the run.

    Attributes:
        query: the id of the query.
    """

    def __init__(self, of: Shared, batch: MicroBatch, folder: str, listen: Callable[[], Listening]) -> None:
        adapt, self._of, self._run, self.query = of.adapt, of, batch.run, batch.query
        of.sent.forget(batch.query)  # left by a run that ended in the middle of a batch
        self._lock = threading.Condition(threading.RLock())
        try:
            self._log = Log(folder)
        except (OSError, ValueError) as error:  # a store that is unknown to pyarrow or unreachable
            raise ValueError(f"log must be a writable folder: pass Adapt(log=...); {error}") from error
        self._log.claim(batch.query)
        if self._log.last is None:
            self._log.publish(of.first)
        self._version, self._refused = -1, set[int]()
        self._plan, self._tables = of.first, Tables(of.first)
        self._following: Following | None = None
        self._take_newest()
        self._warn_of_what_is_not_done()
        self._chance = 1.0  # until the number of rows is known
        self._used: deque[_Used] = deque(maxlen=_UNREPORTED)
        self._changed = -(adapt.every or 0)
        self._learned = self._reported = -1  # the last batch
        self._balanced = False  # whether that batch was balanced by the newest plan
        self._ages: dict[int, int] = {}  # for the keys that the last plan places individually
        self._figures: deque[Figures] = deque(maxlen=MOST_BATCHES)
        self._measured = Speeds(of.first.workers)
        self._listening = listen()

    def close(self) -> None:
        """Stop listening."""
        self._listening.stop()

    def answer(self, question: str, number: int) -> str:
        """Answer a question of a micro-batch."""
        with self._lock:
            used = self._used_in(number)
            if used is None:
                self._catch_up()
                used = self._used_in(number) or self._begin(number)
            return used.tables.answer(question, used.chance)

    @property
    def newest(self) -> Plan:
        """The newest plan."""
        with self._lock:
            return self._plan

    def plan_of(self, number: int) -> Plan | None:
        """Return the plan of a micro-batch; None if the batch has not requested a plan."""
        with self._lock:
            used = self._used_in(number)
            return None if used is None else used.plan

    def publish(self, plan: Plan) -> int:
        """Publish a plan for the next batches."""
        with self._lock:
            version = self._log.publish(plan)
            self._take_newest()
            return version

    def shown(self) -> list[Figures]:
        """Return the figures of batches, the oldest first."""
        with self._lock:
            return list(self._figures)

    def learn(self, number: int) -> None:
        """Learn, once, from a micro-batch that Spark has reported as ended."""
        with self._lock:
            self._learn_once(number)
            self._reported = number
            self._lock.notify_all()

    def _warn_of_what_is_not_done(self) -> None:
        """Warn if the query was started with different workers or a different grouping from the log's."""
        asked, kept = self._of.first.grouping, self._plan.grouping
        if asked != kept:
            try:
                warn(
                    f"the stream continues with version {self._version} of its plan log, for {kept!r}, "
                    f"although the query now starts with {asked!r}: publish such a plan with "
                    f"kss.streaming.publish(plan, query), or {REMEDY}"
                )
            except UserWarning as warning:  # if warnings are errors: the stream continues anyway
                _log.warning("%s", warning)

    def _used_in(self, number: int) -> _Used | None:
        return next((each for each in self._used if each.number == number), None)

    def _catch_up(self) -> None:
        """Learn from the previous micro-batch, which has ended, so its tasks have sent all their rows.

        Spark records the task times a moment later, before it reports the end of the batch.
        """
        if not self._used:
            return
        used = self._used[-1]
        if self._of.adapt.capacities == "measured" and not self._balanced:
            most_s = min((time.monotonic() - used.began_s) * _WAIT, _LONGEST_WAIT_S)
            self._lock.wait_for(lambda: self._reported >= used.number, most_s)
        self._learn_once(used.number)

    def _learn_once(self, number: int) -> None:
        """Learn, once, from a finished micro-batch; publish a new plan if it pays off."""
        if number > self._learned:
            try:
                self._learn(number)
            except Exception as error:  # the stream continues with its plan
                warn(f"the plan of a stream was not changed: {type(error).__name__}: {error}")

    def _learn(self, number: int) -> None:
        self._learned = number
        used = self._used_in(number)
        if used is None:  # an empty batch, which Spark has not planned
            return
        batch = self._batch(used)
        total = int(batch.rows.sum())
        self._memory.add(batch)
        if total:
            self._chance = min(1.0, self._wanted / total)
        together = self._together(used.plan.speeds)
        busy_s = self._measure(number, batch.rows) if self._of.adapt.capacities == "measured" else None
        self._ages = {each.hash: self._ages.get(each.hash, 0) + 1 for each in used.plan.head}
        self._figures.append(figures_of(batch, used.version, used.plan, together, self._ages, busy_s))
        adapt, speeds, summary = self._of.adapt, self._speeds(), self._memory.summary()
        if self._following is not None:
            self._following.add(batch, batch.rows[: len(together)], speeds)
        shown = self._plan is used.plan and summary.total > 0  # figures of the newest plan
        self._balanced = shown and self._excess(batch, summary, speeds) < adapt.gain
        may_change = adapt.every is not None and number - self._changed >= adapt.every
        if shown and not self._balanced and may_change:
            self._improve(batch, summary, speeds)

    def _begin(self, number: int) -> _Used:
        """Fix the plan of a micro-batch: the plan of an earlier attempt if there was one, else the newest."""
        try:
            self._log.refresh()
        except OSError as error:  # plans that others have published are read later
            warn(f"a stream's plan log could not be read: {error}")
        self._take_newest()
        version, plan = self._log.version_of(number, self._version), self._plan
        if version != self._version:
            plan = self._log.plan(version)
            self._log.check(self._of.first, version, plan, f"the query, which started batch {number} with it")
        tables = self._tables if plan is self._plan else Tables(plan)
        used = _Used(number, version, plan, tables, self._chance, time.monotonic())
        self._used.append(used)
        self._log.prune()
        return used

    def _take_newest(self) -> None:
        found = self._log.newest(self._of.first, self._version, self._refused)
        if found is None:
            return
        last, plan = found
        threshold = head_threshold(plan.grouping)
        if len(plan.tail) != len(self._plan.tail) or self._version < 0:
            texts = {each.hash: each.key for each in plan.head}
            self._memory = Memory.of(plan.summary, texts, threshold, self._of.adapt.decay)
        self._memory.threshold = threshold
        self._wanted = rows_wanted(self._of.adapt, plan)
        self._version, self._plan, self._tables = last, plan, Tables(plan)
        if type(plan.grouping) in PLANS.values():
            self._following = None
        elif self._following is None or self._following.params != plan.grouping:
            self._following = Following(plan.grouping)

    def _batch(self, used: _Used) -> Batch:
        """Return the counts of a micro-batch."""
        of = self._of
        sent = of.sent.of(self.query, used.number)
        rows = np.zeros(by_worker.counters(of.first.workers), np.int64)
        for each in sent:
            rows += each.counts
        fields = [field for each in sent for field in each.fields]
        found = drawn.read(fields, used.chance, of.bounds, of.types, of.weighted)
        wrong = found.weights[~((found.weights >= 0) & (found.weights <= drawn.MOST_WEIGHT))]
        if len(wrong):
            allowed, batch = f"0..={drawn.MOST_WEIGHT:g}", used.number
            warn(
                f"weight must be in {allowed}, got {wrong[0]} in batch {batch}: the plan of the stream "
                "learns nothing from such rows"
            )
            found = found.without_wrong_weights()
        return Batch(used.number, rows, **found._asdict())

    def _measure(self, number: int, rows: np.ndarray) -> np.ndarray | None:
        """Measure the speeds of workers, and return how long each worker was busy; None if unknown."""
        workers = self._of.first.workers
        found = self._of.task_times(self._run, number, workers)
        if found is None or len(rows) != workers:
            return None
        times = np.array(found)
        self._measured.add(rows, times)
        return times

    def _speeds(self) -> np.ndarray:
        """Return the current relative speed of each worker."""
        capacities, workers = self._of.adapt.capacities, self._plan.workers
        if capacities == "measured":
            return self._measured.relative[:workers]
        if not callable(capacities):
            return self._plan.speeds
        found = capacities()
        # only the plan's workers, of all possible ones
        return speeds_of(found[:workers] if len(found) == self._of.first.workers else found, workers)

    def _together(self, values: np.ndarray) -> np.ndarray:
        """Add up the values of workers that share a counter."""
        return by_worker.together(values, self._of.first.workers)

    def _excess(self, batch: Batch, summary: Summary, speeds: np.ndarray) -> float:
        """Return the busiest worker's excess in fair shares, see `rule.excess`."""
        if self._of.weighted:
            return rule.excess(self._plan.loads_for(summary), speeds)
        together = self._together(speeds)
        return rule.excess(batch.rows[: len(together)].astype(np.float64), together)

    def _improve(self, batch: Batch, summary: Summary, speeds: np.ndarray) -> None:
        adapt, plan = self._of.adapt, self._plan
        capacities = plan.capacities if (speeds == plan.speeds).all() else tuple(speeds.tolist())
        candidates = None if self._following is None else self._following.candidates(summary)
        new = Plan.of(
            summary,
            place(summary, plan.grouping, capacities, candidates, current=plan.tail, slack=adapt.gain),
            grouping=plan.grouping,
            key=plan.key,
            key_types=plan.key_types,
            texts={hash_: self._memory.text_of(hash_) for hash_ in summary.hashes.tolist()},
            capacities=capacities,
            row_id=plan.row_id,
            group_weight=plan.group_weight,
            weighted=plan.weighted,
            trust=plan.trust,
        )
        if rule.change(plan, new, summary, float(batch.amounts.sum())).pays(adapt):
            try:
                self.publish(new)
            except FileNotFoundError:  # a temporary checkpoint, which has ended with the query
                return
            self._changed = batch.number


def rows_wanted(adapt: Adapt, plan: Plan) -> int:
    """Return how many rows of a micro-batch to draw."""
    if adapt.sample is not None:
        return adapt.sample
    return min(max(round(_PER_KEY / head_threshold(plan.grouping)), _LEAST), _MOST)
