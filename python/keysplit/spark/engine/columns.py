"""A plan as plain Column expressions: no Python and nothing native on the executors.

It answers row for row as `native` does; docs/plans.md defines both.
"""

from collections.abc import Sequence

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keysplit.spark.names import in_sql
from keysplit.spark.plans import Plan, Tables

_LOW = (1 << 32) - 1
_LENGTH_BITS = 20


def with_worker(df: DataFrame, plan: Plan, key: Column, row: str | None, worker_column: str) -> DataFrame:
    """Add the worker of each row.

    The column first holds the hash of the key, then what that says, then the worker: names that are free are
    not needed, and each step goes through all columns of a DataFrame, so there are no more of them. All is
    SQL, as each function of PySpark would call the JVM a dozen times.

    Args:
        df: the rows.
        plan: says where they go.
        key: the hash of a row's key.
        row: the hash of its identity, in SQL; None if no key is split.
        worker_column: the name of the new column.

    Returns:
        The rows with one more column, INT and never null.
    """
    own = in_sql(worker_column)
    df = df.select("*", key.alias(worker_column))
    if not plan.head:
        return df.withColumn(worker_column, F.expr(f"coalesce({_of_tail(plan, own)}, 0)"))
    # Of a frequent key where its cells are; of another one its worker, below 0.
    slots = _cuckoo(plan.tables.hashes)
    run = _look_up(_runs(plan.tables, slots), _slot(plan.tables, slots, own), "BIGINT")
    df = df.withColumn(worker_column, F.expr(f"coalesce({run}, -1 - {_of_tail(plan, own)})"))
    worker = f"coalesce({_of_run(plan.tables, own, row)}, CAST(-1 - {own} AS INT), 0)"
    return df.withColumn(worker_column, F.expr(worker))


def workers_of(plan: Plan, key: str) -> str:
    """Return all workers that rows of a key may go to, ARRAY<INT>, by the hash of the key, in SQL."""
    tail = f"array({_of_tail(plan, key)})"
    if not plan.head:
        return tail
    slots = _cuckoo(plan.tables.hashes)
    lists = [",".join(map(str, each.workers)) for each in plan.head]
    by_slot = ";".join(lists[at] if at >= 0 else "0" for at in slots)
    chosen = f"get(split('{by_slot}', ';'), {_slot(plan.tables, slots, key)})"
    return f"coalesce(CAST(split({chosen}, ',') AS ARRAY<INT>), {tail})"


def is_split(plan: Plan, key: str) -> str:
    """Return whether rows of a key go to more than one worker, by the hash of the key, in SQL."""
    return f"size({workers_of(plan, key)}) > 1"


def _of_tail(plan: Plan, key: str) -> str:
    """Return the worker of a key that is not frequent, INT, by the hash of the key."""
    bits = len(plan.tail).bit_length() - 1
    return _look_up(plan.tail, f"CAST(shiftrightunsigned({key}, {64 - bits}) AS INT)")


def _of_run(tables: Tables, found: str, row: str | None) -> str:
    """Return the worker of a frequent key, INT; null where `found` is below 0."""
    run = f"CASE WHEN {found} >= 0 THEN {found} END"
    start = f"shiftrightunsigned({run}, {_LENGTH_BITS})"
    if row is None:
        return _look_up(tables.first, start)
    # Spark computes the hash once a row, and only of frequent keys.
    drawn = f"CASE WHEN {found} >= 0 THEN {row} END"
    length = f"({run} & {(1 << _LENGTH_BITS) - 1})"
    cell = f"{start} + shiftrightunsigned(shiftrightunsigned({drawn}, 32) * {length}, 32)"
    return (
        f"CASE WHEN ({drawn} & {_LOW}L) < {_look_up(tables.cuts, cell, 'BIGINT')} "
        f"THEN {_look_up(tables.first, cell)} ELSE {_look_up(tables.second, cell)} END"
    )


def _runs(tables: Tables, slots: np.ndarray) -> list[int]:
    """Return where the cells of each slot's key start, and how many there are, in one number."""
    runs = (tables.starts.astype(np.int64) << _LENGTH_BITS | tables.lengths).tolist()
    return [runs[at] if at >= 0 else 0 for at in slots]


def _slot(tables: Tables, slots: np.ndarray, key: str) -> str:
    """Return the slot of a frequent key, INT; null for all others."""
    hashes = tables.hashes
    # A slot without a key holds a number that belongs into another one: no key is equal to it.
    vacant = (np.arange(len(slots)) + 1) % len(slots)
    held = np.where(slots >= 0, hashes[np.maximum(slots, 0)], vacant << 32 | vacant)
    one = f"CAST({key} & {len(slots) - 1} AS INT)"
    two = f"CAST(shiftrightunsigned({key}, 32) & {len(slots) - 1} AS INT)"
    cases = (f"WHEN {_look_up(held, slot, 'BIGINT')} = {key} THEN {slot}" for slot in (one, two))
    return f"CASE {' '.join(cases)} END"


def _cuckoo(hashes: np.ndarray) -> np.ndarray:
    """Give each hash one of its two slots; return the number of the hash of each slot, -1 for none.

    The slots are the low bits of the hash and the bits from the 33rd on.
    """
    size = 2 << max(1, 2 * len(hashes) - 1).bit_length()
    while True:
        slots = np.full(size, -1, np.int64)
        if all(_insert(slots, hashes, at) for at in range(len(hashes))):
            return slots
        size *= 2


def _insert(slots: np.ndarray, hashes: np.ndarray, at: int) -> bool:
    mask, place = len(slots) - 1, None
    for _ in range(64):
        one, two = int(hashes[at]) & mask, (int(hashes[at]) >> 32) & mask
        place = next((slot for slot in (one, two) if slots[slot] < 0), two if place == one else one)
        at, slots[place] = slots[place], at
        if at < 0:
            return True
    return False


def _look_up(table: Sequence[int] | np.ndarray, index: str, type_: str = "INT") -> str:
    # Spark folds this into one literal; an array of literals would take a while to parse. In ANSI mode Spark
    # takes `array[null]` for a value that is never null, and drops a coalesce around it; `get` is null.
    return f"get(CAST(split('{','.join(map(str, table))}', ',') AS ARRAY<{type_}>), {index})"
