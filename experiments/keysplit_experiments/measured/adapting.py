"""What a plan that adapts brings to streams whose keys change: a table in Markdown.

usage: KEYSPLIT_DATA=FOLDER scripts/with-env python -m keysplit_experiments.measured.adapting
           [--workers 16] [--batches 50] [--every 20] [--rows 20000] [--only TEXT] [--emulated]

Each stream goes through Spark once per way, in as many micro-batches of equal size; the real streams are
short, and so are their micro-batches. The ways:

- hash: all rows of a key on one worker, by its hash.
- frozen: a plan for d_choices, made of the micro-batches of half the time to the first change.
- adapt: a plan for d_choices that adapts, from nothing.
- fish, consistent: the same, following these groupings.
- within: a plan for d_choices of each micro-batch, made in `foreachBatch` from a sample of its own rows.
- online fish, online consistent: each row as it comes, by a router that goes on from micro-batch to
  micro-batch. It is not told of speeds.

*Busiest* is the load of the busiest worker over its fair share, in rows per unit of its speed: the mean over
all micro-batches but the first two, the 95th percentile, and the part of the micro-batches above 1.2.
*Learned* is the mean over those from the third after a change of the keys or speeds on, where changes are
known. *Copies* is the mean number of workers that frequent keys have beyond one each, *versions* how many
plans there were, *duration* the median of a micro-batch over that of hash.

With --emulated each worker is a task that sleeps a millisecond per row, as many at once as there are workers:
a cluster of so many cores. Speeds are measured then, not told, and *within* and *online* are left out. *Busy*
is the time of the busiest worker over the mean of all. The synthetic streams alone are long enough.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit_experiments.measured.files import data_folder, why_left_out

SLOW, SLOW_SPEED = 3, 0.3
SERVICE_TIME_S = 0.001
WITHIN, ONLINE = "within", "online "
WAYS = ("hash", "frozen", "adapt", "fish", "consistent", WITHIN, f"{ONLINE}fish", f"{ONLINE}consistent")
HEAD = (
    "| stream | way | busiest: mean | 95 % | above 1.2 | learned |{} copies | versions | duration |\n"
    "|---|---|---:|---:|---:|---:|{}---:|---:|---:|"
)
FROZEN = {"hash": "key", "frozen": "d_choices"}


@dataclass(frozen=True)
class Setting:
    """What all streams have in common.

    Args:
        workers: their workers.
        batches: their micro-batches.
        every: after so many the keys or the speeds change.
        rows: the rows of a micro-batch.
        emulated: whether workers sleep.
    """

    workers: int
    batches: int
    every: int
    rows: int
    emulated: bool


@dataclass(frozen=True)
class Keys:
    """A stream.

    Args:
        name: what it is called.
        keys: its keys in order of arrival.
        changes: the micro-batches in which other keys are frequent, or speeds change; None if unknown.
        speeds: returns the speed of each worker in a micro-batch; None if all are equal.
    """

    name: str
    keys: pa.Array
    changes: tuple[int, ...] | None = None
    speeds: Callable[[int], np.ndarray] | None = None

    def speeds_in(self, batch: int, setting: Setting) -> np.ndarray:
        """Return the speed of each worker in a micro-batch."""
        return np.ones(setting.workers) if self.speeds is None else self.speeds(batch)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--only", default="", help="rows of the table with this in their names")
    parser.add_argument("--emulated", action="store_true", help="workers sleep; as many run at once")
    arguments = vars(parser.parse_args())
    only, setting = arguments.pop("only"), Setting(**arguments)
    if setting.workers <= SLOW:
        parser.error(f"--workers must be above {SLOW}, got {setting.workers}")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = session(setting)
    print(HEAD.format(" busy |", "---:|") if setting.emulated else HEAD.format("", ""))
    for each in streams(setting, data_folder()):
        if only in each.name:
            base = None
            for way in WAYS:
                if setting.emulated and not is_observed(way):
                    continue
                found = run(spark, each, way, setting)
                base = found.duration_s.median() if base is None else base
                print(line(each, way, found, base, setting), flush=True)
    spark.stop()


def streams(setting: Setting, folder: Path | None) -> Iterator[Keys]:
    """Yield the streams, the real ones as far as there are files."""
    every, total = setting.every, setting.rows * setting.batches
    changes = tuple(range(every, setting.batches, every))
    drawn = ks.streams.zipf(1.2, keys=10_000, messages=total, seed=1)
    phase = np.arange(total) // (setting.rows * every)
    yield Keys(f"hottest key changes every {every}", pa.array((drawn + phase * 1_000) % 10_000), changes)

    def slowed(batch: int) -> np.ndarray:
        speeds = np.ones(setting.workers)
        speeds[SLOW] = SLOW_SPEED if batch >= every else 1.0
        return speeds

    yield Keys(f"a worker slows to 30 % at {every}", pa.array(drawn), (every,), slowed)
    if setting.emulated:
        return
    for name in ("reviews_movietweetings", "drift_scoop_updates"):
        path = folder / f"{name}.parquet" if folder else None
        if path and path.exists():
            yield Keys(name, pq.read_table(path, columns=["key"])["key"].combine_chunks())
        else:
            print(f"{name} is left out: {why_left_out(name)}", file=sys.stderr)


def is_observed(way: str) -> bool:
    """Whether `kss.streaming.observe` knows the loads of workers; else they are counted downstream."""
    return way != WITHIN and not way.startswith(ONLINE)


def run(spark: SparkSession, stream: Keys, way: str, setting: Setting) -> pd.DataFrame:
    """Send a stream through Spark; return the history of its micro-batches, and in `relative` their loads."""
    batches, workers = setting.batches, setting.workers
    with tempfile.TemporaryDirectory(prefix="keysplit-adapting-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "in").mkdir()
        rows = min(setting.rows, len(stream.keys) // batches)
        for batch in range(batches):
            ids = np.arange(batch * rows, (batch + 1) * rows)
            path = folder / "in" / f"{batch:05}.parquet"
            keys = stream.keys.slice(batch * rows, rows).cast(pa.string())
            pq.write_table(pa.table({"key": keys, "id": ids}), path)
            os.utime(path, (batch, batch))  # a stream reads the oldest file first
        learned = min(max(setting.every // 2, 1), batches)
        first = [str(folder / "in" / f"{batch:05}.parquet") for batch in range(learned)]
        under_way = [0]
        source = spark.readStream.schema("key string, id bigint").option("maxFilesPerTrigger", 1)
        df = source.parquet(str(folder / "in"))

        def told() -> list[float]:
            return list(stream.speeds_in(under_way[0], setting))

        capacities: Any = "measured" if setting.emulated else told
        if way in FROZEN:
            plan = kss.plan(spark.read.parquet(*first), "key", workers, grouping=FROZEN[way], row_id="id")
            # no plan is worth a change
            never = kss.streaming.Adapt(start=plan, gain=1e9, capacities=capacities)
            routed = kss.streaming.repartition(df, "key", plan=never)
        elif way == WITHIN:
            routed = df
        elif way.startswith(ONLINE):
            grouping = ks.grouping(way.removeprefix(ONLINE), workers=workers)
            routed = kss.online.repartition(df, "key", grouping, state=folder / "routers")
        else:
            name = {"adapt": "d_choices"}.get(way, way)
            adapt = kss.streaming.Adapt(workers, grouping=name, row_id="id", capacities=capacities)
            routed = kss.streaming.repartition(df, "key", plan=adapt)
        planned: dict[int, kss.Plan | None] = {}
        counted: list[pd.DataFrame] = []

        def work(df: DataFrame, batch: int) -> None:
            under_way[0] = batch
            if not is_observed(way):
                planned[batch] = plan = None
                if way == WITHIN:
                    planned[batch] = plan = kss.plan(df, "key", workers, row_id="id", capacities=told())
                    df = kss.repartition(df, "key", plan=plan)
                found = df.groupBy(F.spark_partition_id().alias("worker")).agg(F.count("*").alias("rows"))
                counted.append(found.toPandas().assign(batch=batch))
            elif setting.emulated:
                rows = df.mapInPandas(asleep(stream.speeds_in(batch, setting)), df.schema)
                rows.write.format("noop").mode("overwrite").save()
            else:
                df.agg(F.sum(F.hash("id"))).collect()

        writer = routed.writeStream.foreachBatch(work).trigger(processingTime="0 seconds")
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        if not is_observed(way):
            query.processAllAvailable()
            history = plans_of(query.recentProgress, planned)
            query.stop()
            loads = pd.concat(counted)
        else:
            with kss.streaming.observe(query) as observer:
                query.processAllAvailable()
                query.stop()
                observer.wait(60)
            history, loads = observer.history(), observer.history("worker")
            history = history[history.input_rows > 0].set_index("batch")
    wide = loads.pivot(index="batch", columns="worker", values="rows").reindex(columns=range(workers))
    relative = {}
    for batch, got in wide.fillna(0).iterrows():
        speeds = stream.speeds_in(int(batch), setting)
        relative[batch] = float((got.to_numpy() / speeds).max() * speeds.sum() / got.sum())
    if not is_observed(way):
        return history.assign(relative=pd.Series(relative))
    times = loads.groupby("batch").busy_s
    return history.assign(relative=pd.Series(relative), busy=times.max() / times.mean())


def plans_of(progress: Sequence[Mapping[str, Any]], planned: Mapping[int, kss.Plan | None]) -> pd.DataFrame:
    """Return the history of micro-batches that each had a plan of their own, or none."""
    times = {each["batchId"]: each["durationMs"]["triggerExecution"] / 1000 for each in progress}
    rows = [
        {
            "batch": batch,
            "version": batch if plan else None,
            "copies": sum(len(each.workers) - 1 for each in plan.head) if plan else None,
            "duration_s": times[batch],
        }
        for batch, plan in planned.items()
    ]
    return pd.DataFrame(rows).set_index("batch")


def asleep(speeds: np.ndarray) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """Return what sleeps as long as workers of these speeds would work."""

    def sleep(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            time.sleep(float((SERVICE_TIME_S / speeds[frame.worker]).sum()))
            yield frame

    return sleep


def line(stream: Keys, way: str, found: pd.DataFrame, base: float, setting: Setting) -> str:
    """Return a line of the table."""
    loads = found.relative[found.index >= 2]
    learned = "-"
    if stream.changes is not None:
        starts = [0, *stream.changes]
        since = found.index.to_series().map(lambda at: at - max(each for each in starts if each <= at))
        learned = f"{found.relative[since >= 2].mean():.2f}"
    busy = f" {found.busy[found.index >= 2].mean():.2f} |" if setting.emulated else ""
    above = f"{(loads > 1.2).mean():.0%}"
    is_planned = found.version.notna().any()
    copies, versions = (f"{found.copies.mean():.0f}", found.version.nunique()) if is_planned else ("-", "-")
    return (
        f"| {stream.name} | {way} | {loads.mean():.2f} | {loads.quantile(0.95):.2f} | {above} "
        f"| {learned} |{busy} {copies} | {versions} "
        f"| {found.duration_s.median() / base:.2f} |"
    )


def session(setting: Setting) -> SparkSession:
    """Return a session on two cores, or on as many emulated ones as there are workers."""
    spark = (
        SparkSession.builder.master(f"local[{setting.workers if setting.emulated else 2}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(setting.workers))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
