"""What skew costs in Spark, and what keysplit brings: tables in Markdown.

usage: KEYSPLIT_DATA=FOLDER scripts/with-env python -m keysplit_experiments.measured.spark_skew
           [--part table|emulated|scale|large|writes|files] [--rows 2e6] [--rounds 5] [--only TEXT]

- table: every operation on the streams for which it is meant, at local[2] with 32 reducers. Adaptive
  execution is on, and set in its own favour for frames of this size: partitions count as skewed from 1 MB on,
  and are split into parts of 1 MB. It may not merge the 32 reducers into fewer, as it would not with more
  data. Spark may broadcast up to 256 KB.
- emulated: at local[32], with 1 ms of sleep a row, so that 32 cores are emulated; 40,000 rows.
- scale: 32, 300, 1,000 and 4,000 workers, over plain Spark with as many partitions.
- large: a join on --rows rows.
- writes: files partitioned by one of 50 keys, of --rows rows with 96 more bytes each.
- files: where the time of retail's write goes. Its ways differ by one cause each.

The ways are run in turn, --rounds times. *wall* and *CPU* (of the JVM and its Python workers) are medians of
the ratios to plain Spark in the same round. *slowest* is the time of the slowest task of the stage with the
longest task, over the mean of its tasks; *shuffled*, *memory* (the largest execution memory of a task, as far
as Spark keeps account of it: not of Python's, nor of lists on the heap) and *input* (the most bytes that one
task read from a shuffle) are relative to plain Spark's. *took* is the way that keysplit chose.
"""

import argparse
import os
import sys
from collections.abc import Iterator

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keysplit import spark as kss
from keysplit_experiments.measured.files import data_folder
from keysplit_experiments.measured.spark_skew import streams
from keysplit_experiments.measured.spark_skew.figures import REDUCERS, compared
from keysplit_experiments.measured.spark_skew.operations import EMULATED, OPERATIONS, SCALED, causes

SLEEP_ROWS = 40_000
WORKERS = (32, 300, 1_000, 4_000)
HEAD = (
    "| stream | operation | way | took | wall | CPU | slowest | shuffled | memory | input |\n"
    "|---|---|---|---|---:|---:|---:|---:|---:|---:|"
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=list(PARTS), default="table")
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="rows of the table with this in their names")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for line in PARTS[arguments.part](arguments.rows, arguments.rounds, arguments.only):
        print(line, flush=True)


def table(rows: int, rounds: int, only: str) -> Iterator[str]:
    spark = session(2)
    yield HEAD
    usual = ["join, wide rows", "join, many rows"]
    frames = []
    for name, df in streams.skewed(spark, rows, data_folder()):
        # Of all groups of reddit, plain Spark would start each for minutes.
        few = (f"{name}, 1e5 rows", df.where("id < 100000")) if name == "reddit" else (name, df)
        frames += [(*few, ["apply"]), (name, df, usual)]
        frames += [(name, df, ["write"])] if name == "retail" else []
        frames += [(name, df, ["join, both hot"])] if name == "zipf" else []
    frames.append(("uniform", streams.uniform(spark, rows), usual))
    frames.append(("small groups", streams.groups(spark), ["apply", "apply, whole"]))
    for name, df, operations in frames:
        for operation in operations:
            if only in f"{name}: {operation}":
                ways = OPERATIONS[operation].ways(df)
                if name == "small groups":
                    ways.pop("salted", None)  # no key is hot
                for way, figures in compared(spark, df, ways, rounds):
                    yield f"| {name} | {operation} | {way} | {figures.row()} |"
    spark.stop()


def emulated(rows: int, rounds: int, only: str) -> Iterator[str]:
    spark = session(REDUCERS)
    yield HEAD
    for name, df in streams.skewed(spark, SLEEP_ROWS, data_folder()):
        df = df.limit(SLEEP_ROWS).repartition(REDUCERS).cache()
        spark.range(0, REDUCERS, 1, REDUCERS).mapInPandas(lambda frames: frames, "id long").collect()
        for operation, each in EMULATED.items():
            if only in f"{name}: {operation}":
                for way, figures in compared(spark, df, each.ways(df), rounds):
                    yield f"| {name} | {operation} | {way} | {figures.row()} |"
        df.unpersist()
    spark.stop()


def scale(rows: int, rounds: int, only: str) -> Iterator[str]:
    spark = session(2)
    frames = streams.zipf(spark, 1.0, 1_000_000, rows), streams.zipf(spark, 1.0, 10_000, rows // 10)
    yield "| workers | frequent keys | operation | wall | CPU |\n|---:|---:|---|---:|---:|"
    for workers in WORKERS:
        spark.conf.set("spark.sql.shuffle.partitions", workers)
        for operation, each in SCALED.items():
            if only not in operation:
                continue
            df = frames[operation == "apply"]
            plan = kss.plan(df, "key", workers, row_id="id")
            ways = {"plain": each.plain, "kept": each.kept(plan)}
            *_, (_, figures) = compared(spark, df, ways, rounds, workers)
            yield (
                f"| {workers:,} | {len(plan.head):,} | {operation} | {figures.wall_s:.2f} "
                f"| {figures.cpu_s:.2f} |"
            )
    spark.stop()


def large(rows: int, rounds: int, only: str) -> Iterator[str]:
    spark = session(2)
    yield HEAD
    df = streams.zipf(spark, 1.4, 1_000_000, rows)
    for way, figures in compared(spark, df, OPERATIONS["join, many rows"].ways(df), rounds):
        yield f"| zipf, {rows:.0e} rows | join, many rows | {way} | {figures.row()} |"
    spark.stop()


def writes(rows: int, rounds: int, only: str) -> Iterator[str]:
    spark = session(2)
    yield HEAD
    df = streams.zipf(spark, 1.4, 50, rows).withColumn("payload", F.repeat(F.hex(F.xxhash64("id")), 6))
    for way, figures in compared(spark, df, OPERATIONS["write"].ways(df), rounds):
        yield f"| zipf, {rows:.0e} rows | write | {way} | {figures.row()} |"
    spark.stop()


def files(rows: int, rounds: int, only: str) -> Iterator[str]:
    spark = session(2)
    yield "| way | wall | CPU |\n|---|---:|---:|"
    for name, df in streams.skewed(spark, SLEEP_ROWS, data_folder()):
        if name == "retail":
            for way, figures in compared(spark, df, causes(df), rounds):
                yield f"| {way} | {figures.wall_s:.2f} | {figures.cpu_s:.2f} |"
    spark.stop()


def session(cores: int) -> SparkSession:
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", str(REDUCERS))
        .config("spark.sql.autoBroadcastJoinThreshold", "256k")
        .config("spark.sql.adaptive.coalescePartitions.enabled", "false")
        .config("spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes", "1m")
        .config("spark.sql.adaptive.advisoryPartitionSizeInBytes", "1m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


PARTS = {
    "table": table,
    "emulated": emulated,
    "scale": scale,
    "large": large,
    "writes": writes,
    "files": files,
}

if __name__ == "__main__":
    main()
