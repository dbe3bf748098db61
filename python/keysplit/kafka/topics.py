"""Check a topic's number of partitions before anything is sent."""

from collections.abc import Mapping
from typing import Any

_PATIENCE_S = 10.0
_OWN = frozenset({"bootstrap.servers", "group.id", "isolation.level", "transactional.id"})


def partitions_of(topic: str, servers: str, settings: Mapping[str, Any] | None = None) -> int:
    """Return the number of partitions of a topic.

    Args:
        topic: the name of the topic.
        servers: the addresses of some brokers, "host:port,host:port".
        settings: further settings for Kafka's client (librdkafka), such as security settings.

    Raises:
        ImportError: if confluent-kafka is not installed.
        TypeError: if an argument has a wrong type.
        ValueError: if there is no such topic; if Kafka's client rejects the settings, or they include one
            that keysplit sets.
        ConnectionError: if no broker answers within 10 seconds.

    Example:
        >>> partitions_of("words", "localhost:9092")  # doctest: +SKIP
        8
    """
    from keysplit.kafka.client import AdminClient, client

    for name, value in (("topic", topic), ("servers", servers)):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str, got {value!r}")
        if not value.strip():
            raise ValueError(f"{name} must not be empty, got {value!r}")
    given = settings_of(servers, settings)
    try:
        admin = AdminClient(given)
    except client.KafkaException as error:  # names only this setting: others may be passwords
        raise ValueError(f"settings must be settings of Kafka's client: {error.args[0].str()}") from error
    try:
        found = admin.list_topics(topic, timeout=_PATIENCE_S).topics[topic]
    except client.KafkaException as error:
        raise ConnectionError(f"servers must be reachable brokers, got {servers!r}: {error}") from error
    if found.error is not None:
        raise ValueError(f"topic must exist, got {topic!r}: {found.error.str()}")
    return len(found.partitions)


def settings_of(servers: str, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of a client.

    Args:
        servers: as in `partitions_of`.
        settings: as in `partitions_of`.

    Raises:
        TypeError: if `settings` is not a dict.
        ValueError: if `settings` has a setting that exactly-once delivery sets itself.
    """
    if settings is not None and not isinstance(settings, Mapping):
        raise TypeError(f"settings must be a dict, got {settings!r}")
    own = sorted(_OWN.intersection(settings or {}))
    if own:
        raise ValueError(f"settings must omit {', '.join(own)}, which keysplit sets")
    return {"log_level": 2, **(settings or {}), "bootstrap.servers": servers}


def check_partitions(
    topic: str, workers: int, servers: str, settings: Mapping[str, Any] | None = None
) -> None:
    """Raise ValueError unless a topic has one partition per worker.

    Spark's own sink waits for a minute before it fails on a row for a missing partition.

    Args:
        topic: as in `partitions_of`.
        workers: the number of workers of a plan.
        servers: as in `partitions_of`.
        settings: as in `partitions_of`.

    Raises:
        ImportError: as in `partitions_of`.
        TypeError: as in `partitions_of`.
        ValueError: as in `partitions_of`, or if the topic has a different number of partitions.
        ConnectionError: as in `partitions_of`.

    Example:
        >>> check_partitions("words", plan.workers, "localhost:9092")  # doctest: +SKIP
    """
    partitions = partitions_of(topic, servers, settings)
    if partitions != workers:
        raise ValueError(
            f"workers must be the {partitions} partitions of topic {topic!r}, got {workers}: "
            f"plan.with_workers({partitions}) makes a plan that fits"
        )
