"""What a plan sees of a row beside its key: its identity, which spreads a hot key."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)


def identity_columns(row_id: Any, type_of: Callable[[str, Any], DataType]) -> list[str] | None:
    """Check `row_id` and return its columns, None if it is left out; `type_of` is that of `Columns`."""
    if row_id is None:
        return None
    names = [row_id] if isinstance(row_id, str) else row_id
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"row_id must be a column name or a list of column names, got {row_id!r}")
    if not names:
        raise ValueError("row_id must name at least one column, got an empty list")
    for name in names:
        type_ = type_of("row_id", name)
        if not _is_hashable(type_):
            raise TypeError(
                f"row_id must be of types that Spark hashes, got {name!r} of type {type_.simpleString()}"
            )
    return list(names)


def may_identify(fields: Sequence[StructField], names: Sequence[str]) -> list[int]:
    """Return the places of the columns that may tell the rows of a DataFrame apart.

    Args:
        fields: the columns of the DataFrame.
        names: for each its name, equal where the session takes two for one.

    Returns:
        Those first whose types have the most values. Maps and variants stay out, as Spark hashes none, and so
        do columns that share a name or have an empty one.
    """
    unfit = {name for name, times in Counter(names).items() if times > 1} | {""}
    types = [field.dataType for field in fields]
    found = [
        at
        for at, (type_, name) in enumerate(zip(types, names, strict=True))
        if _is_hashable(type_) and name not in unfit
    ]
    ranks = [_rank(type_.__class__) for type_ in types]
    return sorted(found, key=ranks.__getitem__)


def identifying(
    fields: Sequence[StructField],
    places: Sequence[int],
    *,
    steady: Callable[[Sequence[int]], Sequence[bool]],
    shuffled: Callable[[], bool],
) -> list[str]:
    """Return the columns that tell the rows of a DataFrame apart, the same when a task is retried.

    Args:
        fields: the columns of the DataFrame.
        places: the places that `may_identify` has found.
        steady: says for some of them which have the same values when a task is retried.
        shuffled: says whether the rows come out of a shuffle: floats and arrays stay out then, unless there
            is nothing else. It is called only if there are some.

    Returns:
        Names of columns, in the order of the DataFrame, `MOST_COLUMNS` at most.
    """
    chosen: list[int] = []
    loose: list[int] = []
    start, end = 0, MOST_COLUMNS  # few need more than the first ones
    while start < len(places) and len(chosen) < MOST_COLUMNS:
        some = places[start:end]
        for at in itertools.compress(some, steady(some)):
            (loose if _holds(fields[at].dataType, _LOOSE) and shuffled() else chosen).append(at)
        start, end = end, 2 * end
    return [fields[at].name for at in sorted((chosen or loose)[:MOST_COLUMNS])]


def values_of(types: Iterable[DataType]) -> float:
    """Return how many different rows columns of such types can make, null being a value; infinity if many."""
    return math.prod(_NUMBERS.get(type(each), math.inf) for each in types)


# How many values types have, with null.
_NUMBERS = {BooleanType: 3, ByteType: 2**8 + 1, ShortType: 2**16 + 1}

MOST_COLUMNS = 32
"""Columns in the default identity of a row; more cost more than they tell apart."""

_LOOSE = (FloatType, DoubleType, ArrayType)
# Types by how many values they have in practice; all others come after them.
_BY_VALUES = (
    (LongType, StringType, TimestampType, TimestampNTZType, BinaryType, DecimalType),
    (IntegerType, DateType),
    (DoubleType, FloatType, StructType, ArrayType),
    (ShortType, ByteType),
)


_RANKS = {type_: at for at, types in enumerate(_BY_VALUES) for type_ in types}


@cache
def _rank(kind: type) -> int:
    return next((_RANKS[each] for each in kind.__mro__ if each in _RANKS), len(_BY_VALUES))


# Of these Spark has no hash, or finds out only in a task that it has none.
_UNHASHABLE = ("VariantType", "NullType", "GeometryType", "GeographyType")


# Types that hold no others, most columns: they are looked up, as there may be thousands.
_SIMPLE = frozenset(type_ for types in _BY_VALUES for type_ in types) - {StructType, ArrayType}


def _is_hashable(type_: DataType) -> bool:
    if type(type_) in _SIMPLE:
        return True
    return not _holds(type_, (MapType,)) and not _has_kind(type_, _UNHASHABLE)


def _holds(type_: DataType, kinds: tuple[type, ...]) -> bool:
    if type(type_) in _SIMPLE:
        return type(type_) in kinds
    return isinstance(type_, kinds) or any(_holds(each, kinds) for each in _inner(type_))


def _has_kind(type_: DataType, names: tuple[str, ...]) -> bool:
    """Do as `_holds`, for types that some versions of Spark do not have."""
    return type(type_).__name__ in names or any(_has_kind(each, names) for each in _inner(type_))


def _inner(type_: DataType) -> list[DataType]:
    if isinstance(type_, StructType):
        return [field.dataType for field in type_.fields]
    return [type_.elementType] if isinstance(type_, ArrayType) else []
