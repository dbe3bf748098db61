"""One router per task, which assigns workers to rows in order."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType

from keysplit.spark import keys, versions
from keysplit.spark.executors import set_aside_once
from keysplit.spark.online.states import Place, States, router_of_task

# The keys of a batch, and their weights.
_Batch = tuple[pa.Array, np.ndarray | None]


def worker_of(
    params: Any,
    names: Sequence[str],
    types: Sequence[DataType],
    weight: Column | None,
    worker_column: str,
    states: States | None = None,
    topic: Sequence[Column] = (),
) -> Column:
    """Return the worker of each row.

    Args:
        params: the grouping.
        names: the key columns.
        types: their types.
        weight: the load of a row, a DOUBLE; None if every row weighs 1.
        worker_column: the name of the column to return.
        states: where the routers of a stream store their states; None for a batch.
        topic: the hash of a row's Kafka topic, and its partition's number; empty without Kafka.
    """
    key, type_ = keys.key_column(names, types)
    arrow, weighted = versions.has_arrow_udf(), weight is not None
    columns = [key] if arrow else keys.pandas_columns(key, type_)
    width, placed = len(columns), bool(topic)
    # FlexD counts the keys of a segment before it routes them.
    segment = getattr(params, "segment_messages", 1)

    def read(batch: tuple[Any, ...]) -> _Batch:
        found = batch[0] if arrow else keys.from_pandas(batch[:width], type_)
        return found, np.asarray(batch[width]) if weighted else None

    def routed(batches: Iterator[Any]) -> Iterator[np.ndarray]:
        set_aside_once()
        tuples = (batch if isinstance(batch, tuple) else (batch,) for batch in batches)
        first = next(tuples, None)
        if first is None:
            return
        place = Place(*(int(np.asarray(each)[0]) for each in first[-2:])) if placed else None
        # A Python worker serves other tasks later: the router lives in the iterator of one task.
        router, leave = router_of_task(params, states, worker_column, place)
        for workers in _in_segments(map(read, chain([first], tuples)), router, segment):
            yield workers.view(np.int32)
        leave()

    # `keysplit diagnose` recognises these names in plans.
    def keysplit_route(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return map(pa.array, routed(batches))

    def keysplit_route_pandas(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.Series]:
        return map(pd.Series, routed(batches))

    made = (
        F.arrow_udf(keysplit_route, IntegerType())
        if arrow
        else F.pandas_udf(keysplit_route_pandas, IntegerType())
    )
    # Marked nondeterministic, so that Spark runs it once per row and moves no filter upstream of it.
    return made.asNondeterministic()(*columns, *([] if weight is None else [weight]), *topic)


def _in_segments(batches: Iterator[_Batch], router: Any, segment: int) -> Iterator[np.ndarray]:
    """Yield the workers of each batch.

    Each call of the router gets whole segments, so it does not matter how Spark cuts a task's rows into
    batches. The last segment holds the rest.
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
