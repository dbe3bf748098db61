"""A function of the driver that each micro-batch asks while Spark makes its plan.

Spark plans each micro-batch anew, and computes a projection of local rows while it optimises the plan, on the
driver. So a scalar subquery over local rows that calls a function of the driver is a literal of that one
plan: its answer is the same for all tasks of the micro-batch, and for all their attempts.
"""

import logging
import os
import uuid
from collections import deque
from contextlib import suppress
from typing import Any
from weakref import finalize

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from keysplit.paths import renamed
from keysplit.spark.session.interface import Answer, Ask, MicroBatch
from keysplit.spark.session.jvm import items, java_class
from keysplit.spark.session.tasks import BATCH, QUERY

_log = logging.getLogger("keysplit")
# The name of the group of jobs of a thread, among its local properties.
_GROUP = "spark.jobGroup.id"
# Jobs among which those of the last micro-batch are.
_LATEST_JOBS = 50
# The rule that computes local rows while Spark plans.
_NEEDED = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"

# An answer that begins so is the message of an error.
_FAILED = "!"

ASKING = "keysplit_asks_"
"""How the names of these functions begin."""

# Functions that no query will be made of any more, by their sessions and names. They are dropped when the
# next one is registered: Python may free an `Ask` in the midst of a call to the JVM, which allows no other.
_unused: deque[tuple[SparkSession, str]] = deque()


def query_of(spark: SparkSession) -> tuple[str, str]:
    """Return the ids of the streaming query whose micro-batch this thread is given, and of its run.

    Raises:
        LookupError: if the query is not running.
        RuntimeError: if Spark does not say.
    """
    value = spark.sparkContext.getLocalProperty(QUERY)
    if value is None:
        raise RuntimeError(
            f"foreachBatch must run in the thread of its query, got no {QUERY}: PYSPARK_PIN_THREAD must not "
            "be false"
        )
    return str(value), str(running(spark, value).runId().toString())


def asking(spark: SparkSession, answer: Answer) -> Ask:
    """Return what makes queries of questions, see `Ask`.

    Raises:
        ValueError: if a setting of the session keeps Spark from asking the driver.
    """
    if _NEEDED in (spark.conf.get("spark.sql.optimizer.excludedRules", None) or ""):
        raise ValueError(
            f"spark.sql.optimizer.excludedRules must not exclude {_NEEDED}, which an Adapt needs"
        )
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "false":
        raise ValueError("PYSPARK_PIN_THREAD must not be 'false' with an Adapt")
    ensure_callback_server_started(spark.sparkContext._gateway)
    _drop_unused()
    name = f"{ASKING}{uuid.uuid4().hex}"
    text = java_class("org.apache.spark.sql.types.DataTypes").StringType
    spark._jsparkSession.udf().register(name, _Function(spark, answer), text)

    # An error that the function raised would come last in Spark's message; `raise_error` says it first.
    answered = f"IF(startswith(said, '{_FAILED}'), raise_error(substring(said, 2)), said)"

    def ask(question: str, reading: str = "{}") -> str:
        value = reading.format(f"transform(array({name}(question)), said -> {answered})[0]")
        return f"(SELECT {value} AS answer FROM VALUES ('{question}') AS asked(question))"

    # Queries hold the function itself: the session need not keep it by its name once they are made.
    finalize(ask, _unused.append, (spark, name)).atexit = False
    return ask


def _drop_unused() -> None:
    while _unused:
        with suppress(IndexError, Py4JError):
            spark, name = _unused.popleft()
            spark._jsparkSession.sessionState().catalog().dropTempFunction(name, True)


def task_times(spark: SparkSession, run: str, batch: int, tasks: int) -> list[float] | None:
    """Return how long each task of a micro-batch ran, in seconds, summed over its stages of so many tasks.

    Args:
        spark: the session.
        run: the run of the query.
        batch: the micro-batch; it has ended.
        tasks: the number of tasks of the stages that count. Only those count that read a shuffle.

    Returns:
        The time of each task, by its number; None if there was no such stage, or Spark has not written down
        yet that it has ended.
    """
    try:
        return _task_times(spark, run, batch, tasks)
    except Py4JError:  # Spark writes jobs down before their stages
        return None


def _task_times(spark: SparkSession, run: str, batch: int, tasks: int) -> list[float] | None:
    store = spark.sparkContext._jsc.sc().statusStore()
    jobs, times = store.jobsList(None), [0.0] * tasks
    found = False
    for at in range(min(jobs.size(), _LATEST_JOBS)):
        job = jobs.apply(at)
        # Spark puts the run and the batch into the description of the job.
        described = job.description().get() if job.description().isDefined() else ""
        if run not in described or not described.endswith(f"batch = {batch}"):
            continue
        stages = job.stageIds()
        for stage in map(store.lastStageAttempt, items(stages)):
            if stage.numTasks() != tasks or not stage.shuffleReadRecords():
                continue
            if stage.status().toString() != "COMPLETE":
                return None
            found = True
            listed = store.taskList(stage.stageId(), stage.attemptId(), tasks)
            for task in items(listed):
                metrics = task.taskMetrics()
                if metrics.isDefined():
                    times[task.index()] += metrics.get().executorRunTime() / 1000
    return times if found else None


class _Function:
    """What Spark calls: one of its interfaces, implemented in Python."""

    def __init__(self, spark: SparkSession, answer: Answer) -> None:
        self._spark, self._answer = spark, answer
        self._context = spark.sparkContext._jsc.sc()
        self._last: MicroBatch | None = None

    def call(self, question: str) -> str:
        try:
            return self._answer(question, self._micro_batch())
        except Exception as error:
            _log.error(
                "the plan of a micro-batch cannot be had: %s",
                error,
                exc_info=_log.isEnabledFor(logging.DEBUG),
            )
            return f"{_FAILED}{type(error).__name__}: {error}"

    def _micro_batch(self) -> MicroBatch | None:
        batch, query, group = map(self._context.getLocalProperty, (BATCH, QUERY, _GROUP))
        if batch is None or query is None:
            return None
        last = self._last
        # Spark names the jobs of a run by its id. Where a user has named them, the query is asked each time.
        if last is None or (last.query, last.run) != (query, group):
            found = running(self._spark, query)
            last = MicroBatch(query, str(found.runId().toString()), int(batch), _folder(found))
        self._last = last = last._replace(number=int(batch))  # other queries may come between
        return last

    class Java:
        implements = ("org.apache.spark.sql.api.java.UDF1",)


def running(spark: SparkSession, query: str) -> Any:
    """Return a query that runs in any session of this driver, as Spark has it.

    Raises:
        LookupError: if there is none with this id.
    """
    # `foreachBatch` gets frames of another session, which knows no queries
    known = spark._jsparkSession.sharedState().activeStreamingQueries()
    found = known.get(java_class("java.util.UUID").fromString(query))
    if found is None:
        raise LookupError(f"the streaming query {query} is not there")
    return found


def _folder(running: Any) -> str:
    """Return the folder of its checkpoint, with the names of stores that pyarrow knows."""
    folder = str(running.resolvedCheckpointRoot())
    if folder.startswith("file:"):
        return "/" + folder.removeprefix("file:").lstrip("/")
    return renamed(folder)
