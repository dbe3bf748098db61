"""Partial results of a stream: one blob per worker, kept between batches.

Spark keeps state by key, at a cost per key. Here each worker is one group per window, with one value for the
partial results of all its keys. A blob is an Arrow IPC stream that names its columns, so a query may restart
with more columns. This code runs on the executors and is pickled by value, so executors need no keysplit.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from keysplit.spark.executors import travel_by_value
from keysplit.spark.slices import Call, Places, parts, types_of, whole

travel_by_value(__name__)

VERSION = 1
# Sorted tables are processed in pieces of this many rows.
_ROWS = 10_000
_DEADLINE = "deadline"
# The start of the last possible window, in microseconds since 1970: pandas has no times after 2262.
_LAST_US = 9_183_110_400_000_000


@dataclass(frozen=True)
class Layout:
    """The columns of partial results.

    Attributes:
        partial: the function that returns partial results, with the names and types of its columns.
        keys: the kinds of the columns of the key.
        extra: the number of further columns, which only serve to compare keys.
        cuts: the positions of columns that distinguish keys, among the key and the columns after the hash.
        buckets: the partitions of the merge.
        columns: the names of the columns of the key, in lower case, without the window.
        zone: the session's time zone, in which functions see times.
    """

    partial: Call
    keys: tuple[str, ...]
    extra: int
    cuts: tuple[int, ...]
    buckets: int
    columns: tuple[str, ...]
    zone: str

    @property
    def names(self) -> list[str]:
        """The names of the columns: those that `partial` returns, the key, its hash, then `extra`."""
        named = [f"part {name}" for name in self.partial.schema.names]
        named += [f"key {at}" for at in range(len(self.keys))]
        return [*named, "hash", *(f"cut {at}" for at in range(self.extra))]

    def places(self, *more: int) -> Places:
        """Return the positions of columns for a function on partial results; more cuts may follow."""
        width = len(self.partial.schema)
        behind = width + len(self.keys)  # the place of the hash
        cuts = [width + at + (width + at >= behind) for at in self.cuts]
        return Places(
            names=self.partial.schema.names,
            rows=range(width),
            keys=range(width, behind),
            cuts=[behind, *cuts, *more],
        )


@dataclass(frozen=True)
class Rule:
    """The rule for when a worker's state is merged.

    Time is in milliseconds since 1970, on the clock of the query.

    Attributes:
        clock: "event" for the watermark, "processing" for the time at which the batch began.
        every_ms: the period after which all partial results are merged; None for the end of their window.
        ttl_ms: the time after which a window's results so far are merged; None for the whole window.
        combine: the function that combines a key's partial results, if there is one.
    """

    clock: str
    every_ms: int | None
    ttl_ms: int | None
    combine: Call | None

    def deadline(self, now_ms: int, begin_us: int, end_us: int) -> int:
        """Return when new partial results are merged; their window is in microseconds.

        All workers have the same clock within a batch, so all parts of a key are merged in the same batch.
        """
        if self.every_ms is not None:
            return (now_ms // self.every_ms + 1) * self.every_ms
        end_ms = -(-end_us // 1000)
        if self.ttl_ms is None:
            return end_ms
        begin_ms = begin_us // 1000
        cuts = max((now_ms - begin_ms) // self.ttl_ms, 0) + 1
        return min(end_ms, begin_ms + cuts * self.ttl_ms)


# Functions for mapInArrow


def packed(batches: Iterator[pa.RecordBatch], layout: Layout, places: Places) -> Iterator[pa.RecordBatch]:
    """Call `partial` on the rows of each key, for the state.

    Args:
        batches: the rows of a worker. The first three cuts are the start and the end of the window in
            microseconds, and the slot; the fourth is the hash of the key.
        layout: the columns of partial results.
        places: the columns of a batch.

    Yields:
        Start, end, slot, and a blob of partial results: one row per window, because Spark 3.5 fails if a
        group has two rows.
    """
    width = len(layout.partial.schema) + len(layout.keys)
    last: tuple[int, ...] = ()
    held: list[pa.Table] = []
    for batch in parts(_sorted(batches, places.cuts), layout.partial, places):
        marks = [column.to_numpy() for column in batch.columns[width : width + 3]]
        table = pa.table([*batch.columns[:width], *batch.columns[width + 3 :]], layout.names)
        changes = np.logical_or.reduce([mark[1:] != mark[:-1] for mark in marks])
        for begin, end in pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), table.num_rows]):
            mark = tuple(int(each[begin]) for each in marks)
            if mark[0] > _LAST_US:
                raise ValueError("window must begin before 2261: Spark's Python state has no later ones")
            if held and mark != last:
                yield _row_to_keep(last, held)
                held = []
            last = mark
            held.append(table.slice(begin, end - begin))
    if held:
        yield _row_to_keep(last, held)


def _row_to_keep(mark: tuple[int, ...], tables: list[pa.Table]) -> pa.RecordBatch:
    types = [pa.int64(), pa.int64(), pa.int32()]
    columns = [pa.array([value], type_) for value, type_ in zip(mark, types, strict=True)]
    blob = pa.array([_written(pa.concat_tables(tables))], pa.binary())
    return pa.record_batch([*columns, blob], ["begin", "end", "slot", "blob"])


def packed_to_merge(
    batches: Iterator[pa.RecordBatch], layout: Layout, places: Places
) -> Iterator[pa.RecordBatch]:
    """Call `partial` on the rows of each key, for the merge.

    Args:
        batches: the rows of a partition. The first cut is the hash of the key.
        layout: the columns of partial results.
        places: the columns of a batch.

    Yields:
        The bucket, and a blob of the bucket's partial results.
    """
    for batch in parts(_sorted(batches, places.cuts), layout.partial, places):
        found = _by_bucket(pa.table(batch.columns, layout.names), layout)
        yield pa.record_batch([pa.array(each) for each in found], ["bucket", "blob"])


def merged(batches: Iterator[pa.RecordBatch], call: Call, layout: Layout) -> Iterator[pa.RecordBatch]:
    """Call `merge` on all partial results of each key.

    Args:
        batches: blobs, after their buckets.
        call: the function.
        layout: the columns of partial results.

    Yields:
        The rows that `merge` returned.
    """
    tables = [_read(blob.as_py()) for batch in batches for blob in batch.column(1)]
    if tables:
        rows = _together(tables, layout).to_batches()
        places = layout.places()
        yield from whole(_sorted(rows, places.cuts), call, places)


# Functions for applyInPandasWithState


def keeper(rule: Rule, layout: Layout) -> Callable[..., Iterator[pd.DataFrame]]:
    """Return the function that keeps a worker's state of a window and returns what is due to be merged."""

    def keep(key: tuple[int, int, int], frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        event = rule.clock == "event"
        now = state.getCurrentWatermarkMs() if event else state.getCurrentProcessingTimeMs()
        tables, least = [], 0
        if state.exists:
            held = _read(state.get[0])
            least = _least(held, rule, layout)
            tables.append(held)
        deadline = rule.deadline(now, int(key[0]), int(key[1]))
        for frame in frames:
            for table in map(_read, frame["blob"]):
                tables.append(table.append_column(_DEADLINE, pa.array(np.full(table.num_rows, deadline))))
        if not tables:
            return
        table = _together(tables, layout, _DEADLINE)
        due = pc.less_equal(table.column(_DEADLINE), now)
        rest = table.filter(pc.invert(due))
        if rest.num_rows:
            least = min(least or rest.num_rows, rest.num_rows)
            # rarely enough that calls are linear in the rows, often enough that state is at most doubled
            if rule.combine is not None and rest.num_rows > 2 * least:
                rest = _combined(rest, rule.combine, layout)
                least = rest.num_rows
        if rest.num_rows:
            about = {"version": VERSION, "clock": rule.clock, "keys": layout.keys, "least": least}
            about["columns"] = layout.columns
            state.update((_written(rest.replace_schema_metadata({"keysplit": json.dumps(about)})),))
            first = pc.min(rest.column(_DEADLINE)).as_py()
            # A timer fires once its time is before the clock's: in the first batch for which it is due.
            if event:
                state.setTimeoutTimestamp(max(first - 1, 1))
            else:  # 1: no two batches begin within 1 ms
                state.setTimeoutDuration(max(first - 1 - now, 1))
        elif state.exists:
            state.remove()
        gone = table.filter(due).drop_columns([_DEADLINE])
        if gone.num_rows:
            buckets, blobs = _by_bucket(gone, layout)
            yield pd.DataFrame({"bucket": buckets, "blob": blobs})

    return keep


def _least(held: pa.Table, rule: Rule, layout: Layout) -> int:
    """Return how many rows remained after the last `combine`; raise ValueError if the state does not fit."""
    about = json.loads(held.schema.metadata[b"keysplit"])
    if about["version"] > VERSION:
        raise ValueError(
            f"the checkpoint must hold state of version {VERSION} at most, got {about['version']}: "
            "a newer keysplit wrote it"
        )
    if (about["clock"], tuple(about["keys"])) != (rule.clock, layout.keys):
        raise ValueError(
            f"key, window and clock must be those of the checkpoint's state, {about['keys']} by "
            f"{about['clock']} time, got {list(layout.keys)} by {rule.clock} time"
        )
    columns = tuple(about.get("columns", layout.columns))  # older state has no column names
    if columns != layout.columns:
        raise ValueError(
            f"key must name the columns of the checkpoint's state, {list(columns)}, in that order, got "
            f"{list(layout.columns)}"
        )
    return int(about["least"])


def _combined(table: pa.Table, call: Call, layout: Layout) -> pa.Table:
    """Call `combine` on the partial results of each key that are due at the same time."""
    places = layout.places(table.num_columns - 1)
    batches = list(parts(_sorted(table.to_batches(), places.cuts), call, places))
    if not batches:
        return table.slice(0, 0)
    return pa.Table.from_batches(batches).rename_columns(table.column_names)


# Tables


def _sorted(batches: Iterable[pa.RecordBatch], cuts: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Return the rows of a partition with the rows of each group adjacent.

    Spark cannot sort the partitions of a stream. Here the rows of one batch on one worker are in memory.
    """
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return
    table = pa.Table.from_batches(filled).combine_chunks()
    columns = [table.column(at) for at in cuts if not pa.types.is_null(table.column(at).type)]
    names = [str(at) for at in range(len(columns))]
    order = pc.sort_indices(pa.table(columns, names), [(name, "ascending") for name in names])
    yield from table.take(order).to_batches(_ROWS)


def _by_bucket(table: pa.Table, layout: Layout) -> tuple[np.ndarray, list[bytes]]:
    """Return buckets, and a blob for each bucket; all parts of a key have the same bucket."""
    buckets = table.column("hash").to_numpy() % layout.buckets
    order = np.argsort(buckets, kind="stable")
    found, starts = np.unique(buckets[order], return_index=True)
    rows = table.take(pa.array(order))
    ends = [*starts[1:].tolist(), table.num_rows]
    blobs = [_written(rows.slice(a, b - a)) for a, b in zip(starts.tolist(), ends, strict=True)]
    return found.astype(np.int32), blobs


def _together(tables: list[pa.Table], layout: Layout, *more: str) -> pa.Table:
    """Return partial results in one table, with the current columns of `partial`."""
    types = dict(zip(layout.names, types_of(layout.partial), strict=False))
    for name in layout.names[len(types) :]:
        found = (table.schema.field(name).type for table in tables)
        types[name] = _in_zone(reduce(_wider, found), layout.zone)
    names = [*layout.names, *more]
    return pa.concat_tables([_fitted(table, names, types) for table in tables]).combine_chunks()


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the wider of two types, which differ at most in the width of integers."""
    if pa.types.is_null(one) or (pa.types.is_integer(one) and pa.types.is_integer(other)):
        return other if pa.types.is_null(one) or other.bit_width > one.bit_width else one
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return pa.struct([a.with_type(_wider(a.type, b.type)) for a, b in zip(one, other, strict=True)])
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(one.value_field.with_type(_wider(one.value_type, other.value_type)))
    return one


def _in_zone(type_: pa.DataType, zone: str) -> pa.DataType:
    """Return a type with its timestamps in a zone; the session's zone may differ after a restart."""
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp(type_.unit, zone)
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_in_zone(field.type, zone)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_in_zone(type_.value_type, zone)))
    return type_


