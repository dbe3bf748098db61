"""Warnings that point to the code that uses keysplit."""

import sys
import warnings
from itertools import count
from types import FrameType


def warn(message: str) -> None:
    """Issue a UserWarning at the line outside keysplit that called keysplit."""
    level, _ = _outside()
    warnings.warn(message, UserWarning, stacklevel=level)


def _outside() -> tuple[int, FrameType]:
    """Return the first frame outside keysplit, and the stacklevel for a warning raised by the caller."""
    caller = frame = sys._getframe(1)
    for level in count(1):
        if not frame.f_globals.get("__name__", "").startswith("keysplit."):
            return level, frame
        if frame.f_back is None:
            break
        frame = frame.f_back
    return 1, caller
