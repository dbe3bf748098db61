"""`asof_join`: join each row with the last row of the other side up to its time; hot keys are split."""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keysplit.plan import Plan
from keysplit.spark.checks import (
    by_name,
    check_flag,
    key_names,
    period_of,
    refuse_other_frames,
    refuse_stream,
    type_name,
)
from keysplit.spark.frame import Columns
from keysplit.spark.identity import Query
from keysplit.spark.join.arguments import key_types_of
from keysplit.spark.names import in_sql, quoted
from keysplit.spark.ordered.calls import over
from keysplit.spark.ordered.window import window
from keysplit.spark.request import trusted_by
from keysplit.spark.strategy import took, way_of

_FLOATS = (T.FloatType, T.DoubleType)
_TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)
_WIDEST = 38  # digits of the widest decimal
_LONGEST = timedelta(days=10**8)  # in microseconds it is a bigint


@by_name
def asof_join(
    left: DataFrame,
    right: DataFrame,
    on: str,
    by: str | Sequence[str] | None = None,
    *,
    direction: Literal["backward", "forward", "nearest"] = "backward",
    tolerance: Any = None,
    allow_exact_matches: bool = True,
    plan: Plan | None = None,
    workers: int | None = None,
) -> DataFrame:
    """Join each row of `left` with the last row of `right` up to its time, as `pandas.merge_asof` does.

    Both sides' rows are sorted together by key and time, in one window. Where a key is hot on either side or
    on both, its rows are divided among workers by ranges of time, as `window` does; `explain` says whether.

    The result has each row of `left` once, and null in the columns of `right` where no row matches. The
    inputs need not be sorted, and the result is not sorted. As in pandas:

    - Null keys in `by` are equal to each other, unlike in SQL.
    - Of two rows that are equally near, "nearest" takes the earlier one.
    - Columns of both sides with one name, other than `on` and `by`, get the suffixes `_x` and `_y`.

    Unlike pandas:

    - A row whose time is null or NaN, which pandas refuses, matches no row; rows of `left` are kept.
    - Of several rows of `right` with the same key and time, pandas takes the last or first one. A DataFrame
        of Spark has no order, so here a hash of the row decides. If `right` is deterministic, it is the same
        row each time.

    Args:
        left: a batch DataFrame, classic or of Spark Connect.
        right: another DataFrame, or the same one.
        on: the column of the time on both sides: a number, date or timestamp. As in `join`, its type is the
            same on both sides, but integers may differ in width.
        by: a column, or a list of columns, that have to be equal; None for none.
        direction: "backward" for the last row of `right` at the time of the row or before it, "forward" for
            the first one at that time or after it, "nearest" for the nearer of these.
        tolerance: the largest distance in time that matches, 0 or more: a number if `on` is one, else a
            `datetime.timedelta` or text such as "5 minutes"; None for no limit.
        allow_exact_matches: whether rows of the same time match.
        plan: a plan of the key `by`, which `kss.plan` made or loaded. It should have been made from the side
            with the hot keys, or from both sides.
        workers: instead of a plan, the number of workers, 1..=65536. keysplit then makes a plan from a sample
            of the rows of both sides, if that can pay off.

    Returns:
        The columns of `left`, then those of `right` without `on` and `by`.

    Raises:
        TypeError: if an argument has a wrong type; if `on` is of another type, or types differ between the
            sides.
        ValueError: if an argument has a wrong value; if a side has two columns of the same name.

    Source:
        The call is that of `pandas.merge_asof`. US patents 9158812 and 9183252 (Oracle): windows by ranges of
        the partition and order keys.

    Deviations:
        See above. `on` and `by` have the same names on both sides; both sides need not be sorted.

    Example:
        >>> last = events.select("at", "word", F.col("length").alias("last"))  # doctest: +SKIP
        >>> found = kss.asof_join(  # doctest: +SKIP
        ...     events, last, "at", "word", allow_exact_matches=False, workers=8
        ... )
    """
    for side, df in (("left", left), ("right", right)):
        refuse_other_frames(df, side)
        refuse_stream(df, side)
    if not isinstance(on, str):
        raise TypeError(f"on must be a column name, got {type_name(on)}")
    keys = [] if by is None else key_names(by, "by")
    if direction not in ("backward", "forward", "nearest"):
        raise ValueError(f"direction must be 'backward', 'forward' or 'nearest', got {direction!r}")
    check_flag("allow_exact_matches", allow_exact_matches)
    if plan is not None and not keys:
        raise ValueError("plan must be None without by, because a plan has a key: pass workers")
    joined = _Asof(left, right, on, keys, plan)
    limit = None if tolerance is None else _limit(tolerance, joined.time_type)
    return joined.result(direction, limit, plan, workers, exact=bool(allow_exact_matches))


