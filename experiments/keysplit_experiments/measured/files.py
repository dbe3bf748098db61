"""The files of real streams that these programs read."""

import os
from pathlib import Path
from typing import Any

import numpy as np


def data_folder() -> Path | None:
    """The folder that KEYSPLIT_DATA names; docs/measured.md says how to make it."""
    folder = os.environ.get("KEYSPLIT_DATA")
    return Path(folder) if folder else None


def why_left_out(name: str) -> str:
    """Why a stream whose file is not there is left out."""
    return f"KEYSPLIT_DATA names no folder that holds {name}.parquet"


def numbered(column: Any) -> np.ndarray:
    """The keys of a chunked array as whole numbers, in the order in which they come first."""
    codes: np.ndarray = column.combine_chunks().dictionary_encode().indices.to_numpy()
    return codes.astype(np.int64)
