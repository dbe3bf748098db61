"""What an action of a classic session computes beside its result, and whether it has ended well.

Spark completes an observation whether its action ended or failed. Its listeners are told which of the two,
before a session that is stopped is gone.
"""

from contextlib import suppress
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary, ref

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Observation, SparkSession

from keysplit.spark.session.listening import settle
from keysplit.spark.warn import warn


class Observed:
    """An observation that can be asked without waiting for it; this is a `keysplit.spark.session.Observed`.

    Args:
        spark: the session.
        observation: the observation, which no action has yet.
    """

    def __init__(self, spark: SparkSession, observation: Observation) -> None:
        self._observation = observation
        self._context = ref(spark.sparkContext)
        self._failed: bool | None = None  # until its first action has ended
        try:
            _listener_of(spark).wait_for(observation._name, self)
        except (OSError, Py4JError) as error:  # the job goes on, and nobody knows how it ends
            warn(f"runs by plans are not counted, as Spark cannot call Python: {error}")
            self._failed = True

    def ended(self, failed: bool) -> None:
        """Say how the first action has ended."""
        self._failed = failed

    def peek(self) -> Any:
        """Return the figure, None as long as no action has ended."""
        if self._failed:
            raise LookupError("the action failed: Spark has what its first tasks have counted")
        if self._failed is None:
            if self._running() is None:
                raise LookupError("the session has been stopped")
            return None
        future = self._observation._jo.future()
        if not future.isCompleted():
            return None
        if future.value().get().isFailure():  # to ask for it would log the error again
            raise LookupError("Spark has no figures where another query on the rows could not be analysed")
        return next(iter(self._observation.get.values()))

    def settle(self) -> None:
        """Let Spark work off its events, ten seconds at most."""
        context = self._running()
        if context is not None:
            settle(context)

    def _running(self) -> SparkContext | None:
        context = self._context()
        return None if context is None or context._jsc is None else context


class _Listener:
    """What Spark calls when an action has ended: its interface for that, implemented in Python."""

    def __init__(self) -> None:
        self._lock = Lock()
        # By their names, as long as somebody wants to know.
        self._waiting: WeakValueDictionary[str, Observed] = WeakValueDictionary()

    def wait_for(self, name: str, observed: Observed) -> None:
        """Say how the first action of an observation ends."""
        with self._lock:
            self._waiting[name] = observed

    def onSuccess(self, name: str, execution: Any, duration_ns: int) -> None:
        self._ended(execution, False)

    def onFailure(self, name: str, execution: Any, error: Any) -> None:
        # a query that Spark could not analyse is no action; to ask for its figures would log the error again
        if not str(error.getClass().getName()).endswith("AnalysisException"):
            self._ended(execution, True)

    def _ended(self, execution: Any, failed: bool) -> None:
        with self._lock:
            waiting = list(self._waiting)
        if not waiting:
            return
        with suppress(Py4JError, PySparkException):  # a query that Spark could not plan has no figures
            metrics = execution.observedMetrics()
            for name in waiting:
                if metrics.contains(name):
                    found = self._waiting.pop(name, None)
                    if found is not None:
                        found.ended(failed)

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


# By the ids of their sessions: `foreachBatch` gets another object for the same session in each micro-batch.
_listeners: dict[str, _Listener] = {}


def _listener_of(spark: SparkSession) -> _Listener:
    session = spark._jsparkSession
    id_ = session.sessionUUID()
    if id_ not in _listeners:
        ensure_callback_server_started(spark.sparkContext._gateway)
        listener = _Listener()
        session.listenerManager().register(listener)
        _listeners[id_] = listener
    return _listeners[id_]
