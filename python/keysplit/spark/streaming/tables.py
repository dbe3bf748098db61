"""The tables of a micro-batch's plan in one array of BIGINT.

The driver sends them in a single answer, because Spark plans each subquery separately. They form an array
because Spark's generated code does not contain the elements of an array. The code would contain a single
number, and Spark would recompile the query whenever a micro-batch had a different number.
"""

from functools import cached_property

import numpy as np

from keysplit.plan import Plan, bucket_of
from keysplit.spark.expr import literals
from keysplit.spark.expr.packed import LENGTH_BITS, cells_of

BY_CELLS, BY_WORKERS = "cells", "workers"
"""Questions for the tables: with frequent keys' cells, and with all their workers."""

# Positions in the array: the last random number with which a row is a candidate; the bits by which a hash is
# shifted to give its bucket; the first bucket. After the buckets follow the slots of frequent keys, each with
# the hash of its key and its run, and then the cells.
_LAST, _SHIFT, _TAIL = range(3)
# A bucket without frequent keys has its worker. Another one has -1 minus a number packed from three, with
# these numbers of bits: the first slot, the slots minus one, and its worker. So one number is read per row.
_MASK_BITS, _WORKER_BITS = 23, 16


class Tables:
    """The tables of a plan as texts for `literals.read_in_sql`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def answer(self, question: str, chance: float) -> str:
        """Return the array for the question `BY_CELLS` or `BY_WORKERS`.

        Args:
            question: which tables to return.
            chance: the chance that a row becomes a candidate.
        """
        tables = self._with_cells if question == BY_CELLS else self._with_workers
        return f"{last_of(chance)},{tables}"

    @cached_property
    def _with_cells(self) -> str:
        return _written(self._plan, cells_of(self._plan.tables))

    @cached_property
    def _with_workers(self) -> str:
        workers = [worker for each in self._plan.head for worker in each.workers]
        return _written(self._plan, np.array(workers, np.int64))


def last_of(chance: float) -> int:
    """Return the number that a random BIGINT does not exceed with a given chance, accurate to 2**-64."""
    return max(int(chance * 2.0**64) - 1, 0) - 2**63


def last_in_sql(tables: str) -> str:
    """Return the largest random BIGINT of a candidate row, in SQL; `tables` is the array."""
    return _at(tables, _LAST)


def bucket_in_sql(own: str, tables: str) -> str:
    """Return the contents of a key's bucket, BIGINT, in SQL: its worker, or below 0 if it has frequent keys.

    If few keys are frequent, most rows need nothing else.

    Args:
        own: the hash of a row's key.
        tables: the array.
    """
    shifted = f"shiftrightunsigned({own}, CAST({_at(tables, _SHIFT)} AS INT))"
    # non-null values need less code
    return f"coalesce({_at(tables, f'{_TAIL} + {shifted}')}, 0L)"


def found_in_sql(own: str, bucket: str, tables: str) -> str:
    """Return the position of a split key's cells, or -1 - worker for any other key, BIGINT, in SQL.

    Args:
        own: the hash of a row's key.
        bucket: the result of `bucket_in_sql` for this hash.
        tables: the array.
    """
    first = f"shiftrightunsigned(~{bucket}, {_MASK_BITS + _WORKER_BITS})"
    mask = f"(shiftrightunsigned(~{bucket}, {_WORKER_BITS}) & {(1 << _MASK_BITS) - 1})"
    slots = [f"{first} + shiftleft({each} & {mask}, 1)" for each in (own, f"shiftrightunsigned({own}, 32)")]
    cases = " ".join(
        f"WHEN {_at(tables, slot)} = {own} THEN {_at(tables, f'({slot}) | 1')}" for slot in slots
    )
    worker = f"~(~{bucket} & {(1 << _WORKER_BITS) - 1})"
    return f"CASE WHEN {bucket} >= 0 THEN ~{bucket} {cases} ELSE {worker} END"


def _written(plan: Plan, cells: np.ndarray) -> str:
    arrays = literals.arrays_of(plan)
    tail, held, runs = arrays["tail"].astype(np.int64), arrays["held"], arrays["runs"]
    shared = np.unique(bucket_of(plan.tables.hashes, len(tail).bit_length() - 1))
    first = _TAIL + len(tail) + len(tail) % 2  # even, so that the run of a slot is at the next odd place
    assert len(held) <= 1 << _MASK_BITS
    mask = len(held) - 1
    tail[shared] = ~(first << _MASK_BITS + _WORKER_BITS | mask << _WORKER_BITS | tail[shared])
    # A run below 0 means a worker.
    runs = np.where(runs < 0, runs, runs + ((first + 2 * len(held)) << LENGTH_BITS))
    slots = np.stack([held, runs], axis=1).ravel()
    padding = np.zeros(first - _TAIL - len(tail), np.int64)
    numbers = np.concatenate([arrays["shift"], tail, padding, slots, cells])
    return literals.written(numbers)


def _at(tables: str, place: str | int) -> str:
    return f"get({tables}, CAST({place} AS INT))"
