"""`route`: a worker for each row."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType

from keysplit.spark import guard, keys
from keysplit.spark.arguments import Request, check


def route(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    workers: int | None = None,
    grouping: Any = "d_choices",
    plan: Any = None,
    mode: str = "planned",
    worker_column: str = "worker",
    row_id: Any = None,
    weight: str | None = None,
    seed: int | None = None,
    allow_inexact: bool = False,
) -> DataFrame:
    """Add a column that says which worker each row goes to.

    Each task is a source: it routes its rows in their order with a router of its own, whose `source` is the
    number of the partition. A task that runs again gives each row the same worker as before, which holds
    only where the rows come again in the same order; a shuffle below does not keep it and is refused.

    Args:
        df: a batch DataFrame of a classic Spark session. Its sources must give a task that runs again the
            same rows in the same order, as files do.
        key: a column, or a list of columns; keys are equal where `groupBy` says so, and null is a key.
        workers: how many workers there are, 1..=65536. With a grouping object, leave it out.
        grouping: a name in `keysplit.GROUPINGS`, or a grouping such as `DChoices(workers=50)`.
        plan: for mode "planned", which is not available yet.
        mode: "online", the only mode so far.
        worker_column: the name of the new column.
        row_id: for mode "planned", which is not available yet.
        weight: a numeric column with the load of each row; 1 a row if left out. It goes to the router as a
            double.
        seed: the seed of the grouping's hash, 0 if left out. With a grouping object, leave it out.
        allow_inexact: True to route above a shuffle all the same: rows may be lost or doubled, without an
            error, when Spark runs a task again.

    Returns:
        The rows of `df` with one more column, INT, from 0 to workers - 1.

    Raises:
        TypeError: if an argument has a wrong type, or the key holds maps.
        ValueError: if an argument has a wrong value, or there is a shuffle below.

    Source:
        "The Power of Both Choices" (Nasir et al., ICDE 2015), section III-B: each source balances on its own
        what it sends itself.

    Deviations:
        A source is a partition of one job, and forgets its loads when the job ends.

    Example:
        >>> routed = kss.route(df, "word", workers=8, mode="online")  # doctest: +SKIP
    """
    request = check(
        df,
        key,
        workers=workers,
        grouping=grouping,
        plan=plan,
        mode=mode,
        worker_column=worker_column,
        row_id=row_id,
        weight=weight,
        seed=seed,
        allow_inexact=allow_inexact,
    )
    return routed(request)


def routed(request: Request) -> DataFrame:
    """Add the worker column to the DataFrame of a checked request; `route` says what is guaranteed."""
    key, type_ = keys.key_column(request.keys, request.key_types)
    weights = [] if request.weight is None else [F.col(request.weight).cast("double")]
    worker = _arrow_worker if hasattr(F, "arrow_udf") else _pandas_worker
    df = request.df.withColumn(request.worker_column, worker(request.params, key, type_, weights))
    if not request.allow_inexact:
        guard.refuse_shuffle(df)
    return df


# Both UDFs keep one router for all batches of a task, inside the iterator: a Python worker serves other tasks
# later. Both are nondeterministic to Spark, so that it runs them once a row and moves no filter below them.


def _arrow_worker(params: Any, key: Column, type_: DataType, weights: list[Column]) -> Column:
    def route_batches(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        router = params.router(source=TaskContext.get().partitionId())
        for batch in batches:
            batch_keys, *batch_weights = batch if isinstance(batch, tuple) else (batch,)
            load = batch_weights[0].to_numpy(zero_copy_only=False) if batch_weights else None
            yield pa.array(router.route(batch_keys, weights=load).view(np.int32))

    return F.arrow_udf(route_batches, IntegerType()).asNondeterministic()(key, *weights)


def _pandas_worker(params: Any, key: Column, type_: DataType, weights: list[Column]) -> Column:
    columns = keys.pandas_columns(key, type_)
    width, weighted = len(columns), bool(weights)

    def route_batches(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.Series]:
        router = params.router(source=TaskContext.get().partitionId())
        for batch in batches:
            series = batch if isinstance(batch, tuple) else (batch,)
            load = series[width].to_numpy() if weighted else None
            workers = router.route(keys.from_pandas(series[:width], type_), weights=load)
            yield pd.Series(workers.view(np.int32))

    return F.pandas_udf(route_batches, IntegerType()).asNondeterministic()(*columns, *weights)
