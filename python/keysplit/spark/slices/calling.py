"""Call a user's function on groups, and collect its results."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from keysplit.spark.slices.conversion import OfArrow, fail_on_stopiteration, of_pandas
from keysplit.spark.slices.cutting import Groups, Places
from keysplit.spark.slices.frames import Frames
from keysplit.spark.slices.results import Held, batch_of

# Results are passed on at this many rows, to keep few in memory.
_ROWS = 10_000


@dataclass(frozen=True)
class Call:
    """A user's function, and how to call it.

    Attributes:
        function: takes the rows of a group, or the key and the rows.
        takes_key: whether it takes the key.
        schema: the columns of its results.
        format: "pandas" or "arrow".
        settings: the session's settings, see `settings_of`.
        goes_on: whether another function takes the results; if so, NaN values are kept.
    """

    function: Callable[..., Any]
    takes_key: bool
    schema: StructType
    format: str
    settings: dict[str, Any]
    goes_on: bool = False


@dataclass(frozen=True)
class Results:
    """A function's results for consecutive groups; `counts` has the number of rows of each."""

    first: int
    counts: np.ndarray
    batch: pa.RecordBatch


def calls_of(call: Call) -> "_InPandas | _InArrow":
    """Return an object that calls a function on groups; `types` are the types of the function's columns."""
    return _InArrow(call) if call.format == "arrow" else _InPandas(call)


class _InArrow:
    """Calls a function on Arrow tables."""

    def __init__(self, call: Call) -> None:
        self._function = fail_on_stopiteration(call.function)
        self._takes_key = call.takes_key
        self._convert = OfArrow(call.schema, call.settings)
        self.types = self._convert.types()

    def results(self, groups: Groups, places: Places) -> Iterator[Results]:
        """Call the function on groups."""
        # as in `applyInArrow`: a schema with only names and types
        table = pa.Table.from_arrays(groups.table.select(places.rows).columns, places.names)
        keys = groups.table.select(places.keys).columns if self._takes_key else []
        held, counts, first, n = [], [], 0, 0
        last = len(groups.bounds) - 2
        for at, (begin, end) in enumerate(pairwise(groups.bounds.tolist())):
            rows = table.slice(begin, end - begin)
            arguments = [tuple(key[begin] for key in keys), rows] if self._takes_key else [rows]
            result = self._convert.checked(self._function(*arguments))
            # a copy, as the function may reuse the memory
            held.append(result.take(pa.array(np.arange(result.num_rows))))
            counts.append(result.num_rows)
            n += result.num_rows
            if n >= _ROWS or at == last:
                yield Results(first, np.array(counts), batch_of(pa.concat_tables(held)))
                held, counts, first, n = [], [], at + 1, 0


class _InPandas:
    """Calls a function on pandas frames."""

    def __init__(self, call: Call) -> None:
        self._function = fail_on_stopiteration(call.function)
        self._takes_key = call.takes_key
        self._convert = of_pandas(call.schema, call.settings)
        self._held = Held(self._convert, call.schema, call.settings["by_name"] if call.goes_on else None)
        self.types = self._convert.types()

    def results(self, groups: Groups, places: Places) -> Iterator[Results]:
        """Call the function on groups."""
        table = groups.table
        seen = pa.Table.from_arrays(table.select(places.rows).columns, places.names)
        rows = Frames(self._convert, seen, groups.bounds)
        keys = Frames(self._convert, table.select(places.keys), groups.bounds) if self._takes_key else None
        counts, first, n = [], 0, 0
        last = len(groups.bounds) - 2
        for at, frame in enumerate(rows.each()):
            arguments = [frame] if keys is None else [keys.key(at), frame]
            result = self._convert.checked(self._function(*arguments))
            counts.append(len(result))
            n += len(result)
            self._held.add(result)
            if n >= _ROWS or at == last:
                yield Results(first, np.array(counts), self._held.taken())
                counts, first, n = [], at + 1, 0
