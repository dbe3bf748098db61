"""The mixin with which results show themselves."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keysplit import paths
from keysplit.extras import missing
from keysplit.show.notebook import draw
from keysplit.show.palette import COLOURS
from keysplit.show.view import View

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Shown", "as_frame", "import_pyplot"]

_DOTTED = 60  # workers of a plot; with more there are no dots


def as_frame(
    records: Iterable[Mapping[str, Any]], call: str = "to_pandas", columns: Sequence[str] = ()
) -> pd.DataFrame:
    """Return records as a pandas DataFrame, one row each.

    Args:
        records: names and values; all records have the same names.
        call: the user's call, for the error message.
        columns: the names, if there may be no records.

    Raises:
        ImportError: if pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(f"{call} needs pandas: pip install pandas") from error
    return pd.DataFrame(list(records), columns=columns or None)


def import_pyplot() -> Any:
    """Return matplotlib's pyplot.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(missing("plot", "matplotlib", "plot")) from error
    return pyplot


class Shown:
    """A result that shows itself: in notebooks, as a frame, a plot and a report."""

    @abstractmethod
    def _view(self) -> View:
        """Return the view of the result."""

    def to_pandas(self) -> pd.DataFrame:
        """Return the figures as a table: for a plan its frequent keys, for results one row per grouping.

        Raises:
            ImportError: if pandas is not installed.
        """
        view = self._view()
        return as_frame(view.records, columns=view.names)

    def plot(self, ax: Any = None) -> Any:
        """Draw each worker's load as a multiple of the mean, the busiest worker first.

        Args:
            ax: the matplotlib axes to draw on; new ones if omitted.

        Returns:
            The axes.

        Raises:
            ImportError: if matplotlib is not installed.
        """
        pyplot, view = import_pyplot(), self._view()
        if ax is None:
            ax = pyplot.subplots()[1]
        for name, loads in view.loads.items():
            ratios = np.sort(loads)[::-1] / max(float(loads.mean()), 1e-300)
            colour, marker = COLOURS.get(name, COLOURS["key"])[0], "." if len(loads) <= _DOTTED else ""
            ax.plot(np.arange(len(loads)), ratios, color=colour, label=name, marker=marker)
        ax.axhline(1, color="grey", linestyle="--", linewidth=1)
        ax.set_ylim(bottom=0)
        ax.set(xlabel="workers, the busiest first", ylabel="load over the mean", title=view.title)
        if view.loads:
            ax.legend()
        return ax

    def report(self, path: str | os.PathLike[str], *, title: str = "") -> None:
        """Write a report with charts: a single self-contained HTML file.

        Args:
            path: the file, overwritten if it exists.
            title: a description of the rows.

        Raises:
            TypeError: if `path` is not a path.
            OSError: if the file cannot be written.
        """
        from keysplit.show.panels import write

        paths.check(path)
        write(self._view(), Path(path), title=title)

    def _repr_html_(self) -> str:
        return draw(self._view())
