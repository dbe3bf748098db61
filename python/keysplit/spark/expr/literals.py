"""The tables of a small plan as literals of the query."""

from collections.abc import Mapping

import numpy as np
from pyspark.sql import DataFrame

from keysplit.plan import Plan
from keysplit.spark.expr.packed import Lookup, runs_of

TABLES = ("tail", "held", "runs", "cells")
"""The arrays that are written as texts."""


def lookup(df: DataFrame, plan: Plan, key: str, cells: np.ndarray | None) -> Lookup:
    """Return expressions that look up a key's hash in a plan's tables.

    Args:
        df: the rows.
        plan: the plan.
        key: the hash of a row's key, in SQL.
        cells: the contents of frequent keys' cells, BIGINT or INT; None for no cells.

    Returns:
        The expressions.
    """
    arrays = _arrays(plan, cells)
    tables = _in_sql(arrays, _literals(arrays))
    return Lookup(df, *_found(key, tables), tables.get("cells", ""))


def arrays_of(plan: Plan, *, whole: bool = True) -> dict[str, np.ndarray]:
    """Return the tables of a plan as arrays; `shift` and `mask` hold a single number each.

    Args:
        plan: the plan.
        whole: whether runs have the workers of keys that are not split, as in `Lookup`.

    Returns:
        tail: the worker of each bucket, INT; shift: the bits by which a key's hash is shifted to give its
            bucket; held: the hash in each slot of a table of frequent keys, BIGINT; runs: the position of the
            cells of a slot's key, BIGINT; mask: the number of slots minus one.
    """
    hashes = plan.tables.hashes
    slots = _cuckoo(hashes)
    # A slot without a key has a number that belongs in another slot, so that no key equals it.
    vacant = (np.arange(len(slots)) + 1) % len(slots)
    held, runs = vacant << 32 | vacant, np.zeros(len(slots), np.int64)
    used = slots >= 0
    held[used] = hashes[slots[used]]
    tables = plan.tables
    first = tables.first[tables.starts] if whole else None
    runs[used] = runs_of(tables.starts, tables.lengths, first)[slots[used]]
    return {
        "tail": plan.tail,
        "shift": _shift(plan),
        "held": held,
        "runs": runs,
        "mask": np.array([len(slots) - 1]),
    }


def found_in_sql(plan: Plan, key: str, cells: np.ndarray | None) -> tuple[str, str, str]:
    """Return the same look-up without a DataFrame: `tail`, `run` and `cells` of `Lookup`.

    All frequent keys have runs here.

    Args:
        plan: the plan.
        key: the hash of a row's key, in SQL.
        cells: as in `lookup`.
    """
    arrays = _arrays(plan, cells, whole=False)
    tables = _in_sql(arrays, _literals(arrays))
    return *_found(key, tables), tables.get("cells", "")


def _arrays(plan: Plan, cells: np.ndarray | None, *, whole: bool = True) -> dict[str, np.ndarray]:
    arrays = arrays_of(plan, whole=whole) if plan.head else {"tail": plan.tail, "shift": _shift(plan)}
    if cells is not None:
        arrays["cells"] = cells
    return arrays


def _in_sql(arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> dict[str, str]:
    """Return arrays and numbers in SQL; `texts` are the texts of the arrays, in SQL."""
    return {
        # Spark folds this into one literal; an array of literals would take a while to parse.
        name: read_in_sql(texts[name], name, wide=array.dtype == np.int64)
        if name in TABLES
        else str(int(array[0]))
        for name, array in arrays.items()
    }


def _literals(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Return the texts of arrays as SQL literals."""
    return {name: f"'{written(arrays[name])}'" for name in TABLES if name in arrays}


def _found(own: str, arrays: Mapping[str, str]) -> tuple[str, str]:
    tail = _look_up(arrays["tail"], f"CAST(shiftrightunsigned({own}, {arrays['shift']}) AS INT)")
    if "held" not in arrays:
        return tail, ""
    mask = f"CAST({arrays['mask']} AS BIGINT)"
    one = f"CAST({own} & {mask} AS INT)"
    two = f"CAST(shiftrightunsigned({own}, 32) & {mask} AS INT)"
    cases = (f"WHEN {_look_up(arrays['held'], slot)} = {own} THEN {slot}" for slot in (one, two))
    return tail, _look_up(arrays["runs"], f"CASE {' '.join(cases)} END")


def written(array: np.ndarray) -> str:
    """Return an array's numbers as text for `read_in_sql`."""
    return ",".join(map(str, array.tolist()))


def read_in_sql(text: str, name: str, *, wide: bool) -> str:
    """Return SQL that reads the array from a text made by `written`."""
    if name in ("shift", "mask"):
        return f"CAST({text} AS INT)"
    return f"CAST(split({text}, ',') AS ARRAY<{'BIGINT' if wide else 'INT'}>)"


def _shift(plan: Plan) -> np.ndarray:
    return np.array([64 - (len(plan.tail).bit_length() - 1)])


def _cuckoo(hashes: np.ndarray) -> np.ndarray:
    """Assign each hash one of its two slots; return each slot's hash number, -1 for none.

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


def _look_up(table: str, index: str) -> str:
    # In ANSI mode Spark assumes that `array[null]` is never null, and drops a coalesce around it; `get`
    # returns null.
    return f"get({table}, {index})"
