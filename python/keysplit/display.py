"""How results show themselves: in notebooks, as a frame, a plot and a report."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Shown"]


class Shown:
    """A result that shows itself; `keysplit.views` says what there is to see of each.

    Views are made of results, so nothing that results are made of may import them: they are found by name.
    """

    def to_pandas(self) -> pd.DataFrame:
        """Return the figures as a table: of a plan its frequent keys, of results a row per grouping.

        Raises:
            ImportError: if pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        return pd.DataFrame(self._view().records)

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
            OSError: if the file cannot be written.
        """
        import_module("keysplit.views").write_report(self, Path(path), title)

    def _repr_html_(self) -> str:
        html: str = import_module("keysplit.views").html(self._view())
        return html

    def _view(self) -> Any:
        return import_module("keysplit.views").view(self)
