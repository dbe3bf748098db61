"""The arguments that route, repartition and aggregate share, checked before any Spark job."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, NumericType
from pyspark.sql.utils import AnalysisException

import keysplit as ks
from keysplit.spark.keys import refuse_unhashable


@dataclass(frozen=True)
class Request:
    """What a caller asked for: which rows, by which key, with which grouping."""

    df: DataFrame
    keys: list[str]
    key_types: list[DataType]
    params: Any
    worker_column: str
    weight: str | None
    allow_inexact: bool


def check(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    workers: int | None,
    grouping: Any,
    plan: Any,
    mode: str,
    worker_column: str | None,
    row_id: Any,
    weight: str | None,
    seed: int | None,
    allow_inexact: bool,
) -> Request:
    """Check the arguments and say in one line what is wrong with the first bad one.

    Args: as `keysplit.spark.route`; `worker_column=None` picks a name that no column of `df` has.

    Returns:
        The request.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if an argument has a wrong value.
    """
    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise TypeError("df must be a classic Spark DataFrame in online mode, got one of Spark Connect")
    if not isinstance(df, DataFrame):
        raise TypeError(f"df must be a Spark DataFrame, got {type(df).__name__}")
    if mode not in ("planned", "online"):
        raise ValueError(f"mode must be 'planned' or 'online', got {mode!r}")
    if mode == "planned":
        raise ValueError("mode 'planned' (the default) is not available yet: pass mode=\"online\"")
    for name, value in (("plan", plan), ("row_id", row_id)):
        if value is not None:
            raise ValueError(
                f"{name} belongs to mode 'planned', which is not available yet: leave {name} out"
            )
    params = _params(grouping, workers, seed)
    keys = [key] if isinstance(key, str) else key
    if not isinstance(keys, Sequence) or not all(isinstance(name, str) for name in keys):
        raise TypeError(f"key must be a column name or a list of column names, got {key!r}")
    if not keys:
        raise ValueError("key must name at least one column, got an empty list")
    key_types = [_column_type(df, "key", name) for name in keys]
    refuse_unhashable(keys, key_types)
    if weight is not None:
        weight_type = _column_type(df, "weight", weight)
        if not isinstance(weight_type, NumericType):
            raise TypeError(
                f"weight must name a numeric column, got {weight!r} of type {weight_type.simpleString()}"
            )
    if df.isStreaming:
        raise ValueError("df must be a batch DataFrame in online mode, got a streaming one")
    return Request(
        df, list(keys), key_types, params, _worker_column(df, worker_column), weight, bool(allow_inexact)
    )


def quoted(name: str) -> str:
    """Return a column name in backticks, so that Spark reads dots and spaces in it as they are."""
    return "`" + name.replace("`", "``") + "`"


def _params(grouping: Any, workers: int | None, seed: int | None) -> Any:
    if isinstance(grouping, str):
        if grouping not in ks.GROUPINGS:
            return ks.grouping(grouping, workers=1)  # raises, and lists the right names
        if workers is None:
            raise ValueError(f"workers must be given with grouping={grouping!r}: a number in 1..=65536")
        return ks.grouping(grouping, workers=workers, seed=0 if seed is None else seed)
    if not isinstance(grouping, tuple(ks.GROUPINGS.values())):
        raise TypeError(f"grouping must be a registered name or a grouping, got {type(grouping).__name__}")
    for name, value in (("workers", workers), ("seed", seed)):
        if value is not None and value != getattr(grouping, name):
            raise ValueError(
                f"{name} must be left out or equal that of the grouping, {grouping!r}, got {value!r}"
            )
    return grouping


def _column_type(df: DataFrame, argument: str, name: str) -> DataType:
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be a column name, got {type(name).__name__}")
    fields = []
    # Spark writes to its log when it does not know a name: one that no column begins is not shown to it.
    if any(name.replace("`", "").lower().startswith(column.lower()) for column in df.columns):
        try:
            fields = df.select(name).schema.fields
        except AnalysisException:
            fields = []
    if len(fields) != 1:
        raise ValueError(
            f"{argument} must name one column of the DataFrame, got {name!r}; it has {df.columns}"
        )
    return fields[0].dataType


def _worker_column(df: DataFrame, name: str | None) -> str:
    fold = str if df.sparkSession.conf.get("spark.sql.caseSensitive") == "true" else str.lower
    taken = {fold(column) for column in df.columns}
    if name is None:
        name = "worker"
        while fold(name) in taken:
            name += "_"
    if not isinstance(name, str):
        raise TypeError(f"worker_column must be a column name, got {type(name).__name__}")
    if not name or fold(name) in taken:
        raise ValueError(
            f"worker_column must be a name that no column has yet, got {name!r}; there are {df.columns}"
        )
    return name
