"""A window function in pieces: what is computed per part of the order, and what ranges add to it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql.types import ByteType, DecimalType, IntegerType, LongType, ShortType

from keysplit.diagnosis.windows import ENDS, RANKS, SUMS
from keysplit.spark.names import in_sql
from keysplit.spark.ordered.calls import Call, Frame, over

_Local = Callable[[str, str, Frame | None], str]

BEFORE, AFTER = "before", "after"
"""Sides in `Pieces.table`: only parts before, or after, a range and the rows copied to it."""

_WIDEST = 38  # digits of the widest decimal
_ALL = Frame(rows=True, lower=None, upper=None)
_RUNNING = Frame(rows=False, lower=None, upper=0)


@dataclass
class Pieces:
    """The pieces of a window function, all in SQL.

    Attributes:
        parts: the aggregates per part, by column name.
        table: per column, an aggregate of `parts` for each range, with `{}` where a filter may stand, and the
            parts that count: `BEFORE` or `AFTER` the range, all of the key if empty.
        by_row, by_value: window functions over the rows of a range, ordered row by row, or only by the values
            of the order columns.
        value: the result, from the columns of `table`, `by_row`, `by_value` and `end`.
        exact: for a sum, the argument and the largest safe sum of its absolute values; None if all are safe.
        end: the number of the row in its key whose argument is needed, from 1 on, -1 for the last one.
        end_side: where that row must be: `BEFORE` or `AFTER` the range, anywhere if empty.
        present: the argument, if the function counts only rows where it is not null.
        distinct: whether the distinct order values before a range are needed.
    """

    parts: dict[str, str] = field(default_factory=dict)
    table: dict[str, tuple[str, str]] = field(default_factory=dict)
    by_row: dict[str, str] = field(default_factory=dict)
    by_value: dict[str, str] = field(default_factory=dict)
    value: str = ""
    exact: tuple[str, float] | None = None
    end: int | None = None
    end_side: str = ""
    present: str | None = None
    distinct: bool = False


@dataclass(frozen=True)
class Names:
    """The columns that all pieces share.

    Attributes:
        own: the prefix of their names.
        slot: the column of a row's range, -1 for rare keys.
        keys: the columns of the worker and the key.
        tie: the column that orders rows whose order values are equal, if that matters.
    """

    own: str
    slot: str
    keys: Sequence[str]
    tie: str | None = None

    @property
    def rows(self) -> str:
        """The column with the number of rows in a part."""
        return f"{self.own}_rows"

    @property
    def before(self) -> str:
        """The column with the number of rows that come before both a range and its copied rows."""
        return f"{self.own}_rows_before"

    @property
    def total(self) -> str:
        """The column with the number of rows of the key."""
        return f"{self.own}_rows_in_all"


def pieces_of(call: Call, own: str, names: Names) -> Pieces:
    """Split a window function into pieces.

    Args:
        call: the function; its `why_whole` is None.
        own: the prefix of its column names.
        names: the columns that all share.
    """
    found = Pieces(present=call.arguments[0] if any(call.seeks) else None)
    keys, order = [in_sql(each) for each in names.keys], [each.sql for each in call.spec.order]

    def local(name: str, function: str, frame: Frame | None) -> str:
        """Add a window over the rows of a range, and return its column."""
        ranks = ("rank()", "dense_rank()")
        if function not in ranks if frame is None else frame.rows:
            ties = [in_sql(names.tie)] if names.tie is not None else []
            found.by_row[f"{own}_{name}"] = over(function, keys, [*order, *ties], frame)
        else:
            found.by_value[f"{own}_{name}"] = over(function, keys, order, frame)
        return in_sql(f"{own}_{name}")

    if call.function in RANKS:
        _rank(call, found, own, names, local)
    elif call.function in SUMS and not (call.frame.is_bounded or call.is_of_peers):
        _sum(call, found, own, names, local)
    elif call.takes_an_end:
        _end(call, found, own, names, local)
    else:
        found.value = _here(call, names, local)
    return found


def _here(call: Call, names: Names, local: _Local) -> str:
    """Return the function over the rows of a range."""
    here = local("here", call.sql, call.own_frame)
    if names.tie is None or call.function not in ENDS or call.frame.rows:
        return here
    # which of the rows of equal order is the end: Spark keeps the order of this number for `here`
    return f"IF({local('at', 'row_number()', None)} > 0, {here}, NULL)"


def _rank(call: Call, found: Pieces, own: str, names: Names, local: _Local) -> None:
    before, total = f"coalesce({in_sql(names.before)}, 0L)", in_sql(names.total)
    if call.function in ("ntile", "percent_rank", "cume_dist"):
        total = f"coalesce({total}, {local('all', 'count(1)', _ALL)})"
    if call.function in ("row_number", "rank"):
        found.value = f"CAST({local('rank', call.sql, None)} + {before} AS INT)"
    elif call.function == "dense_rank":
        found.distinct = True
        found.table[f"{own}_values"] = (f"sum({in_sql(own)}){{}}", BEFORE)
        values = f"coalesce({in_sql(f'{own}_values')}, 0L)"
        found.value = f"CAST({local('rank', call.sql, None)} + {values} AS INT)"
    elif call.function == "percent_rank":
        rank = f"({local('rank', 'rank()', None)} + {before} - 1)"
        found.value = f"IF({total} > 1, coalesce(CAST({rank} AS DOUBLE) / ({total} - 1), 0.0D), 0.0D)"
    elif call.function == "cume_dist":
        until = f"({local('until', 'count(1)', _RUNNING)} + {before})"
        found.value = f"coalesce(CAST({until} AS DOUBLE) / {total}, 0.0D)"
    else:
        at = f"({local('at', 'row_number()', None)} + {before} - 1)"
        size, longer = f"({total} div {call.offset}L)", f"({total} % {call.offset}L)"
        # the first tiles have a row more
        rows = f"({longer} * ({size} + 1))"
        found.value = (
            f"CAST(coalesce(IF({at} < {rows}, {at} div ({size} + 1), "
            f"{longer} + ({at} - {rows}) div greatest({size}, 1L)), 0L) + 1 AS INT)"
        )


def _sum(call: Call, found: Pieces, own: str, names: Names, local: _Local) -> None:
    type_ = call.type.simpleString()
    side = "" if call.frame.is_whole else BEFORE if call.frame.lower is None else AFTER
    argument = ", ".join(call.arguments)

    def both(name: str, function: str, merge: str, type_: str) -> tuple[str, str]:
        """Return the column for the parts of other ranges, and the column for the range's own rows."""
        partial = f"try_{function}" if function.startswith("sum(") else function
        found.parts[f"{own}_{name}"] = partial
        merged = f"{merge}({in_sql(f'{own}_{name}')}){{}}"
        merged = f"CAST({merged} AS {type_})" if type_ else merged
        found.table[f"{own}_{name}_there"] = (merged, side)
        return in_sql(f"{own}_{name}_there"), local(name, function, call.frame)

    def together(there: str, here: str, sum_: str) -> str:
        """Combine both; for a frame of the whole key, take `there` for hot keys and `here` for others."""
        return f"IF({in_sql(names.slot)} >= 0, {there}, {here})" if not side else sum_

    if call.function == "count":
        there, here = both("count", f"count({argument})", "sum", "bigint")
        found.value = f"coalesce({together(there, here, f'{here} + coalesce({there}, 0L)')}, 0L)"
    elif call.function in ("min", "max"):
        there, here = both("most", f"{call.function}({argument})", call.function, "")
        least = "least" if call.function == "min" else "greatest"
        found.value = together(there, here, f"{least}({there}, {here})")
    elif call.function == "avg":
        sums = both("sum", f"sum(CAST({argument} AS DOUBLE))", "sum", "double")
        counts = both("count", f"count({argument})", "sum", "bigint")
        sum_, count = (
            together(there, here, f"(coalesce({there}, {zero}) + coalesce({here}, {zero}))")
            for (there, here), zero in ((sums, "0.0D"), (counts, "0L"))
        )
        found.value = f"IF({count} > 0L, {sum_} / {count}, CAST(NULL AS DOUBLE))"
    else:
        there, here = both("sum", f"sum({argument})", "sum", type_)
        added = f"{there} + {here}"
        if isinstance(call.type, DecimalType) and call.type.precision == _WIDEST:
            # a sum of two of the widest decimals would lose digits after the point
            narrow = f"decimal({call.type.precision - 1},{call.type.scale})"
            added = f"CAST({there} AS {narrow}) + CAST({here} AS {narrow})"
        added = f"coalesce(CAST({added} AS {type_}), {there}, {here})"
        found.value = together(there, here, added)
        found.exact = _bound_of(call)


