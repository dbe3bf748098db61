"""A plan as plain Column expressions: no Python and nothing native on the executors.

docs/plans.md defines the result. The tables of a small plan are `literals` of the query. Spark sends literals
with each task of their stage and of downstream stages, so a large plan's tables are `broadcast` instead.
"""

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keysplit.plan import Plan
from keysplit.spark.expr import broadcast, literals
from keysplit.spark.expr.packed import LENGTH_BITS, Lookup, cells_of
from keysplit.spark.names import in_sql

MOST_LITERALS = 20_000
"""The largest number of buckets and of cells in a small plan."""


def with_worker(
    df: DataFrame, plan: Plan, key: str | Column, row: str | None, worker_column: str
) -> DataFrame:
    """Add the worker of each row.

    There are three projections: the key's hash, the look-up by this hash, the worker. They are SQL text,
    because each PySpark function would call the JVM a dozen times.

    Args:
        df: the rows.
        plan: the plan.
        key: the hash of a row's key, in SQL if SQL can express it.
        row: the hash of its identity, in SQL; None if no key is split.
        worker_column: the name of the new column.

    Returns:
        The rows with one more column, INT and never null.
    """
    cells = None if row is None else cells_of(plan.tables)
    key = F.expr(key) if isinstance(key, str) else key
    lookup = _lookup(df.select("*", key.alias(worker_column)), plan, worker_column, cells)
    rows, (*steps, last) = lookup.df, _steps(lookup, row, in_sql(worker_column))
    for step in steps:
        rows = rows.withColumn(worker_column, F.expr(step))
    return _done(lookup, rows, worker_column, last)


def _steps(found: Lookup, row: str | None, own: str) -> list[str]:
    """Return the two steps from a key's hash to the worker, in SQL; the second reads the first as `own`."""
    if not found.run:
        return [f"coalesce({found.tail}, 0)"]
    if row is None:  # no key is split
        return [f"coalesce(CAST(-1L - {found.run} AS INT), {found.tail}, 0)"]
    return [_found(found), worker_of_found(found.cells, own, row)]


def worker_of_found(cells: str, own: str, row: str) -> str:
    """Return the worker of a row, in SQL, INT and never null.

    Args:
        cells: the array of the cells, in SQL.
        own: the position of a split key's cells in the array, or -1 - worker for any other key, in SQL.
        row: the hash of the row's identity, in SQL.
    """
    # Spark computes the hash of a row once, and only for split keys.
    run, drawn = (f"CASE WHEN {own} >= 0L THEN {each} END" for each in (own, row))
    return f"coalesce({_of_run(cells, run, drawn)}, CAST(-1L - {own} AS INT), 0)"


def worker_in_sql(plan: Plan, key: str, row: str | None) -> str:
    """Return the worker of a row as one SQL expression, with literals for plans of any size.

    Args:
        plan: the plan.
        key: the hash of the row's key, in SQL.
        row: as in `with_worker`.
    """
    tail, run, cells = literals.found_in_sql(plan, key, cells_of(plan.tables) if plan.head else None)
    return f"coalesce({_of_run(cells, run, row)}, {tail}, 0)" if run else f"coalesce({tail}, 0)"


def with_workers(df: DataFrame, plan: Plan, key: str) -> DataFrame:
    """Replace the hash of a key by all workers that its rows may go to, ARRAY<INT>.

    Args:
        df: the rows.
        plan: the plan.
        key: the name of the column with the hash of a row's key.

    Returns:
        The rows with their workers in that column.
    """
    workers = np.concatenate([each.workers for each in plan.head]).astype(np.int32) if plan.head else None
    found = _lookup(df, plan, key, workers)
    if not found.run:
        return _done(found, found.df, key, f"array(coalesce({found.tail}, 0))")
    df = found.df.withColumn(key, F.expr(_found(found)))
    return _done(found, df, key, workers_of_found(found.cells, in_sql(key)))


def workers_of_found(workers: str, own: str) -> str:
    """Return all workers of a row's key, in SQL; arguments as in `worker_of_found`, with workers as cells."""
    start, length = f"CAST(shiftrightunsigned({own}, {LENGTH_BITS}) AS INT)", f"CAST({_length(own)} AS INT)"
    return f"IF({own} >= 0L, slice({workers}, {start} + 1, {length}), array(CAST(-1L - {own} AS INT)))"


def of_split_keys(df: DataFrame, plan: Plan, key: str) -> DataFrame:
    """Return the rows whose keys have more than one worker; arguments as in `with_workers`."""
    if not plan.splits:
        return df.filter("false")
    found = _lookup(df, plan, key, None)
    return found.df.filter(f"{found.run} >= 0L").drop(*found.names)


def _lookup(df: DataFrame, plan: Plan, key: str, cells: np.ndarray | None) -> Lookup:
    if _is_small(plan):
        return literals.lookup(df, plan, in_sql(key), cells)
    return broadcast.lookup(df, plan, key, cells)


def _is_small(plan: Plan) -> bool:
    return len(plan.tail) + sum(len(each.workers) for each in plan.head) <= MOST_LITERALS


def _done(found: Lookup, df: DataFrame, name: str, last: str) -> DataFrame:
    df = df.withColumn(name, F.expr(last))
    return df.drop(*found.names) if found.names else df


def _found(found: Lookup) -> str:
    """Return the position of a split key's cells, or -1 - worker for any other key, BIGINT."""
    return f"coalesce({found.run}, CAST(-1 - {found.tail} AS BIGINT))"


def _of_run(cells: str, run: str, row: str | None) -> str:
    """Return the worker of a frequent key, INT; null if `run` is null."""
    at, bits = f"shiftrightunsigned({run}, {LENGTH_BITS})", "16"
    if row is not None:
        at += f" + shiftrightunsigned(shiftrightunsigned({row}, 32) * {_length(run)}, 32)"
    cell = f"get({cells}, CAST({at} AS INT))"
    if row is not None:
        # Not `row & 4294967295`: Spark would move that into the CASE of `row` and hash each row twice.
        low = f"shiftrightunsigned(shiftleft({row}, 32), 32)"
        bits = f"IF({low} < shiftrightunsigned({cell}, 32), 16, 0)"
    return f"CAST(shiftrightunsigned({cell}, {bits}) & 65535L AS INT)"


def _length(run: str) -> str:
    return f"({run} & {(1 << LENGTH_BITS) - 1}L)"
