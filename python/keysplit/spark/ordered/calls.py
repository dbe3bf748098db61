"""A window function as a user called it, and whether ranges of the order can compute it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, DecimalType, DoubleType, LongType

from keysplit.diagnosis.windows import ENDS, RANKS, SHIFTS, SUMS
from keysplit.spark.names import in_sql


class Unsplit(ValueError):
    """Why hot keys are not split: it cannot be done, or would not pay."""


class Order(NamedTuple):
    """A column of the order."""

    name: str
    ascending: bool
    nulls_first: bool

    @property
    def sql(self) -> str:
        """The column in an ORDER BY."""
        nulls = "FIRST" if self.nulls_first else "LAST"
        return f"{in_sql(self.name)} {'ASC' if self.ascending else 'DESC'} NULLS {nulls}"


class Spec(NamedTuple):
    """A window: its key and its order."""

    partition: tuple[str, ...]
    order: tuple[Order, ...]


class Frame(NamedTuple):
    """The rows around a row that a function sees; None is unbounded, 0 the current row."""

    rows: bool
    lower: int | None
    upper: int | None

    @property
    def sql(self) -> str:
        """The frame in a window."""
        lower, upper = _bound(self.lower, "PRECEDING"), _bound(self.upper, "FOLLOWING")
        return f"{'ROWS' if self.rows else 'RANGE'} BETWEEN {lower} AND {upper}"

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole partition."""
        return self.lower is None and self.upper is None

    @property
    def is_bounded(self) -> bool:
        """Whether it is a number of rows before and after."""
        return self.rows and self.lower is not None and self.upper is not None


@dataclass(frozen=True)
class Call:
    """A window function.

    Attributes:
        function: its name in SQL.
        arguments: its arguments, in SQL.
        argument_types: the types of those that are columns, None for literals.
        spec: its window.
        frame: its frame; that of ranks and shifts is their own.
        type: the type of its result.
        offset: for `lag` and `lead` the number of rows, for `nth_value` the number of the row, for `ntile`
            the number of tiles.
        ignores_nulls: whether it passes over nulls.
    """

    function: str
    arguments: tuple[str, ...]
    argument_types: tuple[DataType | None, ...]
    spec: Spec
    frame: Frame
    type: DataType
    offset: int = 0
    ignores_nulls: bool = False

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return f"{self.function}({', '.join(self.arguments)})"

    @property
    def sql(self) -> str:
        """The function without its window."""
        arguments = self.arguments
        if self.function in ENDS and self.ignores_nulls and self.function != "nth_value":
            arguments = (*arguments, "true")
        nulls = " IGNORE NULLS" if self.ignores_nulls and self.function not in ("first", "last") else ""
        return f"{self.function}({', '.join(arguments)}){nulls}"

    @property
    def plain(self) -> str:
        """The whole call, as Spark computes it."""
        keys, order = map(in_sql, self.spec.partition), self.spec.order
        return over(self.sql, keys, (each.sql for each in order), self.own_frame)

    @property
    def own_frame(self) -> Frame | None:
        """The frame, None if SQL may not name it."""
        return None if self.function in RANKS | SHIFTS else self.frame

    @property
    def reach(self) -> tuple[int, int]:
        """How many single rows before the current one it may see, and how many after it."""
        if self.function in SHIFTS:
            return (0, 0) if self.ignores_nulls else self._shift
        if self.function in RANKS or not self.frame.is_bounded:
            return 0, 0
        return max(-(self.frame.lower or 0), 0), max(self.frame.upper or 0, 0)

    @property
    def seeks(self) -> tuple[int, int]:
        """How many rows with a non-null argument it may need before the current row, and after it."""
        if not self.ignores_nulls:
            return 0, 0
        if self.function in SHIFTS:
            return self._shift
        ends = {("last", None, 0): (1, 0), ("first", 0, None): (0, 1)}
        return ends.get((self.function, self.frame.lower, self.frame.upper), (0, 0))

    @property
    def _shift(self) -> tuple[int, int]:
        before = self.offset if self.function == "lag" else -self.offset
        return max(before, 0), max(-before, 0)

    @property
    def is_of_peers(self) -> bool:
        """Whether its frame is the current row, or the rows that are equal to it in the order."""
        return (self.frame.lower, self.frame.upper) == (0, 0)

    @property
    def takes_an_end(self) -> bool:
        """Whether its result comes from a single row that may be in another range."""
        if self.function not in ENDS or self.frame.is_bounded or self.is_of_peers:
            return False
        own = {"first": self.frame.lower, "last": self.frame.upper}
        return own.get(self.function) != 0

    @property
    def why_whole(self) -> str | None:
        """Why ranges of the order cannot compute it, None if they can."""
        if self.function in RANKS | SHIFTS:
            return None
        frame = self.frame
        if frame.is_bounded or self.is_of_peers:
            return None
        if (frame.lower, frame.upper) not in ((None, 0), (0, None), (None, None)):
            return f"the frame of {self.name} is bounded on one side only"
        if self.function in ENDS:
            return self._why_no_end
        if self.function not in SUMS:
            return f"{self.function} over an unbounded frame cannot be combined from partial results"
        kinds = {"sum": (LongType, DoubleType, DecimalType), "avg": (DoubleType,)}.get(self.function)
        if kinds is not None and not isinstance(self.type, kinds):
            kind = self.type.simpleString()
            return f"{self.name} returns {kind}, which keysplit cannot combine from partial results"
        return None

    @property
    def _why_no_end(self) -> str | None:
        if self.function != "nth_value":
            return None
        if self.ignores_nulls:
            return f"{self.name} ignores nulls"
        return f"the frame of {self.name} starts at the current row" if self.frame.lower == 0 else None


@dataclass(frozen=True)
class Windows:
    """What `df.select("*", *columns)` computes.

    Attributes:
        base: the rows of `df`, then a column for each argument, key and order that is not a column of `df`.
        named: the names in `base` of the columns of `df`, by their names in `df`.
        calls: the window functions.
        results: names for the columns of their results.
        finish: takes `base` with a column per call, and returns the user's columns.
    """

    base: DataFrame
    named: Mapping[str, str]
    calls: Sequence[Call]
    results: Sequence[str]
    finish: Callable[[DataFrame], DataFrame]


def over(function: str, keys: Iterable[str], order: Iterable[str], frame: Frame | None) -> str:
    """Return a function over a window, in SQL."""
    keys, order = ", ".join(keys), ", ".join(order)
    parts = [f"PARTITION BY {keys}" if keys else "", f"ORDER BY {order}" if order else ""]
    parts.append(frame.sql if frame is not None else "")
    return f"{function} OVER ({' '.join(filter(None, parts))})"


def _bound(at: int | None, unbounded: str) -> str:
    if at is None:
        return f"UNBOUNDED {unbounded}"
    return "CURRENT ROW" if at == 0 else f"{abs(at)} {'PRECEDING' if at < 0 else 'FOLLOWING'}"
