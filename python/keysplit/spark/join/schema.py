"""The schema of a join, made of those of its sides."""

from collections.abc import Iterable, Sequence

from pyspark.sql.types import StructField, StructType

from keysplit.spark.frame import Columns

# The side whose columns are null in rows without a partner.
_NULL = {"left": "right", "right": "left"}


def schema_of(kind: str, on: Sequence[str], left: Columns, right: Columns) -> StructType | None:
    """Return the schema of `left.join(right, on, kind)`, None where only Spark knows it.

    Args:
        kind: as `kind_of` returns it, but not full: Spark makes one column of both keys then.
        on: the names of the key columns.
        left: the columns of the left side.
        right: those of the right side.
    """
    sides = {"left": left, "right": right}
    places = {side: [each.places(name) for name in on] for side, each in sides.items()}
    if any(len(found) != 1 for each in places.values() for found in each):
        return None
    keys = {side: [found[0] for found in each] for side, each in places.items()}
    first = "right" if kind == "right" else "left"
    made = (sides[first].schema.fields[at] for at in keys[first])
    shown = ("left",) if kind in ("semi", "anti") else ("left", "right")
    rest = [field for side in shown for field in _rest(sides[side], keys[side], side == _NULL.get(kind))]
    return StructType([*made, *rest])


def _rest(columns: Columns, keys: Sequence[int], nullable: bool) -> Iterable[StructField]:
    """Return the columns of a side that are no keys."""
    fields = (field for at, field in enumerate(columns.schema.fields) if at not in keys)
    return map(_nullable, fields) if nullable else fields


def _nullable(field: StructField) -> StructField:
    return StructField(field.name, field.dataType, True, field.metadata)
