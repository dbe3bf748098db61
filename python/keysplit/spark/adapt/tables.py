"""The tables of the plan of a micro-batch in one array of BIGINT.

They are one answer of the driver, as Spark plans each subquery by itself. They are an array, as what an array
holds is no part of the code that Spark generates. A single number would be: Spark would compile the query
anew for each micro-batch that has another one.
"""

from functools import cached_property

import numpy as np

from keysplit.planning import bucket_of
from keysplit.spark.engine import literals
from keysplit.spark.engine.packed import LENGTH_BITS, cells_of
from keysplit.spark.plans import Plan

BY_CELLS, BY_WORKERS = "cells", "workers"
"""Questions for the tables: with the cells of frequent keys, and with all their workers."""

# Where in the array things are: the last random number by which a row may be drawn; by how many bits a hash
# is shifted to give its bucket; the slots of frequent keys less one, where the first is, and how far behind
# it its run is; the first bucket.
_LAST, _SHIFT, _MASK, _HELD, _RUNS, _TAIL = range(6)


class Tables:
    """The tables of a plan as texts, which `literals.read_in_sql` reads."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def answer(self, question: str, chance: float) -> str:
        """Return the array that `BY_CELLS` or `BY_WORKERS` asks for.

        Args:
            question: which of them.
            chance: the chance of a row to be drawn, at most.
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
    """Return up to which number a random BIGINT is by a chance, to 2**-64."""
    return max(int(chance * 2.0**64) - 1, 0) - 2**63


def last_in_sql(tables: str) -> str:
    """Return up to which random BIGINT a row may be drawn, in SQL; `tables` is the array."""
    return _at(tables, _LAST)


def bucket_in_sql(own: str, tables: str) -> str:
    """Return the worker of a key's bucket, BIGINT, in SQL; -1 less that if frequent keys are in the bucket.

    Where few keys are frequent, most rows need no more than this.

    Args:
        own: the hash of a row's key.
        tables: the array.
    """
    return _at(tables, f"{_TAIL} + shiftrightunsigned({own}, CAST({_at(tables, _SHIFT)} AS INT))")


def found_in_sql(own: str, bucket: str, tables: str) -> str:
    """Return where the cells of a split key are, and below 0 the worker of another one, BIGINT, in SQL.

    Args:
        own: the hash of a row's key.
        bucket: what `bucket_in_sql` has found for it.
        tables: the array.
    """
    mask, held = _at(tables, _MASK), _at(tables, _HELD)
    slots = [f"{held} + ({each} & {mask})" for each in (own, f"shiftrightunsigned({own}, 32)")]
    cases = " ".join(f"WHEN {_at(tables, slot)} = {own} THEN {slot}" for slot in slots)
    run = _at(tables, f"{_at(tables, _RUNS)} + CASE {cases} END")
    return f"CASE WHEN {bucket} >= 0 THEN -1 - {bucket} ELSE coalesce({run}, {bucket}) END"


def _written(plan: Plan, cells: np.ndarray) -> str:
    arrays = literals.arrays_of(plan)
    tail, held, runs = arrays["tail"].astype(np.int64), arrays["held"], arrays["runs"]
    shared = np.unique(bucket_of(plan.tables.hashes, len(tail).bit_length() - 1))
    tail[shared] = -1 - tail[shared]
    first = _TAIL + len(tail)
    # A run below 0 is a worker.
    runs = np.where(runs < 0, runs, runs + ((first + len(held) + len(runs)) << LENGTH_BITS))
    numbers = np.concatenate([arrays["shift"], arrays["mask"], [first, len(held)], tail, held, runs, cells])
    return literals.written(numbers.astype(np.int64))


def _at(tables: str, place: str | int) -> str:
    return f"get({tables}, CAST({place} AS INT))"
