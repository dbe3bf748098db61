"""Find columns that distinguish rows and keep their values when Spark retries a task, without running a job.

A hash of these columns decides which worker gets a row of a split key. If a column's value changes when a
task is retried, rows are lost or duplicated without an error. So a column counts only if its sources are
known to be deterministic: the rule is in `analysed`, and for Spark Connect in `relations`.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T

from keysplit.spark.checks import type_name
from keysplit.spark.identity import analysed
from keysplit.spark.identity.known import ByChance, Determinism
from keysplit.spark.identity.physical import disorder
from keysplit.spark.jvm import Setting, is_connect, plan_of, schema_of, setting_of
from keysplit.spark.names import Places, parts_of
from keysplit.spark.warn import warn

MOST_COLUMNS = 32
"""The maximum number of columns in the default identity of a row; more would cost more than they help."""

# Marks the name of a function, as a column may have the same name.
_CALLED = "()"
# Types by their number of values in practice; all others come last.
_BY_VALUES = (
    (T.LongType, T.StringType, T.TimestampType, T.TimestampNTZType, T.BinaryType, T.DecimalType),
    (T.IntegerType, T.DateType),
    (T.DoubleType, T.FloatType, T.StructType, T.ArrayType),
    (T.ShortType, T.ByteType),
)
_RANKS = {type_: at for at, types in enumerate(_BY_VALUES) for type_ in types}
# Downstream of a shuffle these count only if there are no others.
_LOOSE = ("ArrayType", "DoubleType", "FloatType")
# Spark cannot hash these types, or fails only in a task.
_UNHASHABLE = ("GeographyType", "GeometryType", "MapType", "NullType", "VariantType")
# The number of values of types, including null.
_NUMBERS = {T.BooleanType: 3, T.ByteType: 2**8 + 1, T.ShortType: 2**16 + 1}


def determinism(df: DataFrame, trusted: frozenset[str], anew: str | None, setting: Setting) -> Determinism:
    """Return which columns of a DataFrame have the same values when tasks are retried, without running a job.

    Args:
        df: the DataFrame.
        trusted: names of the user's functions whose results depend only on their arguments.
        anew: what plans the query again, such as a retried micro-batch of a stream: clocks and tables may
            then differ. None if only tasks are retried.
        setting: reads settings of the session.
    """
    if is_connect(df):
        from keysplit.spark.identity import relations

        return relations.determinism(df, trusted, anew, setting)
    return analysed.determinism(df, trusted, anew)


@dataclass(frozen=True, eq=False)
class Query:
    """The query of a DataFrame.

    Attributes:
        df: the DataFrame.
        trust: names of columns and of functions that the user guarantees to be deterministic, as
            `trusted_names` returns them.
        beside: the other side of a join, where names of `trust` may occur instead of on this side.
        argument: the name of the DataFrame's argument.
        checked: those names of `trust` that the query must have. Others without "()" mean only columns.
    """

    df: DataFrame
    trust: frozenset[str] = frozenset()
    beside: DataFrame | None = None
    argument: str = "df"
    checked: frozenset[str] = frozenset()

    @cached_property
    def setting(self) -> Setting:
        """The function that reads settings of the session."""
        return setting_of(self.df.sparkSession)

    @cached_property
    def columns(self) -> list[str]:
        """The names of the DataFrame's columns."""
        return list(self.df.columns)

    @cached_property
    def _folded(self) -> list[str]:
        return list(map(self.fold, self.columns))

    @cached_property
    def _places(self) -> Places:
        """The positions of the columns with each name, as the session compares names."""
        return Places(self._folded)

    @cached_property
    def fold(self) -> Callable[[str], str]:
        """The function that maps column names that the session treats as equal to the same string."""
        # Spark's default if unknown: a serverless service may not allow reading its settings
        sensitive = (self.setting("spark.sql.caseSensitive") or "").lower() == "true"
        return str if sensitive else str.lower

    @cached_property
    def determinism(self) -> Determinism:
        """Whether the query's rows and columns stay the same when a task is retried.

        Raises:
            ValueError: if `trust` has a name that the query does not have.
        """
        found = determinism(self.df, self._trusted_functions, None, self.setting)
        unknown = self._functions_in(self.checked) - found.functions
        if unknown and self.beside is not None:
            other = Query(self.beside)
            unknown -= other.determinism.functions
            unknown = frozenset(name for name in unknown if other.fold(name) not in other._folded)
        for name in sorted(unknown):
            raise ValueError(
                f"trust must name columns of df or functions in its query, got {name!r}; df has the "
                f"columns {self.columns}, its query calls the functions {sorted(found.functions)}"
            )
        return found

    @cached_property
    def _repeated(self) -> Determinism:
        """The determinism if `df` is read twice: each attempt at a stream's micro-batch is planned again."""
        if not self.df.isStreaming:
            return self.determinism
        return determinism(self.df, self._trusted_functions, "a stream", self.setting)

    @cached_property
    def _trusted_functions(self) -> frozenset[str]:
        """The names of the trusted functions."""
        return self._functions_in(
            name for name in self.trust if name.endswith(_CALLED) or name in self.checked
        )

    def _functions_in(self, names: Iterable[str]) -> frozenset[str]:
        """Return the names that mean functions: if a column has the name, it means only the column."""
        return frozenset(each.removesuffix(_CALLED) for each in names if self.fold(each) not in self._folded)

    @property
    def kept_trust(self) -> tuple[str, ...]:
        """`trust` in the form that plans store: functions have "()" after their names."""
        functions = self._trusted_functions
        return tuple(sorted(f"{name}{_CALLED}" if name in functions else name for name in self.trust))

    @cached_property
    def disorder(self) -> str | None:
        """Why a retried task may have its rows in a different order; None if the order is fixed."""
        return disorder(self.df, self.determinism.order is None)

    @cached_property
    def is_shuffled(self) -> bool:
        """Whether the rows may come from a shuffle, or from a stream, which may have one upstream."""
        # Spark's plan is read only if the query leaves it open.
        return self.df.isStreaming or (self.determinism.order is not None and self.disorder is not None)

    def reasons(self) -> list[str | None]:
        """Return for each column why its values may differ when a task is retried; None if they do not."""
        return self._reasons(self.determinism)

    def _reasons(self, found: Determinism) -> list[str | None]:
        columns = [found.rows] * len(self.columns) if found.columns is None else found.columns
        trusted = set(map(self.fold, self.trust))
        pairs = zip(self._folded, columns, strict=True)
        return [None if name in trusted else why for name, why in pairs]

    @cached_property
    def identity(self) -> list[str]:
        """The columns that distinguish rows if the user names none, in the order of the DataFrame.

        Raises:
            ValueError: if no column is deterministic, or if a retried task may have different rows.
        """
        if self.determinism.rows is not None:
            raise ValueError(
                "row_id must be given: df may have different rows when a task is retried, because of "
                f"{self.determinism.rows}; {self._remedies('functions')}"
            )
        reasons, fields = self.reasons(), schema_of(self.df).fields
        fit = [at for at in self._may_distinguish(fields) if reasons[at] is None]
        exact = [at for at in fit if not _holds(fields[at].dataType, _LOOSE)]
        if exact[:MOST_COLUMNS] != fit[:MOST_COLUMNS] and not self.is_shuffled:
            exact = fit
        if not fit:
            pairs = zip(self.columns, reasons, strict=True)
            left_out = "; ".join(f"{name}: {why}" for name, why in pairs if why) or "each is deterministic"
            raise ValueError(
                "row_id must be given: df has no column that Spark can hash and that is known to be "
                f"deterministic ({left_out[:400]}); {self._remedies('columns or functions')}"
            )
        return [self.columns[at] for at in sorted((exact or fit)[:MOST_COLUMNS])]

    def _may_distinguish(self, fields: Sequence[T.StructField]) -> list[int]:
        """Return the positions of columns that may distinguish rows, types with the most values first.

        Columns are skipped if they have no hash, collated strings, or an empty or duplicate name.
        """
        unfit = {name for name, times in Counter(self._folded).items() if times > 1} | {""}
        found = [
            at
            for at, (field, name) in enumerate(zip(fields, self._folded, strict=True))
            if name not in unfit and _is_hashable(field.dataType) and not _is_collated(field.dataType)
        ]
        return sorted(found, key=lambda at: _rank(fields[at].dataType))

    def refuse_other_values(self, names: Sequence[str]) -> None:
        """Raise ValueError if values in the columns of `row_id` may differ when a task is retried."""
        for name, why in zip(names, self._whys(names), strict=True):
            if why is not None:
                raise ValueError(
                    "row_id must name columns that have the same values when a task is retried, got "
                    f"{name!r}, which depends on {why}; {self._remedies('columns or functions', 'other ')}"
                )

    def refuse_other_order(self, names: Sequence[str]) -> None:
        """Raise ValueError if rows, or values in the columns of `sort_by`, may differ in a retried task."""
        why = self.determinism.rows or next(filter(None, self._whys(names)), None)
        if why is not None:
            raise ValueError(
                "sort_by must name columns that have the same values when a task is retried, got "
                f"{list(names)}, which depend on {why}; pass kss.plan trust=[...] with columns or functions "
                "that are deterministic, or write df to files and read it back"
            )

    def warn_of_keys_by_chance(self, names: Sequence[str]) -> None:
        """Warn if even Spark marks key columns as nondeterministic: a retried task may have other keys."""
        if not is_connect(self.df) and plan_of(self.df).deterministic():
            return
        for name, why in zip(names, self._whys(names), strict=True):
            if isinstance(why, ByChance):
                warn(
                    f"key column {name!r} of {self.argument} depends on {why}: when a task is retried, its "
                    "rows may get different keys, and Spark then loses or duplicates rows, or fails. Derive "
                    "the key from columns of the row, such as F.pmod(F.xxhash64('order_id'), F.lit(8))"
                )

    def keeps(self, row_id: Sequence[str]) -> bool:
        """Return whether a plan's `row_id` distinguishes the rows, even when a task is retried."""
        # A plan that chose its columns has this many; the user named fewer, for any rows.
        named = len(row_id) < MOST_COLUMNS
        if not all(map(self._is_one, row_id)) or any(self._whys(row_id)):
            return False
        return named or self.determinism.rows is None

    def _is_one(self, name: str) -> bool:
        """Return whether a name means a field, or one column whose type Spark can hash."""
        places = self._places.of(self.fold(name)) or self._places_of(name)
        fields = schema_of(self.df).fields
        return len(places) == 1 and _is_hashable(fields[places[0]].dataType)

    def refuse_unrepeatable(self, names: Sequence[str], why: str) -> None:
        """Raise ValueError if rows, or values in some columns, may differ when `df` is read twice."""
        found, known = self.why_unrepeatable(names), self._repeated
        if found is not None:
            name = self.argument
            before = f"call {name}.checkpoint() before"
            if self.df.isStreaming:
                before = f"first write {name} to files or a topic and read these"
            elif is_connect(self.df):  # the client does not know the rows of a checkpoint
                before = f"write {name} to files and read it back"
            trusted = ", or pass kss.plan trust=[...] with columns or functions that are deterministic"
            if found in (known.rows, known.again) and not known.functions:  # there is nothing to trust
                trusted = ""
            raise ValueError(
                f"{name} must have the same rows each time it is read, {why}, got {found}: {before}{trusted}"
            )

    def why_unrepeatable(self, names: Sequence[str]) -> str | None:
        """Return why the rows, or values in some columns, may differ if `df` is read twice; None if not."""
        found = self._repeated
        # a retried micro-batch reads the same rows
        again = None if self.df.isStreaming else found.again
        return found.rows or again or next(filter(None, self._whys(names, found)), None)

    def refuse_in_order(self, keys: Sequence[str], weight: Column | None, routed: DataFrame | None) -> None:
        """Raise ValueError unless the same rows reach a router in the same order when its task is retried.

        Args:
            keys: the columns of the key.
            weight: the weight of a row; None if every row weighs 1.
            routed: the routed rows of a batch, without further operations; None for a stream.
        """
        found = self.determinism
        shuffle = None if routed is None else disorder(routed, found.order is None)
        if shuffle is not None:
            raise ValueError(
                f"kss.online is exact only without an upstream shuffle, got {shuffle}: use a plan "
                "(kss.repartition), sort within partitions by all columns, call df.checkpoint() first, "
                "write df to files and read them back, or pass allow_inexact=True"
            )
        why = found.rows or next(filter(None, self._whys(keys)), None)
        if why is None and weight is not None:
            why = self._why_of_selected(weight)
        if why is None and routed is None:
            why = found.order
        if why is not None:
            raise ValueError(
                f"kss.online is exact only if a retried {'batch' if routed is None else 'task'} has the "
                f"same rows in the same order, got {why}: {self._remedies_in_order()}"
            )

    def _remedies_in_order(self) -> str:
        found = ["use a plan (kss.repartition)"]
        if self.determinism.functions:
            found.append("pass trust=[...] with functions that are deterministic")
        if not self.df.isStreaming:
            found += ["call df.checkpoint() first", "write df and read it back", "pass allow_inexact=True"]
        return ", ".join([*found[:-1], f"or {found[-1]}"]) if len(found) > 1 else found[0]

    def _whys(self, names: Sequence[str], found: Determinism | None = None) -> list[str | None]:
        """Return for each column or field why its values may differ."""
        reasons = self._reasons(found or self.determinism)
        return [self._why_of(name, [reasons[at] for at in self._places_of(name)]) for name in names]

    def _why_of(self, name: str, reasons: Sequence[str | None]) -> str | None:
        """Return why values under a name may differ, given the reasons for the columns it may refer to."""
        if not reasons:
            return "a column that keysplit cannot find"
        if len(reasons) == 1 or not any(reasons):
            return next(filter(None, reasons), None)
        return self._why_of_selected(name)

    def _why_of_selected(self, column: str | Column) -> str | None:
        anew = "a stream" if self.df.isStreaming else None
        found = determinism(self.df.select(column), self._trusted_functions, anew, self.setting)
        return found.rows if found.columns is None else found.columns[0]

    def _places_of(self, name: str) -> list[int]:
        """Return the positions of the columns a name may refer to, even if it is a field's name."""
        # The first part is the column of a field, or the alias of the rows by `DataFrame.alias`.
        return [at for part in parts_of(self.fold(name)) for at in self._places.of(part)]

    def _remedies(self, trusted: str, other: str = "") -> str:
        line = "kss.plan(df, key, workers, row_id=['order_id'])"
        if self.df.isStreaming:
            line = f"{line} or kss.streaming.Adapt(workers, row_id=['order_id'])"
        found = [f"pass row_id to kss.plan with {other}columns that distinguish rows, for example {line}"]
        if self.determinism.columns is None:  # no column counts if nothing is known about the rows
            line = line.replace(")", ", trust=['order_id'])")
            found = [f"pass row_id to kss.plan with columns that are deterministic, for example {line}"]
        elif trusted != "functions" or self.determinism.functions:  # else there is nothing to trust
            found.append(f"pass trust=[...] with {trusted} that are deterministic")
        if is_connect(self.df):  # the client does not know the rows of a checkpoint
            found.append("write df to files and read it back")
        elif not self.df.isStreaming:
            found.append("call df.checkpoint() before")
        return ", ".join([*found[:-1], f"or {found[-1]}"]) if len(found) > 1 else found[0]