def _fitted(table: pa.Table, names: list[str], types: dict[str, pa.DataType]) -> pa.Table:
    unknown = [name.removeprefix("part ") for name in table.column_names if name not in names]
    if unknown:
        raise ValueError(
            "partial_schema must have the columns of the checkpoint's partial results, and may have more, "
            f"got a schema without {unknown}"
        )
    columns = []
    for name in names:
        if name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, types[name]))
            continue
        column = table.column(name)
        wanted = types.get(name, column.type)
        if not _holds(wanted, column.type):  # Arrow's cast has other rules than Spark's
            raise ValueError(
                "partial_schema must have the types of the checkpoint's partial results, or wider ones, got "
                f"{wanted} for {name.removeprefix('part ')!r} in place of {column.type}"
            )
        columns.append(column.cast(wanted) if wanted != column.type else column)
    return pa.table(columns, names)


def _holds(wider: pa.DataType, type_: pa.DataType) -> bool:
    """Return whether a type can hold all values of another type unchanged; times with zones are instants."""
    kinds = pa.types
    if wider == type_ or kinds.is_null(type_):
        return True
    if kinds.is_timestamp(type_) and kinds.is_timestamp(wider):
        return None not in (type_.tz, wider.tz) and type_.unit == wider.unit
    if kinds.is_decimal(type_) and kinds.is_decimal(wider):
        whole = wider.precision - wider.scale >= type_.precision - type_.scale
        return bool(whole and wider.scale >= type_.scale)
    for is_kind in (kinds.is_signed_integer, kinds.is_floating):
        if is_kind(type_) and is_kind(wider):
            return bool(wider.bit_width >= type_.bit_width)
    for alike in ((kinds.is_string, kinds.is_large_string), (kinds.is_binary, kinds.is_large_binary)):
        if all(any(is_kind(each) for is_kind in alike) for each in (type_, wider)):
            return True
    if kinds.is_struct(type_) and kinds.is_struct(wider):
        fields = {field.name: field.type for field in wider}
        return all(field.name in fields and _holds(fields[field.name], field.type) for field in type_)
    if kinds.is_map(type_) and kinds.is_map(wider):
        return _holds(wider.key_type, type_.key_type) and _holds(wider.item_type, type_.item_type)
    if (kinds.is_list(type_) or kinds.is_large_list(type_)) and (
        kinds.is_list(wider) or kinds.is_large_list(wider)
    ):
        return _holds(wider.value_type, type_.value_type)
    return False


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _read(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()
