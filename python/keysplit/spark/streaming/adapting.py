"""A plan that changes while streams use it, and the queries that use it."""

import hashlib
import os
import re
import threading
from contextlib import suppress

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from keysplit.plan import Plan
from keysplit.spark.streaming import by_worker, engine
from keysplit.spark.streaming.adapt import Adapt
from keysplit.spark.streaming.drawn import Bounds, SentByBatch
from keysplit.spark.streaming.engine import Listening, MicroBatch
from keysplit.spark.streaming.figures import Figures
from keysplit.spark.streaming.log import Log
from keysplit.spark.streaming.running import Running, Shared, rows_wanted
from keysplit.spark.streaming.tables import Tables
from keysplit.spark.streaming.tally import Tally

# About this many drawn rows carry the values of the key.
_SHOWN = 512
# The longest folder name that is not truncated; file systems allow 255 bytes.
_LONGEST = 150

# The changing plans of running queries, by run and folder of the log.
_lock = threading.RLock()
_taken: dict[tuple[str, str], "Adapting"] = {}


class Adapting:
    """A plan that changes while streams use it.

    Args:
        df: rows of the session.
        first: the plan to begin with.
        adapt: how the plan changes.
        types: the types of the key columns.
        weighted: whether the plan balances weights instead of row counts.
        name: the name of the plan log's folder in a checkpoint.

    Attributes:
        tally: counts the rows of micro-batches, and sends the drawn rows.
        bounds: how micro-batches draw rows.
    """

    def __init__(
        self,
        df: DataFrame,
        first: Plan,
        adapt: Adapt,
        types: list[DataType],
        weighted: bool,
        name: str,
    ) -> None:
        self.spark = df.sparkSession
        self.first, self.adapt, self.name = first, adapt, _folder_named(name)
        self.tally = Tally(self.spark.sparkContext, by_worker.counters(first.workers))
        wanted = rows_wanted(adapt, first)
        self.bounds = Bounds(wanted, min(1.0, _SHOWN / wanted))
        self._sent = SentByBatch(self.tally)
        self._shared = Shared(self._task_times, first, adapt, types, weighted, self._sent, self.bounds)
        self._runs: dict[str, Running] = {}
        self._opening = threading.Lock()
        self._past: tuple[str, list[Figures]] = "", []  # the figures of the run that ended last
        if adapt.log is not None:  # raises its errors before the start
            Log(adapt.log).newest(first)

    def answer(self, question: str, batch: MicroBatch | None) -> str:
        """Answer a question from a micro-batch's query; this is an `engine.Answer`."""
        if batch is None:
            return Tables(self.first).answer(question, chance=0.0)
        running = self._runs.get(batch.run)
        if running is None:
            with self._opening:  # its log may be remote, so other plans do not wait
                running = self._runs.get(batch.run) or self._open(batch)
                self._runs[batch.run] = running
        return running.answer(question, batch.number)

    def learn(self, run: str, number: int) -> None:
        """Learn from a finished batch of a run; called by whoever hears of its end first."""
        running = self._runs.get(run)
        if running is not None:
            running.learn(number)

    def figures(self, run: str) -> "list[Figures]":
        """Return the figures of the batches in a run of a query, the oldest first."""
        running = self._runs.get(run)
        if running is not None:
            return running.shown()
        past, found = self._past
        return found if past == run else []

    def plan_in(self, run: str, number: int) -> Plan | None:
        """Return the plan of a micro-batch in a run; None if the batch has not requested a plan."""
        running = self._runs.get(run)
        return None if running is None else running.plan_of(number)

    def newest_in(self, run: str) -> Plan:
        """Return the newest plan of a run."""
        running = self._runs.get(run)
        return self.first if running is None else running.newest

    def publish(self, run: str, plan: Plan) -> int:
        """Publish a plan to a run of a query, see `keysplit.spark.streaming.publish`."""
        self.first.refuse_other(plan, "the query")
        running = self._runs.get(run)
        if running is None:
            raise ValueError("to must be a running query, got one that has not begun, or just ended")
        return running.publish(plan)

    def ended(self, run: str) -> None:
        """Forget a run of a query."""
        running = self._runs.get(run)
        if running is not None:
            self._past = run, running.shown()  # observers are told of the end after this
            if self._runs.pop(run, None) is not None:  # otherwise another thread was faster
                _give_back(run, self)
                self._sent.forget(running.query)
                running.close()

    def _task_times(self, run: str, batch: int, tasks: int) -> list[float] | None:
        return engine.task_times(self.spark, run, batch, tasks)

    def _open(self, batch: MicroBatch) -> Running:
        """Begin a run of a query; no two plans of the run may share a log."""
        log, run = self.adapt.log, batch.run
        folder = f"{batch.checkpoint}/keysplit/{self.name}" if log is None else os.fspath(log)
        place = run, folder.rstrip("/")
        with _lock:
            if place in _taken:
                raise ValueError(
                    f"log must be a different folder for each plan of a query, got {folder!r} twice: pass "
                    "Adapt(log=...), or a different worker_column"
                )
            _taken[place] = self

        def listen() -> Listening:
            return engine.listen(
                self.spark,
                batch.query,
                run,
                lambda report: self.learn(run, report.batch),
                lambda: self.ended(run),
            )

        try:
            found = Running(self._shared, batch, place[1], listen)
        except BaseException:
            _give_back(run, self)
            raise
        with _lock:
            ended = [(other, each) for (other, of), each in _taken.items() if of == place[1] and other != run]
        for other, each in ended:  # the log is for the query; Spark may not have reported its older runs yet
            with suppress(Exception):  # the JVM of that run may be gone
                each.ended(other)
        return found


def adapting_in(run: str) -> list[Adapting]:
    """Return the changing plans in a run of a query."""
    with _lock:
        return [each for (taken, _), each in _taken.items() if taken == run]


def plans_in(run: str, number: int) -> str:
    """Return a name for all changing plans that a micro-batch in a run uses; "" if there are none."""
    plans = filter(None, (each.plan_in(run, number) for each in adapting_in(run)))
    found = sorted(plan.to_json() for plan in plans)
    return hashlib.sha256("".join(found).encode()).hexdigest()[:16] if found else ""


def _give_back(run: str, adapting: Adapting) -> None:
    with _lock:
        for place in [place for place, each in _taken.items() if place[0] == run and each is adapting]:
            del _taken[place]


def _folder_named(name: str) -> str:
    """Return a folder name for a plan."""
    found = re.sub(r"[^\w.-]", "_", name)
    if len(found.encode()) <= _LONGEST:
        return found
    return f"{found[: _LONGEST // 8]}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
