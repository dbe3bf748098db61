"""Figures of a diagnosis as text."""

from __future__ import annotations


def format_bytes(size: float) -> str:
    """Return a size as text, in binary units, as Spark shows it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:,.0f} {unit}" if size == round(size) or unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def format_time(seconds: float) -> str:
    """Return a duration as text; two minutes or more are shown in minutes or hours."""
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def format_core_time(seconds: float) -> str:
    """Return core time as text; one hour or more is shown in core-hours."""
    return f"{seconds:,.0f} core-s" if seconds < 3600 else f"{seconds / 3600:,.1f} core-h"


def shorten(text: str, most: int) -> str:
    """Return a text, truncated to `most` letters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
