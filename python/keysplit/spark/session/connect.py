"""Spark Connect: the client's own expressions, and what the server says of its plans."""

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from pyspark.sql.types import StructField, StructType

from keysplit.spark.session import conversion_settings, costs, physical, relations, versions
from keysplit.spark.session.interface import (
    Answer,
    Ask,
    Determinism,
    Joining,
    Listening,
    OnBatch,
    OnReport,
    Tally,
)
from keysplit.spark.session.joins import JoinOfNames
from keysplit.spark.warn import warn

_NO_ADAPT = "plan must be a Plan on Spark Connect: the server cannot ask the client for the next plan"
_READ_TOGETHER = (
    "spark.sql.caseSensitive",
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.columnNameOfCorruptRecord",
    costs.THRESHOLD,
    *(name for name, _ in conversion_settings.SETTINGS.values()),
)
"""The settings that operations ask for: the server is asked for all of them at once."""


class Connect:
    """A session of Spark Connect, in one call: what is asked for twice is read once."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def slots(self) -> int | None:
        """How many tasks run at once; the server does not say."""
        return None

    def setting(self, name: str) -> str | None:
        """Return the value of a setting; None if there is none, or if nobody may read it."""
        if name in self._read_together:
            return self._read_together[name]
        try:
            value: str | None = self._spark.conf.get(name)
        except PySparkException:
            return None
        return value

    def settings(self, defaults: Iterable[tuple[str, str]]) -> list[str]:
        """Return the values of settings, given by their names and what they are where Spark has none."""
        names = dict(defaults)
        known = names.keys() <= self._read_together.keys()
        found = self._read_together if known else self._read(names)
        values = ((found.get(name), default) for name, default in names.items())
        return [default if value is None else value for value, default in values]

    @cached_property
    def _read_together(self) -> dict[str, str | None]:
        try:
            return self._read(_READ_TOGETHER)
        except PySparkException:  # a service may refuse all of them for one
            return {}

    def _read(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return the values of settings by one request, None for those that Spark does not have."""
        from pyspark.sql.connect.proto import ConfigRequest

        client: Any = self._spark.client
        # with defaults the server would return these instead of Spark's own
        wanted = ConfigRequest.Operation(get_option=ConfigRequest.GetOption(keys=list(names)))
        return dict(client.config(wanted).pairs)

    def arrow(self, df: DataFrame) -> pa.Table:
        """Run a query in one job and return its rows; without rows the types may be others."""
        if versions.has_to_arrow(df):
            return df.toArrow()
        return pa.Table.from_pandas(df.toPandas(), preserve_index=False)

    def determinism(self, df: DataFrame, trusted: frozenset[str], anew: str | None = None) -> Determinism:
        """Return which columns of a DataFrame have the same values when tasks are retried; run nothing."""
        plan = df._plan.to_proto(df.sparkSession._client).root
        return relations.Walk(trusted, anew, self.setting, self._schema_of_relation).of(plan, df.columns)

    def _schema_of_relation(self, relation: Any) -> StructType:
        """Ask the server for the schema of a relation, such as a source."""
        from pyspark.sql.connect.proto import Plan

        client: Any = self._spark.client
        found: StructType = client.schema(Plan(root=relation))
        return found

    def is_deterministic(self, df: DataFrame) -> bool:
        """Return False: only the server knows."""
        return False

    def disorder(self, df: DataFrame, deterministic: bool) -> str | None:
        """Return why rows may come in another order when a task is retried, None if they do not."""
        return "a stream" if df.isStreaming else physical.disorder_in(df._explain_string(mode="formatted"))

    def beyond_a_scan(self, df: DataFrame) -> str | None:
        """Return what makes reading a DataFrame dear: a shuffle or Python; None if it is a scan."""
        return costs.beyond_a_scan(df._explain_string())

    def size(self, df: DataFrame) -> int | None:
        """Return None: a client may not ask."""
        return None

    def joins_by_broadcast(self, df: DataFrame) -> bool:
        """Say whether Spark would compute a join, the topmost of a query, by a broadcast of one side."""
        return bool(costs.joins_by_broadcast(df._explain_string()))

    def joining(
        self,
        plain: DataFrame,
        left: DataFrame,
        right: DataFrame,
        on: Sequence[str],
        where: Column | None = None,
    ) -> Joining:
        """Take apart `plain`, which is `left.join(right, on, how)`."""
        return JoinOfNames(left, right, on, where)

    def schema_of(self, df: DataFrame) -> StructType:
        """Return the schema of a DataFrame, which must not be changed: a copy of a wide one takes long."""
        found = getattr(df, "_schema", None)  # from Spark 4.0 on
        return found if isinstance(found, StructType) else df.schema

    def schema(self, ddl: str) -> StructType:
        """Return a schema written as DDL."""
        # `createDataFrame` would begin with this, and then ask for the schema of no rows
        found = self._spark.client._analyze(method="ddl_parse", ddl_string=ddl).parsed
        return found if isinstance(found, StructType) else StructType([StructField("value", found)])

    def asks_driver(self, df: DataFrame, answer: Answer) -> Ask:
        """Refuse: the server knows no function of this process."""
        raise ValueError(_NO_ADAPT)

    def tally(self, counters: int) -> Tally:
        """Refuse: the client cannot put calls of Java into the server's code."""
        raise ValueError(_NO_ADAPT)

    def task_times(self, run: str, batch: int, tasks: int) -> list[float] | None:
        """Return None: the client does not see tasks."""
        return None

    def listen(self, query: str, run: str, on_report: OnReport, ended: Callable[[], None]) -> Listening:
        """Pass on what Spark reports of a run of a streaming query, on another thread."""
        found = self._spark.streams.get(query)
        return _Asking(found if found is not None and str(found.runId) == run else None, on_report, ended)

    def places_in_topics(self, df: DataFrame) -> list[str] | None:
        """Raise ValueError: the client does not know."""
        raise ValueError("kss.online must be used on a classic session, got one of Spark Connect")

    def for_each_batch(self, rows: DataFrame, function: OnBatch) -> DataStreamWriter:
        """Return the writer of a stream that calls a function with each micro-batch."""
        # The function runs in a process of the server, which is told no more than the number of the batch.
        session, name = self._spark.session_id, f"keysplit {uuid.uuid4()}"

        def call(batch: DataFrame, number: int) -> None:
            function(batch, number, *_query_named(name, session))

        return rows.writeStream.queryName(name).foreachBatch(call)


