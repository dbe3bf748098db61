"""Windows in the text of a plan: whether `kss.window` can split their hot keys, and the code of its call."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from keysplit.diagnosis.plan import Operator, column_name, is_column, literal_name, split

RANKS = frozenset(("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"))
SHIFTS = frozenset(("lag", "lead"))
SUMS = frozenset(("sum", "count", "min", "max", "avg"))
ENDS = frozenset(("first", "last", "nth_value"))
# Aggregates that a frame of rows determines, and nothing else.
_OTHERS = (
    "approx_count_distinct approx_percentile bit_and bit_or bit_xor bool_and bool_or collect_list "
    "collect_set corr count_if covar_pop covar_samp kurtosis max_by median min_by percentile "
    "percentile_approx skewness stddev stddev_pop stddev_samp std var_pop var_samp variance"
)
KNOWN = RANKS | SHIFTS | SUMS | ENDS | frozenset(_OTHERS.split())
"""The functions that `kss.window` knows; `spark/ordered/calls.py` says which of their frames are split."""

_MOST = 3  # a call that names more functions is too long to read
_CALL = re.compile(
    r"(\w+)\(((?:[^()]|\([^()]*\))*)\)( FILTER \(WHERE .*?\))? windowspecdefinition\((.*?)(?:, )?"
    r"specifiedwindowframe\((Row|Range)Frame, (.*?), ([^,()]*(?:\(\))?)\)\)"
)
_ALIAS = re.compile(r" AS (.+#\d+L?)")
_MADE = re.compile(r"_we?\d+")  # by Spark, for a part of an expression
_ORDER = re.compile(r"(.*) (ASC|DESC) NULLS (FIRST|LAST)")
_SORTS = {("DESC", "LAST"): "desc", ("ASC", "LAST"): "asc_nulls_last", ("DESC", "FIRST"): "desc_nulls_first"}
_ENDS = {"unboundedpreceding$()": "first", "unboundedfollowing$()": "last", "currentrow$()": "0"}
_RUNNING, _SUFFIX, _WHOLE = ("first", "0"), ("0", "last"), ("first", "last")
_IN_CODE = {"first": "Window.unboundedPreceding", "last": "Window.unboundedFollowing"}


@dataclass(frozen=True)
class Windowed:
    """A window function.

    Attributes:
        function: its name.
        arguments: its arguments, as in the plan.
        has_filter: whether it has a filter.
        keys: the columns of the key, as in the plan.
        order: the columns of the order, as in the plan.
        is_rows: whether its frame is a ROWS frame.
        frame: the ends of its frame: "first" and "last" are those of the key, "0" is the current row.
        alias: the column of its result, as in the plan; empty if it is a part of an expression.
    """

    function: str
    arguments: tuple[str, ...]
    has_filter: bool
    keys: tuple[str, ...]
    order: tuple[str, ...]
    is_rows: bool
    frame: tuple[str, str]
    alias: str

    @property
    def is_bounded(self) -> bool:
        """Whether its frame is a number of rows before and after."""
        return self.is_rows and not {*self.frame} & {*_WHOLE}

    @property
    def why_whole(self) -> str:
        """Why `kss.window` cannot split it, by the rules of its `Call.why_whole`; empty if it can."""
        name, frame = self.function, self.frame
        if name not in KNOWN or self.has_filter:
            return f"kss.window does not support {name}" if name not in KNOWN else f"{name} has a FILTER"
        if not self.order:
            whole = frame == _WHOLE and name not in ENDS
            return "" if whole else f"{name} depends on an order, and its window has none"
        if name in RANKS | SHIFTS or self.is_bounded or frame == ("0", "0"):
            return ""
        if frame not in (_RUNNING, _SUFFIX, _WHOLE):
            how = "bounded on one side only" if self.is_rows else "a RANGE with an offset"
            return f"the frame of {name} is {how}"
        if name == "nth_value" and self.arguments[-1] == "true":
            return f"{name} ignores nulls"
        if name == "nth_value" and frame == _SUFFIX:
            return f"the frame of {name} starts at the current row"
        if name not in SUMS | ENDS:
            return f"{name} over an unbounded frame cannot be combined from partial results"
        return "it averages decimals" if name == "avg" and "UnscaledValue(" in self.arguments[0] else ""

    @property
    def may_average_decimals(self) -> bool:
        """Whether it averages values that may be decimals, over a frame that is not a number of rows."""
        is_long = self.arguments and re.search(r"#\d+L$", self.arguments[0])
        return self.function == "avg" and bool(self.order) and not self.is_bounded and not is_long

    @property
    def code(self) -> str:
        """The function in Python; empty if the plan does not show all of it.

        The plan does not show whether `lag` ignores nulls, nor types of literals, nor arguments that are
        expressions.
        """
        order = [_ordered(each) for each in self.order]
        columns = [_column(each) for each in (*self.keys, *self._own)]
        is_named = self.alias and all(order) and all(columns) and self.function in RANKS | SUMS | ENDS
        if not is_named or self.arguments[-1:] == ("true",):  # which ignores nulls
            return ""
        keys, arguments = columns[: len(self.keys)], columns[len(self.keys) :]
        if self.function in ("ntile", "nth_value"):
            arguments.append(self.arguments[len(arguments)])
        if self.function == "count" and not arguments:
            arguments = ['"*"']
        spec = f".partitionBy({', '.join(keys)})" if keys else ""
        spec += f".orderBy({', '.join(order)})" if order else ""
        default = (False, _RUNNING) if order else (True, _WHOLE)
        is_default = self.function in RANKS or (self.is_rows, self.frame) == default
        if not is_default:
            ends = ", ".join(_IN_CODE.get(end, end) for end in self.frame)
            spec += f".{'rows' if self.is_rows else 'range'}Between({ends})"
        alias = literal_name(column_name(self.alias))
        # where the frame is written, Spark may give another name
        is_made = _MADE.fullmatch(alias) or (is_default and " OVER (" in alias)
        named = "" if is_made else f".alias({json.dumps(alias, ensure_ascii=False)})"
        return f"F.{self.function}({', '.join(arguments)}).over(Window{spec}){named}"

    @property
    def _own(self) -> tuple[str, ...]:
        """Its arguments that are columns, without literal counts and offsets."""
        if self.function in RANKS or (self.function, self.arguments) == ("count", ("1",)):
            return ()
        return self.arguments[:1] if self.function in ENDS else self.arguments


def why_whole(windows: Sequence[Operator]) -> str:
    """Return why `kss.window` cannot split windows; empty if it can, or if the plan does not show it."""
    if any("Python" in each.name or "Pandas" in each.name for each in windows):
        return "kss.window does not support Python functions"
    return next((each.why_whole for each in _all(windows) if each is not None and each.why_whole), "")


def functions_of(windows: Sequence[Operator]) -> set[str]:
    """Return the names of the functions of windows."""
    return {each.function for each in _all(windows) if each is not None}


def if_split(windows: Sequence[Operator]) -> str:
    """Return the condition for splitting windows, as a clause; empty if the plan shows that it holds."""
    functions = _all(windows)
    if None in functions or not functions:
        return ", if kss.window supports its functions"
    averages = any(each is not None and each.may_average_decimals for each in functions)
    return ", unless it averages decimals" if averages else ""


def call_of(windows: Sequence[Operator], options: str) -> str | None:
    """Return the call of `kss.window` for the windows of a stage; None if one call does not split them all.

    Args:
        windows: the windows, in the order in which they run.
        options: the last arguments.
    """
    functions = _all(windows)
    if len(windows) > 1 and not _in_one_call(windows, functions):
        return None
    codes = [each.code if each is not None else "" for each in functions]
    columns = ", ".join(codes) if all(codes) and 0 < len(codes) <= _MOST else "*columns"
    return f"kss.window(df, {columns}{options})"


def _in_one_call(windows: Sequence[Operator], functions: Sequence[Windowed | None]) -> bool:
    """Whether one window has an order, the others sum whole keys, and none uses a result of another."""
    for first, second in pairwise(windows):
        (below,) = second.children
        while below.name.startswith("Sort"):
            (below,) = below.children
        if below is not first:
            return False
    known = [each for each in functions if each is not None]
    made = {each.alias for each in known}
    used = {name for each in known for name in (*each.arguments, *each.keys, *each.order)}
    used |= {found[1] for each in used if (found := _ORDER.fullmatch(each))}
    ordered = sum(any(each is None or each.order for each in _all([window])) for window in windows)
    sums = all(each.order or each.function in SUMS for each in known)
    return ordered == 1 and sums and not made & used


def _all(windows: Sequence[Operator]) -> list[Windowed | None]:
    """Return the functions of windows, None for one that the plan does not show."""
    return [_read(each) for window in windows for each in window.functions]


def _read(text: str) -> Windowed | None:
    found = _CALL.search(text)
    if found is None:
        return None
    spec = split(found[4])
    alias = _ALIAS.fullmatch(text, found.end()) if not found.start() else None
    return Windowed(
        function=found[1],
        arguments=tuple(split(found[2])),
        has_filter=bool(found[3]),
        keys=tuple(each for each in spec if not _ORDER.fullmatch(each)),
        order=tuple(each for each in spec if _ORDER.fullmatch(each)),
        is_rows=found[5] == "Row",
        frame=(_ENDS.get(found[6], found[6]), _ENDS.get(found[7], found[7])),
        alias="" if alias is None else alias[1],
    )


def _column(text: str) -> str:
    """Return a column in Python; empty if it is not a column of the user's."""
    name = column_name(text)
    is_named = re.search(r"#\d+L?$", text) and is_column(name) and not _MADE.fullmatch(name)
    return json.dumps(name, ensure_ascii=False) if is_named else ""


def _ordered(text: str) -> str:
    """Return a column of an order in Python; empty if it is not a column of the user's."""
    found = _ORDER.fullmatch(text)
    column = _column(found[1]) if found else ""
    sort = _SORTS.get((found[2], found[3])) if found else None
    return f"F.{sort}({column})" if column and sort else column
