"""Functions for mapInArrow over a sorted partition: one function, or `partial` and `merge`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keysplit.spark.slices.calling import Call, calls_of
from keysplit.spark.slices.cutting import Cutter, Groups, Places, groups_of
from keysplit.spark.slices.results import batch_of


def whole(batches: Iterator[pa.RecordBatch], call: Call, places: Places) -> Iterator[pa.RecordBatch]:
    """Call one function on each group of a sorted partition.

    Args:
        batches: the partition; equal keys are adjacent.
        call: the function.
        places: the columns of a batch.

    Yields:
        The rows that the function returned.
    """
    calls = calls_of(call)
    for groups in groups_of(batches, places.cuts):
        for results in calls.results(groups, places):
            if results.batch.num_rows:
                yield results.batch


def parts(batches: Iterator[pa.RecordBatch], call: Call, places: Places) -> Iterator[pa.RecordBatch]:
    """Do the same as `whole`, and add each result's key.

    Args:
        batches: as in `whole`.
        call: as in `whole`.
        places: as in `whole`.

    Yields:
        The rows that the function returned, then the key columns, then the cuts that are not key columns.
    """
    halves = _Halves(call, call, places)
    for groups in groups_of(batches, places.cuts):
        for each in halves.parts(groups):
            yield batch_of(each.table)


def types_of(call: Call) -> list[pa.DataType]:
    """Return the types of the columns that a function returns."""
    return list(calls_of(call).types)


def finished(
    batches: Iterator[pa.RecordBatch], partial: Call, merge: Call, places: Places
) -> Iterator[pa.RecordBatch]:
    """Call `merge` on the rows that `partial` returns for each group of a sorted partition, if any."""
    halves = _Halves(partial, merge, places)
    for groups in groups_of(batches, places.cuts):
        for found in halves.parts(groups):
            for _, batch in halves.merged(found, np.ones(len(found.counts), bool)):
                yield batch


def in_parts(
    batches: Iterator[pa.RecordBatch],
    partial: Call,
    merge: Call,
    places: Places,
    hash_place: int,
    split: np.ndarray | None,
) -> Iterator[pa.RecordBatch]:
    """Do the same as `finished` for keys with all rows here, and call only `partial` for all other keys.

    Args:
        batches: the partition; equal keys are adjacent.
        partial: the function for the rows of a key.
        merge: the function for the results of `partial`.
        places: the columns of a batch.
        hash_place: the position of the key's hash.
        split: the sorted hashes of keys that may have rows elsewhere; None if any key may have such rows.

    Yields:
        The hash of the key; whether a row is from `partial`; the columns of `merge`; the columns of
        `partial`; then the key columns and the cuts, see `_Halves`. Inapplicable columns are null.
    """
    halves = _Halves(partial, merge, places)
    for groups in groups_of(batches, places.cuts):
        first = groups.table.column(hash_place).take(pa.array(groups.bounds[:-1]))
        hashes = first.to_numpy()
        ended = np.zeros(len(hashes), bool) if split is None else ~np.isin(hashes, split)
        for found in halves.parts(groups):
            mine = slice(found.first, found.first + len(found.counts))
            for owners, batch in halves.merged(found, ended[mine]):
                yield halves.finished_rows(hashes[mine][owners], batch)
            owners = np.repeat(np.arange(len(found.counts)), found.counts)
            rows = np.flatnonzero(~ended[mine][owners])
            if len(rows):
                yield halves.rows_of_parts(hashes[mine][owners[rows]], found.table.take(pa.array(rows)))


def merged(
    batches: Iterator[pa.RecordBatch], partial: Call, merge: Call, places: Places
) -> Iterator[pa.RecordBatch]:
    """Call `merge` on all parts of each key in the rows of `in_parts`, sorted by the cuts.

    Finished rows are passed on.

    Args:
        batches: the partition.
        partial: as in `in_parts`.
        merge: as in `in_parts`.
        places: as in `in_parts`.

    Yields:
        The rows that `merge` returned.
    """
    halves = _Halves(partial, merge, places)
    behind = halves.places_of_merge(2 + len(merge.schema))
    cutter = Cutter(behind.cuts)

    def merged_groups(ready: Iterable[Groups]) -> Iterator[pa.RecordBatch]:
        for groups in ready:
            for results in halves.merge.results(groups, behind):
                if results.batch.num_rows:
                    yield results.batch

    for batch in batches:
        is_part = batch.column(1)
        done = batch.filter(pc.invert(is_part))
        if done.num_rows:
            types = halves.merge.types
            columns = done.columns[2 : 2 + len(types)]
            yield pa.RecordBatch.from_arrays(
                [column.cast(type_) for column, type_ in zip(columns, types, strict=True)], merge.schema.names
            )
        yield from merged_groups(cutter.add(batch.filter(is_part)))
    yield from merged_groups(cutter.rest())


@dataclass(frozen=True)
class _Parts:
    """The results of `partial` for some groups, then the columns of their keys that `merge` needs."""

    first: int
    counts: np.ndarray
    table: pa.Table


class _Halves:
    """`partial` and `merge` on groups.

    The rows between the two have the columns that `partial` returns, then the key columns, then the cuts that
    are not key columns.
    """

    def __init__(self, partial: Call, merge: Call, places: Places) -> None:
        self.partial, self.merge = calls_of(partial), calls_of(merge)
        self._places = places
        self._carried = [*places.keys, *(at for at in places.cuts if at not in places.keys)]
        self._carried_types: list[pa.DataType] = []
        self._names = partial.schema.names
        self._width = len(self._names)

    def places_of_merge(self, start: int) -> Places:
        """Return the positions of columns if the results of `partial` begin at this position."""
        at = {place: start + self._width + i for i, place in enumerate(self._carried)}
        return Places(
            names=self._names,
            rows=list(range(start, start + self._width)),
            keys=[at[place] for place in self._places.keys],
            cuts=[at[place] for place in self._places.cuts],
        )

    def parts(self, groups: Groups) -> Iterator[_Parts]:
        """Call `partial` on groups."""
        keys = groups.table.select(self._carried)
        self._carried_types = [column.type for column in keys.columns]
        for results in self.partial.results(groups, self._places):
            if results.batch.num_rows:
                owners = np.repeat(np.arange(len(results.counts)), results.counts)
                carried = keys.take(pa.array(groups.bounds[results.first + owners]))
                columns = [*results.batch.columns, *carried.columns]
                table = pa.Table.from_arrays(columns, _names(len(columns)))
                yield _Parts(results.first, results.counts, table)

    def merged(self, parts: _Parts, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
        """Call `merge` on the parts of chosen groups.

        Args:
            parts: the results of `partial`.
            chosen: for each group of `parts`, whether to call `merge`.

        Yields:
            The number of each row's group among those of `parts`, and the rows.
        """
        ours = np.flatnonzero(chosen & (parts.counts > 0))
        if not len(ours):
            return
        table, counts = parts.table, parts.counts[ours]
        if counts.sum() < table.num_rows:
            table = table.take(pa.array(np.flatnonzero(np.repeat(chosen, parts.counts))))
        groups = Groups(table, np.concatenate([[0], np.cumsum(counts)]))
        for results in self.merge.results(groups, self.places_of_merge(0)):
            if results.batch.num_rows:
                yield np.repeat(ours[results.first :][: len(results.counts)], results.counts), results.batch

    def finished_rows(self, hashes: np.ndarray, result: pa.RecordBatch) -> pa.RecordBatch:
        """Return the results of `merge` in the form of `in_parts`."""
        types = [*self.partial.types, *self._carried_types]
        return self._rows(hashes, False, result.columns, [pa.nulls(len(hashes), type_) for type_ in types])

    def rows_of_parts(self, hashes: np.ndarray, parts: pa.Table) -> pa.RecordBatch:
        """Return the results of `partial`, with the key, in the form of `in_parts`."""
        result = [pa.nulls(len(hashes), type_) for type_ in self.merge.types]
        return self._rows(hashes, True, result, batch_of(parts).columns)

    @staticmethod
    def _rows(hashes: np.ndarray, is_part: bool, result: list[Any], part: list[Any]) -> pa.RecordBatch:
        columns = [pa.array(hashes), pa.array(np.full(len(hashes), is_part)), *result, *part]
        return pa.RecordBatch.from_arrays(columns, _names(len(columns)))


def _names(n: int) -> list[str]:
    return [f"_{at}" for at in range(n)]
