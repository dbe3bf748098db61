"""The HTML that notebooks show for a view."""

from __future__ import annotations

from html import escape

import numpy as np

from keysplit.show.palette import COLOURS, style_of
from keysplit.show.view import View

MOST_ROWS = 20  # of a table
MOST_BARS = 60
_WIDTH, _HEIGHT = 300, 90  # pixels of a picture


def draw(of: View) -> str:
    """Return a view as self-contained HTML, for light and dark themes."""
    shown = list(of.loads.items())[:2]
    light, dark = (
        "".join(
            f".keysplit-view .{style_of(name)}{{color:{COLOURS.get(name, COLOURS['key'])[paper]}}}"
            for name, _ in shown
        )
        for paper in (0, 1)
    )
    largest = max((float(loads.max()) for _, loads in shown), default=0.0)
    pictures = "".join(_picture(name, loads, largest, of.unit) for name, loads in shown)
    head = "".join(f"<th>{escape(column)}</th>" for column in of.columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in of.rows[:MOST_ROWS]
    )
    more = f"<p>... and {len(of.rows) - MOST_ROWS} more</p>" if len(of.rows) > MOST_ROWS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}" if of.rows else ""
    verdict, details = (
        "".join(f"<p>{escape(line)}</p>" for line in text.splitlines()) for text in (of.verdict, of.details)
    )
    verdict += f"<pre>{escape(of.line)}</pre>" if of.line else ""
    details = f"<p><b>Details</b></p>{details}" if details else ""
    return (
        '<div class="keysplit-view"><style>.keysplit-view{max-width:75ch}.keysplit-view svg{margin:.3em 1em '
        ".3em 0}.keysplit-view figure{display:inline-block;margin:0 1em .5em 0}.keysplit-view figcaption"
        f"{{font-size:.85em}}{light}@media (prefers-color-scheme: dark){{{dark}}}</style>"
        f"<p><b>{escape(of.title)}</b></p>{verdict}{details}<div>{pictures}</div>{table}</div>"
    )


def _picture(name: str, loads: np.ndarray, largest: float, unit: str) -> str:
    parts = np.array_split(loads, min(MOST_BARS, len(loads)))
    step, full = _WIDTH / len(parts), max(largest, 1e-300)
    bars = "".join(
        f'<rect x="{at * step:.1f}" y="{_HEIGHT * (1 - part.max() / full):.1f}" width="{step * 0.9:.1f}" '
        f'height="{_HEIGHT * part.max() / full:.1f}"/>'
        for at, part in enumerate(parts)
    )
    mean = _HEIGHT * (1 - loads.mean() / full)
    label = f"{name}: {unit} per worker, mean {loads.mean():,.0f}, largest {loads.max():,.0f}"
    return (
        f'<figure><svg class="{style_of(name)}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="{escape(label)}" fill="currentColor">{bars}<path d="M0 {mean:.1f}H{_WIDTH}" '
        f'stroke="currentColor" stroke-dasharray="4 3" opacity=".6"/></svg><figcaption>{escape(label)}'
        "</figcaption></figure>"
    )