class _Asof:
    def __init__(self, left: DataFrame, right: DataFrame, on: str, keys: Sequence[str], plan: Any) -> None:
        self._left, self._right = left, right
        query = Query(right, trusted_by(plan), argument="right")
        self._fold, self._query = query.fold, query
        self._columns = {"left": Columns(left, query.fold), "right": Columns(right, query.fold)}
        self._on, *self._by = map(self._same, [on, *keys], ["on", *["by"] * len(keys)])
        if self._on in self._by:
            raise ValueError(f"by must not name the column of on, got {on!r}")
        self._check_type()
        for side, columns in self._columns.items():
            if len(set(map(query.fold, columns.names))) < len(columns.names):
                raise ValueError(f"{side} must have distinct column names, got {columns.names}")
        shared = set(map(query.fold, self._on + tuple(name for pair in self._by for name in pair)))
        self._others = [name for name in self._columns["right"].names if query.fold(name) not in shared]
        self._names = self._named(shared)
        own = "asof"
        while any(name.lower().startswith(own) for name in self._columns["left"].names):
            own += "_"
        self._turn, self._match, self._ahead = (f"{own}_{name}" for name in ("turn", "match", "ahead"))
        # what rows are sorted by: the time, but null where it is NaN
        self._time = f"{own}_time" if isinstance(self.time_type, _FLOATS) else self._on[0]

    def _same(self, name: str, argument: str) -> tuple[str, str]:
        """Return what a column is called on the left and on the right."""
        key_types_of([quoted(name)], self._columns, argument)
        left, right = (each.field_of(argument, quoted(name)).name for each in self._columns.values())
        return left, right

    def _named(self, shared: set[str]) -> list[str]:
        """Return the names of all columns of the result."""
        left, fold = self._columns["left"].names, self._fold
        both = set(map(fold, left)) & set(map(fold, self._others))
        found = [f"{name}_x" if fold(name) in both - shared else name for name in left]
        found += [f"{name}_y" if fold(name) in both else name for name in self._others]
        twice = [name for name, times in Counter(map(fold, found)).items() if times > 1]
        if twice:
            raise ValueError(
                f"left and right must not give the result two columns called {twice}: rename them"
            )
        return found

    def _check_type(self) -> None:
        self.time_type = type_ = self._columns["left"].type_of("on", quoted(self._on[0]))
        if not isinstance(type_, (T.NumericType, *_TIMES)):
            raise TypeError(f"on must be a number, date or timestamp, got {type_.simpleString()}")

    def result(
        self, direction: str, limit: Column | None, plan: Any, workers: Any, *, exact: bool
    ) -> DataFrame:
        """Return the joined rows; `limit` is the largest distance, None without one."""
        measured, type_ = limit is not None or direction == "nearest", self.time_type
        if measured and isinstance(type_, T.DecimalType) and type_.scale and type_.precision == _WIDEST:
            raise TypeError(
                f"on must have at most {_WIDEST - 1} digits with a tolerance or direction='nearest', got "
                f"{type_.simpleString()}: cast it"
            )
        rows = self._united(direction, exact=exact, measured=measured)
        keys, order = [in_sql(left) for left, _ in self._by], [in_sql(self._time), in_sql(self._turn)]
        running = Window.partitionBy(*keys).orderBy(
            *(map(F.desc, order) if direction == "forward" else order)
        )
        running = running.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        found = [F.last(self._match, ignorenulls=True).over(running).alias(f"{self._match}_found")]
        if direction == "nearest":
            # Spark computes it row by row, `first` from the current row on for all rows after each one
            next_ = f"lead({self._match if exact else self._ahead}) IGNORE NULLS"
            found.append(F.expr(over(next_, keys, order, None)).alias(f"{self._ahead}_found"))
        windows = window(rows, *found, plan=plan, workers=workers)
        joined = windows.filter(F.col(self._turn) == 0)
        return took(self._selected(joined, limit, nearest=direction == "nearest"), way_of(windows))

    def _united(self, direction: str, *, exact: bool, measured: bool) -> DataFrame:
        """Return the rows of both sides; at equal times, right rows come before or after left rows."""
        names, nothing = self._columns["left"].names, F.lit(None)
        there = dict([self._on, *self._by])
        # where the next row may not have the same time, it comes before that of the left, the last one after
        doubled = direction == "nearest" and not exact
        matches = [self._match, self._ahead][: 1 + doubled]
        left, right = F.col(in_sql(self._on[0])), F.col(in_sql(self._on[1]))
        found = self._left.select(
            *(F.col(in_sql(name)) for name in names),
            *self._times(left),
            F.lit(0).cast("bigint").alias(self._turn),
            *(nothing.alias(name) for name in matches),
        )
        columns = [(F.col(in_sql(there[name])) if name in there else nothing).alias(name) for name in names]
        fields = [F.col(in_sql(name)).alias(f"f{at}") for at, name in enumerate(self._others)]
        match = F.struct(*fields, *([right.alias("at")] if measured or not fields else []))
        is_before = (direction == "forward") != exact
        for name, before in zip(matches, (is_before, True), strict=False):
            rows = self._right.select(
                *columns,
                *self._times(right),
                self._turns(before=before).alias(self._turn),
                *((match if each == name else nothing).alias(each) for each in matches),
            )
            found = found.union(rows.filter(F.col(in_sql(self._time)).isNotNull()))
        return found

    def _times(self, on: Column) -> list[Column]:
        return [] if self._time == self._on[0] else [F.when(~F.isnan(on), on).alias(self._time)]

    def _turns(self, *, before: bool) -> Column:
        """Return the right rows' place among equal times: below 0 or above 0, and a hash of the row."""
        try:
            hash_ = F.xxhash64(*(F.col(in_sql(name)) for name in self._query.identity))
        except ValueError:  # its rows differ each time
            hash_ = F.lit(0).cast("bigint")
        if before:
            return hash_.bitwiseOR(F.lit(-(2**63)))
        return hash_.bitwiseAND(F.lit(2**63 - 1)).bitwiseOR(F.lit(1).cast("bigint"))

    def _selected(self, rows: DataFrame, limit: Column | None, *, nearest: bool) -> DataFrame:
        found, here = F.col(f"{self._match}_found"), F.col(in_sql(self._time))
        if nearest:
            next_ = F.col(f"{self._ahead}_found")
            there = self._distance(next_["at"], here)
            # two distances whose sum is one between times are not both too large for their type
            closer = self._distance(here, found["at"]) <= there
            found = (
                F.when(next_.isNull(), found)
                .when(found.isNull(), next_)
                .when(F.coalesce(closer, there.isNull()), found)
                .otherwise(next_)
            )
        fits = here.isNotNull()
        if limit is not None:
            apart = self._distance(F.greatest(here, found["at"]), F.least(here, found["at"]))
            fits &= F.coalesce(apart <= limit, F.lit(False))
        rows = rows.withColumn(self._match, F.when(fits, found))
        united = {field.name: field.dataType for field in rows.schema.fields}
        columns = []
        for field, name in zip(self._columns["left"].schema.fields, self._names, strict=False):
            column = F.col(in_sql(field.name))
            # times and keys of the right may be wider integers; a column that is kept is that of `left`
            kept = name == field.name and united[name] == field.dataType
            columns.append(column if kept else column.cast(field.dataType).alias(name))
        for at, name in enumerate(self._names[len(columns) :]):
            columns.append(F.col(self._match)[f"f{at}"].alias(name))
        return rows.select(*columns)

    def _distance(self, later: Column, earlier: Column) -> Column:
        """Return the distance between two times, null if it overflows."""
        type_ = self.time_type
        if isinstance(type_, T.DateType):
            later, earlier = F.unix_date(later), F.unix_date(earlier)
        elif isinstance(type_, T.TimestampType):  # intervals between them depend on the time zone
            later, earlier = F.unix_micros(later), F.unix_micros(earlier)
        elif isinstance(type_, T.IntegralType):
            later, earlier = later.cast("bigint"), earlier.cast("bigint")
        elif isinstance(type_, _FLOATS):  # also infinite ones
            later, earlier = later.cast("double"), earlier.cast("double")
            return F.when(later == earlier, 0.0).otherwise(later - earlier)
        return F.try_subtract(later, earlier)


