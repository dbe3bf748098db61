"""The messages of one partition of a batch, sent exactly once.

A transaction holds them all, and the number of the batch beside them, as an offset of a consumer group. Who
sends the batch again finds the number there and sends nothing. The transactional id belongs to the partition:
whoever begins to send to it ends the transaction of an older attempt, which can commit nothing from then on.
"""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from keysplit.kafka.client import client

Header = tuple[str, bytes | None]
# What librdkafka takes for transaction.timeout.ms; what Kafka may need beyond it; a pause.
_TRANSACTION_MS, _MORE_S, _BETWEEN_S = 60_000, 15.0, 0.2
# Partitions that are asked for at once.
_AT_ONCE = 16
# Kafka's codes for a group whose coordinator is being loaded, is not there yet, or is another one now.
_MOVING = (14, 15, 16)


class Message(NamedTuple):
    """A message as it is sent."""

    key: bytes | None
    value: bytes | None
    headers: list[Header] | None


class Batch(NamedTuple):
    """Which messages are sent, and who sends them.

    Attributes:
        sender: the name of who sends; the same whenever the batch is sent again.
        rule: names what decides which messages each partition gets of this batch; kept beside the number.
        number: the number of the batch, 0, 1, 2 ...
        first: the number of the first batch that the sender sends.
        topic: where to.
        partition: which partition of it.
    """

    sender: str
    rule: str
    number: int
    first: int
    topic: str
    partition: int


def resume(batch: Batch, partitions: int, settings: Mapping[str, Any]) -> bool:
    """Say whether all of a batch is there, before any of it is sent; the attempts before are ended by this.

    Args:
        batch: the batch; of any partition.
        partitions: how many partitions the topic has.
        settings: as `send_once` takes them.

    Raises:
        RuntimeError: if a part of it was sent, and the rest would be by another rule.
    """
    every = [batch._replace(partition=each) for each in range(partitions)]
    with ThreadPoolExecutor(min(partitions, _AT_ONCE)) as pool:  # each waits for Kafka
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
        f"batch {batch.number} of query {batch.sender} is in the partitions {partitions} of topic "
        f"{batch.topic!r} by another plan, row_id, plan log or version of keysplit, and the rest must go by "
        "the same: start the query once more with those of before, put the files of the plan log back, or "
        "send to a new topic from a new checkpoint"
    )


def _producer(batch: Batch, settings: Mapping[str, Any]) -> Any:
    """Return who sends to a partition; what an older attempt has begun there is over, and commits nothing."""
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
    """Send the messages of a batch, unless they are there.

    Args:
        batch: says which.
        messages: the messages; the same ones, in any order, whenever the batch is sent again.
        settings: the settings of Kafka's client, with `bootstrap.servers`.

    Returns:
        How many were sent: 0 if they were there.

    Raises:
        RuntimeError: if the sender sent a later batch before, or not the one before this, or this one by
            another rule.
        KafkaException: if Kafka refuses them. Nothing of them is there then.
    """
    patience_s = _patience_s(settings)
    producer = _producer(batch, settings)  # before the number is read below, so that it is the last one
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
            with suppress(client.KafkaException):  # it may be gone already
                producer.abort_transaction(patience_s)
            raise
        return sent
    finally:
        group.close()


def _is_there(group: Any, batch: Batch, settings: Mapping[str, Any]) -> bool:
    """Say whether the last batch that was sent is this one, and not the one before."""
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
            f"{where} must hold the batch before {batch.number} of query {batch.sender}, and Kafka knows of "
            f"none: the query had another sink or an earlier build of keysplit, or Kafka has forgotten it "
            f"(offsets.retention.minutes). Look whether a part of batch {batch.number} is there, and pass "
            f"first_batch={batch.number} if none is"
        )
    raise RuntimeError(
        f"{where} must hold the batch before {batch.number} of query {batch.sender}, and the last one there "
        f"is {expected - 1}: is its checkpoint an older copy? If it had another sink in between, pass "
        f"first_batch={batch.number}"
    )


def _patience_s(settings: Mapping[str, Any]) -> float:
    """Return how long to wait for Kafka: until it has given up an abandoned transaction, and more."""
    timeout_s = float(settings.get("transaction.timeout.ms", _TRANSACTION_MS)) / 1000
    return timeout_s + _MORE_S


def _committed(group: Any, places: list[Any], settings: Mapping[str, Any]) -> list[Any]:
    """Return partitions with the offsets that a group has committed, below 0 if it has none."""
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
            except BufferError:  # more messages than the client keeps
                producer.poll(0.1)
        sent += 1
    return sent
