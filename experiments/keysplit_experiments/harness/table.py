"""Tables: rows of figures, for the terminal and for Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsFloat, TypeAlias

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Entry: TypeAlias = object
"""A text, a number, or None if empty."""


@dataclass(frozen=True)
class Table:
    """Rows of figures.

    Args:
        columns: Their headings.
        rows: One entry per column.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]

    def __post_init__(self) -> None:
        """Check that every row has one entry per column."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row must have {len(self.columns)} entries, got {list(row)}")

    def texts(self) -> list[list[str]]:
        """Format every entry."""
        return [[spell(entry) for entry in row] for row in self.rows]

    def numeric(self) -> list[bool]:
        """Return for each column whether it is numeric."""
        return [
            all(not isinstance(row[place], str) for row in self.rows) for place in range(len(self.columns))
        ]

    def markdown(self) -> str:
        """Format the table as Markdown, without a final newline."""
        rules = ["---:" if numeric else "---" for numeric in self.numeric()]
        lines = [list(self.columns), rules, *self.texts()]
        return "\n".join(
            "| " + " | ".join(each.replace("|", "\\|") for each in line) + " |" for line in lines
        )

    def rich(self) -> RichTable:
        """Return the table for rich."""
        from rich.markup import escape
        from rich.table import Table as RichTable

        table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name, numeric in zip(self.columns, self.numeric(), strict=True):
            table.add_column(escape(name), justify="right" if numeric else "left", overflow="fold")
        for row in self.texts():
            table.add_row(*map(escape, row))
        return table


def with_paper(ours: Sequence[float], paper: Sequence[float]) -> list[str]:
    """Format figures, with the paper's in parentheses if it has some."""
    if not paper:
        return [spell(figure) for figure in ours]
    return [f"{spell(figure)} ({spell(float(its))})" for figure, its in zip(ours, paper, strict=True)]


def spell(value: Entry) -> str:
    """Format an entry: two or three digits of a fraction, all digits of a whole number."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, SupportsFloat):
        raise TypeError(f"an entry must be a text, a number or None, got {value!r}")
    value = float(value)
    if math.isnan(value):
        return ""
    if value == 0 or math.isinf(value):
        return f"{value:.0f}"
    size, short = abs(value), f"{value:g}"
    if len(short.lstrip("-")) <= 4 and float(short) == value:
        return short
    if size < 0.01:
        return f"{value:.1e}"
    if size < 1:
        return f"{value:.3f}"
    return f"{value:.2f}" if size < 100 else f"{value:,.0f}"


def share(value: float) -> str:
    """Format a share in per cent."""
    percent = 100 * value
    return f"{percent:.2g}%" if 0 < abs(percent) < 1 else f"{percent:.1f}%"
