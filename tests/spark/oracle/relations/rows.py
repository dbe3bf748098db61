"""What is known of the rows of a relation whose types only the server knows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampType,
)

# Steady if the column comes out of the query as it is, and is of a type of which equal values are one value.
OF_EQUAL = "one of several equal values, of a type that keysplit does not know"
SUM = "a sum of numbers, of a type that keysplit does not know"
# Spark may have made text of it, where the other side has text: steady if it is no text, as above.
MERGED = "one of several equal values, in a union or join, of a type that keysplit does not know"
BY_TYPE = (OF_EQUAL, SUM, MERGED)
_EXACT = (ByteType, ShortType, IntegerType, LongType, DecimalType, DateType, TimestampType)
_MOST_DIGITS = 38
# What no column is called that has a name of its own.
GENERATED = "()"


@dataclass(frozen=True)
class Rows:
    """What is known of the rows of a relation."""

    known: dict[str, str | None] = field(default_factory=dict)
    """Why values of a column may differ, by its name as the session compares names; None if they do not."""
    rest: str | None = None
    """The same for all other columns."""
    rows: str | None = None
    order: str | None = None
    hidden: Mapping[str | None, str | None] = field(default_factory=dict)
    """The same for columns that Spark finds by their names although these rows do not have them.

    Upstream relations have them, or the same operator makes them. None is a column of any name, `GENERATED`
    one that Spark has called after its expression.
    """

    def of(self, parts: Sequence[str]) -> str | None:
        """Return why values of a column, or of a field of one, may differ, given the parts of its name."""
        # Which of them is the column, and which an alias or a field, only the server knows.
        return worst(*map(self._of, parts)) if parts else worst(self.any(), *self.hidden.values())

    def _of(self, name: str) -> str | None:
        found = [self.known.get(name, self.rest), self.hidden.get(name)]
        if name not in self.known:
            found.append(self.hidden.get(None))
        if not name.isidentifier():
            found.append(self.hidden.get(GENERATED))
        return worst(*found)

    def any(self) -> str | None:
        """Return why values of any column may differ."""
        return worst(self.rest, *self.known.values())


def by_type(why: str | None, type_: DataType) -> str | None:
    """Return why values of a column may differ, now that its type is known."""
    # Spark 4 made collations: StringType() has none of its own.
    exact = isinstance(type_, _EXACT) or (isinstance(type_, StringType) and type_ == StringType())
    if why == MERGED and isinstance(type_, StringType):
        return why
    if why == SUM and isinstance(type_, DecimalType) and type_.precision == _MOST_DIGITS:
        return "a sum of decimals, which gives null if it overflows in the order of the rows"
    return None if why in BY_TYPE and exact else why


def worst(*reasons: str | None) -> str | None:
    """Return the reason of several that no type of the result takes back, if there is one."""
    found = [each for each in reasons if each is not None]
    return min(found, key=lambda why: (why in BY_TYPE, why == OF_EQUAL, why == SUM), default=None)


def of_rows(why: str | None) -> str | None:
    """Return why there may be other groups of equal values."""
    return None if why in (OF_EQUAL, MERGED) else why


def merged(why: str | None) -> str | None:
    """Return why values may differ that Spark may have cast to a type of both sides."""
    return MERGED if why == OF_EQUAL else within(why)


def merging(both: Rows) -> Rows:
    """Return the rows of both sides, of which Spark may have cast columns to a type of both."""
    known = {name: merged(why) for name, why in both.known.items()}
    return replace(both, known=known, rest=merged(both.rest))


def within(why: str | None) -> str | None:
    """Return why an expression of a column may differ, whatever the type of the result."""
    return f"an expression of {why}" if why in BY_TYPE else why


def hiding(child: Rows) -> dict[str | None, str | None]:
    """Return the columns of some rows, and of those upstream, as hidden ones."""
    return {None: worst(child.any(), *child.hidden.values())}


def with_hidden(child: Rows, name: str | None, why: str | None) -> Rows:
    """Return rows with one more hidden column."""
    return replace(child, hidden={**child.hidden, name: worst(child.hidden.get(name), why)})


def of_both(left: Rows, right: Rows) -> Rows:
    """Return rows with the columns of two sides."""
    names = {*left.known, *right.known}
    known = {name: worst(*(each.known.get(name, each.rest) for each in (left, right))) for name in names}
    hidden = {
        name: worst(left.hidden.get(name), right.hidden.get(name)) for name in {*left.hidden, *right.hidden}
    }
    rows, order = left.rows or right.rows, left.order or right.order
    return Rows(known, worst(left.rest, right.rest), rows, order, hidden)


def dealt(child: Rows) -> Rows:
    """Return rows that are dealt out to partitions in turn, which Spark does in an order of their values."""
    why = child.any()
    rows = child.rows or (why and f"a repartition without columns of rows with {why}")
    return replace(child, order="a shuffle (repartition)", rows=rows)


def chosen(child: Rows, what: str) -> Rows:
    """Return rows of which an operator takes some, by their order."""
    return replace(child, rows=child.rows or f"{what} without a total order", order=child.order or what)


def unknown(why: str) -> Rows:
    """Return rows of which nothing is known."""
    return Rows({}, why, why, why)
