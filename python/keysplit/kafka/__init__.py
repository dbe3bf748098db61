"""Kafka: a plan's partition for each message, in producers without Spark.

The guide is docs/streaming.md.
"""

from keysplit.kafka.partitioner import PlanPartitioner
from keysplit.kafka.topics import check_partitions, partitions_of

__all__ = ["PlanPartitioner", "check_partitions", "partitions_of"]
