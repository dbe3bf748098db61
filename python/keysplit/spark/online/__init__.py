"""The papers' routers inside Spark: each task routes its rows in order, in Rust over Arrow batches."""

import os
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import paths
from keysplit.groupings.base import Grouping
from keysplit.spark.checks import check_flag, key_names, refuse_other_frames, type_name
from keysplit.spark.frame import Columns
from keysplit.spark.identity import Query, trusted_names
from keysplit.spark.jvm import is_connect
from keysplit.spark.keys import refuse_unhashable
from keysplit.spark.names import quoted
from keysplit.spark.online.routers import worker_of
from keysplit.spark.online.states import states_in
from keysplit.spark.online.topics import places_in_topics
from keysplit.spark.place import placed
from keysplit.spark.plan import Trusted
from keysplit.spark.request import worker_column_of
from keysplit.spark.strategy import Way, took
from keysplit.spark.weights import weight_of

__all__ = ["repartition", "route"]

_WAY = Way("online", "each task routes its rows in order with its own router")


def route(
    df: DataFrame,
    key: str | Sequence[str],
    grouping: Grouping,
    *,
    worker_column: str = "worker",
    weight: str | Column | None = None,
    state: str | os.PathLike[str] | None = None,
    trust: Trusted = (),
    allow_inexact: bool = False,
) -> DataFrame:
    """Add a column with the worker of each row, chosen by a router of the papers.

    Each task is a source: its own router routes its rows in order. The result is exact only if a retried task
    has the same rows in the same order. Unless this is certain, an error is raised before any job. Executors
    need keysplit.

    Args:
        df: a DataFrame of a classic session, batch or streaming.
        key: a column name, or a list of names; keys are equal as in `groupBy`, and null is a key.
        grouping: any grouping from `keysplit.GROUPINGS` with its workers, such as `ks.DChoices(workers=8)`.
        worker_column: the name of the new column. A stream that is routed more than once needs a different
            name each time, because states are stored under this name.
        weight: the load of a row: a numeric column, an expression, or "bytes" (see `row_bytes`); 1 per row if
            omitted. A weight that is null, NaN or below 0 stops the job.
        state: for streams, a folder or its URL, where routers store their states after each micro-batch. All
            executors and the driver must reach it.
        trust: columns of `df`, and functions in its query (or their names), that you guarantee to be
            deterministic.
        allow_inexact: for batches, True to route even if a retried task may have different rows or a
            different order. Rows may then be lost or duplicated without an error.

    Returns:
        The rows of `df` with one more column, INT, from 0 to workers - 1.

    Raises:
        TypeError: if an argument has a wrong type, the key holds maps, or `df` comes from Spark Connect.
        ValueError: if an argument has a wrong value; if a retried task, or a retried micro-batch of a stream,
            may have different rows, keys or weights, or a different order.
        OSError: if `state` cannot be made or read.

    Source:
        "The Power of Both Choices" (Nasir et al., ICDE 2015), section III-B: each source balances the
        messages that it sends itself.

    Deviations:
        A source is a partition of a job. In a batch the source's router ends with the task; in a stream the
        router continues in the next micro-batch.

    Example:
        >>> routed = kss.online.route(df, "word", ks.DChoices(workers=8))  # doctest: +SKIP
    """
    return took(_routed(df, key, grouping, worker_column, weight, state, trust, allow_inexact), _WAY)


