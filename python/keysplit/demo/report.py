"""The demo's report: one HTML page that needs nothing else, and its figures as JSON."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from keysplit.demo.drift import Drift
from keysplit.demo.run import Comparison, Run
from keysplit.demo.terminal import cost, drifting, unemulated
from keysplit.palette import COLOURS
from keysplit.report import panels
from keysplit.report.page import render

TOP_KEYS = 16


def write(result: Comparison, path: Path) -> None:
    """Write the report.

    Args:
        result: what was measured.
        path: the HTML file; one that is there is replaced.

    Raises:
        OSError: the file cannot be written.
    """
    page = render(
        "keysplit.demo",
        "report.html.j2",
        **figures(result),
        cost=cost(result),
        unemulated=unemulated(result.groups),
        drifting=None if result.drift is None else drifting(result.drift),
        runs=[_panel(result, run) for run in result.runs],
        colours=COLOURS[result.grouping],
    )
    path.write_text(page, encoding="utf-8")


def write_json(result: Comparison, path: Path) -> None:
    """Write the figures of the report as JSON.

    Args:
        result: what was measured.
        path: the JSON file; one that is there is replaced.

    Raises:
        OSError: the file cannot be written.
    """
    path.write_text(json.dumps(figures(result), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _drift(drift: Drift) -> dict[str, Any]:
    return {**asdict(drift), "hashed_mean": drift.hashed_mean, "split_mean": drift.split_mean}


def figures(result: Comparison) -> dict[str, Any]:
    """Return what was measured, in terms that JSON has.

    Args:
        result: what was measured.

    Returns:
        `stream`, `settings`, `hashed`, `split`, `small_groups`, `drift`, `equal`, `wrong`, `keys` (the most
        frequent ones), `versions` and `when`.
    """
    stream = result.stream
    wrong = result.wrong()
    hashed, split = (run.served for run in result.runs)
    return {
        "stream": {
            "title": stream.title,
            "rows": stream.rows,
            "key": stream.key,
            "value": stream.value,
            "distinct_keys": len(result.expected),
        },
        "settings": {
            "workers": result.workers,
            "sources": result.sources,
            "grouping": result.grouping,
            "service_time_s": result.service_time_s,
        },
        "hashed": _measured(result.hashed),
        "split": _measured(result.split),
        "small_groups": {**asdict(result.groups), "ratio": result.groups.ratio},
        "drift": None if result.drift is None else _drift(result.drift),
        "equal": not wrong,
        "wrong": wrong,
        "keys": [
            {
                "name": result.name_of(answer.first),
                "rows": answer.rows,
                "share": answer.rows / stream.rows,
                "workers_hashed": len(hashed.get(answer.first, {})),
                "workers_split": len(split.get(answer.first, {})),
                "mean": answer.mean,
                "median": answer.quantile(0.5),
                "p95": answer.quantile(0.95),
            }
            for answer in result.top(TOP_KEYS)
        ],
        "versions": result.versions,
        "when": result.when.isoformat(timespec="seconds"),
    }


def _measured(run: Run) -> dict[str, Any]:
    return {
        "label": run.label,
        "wall_s": run.wall_s,
        "rows": run.rows.tolist(),
        "busy_s": run.busy_s.tolist(),
        "slowest_over_mean": run.busy_ratio,
        "rows_over_mean": run.rows_ratio,
        "partial_answers": run.parts,
        "idle_workers": int((run.rows == 0).sum()),
    }


def _panel(result: Comparison, run: Run) -> dict[str, Any]:
    """What the pictures of one run show: heights in per cent of the largest of both runs."""
    most = max(float(other.busy_s.max()) for other in result.runs)
    served = run.served
    top = result.top(TOP_KEYS)
    lines = [(result.name_of(answer.first), served.get(answer.first, {})) for answer in top]
    if len(result.expected) > len(top):
        rest = dict(enumerate(run.rows.tolist()))
        for _, by_worker in lines:
            for worker, rows in by_worker.items():
                rest[worker] -= rows
        others = f"the other {len(result.expected) - len(top):,}"
        lines.append((others, {worker: rows for worker, rows in rest.items() if rows}))
    fullest = max(max((*by_worker.values(), 1)) for _, by_worker in lines)
    return {
        "label": run.label,
        "mean_s": float(run.busy_s.mean()),
        "mean_height": 100 * float(run.busy_s.mean()) / most,
        "bars": _bars(result, run, most),
        "ticks": panels.make_ticks(most, "{:g} s"),
        "lines": [
            {
                "name": name,
                "cells": [
                    {
                        "worker": worker,
                        "rows": by_worker.get(worker, 0),
                        "ink": _ink(by_worker.get(worker, 0), fullest),
                    }
                    for worker in range(result.workers)
                ],
            }
            for name, by_worker in lines
        ],
    }


def _bars(result: Comparison, run: Run, most: float) -> list[dict[str, Any]]:
    """A bar per worker; the tallest are named by the key that has most of the worker's rows."""
    workers = enumerate(zip(run.rows.tolist(), run.busy_s.tolist(), strict=True))
    bars: list[dict[str, Any]] = [
        {
            "title": f"worker {worker}: {busy:.2f} s, {rows:,} rows",
            "height": 100 * busy / most,
            "mean_height": None,
        }
        for worker, (rows, busy) in workers
    ]
    names = {
        worker: result.name_of(first)
        for first, served in run.served.items()
        for worker, rows in served.items()
        if 2 * rows > run.rows[worker]
    }
    panels.name_bars(bars, names)
    return bars


def _ink(rows: int, most: int) -> int:
    """How dark a cell is, in per cent: a square root, so that rare keys still show."""
    return round(12 + 88 * (rows / most) ** 0.5) if rows else 0
