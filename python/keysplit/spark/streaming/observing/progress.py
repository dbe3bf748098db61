"""What Spark says of a micro-batch, by a listener or by asking, on any version."""

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple


class Progress(NamedTuple):
    """A micro-batch that has ended.

    Attributes:
        batch: its number.
        time: when it began.
        duration_s: how long it took, in seconds.
        input_rows: the rows that it has read.
        input_rows_per_s: how fast they arrived; None if Spark does not say.
        processed_rows_per_s: how fast they were processed; None if Spark does not say.
        backlog_rows: the rows that the sources had beyond the batch when it began; None if none says.
    """

    batch: int
    time: datetime
    duration_s: float
    input_rows: int
    input_rows_per_s: float | None
    processed_rows_per_s: float | None
    backlog_rows: int | None


def progress_of(said: Mapping[str, Any]) -> Progress | None:
    """Read a progress of Spark; None if no batch ran.

    Args:
        said: a progress as a dict, which `StreamingQueryProgress` is from Spark 4 on.
    """
    durations = said["durationMs"]
    if "addBatch" not in durations:
        return None
    return Progress(
        batch=int(said["batchId"]),
        time=datetime.fromisoformat(said["timestamp"]),
        duration_s=durations.get("triggerExecution", 0) / 1000,
        input_rows=int(_of_all(said, "numInputRows") or 0),
        input_rows_per_s=_of_all(said, "inputRowsPerSecond"),
        processed_rows_per_s=_of_all(said, "processedRowsPerSecond"),
        backlog_rows=_backlog(said["sources"]),
    )


def _of_all(said: Mapping[str, Any], name: str) -> float | None:
    """Return the figure of all sources; Spark Connect has only that of each."""
    values = [said.get(name)]
    if values[0] is None:
        values = [each.get(name) for each in said["sources"]]
    known = [float(each) for each in values if each is not None and math.isfinite(each)]
    return sum(known) if known else None


def _backlog(sources: Any) -> int | None:
    """Return the rows beyond the batch in all sources whose offsets are rows, None if there is no such."""
    found = [_behind(_offsets(each.get("endOffset")), _offsets(each.get("latestOffset"))) for each in sources]
    known = [each for each in found if each is not None]
    return sum(known) if known else None


def _offsets(said: Any) -> dict[tuple[str, str], int] | None:
    """Return the offsets of Kafka and its like, by topic and partition; None if it is another source."""
    try:
        topics = json.loads(said) if isinstance(said, str) else said
        return {
            (topic, partition): int(offset)
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        return None


def _behind(end: dict[tuple[str, str], int] | None, latest: dict[tuple[str, str], int] | None) -> int | None:
    if end is None or latest is None:
        return None
    return sum(max(offset - end[place], 0) for place, offset in latest.items() if place in end)
