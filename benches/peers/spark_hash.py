"""Print the CPU nanoseconds per row of Spark's own hash partitioning, pmod(hash(key), workers)."""

import os
import statistics

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keysplit_experiments.measured.processes import cpu_s

ROWS, ROUNDS, WORKERS = 200_000_000, 7, 100


def main() -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    keys = spark.range(ROWS)
    plain = keys.agg(F.sum("id"))
    hashed = keys.agg(F.sum(F.pmod(F.hash("id"), F.lit(WORKERS))))
    times = []
    for _ in range(ROUNDS + 1):
        taken = []
        for frame in (plain, hashed):
            start = cpu_s(os.getpid())
            frame.collect()
            taken.append(cpu_s(os.getpid()) - start)
        times.append((taken[1] - taken[0]) * 1e9 / ROWS)
    print(statistics.median(times[1:]))  # the first warms up
    spark.stop()


if __name__ == "__main__":
    main()
