"""Which way an operation took to its result, and why."""

from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

from keysplit.spark.session import handed_out

Name = Literal["plain", "broadcast", "place", "grid", "slices", "online"]


@dataclass(frozen=True)
class Way:
    """The way that an operation took.

    Attributes:
        name: "plain" is Spark's own query, "place" sends rows to their workers, "broadcast" joins hot keys by
            broadcast, "grid" splits both sides of a join, "slices" cuts sorted partitions into groups,
            "online" routes rows in their order.
        why: in a line, why it was taken.
    """

    name: Name
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def keys_are(count: int) -> str:
    """Return "no key is", "1 key is" or "n keys are"."""
    return f"{count or 'no'} key is" if count < 2 else f"{count} keys are"


_taken: "WeakKeyDictionary[Any, Way]" = WeakKeyDictionary()
_Result = TypeVar("_Result")


def took(result: _Result, way: Way) -> _Result:
    """Remember the way to a result, as long as the result lives, and return the result."""
    _taken[result] = way
    handed_out(result)
    return result


def way_of(result: Any) -> Way:
    """Return the way to a result.

    Raises:
        TypeError: if no operation of keysplit returned it.
    """
    try:
        return _taken[result]
    except (KeyError, TypeError):
        raise TypeError(
            "result must be what an operation of keysplit.spark returned, itself and not a query on top of "
            f"it, got {type(result).__name__}"
        ) from None


def explain(result: Any) -> str:
    """Say in a line which way an operation took, and why.

    Args:
        result: what an operation of `keysplit.spark` or `keysplit.spark.streaming` returned.

    Returns:
        The way ("plain", "broadcast", "place", "grid", "slices" or "online"), a colon and the reason.

    Raises:
        TypeError: if no operation of keysplit returned the result.

    Example:
        >>> way = kss.explain(kss.aggregate(df, "word", F.median("length"), workers=8))  # doctest: +SKIP
    """
    return str(way_of(result))
