"""How many partitions a topic has, asked for before anything is sent to it."""

from collections.abc import Mapping
from typing import Any

_PATIENCE_S = 10.0


def partitions_of(topic: str, servers: str, settings: Mapping[str, Any] | None = None) -> int:
    """Return the number of partitions of a topic.

    Args:
        topic: its name.
        servers: the addresses of some brokers, "host:port,host:port".
        settings: further settings of Kafka's client (librdkafka), such as those of security.

    Raises:
        ImportError: if confluent-kafka is not installed.
        ValueError: if there is no such topic.
        ConnectionError: if no broker answers within 10 seconds.

    Example:
        >>> partitions_of("words", "localhost:9092")  # doctest: +SKIP
        8
    """
    from keysplit.kafka.client import client

    admin = client.admin.AdminClient({"log_level": 2, **(settings or {}), "bootstrap.servers": servers})
    try:
        found = admin.list_topics(topic, timeout=_PATIENCE_S).topics[topic]
    except client.KafkaException as error:
        raise ConnectionError(f"servers must be brokers that answer, got {servers!r}: {error}") from error
    if found.error is not None:
        raise ValueError(f"topic must be one that is there, got {topic!r}: {found.error.str()}")
    return len(found.partitions)


def check_partitions(
    topic: str, workers: int, servers: str, settings: Mapping[str, Any] | None = None
) -> None:
    """Raise ValueError unless a topic has one partition per worker.

    Spark's own sink waits for a minute before it fails on a row for a partition that is not there.

    Args:
        topic: as `partitions_of`.
        workers: the workers of a plan.
        servers: as `partitions_of`.
        settings: as `partitions_of`.

    Raises:
        ImportError: as `partitions_of`.
        ValueError: as `partitions_of`, or if the topic has another number of partitions.
        ConnectionError: as `partitions_of`.

    Example:
        >>> check_partitions("words", plan.workers, "localhost:9092")  # doctest: +SKIP
    """
    partitions = partitions_of(topic, servers, settings)
    if partitions != workers:
        raise ValueError(
            f"workers must be the {partitions} partitions of topic {topic!r}, got {workers}: "
            f"plan.with_workers({partitions}) makes a plan that fits"
        )
