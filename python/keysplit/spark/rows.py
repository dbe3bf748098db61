"""What a plan sees of a row beside its key: its identity, which spreads a hot key."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType


def identity_columns(
    df: DataFrame, row_id: Any, column_type: Callable[[DataFrame, str, Any], DataType]
) -> list[str] | None:
    """Check `row_id` and return its columns, None if it is left out."""
    if row_id is None:
        return None
    names = [row_id] if isinstance(row_id, str) else row_id
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"row_id must be a column name or a list of column names, got {row_id!r}")
    if not names:
        raise ValueError("row_id must name at least one column, got an empty list")
    for name in names:
        type_ = column_type(df, "row_id", name)
        if not _is_hashable(type_):
            raise TypeError(
                f"row_id must be of types that Spark hashes, got {name!r} of type {type_.simpleString()}"
            )
    return list(names)


def identifying(df: DataFrame, *, steady: bool, fold: Callable[[str], str]) -> list[str]:
    """Return the columns that tell the rows of a DataFrame apart, the same when a task runs again.

    Args:
        df: any DataFrame.
        steady: whether its values come again to the bit. Above a shuffle they do not: sums of floats depend
            on the order of their terms, and so do collected lists. Floats and arrays then stay out.
        fold: makes names equal that the session takes for one.

    Returns:
        Names of columns, in the order of the DataFrame; maps stay out, as Spark hashes none, and so do
        columns that share a name.
    """
    fields = df.schema.fields
    names = Counter(fold(field.name) for field in fields)
    return [
        field.name
        for field in fields
        if _is_hashable(field.dataType)
        and (steady or not _holds(field.dataType, _UNSTEADY))
        and names[fold(field.name)] == 1
    ]


_UNSTEADY = (FloatType, DoubleType, ArrayType)


def _is_hashable(type_: DataType) -> bool:
    return not _holds(type_, (MapType,)) and type(type_).__name__ not in ("VariantType", "NullType")


def _holds(type_: DataType, kinds: tuple[type, ...]) -> bool:
    inner = [field.dataType for field in getattr(type_, "fields", [])]
    inner += [type_.elementType] if isinstance(type_, ArrayType) else []
    return isinstance(type_, kinds) or any(_holds(each, kinds) for each in inner)
