"""From where in Kafka the rows of a stream come."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from keysplit.spark.session.jvm import items, kind_of, plan_of

_STREAM, _KAFKA, _PLACES = "StreamingRelationV2", ".kafka010.", ("topic", "partition")
# Operators by which a task reads several partitions.
_MERGING = ("Repartition", "RepartitionByExpression", "RebalancePartitions")
# Options with which several tasks read one partition of a topic.
_CUTTING = ("minPartitions", "maxRecordsPerPartition")


def places_in_topics(df: DataFrame) -> list[str] | None:
    """Return the columns of a stream that hold the topic and partition of each row, None if it has no topic.

    Spark deals the partitions of topics out to tasks in another order when a query starts again.

    Raises:
        ValueError: if a task may have rows of several partitions, or they cannot be told.
    """
    plan = plan_of(df)
    leaves = list(items(plan.collectLeaves()))
    topics = [each for each in leaves if kind_of(each) == _STREAM and _KAFKA in _class_of(each.table())]
    if not topics:
        return None
    if len(leaves) > 1:
        raise ValueError(
            f"df must have no source beside Kafka in mode 'online', got {len(leaves)}: route each by itself"
        )
    (leaf,) = topics
    if any(kind_of(each) in _MERGING for each in _operators(plan)):
        raise ValueError(
            "df must have a partition of the topic in one task in mode 'online', got a repartition or "
            "coalesce: call it after"
        )
    for option in _CUTTING:
        if leaf.extraOptions().containsKey(option):
            raise ValueError(
                "df must have a partition of the topic in one task in mode 'online', got the option "
                f"{option}: leave it out"
            )
    numbers = {str(each.name()): each.exprId() for each in items(leaf.output())}
    output = items(plan.output())
    found = {
        place: str(each.name())
        for each in output
        for place in _PLACES
        if each.exprId().equals(numbers[place])
    }
    if len(found) < len(_PLACES):
        raise ValueError(
            "df must have the columns topic and partition of its source in mode 'online', by which the "
            "router of a partition is found again, got "
            f"{[str(each.name()) for each in output]}: drop them after"
        )
    return [found[place] for place in _PLACES]


def _class_of(value: Any) -> str:
    return str(value.getClass().getName())


def _operators(plan: Any) -> Iterator[Any]:
    yield plan
    for child in items(plan.children()):
        yield from _operators(child)
