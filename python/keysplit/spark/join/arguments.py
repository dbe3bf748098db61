"""The arguments of a join: its kind, the side that is split, the types of its keys."""

import re
from collections.abc import Sequence
from typing import Any, Literal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField

from keysplit.spark import versions
from keysplit.spark.checks import type_name
from keysplit.spark.frame import Columns
from keysplit.spark.jvm import setting_of
from keysplit.spark.keys import key_kinds

# The metadata in which Spark keeps that a string column is CHAR or holds CHAR.
_RAW_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_CHAR = re.compile(r"\bchar\(")
# Whether Spark pads CHAR when it reads.
_PADDED = "spark.sql.readSideCharPadding"

# Spark's spellings, in lower case and without underscores.
_KINDS = {
    "inner": "inner",
    "left": "left",
    "leftouter": "left",
    "right": "right",
    "rightouter": "right",
    "full": "full",
    "outer": "full",
    "fullouter": "full",
    "semi": "semi",
    "leftsemi": "semi",
    "anti": "anti",
    "leftanti": "anti",
}


How = Literal[
    "inner",
    "left",
    "leftouter",
    "left_outer",
    "right",
    "rightouter",
    "right_outer",
    "full",
    "outer",
    "fullouter",
    "full_outer",
    "semi",
    "leftsemi",
    "left_semi",
    "anti",
    "leftanti",
    "left_anti",
]


def kind_of(how: Any) -> str:
    """Return the kind of a join (inner, left, right, full, semi or anti), or raise an error."""
    if not isinstance(how, str):
        raise TypeError(f"how must be a string, got {type_name(how)}")
    kind = _KINDS.get(how.lower().replace("_", ""))
    if kind is None:
        raise ValueError(f"how must be inner, left, right, full, semi or anti, got {how!r}")
    return kind


def split_of(split: Any, kind: str) -> str:
    """Return the side that is split, "left" or "right", or raise ValueError."""
    if split is None:
        return "right" if kind == "right" else "left"
    if split not in ("left", "right"):
        raise ValueError(f"split must be 'left' or 'right', got {split!r}")
    if split == "right" and kind in ("semi", "anti"):
        raise ValueError("split must be 'left' in semi and anti joins, got 'right'")
    return str(split)


def condition_of(condition: Any) -> Column | None:
    """Return the condition in addition to equal keys, as a column, or raise TypeError."""
    if condition is None or versions.is_column(condition):
        return condition
    if not isinstance(condition, str):
        raise TypeError(
            f"condition must be a column such as F.expr('a <= b'), SQL text or None, got {condition!r}"
        )
    return F.expr(condition)


def refuse_condition(kind: str, hot: str) -> None:
    """Raise ValueError for a condition in a join that keeps unmatched rows of the side that is not split."""
    if kind == "full":
        raise ValueError(
            "how must be inner, left, right, semi or anti with a condition, got 'full': use Spark's own join"
        )
    if kind in ("left", "right") and hot != kind:
        raise ValueError(
            f"split must be {kind!r} in a {kind} join with a condition, got {hot!r}: rows of the other side "
            "are copied to several workers, and each copy would be returned"
        )


def key_types_of(
    names: Sequence[str], columns: dict[str, Columns], argument: str = "on"
) -> dict[str, list[DataType]]:
    """Return the types of the key columns on both sides if they match, or raise TypeError."""
    fields = {side: each.fields_of(argument, names) for side, each in columns.items()}
    for mine, theirs in zip(fields["left"], fields["right"], strict=True):
        if key_kinds([mine.dataType]) != key_kinds([theirs.dataType]):
            raise TypeError(
                f"{argument} must have the same type on both sides, got {mine.dataType.simpleString()} and "
                f"{theirs.dataType.simpleString()}: cast one side"
            )
        _refuse_padded(mine, theirs, columns["left"], argument)
    return {side: [field.dataType for field in found] for side, found in fields.items()}


def _refuse_padded(mine: StructField, theirs: StructField, columns: Columns, argument: str) -> None:
    """Raise TypeError if Spark pads strings to compare them: equal strings may have different hashes."""
    raw = [field.metadata.get(_RAW_TYPE) or field.dataType.simpleString() for field in (mine, theirs)]
    if not all(map(_CHAR.search, raw)):
        return
    if raw[0] != raw[1]:
        raise TypeError(
            f"{argument} must have CHAR of the same length on both sides, got {raw[0]} and {raw[1]}: pad the "
            "shorter column with rpad(column, length, ' ')"
        )
    if setting_of(columns.df.sparkSession)(_PADDED) == "false":
        raise TypeError(
            f"{argument} must not be {raw[0]} where {_PADDED} is false: cast both sides to STRING"
        )
