"""`join` against Spark's own: CPU and wall time, as ratios.

The left side is a skewed stream with a payload of 100 bytes, the right side has one row per key. No side is
small enough to be broadcast whole. The CPU time is that of the JVM and its Python workers. The runs
alternate, and a figure is the median of the ratios of neighbouring runs.

usage: scripts/with-env python benches/spark_join.py [--rows 2e6] [--repeats 5] [--only zipf]
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit_experiments.measured.queries import ratios, session

WORKERS = 32
KEYS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="only frames whose names contain this")
    arguments = parser.parse_args()
    print("| frame | way | CPU | wall | which |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        spark = session(folder)
        spark.conf.set("spark.sql.shuffle.partitions", WORKERS)
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "1m")
        for name, (left, right) in frames(spark, arguments.rows, Path(folder)).items():
            if arguments.only in name:
                ways = runs(left, right)
                for way, (cpu, wall) in ratios(spark, ways, arguments.repeats).items():
                    told = "" if way == "plain" else kss.explain(ways[way]())
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


def runs(left: DataFrame, right: DataFrame) -> dict[str, Callable[[], DataFrame]]:
    plan = kss.plan(left, "key", WORKERS)
    return {
        "plain": lambda: left.join(right, "key"),
        "plan kept": lambda: kss.join(left, right, "key", plan=plan),
        "plan made": lambda: kss.join(left, right, "key", workers=WORKERS),
        "broadcast": lambda: kss.join(left, right, "key", plan=plan, way="broadcast"),
        "place": lambda: kss.join(left, right, "key", plan=plan, way="place"),
    }


if __name__ == "__main__":
    main()
