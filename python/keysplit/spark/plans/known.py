"""What a process knows of the rows that a plan is used for; it is no part of the plan."""

from weakref import finalize, ref

from pyspark.sql import DataFrame

from keysplit.spark.plans.model import Plan


class KnownRows:
    """The rows that a plan is known to be for.

    Attributes:
        are_met: whether a run has shown if the frequent keys of the plan are among its rows.
    """

    def __init__(self) -> None:
        self.are_met = False
        self._made_from: ref[DataFrame] | None = None

    def made_from(self, df: DataFrame) -> None:
        """Say which rows the plan was made from."""
        self._made_from = ref(df)

    def may_be_others(self, df: DataFrame) -> bool:
        """Whether these may be other rows than the plan was made from, and no run has shown anything yet."""
        return not self.are_met and (self._made_from is None or self._made_from() is not df)


# By the id of the plan, while it lives: two plans may be equal and have been made from other rows.
_known: dict[int, KnownRows] = {}


def known_rows(plan: Plan) -> KnownRows:
    """Return what is known of the rows of a plan, of this very object."""
    if id(plan) not in _known:
        _known[id(plan)] = KnownRows()
        finalize(plan, _known.pop, id(plan)).atexit = False
    return _known[id(plan)]
