"""Queries of Spark that are measured in turns."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from keysplit_experiments.measured.processes import cpu_s, jvm_pid


def session(folder: str, settings: Mapping[str, str] | None = None) -> Any:
    """Return a Spark session of two cores in this process, whose files are in a folder."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.local.dir", folder)
    )
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def ratios(
    spark: Any,
    runs: Mapping[str, Callable[[], Any]],
    repeats: int,
    show: Callable[[Mapping[str, tuple[float, float]]], None] = lambda used: None,
) -> dict[str, tuple[float, float]]:
    """CPU and wall time of queries over those of the first one, medians of rounds after one to warm up.

    Args:
        spark: the session.
        runs: by their names what makes each query. They take turns, and their rows are thrown away.
        repeats: rounds that count.
        show: is given the seconds of each round that counts.
    """
    jvm, base = jvm_pid(spark), next(iter(runs))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        used = {}
        for name, make in runs.items():
            cpu, wall = cpu_s(jvm), time.perf_counter()
            make().write.format("noop").mode("overwrite").save()
            used[name] = cpu_s(jvm) - cpu, time.perf_counter() - wall
        if repeat:
            show(used)
            for name, (cpu, wall) in used.items():
                found[name].append((cpu / used[base][0], wall / used[base][1]))
    return {
        name: (median(cpu for cpu, _ in each), median(wall for _, wall in each))
        for name, each in found.items()
    }
