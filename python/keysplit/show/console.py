"""Print on terminals: tables, marks, and results."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keysplit.text import WIDTH

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_MARKS = " ▁▂▃▄▅▆▇█"


class Printed(ABC):
    """An object that prints itself: `str` gives the output of `print_on`."""

    @abstractmethod
    def print_on(self, console: Console, title: str = "") -> None:
        """Print the object on a terminal."""

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=WIDTH, file=io.StringIO(), record=True, highlight=False, color_system=None)
        self.print_on(console)
        return "\n".join(line.rstrip() for line in console.export_text().splitlines())


def open_terminal() -> Console:
    """Return the terminal; a terminal narrower than 80 columns wraps the lines itself."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(WIDTH, console.width)
    return console


def make_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, text: int = 0, least_width: int = 0
) -> Table:
    """Make a table of figures; the column at `text` is text and shrinks in favour of the other columns."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for at, column in enumerate(columns):
        if at == text:
            table.add_column(column, min_width=least_width)  # shrinks if a line is too long
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def marks(values: Any, largest: float) -> str:
    """Return one mark per value; the largest mark is as high as a line of text."""
    heights = np.ceil(np.asarray(values) / max(largest, 1e-300) * (len(_MARKS) - 1)).astype(int)
    return "".join(_MARKS[height] for height in heights)
