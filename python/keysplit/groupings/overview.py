"""Describe each grouping, as data and as a Markdown table for the documentation."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

from keysplit.groupings.base import GROUPINGS

LEGEND = {
    "choices": "its parameter",
    "n": "all workers",
    "d": "as many as its frequency needs",
    "w": "the bound of dynamic key grouping",
}
"""The values of ``Grouping.workers_per_key`` that are not numbers."""


def describe(name: str) -> dict[str, Any]:
    """Return the description of a grouping, from its class.

    Args:
        name: One of the names in [`GROUPINGS`][keysplit.GROUPINGS].

    Returns:
        Name, class, summary (the first line of its docstring), the parameters except ``workers`` and ``seed``
        with their defaults, the class attributes of [`Grouping`][keysplit.Grouping], and the source (that
        paragraph of the docstring, with the paper's title); ready for JSON.

    Example:
        >>> about = describe("partial_key")
        >>> about["class"], about["parameters"]["choices"], about["adapts_to"]
        ('PartialKeyGrouping', 2, ['skew'])
    """
    kind = GROUPINGS[name]
    own = [field for field in fields(kind) if field.name not in ("workers", "seed")]
    text = (inspect.getdoc(kind) or "").replace("``", "`")
    source = re.search(r"^Source: (.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    return {
        "name": name,
        "class": kind.__name__,
        "summary": text.split("\n")[0],
        "parameters": {field.name: field.default for field in own},
        "workers_per_key": kind.workers_per_key,
        "adapts_to": list(kind.adapts_to),
        "feedback": list(kind.feedback),
        "elastic": kind.elastic,
        "paper": kind.paper,
        "source": " ".join(source[1].split()) if source else "",
    }


def markdown() -> str:
    """Write the overview table of ``docs/groupings/index.md``.

    Returns:
        A Markdown table with a row for each grouping, ending in a newline.

    Example:
        >>> print(markdown().splitlines()[0])
        | name | a message goes to | workers per key | adapts to | feedback |
    """
    heads = ("name", "a message goes to", "workers per key", "adapts to", "feedback")
    rows = [heads, ("---",) * len(heads)]
    for name, kind in GROUPINGS.items():
        feedback = ", ".join(f"`{argument}`" for argument in kind.feedback)
        most = kind.workers_per_key if len(kind.workers_per_key) == 1 else f"`{kind.workers_per_key}`"
        link = f"[`{name}`]({name}.md)"
        adapts = ", ".join(kind.adapts_to)
        rows.append((link, kind.sends_to, most, adapts, feedback))
    return "".join(f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in row)}|\n" for row in rows)
