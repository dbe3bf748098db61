"""Whether Spark would broadcast a side of a join, by what it says of the join of the key columns alone.

To plan a join of thousands of columns takes Spark much longer than to plan that of its keys. Spark broadcasts
a side that it takes for small, and takes a column for as many bytes as its type has by default. So of sides
that are read from files, filtered and projected, the size with all columns follows from that with some.
"""

import re
from collections.abc import Iterable, Sequence

from pyspark.sql import types as T

from keysplit.spark.session import costs

_DEFAULT_SIZES = {
    T.BooleanType: 1,
    T.ByteType: 1,
    T.ShortType: 2,
    T.IntegerType: 4,
    T.LongType: 8,
    T.FloatType: 4,
    T.DoubleType: 8,
    T.StringType: 20,
    T.BinaryType: 100,
    T.DateType: 4,
    T.TimestampType: 8,
    T.TimestampNTZType: 8,
    T.DayTimeIntervalType: 8,
}
"""What Spark takes a value of a type for, in bytes."""

_OF_A_ROW = 8
_NODE = re.compile(r"([\s:|+-]*)(\w+)[^\n]* Statistics\(sizeInBytes=([\d.]+) (\w+)\)")
# Sizes have one decimal.
_ROUNDED = 0.05
# The sides that Spark may broadcast in a join.
_BUILT = {"inner": (0, 1), "left": (1,), "semi": (1,), "anti": (1,), "right": (0,)}


def row_size(types: Iterable[T.DataType]) -> int | None:
    """Return how many bytes Spark takes a row of such columns for; None where a type is not known here."""
    sizes = list(map(_default_size, types))
    known = [each for each in sizes if each is not None]
    return _OF_A_ROW + sum(known) if len(known) == len(sizes) else None


def _default_size(type_: T.DataType) -> int | None:
    if isinstance(type_, T.DecimalType):
        return 8 if type_.precision <= 18 else 16
    return _DEFAULT_SIZES.get(type(type_))


def broadcasts(text: str, kind: str, limit: int, times: Sequence[float]) -> bool | None:
    """Say whether Spark would broadcast a side of a join; None where only its plan of the whole join says so.

    Args:
        text: how Spark explains the join of the key columns alone, with its estimates.
        kind: inner, left, right, semi or anti.
        limit: the bytes that a side may have to be broadcast.
        times: how many times as large a row of each side is with all its columns.
    """
    logical, _, physical = text.partition("== Physical Plan ==")
    by_broadcast = costs.joins_by_broadcast(physical)
    if by_broadcast is False:
        return False  # with more columns no side is smaller
    found = _sides(logical) if by_broadcast else None
    if found is None:
        return None
    # of the right side of these Spark reads nothing but the keys
    times = (times[0], 1.0 if kind in ("semi", "anti") else times[1])
    sizes = [(number * times[at], unit * times[at]) for at, (number, unit) in enumerate(found)]
    built = [sizes[at] for at in _BUILT[kind]]
    if any(size + _ROUNDED * unit <= limit for size, unit in built):
        return True
    return False if all(size - _ROUNDED * unit > limit for size, unit in built) else None


def _sides(logical: str) -> list[tuple[float, int]] | None:
    """Return the bytes of both sides and the unit they are given in; None for other sides than known ones."""
    lines = logical.strip().splitlines()[1:]
    nodes = [node for node in map(_NODE.fullmatch, lines) if node is not None]
    names = [node[2] for node in nodes]
    if len(nodes) < len(lines) or "Join" not in names or "Hint=" in logical:
        return None
    join = names.index("Join")
    depths = [len(node[1]) for node in nodes]
    starts = [at for at in range(join + 1, len(names)) if depths[at] == depths[join + 1]]
    if len(starts) != 2 or set(names[:join]) - {"Project"}:
        return None
    sizes = []
    for start, end in zip(starts, [starts[1], len(names)], strict=True):
        *steps, leaf = names[start:end]
        unit = costs.UNITS.get(nodes[start][4])
        if leaf != "Relation" or set(steps) - {"Project", "Filter"} or unit is None:
            return None
        sizes.append((float(nodes[start][3]) * unit, unit))
    return sizes
