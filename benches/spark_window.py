"""`window` and `asof_join` against Spark's own windows: CPU, wall time, tasks, memory and spill, as ratios.

Rows are those of a skewed stream with a payload of 100 bytes. The CPU time is that of the JVM. The runs
alternate, and a figure is the median of the ratios of neighbouring runs. The event log has the tasks: the
slowest one, peak memory, spill, and how long the jobs of a run would take on 16 and 64 slots: the CPU times
of each stage's tasks, in their order, each on the slot that is free first, stages one after the other. As-of
joins are split as if 16 tasks could run at once; by themselves they are plain on two cores.

usage: scripts/with-env python benches/spark_window.py [--rows 2e6] [--repeats 3] [--only 91] [--memory 700m]
"""

import argparse
import heapq
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit_experiments.measured.queries import ratios, session

WORKERS = 16
KEYS = 100_000
Run = Callable[[], DataFrame]
_MIB = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="only frames and functions whose names contain this")
    parser.add_argument("--memory", default="4g", help="the heap of the JVM")
    arguments = parser.parse_args()
    print(
        "| rows | functions | way | CPU | wall | slowest task | on 16 slots | on 64 | peak MiB | spill MiB |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder, "logs")
        logs.mkdir()
        settings = {
            "spark.driver.memory": arguments.memory,
            "spark.sql.shuffle.partitions": str(WORKERS),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.dir": logs.as_uri(),
        }
        spark = session(folder, settings)
        measured = {}
        for rows, df in frames(spark, arguments.rows, Path(folder)).items():
            found = {name: ways_of(df, columns) for name, columns in windows().items()}
            for functions, ways in (found | {"as-of join": joins(df)}).items():
                if arguments.only in f"{rows}, {functions}":
                    ways = named(spark, ways, f"{rows} | {functions}")
                    measured[rows, functions] = ratios(spark, ways, arguments.repeats)
        spark.stop()
        tasks = read(next(logs.iterdir()))
    for (rows, functions), figures in measured.items():
        for way, (cpu, wall) in figures.items():
            found = tasks[f"{rows} | {functions} | {way}"][1:]
            base = tasks[f"{rows} | {functions} | plain"][1:]
            slowest, on_16, on_64 = (
                median(a[name] / b[name] for a, b in zip(found, base, strict=True))
                for name in ("slowest", 16, 64)
            )
            peak, spill = (median(each[name] for each in found) / _MIB for name in ("peak", "spill"))
            print(
                f"| {rows} | {functions} | {way} | {cpu:.2f} | {wall:.2f} | {slowest:.2f} | {on_16:.2f} "
                f"| {on_64:.2f} | {peak:.0f} | {spill:.0f} |"
            )


def frames(spark: SparkSession, rows: int, folder: Path) -> dict[str, DataFrame]:
    at = F.col("id")
    payload = F.repeat(F.md5(at.cast("string")), 3).alias("payload")
    keys = ks.streams.zipf(1.4, keys=10_000, messages=rows, seed=1).astype("int64")
    drawn = pa.table({"zipf": keys, "id": pa.array(range(rows), pa.int64())})
    pa.parquet.write_table(drawn, folder / "drawn.parquet", row_group_size=rows // 8)
    numbers = spark.read.parquet(str(folder / "drawn.parquet"))
    streams = {
        "one key 91 %": F.when(F.pmod(F.xxhash64("id"), F.lit(100)) < 91, 0).otherwise(at % KEYS),
        "zipf 1.4": F.col("zipf"),
        "uniform": at % KEYS,
    }
    found = {}
    for place, (name, key) in enumerate(streams.items()):
        path = str(folder / f"rows {place}")
        order = F.xxhash64(at + 1).alias("at")
        numbers.select(key.alias("key"), order, (at % 1000).alias("value"), payload).write.parquet(path)
        found[name] = spark.read.parquet(path)
    return found


def windows() -> dict[str, list[Column]]:
    w = Window.partitionBy("key").orderBy("at")
    whole = Window.partitionBy("key")
    near = w.rowsBetween(-10, 10)
    running = [F.row_number().over(w), F.sum("value").over(w)]
    functions = {
        "ranks and sums": [*running, F.rank().over(w), F.max("value").over(w), F.sum("value").over(whole)],
        "lag, lead, rows": [
            *running,
            F.lag("value").over(w),
            F.lead("value").over(w),
            F.sum("value").over(near),
        ],
        "dense_rank": [*running, F.dense_rank().over(w)],
    }
    return {
        name: [each.alias(f"w{at}") for at, each in enumerate(columns)] for name, columns in functions.items()
    }


def ways_of(df: DataFrame, columns: list[Column]) -> dict[str, Run]:
    plan = cache(lambda: kss.plan(df, "key", WORKERS))
    return {
        "plain": lambda: df.select("*", *columns),
        "by itself": lambda: kss.window(df, *columns, workers=WORKERS),
        "place, plan made": lambda: kss.window(df, *columns, workers=WORKERS, way="place"),
        "place, plan kept": lambda: kss.window(df, *columns, plan=plan(), way="place"),
    }


def joins(df: DataFrame) -> dict[str, Run]:
    right = df.filter("value % 10 = 0").select("key", "at", F.col("value").alias("last"))
    plan = cache(lambda: kss.plan(df, "key", WORKERS))
    plain = partial(kss.asof_join, df, right, "at", "key", allow_exact_matches=False, workers=WORKERS)

    def split(**options: Any) -> DataFrame:
        with patch("keysplit.spark.ordered.window.slots_of", lambda df: WORKERS):
            return kss.asof_join(df, right, "at", "key", allow_exact_matches=False, **options)

    return {
        "plain": plain,
        "split, plan made": lambda: split(workers=WORKERS),
        "split, plan kept": lambda: split(plan=plan()),
    }


def named(spark: SparkSession, ways: dict[str, Run], name: str) -> dict[str, Run]:
    """Give each run a name of its own in the event log."""
    numbers = iter(range(1 << 20))

    def begun(way: str, make: Run) -> DataFrame:
        spark.sparkContext.setJobGroup(f"{name} | {way} | {next(numbers)}", way)
        return make()

    return {way: partial(begun, way, make) for way, make in ways.items()}


def read(log: Path) -> dict[str, list[dict[Any, float]]]:
    """Return figures of the tasks of each run, by the names of the runs."""
    group: dict[int, str] = {}
    tasks: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in log.open():
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            name = event["Properties"].get("spark.jobGroup.id", "")
            group |= dict.fromkeys(event["Stage IDs"], name)
        elif event["Event"] == "SparkListenerTaskEnd":
            stage = event["Stage ID"]
            tasks[group[stage]][stage].append(event["Task Metrics"])
    found: dict[str, list[dict[Any, float]]] = defaultdict(list)
    for name, stages in tasks.items():
        if " | " not in name:
            continue
        every = [task for stage in stages.values() for task in stage]
        figures: dict[Any, float] = {
            slots: sum(
                scheduled([task["Executor CPU Time"] for task in stage], slots) for stage in stages.values()
            )
            for slots in (16, 64)
        }
        figures["slowest"] = max(task["Executor Run Time"] for task in every)
        figures["peak"] = max(task["Peak Execution Memory"] for task in every)
        figures["spill"] = sum(task["Disk Bytes Spilled"] for task in every)
        found[name.rpartition(" | ")[0]].append(figures)
    return found


def scheduled(times: list[float], slots: int) -> float:
    """Return when the last of some tasks ends, each on the slot that is free first."""
    free = [0.0] * slots
    for each in times:
        heapq.heapreplace(free, free[0] + each)
    return max(free)


if __name__ == "__main__":
    main()
