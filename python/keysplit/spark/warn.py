"""Warnings that point to the code that uses keysplit."""

import inspect
import warnings


def warn(message: str) -> None:
    """Warn with a UserWarning at the line outside keysplit from which it was called."""
    warnings.warn(message, UserWarning, stacklevel=_outside())


def _outside() -> int:
    """Return the stacklevel, for a warning of the caller, of the first frame outside keysplit."""
    modules = (frame.frame.f_globals.get("__name__", "") for frame in inspect.stack(0)[1:])
    return next((level for level, name in enumerate(modules, 1) if not name.startswith("keysplit.")), 1)
