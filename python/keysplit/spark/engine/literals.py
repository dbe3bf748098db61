"""The tables of a small plan as literals of the query."""

import numpy as np
from pyspark.sql import DataFrame

from keysplit.spark.engine.packed import Lookup, runs_of
from keysplit.spark.names import in_sql
from keysplit.spark.plans import Plan, Tables


def lookup(df: DataFrame, plan: Plan, key: str, cells: np.ndarray | None) -> Lookup:
    """Return where the tables of a plan are found.

    Args:
        df: the rows.
        plan: the plan.
        key: the name of the column that holds the hash of a row's key.
        cells: what is to be found in the cells of frequent keys, BIGINT or INT; None for nothing.

    Returns:
        Expressions of that column.
    """
    own, bits = in_sql(key), len(plan.tail).bit_length() - 1
    tail = _look_up(plan.tail, f"CAST(shiftrightunsigned({own}, {64 - bits}) AS INT)")
    run = _run(plan.tables, own) if plan.head else ""
    return Lookup(df, tail, run, "" if cells is None else _array(cells))


def _run(tables: Tables, key: str) -> str:
    """Return where the cells of a frequent key are, BIGINT; null for all others."""
    slots, runs = _cuckoo(tables.hashes), runs_of(tables.starts, tables.lengths)
    return _look_up(np.where(slots >= 0, runs[slots], 0), _slot(tables, slots, key))


def _slot(tables: Tables, slots: np.ndarray, key: str) -> str:
    """Return the slot of a frequent key, INT; null for all others."""
    hashes = tables.hashes
    # A slot without a key holds a number that belongs into another one: no key is equal to it.
    vacant = (np.arange(len(slots)) + 1) % len(slots)
    held = np.where(slots >= 0, hashes[np.maximum(slots, 0)], vacant << 32 | vacant)
    one = f"CAST({key} & {len(slots) - 1} AS INT)"
    two = f"CAST(shiftrightunsigned({key}, 32) & {len(slots) - 1} AS INT)"
    cases = (f"WHEN {_look_up(held, slot)} = {key} THEN {slot}" for slot in (one, two))
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


def _look_up(table: np.ndarray, index: str) -> str:
    # In ANSI mode Spark takes `array[null]` for a value that is never null, and drops a coalesce around it;
    # `get` is null.
    return f"get({_array(table)}, {index})"


def _array(numbers: np.ndarray) -> str:
    # Spark folds this into one literal; an array of literals would take a while to parse.
    type_ = "BIGINT" if numbers.dtype == np.int64 else "INT"
    return f"CAST(split('{','.join(map(str, numbers.tolist()))}', ',') AS ARRAY<{type_}>)"
