"""Aggregates whose state grows, plain and split: wall and CPU time over those of `groupBy(key).agg(...)`.

Three streams: `retail` has 38 keys, one with 91 per cent of the rows; `zipf` is zipf 1.4 over 10,000 keys;
`many` is zipf 0.9 over a fifth as many keys as rows. `v` has as many values as rows, `few` a thousand. Ways:
plain; keysplit with the plan made in the call (forced to go by it); keysplit with a plan that is there. They
run in turns, and a figure is the median of the ratios to the plain run of the same turn.

usage: scripts/with-env python benches/spark_aggregate.py [--rows 1e6] [--repeats 5] [--slots 2]
                                                          [--only retail,list]
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit_experiments.measured.processes import cpu_s

WORKERS = 32
AGGREGATES: dict[str, list[Column | str]] = {
    "sum, count, max": ["sum(v)", "count(*)", "max(v)"],
    "approx_count_distinct": ["approx_count_distinct(v)"],
    "collect_list": ["collect_list(v)"],
    "collect_set": ["collect_set(v)"],
    "collect_set, few values": ["collect_set(few)"],
    "percentile": ["percentile(v, 0.5)"],
    "percentile, few values": ["percentile(few, 0.5)"],
    "count distinct": ["count(distinct v)"],
    "count distinct, few values": ["count(distinct few)"],
    "list, percentile, count distinct": ["collect_list(v)", "percentile(v, 0.5)", "count(distinct v)"],
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--only", default="", help="words that a row must contain one of")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        spark = (
            SparkSession.builder.master(f"local[{arguments.slots}]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "6g")
            .config("spark.sql.shuffle.partitions", str(WORKERS))
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        print("| stream | aggregates | plain, s | made: wall | CPU | kept: wall | CPU |\n" + "|---" * 7 + "|")
        for stream, df in frames(spark, arguments.rows, Path(folder)).items():
            plan = kss.plan(df, "key", WORKERS, row_id="v")
            for name, columns in AGGREGATES.items():
                row = f"{stream} | {name}"
                if any(word in row for word in arguments.only.split(",")):
                    plain, *others = ratios(df, plan, [F.expr(sql) for sql in columns], arguments.repeats)
                    figures = " | ".join(f"{each:.2f}" for each in (plain, *others))
                    print(f"| {row} | {figures} |", flush=True)
        spark.stop()


def frames(spark: SparkSession, rows: int, folder: Path) -> dict[str, DataFrame]:
    draw = np.random.default_rng(1)
    keys = {
        "retail": np.where(draw.random(rows) < 0.91, 0, draw.integers(1, 38, rows)),
        "zipf": ks.streams.zipf(1.4, keys=10_000, messages=rows, seed=1),
        "many": ks.streams.zipf(0.9, keys=rows // 5, messages=rows, seed=1),
    }
    found = {}
    for name, of in keys.items():
        (folder / name).mkdir()
        for number, part in enumerate(np.array_split(np.arange(rows), 8)):
            table = {"key": of[part], "v": part * 2654435761 % 2**32, "few": part * 40503 % 65536 % 1000}
            pq.write_table(pa.table(table), folder / name / f"{number}.parquet")
        found[name] = spark.read.parquet(str(folder / name))
    return found


def ratios(df: DataFrame, plan: kss.Plan, columns: list[Column], repeats: int) -> list[float]:
    ways = [
        lambda: df.groupBy("key").agg(*columns),
        lambda: kss.aggregate(df, "key", *columns, workers=WORKERS, row_id="v", force=True),
        lambda: kss.aggregate(df, "key", *columns, plan=plan, row_id="v", force=True),
    ]
    turns = []
    for _ in range(repeats + 1):
        turn = []
        for way in ways:
            wall, cpu = time.perf_counter(), cpu_s(os.getpid())
            way().write.format("noop").mode("overwrite").save()
            turn.append((time.perf_counter() - wall, cpu_s(os.getpid()) - cpu))
        turns.append(turn)
    turns = turns[1:]  # the first one warms up
    over = [median(turn[way][at] / turn[0][at] for turn in turns) for way in (1, 2) for at in (0, 1)]
    return [median(turn[0][0] for turn in turns), *over]


if __name__ == "__main__":
    main()
