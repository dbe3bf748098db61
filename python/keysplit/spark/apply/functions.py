"""Python functions over the rows of a key: checks of their arguments, and how rows are cut into groups."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, get_origin

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from keysplit.spark import slices
from keysplit.spark.apply import carry
from keysplit.spark.checks import type_name
from keysplit.spark.executors import read_once
from keysplit.spark.frame import Columns
from keysplit.spark.jvm import collation_key, schema_in
from keysplit.spark.names import quoted
from keysplit.spark.request import Request

Function = Callable[..., Any]


@dataclass(frozen=True)
class Cut:
    """How executors cut rows into groups: by extra columns after those of the DataFrame.

    Attributes:
        extra: the columns to add if a key is not a column of the DataFrame, or cannot be compared in Arrow.
        places: the positions of the columns.
        carried: the columns passed from `function` to `merge`.
        carried_cuts: the positions of the cuts among `carried`.
    """

    extra: list[Column]
    places: slices.Places
    carried: list[StructField]
    carried_cuts: list[int]

    @classmethod
    def of(cls, request: Request) -> "Cut":
        """Return how to cut rows into groups by a request's keys."""
        columns = request.columns
        n = len(columns.names)
        folded = [columns.fold(name) for name in columns.names]
        extra: list[Column] = []

        def add(column: Column) -> int:
            extra.append(column.alias(columns.free(f"_key_{len(extra)}", request.worker_column)))
            return n + len(extra) - 1

        keys, cuts = [], []
        types: dict[int, DataType] = {}
        for name, type_ in zip(request.keys, request.key_types, strict=True):
            plain = "." not in name and "`" not in name
            keys.append(folded.index(columns.fold(name)) if plain else add(F.col(name)))
            # a collation is only for comparing, which the cut does
            types[keys[-1]] = StringType() if isinstance(type_, StringType) else type_
            if isinstance(type_, ArrayType | StructType):
                cuts.append(add(carry.text(F.col(name), type_)))
                types[cuts[-1]] = StringType()
            elif isinstance(type_, StringType) and type_ != StringType():
                cuts.append(add(collation_key(F.col(name))))
                types[cuts[-1]] = BinaryType()
            else:
                cuts.append(keys[-1])
        carried = [*keys, *(at for at in cuts if at not in keys)]
        return cls(
            extra,
            slices.Places(columns.names, list(range(n)), keys, cuts),
            [StructField("", types[at]) for at in carried],
            [carried.index(at) for at in cuts],
        )

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.places.rows) + len(self.extra)


def over(function: Function, *arguments: Any) -> Function:
    """Return a function over batches for mapInArrow; it goes to the executors, which need no keysplit.

    Args:
        function: a function from a module that is pickled by value.
        arguments: its arguments after the batches.
    """
    read = read_once(function)
    # Their classes, and all that they use, would be pickled by value, too.
    plain = (slices.Call, slices.Places)
    given = [SimpleNamespace(**vars(each)) if isinstance(each, plain) else each for each in arguments]

    def run(batches: Any) -> Any:
        return read(batches, *given)

    run.__name__ = f"keysplit_{function.__name__}"  # Spark shows it, and `keysplit diagnose` looks for it
    return run


def mapped(rows: DataFrame, columns: Columns, function: Function, schema: StructType) -> DataFrame:
    """Call `mapInArrow`, which would read a column name with dots as a field.

    Args:
        rows: the columns of a DataFrame, then others.
        columns: the DataFrame's columns.
        function: a function over batches that finds columns by their places.
        schema: the columns that `function` returns.
    """
    if any(quoted(name) != name for name in columns.names):
        rows = rows.toDF(*(f"_{at}" for at in range(len(rows.columns))))
    return rows.mapInArrow(function, schema)


def takes_key(argument: str, function: Any) -> bool:
    """Check a user's function and return whether it takes the key before the rows."""
    if not callable(function):
        raise TypeError(f"{argument} must be a function, got {type_name(function)}")
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a function written in C may have no signature
        parameters = inspect.signature(lambda rows: rows).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in positional)
    rest = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    asked = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    if needed > 2 or asked or not (positional or rest):
        raise TypeError(f"{argument} must take (rows) or (key, rows), got a function of {needed} arguments")
    if _has_iterator(function):
        raise TypeError(
            f"{argument} must take all rows of a group at once and return them at once, got a function that "
            "takes or returns an iterator: take and return a pandas.DataFrame or a pyarrow.Table"
        )
    return needed == 2


def _has_iterator(function: Any) -> bool:
    """Return whether a function takes or returns an iterator, by its type hints or its body."""
    if inspect.isgeneratorfunction(function):
        return True
    hints: list[Any] = []
    with suppress(Exception):  # hints may use undefined names
        signature = inspect.signature(function, eval_str=True)
        hints = [signature.return_annotation, *(each.annotation for each in signature.parameters.values())]
    kinds = (get_origin(hint) or hint for hint in hints)
    return any(isinstance(kind, type) and issubclass(kind, Iterator) for kind in kinds)


def struct(df: DataFrame, argument: str, schema: Any) -> StructType:
    """Check a schema and return it as a StructType."""
    found = schema
    if isinstance(schema, str):
        try:
            found = schema_in(schema, df.sparkSession)
        except PySparkException as error:
            raise ValueError(
                f"{argument} must be DDL such as 'word string, n long', got {schema!r}"
            ) from error
    elif not isinstance(schema, StructType):
        raise TypeError(f"{argument} must be a StructType or DDL, got {type_name(schema)}")
    if len(set(found.names)) < len(found.names) or not found.names:
        raise ValueError(f"{argument} must have columns with distinct names, got {found.names}")
    return found


def refuse_uncut(name: str, type_: DataType, fold: Callable[[str], str]) -> None:
    """Raise TypeError if keys of a type cannot be compared on the executors."""
    kinds = [type_]
    while kinds:
        kind = kinds.pop()
        fields = getattr(kind, "fields", [])
        kinds += [field.dataType for field in fields]
        kinds += [kind.elementType] if isinstance(kind, ArrayType) else []
        if len({fold(field.name) for field in fields}) < len(fields):
            raise TypeError(
                "key must not hold structs with two fields of the same name, got "
                f"{name!r} of type {type_.simpleString()}"
            )
        if isinstance(kind, NullType) and kind is not type_:
            raise TypeError(f"key must not hold void fields, got {name!r} of type {type_.simpleString()}")


# Types that mapInArrow and applyInPandas convert equally.
_CARRIED = {
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
}


def uncarried(request: Request, returned: StructType) -> str | None:
    """Return why only Spark can process the groups; None if keysplit can."""
    names = request.columns.names
    if len(set(names)) < len(names):  # Spark's Arrow tables have each name once
        return "two columns have the same name"
    for field in [*request.columns.schema, *returned]:
        if not _is_carried(field.dataType):
            return f"column {field.name!r} is of type {field.dataType.simpleString()}"
    return None if len(returned) else "the result has no columns"


def _is_carried(type_: DataType) -> bool:
    if type(type_) in _CARRIED:
        return True
    if isinstance(type_, StructType):
        return len(type_) > 0 and all(_is_carried(field.dataType) for field in type_)
    if isinstance(type_, ArrayType):
        return _is_carried(type_.elementType)
    if isinstance(type_, MapType):
        return _is_carried(type_.keyType) and _is_carried(type_.valueType)
    return False
