"""Collect the results of a function on pandas frames, to convert many results at once."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import types as T

from keysplit.spark.slices.nans import with_nans

# Values of these types are immutable.
_FIXED = (
    T.BooleanType,
    T.ByteType,
    T.DateType,
    T.DayTimeIntervalType,
    T.DecimalType,
    T.DoubleType,
    T.FloatType,
    T.IntegerType,
    T.LongType,
    T.ShortType,
    T.StringType,
    T.TimestampNTZType,
    T.TimestampType,
)


class Held:
    """Collected results of a function, in order.

    Args:
        convert: checks and converts results, see `conversion.of_pandas`.
        schema: the columns of the results.
        by_name: whether columns are matched by name; None if NaN inside values is not kept.
    """

    def __init__(self, convert: Any, schema: T.StructType, by_name: bool | None = None) -> None:
        self._convert = convert
        self._by_name = by_name
        self._waits = all(isinstance(field.dataType, _FIXED) for field in schema)
        self._batches: list[pa.RecordBatch] = []
        # Results with equal column labels and types, as arrays.
        self._labels: Any = None
        self._types: list[Any] = []
        self._alike: list[list[Any]] = []

    def add(self, result: pd.DataFrame) -> None:
        """Add a copy of a result, because the function may return the same frame again with new values."""
        if not (self._waits and type(result) is pd.DataFrame and len(result.columns)):
            self._convert_alike()
            batch = self._convert.to_arrow(result)
            self._batches.append(batch if self._by_name is None else with_nans(batch, result, self._by_name))
            return
        columns = [array.copy() for array in arrays_of(result)]
        labels, types = self._convert.labels, [array.dtype for array in columns]
        if not (labels is self._labels and types == self._types):
            self._convert_alike()
            self._labels, self._types = labels, types
        self._alike.append(columns)

    def taken(self) -> pa.RecordBatch:
        """Return all results since the last call, in one batch."""
        self._convert_alike()
        batches, self._batches = self._batches, []
        return batch_of(pa.Table.from_batches(batches)) if len(batches) > 1 else batches[0]

    def _convert_alike(self) -> None:
        alike, self._alike = self._alike, []
        if len(alike) > 1:
            try:
                together = map(_concatenated, zip(*alike, strict=True))
                self._batches.append(self._convert.to_arrow(self._frame(together), cast=False))
                return
            except Exception:
                pass  # one of them fails separately, or needs a cast
        self._batches += [self._convert.to_arrow(self._frame(columns)) for columns in alike]

    def _frame(self, columns: Iterable[Any]) -> pd.DataFrame:
        frame = pd.DataFrame({at: _series(column) for at, column in enumerate(columns)}, copy=False)
        frame.columns = self._labels
        return frame


def batch_of(table: pa.Table) -> pa.RecordBatch:
    """Return a table in one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _concatenated(arrays: tuple[Any, ...]) -> Any:
    if isinstance(arrays[0], np.ndarray):
        return np.concatenate(arrays)
    return pd.concat(map(_series, arrays), ignore_index=True).array


def _series(array: Any) -> pd.Series:
    # Without a type pandas would search objects for times.
    return pd.Series(array, dtype=array.dtype, copy=False)


def arrays_of_series(frame: pd.DataFrame) -> Iterable[Any]:
    """Yield each column's array, from a Series."""
    for _, column in frame.items():
        yield column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array


# six times as fast, if pandas has it
arrays_of: Callable[[pd.DataFrame], Iterable[Any]]
arrays_of = getattr(pd.DataFrame, "_iter_column_arrays", arrays_of_series)
