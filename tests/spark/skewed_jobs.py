"""Jobs whose cause of slowness is known, for `keysplit diagnose`. Run as a program, it writes their event log.

    scripts/with-env python tests/spark/skewed_jobs.py FOLDER [NAME ...]

Each row costs a millisecond of sleep, so that skew shows on any machine and four tasks run at once on one core.
"""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

ROWS, HOT = 2200, 1800
SLOTS = 4
PARTITIONS = 8
SLEEP = "reflect('java.lang.Thread', 'sleep', 1L)"


@dataclass(frozen=True)
class Job:
    """A job, and what is to be found in it."""

    run: Callable[[SparkSession, Path], None]
    operator: str | None = None  # None: nothing is to be found
    columns: tuple[str, ...] = ()
    cause: str = "rows"
    line: str | None = None  # how the line to paste begins; None if nothing of keysplit's helps
    adaptive: str = ""  # a word of the reason why adaptive execution did not help
    conf: dict[str, str] = field(default_factory=dict)
    since: tuple[int, int] = (3, 5)


JOBS: dict[str, Job] = {}


def job(operator: str | None = None, *columns: str, **expected: Any) -> Callable[..., Any]:
    def add(run: Callable[[SparkSession, Path], None]) -> Callable[[SparkSession, Path], None]:
        JOBS[run.__name__] = Job(run, operator, columns, **expected)
        return run

    return add


def skewed(spark: SparkSession, rows: int = ROWS, hot: int = HOT) -> DataFrame:
    """Rows of one hot user and of some hundred others, in six partitions."""
    user = f"IF(id < {hot}, 'hot', CONCAT('user ', id))"
    return spark.range(0, rows, 1, 6).selectExpr(f"{user} AS user", "id AS n", "id % 3 AS country")


def even(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 6).selectExpr("CONCAT('user ', id % 400) AS user", "id AS n")


def users(spark: SparkSession) -> DataFrame:
    """A row for each user."""
    user = f"IF(id = 0, 'hot', CONCAT('user ', id + {HOT - 1}))"
    return spark.range(0, ROWS - HOT + 1, 1, 6).selectExpr(f"{user} AS user", "id AS number")


