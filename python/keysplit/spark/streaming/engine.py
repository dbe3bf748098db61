"""Private calls of Spark for streams: functions of the driver, reports of micro-batches, times of tasks.

Spark plans each micro-batch separately, and computes projections of local rows during optimisation, on the
driver. So a scalar subquery over local rows that calls a function on the driver becomes a literal in the
micro-batch's plan: the answer is the same for all tasks of the micro-batch, and for all attempts at these
tasks. A Spark Connect server cannot call its client's functions, so on Spark Connect a plan cannot change.
"""

import json
import logging
import os
import threading
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, NamedTuple, Protocol
from weakref import finalize

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from pyspark.sql.types import StructField

from keysplit.paths import renamed
from keysplit.spark.jvm import (
    answers_at_once,
    is_connect,
    items,
    java_class,
    java_context,
    java_session,
    running,
    settle,
)
from keysplit.spark.tasks import ASKING, BATCH, QUERY
from keysplit.spark.warn import warn

_log = logging.getLogger("keysplit")
# The local property with the job group of a thread.
_GROUP = "spark.jobGroup.id"
# The newest jobs to search for those of the last micro-batch.
_LATEST_JOBS = 50
# The rule that computes local rows while Spark plans.
_NEEDED = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"

# An answer with this prefix is an error message.
_FAILED = "!"
# Spark's metadata of a time or a window.
_WATERMARK, _SESSION = "spark.watermarkDelayMs", "spark.sessionWindow"

# Functions that no new query will use, by session and name. They are dropped when the next one is registered,
# as Python may free an `Ask` during a call to the JVM, which allows no other call.
_unused: deque[tuple[SparkSession, str]] = deque()


class MicroBatch(NamedTuple):
    """The micro-batch of a streaming query that is being planned."""

    query: str
    """The id of the query, which stays the same after a restart."""
    run: str
    """The id of the query's current run."""
    number: int
    checkpoint: str
    """The folder of the query's checkpoint, as a path or URL."""


Answer = Callable[[str, MicroBatch | None], str]
"""Answers a question for a micro-batch, or for None if a query is only analysed, not run."""

Ask = Callable[[str, str], str]
"""Returns the SQL query whose single value is the answer to a question.

The second argument is SQL, with `{}` for the text of the answer, that is computed once per micro-batch.
"""


def asking(spark: SparkSession, answer: Answer) -> Ask:
    """Return a function that makes queries that call a driver function when Spark plans a micro-batch.

    Args:
        spark: a classic session.
        answer: returns a text for a question; called in the thread of the query.

    Raises:
        ValueError: if a setting of the session prevents such queries.
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
    java_session(spark).udf().register(name, _Function(spark, answer), text)

    # An error in the function would come last in Spark's message; `raise_error` puts it first.
    answered = f"IF(startswith(said, '{_FAILED}'), raise_error(substring(said, 2)), said)"

    def ask(question: str, reading: str) -> str:
        value = reading.format(f"transform(array({name}(question)), said -> {answered})[0]")
        return f"(SELECT {value} AS answer FROM VALUES ('{question}') AS asked(question))"

    # Queries hold the function itself, so the session need not keep its name.
    finalize(ask, _unused.append, (spark, name)).atexit = False
    return ask


def _drop_unused() -> None:
    while _unused:
        with suppress(IndexError, Py4JError):
            spark, name = _unused.popleft()
            java_session(spark).sessionState().catalog().dropTempFunction(name, True)


def task_times(spark: SparkSession, run: str, batch: int, tasks: int) -> list[float] | None:
    """Return how long each task of a micro-batch ran, in seconds, summed over its stages with `tasks` tasks.

    Args:
        spark: a classic session.
        run: the run of the query.
        batch: the micro-batch, which has ended.
        tasks: the number of tasks of the stages to count. Only stages that read a shuffle count.

    Returns:
        The time of each task, by its number; None if no such stage ran, or its end is not recorded yet.
    """
    try:
        return _task_times(spark, run, batch, tasks)
    except Py4JError:  # Spark records jobs before their stages
        return None


def _task_times(spark: SparkSession, run: str, batch: int, tasks: int) -> list[float] | None:
    store = java_context(spark).statusStore()
    jobs, times = store.jobsList(None), [0.0] * tasks
    found = False
    for at in range(min(jobs.size(), _LATEST_JOBS)):
        job = jobs.apply(at)
        # The description of the job has the run and the batch.
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
    """An interface of Spark, implemented in Python."""

    def __init__(self, spark: SparkSession, answer: Answer) -> None:
        self._spark, self._answer = spark, answer
        self._context = java_context(spark)
        self._last: MicroBatch | None = None

    def call(self, question: str) -> str:
        try:
            return self._answer(question, self._micro_batch())
        except Exception as error:
            _log.error(
                "the plan of a micro-batch could not be computed: %s",
                error,
                exc_info=_log.isEnabledFor(logging.DEBUG),
            )
            return f"{_FAILED}{type(error).__name__}: {error}"

    def _micro_batch(self) -> MicroBatch | None:
        batch, query, group = map(self._context.getLocalProperty, (BATCH, QUERY, _GROUP))
        if batch is None or query is None:
            return None
        last = self._last
        # Spark groups the jobs of a run by its id. If the user has set a group, the query is read each time.
        if last is None or (last.query, last.run) != (query, group):
            found = running(self._spark, query)
            last = MicroBatch(query, str(found.runId().toString()), int(batch), _folder(found))
        self._last = last = last._replace(number=int(batch))  # other queries may run in between
        return last

    class Java:
        implements = ("org.apache.spark.sql.api.java.UDF1",)


def _folder(running: Any) -> str:
    """Return the folder of the query's checkpoint, with pyarrow's URL schemes."""
    folder = str(running.resolvedCheckpointRoot())
    if folder.startswith("file:"):
        return "/" + folder.removeprefix("file:").lstrip("/")
    return renamed(folder)


class Report(NamedTuple):
    """Spark's report on a finished micro-batch."""

    batch: int
    to_dict: Callable[[], dict[str, Any]]
    """Returns the whole report as Spark's JSON."""


