"""The messages of one partition of a batch, sent exactly once.

One transaction has all these messages, and the number of the batch as an offset of a consumer group. A retry
finds the number there and sends nothing. The transactional id belongs to the partition: a new attempt ends
the transaction of an older attempt, which can no longer commit anything.
"""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from keysplit.kafka.client import client

Header = tuple[str, bytes | None]
# librdkafka's default of transaction.timeout.ms; what Kafka may need in addition; a pause.
_TRANSACTION_MS, _MORE_S, _BETWEEN_S = 60_000, 15.0, 0.2
# Partitions per request.
_AT_ONCE = 16
# Kafka's codes for a group whose coordinator is loading, not yet available, or has moved.
_MOVING = (14, 15, 16)


class Message(NamedTuple):
    """A message to send."""

    key: bytes | None
    value: bytes | None
    headers: list[Header] | None


class Batch(NamedTuple):
    """The identity of a batch: its sender, number and destination.

    Attributes:
        sender: the sender's name, which is the same whenever the batch is sent again.
        rule: identifies the rule by which messages get their partition; stored with the number.
        number: the number of the batch, 0, 1, 2 ...
        first: the number of the first batch that the sender sends.
        topic: the topic to send to.
        partition: the partition of the topic.
    """

    sender: str
    rule: str
    number: int
    first: int
    topic: str
    partition: int


def resume(batch: Batch, partitions: int, settings: Mapping[str, Any]) -> bool:
    """Return whether a whole batch was already sent; this also ends earlier attempts.

    Args:
        batch: the batch, for any partition.
        partitions: the number of partitions of the topic.
        settings: as `send_once` takes them.

    Raises:
        RuntimeError: if a part of the batch was sent, and the rest would follow a different rule.
    """
    every = [batch._replace(partition=each) for each in range(partitions)]
    with ThreadPoolExecutor(min(partitions, _AT_ONCE)) as pool:  # each thread waits for Kafka
        list(pool.map(lambda each: _producer(each, settings), every))
    group = _group(batch, settings)
    try:
        places = [client.TopicPartition(batch.topic, each.partition) for each in every]
        found = _committed(group, places, settings)
    finally:
        group.close()
    there = [each for each in found if each.offset == batch.number + 1]
    if len(there) < partitions and any((each.metadata or "") != batch.rule for each in there):
        raise _by_another_rule(batch, [each.partition for each in there])
    return len(there) == partitions


def _by_another_rule(batch: Batch, partitions: list[int]) -> RuntimeError:
    return RuntimeError(
        f"batch {batch.number} of query {batch.sender} was sent to the partitions {partitions} of topic "
        f"{batch.topic!r} by a different plan, row_id, plan log or version of keysplit, and the rest must "
        "be sent in the same way: restart the query with the previous plan, row_id and keysplit, restore "
        "the files of the plan log, or send to a new topic from a new checkpoint"
    )


def _producer(batch: Batch, settings: Mapping[str, Any]) -> Any:
    """Return the producer for a partition; this ends an older attempt's transaction without a commit."""
    producer = client.Producer(
        {**settings, "transactional.id": f"keysplit-{batch.sender}-{batch.topic}-{batch.partition}"}
    )
    producer.init_transactions(_patience_s(settings))
    return producer


def _group(batch: Batch, settings: Mapping[str, Any]) -> Any:
    return client.Consumer(
        {**settings, "group.id": f"keysplit-{batch.sender}", "isolation.level": "read_committed"}
    )


def send_once(batch: Batch, messages: Iterable[Message], settings: Mapping[str, Any]) -> int:
    """Send the messages of a batch, unless they were already sent.

    Args:
        batch: the batch.
        messages: the messages, which are the same, in any order, whenever the batch is sent again.
        settings: the settings of Kafka's client, with `bootstrap.servers`.

    Returns:
        The number of messages sent: 0 if the batch was there already.

    Raises:
        RuntimeError: if the sender has sent a later batch, has not sent the previous one, or has sent this
            batch by a different rule.
        KafkaException: if Kafka rejects the messages; then none is sent.
    """
    patience_s = _patience_s(settings)
    producer = _producer(batch, settings)  # first, so that no older attempt can change the number
    group = _group(batch, settings)
    try:
        if _is_there(group, batch, settings):
            return 0
        producer.begin_transaction()
        try:
            sent = _produce(producer, batch, messages)
            producer.send_offsets_to_transaction(
                [client.TopicPartition(batch.topic, batch.partition, batch.number + 1, metadata=batch.rule)],
                group.consumer_group_metadata(),
                patience_s,
            )
            producer.commit_transaction(patience_s)
        except BaseException:
            with suppress(client.KafkaException):  # it may have ended already
                producer.abort_transaction(patience_s)
            raise
        return sent
    finally:
        group.close()


def _is_there(group: Any, batch: Batch, settings: Mapping[str, Any]) -> bool:
    """Return True if the last batch sent is this batch, False if it is the previous batch."""
    (found,) = _committed(group, [client.TopicPartition(batch.topic, batch.partition)], settings)
    expected = int(found.offset)
    if expected == batch.number + 1:
        if (found.metadata or "") != batch.rule:
            raise _by_another_rule(batch, [batch.partition])
        return True
    if expected == batch.number or (batch.number == batch.first and expected < batch.number):
        return False
    where = f"partition {batch.partition} of topic {batch.topic!r}"
    if expected < 0:
        raise RuntimeError(
            f"{where} must hold the batch before {batch.number} of query {batch.sender}, and Kafka has no "
            "record of a batch: the query had a different sink or an earlier build of keysplit, or Kafka "
            f"deleted the record (offsets.retention.minutes). Check whether a part of batch {batch.number} "
            f"was sent, and pass first_batch={batch.number} if nothing was sent"
        )
    raise RuntimeError(
        f"{where} must hold the batch before {batch.number} of query {batch.sender}, and the last batch is "
        f"{expected - 1}: is the query's checkpoint an older copy? If the query had a different sink in "
        f"between, pass first_batch={batch.number}"
    )


def _patience_s(settings: Mapping[str, Any]) -> float:
    """Return how long to wait for Kafka: longer than it takes to abort an abandoned transaction."""
    timeout_s = float(settings.get("transaction.timeout.ms", _TRANSACTION_MS)) / 1000
    return timeout_s + _MORE_S


def _committed(group: Any, places: list[Any], settings: Mapping[str, Any]) -> list[Any]:
    """Return partitions with a group's committed offsets, below 0 if there are none."""
    patience_s = _patience_s(settings)
    end = time.monotonic() + patience_s
    while True:
        try:
            found: list[Any] = group.committed(places, patience_s)
            for each in found:
                if each.error is not None:
                    raise client.KafkaException(each.error)
            return found
        except client.KafkaException as error:
            if error.args[0].code() not in _MOVING or time.monotonic() > end:
                raise
        time.sleep(_BETWEEN_S)


def _produce(producer: Any, batch: Batch, messages: Iterable[Message]) -> int:
    sent = 0
    for message in messages:
        while True:
            try:
                producer.produce(
                    batch.topic,
                    value=message.value,
                    key=message.key,
                    partition=batch.partition,
                    headers=message.headers,
                )
                break
            except BufferError:  # the client's queue is full
                producer.poll(0.1)
        sent += 1
    return sent
