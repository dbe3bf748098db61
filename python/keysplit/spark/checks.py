"""Checks of arguments, with errors that name the argument."""

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

import numpy as np

from keysplit.spark.jvm import is_data_frame, is_stopped

_AMOUNT = r"(\d+)\s*(millisecond|second|minute|hour|day|week)s?\b"
_LONGEST = timedelta(days=36525)  # with longer ones times would exceed the range of pandas

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def by_name(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Give a function a clear error for too many positional arguments."""
    parameters = signature(function).parameters.values()
    placed = [each.name for each in parameters if each.kind is Parameter.POSITIONAL_OR_KEYWORD]

    @wraps(function)
    def checked(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        if len(args) > len(placed):
            raise TypeError(
                f"{function.__name__} takes {', '.join(placed)} by position and all other arguments by "
                f"name, such as workers=8, got {args[len(placed)]!r} by position"
            )
        return function(*args, **kwargs)

    return checked


def type_name(value: Any) -> str:
    """Return the name of a value's type, with its package."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__qualname__ if package in ("builtins", "__main__") else f"{package}.{kind.__qualname__}"


def is_query(value: Any) -> bool:
    """Return whether `value` is a streaming query; a Connect DataFrame has every attribute, as a column."""
    names = ("runId", "recentProgress", "isActive")
    return not is_data_frame(value) and all(hasattr(value, name) for name in names)


def refuse_other_frames(df: Any, argument: str = "df") -> None:
    """Raise TypeError if `df` is not a Spark DataFrame, ValueError if its session has been stopped."""
    if not is_data_frame(df):
        remedy = ": use spark.createDataFrame" if type_name(df) == "pandas.DataFrame" else ""
        raise TypeError(f"{argument} must be a Spark DataFrame, got {type_name(df)}{remedy}")
    refuse_stopped(df.sparkSession, argument)


def refuse_stopped(spark: Any, argument: str = "spark") -> None:
    """Raise ValueError if a session was stopped."""
    if is_stopped(spark):
        what = "a session" if argument == "spark" else "of a session"
        raise ValueError(f"{argument} must be {what} that is running, got a stopped session")


def refuse_stream(df: Any, argument: str = "df", remedy: str = "") -> None:
    """Raise ValueError if `df` is a streaming DataFrame."""
    if is_data_frame(df) and df.isStreaming:
        raise ValueError(f"{argument} must be a batch DataFrame, got a streaming one{remedy}")


def refuse_batch(df: Any, remedy: str = "") -> None:
    """Raise TypeError if `df` is not a Spark DataFrame, and ValueError if it is not streaming."""
    refuse_other_frames(df)
    if not df.isStreaming:
        raise ValueError(f"df must be a streaming DataFrame, got a batch one{remedy}")


def key_names(key: Any, argument: str = "key") -> list[str]:
    """Return the names of the key columns as a list."""
    keys = [key] if isinstance(key, str) else key
    if not isinstance(keys, Sequence) or not all(isinstance(name, str) for name in keys):
        raise TypeError(f"{argument} must be a column name or a list of column names, got {key!r}")
    if not keys:
        raise ValueError(f"{argument} must name at least one column, got an empty list")
    return list(keys)


def check_sample(sample: Any) -> None:
    """Raise an error unless the sample is "auto" or a fraction above 0, up to 1."""
    if sample == "auto":
        return
    if isinstance(sample, bool) or not isinstance(sample, int | float):
        raise TypeError(f"sample must be 'auto' or a number above 0, up to 1, got {sample!r}")
    if not 0 < sample <= 1:
        raise ValueError(f"sample must be 'auto' or a number above 0, up to 1, got {sample!r}")


def check_number(name: str, value: Any, least: float, most: float, *, without_least: bool = False) -> None:
    """Raise an error unless the value is finite, at least (or above) `least`, and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {value!r}")
    inside = least < value if without_least else least <= value
    if not (inside and value <= most and math.isfinite(value)):
        end = f"up to {most:g}" if math.isfinite(most) else "finite"
        raise ValueError(
            f"{name} must be {'above' if without_least else 'at least'} {least:g} and {end}, got {value!r}"
        )


def check_flag(name: str, value: Any) -> None:
    """Raise TypeError unless the value is True or False: a string such as "false" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Raise an error unless the value is a whole number, at least `least`, and at most `most` if given."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least or (most is not None and value > most):
        raise ValueError(
            f"{name} must be {f'at least {least}' if most is None else f'in {least}..={most}'}, got {value}"
        )


def period_of(argument: str, period: Any) -> timedelta | None:
    """Return a period given as a timedelta or a string such as "5 minutes"; None if none is given."""
    if period is None:
        return None
    found = timedelta(0)
    if isinstance(period, timedelta):
        found = period
    elif not isinstance(period, str):
        raise TypeError(f"{argument} must be a str or a timedelta, got {type_name(period)}")
    elif re.fullmatch(rf"\s*(interval\b)?\s*({_AMOUNT}\s*)+", period, re.IGNORECASE):
        with suppress(OverflowError):
            for number, unit in re.findall(_AMOUNT, period, re.IGNORECASE):
                found += timedelta(**{f"{unit.lower()}s": int(number)})
    whole, rest = divmod(found, timedelta(milliseconds=1))
    if rest or not 1 <= whole <= _LONGEST // timedelta(milliseconds=1):
        raise ValueError(
            f"{argument} must be a period of whole milliseconds, above 0 and at most a century, such as '5 "
            f"minutes', got {period!r}"
        )
    return found
