"""Numbers that callers give, checked by their names."""

import math
from typing import Any


def check_number(name: str, value: Any, least: float, most: float, *, without_least: bool = False) -> None:
    """Raise an error unless it is a finite number from `least`, or above it, to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {value!r}")
    inside = least < value if without_least else least <= value
    if not (inside and value <= most and math.isfinite(value)):
        end = f"up to {most:g}" if math.isfinite(most) else "finite"
        raise ValueError(
            f"{name} must be {'above' if without_least else 'at least'} {least:g} and {end}, got {value!r}"
        )


def check_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Raise an error unless it is a whole number of at least `least`, and at most `most` if that is given."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least or (most is not None and value > most):
        raise ValueError(
            f"{name} must be {f'at least {least}' if most is None else f'in {least}..={most}'}, got {value}"
        )
