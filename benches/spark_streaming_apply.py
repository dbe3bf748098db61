"""`streaming.apply` against Spark's own `applyInPandasWithState` with a state for each key, as ratios.

Both count and sum the rows of each window and key. A file is a micro-batch; all but the last is one window.
The CPU time is that of the JVM and its Python workers over the whole query, the duration the median of the
batches but the first. The runs alternate, and a figure is the median of the ratios of neighbouring runs.

usage: scripts/with-env python benches/spark_streaming_apply.py [--rows 1e5] [--batches 6] [--repeats 3]
           [--keys 16,1000,10000] [--rocksdb]
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit_experiments.measured.processes import CpuClock
from keysplit_experiments.measured.queries import session

WORKERS = 8
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "key long, n long, total double"
WINDOW_S = 3600


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=100_000)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keys", default="16,1000,10000")
    parser.add_argument("--rocksdb", action="store_true", help="state in RocksDB, not in the JVM's memory")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = session(folder)
        spark.conf.set("spark.sql.shuffle.partitions", WORKERS)
        if arguments.rocksdb:
            spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        print("| keys | CPU | duration of a batch | of plain, s |\n|---|---|---|---|")
        for keys in map(int, arguments.keys.split(",")):
            figures = measured(spark, Path(folder, str(keys)), keys, arguments)
            print(f"| {keys} | {' | '.join(f'{figure:.2f}' for figure in figures)} |", flush=True)
        spark.stop()


def measured(
    spark: SparkSession, path: Path, keys: int, arguments: argparse.Namespace
) -> tuple[float, float, float]:
    """Return CPU time and duration over those of plain Spark, and the duration there."""
    events = write_events(spark, path / "in", keys, arguments.rows, arguments.batches)
    plan = kss.plan(spark.read.parquet(str(path / "in")), "key", WORKERS, row_id="id")
    # Spark keeps Python workers by their environment: no way gets those that the other one has left
    workers = spark.sparkContext.environment
    workers["KEYSPLIT_MEASURED_WAY"] = "split"
    split = split_keys(events, plan)
    workers["KEYSPLIT_MEASURED_WAY"] = "plain"
    both = []
    for number in range(arguments.repeats + 1):
        pair = [run(query, path / f"{number} {at}") for at, query in enumerate((plain(events), split))]
        both += [pair] * (number > 0)  # the first warms up
    cpu, duration = (median(ours[at] / theirs[at] for theirs, ours in both) for at in (0, 1))
    return cpu, duration, median(theirs[1] for theirs, _ in both)


def write_events(spark: SparkSession, path: Path, keys: int, rows: int, batches: int) -> DataFrame:
    """Write a file for each batch; a third of the rows have one key. Return the stream."""
    for number in range(batches + 1):
        n, start_s = (rows, number * 60) if number < batches else (1, 100 * WINDOW_S)
        ids = spark.range(number * rows, number * rows + n, numPartitions=1)
        key = F.when(F.col("id") % 3 == 0, 0).otherwise(F.xxhash64("id") % keys)
        at = F.timestamp_seconds(F.lit(10 * WINDOW_S + start_s) + F.col("id") % 60)
        frame = ids.select(at.alias("at"), key.alias("key"), (F.col("id") * 0.5).alias("value"), "id")
        frame.write.mode("append").parquet(str(path))
        for file in path.glob("*.parquet"):
            if file.stat().st_mtime > 1_000_000:
                os.utime(file, (number, number))  # a stream reads the oldest file first
    stream = spark.readStream.schema("at timestamp, key long, value double, id long")
    return stream.option("maxFilesPerTrigger", 1).parquet(str(path)).withWatermark("at", "1 minute")


def plain(events: DataFrame) -> DataFrame:
    """A state for each window and key."""

    def keep(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        n, total = state.get if state.exists else (0, 0.0)
        if state.hasTimedOut:
            state.remove()
            yield pd.DataFrame({"key": [key[1]], "n": [n], "total": [total]})
            return
        for frame in frames:
            n, total = n + len(frame), total + float(frame["value"].sum())
        state.update((n, total))
        state.setTimeoutTimestamp(max(int(key[0] * 1000), state.getCurrentWatermarkMs() + 1))

    rows = events.select("*", F.window("at", f"{WINDOW_S} seconds").end.cast("long").alias("end"))
    return rows.groupBy("end", "key").applyInPandasWithState(
        keep, SCHEMA, "n long, total double", "append", "EventTimeTimeout"
    )


def split_keys(events: DataFrame, plan: kss.Plan) -> DataFrame:
    """The same by `streaming.apply`."""

    def partial(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"n": [len(rows)], "total": [rows["value"].sum()]})

    def combine(parts: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"n": [parts["n"].sum()], "total": [parts["total"].sum()]})

    def merge(key: Any, parts: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"key": [key[1]], "n": [parts["n"].sum()], "total": [parts["total"].sum()]})

    return kss.streaming.apply(
        events,
        "key",
        partial,
        SCHEMA,
        merge=merge,
        partial_schema="n long, total double",
        combine=combine,
        window=F.window("at", f"{WINDOW_S} seconds"),
        plan=plan,
    )


def run(query: DataFrame, checkpoint: Path) -> tuple[float, float]:
    """Run a query to the end of its input; return its CPU time, and the median duration of its batches."""
    cpu = CpuClock(os.getpid())
    writer = query.writeStream.format("noop").trigger(availableNow=True)
    running = writer.option("checkpointLocation", str(checkpoint)).start()
    running.awaitTermination()
    durations = [each["durationMs"]["triggerExecution"] for each in running.recentProgress]
    return cpu.stop(), median(durations[1:]) / 1000


if __name__ == "__main__":
    main()
