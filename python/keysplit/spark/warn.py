"""Warnings that point to the code that uses keysplit."""

import inspect
import sys
import warnings
from collections.abc import Callable


def warn(message: str) -> None:
    """Warn with a UserWarning at the line outside keysplit from which it was called."""
    warnings.warn(message, UserWarning, stacklevel=_outside())


def warning_from_here() -> Callable[[str], None]:
    """Return what warns as `warn` would do here, whenever it is called and in whichever thread."""
    frame = sys._getframe(_outside() - 1)
    name, line, names = frame.f_code.co_filename, frame.f_lineno, frame.f_globals
    module, registry = names.get("__name__", ""), names.setdefault("__warningregistry__", {})
    return lambda message: warnings.warn_explicit(message, UserWarning, name, line, module, registry)


def _outside() -> int:
    """Return the stacklevel, for a warning of the caller, of the first frame outside keysplit."""
    modules = (frame.frame.f_globals.get("__name__", "") for frame in inspect.stack(0)[1:])
    return next((level for level, name in enumerate(modules, 1) if not name.startswith("keysplit.")), 1)
