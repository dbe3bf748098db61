"""What a process knows of the rows that a plan is used for; it is no part of the plan."""

from weakref import finalize, ref

from pyspark.sql import DataFrame

from keysplit.plan.plan import Plan

MOST_LOOKS = 3
"""Queries in which the frequent keys of a plan are looked for: some never run, or on too few rows."""


class KnownRows:
    """The rows that a plan is known to be for.

    Attributes:
        are_met: whether a run has shown if the frequent keys of the plan are among its rows.
        looks: in how many queries they have been looked for.
    """

    def __init__(self) -> None:
        self.are_met = False
        self.looks = 0
        self._made_from: ref[DataFrame] | None = None

    def made_from(self, df: DataFrame) -> None:
        """Say which rows the plan was made from."""
        self._made_from = ref(df)

    def may_be_others(self, df: DataFrame) -> bool:
        """Whether these may be other rows than the plan was made from, which no run has shown yet."""
        if self.are_met or self.looks >= MOST_LOOKS:
            return False
        return self._made_from is None or self._made_from() is not df


# By the id of the plan, while it lives: two plans may be equal and have been made from other rows.
_known: dict[int, KnownRows] = {}


def known_rows(plan: Plan) -> KnownRows:
    """Return what is known of the rows of a plan, of this very object."""
    found = _known.get(id(plan))
    if found is None:
        found = _known.setdefault(id(plan), KnownRows())
        finalize(plan, _known.pop, id(plan), None).atexit = False
    return found
