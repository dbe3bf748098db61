"""What skew costs in Spark, and what splitting the hot keys brings, beside plain Spark and salting by hand.

Streams: Zipf 1.4 (1e4 keys, --rows messages), and, from the folder that KEYSPLIT_DATA names, the sites
that Reddit posts link to and a web shop's order lines by country; one that is not there is left out.

Operations, each with 32 reducers at local[2]. Adaptive execution is on, and set in its own favour for
frames of this size: partitions count as skewed from 1 MB on, and are split into parts of 1 MB. It may not
merge the 32 reducers into fewer, as it would not with more data.

- apply: whole-group Python, a histogram of a group's values (applyInPandas).
- list: collect_list of a column. percentile: an exact median.
- join, wide rows: a sort-merge join of the stream with one row a key, 100 bytes beside each row of the
  stream.
- join, many rows: the same without the 100 bytes, followed by an expensive expression a row.

Ways:

- plain: Spark as it is.
- salted: what a careful engineer writes: every key gets one of 8 salts by the hash of its row, a partial
  result by (key, salt), a second by key; for the median counts by (key, value) first; in joins the other
  side 8 times.
- keysplit: the plan `cut_to_fit`. Making the plan is in the wall time.

Figures: *slowest* is the time of the slowest task of the stage with the longest task, over the mean of 32
such; wall time over plain's, of one run; bytes shuffled over plain's; *memory*, the largest execution memory
of a task over plain's, as far as Spark keeps account of it (not of Python's, nor of lists on the heap);
*input*, the most bytes that one task read from a shuffle, over plain's.

The last table is at local[32], with 1 ms of sleep a row, so that 32 cores are emulated; 40,000 rows: `apply`,
and a join followed by a function a row.

usage: KEYSPLIT_DATA=FOLDER scripts/with-env python -m keysplit_experiments.measured.spark_skew [--rows 1e7]
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit_experiments.measured.files import data_folder, why_left_out

REDUCERS, SALTS, SLEEP_ROWS = 32, 8, 40_000
REAL = ("links_reddit_domains_to2012", "highskew_retail_country")
SCHEMA = "key string, value long, n long"
SPLIT: dict[str, Any] = {"workers": REDUCERS, "grouping": "cut_to_fit", "row_id": "id"}
Way = Callable[[DataFrame], DataFrame]


@dataclass
class Figures:
    wall_s: float
    slowest: float = 0.0
    shuffled: int = 0
    memory: int = 0
    input: int = 0

    def over(self, base: "Figures") -> list[str]:
        """All but the slowest task over those of another run, "-" where that has none."""
        pairs = [
            (self.wall_s, base.wall_s),
            (self.shuffled, base.shuffled),
            (self.memory, base.memory),
            (self.input, base.input),
        ]
        return [f"{ours / theirs:.2f}" if theirs else "-" for ours, theirs in pairs]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10_000_000)
    parser.add_argument("--only", default="", help="operations with this in their names")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = data_folder()

    spark = session(2)
    print("| stream | operation | way | slowest | wall | shuffled | memory | input |")
    print("|---|---|---|---|---|---|---|---|")
    for name, df in streams(spark, arguments.rows, folder):
        df = df.cache()
        df.count()
        for operation, ways in OPERATIONS.items():
            if arguments.only not in operation:
                continue
            base = None
            for way, run in ways.items():
                found = measured(spark, run, df)
                base = base or found
                figures = " | ".join([f"{found.slowest:.1f}", *found.over(base)])
                print(f"| {name} | {operation} | {way} | {figures} |", flush=True)
        df.unpersist()
    spark.stop()
    print("\n| stream | operation | way | wall at 32 emulated cores |\n|---|---|---|---|")
    spark = session(REDUCERS)
    for name, df in streams(spark, SLEEP_ROWS, folder):
        df = df.limit(SLEEP_ROWS).repartition(REDUCERS).cache()
        spark.range(0, REDUCERS, 1, REDUCERS).mapInPandas(lambda frames: frames, "id long").collect()
        for operation, ways in {"apply, emulated": sleeping(), "join, emulated": joins(work=asleep)}.items():
            if arguments.only not in operation:
                continue
            plain = None
            for way, run in ways.items():
                wall_s = measured(spark, run, df).wall_s
                plain = plain or wall_s
                print(f"| {name} | {operation} | {way} | {wall_s / plain:.2f} |", flush=True)
        df.unpersist()
    spark.stop()


def session(cores: int) -> SparkSession:
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", str(REDUCERS))
        .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        .config("spark.sql.adaptive.coalescePartitions.enabled", "false")
        .config("spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes", "1m")
        .config("spark.sql.adaptive.advisoryPartitionSizeInBytes", "1m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def streams(spark: SparkSession, rows: int, folder: Path | None) -> Iterator[tuple[str, DataFrame]]:
    for name in REAL:
        path = folder / f"{name}.parquet" if folder else None
        if path and path.exists():
            table = pq.read_table(path, columns=["key"])
            yield name, framed(spark, table["key"])
        else:
            print(f"{name} is left out: {why_left_out(name)}", file=sys.stderr)
    keys = ks.streams.zipf(1.4, keys=10_000, messages=rows, seed=1)
    yield "zipf 1.4", framed(spark, pa.chunked_array([pa.array(keys).cast(pa.string())]))


def framed(spark: SparkSession, keys: pa.ChunkedArray) -> DataFrame:
    path = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / f"skew-{time.time_ns()}"
    path.mkdir(parents=True)
    positions = pa.array(range(len(keys)), pa.int64())
    pq.write_table(pa.table({"key": keys, "id": positions}), path / "rows.parquet", row_group_size=100_000)
    return spark.read.parquet(str(path)).withColumn("value", F.col("id") * 7919 % 1009)


def measured(spark: SparkSession, run: Way, df: DataFrame) -> Figures:
    context = spark.sparkContext
    group = f"run {time.time_ns()}"
    context.setJobGroup(group, group)
    start = time.monotonic()
    run(df).write.format("noop").mode("overwrite").save()
    wall_s = time.monotonic() - start
    context.setLocalProperty("spark.jobGroup.id", None)
    tracker, store = context._jsc.statusTracker(), context._jsc.sc().statusStore()
    time.sleep(0.5)  # the listener that fills the store lags behind
    figures = Figures(wall_s)
    longest = 0
    for job in tracker.getJobIdsForGroup(group):
        for stage in tracker.getJobInfo(job).stageIds():
            tasks = store.taskList(stage, 0, 100_000)
            metrics = [tasks.apply(i).taskMetrics().get() for i in range(tasks.size())]
            if not metrics:
                continue  # it was skipped
            figures.shuffled += sum(each.shuffleWriteMetrics().bytesWritten() for each in metrics)
            figures.memory = max(figures.memory, *(each.peakExecutionMemory() for each in metrics))
            times = [each.executorRunTime() for each in metrics]
            reads = [each.shuffleReadMetrics() for each in metrics]
            inputs = [each.localBytesRead() + each.remoteBytesRead() for each in reads]
            figures.input = max(figures.input, *inputs)
            if any(inputs) and max(times) > longest:
                longest = max(times)
                figures.slowest = longest * max(len(times), REDUCERS) / max(sum(times), 1)
    return figures


def counted(frame: pd.DataFrame) -> pd.DataFrame:
    values, counts = np.unique(frame["value"].to_numpy(), return_counts=True)
    return pd.DataFrame({"key": frame["key"].iloc[0], "value": values, "n": counts})


def merged(frame: pd.DataFrame) -> pd.DataFrame:
    values, places = np.unique(frame["value"].to_numpy(), return_inverse=True)
    counts = np.bincount(places, weights=frame["n"].to_numpy()).astype(np.int64)
    return pd.DataFrame({"key": frame["key"].iloc[0], "value": values, "n": counts})


def salt() -> F.Column:
    return F.pmod(F.xxhash64("id"), F.lit(SALTS)).cast("int").alias("salt")


def applied(partial: Callable[[pd.DataFrame], pd.DataFrame]) -> dict[str, Way]:
    return {
        "plain": lambda df: df.groupBy("key").applyInPandas(partial, SCHEMA),
        "salted": lambda df: (
            df.groupBy("key", salt())
            .applyInPandas(partial, SCHEMA)
            .groupBy("key")
            .applyInPandas(merged, SCHEMA)
        ),
        "keysplit": lambda df: kss.apply(df, "key", partial, merged, SCHEMA, **SPLIT),
    }


def sleeping() -> dict[str, Way]:
    def slow(frame: pd.DataFrame) -> pd.DataFrame:
        time.sleep(0.001 * len(frame))
        return counted(frame)

    return applied(slow)


def listed(df: DataFrame) -> DataFrame:
    parts = df.groupBy("key", salt()).agg(F.collect_list("id").alias("ids"))
    return parts.groupBy("key").agg(F.flatten(F.collect_list("ids")))


def median_of_counts(df: DataFrame) -> DataFrame:
    counts = df.groupBy("key", "value").agg(F.count("*").alias("n"))
    return counts.groupBy("key").agg(F.expr("percentile(value, 0.5, n)"))


def asleep(joined: DataFrame) -> DataFrame:
    def slow(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            time.sleep(0.001 * len(frame))
            yield frame

    return joined.mapInPandas(slow, joined.schema)


def digested(joined: DataFrame) -> DataFrame:
    digest = F.col("id").cast("string")
    for _ in range(8):
        digest = F.sha2(digest, 512)
    return joined.withColumn("digest", digest)


def joins(wide: bool = False, work: Way = lambda joined: joined) -> dict[str, Way]:
    def left(df: DataFrame) -> DataFrame:
        return df.withColumn("payload", F.rpad(F.col("id").cast("string"), 100, "x")) if wide else df

    def right(df: DataFrame) -> DataFrame:
        return df.select("key").distinct().withColumn("name", F.upper("key"))

    def salted(df: DataFrame) -> DataFrame:
        copies = right(df).withColumn("salt", F.explode(F.array(*(F.lit(i) for i in range(SALTS)))))
        return work(
            left(df).withColumn("salt", salt()).hint("merge").join(copies, ["key", "salt"]).drop("salt")
        )

    return {
        "plain": lambda df: work(left(df).hint("merge").join(right(df), "key")),
        "salted": salted,
        "keysplit": lambda df: work(kss.join(left(df).hint("merge"), right(df), "key", **SPLIT)),
    }


OPERATIONS: dict[str, dict[str, Way]] = {
    "apply": applied(counted),
    "list": {
        "plain": lambda df: df.groupBy("key").agg(F.collect_list("id")),
        "salted": listed,
        "keysplit": lambda df: kss.aggregate(df, "key", F.collect_list("id"), **SPLIT),
    },
    "percentile": {
        "plain": lambda df: df.groupBy("key").agg(F.expr("percentile(value, 0.5)")),
        "salted": median_of_counts,
        "keysplit": lambda df: kss.aggregate(df, "key", F.expr("percentile(value, 0.5)"), **SPLIT),
    },
    "join, wide rows": joins(wide=True),
    "join, many rows": joins(work=digested),
}


if __name__ == "__main__":
    main()
