"""The arguments of a join: its kind, the side that is split, the types of its keys."""

from collections.abc import Sequence
from typing import Any, Literal

from pyspark.sql.types import DataType

from keysplit.spark.checks import type_name
from keysplit.spark.frame import Columns
from keysplit.spark.keys import key_kinds

# Spark's spellings, without underscores and in lower case, as Spark reads them.
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
    """Return the kind of a join: inner, left, right, full, semi or anti; or raise an error."""
    if not isinstance(how, str):
        raise TypeError(f"how must be a string, got {type_name(how)}")
    kind = _KINDS.get(how.lower().replace("_", ""))
    if kind is None:
        raise ValueError(f"how must be inner, left, right, full, semi or anti, got {how!r}")
    return kind


def split_of(split: Any, kind: str) -> str:
    """Return the side that is split, "left" or "right"; or raise ValueError."""
    if split is None:
        return "right" if kind == "right" else "left"
    if split not in ("left", "right"):
        raise ValueError(f"split must be 'left' or 'right', got {split!r}")
    if split == "right" and kind in ("semi", "anti"):
        raise ValueError("split must be 'left' in semi and anti joins, got 'right'")
    return str(split)


def key_types_of(names: Sequence[str], columns: dict[str, Columns]) -> dict[str, list[DataType]]:
    """Return the types of the key columns on both sides, if they fit, or raise TypeError."""
    types = {side: [each.type_of("on", name) for name in names] for side, each in columns.items()}
    for mine, theirs in zip(types["left"], types["right"], strict=True):
        if key_kinds([mine]) != key_kinds([theirs]):
            raise TypeError(
                f"on must have the same type on both sides, got {mine.simpleString()} and "
                f"{theirs.simpleString()}: cast one of them"
            )
    return types
