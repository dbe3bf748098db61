"""The demo's report: one self-contained HTML page. Only this file of the demo draws pages."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from keysplit import __version__
from keysplit.demo.job import quantile
from keysplit.demo.run import Comparison, Run
from keysplit.show.bars import make_ticks, name_bars
from keysplit.show.page import render
from keysplit.show.palette import COLOURS

TOP_KEYS = 16


def write(result: Comparison, path: Path) -> None:
    """Write the report; raise OSError if it cannot be written."""
    keys = [
        {
            "name": key,
            "rows": result.expected[key].total(),
            "share": result.expected[key].total() / result.rows,
            "workers": [len(run.served(key)) for run in result.runs],
            "quantiles": [quantile(result.expected[key], q) for q in (0.5, 0.95)],
        }
        for key in result.top(TOP_KEYS)
    ]
    page = render(
        __package__,
        "report.html.j2",
        result=result,
        keys=keys,
        wrong=result.wrong(),
        panels=[_panel(result, run) for run in result.runs],
        colours=COLOURS[result.grouping],
        version=__version__,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    path.write_text(page, encoding="utf-8")


def _panel(result: Comparison, run: Run) -> dict[str, Any]:
    """Return a run's charts: bars in per cent of the largest in both runs, and frequent keys' workers."""
    most, mean_s = max(float(each.busy_s.max()) for each in result.runs), float(run.busy_s.mean())
    bars: list[dict[str, Any]] = [
        {
            "title": f"worker {worker}: {busy:.2f} s, {rows:,} rows",
            "height": 100 * busy / most,
            "mean_height": None,
        }
        for worker, (rows, busy) in enumerate(zip(run.rows, run.busy_s, strict=True))
    ]
    # a bar is named after the key with most of the worker's rows
    names = {part.worker: part.key for part in run.parts if 2 * part.rows > run.rows[part.worker]}
    name_bars(bars, names)
    lines = {key: run.served(key) for key in result.top(TOP_KEYS)}
    return {
        "run": run,
        "mean_s": mean_s,
        "mean_height": 100 * mean_s / most,
        "bars": bars,
        "ticks": make_ticks(most, "{:g} s".format),
        "lines": lines,
        "fullest": max(rows for served in lines.values() for rows in served.values()),
    }
