"""A plan as plain Column expressions: no Python and nothing native on the executors.

It answers row for row as `native` does; docs/plans.md defines both.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keysplit.spark.options import quoted
from keysplit.spark.plans import Plan, Tables

_LOW = (1 << 32) - 1
_LENGTH_BITS = 20


def with_worker(df: DataFrame, plan: Plan, key: Column, row: Column | None, worker_column: str) -> DataFrame:
    """Add the worker of each row.

    Args:
        df: the rows.
        plan: says where they go.
        key: the hash of a row's key.
        row: the hash of its identity; None if no key is split.
        worker_column: the name of the new column.

    Returns:
        The rows with one more column, INT and never null.
    """
    tail = worker_of_tail(plan, key)
    if not plan.head:
        return df.select("*", F.coalesce(tail, F.lit(0)).alias(worker_column))
    # The column first holds what its key says: where the cells of a frequent key are, or, below 0, the worker
    # of another one. A second step makes the worker of it: each step goes through all columns of a DataFrame,
    # so there are no more of them. Spark computes an expression that comes several times once a row.
    slots = _cuckoo(plan.tables.hashes)
    run = _look_up(_runs(plan.tables, slots), _slot(plan.tables, slots, key), "bigint")
    df = df.select("*", F.coalesce(run, -1 - tail).alias(worker_column))
    found = F.col(quoted(worker_column))
    run = F.when(found >= 0, found)
    start = F.shiftrightunsigned(run, _LENGTH_BITS)
    tables = plan.tables
    if row is None:
        worker = _look_up(tables.first, start)
    else:
        drawn = F.when(found >= 0, row)
        length = run.bitwiseAND(F.lit((1 << _LENGTH_BITS) - 1))
        start = start + F.shiftrightunsigned(F.shiftrightunsigned(drawn, 32) * length, 32)
        is_first = drawn.bitwiseAND(F.lit(_LOW)) < _look_up(tables.cuts, start, "bigint")
        worker = F.when(is_first, _look_up(tables.first, start)).otherwise(_look_up(tables.second, start))
    return df.withColumn(worker_column, F.coalesce(worker, (-1 - found).cast("int"), F.lit(0)))


def worker_of_tail(plan: Plan, key: Column) -> Column:
    """Return the worker of a key that is not frequent, INT, by the hash of the key."""
    bits = len(plan.tail).bit_length() - 1
    return _look_up(plan.tail, F.shiftrightunsigned(key, 64 - bits).cast("int"))


def workers_of(plan: Plan, key: Column) -> Column:
    """Return all workers that rows of a key may go to, ARRAY<INT>, by the hash of the key."""
    tail = F.array(worker_of_tail(plan, key))
    if not plan.head:
        return tail
    slots = _cuckoo(plan.tables.hashes)
    slot = _slot(plan.tables, slots, key)
    lists = [",".join(map(str, each.workers)) for each in plan.head]
    by_slot = ";".join(lists[at] if at >= 0 else "0" for at in slots)
    chosen = F.split(F.lit(by_slot), ";")[slot]
    return F.when(slot.isNotNull(), F.split(chosen, ",").cast("array<int>")).otherwise(tail)


def is_split(plan: Plan, key: Column) -> Column:
    """Return whether rows of a key go to more than one worker, by the hash of the key."""
    return F.size(workers_of(plan, key)) > 1


def _runs(tables: Tables, slots: np.ndarray) -> list[int]:
    """Return where the cells of each slot's key start, and how many there are, in one number."""
    runs = (tables.starts.astype(np.int64) << _LENGTH_BITS | tables.lengths).tolist()
    return [runs[at] if at >= 0 else 0 for at in slots]


def _slot(tables: Tables, slots: np.ndarray, key: Column) -> Column:
    """Return the slot of a frequent key, INT; null for all others."""
    hashes = tables.hashes
    # A slot without a key holds a number that belongs into another one: no key is equal to it.
    vacant = (np.arange(len(slots)) + 1) % len(slots)
    held = np.where(slots >= 0, hashes[np.maximum(slots, 0)], vacant << 32 | vacant)
    one = key.bitwiseAND(F.lit(len(slots) - 1)).cast("int")
    two = F.shiftrightunsigned(key, 32).bitwiseAND(F.lit(len(slots) - 1)).cast("int")
    return F.when(_look_up(held, one, "bigint") == key, one).when(_look_up(held, two, "bigint") == key, two)


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


def _look_up(table: Sequence[int] | np.ndarray, index: Column, type_: str = "int") -> Column:
    # Spark folds this into one literal; an array of literals would take a call of the JVM for each.
    literal: Any = F.split(F.lit(",".join(map(str, table))), ",").cast(f"array<{type_}>")
    return literal[index]
