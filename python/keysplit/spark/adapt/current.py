"""The plan of each micro-batch in the query of a stream, and what the batch counts for the next plans.

The tables of the plan are an answer of the driver, see `Session.asks_driver`: the same for all tasks of the
micro-batch, and for all their attempts.
"""

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keysplit.spark.adapt import tables
from keysplit.spark.counting import by_worker
from keysplit.spark.counting.by_sample import texts_shown
from keysplit.spark.engine import columns, literals
from keysplit.spark.frame import Columns
from keysplit.spark.hashes import plan_hash, row_hash_in_sql
from keysplit.spark.names import in_sql
from keysplit.spark.options import Request
from keysplit.spark.session import Ask

CHANCE = "chance"
"""The question for the chance of a row to be drawn."""

# A random number. Spark gives rand() another seed in each micro-batch. Generated code would hold that, and be
# compiled anew; Spark generates none of functions over two arrays.
_RANDOM = "get(zip_with(array(0), array(0), (x, y) -> rand()), 0)"


def routed(request: Request, metrics: str, ask: Ask, shown: float) -> DataFrame:
    """Add the worker of each row by the plan of its micro-batch; count the rows of each, and draw some rows.

    Args:
        request: the request.
        metrics: the name of the metrics.
        ask: makes queries of questions.
        shown: the chance of a row that was drawn to come along with the values of its key.

    Returns:
        The rows with their workers. The metrics are `rows`, a sketch that `by_worker.counted` reads; of the
        rows that were drawn `hashes`, which `hashes_of` reads, and `weights`, if they have others than 1; and
        of some of them `values`, with `hash` and `texts`.
    """
    worker = request.worker_column
    array, bucket, drawn = (
        request.columns.free(f"keysplit_{name}", worker) for name in ("tables", "bucket", "drawn")
    )
    rows = request.df.select("*", plan_hash(request).alias(worker))
    rows = _found(rows, worker, (array, bucket), tables.BY_CELLS, ask)
    placed = columns.worker_of_found(in_sql(array), worker, row_hash_in_sql(request))
    rows = rows.withColumn(worker, F.expr(placed)).drop(array, bucket)
    # Spark observes no random numbers, but columns that hold them: null but for rows that are drawn.
    rows = rows.select("*", F.expr(_drawn(worker, ask, shown)).alias(drawn))
    own = plan_hash(request)
    values = F.struct(own.alias("hash"), texts_shown(request.keys, request.key_types).alias("texts"))
    aggregates = [
        F.expr(by_worker.counting(worker, request.workers)).alias("rows"),
        _packed(F.collect_list(F.when(F.col(drawn).isNotNull(), own))).alias("hashes"),
        F.collect_list(F.when(F.col(drawn), values)).alias("values"),
    ]
    if request.weight is not None:
        weight = F.coalesce(request.weight, F.lit(0.0))
        aggregates.append(F.collect_list(F.when(F.col(drawn).isNotNull(), weight)).alias("weights"))
    return rows.observe(metrics, *aggregates).drop(drawn)


def with_workers(df: DataFrame, key: str, ask: Ask) -> DataFrame:
    """Put all workers of a row's key in the place of its hash, by the plan of the micro-batch."""
    known = Columns(df)
    array, bucket = known.free("keysplit_tables"), known.free("keysplit_bucket")
    rows = _found(df, key, (array, bucket), tables.BY_WORKERS, ask)
    workers = f"CAST({columns.workers_of_found(in_sql(array), key)} AS ARRAY<INT>)"
    return rows.withColumn(key, F.expr(workers)).drop(array, bucket)


def hashes_of(packed: bytes) -> np.ndarray:
    """Return the hashes, int64, that the metrics hold as bytes."""
    return np.frombuffer(packed, ">i8").astype(np.int64)


def _drawn(worker: str, ask: Ask, shown: float) -> str:
    """Return in SQL a BOOLEAN for rows that are drawn, null for all others: whether their values come along.

    The chance is in an array for the reason that the tables are in one. Naming the worker keeps Spark from
    computing it in the same projection, for which the tables would be copied with each row.
    """
    chance = f"get({ask(CHANCE, 'array(CAST({} AS DOUBLE))')}, 0)"
    is_drawn = f"{in_sql(worker)} >= 0 AND {_RANDOM} < {chance}"
    return f"CASE WHEN {is_drawn} THEN {_RANDOM} < {shown!r}D END"


def _found(df: DataFrame, key: str, names: tuple[str, str], question: str, ask: Ask) -> DataFrame:
    """Put what `tables.found_in_sql` says in the place of the hash of a row's key.

    Args:
        df: the rows.
        key: the name of the column that holds the hash of a row's key.
        names: those of two more columns, for the tables and for what the key's bucket holds.
        question: which tables.
        ask: makes queries of questions.
    """
    array, bucket = map(in_sql, names)
    asked = ask(question, literals.read_in_sql("{}", question, wide=True))
    # Each of these columns is computed once per row, as what uses it stands in another projection.
    rows = df.select("*", F.expr(asked).alias(names[0]))
    rows = rows.select("*", F.expr(tables.bucket_in_sql(in_sql(key), array)).alias(names[1]))
    return rows.withColumn(key, F.expr(tables.found_in_sql(in_sql(key), bucket, array)))


def _packed(hashes: Column) -> Column:
    """Return an array of BIGINT as bytes: as numbers they would take thrice the room in Spark's logs."""
    digits = F.transform(hashes, lambda each: F.lpad(F.hex(each), 16, "0"))
    return F.unhex(F.array_join(digits, ""))
