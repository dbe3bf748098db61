"""A segment of a stream on an emulated cluster: all its messages are there when the workers start."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import keysplit as ks
from keysplit_experiments.deployments.engine import reports
from keysplit_experiments.deployments.engine.session import memory_mb, session
from keysplit_experiments.harness import Figures

KEY = "key"
STEP_BYTES = 4096
"""How much larger the file of a source is than the next: more than headers of pages differ."""


def run(
    params: ks.Grouping,
    keys: Any,
    *,
    sources: int,
    service_time_s: float,
    speeds: Sequence[float] = (),
) -> Figures:
    """Send a segment from sources to workers, and measure the workers.

    Each source is an input partition with its own router, and gets the messages in turn. The workers wait
    for each other, then each serves its queue and counts keys; an aggregator adds up the counts.

    Args:
        params: The grouping.
        keys: The stream, as routers accept it.
        sources: Number of sources.
        service_time_s: Seconds that a message takes a worker of speed 1.
        speeds: Relative speed of each worker; empty if all are 1.

    Returns:
        The figures of [`figures`][keysplit_experiments.deployments.engine.reports.figures], and next to them
        the mean number of workers per key (`replication`), the simulator's balance and throughput
        (`simulated_balance`, `simulated_per_s`), the memory in megabytes, and how long all took in seconds.

    Raises:
        ValueError: If there are fewer messages than sources.
        RuntimeError: If the aggregator's totals are wrong.
    """
    column = as_column(keys)
    check_messages(len(column), sources)
    from pyspark.sql import functions as F

    from keysplit import spark as kss
    from keysplit_experiments.deployments.engine.working import REPORT, Working

    began = time.time()
    spark = session(max(sources, params.workers))
    with tempfile.TemporaryDirectory(prefix="keysplit-deployment-") as folder:
        turns = [pa.array(np.arange(source, len(column), sources)) for source in range(sources)]
        paths = [Path(folder, f"{source:05}.parquet") for source in range(sources)]
        write([pa.table({KEY: column.take(turn)}) for turn in turns], paths)
        df = spark.read.schema(f"{KEY} {sql_type(column)}").parquet(folder)
        placed = kss.online.repartition(df, KEY, params)
        work = Working(KEY, service_time_s, tuple(speeds), together=True)
        worked = placed.mapInArrow(work, REPORT, barrier=True).persist()
        try:
            times = worked.select("worker", "began", "ended", "messages").toPandas()
            memory = memory_mb()
            pairs = worked.select("worker", F.explode(F.arrays_zip("keys", "counts")).alias("pair"))
            merged = F.sum("pair.counts").alias("n"), F.count_distinct("worker").alias("workers")
            totals = pairs.groupBy("pair.keys").agg(*merged).toPandas()
        finally:
            worked.unpersist()
    reports.check(dict(zip(totals["keys"], totals["n"], strict=True)), plain_count(column))
    return {
        **reports.figures(reports.read(times, params.workers)),
        **simulated(params, column, sources, service_time_s, speeds),
        "replication": float(totals["workers"].mean()),
        "memory_mb": memory,
        "took_s": time.time() - began,
    }


def simulated(
    params: ks.Grouping, keys: pa.Array, sources: int, service_time_s: float, speeds: Sequence[float]
) -> Figures:
    """Simulate the same segment: the work of the busiest worker over the mean, and the throughput."""
    result = ks.simulate(params, keys, sources=sources, samples=0)
    work_s = result.loads * service_time_s / (np.array(speeds) if len(speeds) else 1.0)
    return {
        "simulated_balance": reports.balance(work_s),
        "simulated_per_s": float(len(keys) / work_s.max()),
    }


def write(tables: Sequence[pa.Table], paths: Sequence[Path]) -> None:
    """Write the messages of each source to a file, which Spark reads as the partition of its number.

    Spark numbers files by their size, the largest first. So each is padded to be larger than the next.
    """
    largest = max(table.nbytes for table in tables)
    for place, (table, path) in enumerate(zip(tables, paths, strict=True)):
        padding = " " * (largest - table.nbytes + (len(tables) - place) * STEP_BYTES)
        column = pa.array([padding] + [None] * (len(table) - 1), pa.string())
        padded = table.append_column("padding", column)
        pq.write_table(padded, path, compression="none", use_dictionary=False, write_statistics=False)


def check_messages(messages: int, sources: int, batches: int = 1) -> None:
    """Check that every source has a message, in every micro-batch.

    Raises:
        ValueError: If there are fewer messages.
    """
    if messages < sources * batches:
        each = "one per source" + (" in every micro-batch" if batches > 1 else "")
        raise ValueError(f"keys must have at least {sources * batches} messages ({each}), got {messages}")


def as_column(keys: Any) -> pa.Array:
    """Return a stream as one Arrow array of its plain type."""
    column = pa.array(keys) if isinstance(keys, np.ndarray) else keys
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def sql_type(keys: pa.Array) -> str:
    """Return Spark's name of the type of keys."""
    return "string" if pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type) else "bigint"


def plain_count(keys: pa.Array) -> dict[str, int]:
    """Count the messages of each key, whose name is its text."""
    counts = pc.value_counts(keys.cast(pa.string())).to_pylist()
    return {each["values"]: each["counts"] for each in counts}
