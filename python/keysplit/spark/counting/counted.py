"""The result of counting the rows of each key, on the driver."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from keysplit.plan import Sample
from keysplit.spark import values

Met = Mapping[int, tuple[int, int]]
"""For keys, by hash: the number of rows read, and of distinct identities among them."""


def wrong_weights(weights: pa.ChunkedArray) -> str | None:
    """Return the first invalid weight; None if all are valid."""
    if weights.null_count:
        return "null"
    numbers = weights.to_numpy()
    wrong = numbers[~(np.isfinite(numbers) & (numbers >= 0))]
    return f"{wrong[0]:g}" if len(wrong) else None


def bad_weight(got: str) -> ValueError:
    """Return the error to raise for an invalid weight."""
    return ValueError(
        f"weight must be finite, at least 0 and not null in every row, and have a finite sum, got {got}"
    )


@dataclass(frozen=True)
class Counted:
    """The weight of the buckets, and the keys that may be frequent.

    Attributes:
        hashes: the hash of each key that may be frequent, int64.
        counts: an upper bound on the weight of each key, float64.
        errors: an upper bound on the error of `counts`, float64.
        buckets: the exact weight of all rows of each bucket, float64.
        texts: a dict from hash to the key's text, see `write_texts`.
        sample: the counted rows, if only a sample was counted; then counts and buckets are estimates.
        groups: the number of distinct keys seen in each bucket, float64; None if not counted.
        met: the rows of each frequent key; None if identities were not requested.
        heaviest: the weight of each key's heaviest row, float64; None if rows weigh 1.
    """

    hashes: np.ndarray
    counts: np.ndarray
    errors: np.ndarray
    buckets: np.ndarray
    texts: dict[int, list[bytes | None]]
    sample: Sample | None = None
    groups: np.ndarray | None = None
    met: Met | None = None
    heaviest: np.ndarray | None = None


def sum_of(buckets: np.ndarray) -> float:
    """Return the weight of all rows.

    Raises:
        ValueError: if the weight is not finite.
    """
    with np.errstate(over="ignore"):
        total = float(buckets.sum())
    if not np.isfinite(total):
        raise bad_weight(f"a sum of {total:g}")
    return total


def write_texts(key: Column, types: list[DataType]) -> Column:
    """Return the key values k0, k1, ... from `values.send` as texts for `values.read`."""
    return F.array(*(values.write(key.getField(f"k{at}"), type_) for at, type_ in enumerate(types)))