OnReport = Callable[[Report], None]


class Listening(Protocol):
    """Passes on Spark's reports."""

    def settle(self) -> None:
        """Wait for pending reports of Spark, at most ten seconds."""

    def stop(self) -> None:
        """Stop passing on reports."""


def session_of(query: StreamingQuery) -> SparkSession:
    """Return the session of a streaming query: only this session gets the query's reports."""
    if is_connect(query):
        found: SparkSession = query._session
        return found
    answers_at_once()
    return SparkSession(SparkContext.getOrCreate(), query._jsq.sparkSession())


def listen(
    spark: SparkSession, query: str, run: str, on_report: OnReport, ended: Callable[[], None]
) -> Listening:
    """Pass on Spark's reports on a run of a streaming query, on a separate thread.

    Args:
        spark: the session of the query.
        query: the id of the query.
        run: the id of the query's current run.
        on_report: takes the report of each micro-batch, possibly more than once.
        ended: called when the run has ended.
    """
    if not is_connect(spark):
        return _InJava(spark, run, on_report, ended)
    found = spark.streams.get(query)
    return _Asking(found if found is not None and str(found.runId) == run else None, on_report, ended)


class _InJava:
    """Listens in the JVM.

    Spark's own Python listener converts the whole report of every query of the session, with about a hundred
    calls to the JVM. This listener reads only the requested fields of one run.
    """

    def __init__(self, spark: SparkSession, run: str, on_report: OnReport, ended: Callable[[], None]) -> None:
        ensure_callback_server_started(spark.sparkContext._gateway)
        wrapper = java_class("org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper")
        self._listener = wrapper(_Listener(run, on_report, ended))
        self._streams = java_session(spark).streams()
        self._spark = spark
        self._streams.addListener(self._listener)

    def settle(self) -> None:
        settle(self._spark)

    def stop(self) -> None:
        self._streams.removeListener(self._listener)


class _Listener:
    """Spark's interface for listeners, implemented in Python."""

    def __init__(self, run: str, on_report: OnReport, ended: Callable[[], None]) -> None:
        self._run, self._on_report, self._ended = run, on_report, ended

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress()
        if progress.runId().toString() == self._run:
            self._on_report(Report(int(progress.batchId()), lambda: json.loads(progress.json())))

    def onQueryTerminated(self, event: Any) -> None:
        if event.runId().toString() == self._run:
            self._ended()

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


