"""Spark's report on a micro-batch, from a listener or on request, on any version."""

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple


class Progress(NamedTuple):
    """A finished micro-batch.

    Attributes:
        batch: the number of the micro-batch.
        time: when the batch began.
        duration_s: how long the batch took, in seconds.
        input_rows: the number of rows that the batch read.
        input_rows_per_s: the arrival rate of rows; None if unknown.
        processed_rows_per_s: the processing rate of rows; None if unknown.
        backlog_rows: the rows still waiting in the sources when the batch began; None if unknown.
        watermark: the watermark of the batch; None if there is none yet.
        state_rows: the rows of state after the batch, over all stateful operators; None without such
            operators.
        state_bytes: the memory that the state takes; None as for `state_rows`.
        late_rows: the rows that stateful operators dropped because the watermark had passed them; None as for
            `state_rows`. Spark may combine rows before it counts them.
    """

    batch: int
    time: datetime
    duration_s: float
    input_rows: int
    input_rows_per_s: float | None
    processed_rows_per_s: float | None
    backlog_rows: int | None
    watermark: datetime | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    late_rows: int | None = None


def progress_of(said: Mapping[str, Any]) -> Progress | None:
    """Read a progress report from Spark; None if no batch ran.

    Args:
        said: a progress report as a dict; since Spark 4 `StreamingQueryProgress` is a dict.
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
        watermark=_watermark(said),
        state_rows=_of_state(said, "numRowsTotal"),
        state_bytes=_of_state(said, "memoryUsedBytes"),
        late_rows=_of_state(said, "numRowsDroppedByWatermark"),
    )


def _watermark(said: Mapping[str, Any]) -> datetime | None:
    """Return the watermark; Spark reports 1970 until there is one."""
    written = (said.get("eventTime") or {}).get("watermark")
    found = datetime.fromisoformat(written) if written else None
    return found if found is not None and found.timestamp() > 0 else None


def _of_state(said: Mapping[str, Any], name: str) -> int | None:
    """Return a figure summed over all stateful operators; None if there are none."""
    found = [each[name] for each in said.get("stateOperators") or () if each.get(name) is not None]
    return sum(map(int, found)) if found else None


def _of_all(said: Mapping[str, Any], name: str) -> float | None:
    """Return the figure for all sources together; Spark Connect has a figure only for each source."""
    values = [said.get(name)]
    if values[0] is None:
        values = [each.get(name) for each in said["sources"]]
    known = [float(each) for each in values if each is not None and math.isfinite(each)]
    return sum(known) if known else None


def _backlog(sources: Any) -> int | None:
    """Return how many rows are waiting in all sources whose offsets count rows; None if there are none."""
    found = [_behind(_offsets(each.get("endOffset")), _offsets(each.get("latestOffset"))) for each in sources]
    known = [each for each in found if each is not None]
    return sum(known) if known else None


def _offsets(said: Any) -> dict[tuple[str, str], int] | None:
    """Return the offsets of Kafka and similar sources, by topic and partition; None for other sources."""
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
