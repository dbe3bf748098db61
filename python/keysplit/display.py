"""How results show themselves: in notebooks, as a frame, a plot and a report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keysplit.extras import missing

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Shown", "as_frame", "import_pyplot"]


def as_frame(
    records: Iterable[Mapping[str, Any]], call: str = "to_pandas", columns: Sequence[str] = ()
) -> pd.DataFrame:
    """Return records as a frame of pandas, a row each, for a call of the user.

    Args:
        records: names and values; all have the same names.
        call: what the user has called.
        columns: the names, where there may be no record.

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
    """A result that shows itself; `keysplit.views` says what there is to see of each.

    Views are made of results, so nothing that results are made of may import them: they are found by name.
    """

    def to_pandas(self) -> pd.DataFrame:
        """Return the figures as a table: of a plan its frequent keys, of results a row per grouping.

        Raises:
            ImportError: if pandas is not installed.
        """
        view = self._view()
        return as_frame(view.records, columns=view.names)

    def plot(self, ax: Any = None) -> Any:
        """Draw the load of each worker, the busiest first, over the mean.

        Args:
            ax: the axes of matplotlib to draw on; new ones if left out.

        Returns:
            The axes.

        Raises:
            ImportError: if matplotlib is not installed.
        """
        return import_module("keysplit.views").plot(self._view(), ax)

    def report(self, path: str | os.PathLike[str], *, title: str = "") -> None:
        """Write a report with charts, a single HTML file that needs nothing else.

        Args:
            path: the file, overwritten if it exists.
            title: a description of the rows.

        Raises:
            TypeError: if `path` is no path.
            OSError: if the file cannot be written.
        """
        import_module("keysplit.paths").check(path)
        import_module("keysplit.views").write_report(self, Path(path), title)

    def _repr_html_(self) -> str:
        html: str = import_module("keysplit.views").html(self._view())
        return html

    def _view(self) -> Any:
        return import_module("keysplit.views").view(self)
