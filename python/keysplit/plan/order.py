"""Cuts of an order: values that divide the rows of a split key into ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from keysplit.text import format_count

Cut: TypeAlias = tuple[str | None, ...]
"""The values of the order columns at a cut, as texts; None is null."""

# Numbers, hexadecimal digits, times and words: engines read the texts as literals of SQL.
_TEXT = re.compile(r"[\w.:+ -]*", re.ASCII)


@dataclass(frozen=True)
class OrderColumn:
    """A column of an order.

    Attributes:
        name: its name.
        ascending: whether small values come first.
        nulls_first: whether nulls come first.
        type: its type, as Spark writes it.
    """

    name: str
    ascending: bool
    nulls_first: bool
    type: str

    @property
    def text(self) -> str:
        """The column with its type and direction, such as "ts timestamp ASC NULLS FIRST"."""
        nulls = "FIRST" if self.nulls_first else "LAST"
        return f"{self.name} {self.type} {'ASC' if self.ascending else 'DESC'} NULLS {nulls}"


@dataclass(frozen=True)
class KeyCuts:
    """The cuts of the rows of a key.

    Attributes:
        hash: the hash of the key.
        places: for each cut the share of the key's rows before it; above 0, below 1, ascending.
        cuts: the cuts, in sort order.
    """

    hash: int
    places: tuple[float, ...]
    cuts: tuple[Cut, ...]


@dataclass(frozen=True)
class OrderCuts:
    """An order, and the cuts of split keys.

    Attributes:
        columns: the columns of the order.
        keys: the cuts of each key.
    """

    columns: tuple[OrderColumn, ...]
    keys: tuple[KeyCuts, ...] = field(repr=False)

    @property
    def text(self) -> str:
        """The columns, and how many cuts there are."""
        columns = ", ".join(each.text for each in self.columns)
        cuts = sum(len(each.cuts) for each in self.keys)
        return f"{columns}: {format_count(cuts, 'cut')} of {format_count(len(self.keys), 'key')}"

    @property
    def is_sound(self) -> bool:
        """Whether all parts have the right types and lengths."""
        return (
            len(self.columns) > 0
            and all(isinstance(each.name, str) and isinstance(each.type, str) for each in self.columns)
            and all(
                isinstance(flag, bool) for each in self.columns for flag in (each.ascending, each.nulls_first)
            )
            and all(
                len(each.places) == len(each.cuts)
                and list(each.places) == sorted(each.places)
                and all(0 < place < 1 for place in each.places)
                and all(map(self._is_sound, each.cuts))
                for each in self.keys
            )
        )

    def _is_sound(self, cut: Cut) -> bool:
        return len(cut) == len(self.columns) and all(text is None or _TEXT.fullmatch(text) for text in cut)
