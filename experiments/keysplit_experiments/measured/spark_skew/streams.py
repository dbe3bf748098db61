"""The streams that are measured."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit_experiments.measured.files import why_left_out

_FILES = 32
_REAL = {"reddit": "links_reddit_domains_to2012", "retail": "highskew_retail_country"}


def skewed(spark: SparkSession, rows: int, folder: Path | None) -> Iterator[tuple[str, DataFrame]]:
    """Yield streams of skewed keys: two real ones, as far as there are files, and a Zipf stream."""
    for name, file in _REAL.items():
        path = folder / f"{file}.parquet" if folder else None
        if path and path.exists():
            yield name, framed(spark, pq.read_table(path, columns=["key"])["key"])
        else:
            print(f"{name} is left out: {why_left_out(file)}", file=sys.stderr)
    yield "zipf", zipf(spark, 1.4, 10_000, rows)


def uniform(spark: SparkSession, rows: int) -> DataFrame:
    """1e5 keys, all of them about as frequent."""
    return framed(spark, np.random.default_rng(1).integers(0, 100_000, rows))


def groups(spark: SparkSession, keys: int = 20_000) -> DataFrame:
    """Keys of ten rows each."""
    return framed(spark, np.arange(10 * keys) % keys)


def zipf(spark: SparkSession, exponent: float, keys: int, rows: int) -> DataFrame:
    """A Zipf stream, drawn piece by piece."""
    pieces = -(-rows // 10_000_000)
    drawn = (
        ks.streams.zipf(exponent, keys=keys, messages=rows // pieces, seed=seed) for seed in range(pieces)
    )
    return framed(spark, *drawn)


def framed(spark: SparkSession, *pieces: Any) -> DataFrame:
    """Write keys to Parquet files as strings, each with the number of its row, and read them with a value."""
    path = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / f"skew-{time.time_ns()}"
    path.mkdir(parents=True)
    start = 0
    for keys in pieces:
        strings = pa.array(keys) if isinstance(keys, np.ndarray) else keys
        table = pa.table({"key": strings.cast(pa.string()), "id": np.arange(start, start + len(keys))})
        start += len(keys)
        size = -(-len(keys) // _FILES)
        for number in range(_FILES):
            part = table.slice(number * size, size)
            pq.write_table(part, path / f"{start}-{number}.parquet")
    return spark.read.parquet(str(path)).withColumn("value", value())


def value() -> Column:
    """The value of a row, of its number."""
    return F.col("id") * 7919 % 1009
