"""Keep NaN inside structs, arrays and maps, where Spark's conversion from pandas turns it into null."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc


def with_nans(batch: pa.RecordBatch, frame: pd.DataFrame, by_name: bool) -> pa.RecordBatch:
    """Return a converted batch with NaN restored where the frame has NaN inside a value.

    Args:
        batch: the columns, converted from `frame`.
        frame: the frame that a function returned.
        by_name: whether columns are matched by name, if they have names.
    """
    if not len(frame.columns):
        return batch
    named = by_name and any(isinstance(label, str) for label in frame.columns)
    columns = [
        _with_nans(column, list(frame[name] if named else frame.iloc[:, at]))
        if pa.types.is_nested(column.type) and _loses_nans(column)
        else column
        for at, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True))
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _loses_nans(array: pa.Array) -> bool:
    """Return whether a null inside an array may have been NaN."""
    if pa.types.is_floating(array.type):
        return bool(array.null_count)
    return any(_loses_nans(each) for each in _children(array))


def _children(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return [array.field(at) for at in range(array.type.num_fields)]
    return [array.values] if _is_list(array.type) else []


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_map(type_))


def _with_nans(array: pa.Array, values: Sequence[Any]) -> pa.Array:
    """Return an array with NaN for each null that was converted from NaN."""
    if pa.types.is_floating(array.type):
        nan = np.fromiter((isinstance(each, float | np.floating) and each != each for each in values), bool)
        return pc.if_else(pa.array(nan), pa.scalar(np.nan, array.type), array)
    if pa.types.is_struct(array.type):
        inner: list[list[Any]] = [
            [_field(value, field.name, at) for value in values] for at, field in enumerate(array.type)
        ]
    else:
        inner = [list(_elements(values))] if _is_list(array.type) else []
    children = _children(array)
    if not children or any(len(own) != len(of) for own, of in zip(children, inner, strict=True)):
        return array
    # Its own nulls and list offsets stay unchanged.
    own = array.buffers()[: 1 if pa.types.is_struct(array.type) else 2]
    children = [_with_nans(child, of) for child, of in zip(children, inner, strict=True)]
    return pa.Array.from_buffers(array.type, len(array), own, offset=array.offset, children=children)


def _field(value: Any, name: str, at: int) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    return value[at] if isinstance(value, tuple) and at < len(value) else None


def _elements(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, dict):
            yield from value.items()
        elif isinstance(value, Iterable) and not isinstance(value, str):
            yield from value