def _bound_of(call: Call) -> tuple[str, float] | None:
    """Return an argument and up to which sum of absolute values no sum overflows; None if none can."""
    if isinstance(call.type, LongType):
        narrow = isinstance(call.argument_types[0], ByteType | ShortType | IntegerType)
        return None if narrow else (call.arguments[0], 9e18)
    if isinstance(call.type, DecimalType) and call.type.precision == _WIDEST:
        return call.arguments[0], 0.9 * 10.0 ** (call.type.precision - 1 - call.type.scale)
    return None


def _end(call: Call, found: Pieces, own: str, names: Names, local: _Local) -> None:
    here = _here(call, names, local)
    there, is_hot = in_sql(own), f"{in_sql(names.slot)} >= 0"
    found.present = call.arguments[0] if call.ignores_nulls else None
    found.end = {"first": 1, "last": -1}.get(call.function, call.offset)
    if call.function == "nth_value" and call.frame.upper == 0:
        count = local("until", "count(1)", call.frame)
        until = f"({count} + coalesce({in_sql(names.before)}, 0L))"
        there = f"IF({until} >= {call.offset}, {there}, NULL)"
    found.value = f"IF({is_hot}, {there}, {here})"
    if call.ignores_nulls and not call.frame.is_whole:
        found.end_side = BEFORE if call.function == "first" else AFTER
        found.value = f"coalesce({there}, {here})"
