"""`join` beside Spark's own: CPU and wall time, as ratios.

The left side is a skewed stream with 100 bytes beside each row, the right side has one row of each key, or
also many of the hottest one. No side is small enough to be broadcast whole. The CPU time is that of the JVM
and its Python workers. The runs alternate, and a figure is the median of the ratios of neighbouring runs.

usage: scripts/with-env python benches/spark_join.py [--rows 2e6] [--repeats 5] [--only zipf]
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit_experiments.measured.processes import cpu_s

WORKERS = 32
KEYS = 100_000
Run = Callable[[], DataFrame]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="only frames whose names contain this")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.shuffle.partitions", str(WORKERS))
        .config("spark.sql.autoBroadcastJoinThreshold", "1m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    print("| frame | way | CPU | wall | which |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (left, right) in frames(spark, arguments.rows, Path(folder)).items():
            if arguments.only in name:
                for way, (cpu, wall, told) in ratios(spark, left, right, arguments.repeats).items():
                    print(f"| {name} | {way} | {cpu:.2f} | {wall:.2f} | {told} |", flush=True)
    spark.stop()


def frames(spark: SparkSession, rows: int, folder: Path) -> dict[str, tuple[DataFrame, DataFrame]]:
    def kept(name: str, df: DataFrame) -> DataFrame:
        df.write.parquet(str(folder / name))
        return spark.read.parquet(str(folder / name))

    at = F.col("id")
    payload = F.repeat(F.md5(at.cast("string")), 3).alias("payload")
    keys = ks.streams.zipf(1.4, keys=10_000, messages=rows, seed=1).astype("int64")
    drawn = pa.table({"zipf": keys, "id": pa.array(range(rows), pa.int64())})
    pa.parquet.write_table(drawn, folder / "drawn.parquet", row_group_size=rows // 8)
    numbers = spark.read.parquet(str(folder / "drawn.parquet"))
    streams = {
        "zipf 1.4": F.col("zipf"),
        "one key 91 %": F.when(F.pmod(F.xxhash64("id"), F.lit(100)) < 91, 0).otherwise(at % KEYS),
        "uniform": at % KEYS,
    }
    left = {
        name: kept(f"left {place}", numbers.select(key.alias("key"), "id", payload))
        for place, (name, key) in enumerate(streams.items())
    }
    names = kept("right", spark.range(KEYS).select(at.alias("key"), at.alias("name"), payload))
    return {name: (df, names) for name, df in left.items()}


def ratios(
    spark: SparkSession, left: DataFrame, right: DataFrame, repeats: int
) -> dict[str, tuple[float, float, str]]:
    plan = kss.plan(left, "key", WORKERS)
    ways: dict[str, Run] = {
        "plain": lambda: left.join(right, "key"),
        "plan kept": lambda: kss.join(left, right, "key", plan=plan),
        "plan made": lambda: kss.join(left, right, "key", workers=WORKERS),
        "broadcast": lambda: kss.join(left, right, "key", plan=plan, way="broadcast"),
        "place": lambda: kss.join(left, right, "key", plan=plan, way="place"),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    told: dict[str, str] = {}
    for turn in range(repeats + 1):  # the first one warms up
        for name, run in ways.items():
            cpu, wall = cpu_s(os.getpid()), time.perf_counter()
            joined = run()
            joined.write.format("noop").mode("overwrite").save()
            if turn:
                found[name].append((cpu_s(os.getpid()) - cpu, time.perf_counter() - wall))
            told[name] = "" if name == "plain" else kss.explain(joined)
    return {
        name: (
            median(mine[0] / base[0] for mine, base in zip(times, found["plain"], strict=True)),
            median(mine[1] / base[1] for mine, base in zip(times, found["plain"], strict=True)),
            told[name],
        )
        for name, times in found.items()
    }


if __name__ == "__main__":
    main()
