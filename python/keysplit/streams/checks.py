"""Checks of the arguments that all streams share."""

from operator import index
from typing import SupportsIndex

import numpy as np


def check_counts(**counts: tuple[int, int] | tuple[int, int, int]) -> None:
    """Reject counts below their minimum, or above their maximum if they have one."""
    for name, (value, least, *most) in counts.items():
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise TypeError(f"{name} must be an integer of at least {least}, got {value!r}")
        if index(value) < least:
            raise ValueError(f"{name} must be at least {least}, got {value!r}")
        if most and index(value) > most[0]:
            raise ValueError(f"{name} must be in {least}..={most[0]}, got {value!r}")


def check_number(name: str, value: float, low: float, high: float) -> None:
    """Reject a number out of range."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} must be a number in {low:g}..={high:g}, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be in {low:g}..={high:g}, got {value!r}")
