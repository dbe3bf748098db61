"""Ranges of hot keys, and what each range takes from the other ranges of its key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keysplit.spark.jvm import local_rows
from keysplit.spark.names import in_sql
from keysplit.spark.ordered.cuts import Ranges
from keysplit.spark.ordered.parse import frozen
from keysplit.spark.ordered.pieces import AFTER, BEFORE, Names, Pieces


@dataclass(frozen=True)
class Slot:
    """A range of a hot key: its parts, and those whose rows are copied to it because frames reach there.

    Attributes:
        ranges: all ranges of its key.
        worker: where its rows go.
        first: its first part.
        end: the first part after it.
        low: the first part copied from before it, or `first`.
        high: the first part after the parts copied from after it, or `end`.
    """

    ranges: Ranges
    worker: int
    first: int
    end: int
    low: int
    high: int


def slots_of(ranges: Sequence[Ranges], needs: Sequence[tuple[np.ndarray, tuple[int, int]]]) -> list[Slot]:
    """Return the ranges, each with the neighbouring parts that hold all rows its frames may see.

    Args:
        ranges: the ranges of each key.
        needs: pairs: the number of rows of a kind in each part, and how many of them a frame may see before
            and after a row.
    """
    found = []
    for each in ranges:
        ends = [*each.starts[1:], each.end]
        for first, end, worker in zip(each.starts, ends, each.workers, strict=True):
            low, high = first, end
            while low > each.first and any(rows[low:first].sum() < reach[0] for rows, reach in needs):
                low -= 1
            while high < each.end and any(rows[end:high].sum() < reach[1] for rows, reach in needs):
                high += 1
            found.append(Slot(each, worker, first, end, low, high))
    return found


def copies_of(slots: Sequence[Slot], rows: np.ndarray) -> int:
    """Return how many rows are copied; `rows` counts, for each part, those that may be copied."""
    return sum(int(rows[each.low : each.first].sum() + rows[each.end : each.high].sum()) for each in slots)


def table_of(
    summary: DataFrame,
    part: str,
    slots: Sequence[Slot],
    pieces: Sequence[Pieces],
    names: Names,
    ends: DataFrame | None,
    end_values: Mapping[str, tuple[str, str]],
) -> DataFrame:
    """Return a row per range with what it takes from the other ranges of its key.

    Args:
        summary: a row per part, with the partial results.
        part: the name of the column with the number of the part.
        slots: the ranges.
        pieces: the pieces of the window functions.
        names: the columns that all pieces share.
        ends: the rows that single values are taken from, with the part as first column; None if unused.
        end_values: per column, the aggregate in SQL, with `{}` for one more condition, and where the row must
            be: `BEFORE` or `AFTER` the range, anywhere if empty.
    """
    numbers = {
        names.slot: range(len(slots)),
        "low": [each.low for each in slots],
        "high": [each.high for each in slots],
        "key_first": [each.ranges.first for each in slots],
        "key_end": [each.ranges.end for each in slots],
    }
    arrays = {name: pa.array(list(each), pa.int32()) for name, each in numbers.items()}
    # tables of one partition are joined and aggregated without a shuffle
    summary, ranges = summary.coalesce(1), local_rows(summary, pa.table(arrays)).coalesce(1)
    of_key = f"{in_sql(part)} >= key_first AND {in_sql(part)} < key_end"
    joined = ranges.join(summary, F.expr(of_key), "left")
    filters = {BEFORE: f"{in_sql(part)} < low", AFTER: f"{in_sql(part)} >= high"}
    sides = {side: f" FILTER (WHERE {each})" for side, each in filters.items()} | {"": ""}
    taken = {
        names.before: (f"coalesce(sum({in_sql(names.rows)}){{}}, 0L)", BEFORE),
        names.total: (f"sum({in_sql(names.rows)}){{}}", ""),
    }
    for each in pieces:
        taken |= each.table
    found = joined.groupBy(names.slot).agg(
        *(F.expr(aggregate.format(sides[side])).alias(name) for name, (aggregate, side) in taken.items())
    )
    if ends is not None:
        of_key = f"{in_sql(ends.columns[0])} >= key_first AND {in_sql(ends.columns[0])} < key_end"
        values = ranges.join(ends, F.expr(of_key), "left").groupBy(F.col(names.slot).alias("end_slot"))
        near = {side: f" AND {each}" for side, each in filters.items()} | {"": ""}
        singles = values.agg(
            *(F.expr(value.format(near[side])).alias(name) for name, (value, side) in end_values.items())
        )
        found = found.join(singles, F.expr(f"{in_sql(names.slot)} = end_slot"), "left").drop("end_slot")
    return frozen(found)
