"""What plans that adapt cost in a stream without skew, as ratios to plain Spark's own stream.

A file is a micro-batch, and its keys are uniform: nothing is to be gained, so all that is measured is the
cost of counting, planning and routing. The CPU time is that of the driver, Python and JVM: over the whole
query, in which the JVM compiles its code, and over the second half of its batches, `CPU later`. The duration
is the median of that half. Of it, `planning` is the time in which Spark plans the query. The runs alternate,
and a ratio is the median of those of neighbouring runs.

usage: scripts/with-env python benches/spark_streaming_cost.py [--rows 1e6] [--batches 10] [--repeats 5]
           [--keys 10000] [--workers 8] [--only TEXT]
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from keysplit import spark as kss
from keysplit_experiments.measured.processes import cpu_s
from keysplit_experiments.measured.queries import session

Query = Callable[[DataFrame, int], DataFrame]


@dataclass(frozen=True)
class Compared:
    """An operation on a stream and a number of workers: Spark's own and ours."""

    name: str
    plain: Query
    ours: Query


class Run(NamedTuple):
    """What a query took."""

    cpu_s: float
    later_cpu_s: float
    duration_s: float
    planning_s: float


def hashed(df: DataFrame, workers: int) -> DataFrame:
    """Rows where Spark's hash of the key says."""
    return df.repartition(workers, "key")


def adapted(df: DataFrame, workers: int) -> DataFrame:
    """Rows where a plan says that adapts."""
    return kss.streaming.repartition(df, "key", plan=kss.streaming.Adapt(workers, row_id="id"))


def by_plan(df: DataFrame, workers: int) -> DataFrame:
    """Rows where a plan says that stays."""
    return kss.streaming.repartition(df, "key", plan=made(df, workers))


def observed(df: DataFrame, workers: int) -> DataFrame:
    """The same, the rows of each worker being counted."""
    plan = kss.streaming.Adapt(start=made(df, workers), every=None)
    return kss.streaming.repartition(df, "key", plan=plan)


def made(df: DataFrame, workers: int) -> kss.Plan:
    """A plan that stays."""
    rows = df.sparkSession.range(workers * 100).selectExpr("id AS key")
    return kss.plan(rows, "key", workers, grouping="key")


OPERATIONS = (
    Compared("repartition", hashed, adapted),
    Compared("repartition by a plan, rows per worker counted", by_plan, observed),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=1_000_000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--only", default="", help="operations with this in their names")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        spark = session(folder)
        spark.conf.set("spark.sql.shuffle.partitions", arguments.workers)
        events = write_events(spark, path / "in", arguments.keys, arguments.rows, arguments.batches)
        print(
            "| operation | CPU | CPU later | duration of a batch | of plain, s "
            "| planning of plain, s | planning, s |\n|---|---:|---:|---:|---:|---:|---:|"
        )
        for each in OPERATIONS:
            if arguments.only not in each.name:
                continue
            both = []
            for number in range(arguments.repeats + 1):
                measured = [
                    run(query(events, arguments.workers), path / f"{each.name} {number} {at}")
                    for at, query in enumerate((each.plain, each.ours))
                ]
                both += [measured] * (number > 0)  # the first warms up
            ratios = [median(ours[at] / theirs[at] for theirs, ours in both) for at in range(3)]
            of_plain = median(theirs.duration_s for theirs, _ in both)
            planning = [median(pair[at].planning_s for pair in both) for at in (0, 1)]
            print(
                f"| {each.name} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} | {of_plain:.2f} "
                f"| {planning[0]:.2f} | {planning[1]:.2f} |",
                flush=True,
            )
        spark.stop()


def write_events(spark: SparkSession, folder: Path, keys: int, rows: int, batches: int) -> DataFrame:
    """Write a file for each batch; return the stream."""
    for number in range(batches):
        ids = spark.range(number * rows, (number + 1) * rows, numPartitions=2)
        frame = ids.selectExpr(f"pmod(xxhash64(id), {keys}) AS key", "id * 2 AS value", "id")
        frame.coalesce(1).write.mode("append").parquet(str(folder))
    stream = spark.readStream.schema("key long, value long, id long")
    return stream.option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(query: DataFrame, checkpoint: Path) -> Run:
    """Run a query to the end of its input."""
    before, batches = cpu_s(os.getpid()), list[float]()

    def write(df: DataFrame, _: int) -> None:
        batches.append(cpu_s(os.getpid()))
        df.write.format("noop").mode("overwrite").save()

    writer = query.writeStream.foreachBatch(write).trigger(availableNow=True)
    running = writer.option("checkpointLocation", str(checkpoint)).start()
    running.awaitTermination()
    parts = [each["durationMs"] for each in running.recentProgress]
    half = len(batches) // 2
    duration, planning = (
        median(each.get(name, 0) for each in parts[len(parts) - half :]) / 1000
        for name in ("triggerExecution", "queryPlanning")
    )
    end = cpu_s(os.getpid())
    return Run(end - before, end - batches[half], duration, planning)


if __name__ == "__main__":
    main()
