"""How large a deployment is in a full run, in a quick one, and where the scale limits messages."""

from __future__ import annotations

from typing import TypeVar

from keysplit_experiments.harness import Scale

_T = TypeVar("_T")


def sized(scale: Scale, full: _T, quick: _T, least: _T) -> _T:
    """Choose the value of a full run, of a quick one, or of a smaller one."""
    if scale.full:
        return full
    return quick if scale.most_messages is None else least