def of_other_side(query: Query) -> frozenset[str]:
    """Return those names in `trust` for one side of a join that apply to the other side too: functions."""
    columns = query._folded
    names = (each for each in query.trust if each.endswith(_CALLED) or query.fold(each) not in columns)
    return frozenset(names)


def trusted_names(trust: Any) -> frozenset[str]:
    """Return the names of the columns and functions in `trust`; functions get `()` after their names.

    Raises:
        TypeError: if `trust` has anything else, or a function without a name.
    """
    if isinstance(trust, str) or callable(trust):
        trust = [trust]
    if not isinstance(trust, Iterable):
        raise TypeError(f"trust must be a list of column names and functions, got {type_name(trust)}")
    names = set()
    for each in trust:
        name = each if isinstance(each, str) else getattr(each, "__name__", "<lambda>")
        if name == "<lambda>":
            raise TypeError(f"trust must contain only column names and named functions, got {each!r}")
        names.add(name if isinstance(each, str) else name + _CALLED)
    return frozenset(names)


def identity_columns(row_id: Any, type_of: Callable[[str, Any], T.DataType]) -> list[str] | None:
    """Check `row_id` and return its columns, None if it is omitted; `type_of` is `Columns.type_of`."""
    if row_id is None:
        return None
    names = [row_id] if isinstance(row_id, str) else row_id
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"row_id must be a column name or a list of column names, got {row_id!r}")
    if not names:
        raise ValueError("row_id must name at least one column, got an empty list")
    for name in names:
        type_ = type_of("row_id", name)
        if not _is_hashable(type_):
            raise TypeError(
                f"row_id must be of types that Spark hashes, got {name!r} of type {type_.simpleString()}"
            )
    return list(names)


def values_of(types: Iterable[T.DataType]) -> float:
    """Return how many distinct rows these column types allow, counting null as a value; infinity if many."""
    return math.prod(_NUMBERS.get(type(each), math.inf) for each in types)


def _rank(type_: T.DataType) -> int:
    return next((_RANKS[each] for each in type(type_).__mro__ if each in _RANKS), len(_BY_VALUES))


def _is_hashable(type_: T.DataType) -> bool:
    return not _holds(type_, _UNHASHABLE)


def _is_collated(type_: T.DataType) -> bool:
    return _holds(type_, ("StringType", "CharType", "VarcharType")) and " collate " in type_.simpleString()


def _holds(type_: T.DataType, kinds: tuple[str, ...]) -> bool:
    """Return whether a type or a nested type is of these classes; not every Spark has all classes."""
    if any(each.__name__ in kinds for each in type(type_).__mro__):
        return True
    if isinstance(type_, T.StructType):
        return any(_holds(field.dataType, kinds) for field in type_.fields)
    return isinstance(type_, T.ArrayType) and _holds(type_.elementType, kinds)
