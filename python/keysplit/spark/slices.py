"""Sorted partitions, cut into groups: the user's functions are called on each group, one after another.

`applyInPandas` opens a stream for each group and converts each by itself. Here the rows of many groups arrive
in one batch, are converted together where that gives the same, and are cut at the borders of the groups. All
of this runs on the executors and travels there by value: they need no keysplit.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from pyspark.util import fail_on_stopiteration

from keysplit.spark.session.conversion import OfArrow, of_pandas

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# Results are passed on when they have this many rows, so that few are in memory.
_ROWS = 10_000
# Values of these cannot be changed after the function has returned them.
_FIXED = (
    BooleanType,
    ByteType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)


@dataclass(frozen=True)
class Call:
    """A function of the user, and how it is called.

    Attributes:
        function: takes the rows of a group, or the key before them.
        takes_key: whether it takes the key.
        schema: the columns of what it returns.
        format: "pandas" or "arrow".
        settings: those of the session, see `settings_of`.
    """

    function: Callable[..., Any]
    takes_key: bool
    schema: StructType
    format: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Places:
    """Where columns are in a batch.

    Attributes:
        names: the names of those that the function sees.
        rows: where they are.
        keys: those of the key.
        cuts: those that differ from row to row where a new group begins, and only there.
    """

    names: Sequence[str]
    rows: Sequence[int]
    keys: Sequence[int]
    cuts: Sequence[int]


@dataclass(frozen=True)
class Groups:
    """Rows of whole groups: group i has the rows from bounds[i] to bounds[i + 1]."""

    table: pa.Table
    bounds: np.ndarray


@dataclass(frozen=True)
class Results:
    """What a function returned for some groups in a row: as many rows for each as `counts` says."""

    first: int
    counts: np.ndarray
    batch: pa.RecordBatch


# What mapInArrow calls


def whole(batches: Iterator[pa.RecordBatch], call: Call, places: Places) -> Iterator[pa.RecordBatch]:
    """Call one function on each group of a sorted partition.

    Args:
        batches: the partition; equal keys are adjacent.
        call: the function.
        places: the columns of a batch.

    Yields:
        What it returned.
    """
    called = _called(call)
    for groups in _groups(batches, places.cuts):
        for results in called.results(groups, places):
            if results.batch.num_rows:
                yield results.batch


def parts(batches: Iterator[pa.RecordBatch], call: Call, places: Places) -> Iterator[pa.RecordBatch]:
    """Do as `whole`, and keep what says whose rows they are.

    Args:
        batches: as `whole`.
        call: as `whole`.
        places: as `whole`.

    Yields:
        What it returned, then the columns of the key, then those cuts that are no columns of the key.
    """
    halves = _Halves(call, call, places)
    for groups in _groups(batches, places.cuts):
        for each in halves.parts(groups):
            yield _batch(each.table)


def types(call: Call) -> list[pa.DataType]:
    """Return the types of the columns of what a function returns."""
    return list(_called(call).types)


def finished(
    batches: Iterator[pa.RecordBatch], partial: Call, merge: Call, places: Places
) -> Iterator[pa.RecordBatch]:
    """Call `merge` on what `partial` returns for each group of a sorted partition, if that has rows."""
    halves = _Halves(partial, merge, places)
    for groups in _groups(batches, places.cuts):
        for parts in halves.parts(groups):
            for _, batch in halves.merged(parts, np.ones(len(parts.counts), bool)):
                yield batch


def in_parts(
    batches: Iterator[pa.RecordBatch],
    partial: Call,
    merge: Call,
    places: Places,
    hash_place: int,
    split: np.ndarray | None,
) -> Iterator[pa.RecordBatch]:
    """Do as `finished` for keys of which all rows are here, and only call `partial` for all others.

    Args:
        batches: the partition; equal keys are adjacent.
        partial: the function for the rows of a key.
        merge: the function for what it returns.
        places: the columns of a batch.
        hash_place: where the hash of the key is.
        split: the hashes of keys of which there may be rows elsewhere, sorted; None if that is any key.

    Yields:
        The hash of the key; whether a row is one of `partial`; the columns of `merge`; those of `partial`;
        then the columns of the key and the cuts, see `_Halves`. What does not belong to a row is null.
    """
    halves = _Halves(partial, merge, places)
    for groups in _groups(batches, places.cuts):
        first = groups.table.column(hash_place).take(pa.array(groups.bounds[:-1]))
        hashes = first.to_numpy()
        ended = np.zeros(len(hashes), bool) if split is None else ~np.isin(hashes, split)
        for parts in halves.parts(groups):
            mine = slice(parts.first, parts.first + len(parts.counts))
            for owners, batch in halves.merged(parts, ended[mine]):
                yield halves.finished_rows(hashes[mine][owners], batch)
            owners = np.repeat(np.arange(len(parts.counts)), parts.counts)
            rows = np.flatnonzero(~ended[mine][owners])
            if len(rows):
                yield halves.rows_of_parts(hashes[mine][owners[rows]], parts.table.take(pa.array(rows)))


def merged(
    batches: Iterator[pa.RecordBatch], partial: Call, merge: Call, places: Places
) -> Iterator[pa.RecordBatch]:
    """Call `merge` on all parts of each key, of rows that `in_parts` gave, sorted by the cuts.

    Rows that it had finished are passed on.

    Args:
        batches: the partition.
        partial: as `in_parts`.
        merge: as `in_parts`.
        places: as `in_parts`.

    Yields:
        What `merge` returned.
    """
    halves = _Halves(partial, merge, places)
    behind = halves.places_of_merge(2 + len(merge.schema))
    cutter = _Cutter(behind.cuts)
    types = halves.merge.types

    def results(ready: Iterable[Groups]) -> Iterator[pa.RecordBatch]:
        for groups in ready:
            for results in halves.merge.results(groups, behind):
                if results.batch.num_rows:
                    yield results.batch

    for batch in batches:
        is_part = batch.column(1)
        done = batch.filter(pc.invert(is_part))
        if done.num_rows:
            columns = done.columns[2 : 2 + len(types)]
            yield pa.RecordBatch.from_arrays(
                [column.cast(type_) for column, type_ in zip(columns, types, strict=True)], merge.schema.names
            )
        yield from results(cutter.add(batch.filter(is_part)))
    yield from results(cutter.rest())


@dataclass(frozen=True)
class _Parts:
    """What `partial` returned for some groups, with the columns that `merge` needs of their keys behind."""

    first: int
    counts: np.ndarray
    table: pa.Table


class _Halves:
    """`partial` and `merge` on groups.

    What goes from one to the other has the columns that `partial` returns, then those of the key, then those
    cuts that are no columns of the key.
    """

    def __init__(self, partial: Call, merge: Call, places: Places) -> None:
        self.partial, self.merge = _called(partial), _called(merge)
        self._places = places
        self._carried = [*places.keys, *(at for at in places.cuts if at not in places.keys)]
        self._carried_types: list[pa.DataType] = []
        self._names = partial.schema.names
        self._width = len(self._names)

    def places_of_merge(self, start: int) -> Places:
        """Say where columns are if what `partial` returns begins with this one."""
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
            parts: what `partial` returned.
            chosen: whether, for each of its groups.

        Yields:
            For each row the number of its group among those of `parts`, and the rows.
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
        """Return what `merge` returned as `in_parts` gives it."""
        types = [*self.partial.types, *self._carried_types]
        return self._rows(hashes, False, result.columns, [pa.nulls(len(hashes), type_) for type_ in types])

    def rows_of_parts(self, hashes: np.ndarray, parts: pa.Table) -> pa.RecordBatch:
        """Return what `partial` returned, with the key, as `in_parts` gives it."""
        result = [pa.nulls(len(hashes), type_) for type_ in self.merge.types]
        return self._rows(hashes, True, result, _batch(parts).columns)

    @staticmethod
    def _rows(hashes: np.ndarray, is_part: bool, result: list[Any], part: list[Any]) -> pa.RecordBatch:
        columns = [pa.array(hashes), pa.array(np.full(len(hashes), is_part)), *result, *part]
        return pa.RecordBatch.from_arrays(columns, _names(len(columns)))


# Cutting


def _groups(batches: Iterable[pa.RecordBatch], cuts: Sequence[int]) -> Iterator[Groups]:
    cutter = _Cutter(cuts)
    for batch in batches:
        yield from cutter.add(batch)
    yield from cutter.rest()


class _Cutter:
    """Collects sorted rows until their group is complete; one group that is not is in memory."""

    def __init__(self, cuts: Sequence[int]) -> None:
        self._cuts = cuts
        self._open: list[pa.RecordBatch] = []  # of one group, which may go on

    def add(self, batch: pa.RecordBatch) -> Iterator[Groups]:
        """Take rows, and return the groups that are complete now."""
        if not batch.num_rows:
            return
        starts = self._starts(batch)
        if not len(starts):
            self._open.append(batch)
            return
        begin = 0
        if len(self._open) > 1:  # a large group, which is not to be copied with others
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
        """Return the rows with which a new group begins; the very first row is none."""
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
    """Say for each row but the first whether its key is another than that of the row before."""
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


# Calling


def _called(call: Call) -> "_InPandas | _InArrow":
    return _InArrow(call) if call.format == "arrow" else _InPandas(call)


class _InArrow:
    """Calls of a function over Arrow tables."""

    def __init__(self, call: Call) -> None:
        self._function = fail_on_stopiteration(call.function)
        self._takes_key = call.takes_key
        self._convert = OfArrow(call.schema, call.settings)
        self.types = self._convert.types()

    def results(self, groups: Groups, places: Places) -> Iterator[Results]:
        """Call the function on groups."""
        # as `applyInArrow` shows it: without what a schema says beside names and types
        table = pa.Table.from_arrays(groups.table.select(places.rows).columns, places.names)
        keys = groups.table.select(places.keys).columns if self._takes_key else []
        held, counts, first, n = [], [], 0, 0
        last = len(groups.bounds) - 2
        for at, (begin, end) in enumerate(pairwise(groups.bounds.tolist())):
            rows = table.slice(begin, end - begin)
            arguments = [tuple(key[begin] for key in keys), rows] if self._takes_key else [rows]
            result = self._convert.checked(self._function(*arguments))
            # a copy, as the function may write into the memory again
            held.append(result.take(pa.array(np.arange(result.num_rows))))
            counts.append(result.num_rows)
            n += result.num_rows
            if n >= _ROWS or at == last:
                yield Results(first, np.array(counts), _batch(pa.concat_tables(held)))
                held, counts, first, n = [], [], at + 1, 0


class _InPandas:
    """Calls of a function over pandas frames."""

    def __init__(self, call: Call) -> None:
        self._function = fail_on_stopiteration(call.function)
        self._takes_key = call.takes_key
        self._convert = of_pandas(call.schema, call.settings)
        self._waits = all(isinstance(field.dataType, _FIXED) for field in call.schema)
        self.types = self._convert.types()

    def results(self, groups: Groups, places: Places) -> Iterator[Results]:
        """Call the function on groups."""
        table = groups.table
        seen = pa.Table.from_arrays(table.select(places.rows).columns, places.names)
        rows = _Frames(self._convert, seen, groups.bounds)
        keys = _Frames(self._convert, table.select(places.keys), groups.bounds) if self._takes_key else None
        held, counts, first, n = [], [], 0, 0
        last = len(groups.bounds) - 2
        for at in range(last + 1):
            arguments = [rows.frame(at)] if keys is None else [keys.key(at), rows.frame(at)]
            result = self._convert.checked(self._function(*arguments))
            counts.append(len(result))
            n += len(result)
            held.append(self._kept(result))
            if n >= _ROWS or at == last:
                yield Results(first, np.array(counts), self._in_arrow(held))
                held, counts, first, n = [], [], at + 1, 0

    def _kept(self, result: pd.DataFrame) -> Any:
        """Keep a result as it is now: the function may return the same frame again, with other values."""
        if self._waits and type(result) is pd.DataFrame and len(result.columns):
            return result.copy()
        return self._convert.to_arrow(result)

    def _in_arrow(self, held: list[Any]) -> pa.RecordBatch:
        batches: list[pa.RecordBatch] = []
        alike: list[pd.DataFrame] = []
        types: list[Any] = []
        for each in held:
            before, types = types, list(each.dtypes) if isinstance(each, pd.DataFrame) else []
            if alike and not (types == before and alike[-1].columns.equals(each.columns)):
                batches += self._together(alike)
                alike = []
            if isinstance(each, pd.DataFrame):
                alike.append(each)
            else:
                batches.append(each)
        if alike:
            batches += self._together(alike)
        return _batch(pa.Table.from_batches(batches)) if len(batches) > 1 else batches[0]

    def _together(self, frames: list[pd.DataFrame]) -> list[pa.RecordBatch]:
        """Convert frames with the same columns and types at once where that is what converting each gives."""
        if len(frames) > 1:
            try:
                return [self._convert.to_arrow(pd.concat(frames, ignore_index=True), cast=False)]
            except Exception:
                pass  # one of them fails alone, or needs a cast
        return [self._convert.to_arrow(frame) for frame in frames]


class _Frames:
    """The rows of groups, as pandas shows them to a function over one group.

    Columns are converted for all groups at once. Only where what pandas makes of a value depends on other
    values (it has no whole numbers with nulls, for instance), groups with such values are converted alone.
    """

    def __init__(self, convert: Any, table: pa.Table, bounds: np.ndarray) -> None:
        self._convert = convert
        self._table = table.combine_chunks()
        self._bounds = bounds.tolist()
        self._alone: dict[int, np.ndarray] = {}
        shared = self._table
        if len(bounds) > 2:
            for at, column in enumerate(self._table.columns):
                others = _without_what_differs(column)
                if others is not None:
                    self._alone[at] = _with_nulls(column, bounds)
                    shared = shared.set_column(at, shared.field(at).name, others)
        self._series = convert.to_pandas(shared)
        self._whole = pd.concat(self._series, axis=1)

    def frame(self, at: int) -> pd.DataFrame:
        """Return the rows of a group; nobody else has this frame."""
        if len(self._bounds) == 2:
            return self._whole
        begin, end = self._bounds[at], self._bounds[at + 1]
        frame = self._whole.iloc[begin:end].copy()
        frame.index = pd.RangeIndex(end - begin)
        for place, alone in self._alone.items():
            if alone[at]:
                frame.isetitem(place, self._column(place, at))
        return frame

    def key(self, at: int) -> tuple[Any, ...]:
        """Return the first row of a group."""
        return tuple(
            self._column(place, at).iloc[0]
            if place in self._alone and self._alone[place][at]
            else series.iloc[self._bounds[at]]
            for place, series in enumerate(self._series)
        )

    def _column(self, place: int, at: int) -> pd.Series:
        begin, end = self._bounds[at], self._bounds[at + 1]
        # a copy, as a list in pandas would see the whole of its column
        rows = self._table.select([place]).take(pa.array(np.arange(begin, end)))
        return self._convert.to_pandas(rows)[0]


def _without_what_differs(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return a column without the values for which pandas shows all values differently.

    None says that there are no such values.
    """
    type_ = column.type
    if pa.types.is_nested(type_):
        return pa.chunked_array([pa.nulls(len(column))]) if _holds_null(column) else None
    if column.null_count and (pa.types.is_boolean(type_) or pa.types.is_integer(type_)):
        return pc.fill_null(column, pa.scalar(0).cast(type_))
    return None


def _with_nulls(column: pa.ChunkedArray, bounds: np.ndarray) -> np.ndarray:
    """Say for each group whether the column is to be converted for it alone."""
    if pa.types.is_nested(column.type):
        return np.ones(len(bounds) - 1, bool)
    return np.logical_or.reduceat(column.is_null().to_numpy(), bounds[:-1])


def _holds_null(column: Any) -> bool:
    """Say whether there is a null in a column, at any depth."""
    if column.null_count:
        return True
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    for chunk in chunks:
        if pa.types.is_map(chunk.type):
            inner = [chunk.keys, chunk.items]
        elif pa.types.is_struct(chunk.type) or pa.types.is_list(chunk.type):
            inner = chunk.flatten()
        else:
            continue
        if any(_holds_null(each) for each in (inner if isinstance(inner, list) else [inner])):
            return True
    return False


def _batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table in one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _names(n: int) -> list[str]:
    return [f"_{at}" for at in range(n)]
