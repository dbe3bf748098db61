"""How the progress of a query comes: by a listener on classic sessions, by asking on Spark Connect."""

import threading
from collections.abc import Callable
from typing import Any, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener

from keysplit.spark.session import is_connect, session_of_query
from keysplit.spark.warn import warn

Hear = Callable[[Any], None]


class Hearing(Protocol):
    """Passes on the progress of a query until it ends."""

    def stop(self) -> None:
        """Pass on no more."""


def hearing_of(query: StreamingQuery, hear: Hear, ended: Callable[[], None]) -> Hearing:
    """Begin to pass on the progress of a query.

    Args:
        query: the query.
        hear: takes each progress, maybe more than once.
        ended: is called once the query has ended.
    """
    if is_connect(query):
        return _Asking(query, hear, ended)
    return _Listening(session_of_query(query), str(query.runId), hear, ended)


class _Listening(StreamingQueryListener):  # type: ignore[misc]
    def __init__(self, spark: SparkSession, run: str, hear: Hear, ended: Callable[[], None]) -> None:
        self._spark, self._run, self._hear, self._ended = spark, run, hear, ended
        spark.streams.addListener(self)

    def stop(self) -> None:
        self._spark.streams.removeListener(self)

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        if str(event.progress.runId) == self._run:
            self._hear(event.progress)

    def onQueryTerminated(self, event: Any) -> None:
        if str(event.runId) == self._run:
            self._ended()


class _Asking:
    """Asks every second, on a thread of its own."""

    _EVERY_S = 1.0

    def __init__(self, query: StreamingQuery, hear: Hear, ended: Callable[[], None]) -> None:
        self._query, self._hear, self._ended = query, hear, ended
        self._stopped = threading.Event()
        threading.Thread(target=self._ask, name="keysplit observer", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _ask(self) -> None:
        active = True
        while active and not self._stopped.wait(self._EVERY_S):
            try:
                active, found = self._query.isActive, self._query.recentProgress
            except Exception as error:  # its session is gone
                warn(f"a query is no longer observed: {type(error).__name__}: {error}")
                break
            for each in found:
                self._hear(each)
        if not self._stopped.is_set():
            self._ended()
