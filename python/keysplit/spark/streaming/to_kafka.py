"""`streaming.to_kafka`: send the rows of a stream to the partitions of a topic by a plan, exactly once."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.types import BinaryType, StringType

from keysplit.plan import Plan
from keysplit.spark.checks import by_name, check_whole, refuse_batch
from keysplit.spark.expr.hashes import identity_of, row_hash_in_sql
from keysplit.spark.frame import Columns
from keysplit.spark.names import quoted
from keysplit.spark.strategy import took, way_of
from keysplit.spark.streaming.adapt import Adapt
from keysplit.spark.streaming.adapting import plans_in
from keysplit.spark.streaming.engine import for_each_batch
from keysplit.spark.streaming.placing import StreamRequest, built, check, place_of_log, routed_and_placed

_HEADERS = "array<struct<key:string,value:binary>>"


@by_name
def to_kafka(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    topic: str,
    servers: str,
    plan: Plan | Adapt,
    settings: Mapping[str, Any] | None = None,
    first_batch: int = 0,
) -> DataStreamWriter:
    """Send the rows of a stream to the partitions of a Kafka topic by a plan, each exactly once.

    Guarantees: a consumer that reads committed messages sees each row once, even after failed tasks and
        killed drivers, if the query restarts from its checkpoint. A task sends the rows of one partition in
        one transaction, together with the number of the micro-batch; a retried task finds this number and
        sends nothing. The rows of a micro-batch become visible partition by partition.

    A retried micro-batch must have the same rows: the values of rows may differ, but not the number of rows
    or their partitions. So an error is raised unless the rows and keys of the query are proved to be
    deterministic. `plan`, `row_id` and the plan log may change only between complete micro-batches: if a part
    of a micro-batch was sent before the change, the query fails with a RuntimeError.

    Args:
        df: a streaming DataFrame with the column `value`, and optionally `key` and `headers`, as for Spark's
            own sink: strings or binary, and an array of (key, value). Other columns are not sent.
        key: the key columns of the plan, often "key".
        topic: the topic; its partitions are the workers.
        servers: the addresses of some brokers, "host:port,host:port".
        plan: as in `streaming.route`, with as many workers as the topic has partitions.
        settings: further settings for Kafka's client (librdkafka), such as security, compression, and
            `transaction.timeout.ms`, the time limit for sending a partition, one minute if omitted.
        first_batch: the number of this sink's first micro-batch, if the query had a different sink before.

    Returns:
        The writer of the rows: continue with `.option("checkpointLocation", ...)` and `.start()`. On Spark
        Connect the writer has a `queryName`, which must not be changed.

    Raises:
        ImportError: if confluent-kafka is not installed. The executors need confluent-kafka and keysplit,
            too; on Spark Connect the server needs both as well.
        TypeError: as in `streaming.route`, or if a column to send has the wrong type.
        ValueError: as in `streaming.route`; if `df` is a batch or has no column `value`; if a retried
            micro-batch may have different rows or keys; if there is no such topic, or the numbers of its
            partitions and of the plan's workers differ; if Kafka's client rejects `settings`, or they include
            a setting that keysplit sets.
        ConnectionError: if no broker answers.

    Source:
        docs/streaming.md, "Kafka".

    Deviations:
        As in `Adapt`.

    Example:
        >>> writer = kss.streaming.to_kafka(  # doctest: +SKIP
        ...     events, "key", topic="words", servers="localhost:9092", plan=kss.streaming.Adapt(8)
        ... )
        >>> query = writer.option("checkpointLocation", where).start()  # doctest: +SKIP
    """
    from keysplit.kafka.topics import partitions_of, settings_of  # these need the extra

    refuse_batch(df, ": its rows have no micro-batch")
    check_whole("first_batch", first_batch, 0)
    sent = _sent(Columns(df))
    request = check(df, key, plan)
    partitions = partitions_of(topic, servers, settings)
    deciding = [*request.keys, *(identity_of(request) if _splits(request) else ())]
    request.query.refuse_unrepeatable(deciding, "because a retried micro-batch sends the rest")
    if request.workers != partitions:
        raise ValueError(
            f"plan must have one worker per partition: topic {topic!r} has {partitions} partitions, the "
            f"plan has {request.workers} workers; use plan.with_workers({partitions})"
        )

    def build(request: StreamRequest) -> DataFrame:
        partition = F.col(quoted(request.worker_column)).alias("partition")
        return routed_and_placed(request).select(*sent, partition)

    rows = built(request, build)
    target = _Target(topic, _rule(request), first_batch, settings_of(servers, settings))
    adapts, begun = request.adapt is not None, set[str]()

    def send(batch: DataFrame, number: int, query: str, run: str) -> None:
        # Spark has planned the micro-batch, so its plan is known.
        now = target.going_by(plans_in(run, number)) if adapts else target
        if run not in begun:  # later batches of a run are first attempts
            begun.add(run)
            if now.resume(query, number, partitions):
                batch.count()  # for the state upstream
                return
        batch.mapInArrow(now.sender(query, number), "sent bigint").collect()

    return took(for_each_batch(rows, send), way_of(rows))


def _splits(request: StreamRequest) -> bool:
    return request.adapt is not None or (request.plan is not None and request.plan.splits)


def _rule(request: StreamRequest) -> str:
    """Return a name for the rule that places a micro-batch's rows; it does not cover plans in a plan log."""
    hash_ = hashlib.sha256(repr((request.keys, request.params.seed)).encode())
    if _splits(request):
        hash_.update(row_hash_in_sql(request).encode())
    if request.adapt is not None:
        hash_.update(place_of_log(request).encode())
    elif request.plan is not None:
        for table in astuple(request.plan.tables):
            hash_.update(table.tobytes())
    return hash_.hexdigest()[:16]


