"""Warnings that point to the code that uses keysplit."""

import sys
import warnings
from collections.abc import Callable
from itertools import count
from types import FrameType


def warn(message: str) -> None:
    """Warn with a UserWarning at the line outside keysplit from which it was called."""
    level, _ = _outside()
    warnings.warn(message, UserWarning, stacklevel=level)


def warning_from_here() -> Callable[[str], None]:
    """Return what warns as `warn` would do here, whenever it is called and in whichever thread."""
    _, frame = _outside()
    name, line, names = frame.f_code.co_filename, frame.f_lineno, frame.f_globals
    module, registry = names.get("__name__", ""), names.setdefault("__warningregistry__", {})
    return lambda message: warnings.warn_explicit(message, UserWarning, name, line, module, registry)


def _outside() -> tuple[int, FrameType]:
    """Return the first frame outside keysplit, and its stacklevel for a warning of the caller."""
    caller = frame = sys._getframe(1)
    for level in count(1):
        if not frame.f_globals.get("__name__", "").startswith("keysplit."):
            return level, frame
        if frame.f_back is None:
            break
        frame = frame.f_back
    return 1, caller
