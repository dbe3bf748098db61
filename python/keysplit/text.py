"""Figures as text of at most 80 columns."""

from __future__ import annotations

import math
from typing import Any

WIDTH = 80
_MOST_LETTERS = 60  # of a key


def printable(text: str) -> str:
    """Return text with control and invisible characters escaped as in Python."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def format_key(key: Any) -> str:
    """Return a key as text on one line: null without quotes, strings in quotes, long keys truncated."""
    if isinstance(key, tuple) and not hasattr(key, "asDict"):
        return ", ".join(map(format_key, key))
    if key is None:
        return "null"
    if not isinstance(key, str | bytes | bytearray):
        return str(key)
    return repr(key) if len(key) <= _MOST_LETTERS else f"{key[:_MOST_LETTERS]!r}..., {len(key):,} long"


def format_ratio(ratio: float) -> str:
    """Return a ratio as text; a small ratio has two decimals."""
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}"


# Per cent. A smaller share is a rounding error of subtracted sums.
_ROUNDED = 1e-12


def format_share(share: float) -> str:
    """Return a share in per cent: one decimal place; two below 10 %; two significant digits below 0.1 %."""
    per_cent = 100 * share
    if abs(per_cent) < _ROUNDED:
        return "0 %"
    if abs(per_cent) < 0.1:
        text = f"{per_cent:.2g}"
        return f"{text.replace('e-0', 'e-')} %"
    return f"{per_cent:,.1f} %" if abs(per_cent) >= 10 else f"{per_cent:.2f} %"


def format_imbalance(imbalance: float) -> str:
    """Return an imbalance as text: the busiest worker's excess, as a share of all messages."""
    return format_share(imbalance)


def format_seconds(value: float | None) -> str:
    """Return a time as text, in a suitable unit."""
    if value is None or not math.isfinite(value):
        return "none"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(value) >= 0.9995 * size:
            digits = ",.3g" if abs(value) < 999.5 * size else ",.0f"
            return f"{value / size:{digits}} {unit}"
    return f"{value * 1e6:.3g} µs"


def format_count(number: int, what: str) -> str:
    """Return a number followed by the name of the things counted."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def describe_stream(title: str, *about: str) -> str:
    """Describe a stream in one line: title, and a few words for each known figure."""
    return f"{title}: {', '.join(about)}" if title else ", ".join(about)
