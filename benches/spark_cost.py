"""CPU and wall time of routing and placing rows in Spark, as ratios to a native `repartition(32, key)`.

There are three frames: an int64 key, the same key as a string, and the int64 key with a payload of 100
bytes. Each is read from Parquet files, routed with a plan, placed, and discarded. For comparison it is
shuffled by Spark's own hash. The CPU time is that of the JVM and its Python workers, all threads. The runs
alternate, and a figure is the median of the ratios of neighbouring runs: CPU / wall.

usage: scripts/with-env python benches/spark_cost.py [--rows 2e7] [--repeats 5] [--grouping d_choices]
                                                    [--only bytes]
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit_experiments.measured.queries import ratios, session

WORKERS, FILES = 32, 32


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=20_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--grouping", default="d_choices")
    parser.add_argument("--only", default="", help="only frames whose names contain this")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = session(folder)
        print("| frame | native | keysplit |\n|---|---|---|")
        for name, df in frames(spark, arguments.rows, Path(folder)).items():
            if arguments.only not in name:
                continue
            plan = kss.plan(df, "key", WORKERS, grouping=arguments.grouping, row_id="id")
            found = ratios(spark, runs(df, plan), arguments.repeats)
            cpu, wall = found["keysplit"]
            print(f"| {name} | 1.00 | {cpu:.2f} / {wall:.2f} |", flush=True)
        spark.stop()


def frames(spark: SparkSession, rows: int, folder: Path) -> dict[str, DataFrame]:
    keys = ks.streams.zipf(1.4, keys=10_000, messages=rows, seed=1)
    for name, more in (("plain", False), ("wide", True)):
        (folder / name).mkdir()
        for number, part in enumerate(np.array_split(np.arange(rows), FILES)):
            columns = {"key": pa.array(keys[part]), "id": pa.array(part)}
            if more:
                columns["payload"] = pa.array([f"{row:0100d}" for row in part.tolist()])
            pq.write_table(pa.table(columns), folder / name / f"{number}.parquet")
    plain, wide = (spark.read.parquet(str(folder / name)) for name in ("plain", "wide"))
    return {
        "int64 key": plain,
        "string key": plain.withColumn("key", F.concat(F.lit("key number "), F.col("key").cast("string"))),
        "int64 key, payload of 100 bytes": wide,
    }


def runs(df: DataFrame, plan: kss.Plan) -> dict[str, Callable[[], DataFrame]]:
    return {
        "native": lambda: df.repartition(WORKERS, "key"),
        "keysplit": lambda: kss.repartition(df, "key", plan=plan),
    }


if __name__ == "__main__":
    main()
