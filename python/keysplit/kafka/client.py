"""Kafka's client, if the extra is installed."""

from keysplit.extras import missing

try:
    import confluent_kafka as client
    from confluent_kafka.admin import AdminClient
except ImportError as error:
    raise ImportError(missing("Kafka", "confluent-kafka", "kafka")) from error

__all__ = ["AdminClient", "client"]
