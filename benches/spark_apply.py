"""`apply` against Spark's own `applyInPandas` and `applyInArrow`: CPU and wall time, as ratios.

There are two frames of many small groups and two skewed ones. One function counts and sums each group. In
the skewed frames the same is done in parts too, with a plan that is there. The CPU time is that of the JVM
and its Python workers. The runs alternate, and a figure is the median of the ratios of neighbouring runs.

usage: scripts/with-env python benches/spark_apply.py [--groups 10000] [--repeats 5] [--only zipf]
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit_experiments.measured.queries import ratios, session

WORKERS = 32
SCHEMA = "key long, n long, total double"
Run = Callable[[], DataFrame]


def in_pandas(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"key": rows["key"].iloc[:1], "n": [len(rows)], "total": [rows["value"].sum()]})


def merged(parts: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {"key": parts["key"].iloc[:1], "n": [parts["n"].sum()], "total": [parts["total"].sum()]}
    )


def in_arrow(rows: pa.Table) -> pa.Table:
    total = pc.sum(rows["value"]).as_py()
    return pa.table({"key": rows["key"].slice(0, 1), "n": [rows.num_rows], "total": [total]})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=541_909)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="only frames whose names contain this")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = session(folder)
        spark.conf.set("spark.sql.shuffle.partitions", WORKERS)
        print("| frame | way | CPU | wall |\n|---|---|---|---|")
        for name, (df, split) in frames(spark, arguments.groups, arguments.rows).items():
            if arguments.only in name:
                df = df.cache()
                df.count()
                for way, (cpu, wall) in ratios(spark, runs(df, split), arguments.repeats, show).items():
                    print(f"| {name} | {way} | {cpu:.2f} | {wall:.2f} |", flush=True)
                df.unpersist()
        spark.stop()


def frames(spark: SparkSession, groups: int, rows: int) -> dict[str, tuple[DataFrame, bool]]:
    def keyed(key: Any, n: int) -> DataFrame:
        return spark.range(n).select(key.cast("long").alias("key"), (F.col("id") * 0.5).alias("value"), "id")

    zipf = ks.streams.zipf(1.4, keys=10_000, messages=rows, seed=1)
    drawn = spark.createDataFrame(pd.DataFrame({"key": zipf, "id": range(len(zipf))}))
    hot = F.when(F.rand(1) < 0.91, 0).otherwise(1 + F.col("id") % 37)
    return {
        f"{groups} groups of 10 rows": (keyed(F.col("id") % groups, 10 * groups), False),
        f"{groups} groups of 40 rows": (keyed(F.col("id") % groups, 40 * groups), False),
        "zipf 1.4 of 1e4 keys": (drawn.select("key", (F.col("id") * 0.5).alias("value"), "id"), True),
        "38 groups, one with 91 %": (keyed(hot, rows), True),
    }


def show(used: Mapping[str, tuple[float, float]]) -> None:
    print("  " + ", ".join(f"{name} {cpu:.1f} s" for name, (cpu, _) in used.items()), file=sys.stderr)


def runs(df: DataFrame, split: bool) -> dict[str, Run]:
    found: dict[str, Run] = {
        "applyInPandas": lambda: df.groupBy("key").applyInPandas(in_pandas, SCHEMA),
        "apply": lambda: kss.apply(df, "key", in_pandas, SCHEMA),
        "applyInArrow": lambda: df.groupBy("key").applyInArrow(in_arrow, SCHEMA),
        "apply, Arrow": lambda: kss.apply(df, "key", in_arrow, SCHEMA, format="arrow"),
    }
    if split:
        plan = kss.plan(df, "key", WORKERS)
        found["apply in parts"] = lambda: kss.apply(
            df, "key", in_pandas, SCHEMA, merge=merged, plan=plan, way="place"
        )
    return found


if __name__ == "__main__":
    main()
