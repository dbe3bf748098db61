"""What each grouping is, as data and as the Markdown table of the documentation."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from keysplit.groupings import GROUPINGS


def describe(name: str) -> dict[str, Any]:
    """Tell all that a grouping's class says about itself.

    Args:
        name: One of the names in [`GROUPINGS`][keysplit.GROUPINGS].

    Returns:
        Name, class, summary (the first line of its docstring), the parameters beside ``workers`` and ``seed``
        with their defaults, and the class attributes of [`Grouping`][keysplit.Grouping]; ready for JSON.

    Example:
        >>> about = describe("partial_key")
        >>> about["class"], about["parameters"]["choices"], about["adapts_to"]
        ('PartialKeyGrouping', 2, ['skew'])
    """
    kind = GROUPINGS[name]
    own = [field for field in fields(kind) if field.name not in ("workers", "seed")]
    return {
        "name": name,
        "class": kind.__name__,
        "summary": (kind.__doc__ or "").split("\n")[0].replace("``", ""),
        "parameters": {field.name: field.default for field in own},
        "spread": kind.spread,
        "adapts_to": list(kind.adapts_to),
        "feedback": list(kind.feedback),
        "elastic": kind.elastic,
        "paper": kind.paper,
    }


def markdown() -> str:
    """Write the overview table of ``docs/groupings/index.md``.

    Returns:
        A Markdown table with a row for each grouping, ending in a newline.

    Example:
        >>> print(markdown().splitlines()[0])
        | name | class | workers a key | adapts to | feedback | paper |
    """
    rows = [("name", "class", "workers a key", "adapts to", "feedback", "paper"), ("---",) * 6]
    for name, kind in GROUPINGS.items():
        feedback = ", ".join(f"`{argument}`" for argument in kind.feedback)
        spread = kind.spread if len(kind.spread) == 1 else f"`{kind.spread}`"
        link = f"[`{name}`]({name}.md)"
        rows.append((link, f"`{kind.__name__}`", spread, ", ".join(kind.adapts_to), feedback, kind.paper))
    return "".join(f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in row)}|\n" for row in rows)
