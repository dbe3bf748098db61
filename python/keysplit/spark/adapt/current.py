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
from keysplit.spark.names import in_sql, quoted
from keysplit.spark.options import Request
from keysplit.spark.session import Ask, random_number


def routed(request: Request, metrics: str, ask: Ask) -> DataFrame:
    """Add the worker of each row by the plan of its micro-batch; count the rows of each, and draw some rows.

    Args:
        request: the request.
        metrics: the name of the metrics.
        ask: makes queries of questions.

    Returns:
        The rows with their workers. The metrics are `rows`, a sketch that `by_worker.counted` reads; of the
        rows that were drawn `hashes`, which `hashes_of` reads, and `weights`, if they have others than 1; and
        of some of them `values`, with `hash` and `texts`.
    """
    worker = request.worker_column
    array, bucket, random, *drawn = (
        request.columns.free(f"keysplit_{name}", worker)
        for name in ("tables", "bucket", "random", "hashes", "values", "weights")
    )
    rows = request.df.select("*", plan_hash(request).alias(worker), random_number().alias(random))
    rows = _found(rows, worker, (array, bucket), tables.BY_CELLS, ask)
    rows = rows.withColumn(
        worker, F.expr(columns.worker_of_found(in_sql(array), worker, row_hash_in_sql(request)))
    )
    # Spark generates no code for what it observes, so each aggregate reads a column, null for most rows.
    is_drawn, is_shown = (
        F.expr(each(in_sql(random), in_sql(array)))
        for each in (tables.is_drawn_in_sql, tables.is_shown_in_sql)
    )
    own = plan_hash(request)
    values = F.struct(own.alias("hash"), texts_shown(request.keys, request.key_types).alias("texts"))
    found = [F.when(is_drawn, F.lpad(F.hex(own), 16, "0")), F.when(is_shown, values)]
    if request.weight is not None:
        found.append(F.when(is_drawn, F.coalesce(request.weight, F.lit(0.0))))
    drawn = drawn[: len(found)]
    rows = rows.select("*", *map(Column.alias, found, drawn)).drop(array, bucket, random)
    lists = [F.collect_list(quoted(each)) for each in drawn]
    # As numbers the hashes would take thrice the room in Spark's logs.
    lists[0] = F.unhex(F.array_join(lists[0], ""))
    named = map(Column.alias, lists, ("hashes", "values", "weights"))
    counts = F.expr(by_worker.counting(worker, request.workers)).alias("rows")
    return rows.observe(metrics, counts, *named).drop(*drawn)


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
