"""Find the Kafka partition of each row of a stream."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from keysplit.spark.identity.known import names_in
from keysplit.spark.jvm import items, kind_of, plan_of

_STREAM, _KAFKA, _PLACES = "StreamingRelationV2", ".kafka010.", ("topic", "partition")
# Operators that keep rows in their task.
_KEEPING = names_in(
    """
    CollectMetrics EventTimeWatermark Expand Filter Generate MapInArrow MapInPandas Project PythonMapInArrow
    ResolvedHint SubqueryAlias UpdateEventTimeWatermarkColumn View
    """
)
# Options of the source with which one task reads a partition, and prefixes of such options.
_OPTIONS = names_in(
    """
    assign endingoffsets endingoffsetsbytimestamp endingtimestamp failondataloss groupidprefix includeheaders
    kafkaconsumer.polltimeoutms maxoffsetspertrigger maxtriggerdelay minoffsetspertrigger startingoffsets
    startingoffsetsbytimestamp startingoffsetsbytimestampstrategy startingtimestamp subscribe
    subscribepattern
    """
)
_BEGIN = ("kafka.", "fetchoffset.")


def places_in_topics(df: DataFrame) -> list[str] | None:
    """Return the columns with the topic and partition of each row of a stream; None if it reads no topic.

    After a restart Spark may assign the partitions of topics to different tasks.

    Raises:
        ValueError: if a task may have rows from several partitions, or if the partitions are unknown.
    """
    plan = plan_of(df)
    leaves = list(items(plan.collectLeaves()))
    topics = [each for each in leaves if kind_of(each) == _STREAM and _KAFKA in _class_of(each.table())]
    if not topics:
        return None
    if len(leaves) > 1:
        raise ValueError(
            f"df must have no source but Kafka for kss.online, got {len(leaves)}: route each source "
            "separately"
        )
    (leaf,) = topics
    above = {kind_of(each) for each in _operators(plan)} - _KEEPING - {_STREAM}
    if above:
        raise ValueError(
            "df must read each partition of the topic in one task for kss.online, got the operators "
            f"{sorted(above)}: apply them after routing"
        )
    options = sorted(str(each).lower() for each in leaf.extraOptions().keySet())
    others = [each for each in options if each not in _OPTIONS and not each.startswith(_BEGIN)]
    if others:
        raise ValueError(
            "df must read each partition of the topic in one task for kss.online, got the options "
            f"{others}: omit these options"
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
            "df must have the columns topic and partition of its source for kss.online, which identify a "
            f"router, got {[str(each.name()) for each in output]}: drop these columns after routing"
        )
    return [found[place] for place in _PLACES]


def _class_of(value: Any) -> str:
    return str(value.getClass().getName())


def _operators(plan: Any) -> Iterator[Any]:
    yield plan
    for child in items(plan.children()):
        yield from _operators(child)
