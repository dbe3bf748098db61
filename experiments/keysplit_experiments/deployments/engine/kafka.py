"""A stream from Kafka to Kafka on an emulated cluster: split, workers, an aggregator, and an observer."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import keysplit as ks
from keysplit import metrics
from keysplit_experiments.deployments.engine import reports
from keysplit_experiments.deployments.engine.broker import Broker, folder_of_jars
from keysplit_experiments.deployments.engine.reports import Reports
from keysplit_experiments.deployments.engine.segment import KEY, as_column, check_messages, plain_count
from keysplit_experiments.deployments.engine.session import memory_mb, session
from keysplit_experiments.harness import Figures

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import StreamingQuery

ID, AT = "id", "at"
PATIENCE_S = 120.0
"""Longest time that a message, a micro-batch or its figures are waited for."""

_EACH_S = 0.02
_MESSAGE = pa.struct([(KEY, pa.string()), (ID, pa.int64()), (AT, pa.float64())])


def need_kafka() -> None:
    """Check that a broker can be started.

    Raises:
        FileNotFoundError: If its jars are missing.
        ImportError: If confluent-kafka is missing.
    """
    import keysplit.kafka.client  # noqa: F401

    folder_of_jars()


@cache
def broker() -> Broker:
    """Return the broker of all runs, which ends with the program."""
    need_kafka()
    folder = Path(tempfile.mkdtemp(prefix="keysplit-kafka-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    started = Broker(folder)
    atexit.register(started.stop)
    return started


def run(
    params: ks.Grouping,
    keys: Any,
    *,
    sources: int,
    batches: int = 1,
    service_time_s: float,
    rate_per_s: float | None = None,
    follow: bool = False,
) -> Figures:
    """Send a stream from a topic of Kafka through sources, workers and an aggregator to another one.

    A source is a partition of the topic, and gets the messages in turn. In each micro-batch it reads its next
    messages and splits them. The workers wait for each other, then each serves its queue and counts keys. The
    aggregator adds up the counts and sends the totals in one transaction.

    Args:
        params: The grouping.
        keys: The stream, as routers accept it; what does not fill a micro-batch at its end is left out.
        sources: Number of sources.
        batches: Number of micro-batches. The second half of several is measured.
        service_time_s: Seconds that a message takes a worker.
        rate_per_s: Messages that are sent to the topic per second once the first micro-batch is done. If
            None, all are there from the start.
        follow: Whether a plan follows the grouping, instead of a router per source that routes each message
            and goes on from micro-batch to micro-batch.

    Returns:
        The figures of [`figures`][keysplit_experiments.deployments.engine.reports.figures], with latencies
        from the start of the workers of a micro-batch. Next to them, as the observer has them, the standard
        deviation of loads in per cent (`load_stddev`), and the mean number of workers per key of the whole
        stream (`replication`); the simulator's (`simulated_balance`, `simulated_stddev`,
        `simulated_replication`); percentiles from Kafka's timestamp of a message to the commit of its
        micro-batch's totals (`result_p50_latency_s`, ...), if messages arrive at a rate; whether a plan is
        followed (`by_plan`), and then how far the observer of the query is from the workers' own count of
        loads (`observer_apart`); the memory in megabytes, the broker's included, and how long all took in
        seconds.

    Raises:
        ValueError: If a source has no message in a micro-batch.
        RuntimeError: If the totals in the topic are wrong, or something does not come in time.
    """
    column = as_column(keys).cast(pa.string())
    check_messages(len(column), sources, batches)
    from pyspark.sql import functions as F

    from keysplit import spark as kss

    began = time.time()
    spark = session(max(sources, params.workers))
    column = column[: len(column) // (sources * batches) * sources * batches]
    per_batch = len(column) // batches
    name = f"keysplit-{uuid.uuid4()}"
    words = broker().create_topic(f"{name}-words", sources)
    served = _Served(params.workers, service_time_s, broker().create_topic(f"{name}-totals", 1), batches)
    sending = _Sending(column, words, sources, per_batch if rate_per_s else len(column), rate_per_s)
    served.after_first = sending.start
    rates = spark.readStream.format("rate-micro-batch").option("numPartitions", sources)
    ranges = rates.option("rowsPerBatch", sources).load()
    message = F.explode(_reading(words, sources, per_batch // sources, batches)("value")).alias("message")
    with tempfile.TemporaryDirectory(prefix="keysplit-deployment-", ignore_cleanup_errors=True) as folder:
        split = _split(ranges.select(message).select("message.*"), params, folder, follow)
        writer = split.writeStream.foreachBatch(served).trigger(processingTime="0 seconds")
        query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
        observer = kss.streaming.observe(query) if follow else None
        try:
            served.wait(query)
            memory = memory_mb()
            apart = None if observer is None else _apart(observer, served.stages)
        finally:
            query.stop()
            sending.join()
    reports.check(totals_of(served.topic), plain_count(column))
    half = batches // 2
    measured = reports.joined(served.stages[half:])
    found = {
        **reports.figures(measured),
        "load_stddev": metrics.load_stddev(measured.loads),
        "replication": served.replication(),
        **simulated(params, column, half * per_batch, sources),
        "by_plan": follow,
        "memory_mb": memory,
        "took_s": time.time() - began,
    }
    if rate_per_s is not None:
        found |= reports.percentiles(np.concatenate(served.results_s[half:]), "result_")
    if apart is not None:
        found["observer_apart"] = apart
    return found


def simulated(params: ks.Grouping, keys: pa.Array, first: int, sources: int) -> Figures:
    """Simulate the same stream: how balanced the loads are after the first messages, and workers per key."""
    before, after = (ks.simulate(params, part, sources=sources, samples=0) for part in (keys[:first], keys))
    loads = after.loads - before.loads
    return {
        "simulated_balance": reports.balance(loads),
        "simulated_stddev": metrics.load_stddev(loads),
        "simulated_replication": after.replication,
    }


def totals_of(topic: str) -> dict[str, int]:
    """Add up the totals of all micro-batches that are committed in a topic, by key."""
    totals: Counter[str] = Counter()
    for message in broker().read(topic):
        key, value = message.key(), message.value()
        if key is None or value is None:
            raise RuntimeError(f"a message of {topic} has no key or no total")
        totals[key.decode()] += int(value)
    return totals


class _Served:
    """What is done with each micro-batch: the workers, the aggregator, and what they report."""

    def __init__(self, workers: int, service_time_s: float, topic: str, batches: int) -> None:
        from keysplit_experiments.deployments.engine.working import Working

        self.topic, self._workers, self._batches = topic, workers, batches
        self._work = Working(KEY, service_time_s, tag=AT, together=True)
        self._pairs: set[tuple[int, str]] = set()
        self.stages: list[Reports] = []
        self.results_s: list[NDArray[np.float64]] = []
        self.after_first: Callable[[], None] = lambda: None

    def __call__(self, df: DataFrame, batch: int) -> None:
        from pyspark.sql import functions as F

        from keysplit_experiments.deployments.engine.working import REPORT

        if batch >= self._batches:  # the query goes on until it is stopped
            return
        worked = df.mapInArrow(self._work, REPORT, barrier=True).persist()
        try:
            found = worked.toPandas()
            pairs = worked.select(F.explode(F.arrays_zip("keys", "counts")).alias("pair"))
            totals = pairs.groupBy("pair.keys").agg(F.sum("pair.counts").alias("n")).coalesce(1)
            sent = totals.mapInArrow(_aggregator(self.topic, batch), "committed double")
            committed = float(sent.toPandas()["committed"][0])
        finally:
            worked.unpersist()
        parts = found[found["messages"] > 0]  # a worker begins with a report that has none
        for worker, by_key in zip(parts["worker"], parts["keys"], strict=True):
            self._pairs.update((worker, key) for key in by_key)
        self.results_s.append(committed - np.concatenate(parts["tags"].to_list()))
        self.stages.append(reports.read(found, self._workers))
        if batch == 0:
            self.after_first()

    def replication(self) -> float:
        """Return the mean number of workers per key."""
        workers, by_key = zip(*sorted(self._pairs), strict=True)
        return float(metrics.replication(list(by_key), np.array(workers, dtype=np.uint32)))

    def wait(self, query: StreamingQuery) -> None:
        """Wait until all micro-batches are done."""
        while len(self.stages) < self._batches:
            if query.awaitTermination(0.1):
                raise RuntimeError("the query ended before all its micro-batches were done")


@cache
def _producer() -> Any:
    """Return the producer of all runs, which neither loses nor doubles messages, and keeps their order."""
    from keysplit.kafka.client import client

    settings: dict[str, Any] = {"enable.idempotence": True, "queue.buffering.max.messages": 1_000_000}
    return client.Producer({**settings, "log_level": 2, "bootstrap.servers": broker().servers})


class _Sending(threading.Thread):
    """Sends the first messages at once, and, when it is started, the others at a rate."""

    def __init__(
        self, keys: pa.Array, topic: str, sources: int, first: int, rate_per_s: float | None
    ) -> None:
        super().__init__(daemon=True)
        self._producer = _producer()
        self._keys, self._topic, self._sources = keys, topic, sources
        self._first, self._rate_per_s = first, rate_per_s
        self._stopped = threading.Event()
        self._send(0, first)
        if self._producer.flush(PATIENCE_S):
            raise RuntimeError(f"topic {topic} did not take its messages in time")

    def run(self) -> None:
        began, sent = time.time(), self._first
        while self._rate_per_s is not None and sent < len(self._keys) and not self._stopped.wait(_EACH_S):
            due = min(len(self._keys), self._first + int((time.time() - began) * self._rate_per_s))
            self._send(sent, due)
            sent = due
        self._producer.flush(PATIENCE_S)

    def join(self, timeout: float | None = None) -> None:
        """Stop sending, and wait for the end."""
        self._stopped.set()
        if self.is_alive():
            super().join(timeout)

    def _send(self, first: int, end: int) -> None:
        for position, key in enumerate(self._keys[first:end].to_pylist(), first):
            self._producer.produce(self._topic, key, partition=position % self._sources)
            if position % 1000 == 0:
                self._producer.poll(0)


def _split(df: DataFrame, params: ks.Grouping, folder: str, follow: bool) -> DataFrame:
    from keysplit import spark as kss

    # a range of offsets always has the same messages in the same order
    trust = ["read_ranges"]
    if follow:
        adapt = kss.streaming.Adapt(grouping=params, row_id=ID, trust=trust)
        return kss.streaming.repartition(df, KEY, plan=adapt)
    return kss.online.repartition(df, KEY, params, state=f"{folder}/routers", trust=trust)


def _reading(topic: str, sources: int, size: int, batches: int) -> Callable[[str], Column]:
    """Make a function that reads ranges of offsets: number n is range n // sources of partition n % sources.

    Args:
        topic: Its name.
        sources: Number of its partitions.
        size: Messages of a range.
        batches: Number of ranges of a partition; those after them are empty.
    """
    from pyspark.sql import functions as F

    servers = broker().servers

    def read_ranges(numbers: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for batch in numbers:
            lists = []
            for number in batch.to_pylist():
                place, partition = divmod(number, sources)
                count = size if place < batches else 0
                values, at = _fetch(servers, topic, partition, place * size, count)
                ids = (place * size + np.arange(count)) * sources + partition
                columns = [pa.array(values, pa.string()), pa.array(ids), pa.array(at, pa.float64())]
                messages = pa.StructArray.from_arrays(columns, fields=list(_MESSAGE))
                lists.append(pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), messages))
            yield pa.concat_arrays(lists) if lists else pa.array([], pa.list_(_MESSAGE))

    schema = f"array<struct<{KEY}:string,{ID}:bigint,{AT}:double>>"
    function: Callable[[str], Column] = F.arrow_udf(read_ranges, schema)
    return function


def _fetch(servers: str, topic: str, partition: int, first: int, size: int) -> tuple[list[str], list[float]]:
    """Read the messages of a range of offsets, and their timestamps, in seconds; wait until all are there."""
    from keysplit.kafka.client import client

    settings: dict[str, Any] = {
        "group.id": "splitters",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 20,
        "log_level": 2,
    }
    consumer = client.Consumer({**settings, "bootstrap.servers": servers})
    consumer.assign([client.TopicPartition(topic, partition, first)])
    values: list[str] = []
    at: list[float] = []
    end = time.monotonic() + PATIENCE_S
    while len(values) < size:
        if time.monotonic() > end:
            raise RuntimeError(f"offset {first + len(values)} of {topic}-{partition} did not come in time")
        for message in consumer.consume(size - len(values), 0.2):
            value = message.value()
            if message.error() is not None or value is None:
                raise client.KafkaException(message.error())
            values.append(value.decode())
            at.append(message.timestamp()[1] / 1000)
    consumer.close()
    return values, at


def _aggregator(topic: str, number: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that sends the totals of a micro-batch, once, and says when they were committed."""
    settings = {"bootstrap.servers": broker().servers, "log_level": 2}

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from keysplit.kafka.once import Batch, Message, send_once

        messages = [
            Message(key.encode(), str(total).encode(), None)
            for batch in batches
            for key, total in zip(*(batch.column(place).to_pylist() for place in (0, 1)), strict=True)
        ]
        send_once(Batch("aggregator", "totals", number, 0, topic, 0), messages, settings)
        yield pa.RecordBatch.from_arrays([pa.array([time.time()])], ["committed"])

    return send


def _apart(observer: Any, stages: list[Reports]) -> float:
    """Return by how much the observer's deviations of loads differ from those of reports, at most."""
    end = time.monotonic() + PATIENCE_S
    while len(history := observer.history()) < len(stages):
        if time.monotonic() > end:
            raise RuntimeError(f"the observer has heard of {len(history)} of {len(stages)} micro-batches")
        time.sleep(0.1)
    own = [metrics.load_stddev(stage.loads) for stage in stages]
    heard = history.set_index("batch")["load_stddev"].loc[: len(own) - 1].to_numpy(dtype=float)
    return float(np.abs(heard - own).max())
