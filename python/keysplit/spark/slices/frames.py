"""The rows of groups as pandas frames."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc


class Frames:
    """The rows of groups, converted to pandas as for a function over one group.

    Columns are converted for all groups at once. Groups are converted separately only if they hold values
    whose conversion depends on other values (pandas has no integers with nulls, for instance).
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

    def each(self) -> Iterator[pd.DataFrame]:
        """Yield the rows of each group, in frames that nothing else refers to."""
        groups = len(self._bounds) - 1
        if groups == 1:
            yield self._whole
            return
        owners = np.repeat(np.arange(groups), np.diff(self._bounds))
        # Copying the rows and slicing the copy takes half the work of copying each slice.
        for at, frame in self._whole.groupby(owners, sort=False):
            frame.index = pd.RangeIndex(len(frame))
            for place, alone in self._alone.items():
                if alone[at]:
                    frame.isetitem(place, self._column(place, at))
            yield frame

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
        # a copy, as a list in pandas would keep its whole column
        rows = self._table.select([place]).take(pa.array(np.arange(begin, end)))
        return self._convert.to_pandas(rows)[0]


def _without_what_differs(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return a column without those values that make pandas convert all values differently.

    None means that there are no such values.
    """
    type_ = column.type
    if pa.types.is_nested(type_):
        return pa.chunked_array([pa.nulls(len(column))]) if _holds_null(column) else None
    if column.null_count and (pa.types.is_boolean(type_) or pa.types.is_integer(type_)):
        return pc.fill_null(column, pa.scalar(0).cast(type_))
    return None


def _with_nulls(column: pa.ChunkedArray, bounds: np.ndarray) -> np.ndarray:
    """Return for each group whether its part of the column must be converted separately."""
    if pa.types.is_nested(column.type):
        return np.ones(len(bounds) - 1, bool)
    return np.logical_or.reduceat(column.is_null().to_numpy(), bounds[:-1])


def _holds_null(column: Any) -> bool:
    """Return whether a column has a null, at any depth."""
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
