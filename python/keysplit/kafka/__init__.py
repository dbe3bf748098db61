"""Kafka: the partition of each message by a plan, in producers that have no Spark.

The guide is docs/streaming.md.
"""

from keysplit.kafka.partitioner import PlanPartitioner
from keysplit.kafka.topics import check_partitions, partitions_of

__all__ = ["PlanPartitioner", "check_partitions", "partitions_of"]
