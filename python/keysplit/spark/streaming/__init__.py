"""The operations on Structured Streaming.

A plan is a pure function of a row, so a stream may go by one as a batch does. What differs from batch stands
here, an operation a file.
"""

from keysplit.spark.operations.repartition import repartition
from keysplit.spark.operations.route import route
from keysplit.spark.streaming.aggregate import aggregate
from keysplit.spark.streaming.apply import apply

__all__ = ["aggregate", "apply", "repartition", "route"]


def __dir__() -> list[str]:
    return sorted(__all__)
