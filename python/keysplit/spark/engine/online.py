"""Online mode: each task routes its rows in their order, with a router of its own."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType

from keysplit.plans import files
from keysplit.spark import keys, query
from keysplit.spark.engine import states
from keysplit.spark.options import Request
from keysplit.spark.session import versions

# Returns the router of a task, and what is to be called once it has routed all rows.
_Routers = Callable[[], tuple[Any, Callable[[], None]]]


def with_worker(request: Request) -> DataFrame:
    """Add the worker column to the DataFrame of a checked request, or refuse where it would not be exact."""
    key, type_ = keys.key_column(request.keys, request.key_types)
    weights = [] if request.weight is None else [request.weight]
    worker = _arrow_worker if versions.has_arrow_udf() else _pandas_worker
    if request.state is not None:
        _refuse_disordered_stream(request)
        files.make_folder(request.state)
    routers = partial(states.router_of_task, request.params, request.state, request.worker_column)
    found = worker(routers, key, type_, weights)
    df = request.df.withColumn(request.worker_column, found)
    if request.state is None and not request.allow_inexact:
        query.refuse_disorder(df)
    return df


def _refuse_disordered_stream(request: Request) -> None:
    """Raise ValueError unless a micro-batch is proved to have the same rows in the same order again."""
    found = request.query.steadiness
    why = found.unknown or found.rows or found.order
    if why is not None:
        raise ValueError(
            "mode 'online' is exact only in streams whose rows come again in the same order, got "
            f"{why}: take mode 'planned'"
        )


# Both UDFs keep one router for all batches of a task, inside the iterator: a Python worker serves other tasks
# later. Both are nondeterministic to Spark, so that it runs them once a row and moves no filter below them.


def _arrow_worker(routers: _Routers, key: Column, type_: DataType, weights: list[Column]) -> Column:
    def route_batches(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        router, leave = routers()
        for batch in batches:
            batch_keys, *batch_weights = batch if isinstance(batch, tuple) else (batch,)
            load = batch_weights[0].to_numpy(zero_copy_only=False) if batch_weights else None
            yield pa.array(router.route(batch_keys, weights=load).view(np.int32))
        leave()

    return F.arrow_udf(route_batches, IntegerType()).asNondeterministic()(key, *weights)


def _pandas_worker(routers: _Routers, key: Column, type_: DataType, weights: list[Column]) -> Column:
    columns = keys.pandas_columns(key, type_)
    width, weighted = len(columns), bool(weights)

    def route_batches(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.Series]:
        router, leave = routers()
        for batch in batches:
            series = batch if isinstance(batch, tuple) else (batch,)
            load = series[width].to_numpy() if weighted else None
            workers = router.route(keys.from_pandas(series[:width], type_), weights=load)
            yield pd.Series(workers.view(np.int32))
        leave()

    return F.pandas_udf(route_batches, IntegerType()).asNondeterministic()(*columns, *weights)