def consume(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def slowly(df: DataFrame) -> DataFrame:
    """A millisecond per row, in the tasks that make the rows."""
    return df.withColumn("slept", F.expr(SLEEP))


def sleep_of(rows: pd.DataFrame) -> pd.DataFrame:
    time.sleep(len(rows) / 1000)
    return rows.iloc[:1]


def sleep_per_batch(batches: Any) -> Any:
    for batch in batches:
        time.sleep(len(batch) / 1000)
        yield batch


@job("join", "user", line='kss.join(left, right, on="user"', adaptive="skewedPartitionThresholdInBytes")
def join(spark: SparkSession, folder: Path) -> None:
    consume(slowly(skewed(spark).join(users(spark), "user")))


@job("join", "user", line='kss.join(left, right, on="user", how="left"', adaptive="skewedPartitionThresholdInBytes")
def join_left(spark: SparkSession, folder: Path) -> None:
    consume(slowly(skewed(spark).join(users(spark).withColumnRenamed("user", "name"), F.expr("user = name"), "left")))


@job("join", "user", line='kss.join(left, right, on="user", how="full"', adaptive="full outer")
def join_full(spark: SparkSession, folder: Path) -> None:
    consume(slowly(skewed(spark).join(users(spark), "user", "full")))


@job("join", "user", line='kss.join(left, right, on="user"', adaptive="HashAggregate between")
def join_with_an_aggregate(spark: SparkSession, folder: Path) -> None:
    consume(slowly(skewed(spark).join(users(spark).groupBy("user").count(), "user")))


@job(
    conf={
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1000",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.5",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1000",
    },
)
def join_that_adaptive_execution_splits(spark: SparkSession, folder: Path) -> None:
    consume(slowly(skewed(spark).join(users(spark), "user")))


@job(
    "join",
    "user",
    line='kss.join(left, right, on="user"',
    adaptive="another shuffle",
    conf={
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1000",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.5",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1000",
    },
)
def join_then_window(spark: SparkSession, folder: Path) -> None:
    joined = slowly(skewed(spark).join(users(spark), "user"))
    consume(joined.withColumn("place", F.row_number().over(Window.partitionBy("user").orderBy("n"))))


@job("aggregate", "user", adaptive="joins only")
def collect_list(spark: SparkSession, folder: Path) -> None:
    lists = skewed(spark).groupBy("user").agg(F.collect_list("n").alias("all"))
    consume(slowly(lists.select("user", F.explode("all"))))


@job("python group", "user", line='kss.apply(df, "user"', adaptive="joins only")
def apply(spark: SparkSession, folder: Path) -> None:
    df = skewed(spark)
    consume(df.groupBy("user").applyInPandas(sleep_of, df.schema))


@job("python group", "user", "country", line='kss.apply(df, ["user", "country"]', adaptive="joins only")
def apply_by_two_keys(spark: SparkSession, folder: Path) -> None:
    df = skewed(spark).withColumn("country", F.lit(1))
    df = df.withColumn("country", F.expr("IF(n >= 0, country, -1)"))
    consume(df.groupBy("user", "country").applyInPandas(sleep_of, df.schema))


@job("python group", "user", line='kss.apply(df, "user"', adaptive="joins only")
def pandas_aggregate(spark: SparkSession, folder: Path) -> None:
    def slow(values: pd.Series) -> float:
        time.sleep(len(values) / 1000)
        return float(values.mean())

    consume(skewed(spark).groupBy("user").agg(F.pandas_udf(slow, "double")("n")))


@job("python group", "user", adaptive="joins only")
def cogroup(spark: SparkSession, folder: Path) -> None:
    def both(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        return sleep_of(left)

    left, right = skewed(spark), users(spark)
    consume(left.groupBy("user").cogroup(right.groupBy("user")).applyInPandas(both, left.schema))


@job("window", "user", adaptive="joins only")
def window(spark: SparkSession, folder: Path) -> None:
    consume(slowly(skewed(spark).withColumn("place", F.row_number().over(Window.partitionBy("user").orderBy("n")))))


@job("write", "user", line='kss.write(df, "user"', adaptive="explicit")
def write(spark: SparkSession, folder: Path) -> None:
    df = skewed(spark, ROWS - 360)
    slowly(df.repartition(PARTITIONS, "user")).write.partitionBy("user").mode("overwrite").parquet(f"{folder}/table")


@job("repartition", "user", line='kss.repartition(df, "user"', adaptive="explicit")
def repartition(spark: SparkSession, folder: Path) -> None:
    df = skewed(spark).repartition(PARTITIONS, "user")
    consume(df.mapInPandas(sleep_per_batch, df.schema))


@job("stateful stream", "user", line='kss.streaming.apply(df, "user"', adaptive="never")
def stream(spark: SparkSession, folder: Path) -> None:
    skewed(spark).write.mode("overwrite").parquet(f"{folder}/stream")

    def counts(key: Any, frames: Any, state: Any) -> Any:
        rows = sum(len(frame) for frame in frames)
        time.sleep(rows / 1000)
        state.update((rows,))
        yield pd.DataFrame({"user": [key[0]], "rows": [rows]})

    df = spark.readStream.schema("user string, n long, country long").parquet(f"{folder}/stream")
    from pyspark.sql.streaming.state import GroupStateTimeout

    made = df.groupBy("user").applyInPandasWithState(
        counts, "user string, rows long", "rows long", "append", GroupStateTimeout.NoTimeout
    )
    run(made, folder, "append")


@job("stateful stream", "user", line='kss.streaming.aggregate(df, "user"', adaptive="never")
def stream_lists(spark: SparkSession, folder: Path) -> None:
    skewed(spark).write.mode("overwrite").parquet(f"{folder}/lists")
    df = spark.readStream.schema("user string, n long, country long").parquet(f"{folder}/lists")
    lists = df.groupBy("user").agg(F.collect_list("n").alias("all"))
    run(slowly(lists.select("user", F.explode("all"))), folder, "complete")


def run(df: DataFrame, folder: Path, mode: str) -> None:
    """Run a stream to its end."""
    checkpoint = f"{folder}/checkpoint-{time.monotonic_ns()}"
    writer = df.writeStream.outputMode(mode).format("noop").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


@job()
def sums(spark: SparkSession, folder: Path) -> None:
    df = skewed(spark, 3_000_000, 2_500_000)
    consume(df.groupBy("user").agg(F.sum("n"), F.count("*"), F.max("n")))


@job()
def balanced(spark: SparkSession, folder: Path) -> None:
    df = even(spark)
    consume(df.groupBy("user").applyInPandas(sleep_of, df.schema))


@job()
def balanced_join(spark: SparkSession, folder: Path) -> None:
    consume(slowly(even(spark).join(even(spark).select("user").distinct(), "user")))


@job("scan", cause="time")
def slow_task(spark: SparkSession, folder: Path) -> None:
    """All tasks get the same rows, and one of them is on a bad machine."""
    from pyspark import TaskContext

    def slow_in_one(batches: Any) -> Any:
        for batch in batches:
            context = TaskContext.get()
            time.sleep(2.5 if context is not None and context.partitionId() == 3 else 0.2)
            yield batch

    df = even(spark)
    consume(df.mapInPandas(slow_in_one, df.schema))


@job("scan")
def cached(spark: SparkSession, folder: Path) -> None:
    """One partition of the cache has nearly all rows."""
    df = skewed(spark).repartition(PARTITIONS, "user").cache()
    try:
        df.count()
        consume(df.mapInPandas(sleep_per_batch, df.schema))
    finally:
        df.unpersist()


@job("scan")
def files(spark: SparkSession, folder: Path) -> None:
    """One file, which cannot be cut, has nearly all rows."""
    df = skewed(spark).withColumn("part", F.expr("IF(user = 'hot', 0, n % 5)"))
    path = f"{folder}/files"
    df.repartition(1).write.partitionBy("part").option("compression", "gzip").mode("overwrite").csv(path)
    consume(spark.read.csv(path).mapInPandas(sleep_per_batch, "_c0 string, _c1 string, _c2 string, part int"))


BASE = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(PARTITIONS),
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.files.openCostInBytes": "134217728",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.eventLog.enabled": "true",
}


def make(spark: SparkSession, name: str, folder: Path) -> None:
    """Run a job under its name."""
    before = {key: spark.conf.get(key, None) for key in JOBS[name].conf}
    for key, value in JOBS[name].conf.items():
        spark.conf.set(key, value)
    spark.sparkContext.setJobDescription(name)
    try:
        JOBS[name].run(spark, folder)
    finally:
        spark.sparkContext.setJobDescription(None)
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def main(folder: str, *names: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    place = Path(folder).absolute()
    place.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.master(f"local[{SLOTS}]").appName("skewed jobs")
    for key, value in BASE.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.eventLog.dir", place.as_uri())
    spark = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # the first Python workers take their time to start
    df = even(spark)
    df.repartition(PARTITIONS).mapInPandas(lambda batches: batches, df.schema).count()
    for name in names or JOBS:
        began = time.monotonic()
        make(spark, name, place / "data")
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
