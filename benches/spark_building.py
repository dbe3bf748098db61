"""How long Spark's driver takes to build each operation, over what plain Spark takes: no job runs.

Tables of 10, 500 and 2,000 columns are read from Parquet; with `--computed` their key, or all their
columns, are expressions of what is read, or all but the key are aggregates by it. An operation gets a plan
that was made before, so that it has nothing to count, and the identity of a row is that which keysplit finds
by itself. With `--other-plans` each query has a plan that none had before.

The plain counterpart of an operation is the query of Spark that it stands for; `route` stands for one column
more by a hash of the key. The two take turns, and a figure is the median of each. CPU time is that of the
driver, in Python and in the JVM, which other work on the machine hardly changes; wall time has the waits
between the two as well. On Spark Connect there is wall time only, as the server is another process; a query
is built there when its schema is asked for, so both are asked.

usage: scripts/with-env python benches/spark_building.py [--columns 10,500,2000] [--repeats 15] [--connect]
           [--computed none|key|all|aggregates] [--other-plans]
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keysplit import spark as kss

WORKERS, ROWS = 8, 400
# So often the JVM sees a query before it counts.
WARMING = 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--columns", default="10,500,2000")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--computed", choices=COMPUTED, default="none")
    parser.add_argument("--other-plans", action="store_true", help="each query has a plan of its own")
    parser.add_argument("--connect", action="store_true", help="a client of a local server of Spark Connect")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder
        builder = builder.remote("local[2]") if arguments.connect else builder.master("local[2]")
        spark = (
            builder.config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "4g")
            .getOrCreate()
        )
        clocks = (
            {"wall": time.perf_counter}
            if arguments.connect
            else {"CPU": cpu_of(spark), "wall": time.perf_counter}
        )
        heads = [f"plain, {name} ms | keysplit, {name} ms | ratio" for name in clocks]
        print(f"| columns | operation | {' | '.join(heads)} |\n|---|---|{'---|---|---|' * len(clocks)}")
        for columns in map(int, arguments.columns.split(",")):
            df, other = (
                COMPUTED[arguments.computed](table(spark, columns, Path(folder), name)) for name in ("c", "d")
            )
            plan = planned(df)
            plans = others_than(plan) if arguments.other_plans else itertools.repeat(plan)
            for name, (plain, ours) in operations(df, other).items():
                times = measured(plain, ours, plans, arguments.repeats, list(clocks.values()))
                cells = [f"{a * 1e3:.1f} | {b * 1e3:.1f} | {b / a:.1f}" for a, b in zip(*times, strict=True)]
                print(f"| {columns:,} | {name} | {' | '.join(cells)} |", flush=True)
        spark.stop()


def table(spark: SparkSession, columns: int, folder: Path, name: str) -> DataFrame:
    path = folder / f"{name}{columns}.parquet"
    numbers = np.arange(ROWS)
    values = {f"{name}{at}": pa.array(numbers * at) for at in range(1, columns)}
    pq.write_table(pa.table({"key": pa.array(np.minimum(numbers % 40, 5)), **values}), path)
    return spark.read.parquet(str(path))


COMPUTED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "none": lambda df: df,
    "key": lambda df: df.withColumn("key", F.col("key") + 1),
    "all": lambda df: df.select(*((F.col(name) + 1).alias(name) for name in df.columns)),
    "aggregates": lambda df: df.groupBy("key").agg(*(F.max(name).alias(name) for name in df.columns[1:])),
}


def planned(df: DataFrame) -> kss.Plan:
    return kss.plan(df, "key", WORKERS, grouping="w_choices")


def others_than(plan: kss.Plan) -> Iterator[kss.Plan]:
    """Yield plans with other tables, as if each had been made from the rows."""
    for _ in itertools.count():
        keys = (replace(each, hash=each.hash + 1) for each in plan.head)
        tail, total = (plan.tail + 1) % WORKERS, plan.total + 1
        plan = replace(plan, tail=tail, total=total, head=tuple(keys))
        yield plan


def operations(
    df: DataFrame, other: DataFrame
) -> dict[str, tuple[Callable[[], Any], Callable[[kss.Plan], Any]]]:
    """Return the query of Spark and that of keysplit by a plan, by the name of the operation."""
    schema = "c1 long"

    def same(rows: Any) -> Any:
        return rows

    return {
        "route": (
            lambda: df.withColumn("worker", F.hash("key")),
            lambda plan: kss.route(df, "key", plan=plan),
        ),
        "repartition": (
            lambda: df.repartition(WORKERS, "key"),
            lambda plan: kss.repartition(df, "key", plan=plan),
        ),
        "apply": (
            lambda: df.groupBy("key").applyInPandas(same, schema),
            lambda plan: kss.apply(df, "key", same, schema, merge=same, plan=plan),
        ),
        "apply by place": (
            lambda: df.groupBy("key").applyInPandas(same, df.schema),
            lambda plan: kss.apply(df, "key", same, df.schema, merge=same, plan=plan, way="place"),
        ),
        "join": (
            lambda: df.join(other, "key"),
            lambda plan: kss.join(df, other, "key", plan=plan),
        ),
        "join by place": (
            lambda: df.join(other, "key"),
            lambda plan: kss.join(df, other, "key", plan=plan, way="place"),
        ),
        "full join by place": (
            lambda: df.join(other, "key", "full"),
            lambda plan: kss.join(df, other, "key", "full", plan=plan, way="place"),
        ),
        "full join": (
            lambda: df.join(other, "key", "full"),
            lambda plan: kss.join(df, other, "key", "full", plan=plan),
        ),
        "write": (
            lambda: df.repartition(WORKERS, "key").write.partitionBy("key"),
            lambda plan: kss.write(df, "key", plan=plan),
        ),
    }


def cpu_of(spark: SparkSession) -> Callable[[], float]:
    """Return a clock of the CPU seconds of this thread and of the one that serves it in the JVM."""
    threads = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    return lambda: time.thread_time() + threads.getCurrentThreadCpuTime() / 1e9


def measured(
    plain: Callable[[], Any],
    ours: Callable[[kss.Plan], Any],
    plans: Iterator[kss.Plan],
    repeats: int,
    clocks: list[Callable[[], float]],
) -> list[list[float]]:
    """Return the median times of each by each clock."""
    times: list[list[list[float]]] = [[], []]
    for repeat in range(repeats + WARMING):
        builds: list[Callable[[], Any]] = [plain, partial(ours, next(plans))]
        for place, build in enumerate(builds):
            start = [clock() for clock in clocks]
            result = build()
            if isinstance(result, DataFrame) and "connect" in type(result).__module__:
                _ = result.schema
            if repeat >= WARMING:
                times[place].append([clock() - began for clock, began in zip(clocks, start, strict=True)])
    return [[median(each) for each in zip(*taken, strict=True)] for taken in times]


if __name__ == "__main__":
    main()
