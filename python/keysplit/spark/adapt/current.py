"""The plan of each micro-batch in the query of a stream, and what the batch counts for the next plans.

The tables of the plan are answers of the driver, see `Session.asks_driver`: literals of the one micro-batch.
"""

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keysplit.spark.counting import by_worker
from keysplit.spark.counting.by_sample import texts_shown
from keysplit.spark.engine import columns, literals
from keysplit.spark.hashes import plan_hash, row_hash_in_sql
from keysplit.spark.names import in_sql
from keysplit.spark.options import Request
from keysplit.spark.session import Ask

_WIDE = ("held", "runs", "cells")
CHANCE, SHOWN = "chance", "shown"
"""Questions for the chance of a row to be drawn, and to be drawn with the values of its key."""


def with_worker(request: Request, ask: Ask) -> DataFrame:
    """Add the worker of each row by the plan of its micro-batch; `ask` makes queries of questions."""
    name = request.worker_column
    found = literals.found_in(
        request.df.select("*", plan_hash(request).alias(name)), name, _arrays(ask, "cells")
    )
    return columns.worker_found(found, row_hash_in_sql(request), name)


def with_workers(df: DataFrame, key: str, ask: Ask) -> DataFrame:
    """Put all workers of a row's key in the place of its hash, by the plan of the micro-batch."""
    return columns.workers_found(literals.found_in(df, key, _arrays(ask, "workers")), key)


def observed(request: Request, rows: DataFrame, metrics: str, ask: Ask) -> DataFrame:
    """Count the rows of each worker, and draw some rows, while the rows pass.

    Args:
        request: the request.
        rows: its rows with their workers.
        metrics: the name of the metrics.
        ask: makes queries of questions.

    Returns:
        The rows. The metrics are `rows`, a sketch that `by_worker.counted` reads; of the rows that were drawn
        `hashes`, which `hashes_of` reads, and `weights`, if they have others than 1; and of some of them
        `values`, with `hash` and `texts`.
    """
    number, drawn = (
        request.columns.free(f"keysplit_{name}", request.worker_column) for name in ("number", "drawn")
    )
    # Spark observes no random numbers, but columns that hold them.
    numbered = rows.select("*", F.expr("rand()").alias(number))
    # Nor does it take a subquery in what is packed.
    chosen = F.when(F.expr(f"{in_sql(number)} < {_number(ask, CHANCE)}"), plan_hash(request))
    values = F.struct(F.col(drawn).alias("hash"), texts_shown(request.keys, request.key_types).alias("texts"))
    with_values = F.expr(f"{in_sql(number)} < {_number(ask, SHOWN)}")
    aggregates = [
        F.expr(by_worker.counting(request.worker_column, request.workers)).alias("rows"),
        _packed(F.collect_list(drawn)).alias("hashes"),
        F.collect_list(F.when(with_values, values)).alias("values"),
    ]
    if request.weight is not None:
        weight = F.coalesce(request.weight, F.lit(0.0))
        aggregates.append(F.collect_list(F.when(F.col(drawn).isNotNull(), weight)).alias("weights"))
    return numbered.select("*", chosen.alias(drawn)).observe(metrics, *aggregates).drop(number, drawn)


def hashes_of(packed: bytes) -> np.ndarray:
    """Return the hashes, int64, that the metrics hold as bytes."""
    return np.frombuffer(packed, ">i8").astype(np.int64)


def _packed(hashes: Column) -> Column:
    """Return an array of BIGINT as bytes: as numbers they would take thrice the room in Spark's logs."""
    digits = F.transform(hashes, lambda each: F.lpad(F.hex(each), 16, "0"))
    return F.unhex(F.array_join(digits, ""))


def _arrays(ask: Ask, cells: str) -> dict[str, str]:
    names = {name: name for name in ("tail", "shift", "held", "runs", "mask")} | {"cells": cells}
    return {
        name: ask(question, literals.read_in_sql("{}", name, wide=question in _WIDE))
        for name, question in names.items()
    }


def _number(ask: Ask, question: str) -> str:
    return ask(question, "CAST({} AS DOUBLE)")
