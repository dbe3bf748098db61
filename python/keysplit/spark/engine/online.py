"""Online mode: each task routes its rows in their order, with a router of its own."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType

from keysplit.spark import keys
from keysplit.spark.engine.states import Place, router_of_task, states_in
from keysplit.spark.names import quoted
from keysplit.spark.options import Request
from keysplit.spark.session import session_of, versions
from keysplit.spark.session.executors import set_aside_once

# Returns the router of a task by the partition that its rows come from, and what is to be called once it has
# routed all rows.
_Routers = Callable[[Place | None], tuple[Any, Callable[[], None]]]
# The keys of a batch, and their weights.
_Batch = tuple[pa.Array, np.ndarray | None]


def with_worker(request: Request) -> DataFrame:
    """Add the worker column to the DataFrame of a checked request, or refuse where it would not be exact."""
    key, type_ = keys.key_column(request.keys, request.key_types)
    weights = [] if request.weight is None else [request.weight]
    worker = _arrow_worker if versions.has_arrow_udf() else _pandas_worker
    found, places = None, list[Column]()
    if request.state is not None:
        request.query.refuse_in_order(request.keys, request.weight, None)
        names = session_of(request.df).places_in_topics(request.df)
        if names is not None:
            topic, partition = map(F.col, map(quoted, names))
            places = [F.xxhash64(topic), partition]
        found = states_in(request.state)
    routers = partial(router_of_task, request.params, found, request.worker_column)
    segment = getattr(request.params, "segment_messages", 1)
    column = worker(routers, segment, key, type_, weights, places)
    df = request.df.withColumn(request.worker_column, column)
    if request.state is None and not request.allow_inexact:
        request.query.refuse_in_order(request.keys, request.weight, df)
    return df


# Both UDFs keep one router for all batches of a task, inside the iterator: a Python worker serves other tasks
# later. Both are nondeterministic to Spark, so that it runs them once a row and moves no filter below them.


def _arrow_worker(
    routers: _Routers,
    segment: int,
    key: Column,
    type_: DataType,
    weights: list[Column],
    places: list[Column],
) -> Column:
    weighted, placed = bool(weights), bool(places)

    def keysplit_route(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        for workers in _workers(batches, routers, segment, read, place):
            yield pa.array(workers.view(np.int32))

    def read(batch: tuple[pa.Array, ...]) -> _Batch:
        found, *loads = batch if isinstance(batch, tuple) else (batch,)
        return found, loads[0].to_numpy(zero_copy_only=False) if weighted else None

    def place(batch: tuple[pa.Array, ...]) -> Place | None:
        return Place(*(each[0].as_py() for each in batch[-2:])) if placed else None

    return F.arrow_udf(keysplit_route, IntegerType()).asNondeterministic()(key, *weights, *places)


def _pandas_worker(
    routers: _Routers,
    segment: int,
    key: Column,
    type_: DataType,
    weights: list[Column],
    places: list[Column],
) -> Column:
    columns = keys.pandas_columns(key, type_)
    width, weighted, placed = len(columns), bool(weights), bool(places)

    def keysplit_route(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.Series]:
        for workers in _workers(batches, routers, segment, read, place):
            yield pd.Series(workers.view(np.int32))

    def read(batch: tuple[pd.Series, ...]) -> _Batch:
        series = batch if isinstance(batch, tuple) else (batch,)
        return keys.from_pandas(series[:width], type_), series[width].to_numpy() if weighted else None

    def place(batch: tuple[pd.Series, ...]) -> Place | None:
        return Place(*(int(each.iloc[0]) for each in batch[-2:])) if placed else None

    return F.pandas_udf(keysplit_route, IntegerType()).asNondeterministic()(*columns, *weights, *places)


def _workers(
    batches: Iterator[Any],
    routers: _Routers,
    segment: int,
    read: Callable[[Any], _Batch],
    place: Callable[[Any], Place | None],
) -> Iterator[np.ndarray]:
    """Yield the workers of each batch of a task, whose router leaves its state in the end.

    Args:
        batches: as Spark passes them to a UDF.
        routers: has the router of the task.
        segment: as `_routed`.
        read: returns keys and weights of a batch.
        place: returns the partition of a topic that the rows of a batch come from.
    """
    set_aside_once()
    first = next(batches, None)
    if first is None:
        return
    router, leave = routers(place(first))
    yield from _routed(map(read, chain([first], batches)), router, segment)
    leave()


def _routed(batches: Iterator[_Batch], router: Any, segment: int) -> Iterator[np.ndarray]:
    """Yield the workers of each batch.

    A call of the router gets whole segments, so that it does not matter how Spark cuts the rows of a task
    into batches: FlexD counts the keys of a segment before it routes them. The last segment holds the rest.
    """
    waiting: list[_Batch] = []
    sizes, routed = deque[int](), np.empty(0, np.uint32)
    for batch in chain(batches, [None]):
        if batch is not None:
            waiting.append(batch)
            sizes.append(len(batch[0]))
        count = sum(len(found) for found, _ in waiting)
        whole = count if batch is None else count - count % segment
        if whole:
            found, loads = _together(waiting)
            own = None if loads is None else loads[:whole]
            routed = np.concatenate([routed, router.route(found[:whole], weights=own)])
            waiting = [(found[whole:], None if loads is None else loads[whole:])] if whole < count else []
        while sizes and sizes[0] <= len(routed):
            size = sizes.popleft()
            yield routed[:size]
            routed = routed[size:]


def _together(batches: list[_Batch]) -> _Batch:
    if len(batches) == 1:
        return batches[0]
    loads = [load for _, load in batches if load is not None]
    return pa.concat_arrays([found for found, _ in batches]), np.concatenate(loads) if loads else None
