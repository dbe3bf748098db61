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

# Where in the array things are: up to which random number a row is drawn, and up to which the values of its
# key come along; by how many bits a hash is shifted to give its bucket; the slots of frequent keys less one,
# where the first is, and how far behind it its run is; the first bucket.
_DRAWN, _SHOWN, _SHIFT, _MASK, _HELD, _RUNS, _TAIL = range(7)


class Tables:
    """The tables of a plan as texts, which `literals.read_in_sql` reads."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def answer(self, question: str, drawn: float, shown: float) -> str:
        """Return the array that `BY_CELLS` or `BY_WORKERS` asks for.

        Args:
            question: which of them.
            drawn: the chance of a row to be drawn.
            shown: the chance of a row that was drawn to come along with the values of its key.
        """
        tables = self._with_cells if question == BY_CELLS else self._with_workers
        return f"{last_of(drawn)},{last_of(drawn * shown)},{tables}"

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


def is_drawn_in_sql(random: str, tables: str) -> str:
    """Return whether a row is drawn, in SQL, by a random number of its own; `tables` is the array."""
    return f"{random} <= {_at(tables, _DRAWN)}"


def is_shown_in_sql(random: str, tables: str) -> str:
    """Return the same for a row whose key's values come along."""
    return f"{random} <= {_at(tables, _SHOWN)}"


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
