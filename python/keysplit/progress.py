"""Show the progress of long passes: a bar in notebooks and, if requested, on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.progress import Progress

_DELAY_S = 0.5  # a shorter pass shows nothing in a notebook
_INTERVAL_S = 0.2

Report: TypeAlias = Callable[[float, "int | None"], None]
"""Takes the number of messages done, and the total; None if unknown."""


def check_progress(progress: bool | None) -> None:
    """Raise an error unless `progress` is True, False or None."""
    if progress is not None and not isinstance(progress, bool):
        raise TypeError(f"progress must be True, False or None, got {progress!r}")


@contextmanager
def watch(progress: bool | None) -> Iterator[Report]:
    """Show the progress of the work in the `with` block.

    Args:
        progress: None shows a bar in notebooks; True, also on a terminal's standard error; False, nowhere.
    """
    if progress is not False and _in_notebook():
        with _notebook() as report:
            yield report
    elif progress and sys.stderr.isatty():
        with _terminal() as report:
            yield report
    else:
        yield lambda done, total: None


def _in_notebook() -> bool:
    """Return whether the code runs in a Jupyter kernel, which has imported IPython."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def _terminal() -> Iterator[Report]:
    from rich.console import Console

    with _bar(console=Console(stderr=True), transient=True) as bar:
        yield lambda done, total: bar.update(bar.task_ids[0], completed=done, total=total)


@contextmanager
def _notebook() -> Iterator[Report]:
    """Show a bar by replacing a cell's output: rich's own bar needs ipywidgets."""
    from IPython.display import HTML, display

    bar, output = _bar(auto_refresh=False), None
    due = time.monotonic() + _DELAY_S

    def report(done: float, total: int | None) -> None:
        nonlocal output, due
        bar.update(bar.task_ids[0], completed=done, total=total)
        if time.monotonic() < due:
            return
        due = time.monotonic() + _INTERVAL_S
        if output is None:
            output = display(bar, display_id=True)
        else:
            output.update(bar)

    try:
        yield report
    finally:
        if output is not None:
            output.update(HTML(""))


def _bar(**options: Any) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, **options)
    bar.add_task("messages", total=None)
    return bar