def repartition(
    df: DataFrame,
    key: str | Sequence[str],
    grouping: Grouping,
    *,
    worker_column: str = "worker",
    weight: str | Column | None = None,
    state: str | os.PathLike[str] | None = None,
    trust: Trusted = (),
    allow_inexact: bool = False,
) -> DataFrame:
    """Route the rows as `online.route` does, and move each row to the partition with its worker's number.

    Args:
        df: as in `online.route`.
        key: as in `online.route`.
        grouping: as in `online.route`; there are as many partitions as workers.
        worker_column: as in `online.route`.
        weight: as in `online.route`.
        state: as in `online.route`.
        trust: as in `online.route`.
        allow_inexact: as in `online.route`.

    Returns:
        The rows of `df` with the worker column, in `grouping.workers` partitions.

    Raises:
        TypeError: as in `online.route`.
        ValueError: as in `online.route`.
        OSError: as in `online.route`.

    Source:
        As in `online.route`.

    Deviations:
        As in `online.route`.

    Example:
        >>> placed = kss.online.repartition(df, "word", ks.DChoices(workers=8))  # doctest: +SKIP
        >>> partial = placed.groupBy("worker", "word").count()  # doctest: +SKIP
        >>> counts = partial.groupBy("word").agg(F.sum("count"))  # doctest: +SKIP
    """
    rows = _routed(df, key, grouping, worker_column, weight, state, trust, allow_inexact)
    return took(placed(rows, worker_column, grouping.workers), _WAY)


def _routed(
    df: DataFrame,
    key: str | Sequence[str],
    grouping: Grouping,
    worker_column: str,
    weight: str | Column | None,
    state: str | os.PathLike[str] | None,
    trust: Trusted,
    allow_inexact: bool,
) -> DataFrame:
    refuse_other_frames(df)
    if is_connect(df):
        raise TypeError("df must come from a classic session; kss.online does not support Spark Connect")
    _check_grouping(grouping)
    check_flag("allow_inexact", allow_inexact)
    _check_state(df, state, allow_inexact)
    trusted = trusted_names(trust)
    query = Query(df, trusted, checked=trusted)
    columns = Columns(df, query.fold)
    named = key_names(key)
    types = [field.dataType for field in columns.fields_of("key", named)]
    names = list(map(columns.path, named))
    refuse_unhashable(names, types)
    if worker_column is None:
        raise TypeError("worker_column must be a column name, got NoneType")
    worker_column_of(columns, worker_column)
    load = weight_of(columns, weight)
    if state is None:
        routed = df.withColumn(worker_column, worker_of(grouping, names, types, load, worker_column))
        if not allow_inexact:
            query.refuse_in_order(names, load, routed)
        return routed
    query.refuse_in_order(names, load, None)
    of_topic = places_in_topics(df) or []
    topic = [F.xxhash64(quoted(name)) if not at else F.col(quoted(name)) for at, name in enumerate(of_topic)]
    states = states_in(paths.absolute(state))
    return df.withColumn(worker_column, worker_of(grouping, names, types, load, worker_column, states, topic))


def _check_grouping(grouping: Any) -> None:
    if type(grouping) in ks.GROUPINGS.values():
        return
    given = f"the name {grouping!r}" if isinstance(grouping, str) else type_name(grouping)
    kind = ks.GROUPINGS.get(grouping, ks.DChoices) if isinstance(grouping, str) else ks.DChoices
    raise TypeError(
        f"grouping must be a grouping of keysplit.GROUPINGS with its workers, got {given}: write "
        f"ks.{kind.__name__}(workers=8)"
    )


def _check_state(df: DataFrame, state: Any, allow_inexact: bool) -> None:
    """Raise an error unless `state` is given for a stream, and omitted for a batch."""
    if state is not None and not isinstance(state, str | os.PathLike):
        raise TypeError(f"state must be a path or URL of a folder, got {state!r}")
    if state == "":
        raise ValueError("state must be a folder, got ''")
    if df.isStreaming and state is None:
        raise ValueError(
            "state must be given for a streaming DataFrame, got None: write state=... with a folder or URL "
            "that all executors reach"
        )
    if df.isStreaming and allow_inexact:
        raise ValueError("allow_inexact must be False for a streaming DataFrame, got True: omit it")
    if state is not None and not df.isStreaming:
        raise ValueError(
            f"state must be omitted for a batch, whose routers end with the batch, got {os.fspath(state)!r}"
        )


def __dir__() -> list[str]:
    return sorted(__all__)
