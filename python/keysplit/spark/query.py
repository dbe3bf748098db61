"""What a query says, read once a call: which columns come out the same when Spark retries a task.

A plan decides by the values of rows, kss.online by their order. If these change when a task is retried,
rows are lost or doubled without an error. A column has part in a row's identity only if its values are proved
to be the same; nothing is run to find out. docs/exactness.md says what is known to be steady.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame

from keysplit.spark.checks import type_name
from keysplit.spark.names import Places, parts_of
from keysplit.spark.rows import MOST_COLUMNS, identifying, may_identify
from keysplit.spark.session import ByChance, Session, Steadiness, is_connect, session_of
from keysplit.spark.warn import warn

CHECKSUMS = [
    f"spark.sql.shuffle.orderIndependentChecksum.{name}" for name in ("enabled", "enableFullRetryOnMismatch")
]
"""With both settings Spark notices that a retried task gave other rows; on from Spark 4.2 on."""


# Behind the name of a function, which a column may have, too.
_CALLED = "()"


@dataclass(frozen=True, eq=False)
class Query:
    """The query of a DataFrame.

    Attributes:
        df: the DataFrame.
        trust: names of columns and of functions that the user trusts, as `trusted_names` returns them.
        beside: the other side of a join, which may have what `trust` names in place of this one.
        argument: what the DataFrame is called in the call.
        merges: whether what is made of the rows is exact where Spark sees that a retried task gave others.
        checked: whether `trust` may name only what the query has.
    """

    df: DataFrame
    trust: frozenset[str] = frozenset()
    beside: DataFrame | None = None
    argument: str = "df"
    merges: bool = False
    checked: bool = False

    @cached_property
    def session(self) -> Session:
        """The session of the DataFrame."""
        return session_of(self.df)

    @cached_property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.df.columns)

    @cached_property
    def _folded(self) -> list[str]:
        return list(map(self.fold, self.columns))

    @cached_property
    def _places(self) -> Places:
        """Where the columns of each name are, as the session compares names."""
        return Places(self._folded)

    @cached_property
    def fold(self) -> Callable[[str], str]:
        """The function that makes column names equal which the session takes for one."""
        # without an answer it is Spark's default: a serverless service may let nobody read its settings
        sensitive = (self.session.setting("spark.sql.caseSensitive") or "").lower() == "true"
        return str if sensitive else str.lower

    @property
    def rolls_back(self) -> bool:
        """Whether Spark sees that a retried task gave other rows, and retries all that read them."""
        return self.unseen is None

    @cached_property
    def unseen(self) -> str | None:
        """Why Spark may not see that a retried task gave other rows; None if it does.

        From Spark 4.2 on a shuffle keeps checksums that do not depend on the order of rows. Where they
        differ, Spark runs the stages downstream again from their start, or stops the job if it has handed out
        results. What ends in a shuffle of its own, as an aggregate by key does, is exact then, or stopped.
        That holds for Spark's own shuffles alone.
        """
        off = (f"{name} is not true" for name in CHECKSUMS if self.session.setting(name) != "true")
        return next(off, None) or self.session.foreign_shuffle()

    @property
    def steadiness(self) -> Steadiness:
        """What is proved of the query, of its rows and some of its columns.

        Raises:
            ValueError: if `trust` names what the query does not have.
        """
        return self._proved(False)

    @property
    def repeatability(self) -> Steadiness:
        """What is proved of the query when it is read twice; errors as `steadiness`.

        Each micro-batch of a stream is planned anew, with other seeds, when it is run again. A batch has the
        same seeds in both readings, but its rows may be in other partitions.
        """
        return self._proved(True)

    @cached_property
    def _proofs(self) -> dict[bool, Steadiness]:
        """What has been proved, by whether the query is read twice."""
        return {}

    def _proved(self, twice: bool, places: Iterable[int] = ()) -> Steadiness:
        """Return what is proved of the query, of its columns at these places and of others."""
        anew = "a stream" if twice and self.df.isStreaming else None
        if twice and anew is None:
            once = self._proved(False, places)
            if not (once.by_place or is_connect(self.df)):
                return once
        found = self._proofs.get(twice)
        known = () if found is None else found.columns
        if found is None or (known is not None and not set(places) <= set(known)):
            # who asks for no column may need the identity of a row
            wanted = sorted({*places, *(known or ())}) or self._may_identify[:MOST_COLUMNS]
            found = self._prove(self.df, wanted, twice)
            if twice not in self._proofs:
                self._refuse_unknown(found)
            self._proofs[twice] = found
        return found

    def _prove(self, df: DataFrame, places: Sequence[int], twice: bool) -> Steadiness:
        anew = "a stream" if twice and df.isStreaming else None
        return self.session.steadiness(df, places, self._trusted_functions, anew, twice and anew is None)

    @cached_property
    def _may_identify(self) -> list[int]:
        return may_identify(self.session.schema_of(self.df).fields, self._folded)

    def _refuse_unknown(self, found: Steadiness) -> None:
        """Raise ValueError if `trust` names what the query does not have."""
        unknown = self._trusted_functions - found.functions if self.checked else frozenset()
        if unknown and self.beside is not None:
            other = Query(self.beside)
            unknown -= other.steadiness.functions
            unknown = frozenset(name for name in unknown if other.fold(name) not in other._folded)
        for name in sorted(unknown):
            raise ValueError(
                f"trust must name columns of df or functions in its query, got {name!r}; df has the "
                f"columns {self.columns}, its query calls the functions {sorted(found.functions)}"
            )

    @cached_property
    def _trusted_functions(self) -> frozenset[str]:
        """The names of functions that are trusted: a name that a column has is that column's alone."""
        names = (each for each in self.trust if self.fold(each) not in self._folded)
        return frozenset(each.removesuffix(_CALLED) for each in names)

    @cached_property
    def disorder(self) -> str | None:
        """Why the rows may come in another order when a task is retried, None if they do not."""
        return self.session.disorder(self.df, self.steadiness.order is None)

    @cached_property
    def is_shuffled(self) -> bool:
        """Whether the rows may come out of a shuffle, or of a stream, which may have one upstream."""
        # Spark's plan is asked only where the query leaves it open.
        return self.df.isStreaming or (self.steadiness.order is not None and self.disorder is not None)

    def reasons(self, places: Sequence[int] | None = None, twice: bool = False) -> list[str | None]:
        """Return why values of columns may differ when a task is retried, None for those that do not.

        Args:
            places: where the columns are; None for all.
            twice: whether the query is read twice, besides.
        """
        places = range(len(self.columns)) if places is None else places
        found = self._proved(twice, places)
        of = dict.fromkeys(places, found.rows) if found.columns is None else found.columns
        trusted = set(map(self.fold, self.trust))
        return [None if self._folded[at] in trusted else of[at] for at in places]

    @cached_property
    def identity(self) -> list[str]:
        """The columns that make up the identity of a row if the user names none.

        Raises:
            ValueError: if no column is steady, or if there may be other rows when a task is retried.
        """
        if self.steadiness.rows is not None:
            raise ValueError(
                "row_id must be given: df may have other rows when a task is retried, because of "
                f"{self.steadiness.rows}; {self._remedies('name columns that tell rows apart', 'functions')}"
            )
        names = identifying(
            self.session.schema_of(self.df).fields,
            self._may_identify,
            steady=lambda places: [why is None for why in self.reasons(places)],
            shuffled=lambda: self.is_shuffled,
        )
        if not names:
            pairs = zip(self.columns, self.reasons(), strict=True)
            unsteady = "; ".join(f"{name}: {why}" for name, why in pairs if why) or "none is unsteady"
            raise ValueError(
                "row_id must be given: df has no column of a type that Spark hashes that is known to have "
                f"the same values when a task is retried ({unsteady[:400]}); "
                f"{self._remedies('name columns that tell rows apart', 'columns or functions')}"
            )
        return names

    def refuse_unsteady_id(self, names: Sequence[str]) -> None:
        """Raise ValueError if values in the columns of `row_id` may differ when a task is retried."""
        for name, why in zip(names, self._whys(names), strict=True):
            if why is not None:
                raise ValueError(
                    "row_id must name columns that have the same values when a task is retried, got "
                    f"{name!r}, which depends on {why}; "
                    f"{self._remedies('name other columns', 'columns or functions')}"
                )

    def warn_of_keys_by_chance(self, names: Sequence[str]) -> None:
        """Warn if Spark itself knows that a retried task has other values in some columns of the key."""
        if self.session.is_deterministic(self.df):
            return
        for name, why in zip(names, self._whys(names), strict=True):
            if isinstance(why, ByChance):
                warn(
                    f"key column {name!r} of {self.argument} depends on {why}: when a task is retried, its "
                    "rows may get other keys, and Spark then loses rows, doubles them or stops the job. "
                    "Derive it from columns of the row, such as F.pmod(F.xxhash64('order_id'), F.lit(8))"
                )

    def are_steady(self, names: Sequence[str]) -> bool:
        """Say whether there are such columns, with the same rows and values when a task is retried."""
        return self._why(names) is None and self.steadiness.rows is None

    def refuse_unrepeatable(self, names: Sequence[str], why: str) -> None:
        """Raise ValueError if the rows, or their values in some columns, may differ when df is read twice."""
        found, known = self.why_unrepeatable(names), self.repeatability
        if found is not None:
            name = self.argument
            before = f"call {name}.checkpoint() before"
            if self.df.isStreaming:
                before = f"write {name} to files or a topic before and read them"
            elif is_connect(self.df):  # its client does not know what a checkpoint holds
                before = f"write {name} to files and read it back"
            trusted = ", or pass trust=[...] with columns or functions that you know to be steady"
            if found in (known.rows, known.again) and not known.functions:  # there is nothing to trust
                trusted = ""
            raise ValueError(
                f"{name} must have the same rows each time that it is read, {why}, got {found}: "
                f"{before}{trusted}"
            )

    def why_unrepeatable(self, names: Sequence[str]) -> str | None:
        """Return why the rows, or values in some columns, may differ when df is read twice, None if not."""
        found = self.repeatability
        # A micro-batch that is run again reads what it has read.
        again = None if self.df.isStreaming else found.again
        return found.rows or again or self._why(names, twice=True)

    def refuse_in_order(self, keys: Sequence[str], weight: Column | None, routed: DataFrame | None) -> None:
        """Raise ValueError unless the same rows reach a router in the same order when its task is retried.

        Args:
            keys: the columns of the key.
            weight: the weight of a row, None if it is 1.
            routed: the rows of a batch that have been routed, and nothing more; None for a stream, which
                shows no plan of its batches.
        """
        found = self.steadiness
        shuffle = None if routed is None else self.session.disorder(routed, found.order is None)
        if shuffle is not None:
            unseen = (
                f", where Spark does not retry all that read other rows ({self.unseen})"
                if self.merges
                else ""
            )
            raise ValueError(
                f"kss.online is exact only without an upstream shuffle, got {shuffle}{unseen}: use a plan "
                "(kss.repartition), sort within partitions by all columns, call df.checkpoint() first, write "
                "df and read it back, or pass allow_inexact=True"
            )
        why = found.rows or self._why(keys)
        if why is None and weight is not None:
            weights = self._prove(self.df.select(weight), [0], twice=False)
            why = weights.rows if weights.columns is None else weights.columns[0]
        if why is None and routed is None:
            why = found.order
        if why is not None:
            raise ValueError(
                f"kss.online is exact only if a retried {'batch' if routed is None else 'task'} has the "
                f"same rows in the same order, got {why}: {self._remedies_in_order()}"
            )

    def _remedies_in_order(self) -> str:
        found = ["use a plan (kss.repartition)"]
        if self.steadiness.functions:
            found.append("pass trust=[...] with functions that you know to be deterministic")
        if not self.df.isStreaming:
            found += ["call df.checkpoint() first", "write df and read it back", "pass allow_inexact=True"]
        return ", ".join([*found[:-1], f"or {found[-1]}"]) if len(found) > 1 else found[0]

    def _why(self, names: Sequence[str], twice: bool = False) -> str | None:
        """Return why values of some columns, or fields of columns, may differ, None if none do."""
        return next(filter(None, self._whys(names, twice)), None)

    def _whys(self, names: Sequence[str], twice: bool = False) -> list[str | None]:
        """Return for each of some columns, or fields of columns, why its values may differ."""
        places = [self._places_of(name) for name in names]
        every = sorted(set(itertools.chain.from_iterable(places)))
        reasons = dict(zip(every, self.reasons(every, twice), strict=True))
        return [
            self._why_of(name, [reasons[at] for at in some], twice)
            for name, some in zip(names, places, strict=True)
        ]

    def _why_of(self, name: str, reasons: Sequence[str | None], twice: bool) -> str | None:
        """Return why values of what a name stands for may differ, given the reasons of what it may be."""
        if not reasons:
            return "a column that keysplit cannot find"
        if len(reasons) == 1 or not any(reasons):
            return next(filter(None, reasons), None)
        found = self._prove(self.df.select(name), [0], twice)
        return found.rows if found.columns is None else found.columns[0]

    def _places_of(self, name: str) -> list[int]:
        """Return where the columns are that Spark may read by a name, or by one of a field."""
        # The first part is the column of a field, or what the rows are called, as `DataFrame.alias` does.
        return [at for part in parts_of(self.fold(name)) for at in self._places.of(part)]

    def _remedies(self, first: str, trusted: str) -> str:
        cut = ", or call df.checkpoint() before"
        if is_connect(self.df):  # its client does not know what a checkpoint holds
            cut = ", or write df to files and read it back"
        cut = "" if self.df.isStreaming else cut
        if trusted == "functions" and not self.steadiness.functions:  # there is nothing to trust
            return f"{first}{cut}"
        return f"{first}, or pass trust=[...] with {trusted} that you know to be steady{cut}"


def of_other_side(query: Query) -> frozenset[str]:
    """Return what `trust` names of a side of a join that is trusted on the other side, too: functions."""
    columns = query._folded
    names = (each for each in query.trust if each.endswith(_CALLED) or query.fold(each) not in columns)
    return frozenset(names)


def trusted_names(trust: Any) -> frozenset[str]:
    """Return the names of the columns and functions that `trust` holds, those of functions with `()` behind.

    Raises:
        TypeError: if it holds something else, or a function without a name.
    """
    if isinstance(trust, str) or callable(trust):
        trust = [trust]
    if not isinstance(trust, Iterable):
        raise TypeError(f"trust must be a list of column names and functions, got {type_name(trust)}")
    names = set()
    for each in trust:
        name = each if isinstance(each, str) else getattr(each, "__name__", "<lambda>")
        if name == "<lambda>":
            raise TypeError(f"trust must hold names of columns, and functions that have a name, got {each!r}")
        names.add(name if isinstance(each, str) else name + _CALLED)
    return frozenset(names)
