"""The plan of each micro-batch in a stream's query, and the counts for the next plans.

The driver answers with the tables of the plan, see `engine.asking`. They are the same for all tasks of the
micro-batch, and for all attempts at these tasks.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.spark.expr import columns, literals
from keysplit.spark.expr.hashes import plan_hash, row_hash_in_sql
from keysplit.spark.frame import Columns
from keysplit.spark.names import in_sql, quoted
from keysplit.spark.request import Request
from keysplit.spark.streaming import by_worker, drawn, tables
from keysplit.spark.streaming.drawn import Bounds
from keysplit.spark.streaming.engine import Ask
from keysplit.spark.streaming.tally import Tally


def routed(request: Request, tally: Tally, bounds: Bounds, ask: Ask) -> DataFrame:
    """Add each row's worker by the plan of its micro-batch; count rows per worker, and draw some rows.

    Args:
        request: the request.
        tally: counts the rows of each worker, see `by_worker`, and sends the drawn rows.
        bounds: how rows are drawn.
        ask: turns questions into queries.

    Returns:
        The rows with their workers.
    """
    worker = request.worker_column
    array, bucket = (request.columns.free(f"keysplit_{name}", worker) for name in ("tables", "bucket"))
    rows = request.df.select("*", plan_hash(request).alias(worker))
    rows = _found(rows, worker, (array, bucket), tables.BY_CELLS, ask)
    rows = rows.withColumn(
        worker, F.expr(columns.worker_of_found(in_sql(array), in_sql(worker), row_hash_in_sql(request)))
    )
    counter = F.expr(by_worker.counter_in_sql(worker, request.workers))
    noted = drawn.noted(request, rows, tally, counter, bounds, F.expr(tables.last_in_sql(in_sql(array))))
    return rows.withColumn(worker, F.when(~noted, -1).otherwise(F.col(quoted(worker)))).drop(array, bucket)


def with_workers(df: DataFrame, key: str, ask: Ask) -> DataFrame:
    """Replace the hash of a row's key with all workers of the key, by the plan of the micro-batch."""
    known = Columns(df)
    array, bucket = known.free("keysplit_tables"), known.free("keysplit_bucket")
    rows = _found(df, key, (array, bucket), tables.BY_WORKERS, ask)
    workers = f"CAST({columns.workers_of_found(in_sql(array), in_sql(key))} AS ARRAY<INT>)"
    return rows.withColumn(key, F.expr(workers)).drop(array, bucket)


def _found(df: DataFrame, key: str, names: tuple[str, str], question: str, ask: Ask) -> DataFrame:
    """Replace the hash of a row's key with the result of `tables.found_in_sql`.

    Args:
        df: the rows.
        key: the name of the column with the hash of a row's key.
        names: the names of two additional columns, for the tables and for the contents of the key's bucket.
        question: which tables to request.
        ask: turns questions into queries.
    """
    array, bucket = map(in_sql, names)
    asked = ask(question, literals.read_in_sql("{}", question, wide=True))
    # Each of these columns is computed once per row, as another projection uses it.
    rows = df.select("*", F.expr(asked).alias(names[0]))
    rows = rows.select("*", F.expr(tables.bucket_in_sql(in_sql(key), array)).alias(names[1]))
    return rows.withColumn(key, F.expr(tables.found_in_sql(in_sql(key), bucket, array)))