class _Asking:
    """Reads the reports of a Spark Connect query every second, on its own thread."""

    _EVERY_S = 1.0
    _ATTEMPTS = 10

    def __init__(self, query: StreamingQuery | None, on_report: OnReport, ended: Callable[[], None]) -> None:
        self._query, self._on_report, self._ended = query, on_report, ended
        self._stopped = threading.Event()
        threading.Thread(target=self._ask, name="keysplit observer", daemon=True).start()

    def settle(self) -> None:
        """Do nothing, because each read returns all reports."""

    def stop(self) -> None:
        self._stopped.set()

    def _ask(self) -> None:
        active, failed = True, 0
        try:
            while active and self._query is not None and not self._stopped.wait(self._EVERY_S):
                try:
                    active, found = self._query.isActive, self._query.recentProgress
                except Exception as error:  # the network is down, or the session has ended
                    failed += 1
                    if failed < self._ATTEMPTS:
                        continue
                    warn(f"a query is no longer observed: {type(error).__name__}: {error}")
                    break
                failed = 0
                for each in found:
                    self._on_report(Report(int(each["batchId"]), partial(dict, each)))
        finally:
            if not self._stopped.is_set():
                self._ended()


OnBatch = Callable[[DataFrame, int, str, str], None]
"""Takes a micro-batch, its number, the id of its query, which a restart keeps, and the id of the run."""


def for_each_batch(rows: DataFrame, function: OnBatch) -> DataStreamWriter:
    """Return a stream writer that calls a function with each micro-batch."""
    if not is_connect(rows):

        def call(batch: DataFrame, number: int) -> None:
            function(batch, number, *query_of(batch.sparkSession))

        return rows.writeStream.foreachBatch(call)
    # The function runs in a process of the server, which knows only the number of the batch.
    spark: Any = rows.sparkSession
    session, name = spark.session_id, f"keysplit {uuid.uuid4()}"

    def call_on_server(batch: DataFrame, number: int) -> None:
        function(batch, number, *_query_named(name, session))

    return rows.writeStream.queryName(name).foreachBatch(call_on_server)


def query_of(spark: SparkSession) -> tuple[str, str]:
    """Return the ids of the streaming query of this thread's micro-batch and of the query's run.

    Raises:
        LookupError: if the query is not running.
        RuntimeError: if the ids are unknown.
    """
    value = spark.sparkContext.getLocalProperty(QUERY)
    if value is None:
        raise RuntimeError(
            f"foreachBatch must run in the query's thread, but {QUERY} is not set: PYSPARK_PIN_THREAD must "
            "not be false"
        )
    return str(value), str(running(spark, value).runId().toString())


def _query_named(name: str, session: str) -> tuple[str, str]:
    """Return the ids of a named query and of its run.

    This runs in a process that the server starts for `foreachBatch`.

    Raises:
        RuntimeError: if no query has this name.
    """
    found = [each for each in _session_with(session).streams.active if each.name == name]
    if not found:
        raise RuntimeError(
            f"on Spark Connect keysplit finds the query by the name it gave it, {name!r}: do not call "
            "queryName"
        )
    return str(found[0].id), str(found[0].runId)


@cache
def _session_with(id: str) -> SparkSession:
    # From Spark 4.2 on the session of a micro-batch is a copy, which has no queries.
    server = os.environ.get("SPARK_CONNECT_LOCAL_URL")
    if server is None:
        raise RuntimeError(
            "the server of Spark Connect must tell foreachBatch its address, as Spark's own does by "
            "SPARK_CONNECT_LOCAL_URL: without this address the id of the query is unknown"
        )
    address = f"{server};session_id={id}"
    return SparkSession.builder.remote(address).create()


def watermark_ms(time: StructField) -> int | None:
    """Return the watermark's delay for a time or window in milliseconds; None without a watermark."""
    found = time.metadata.get(_WATERMARK)
    return None if found is None else int(found)


def with_watermark(time: Column, name: str, delay_ms: int) -> Column:
    """Return a time under a name, with the query's existing watermark."""
    return time.alias(name, metadata={_WATERMARK: delay_ms})


def is_session_window(window: StructField) -> bool:
    """Return whether a column is a session window."""
    return _SESSION in window.metadata
