"""Figures as 80-column text, and printing on terminals and as text."""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 80
_MOST_LETTERS = 60  # of a key


class Printed(ABC):
    """An object that prints itself: `str` gives the output of `print_on`."""

    @abstractmethod
    def print_on(self, console: Console, title: str = "") -> None:
        """Print it on a terminal."""

    def __str__(self) -> str:
        text = self._record(color_system=None).export_text()
        return "\n".join(line.rstrip() for line in text.splitlines())

    def _record(self, **options: Any) -> Console:
        from rich.console import Console

        console = Console(width=WIDTH, file=io.StringIO(), record=True, highlight=False, **options)
        self.print_on(console)
        return console


def open_terminal() -> Console:
    """Return the terminal; one narrower than 80 columns wraps the lines itself."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(WIDTH, console.width)
    return console


def make_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, least_width: int = 0) -> Table:
    """Make a table whose first column is text and shrinks in favour of the others, which are figures."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(columns[0], min_width=least_width)  # shrinks if a line is too long
    for column in columns[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def printable(text: str) -> str:
    """Return text with control and invisible characters escaped as in Python."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def format_key(key: Any) -> str:
    """Return a key as text on one line: null without quotes, strings in quotes, long ones truncated."""
    if isinstance(key, tuple) and not hasattr(key, "asDict"):
        return ", ".join(map(format_key, key))
    if key is None:
        return "null"
    if not isinstance(key, str | bytes | bytearray):
        return str(key)
    return repr(key) if len(key) <= _MOST_LETTERS else f"{key[:_MOST_LETTERS]!r}..., {len(key):,} long"


def format_ratio(ratio: float) -> str:
    """Return a ratio as text: two decimals of a small one."""
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}"


# Per cent. Shares of messages are not so small: it is what is left where sums of fractions are subtracted.
_ROUNDED = 1e-12


def format_share(share: float) -> str:
    """Return a share as text, in per cent: one decimal, or two below 10 %, or two digits below 0.1 %."""
    per_cent = 100 * share
    if abs(per_cent) < _ROUNDED:
        return "0 %"
    if abs(per_cent) < 0.1:
        text = f"{per_cent:.2g}"
        return f"{text.replace('e-0', 'e-')} %"
    return f"{per_cent:,.1f} %" if abs(per_cent) >= 10 else f"{per_cent:.2f} %"


def format_imbalance(imbalance: float) -> str:
    """Return an imbalance as text: the share of all messages that the busiest worker has too many."""
    return format_share(imbalance)


def format_seconds(value: float | None) -> str:
    """Return a time as text, in the unit that fits it."""
    if value is None or not math.isfinite(value):
        return "none"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if abs(value) >= 0.9995 * size:
            digits = ",.3g" if abs(value) < 999.5 * size else ",.0f"
            return f"{value / size:{digits}} {unit}"
    return f"{value * 1e6:.3g} µs"


def format_count(number: int, what: str) -> str:
    """Return a number with the name of what is counted."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
