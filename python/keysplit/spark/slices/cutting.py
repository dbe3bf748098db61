"""Cut sorted rows into groups."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Places:
    """The positions of columns in a batch.

    Attributes:
        names: the names of the columns that the function sees.
        rows: the positions of these columns.
        keys: the positions of the key columns.
        cuts: the positions of columns that change exactly where a new group begins.
    """

    names: Sequence[str]
    rows: Sequence[int]
    keys: Sequence[int]
    cuts: Sequence[int]


@dataclass(frozen=True)
class Groups:
    """Complete groups: group i has the rows from bounds[i] to bounds[i + 1]."""

    table: pa.Table
    bounds: np.ndarray


def groups_of(batches: Iterable[pa.RecordBatch], cuts: Sequence[int]) -> Iterator[Groups]:
    """Cut the batches of a sorted partition into groups."""
    cutter = Cutter(cuts)
    for batch in batches:
        yield from cutter.add(batch)
    yield from cutter.rest()


class Cutter:
    """Collects sorted rows until a group is complete; keeps at most one incomplete group."""

    def __init__(self, cuts: Sequence[int]) -> None:
        self._cuts = cuts
        self._open: list[pa.RecordBatch] = []  # rows of one group, which may continue

    def add(self, batch: pa.RecordBatch) -> Iterator[Groups]:
        """Add rows, and return the groups that are now complete."""
        if not batch.num_rows:
            return
        starts = self._starts(batch)
        if not len(starts):
            self._open.append(batch)
            return
        begin = 0
        if len(self._open) > 1:  # a large group, to avoid copying it with others
            begin = int(starts[0])
            yield _one_group([*self._open, batch.slice(0, begin)])
            self._open = []
        end = int(starts[-1])
        if begin < end:
            before = sum(each.num_rows for each in self._open)
            bounds = starts - begin + before
            bounds = bounds if bounds[0] == 0 else np.concatenate([[0], bounds])
            table = pa.Table.from_batches([*self._open, batch.slice(begin, end - begin)])
            self._open = [batch.slice(end)]
            yield Groups(table, bounds)
        elif self._open:
            complete, self._open = self._open, [batch.slice(end)]
            yield _one_group(complete)
        else:
            self._open = [batch.slice(end)]

    def rest(self) -> Iterator[Groups]:
        """Return the last group."""
        if self._open:
            complete, self._open = self._open, []
            yield _one_group(complete)

    def _starts(self, batch: pa.RecordBatch) -> np.ndarray:
        """Return the indices of rows where a new group begins, without the very first row."""
        begins = np.zeros(batch.num_rows, bool)
        for place in self._cuts:
            column = batch.column(place)
            begins[1:] |= _differ(column)
            if self._open:
                last = self._open[-1].column(place)
                begins[0] |= _differ(pa.concat_arrays([last.slice(len(last) - 1), column.slice(0, 1)]))[0]
        return np.flatnonzero(begins)


def _one_group(batches: list[pa.RecordBatch]) -> Groups:
    table = pa.Table.from_batches(batches)
    return Groups(table, np.array([0, table.num_rows]))


def _differ(column: pa.Array) -> np.ndarray:
    """Return for each row except the first whether its key differs from the previous row's."""
    if pa.types.is_null(column.type) or len(column) < 2:
        return np.zeros(max(len(column) - 1, 0), bool)
    differ: np.ndarray
    if pa.types.is_floating(column.type):
        values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
        both_nan = np.isnan(values[1:]) & np.isnan(values[:-1])
        differ = (values[1:] != values[:-1]) & ~both_nan
    else:
        unequal = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
        differ = pc.fill_null(unequal, False).to_numpy(zero_copy_only=False)
    if column.null_count:
        null = column.is_null().to_numpy(zero_copy_only=False)
        differ = differ | (null[1:] != null[:-1])
    return differ
