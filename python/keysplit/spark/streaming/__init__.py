"""The operations on Structured Streaming.

A plan is a pure function of a row, so a stream may use one plan, as a batch does, or a different plan in each
micro-batch. This folder holds what differs from batches, one operation per file.
"""

from keysplit.spark.streaming.adapt import Adapt
from keysplit.spark.streaming.apply import apply
from keysplit.spark.streaming.join import join
from keysplit.spark.streaming.observing.observer import Observer, observe
from keysplit.spark.streaming.publish import publish
from keysplit.spark.streaming.repartition import repartition
from keysplit.spark.streaming.route import route
from keysplit.spark.streaming.to_kafka import to_kafka
from keysplit.spark.streaming.write import write

__all__ = [
    "Adapt",
    "Observer",
    "apply",
    "join",
    "observe",
    "publish",
    "repartition",
    "route",
    "to_kafka",
    "write",
]


def __dir__() -> list[str]:
    return sorted(__all__)
