"""Kafka: the partition of each message by a plan, in producers that have no Spark.

The guide is docs/streaming.md.
"""

from keysplit.kafka.partitioner import PlanPartitioner

__all__ = ["PlanPartitioner"]
