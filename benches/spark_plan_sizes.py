"""What a plan of many workers and keys costs, to make and to route by, as literals and by broadcast.

Keys are equally frequent, so that most of them are split. Rows are read from Parquet files, routed and
discarded; nothing is shuffled. The CPU time is that of the JVM and its Python workers, as a ratio to reading
the same rows. The runs alternate, and a figure is the median of the ratios of neighbouring runs. *Made* is
the wall time of `kss.plan(df, ..., sample=1)` over that of one read, each the best of three.

usage: scripts/with-env python benches/spark_plan_sizes.py [--rows 2e6] [--repeats 5]
"""

import argparse
import tempfile
import timeit
from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from keysplit import spark as kss
from keysplit.spark.expr import columns
from keysplit_experiments.measured.queries import ratios, session

SIZES = [(32, 100), (500, 1_000), (4_000, 10_000)]
"""Numbers of workers and of keys."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = session(folder)
        names = [
            "workers",
            "keys",
            "split",
            "buckets and cells",
            "JSON, kB",
            "made",
            "as literals",
            "by broadcast",
        ]
        print(f"| {' | '.join(names)} |\n|{' ---: |' * len(names)}", flush=True)
        for workers, keys in SIZES:
            figures = measured(spark, f"{folder}/{workers}", workers, keys, arguments)
            print(f"| {workers:,} | {keys:,} | {' | '.join(figures)} |", flush=True)
        spark.stop()


def measured(
    spark: SparkSession, path: str, workers: int, keys: int, arguments: argparse.Namespace
) -> list[str]:
    rows = spark.range(arguments.rows, numPartitions=8)
    rows.selectExpr("id", f"pmod(hash(id), {keys}) AS key").write.parquet(path)
    df = spark.read.parquet(path)
    made = partial(kss.plan, df, "key", workers, sample=1, row_id="id")
    plan = made()
    cells = len(plan.tail) + sum(len(each.workers) for each in plan.head)
    split = sum(len(each.workers) > 1 for each in plan.head)

    def routed(most: int) -> DataFrame:
        before, columns.MOST_LITERALS = columns.MOST_LITERALS, most
        try:  # the limit is read when the query is built
            return kss.route(df, "key", plan=plan)
        finally:
            columns.MOST_LITERALS = before

    runs: dict[str, Callable[[], DataFrame]] = {
        "read": lambda: df,
        "literals": partial(routed, cells),
        "broadcast": partial(routed, 0),
    }
    found = ratios(spark, runs, arguments.repeats)
    once = seconds(made) / seconds(lambda: df.write.format("noop").mode("overwrite").save())
    spent = [f"{found[way][0]:.1f}" for way in ("literals", "broadcast")]
    return [f"{split:,}", f"{cells:,}", f"{len(plan.to_json()) / 1e3:,.0f}", f"{once:.1f}", *spent]


def seconds(run: Callable[[], object]) -> float:
    """The shortest wall time of three."""
    return min(timeit.repeat(run, number=1, repeat=3))


if __name__ == "__main__":
    main()
