"""Kafka's client, where the extra has it."""

try:
    import confluent_kafka as client
except ImportError as error:
    raise ImportError("Kafka needs confluent-kafka: pip install 'keysplit[kafka]'") from error

__all__ = ["client"]
