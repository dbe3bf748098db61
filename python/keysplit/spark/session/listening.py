"""What classic sessions report of the micro-batches of a query.

Spark's own listener in Python converts all of each report, of all queries of the session, by some hundred
calls to the JVM. This one reads what is asked for, of one run.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from keysplit.spark.session.interface import OnReport
from keysplit.spark.session.jvm import java_class

_SETTLED_MS = 10_000


def settle(context: SparkContext) -> None:
    """Let Spark work off its events, ten seconds at most."""
    with suppress(Py4JError):  # it has more to say than it can in that time
        context._jsc.sc().listenerBus().waitUntilEmpty(_SETTLED_MS)


class ListeningInJava:
    """Passes on what Spark reports of a run of a query; this is a `keysplit.spark.session.Listening`."""

    def __init__(self, spark: SparkSession, run: str, on_report: OnReport, ended: Callable[[], None]) -> None:
        ensure_callback_server_started(spark.sparkContext._gateway)
        wrapper = java_class("org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper")
        listener = _Listener(run, lambda progress: on_report(_Report(progress)), ended)
        self._listener = wrapper(listener)
        self._streams = spark._jsparkSession.streams()
        self._context = spark.sparkContext
        self._streams.addListener(self._listener)

    def settle(self) -> None:
        """Let Spark report what has happened, ten seconds at most."""
        settle(self._context)

    def stop(self) -> None:
        """Pass on no more."""
        self._streams.removeListener(self._listener)


class _Report:
    """A progress of Spark, in the JVM; this is a `keysplit.spark.session.Report`."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self.batch = int(progress.batchId())

    def to_dict(self) -> dict[str, Any]:
        """Return all of it."""
        found: dict[str, Any] = json.loads(self._progress.json())
        return found


class _Listener:
    """What Spark calls: its interface for listeners in Python."""

    def __init__(self, run: str, report: Callable[[Any], None], ended: Callable[[], None]) -> None:
        self._run, self._report, self._ended = run, report, ended

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress()
        if progress.runId().toString() == self._run:
            self._report(progress)

    def onQueryTerminated(self, event: Any) -> None:
        if event.runId().toString() == self._run:
            self._ended()

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