class _Report:
    """A progress of Spark as the client has it; this is a `keysplit.spark.session.Report`."""

    def __init__(self, progress: dict[str, Any]) -> None:
        self._progress = progress
        self.batch = int(progress["batchId"])

    def to_dict(self) -> dict[str, Any]:
        """Return all of it."""
        return self._progress


def _query_named(name: str, session: str) -> tuple[str, str]:
    """Return the ids of a query of a session and of its run.

    It is asked in a process that the server has started for `foreachBatch`.

    Raises:
        RuntimeError: if the query has another name.
    """
    found = [each for each in _session_of(session).streams.active if each.name == name]
    if not found:
        raise RuntimeError(
            f"on Spark Connect the query must keep its name, by which its id is found, {name!r}: leave out "
            "queryName"
        )
    return str(found[0].id), str(found[0].runId)


@cache
def _session_of(id: str) -> SparkSession:
    # From Spark 4.2 on the session of a micro-batch is a copy, which has no queries.
    server = os.environ.get("SPARK_CONNECT_LOCAL_URL")
    if server is None:
        raise RuntimeError(
            "the server of Spark Connect must say to foreachBatch where it is, as Spark's own does by "
            "SPARK_CONNECT_LOCAL_URL: without that the id of the query is unknown"
        )
    address = f"{server};session_id={id}"
    return SparkSession.builder.remote(address).create()


class _Asking:
    """Asks a query for its reports every second, on a thread of its own."""

    _EVERY_S = 1.0
    _ATTEMPTS = 10

    def __init__(self, query: StreamingQuery | None, on_report: OnReport, ended: Callable[[], None]) -> None:
        self._query, self._on_report, self._ended = query, on_report, ended
        self._stopped = threading.Event()
        threading.Thread(target=self._ask, name="keysplit observer", daemon=True).start()

    def settle(self) -> None:
        """Do nothing: who asks, gets what there is."""

    def stop(self) -> None:
        """Pass on no more."""
        self._stopped.set()

    def _ask(self) -> None:
        active, failed = True, 0
        try:
            while active and self._query is not None and not self._stopped.wait(self._EVERY_S):
                try:
                    active, found = self._query.isActive, self._query.recentProgress
                except Exception as error:  # the network is down, or its session is gone
                    failed += 1
                    if failed < self._ATTEMPTS:
                        continue
                    warn(f"a query is no longer observed: {type(error).__name__}: {error}")
                    break
                failed = 0
                for each in found:
                    self._on_report(_Report(each))
        finally:
            if not self._stopped.is_set():
                self._ended()