def _sent(columns: Columns) -> list[Column]:
    """Return the parts of each row to send: key, value and headers."""
    if "value" not in columns:
        raise ValueError(f"df must have a column 'value' to send, got {columns.names}")
    found = []
    for name in ("key", "value"):
        type_ = columns.type_of("df", name) if name in columns else None
        if type_ is not None and not isinstance(type_, BinaryType | StringType):
            raise TypeError(f"{name} must be a string or binary column, got {type_.simpleString()}")
        column = F.lit(None) if type_ is None else F.col(name)
        found.append(column.cast("binary").alias(name))
    if "headers" not in columns:
        return [*found, F.lit(None).cast(_HEADERS).alias("headers")]
    kind = columns.type_of("df", "headers").simpleString()
    if kind != _HEADERS:
        raise TypeError(f"headers must be a column of type {_HEADERS}, got {kind}")
    return [*found, F.col("headers")]


@dataclass(frozen=True)
class _Target:
    """Where executors send the rows."""

    topic: str
    rule: str
    first: int
    settings: dict[str, Any]

    def going_by(self, plan: str) -> "_Target":
        """Return the target for a micro-batch that uses a plan from the plan log; "" for no such plan."""
        return replace(self, rule=f"{self.rule} {plan}")

    def resume(self, query: str, number: int, partitions: int) -> bool:
        """Return whether a micro-batch was sent; raise RuntimeError if a different rule sent a part."""
        from keysplit.kafka.once import Batch, resume

        return resume(Batch(query, self.rule, number, self.first, self.topic, 0), partitions, self.settings)

    def sender(
        self, query: str, number: int
    ) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the function with which a micro-batch's task sends its rows, all of one partition."""

        def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from keysplit.kafka.once import Batch, send_once

            partition = TaskContext.get().partitionId()
            batch = Batch(query, self.rule, number, self.first, self.topic, partition)
            sent = send_once(batch, _messages(batches, partition), self.settings)
            for _ in batches:  # Spark expects its rows to be read, even if none are sent
                pass
            yield pa.RecordBatch.from_arrays([pa.array([sent])], ["sent"])

        return send


def _messages(batches: Iterator[pa.RecordBatch], partition: int) -> Iterator[Any]:
    from keysplit.kafka.once import Message

    for batch in batches:
        keys, values, headers = (batch.column(at).to_pylist() for at in range(3))
        if others := set(batch.column(3).to_pylist()) - {partition}:
            raise RuntimeError(f"task {partition} must have the rows of its partition, got rows of {others}")
        for key, value, header in zip(keys, values, headers, strict=True):
            pairs = header and [(each["key"], each["value"]) for each in header if each is not None]
            yield Message(key, value, pairs)
