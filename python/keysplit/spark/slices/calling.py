"""A function of the user, called on each group, and what it returns."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
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

from keysplit.spark.session.conversion import OfArrow, fail_on_stopiteration, of_pandas
from keysplit.spark.slices.cutting import Groups, Places
from keysplit.spark.slices.frames import Frames

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
class Results:
    """What a function returned for some groups in a row: as many rows for each as `counts` says."""

    first: int
    counts: np.ndarray
    batch: pa.RecordBatch


def calls_of(call: Call) -> "_InPandas | _InArrow":
    """Return what calls a function on groups: `results`; `types` are those of its columns."""
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
                yield Results(first, np.array(counts), batch_of(pa.concat_tables(held)))
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
        rows = Frames(self._convert, seen, groups.bounds)
        keys = Frames(self._convert, table.select(places.keys), groups.bounds) if self._takes_key else None
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
        return batch_of(pa.Table.from_batches(batches)) if len(batches) > 1 else batches[0]

    def _together(self, frames: list[pd.DataFrame]) -> list[pa.RecordBatch]:
        """Convert frames with the same columns and types at once where that is what converting each gives."""
        if len(frames) > 1:
            try:
                return [self._convert.to_arrow(pd.concat(frames, ignore_index=True), cast=False)]
            except Exception:
                pass  # one of them fails alone, or needs a cast
        return [self._convert.to_arrow(frame) for frame in frames]


def batch_of(table: pa.Table) -> pa.RecordBatch:
    """Return a table in one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
