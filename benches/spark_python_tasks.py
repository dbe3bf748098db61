"""What a Python task costs Spark in addition to its rows, and which part of it can be taken away.

A stage of small tasks runs without Python, with a function over Arrow batches in workers that have loaded
pandas, and with the same function in workers that have set their modules aside, as `kss.apply` does. All run
over TCP, which is Spark's default, and over Unix domain sockets (from Spark 4.1 on). Figures are medians over
those of the stage without Python in the same round: wall time, and CPU time of the JVM and its workers.

usage: scripts/with-env python benches/spark_python_tasks.py [--tasks 32] [--rounds 15]
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from keysplit.spark.executors import set_aside_once
from keysplit_experiments.measured.processes import CpuClock, jvm_pid

ROWS = 100
# Rounds in which workers start and the JVM compiles.
WARMING = 5


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pandas  # noqa: F401

    yield from batches


def unchanged_and_set_aside(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pandas  # noqa: F401

    set_aside_once()
    yield from batches


WAYS: dict[str, Any] = {
    "no Python": lambda rows: rows,
    "Python": lambda rows: rows.mapInArrow(unchanged, rows.schema),
    "Python, modules set aside": lambda rows: rows.mapInArrow(unchanged_and_set_aside, rows.schema),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    print("| sockets | stage | wall | CPU |\n|---|---|---|---|")
    for sockets, unix in (("TCP", "false"), ("Unix", "true")):
        with tempfile.TemporaryDirectory() as folder:
            spark = session(folder, unix)
            rows = spark.range(0, ROWS * arguments.tasks, 1, arguments.tasks)
            for way, (wall, cpu) in measured(spark, rows, arguments.rounds).items():
                print(f"| {sockets} | {way} | {wall:.1f} | {cpu:.1f} |", flush=True)
            spark.stop()


def session(folder: str, unix: str) -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.python.unix.domain.socket.enabled", unix)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", folder)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )


def measured(spark: SparkSession, rows: DataFrame, rounds: int) -> dict[str, tuple[float, float]]:
    """Return for each way the medians of its wall and CPU time over those of the first way."""
    jvm, found = jvm_pid(spark), {way: ([], []) for way in WAYS}  # type: dict[str, tuple[list[float], list[float]]]
    for number in range(rounds + WARMING):
        base: list[float] = []
        for way, stage in WAYS.items():
            # each way has workers of its own
            spark.sparkContext.environment["KEYSPLIT_MEASURED_WAY"] = way
            start, cpu = time.monotonic(), CpuClock(jvm)
            stage(rows).write.format("noop").mode("overwrite").save()
            taken = [time.monotonic() - start, cpu.stop()]
            base = base or taken
            if number >= WARMING:
                for place, (time_s, plain_s) in enumerate(zip(taken, base, strict=True)):
                    found[way][place].append(time_s / max(plain_s, 1e-3))
    return {way: (median(wall), median(cpu)) for way, (wall, cpu) in found.items()}


if __name__ == "__main__":
    main()