def _limit(tolerance: Any, type_: T.DataType) -> Column:
    """Return a tolerance as a distance between times of a type."""
    if isinstance(type_, _TIMES):
        return _limit_of_times(tolerance, type_)
    if isinstance(tolerance, bool) or not isinstance(tolerance, Real | Decimal):
        raise TypeError(
            f"tolerance must be a number or None because on is a number, got {type_name(tolerance)}"
        )
    if tolerance != tolerance or tolerance < 0:  # NaN, or negative
        raise ValueError(f"tolerance must be 0 or more, got {tolerance!r}")
    if isinstance(type_, _FLOATS):
        return F.lit(float(tolerance))
    if tolerance == math.inf:
        tolerance = 10**_WIDEST
    exact = Fraction(tolerance if isinstance(tolerance, Rational | Decimal) else float(tolerance))
    if not isinstance(type_, T.DecimalType):
        return F.lit(min(int(exact), 2**63 - 1))
    units = min(int(exact * 10**type_.scale), 10**_WIDEST - 1)
    return F.lit(Decimal(f"{units}E-{type_.scale}"))


def _limit_of_times(tolerance: Any, type_: T.DataType) -> Column:
    if isinstance(tolerance, str):
        tolerance = period_of("tolerance", tolerance)
    if not isinstance(tolerance, timedelta):
        raise TypeError(
            f"tolerance must be a datetime.timedelta, text such as '5 minutes', or None because on is of "
            f"type {type_.simpleString()}, got {type_name(tolerance)}"
        )
    if not tolerance >= timedelta(0):
        raise ValueError(f"tolerance must be 0 or more, got {tolerance!r}")
    whole = min(timedelta(microseconds=tolerance // timedelta(microseconds=1)), _LONGEST)
    if isinstance(type_, T.DateType):
        return F.lit(whole.days)
    micros = whole // timedelta(microseconds=1)
    return F.lit(micros) if isinstance(type_, T.TimestampType) else F.lit(whole)
