"""Jobs whose cause of slowness is known, for `keysplit diagnose`.

    scripts/with-env python tests/spark/skewed_jobs.py FOLDER             # runs them, prints a table
    scripts/with-env python tests/spark/skewed_jobs.py FOLDER --keep FILE [JOB ...]   # keeps their log, too

Each row costs a millisecond of sleep, so that skew shows on any machine, and four tasks run at once on one
core.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import keysplit as ks

ROWS, HOT = 3000, 2600
SLOTS = 4
PARTITIONS = 8
SLEEP = "reflect('java.lang.Thread', 'sleep', {}L)"


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
    kept: bool = True  # whether the logs that are kept have it


JOBS: dict[str, Job] = {}
FEW = ("join", "apply", "sums")  # what is in kept logs of formats that compress less


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


def slowly(df: DataFrame, milliseconds: int = 1) -> DataFrame:
    """So many milliseconds per row, in the tasks that make the rows."""
    return df.withColumn("slept", F.expr(SLEEP.format(milliseconds)))


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


@job(
    "join",
    "user",
    line='kss.join(left, right.withColumnRenamed("name", "user"), on="user", how="left"',
    adaptive="skewedPartitionThresholdInBytes",
)
def join_left(spark: SparkSession, folder: Path) -> None:
    consume(
        slowly(
            skewed(spark).join(users(spark).withColumnRenamed("user", "name"), F.expr("user = name"), "left")
        )
    )


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


@job(
    "window",
    "user",
    line='kss.window(df, F.row_number().over(Window.partitionBy("user").orderBy("n")).alias("place")',
    adaptive="joins only",
)
def window(spark: SparkSession, folder: Path) -> None:
    consume(
        slowly(
            skewed(spark).withColumn("place", F.row_number().over(Window.partitionBy("user").orderBy("n")))
        )
    )


@job("write", "user", line='kss.write(df, "user"', adaptive="explicit")
def write(spark: SparkSession, folder: Path) -> None:
    df = skewed(spark, HOT + 40)
    slowly(df.repartition(PARTITIONS, "user")).write.partitionBy("user").mode("overwrite").parquet(
        f"{folder}/table"
    )


@job("repartition", "user", line='kss.repartition(df, "user"', adaptive="explicit")
def repartition(spark: SparkSession, folder: Path) -> None:
    df = skewed(spark).repartition(PARTITIONS, "user")
    consume(df.mapInPandas(sleep_per_batch, df.schema))


# in Spark 3.5 the state does not go through newer versions of pyarrow
@job("stateful stream", "user", line='kss.streaming.apply(df, "user"', adaptive="never", since=(4, 0))
def stream(spark: SparkSession, folder: Path) -> None:
    skewed(spark).write.mode("overwrite").parquet(f"{folder}/stream")

    def counts(key: Any, frames: Any, state: Any) -> Any:
        rows = sum(len(frame) for frame in frames)
        time.sleep(rows / 500)
        state.update((rows,))
        yield pd.DataFrame({"user": [key[0]], "rows": [rows]})

    df = spark.readStream.schema("user string, n long, country long").parquet(f"{folder}/stream")
    from pyspark.sql.streaming.state import GroupStateTimeout

    made = df.groupBy("user").applyInPandasWithState(
        counts, "user string, rows long", "rows long", "append", GroupStateTimeout.NoTimeout
    )
    run(made, folder, "append", "stream")


@job("stateful stream", "user", line='kss.streaming.apply(df, "user"', adaptive="never")
def stream_lists(spark: SparkSession, folder: Path) -> None:
    skewed(spark).write.mode("overwrite").parquet(f"{folder}/lists")
    df = spark.readStream.schema("user string, n long, country long").parquet(f"{folder}/lists")
    lists = df.groupBy("user").agg(F.collect_list("n").alias("all"))
    run(slowly(lists.select("user", F.explode("all"))), folder, "complete", "stream_lists")


@job(
    "stateful stream",
    "user",
    line='kss.streaming.join(left, right, on="user"',
    adaptive="never",
    since=(4, 3),
)
def stream_join(spark: SparkSession, folder: Path) -> None:
    skewed(spark).write.mode("overwrite").parquet(f"{folder}/clicks")
    users(spark).write.mode("overwrite").parquet(f"{folder}/users")
    clicks = spark.readStream.schema("user string, n long, country long").parquet(f"{folder}/clicks")
    names = spark.readStream.schema("user string, number long").parquet(f"{folder}/users")
    # Each task writes down four states, which on a busy machine takes it a second or two.
    run(slowly(clicks.join(names, "user"), 3), folder, "append", "stream_join")


def run(df: DataFrame, folder: Path, mode: str, name: str) -> None:
    """Run a stream to its end."""
    checkpoint = f"{folder}/checkpoint-{time.monotonic_ns()}"
    writer = df.writeStream.outputMode(mode).format("noop").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).queryName(name).start().awaitTermination()


@job()
def sums(spark: SparkSession, folder: Path) -> None:
    df = skewed(spark, 400_000, 350_000)
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


@job("scan", kept=False)
def orc(spark: SparkSession, folder: Path) -> None:
    """As the files before, in a format that is read in batches of rows."""
    path = f"{folder}/orc"
    spark.range(0, HOT, 1, 1).write.mode("overwrite").orc(path)
    for _ in range(5):
        spark.range(0, 20, 1, 1).write.mode("append").orc(path)
    consume(slowly(spark.read.orc(path)))


@job("rebalance", "user", adaptive="advisoryPartitionSizeInBytes", kept=False)
def rebalance(spark: SparkSession, folder: Path) -> None:
    consume(slowly(skewed(spark).hint("rebalance", "user")))


@job("other", kept=False)
def rdd(spark: SparkSession, folder: Path) -> None:
    def slow(pair: Any) -> Any:
        time.sleep(len(pair[1]) / 1000)
        return pair[0]

    pairs = spark.sparkContext.range(0, ROWS, 1, 6).map(lambda n: ("hot" if n < HOT else n, os.urandom(20)))
    pairs.groupByKey(PARTITIONS).map(slow).count()


@job(kept=False)
def single(spark: SparkSession, folder: Path) -> None:
    """No task waits for another: there is one."""
    order = Window.orderBy("n")
    consume(slowly(even(spark).withColumn("place", F.row_number().over(order))))


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


def open_session(folder: Path, **more: str) -> SparkSession:
    """Open a session that writes an event log into a folder."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.master(f"local[{SLOTS}]").appName("skewed jobs")
    settings = {
        **BASE,
        "spark.eventLog.dir": folder.absolute().as_uri(),
        "spark.sql.warehouse.dir": f"{folder.absolute()}/warehouse",
        **more,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    start_workers(spark)
    return spark


def start_workers(spark: SparkSession) -> None:
    """Start the Python workers, which takes longer than the jobs."""
    df = even(spark)
    df.groupBy("user").applyInPandas(lambda rows: rows, df.schema).count()


def jobs_of(spark: SparkSession) -> list[str]:
    """Return the jobs that this version of Spark can run."""
    version = tuple(map(int, spark.version.split(".")[:2]))
    return [name for name, job in JOBS.items() if job.since <= version]


def findings_of(diagnosis: Any, name: str) -> list[Any]:
    """Return what was found in a job."""
    return [each for each in diagnosis.findings if each.query in (name, f"stream {name}, batch 0")]


def is_right(job: Job, found: list[Any], *, stalled: bool = False) -> bool:
    """Whether what was found is what is to be found, and nothing else.

    With `stalled`, nothing is said against tasks that are slow without having more rows, where the job has
    none of them: a busy machine stalls tasks, which is found rightly.
    """
    if stalled:
        found = [each for each in found if each.cause in ("rows", "matches", job.cause)]
    if job.operator is None:
        return not found
    if len(found) != 1:
        return False
    (of,) = found
    line = (of.line or "").startswith(job.line) if job.line else of.line is None
    same = (of.operator, of.columns, of.cause) == (job.operator, job.columns, job.cause)
    return same and line and job.adaptive in of.adaptive


def table(diagnosis: Any, names: list[str]) -> Iterator[str]:
    """Return a row per job, in Markdown: what was done, what was found, and what it says to do."""
    yield "| job | the true cause | found | to paste | right |"
    yield "|---|---|---|---|---|"
    for name in names:
        job, found = JOBS[name], findings_of(diagnosis, name)
        by = f" by {', '.join(job.columns)}" if job.columns else ""
        cause = f"{job.operator}{by}: {job.cause}" if job.operator else "nothing"
        seen = "; ".join(f"{each.what}: {each.cause}" for each in found) or "nothing"
        lines = "; ".join(f"`{each.line}`" if each.line else "nothing of ours" for each in found)
        right = "yes" if is_right(job, found, stalled=True) else "**no**"
        yield f"| {name} | {cause} | {seen} | {lines} | {right} |"


_PROPERTIES = (
    "spark.sql.execution.id",
    "spark.sql.adaptive.",
    "spark.job.",
    "sql.streaming.",
    "streaming.sql.",
)
_DROPPED = (
    "RDD Info",
    "Details",
    "details",
    "physicalPlanDescription",
    "metadata",
    "Stage Infos",
    "Storage Level",
)
_DROPPED += ("Internal", "Count Failed Values", "Metadata", "metricType", "modifiedConfigs", "Updated Blocks")
_KEPT = (
    "LogStart",
    "ApplicationStart",
    "ApplicationEnd",
    "EnvironmentUpdate",
    "ExecutorAdded",
    "JobStart",
    "StageSubmitted",
)
_KEPT += ("StageCompleted", "TaskEnd", "SQLExecutionStart", "SQLAdaptiveExecutionUpdate", "SQLExecutionEnd")


def trimmed(lines: Iterable[bytes], folder: str) -> Iterator[bytes]:
    """Return the lines of an event log without what says nothing of the jobs."""
    events = [json.loads(line.replace(folder.encode(), b"/data")) for line in lines]
    last = {
        event["executionId"]: event for event in events if event["Event"].endswith("AdaptiveExecutionUpdate")
    }
    for event in events:
        kind = event["Event"].rpartition(".")[2].removeprefix("SparkListener")
        if kind not in _KEPT or (
            kind == "SQLAdaptiveExecutionUpdate" and event is not last[event["executionId"]]
        ):
            continue
        if kind == "EnvironmentUpdate":
            settings = {key: value for key, value in event["Spark Properties"].items() if key in BASE}
            event = {"Event": event["Event"], "Spark Properties": settings}
        if kind == "ApplicationStart":
            event["User"] = "someone"
        yield json.dumps(cut(event), separators=(",", ":")).encode() + b"\n"


def cut(value: Any, within: str = "") -> Any:
    if isinstance(value, dict):
        kept = {key: cut(each, key) for key, each in value.items() if key not in _DROPPED}
        if within == "Properties":
            return {key: each for key, each in kept.items() if key.startswith(_PROPERTIES)}
        if within in ("Task Executor Metrics", "Task Metrics"):
            return {key: each for key, each in kept.items() if each}
        return kept
    if isinstance(value, list):
        sql = within != "Accumulables"
        return [cut(each) for each in value if sql or not each["Name"].startswith("internal.")]
    return value


def keep(jvm: Any, lines: Iterator[bytes], folder: Path, path: Path) -> None:
    """Write a trimmed log as Spark compresses it."""
    conf = jvm.org.apache.spark.SparkConf(False).set("spark.io.compression.zstd.level", "19")
    codec = jvm.org.apache.spark.io.CompressionCodec.createCodec(conf, path.suffix[1:])
    stream = codec.compressedContinuousOutputStream(jvm.java.io.FileOutputStream(str(path.absolute())))
    kept = b"".join(trimmed(lines, str(folder.absolute())))
    stream.write(kept[: len(kept) // 2])
    stream.flush()  # as Spark does while a log is written
    stream.write(kept[len(kept) // 2 :])
    stream.close()


def main(folder: str, option: str = "", file: str = "", *jobs: str) -> None:
    from keysplit.diagnosis.files import find_logs

    place = Path(folder)
    spark = open_session(place / "log")
    names = list(jobs) or jobs_of(spark)
    for name in names:
        make(spark, name, place.absolute() / "data")
    jvm = spark.sparkContext._jvm
    spark.stop()
    if option == "--keep":
        (log,) = find_logs(place / "log")
        keep(jvm, log.lines(print), place, Path(file))
    print("\n".join(table(ks.diagnose(file or place / "log"), names)))


if __name__ == "__main__":
    main(*sys.argv[1:])
