"""What a plan that adapts brings to streams whose keys change: a table in Markdown.

usage: KEYSPLIT_DATA=FOLDER scripts/with-env python -m keysplit_experiments.measured.adapting
           [--batches 50] [--rows 20000] [--only TEXT]

Each stream goes through Spark once per way, in as many micro-batches of equal size, to 16 workers; the real streams
are short, and so are their micro-batches. The ways:

- hash: all rows of a key on one worker, by its hash.
- frozen: a plan for d_choices, made of the first ten micro-batches.
- adapt: a plan for d_choices that adapts, from nothing.
- fish, consistent: the same, following these groupings.

*Busiest* is the load of the busiest worker over its fair share, in rows per unit of its speed: the mean over
all micro-batches but the first two, the 95th percentile, and the part of the micro-batches above 1.2.
*Learned* is the mean over those from the third after a change of the keys or speeds on, where changes are
known. *Copies* is the mean number of workers that frequent keys have beyond one each, *versions* how many
plans there were, *duration* the median of a micro-batch over that of hash.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss
from keysplit_experiments.measured.files import data_folder, why_left_out

WORKERS, PLANNED, EVERY = 16, 10, 20
SLOW, SLOW_SPEED = 3, 0.3
WAYS = ("hash", "frozen", "adapt", "fish", "consistent")
HEAD = (
    "| stream | way | busiest: mean | 95 % | above 1.2 | learned | copies | versions | duration |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|---:|"
)
FROZEN = {"hash": "key", "frozen": "d_choices"}
# No plan is worth a change.
NEVER = kss.streaming.Adapt(gain=1e9)


@dataclass(frozen=True)
class Keys:
    """A stream.

    Args:
        name: what it is called.
        keys: its keys in order of arrival.
        changes: the micro-batches in which other keys are frequent, or speeds change; None if nobody knows.
        speeds: returns the speed of each worker in a micro-batch.
    """

    name: str
    keys: pa.Array
    changes: tuple[int, ...] | None = None
    speeds: Callable[[int], np.ndarray] = lambda _: np.ones(WORKERS)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--only", default="", help="rows of the table with this in their names")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = session()
    print(HEAD)
    for each in streams(arguments.rows, arguments.batches, data_folder()):
        if arguments.only in each.name:
            base = None
            for way in WAYS:
                found = run(spark, each, way, arguments.rows, arguments.batches)
                base = found.duration_s.median() if base is None else base
                print(line(each, way, found, base), flush=True)
    spark.stop()


def streams(rows: int, batches: int, folder: Path | None) -> Iterator[Keys]:
    """Yield the streams, the real ones as far as there are files."""
    total = rows * batches
    changes = tuple(range(EVERY, batches, EVERY))
    drawn = ks.streams.zipf(1.2, keys=10_000, messages=total, seed=1)
    phase = np.arange(total) // (rows * EVERY)
    yield Keys(f"hottest key changes every {EVERY}", pa.array((drawn + phase * 1_000) % 10_000), changes)

    def slowed(batch: int) -> np.ndarray:
        speeds = np.ones(WORKERS)
        speeds[SLOW] = SLOW_SPEED if batch >= EVERY else 1.0
        return speeds

    yield Keys(f"a worker slows to 30 % at {EVERY}", pa.array(drawn), (EVERY,), slowed)
    for name in ("reviews_movietweetings", "drift_scoop_updates"):
        path = folder / f"{name}.parquet" if folder else None
        if path and path.exists():
            yield Keys(name, pq.read_table(path, columns=["key"])["key"].combine_chunks())
        else:
            print(f"{name} is left out: {why_left_out(name)}", file=sys.stderr)


def run(spark: SparkSession, stream: Keys, way: str, rows: int, batches: int) -> pd.DataFrame:
    """Send a stream through Spark; return the history of its micro-batches, and in `relative` their loads."""
    with tempfile.TemporaryDirectory(prefix="keysplit-adapting-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "in").mkdir()
        rows = min(rows, len(stream.keys) // batches)
        for batch in range(batches):
            ids = np.arange(batch * rows, (batch + 1) * rows)
            path = folder / "in" / f"{batch:05}.parquet"
            keys = stream.keys.slice(batch * rows, rows).cast(pa.string())
            pq.write_table(pa.table({"key": keys, "id": ids}), path)
            os.utime(path, (batch, batch))  # a stream reads the oldest file first
        first = [str(folder / "in" / f"{batch:05}.parquet") for batch in range(min(PLANNED, batches))]
        under_way = [0]
        source = spark.readStream.schema("key string, id bigint").option("maxFilesPerTrigger", 1)
        df = source.parquet(str(folder / "in"))
        if way in FROZEN:
            plan = kss.plan(spark.read.parquet(*first), "key", WORKERS, FROZEN[way], row_id="id")
            routed = kss.streaming.repartition(df, "key", row_id="id", plan=plan, adapt=NEVER)
        else:
            adapt = kss.streaming.Adapt(capacities=lambda: stream.speeds(under_way[0]).tolist())
            grouping = {"adapt": "d_choices"}.get(way, way)
            routed = kss.streaming.repartition(
                df, "key", row_id="id", workers=WORKERS, grouping=grouping, adapt=adapt
            )

        def work(df: DataFrame, batch: int) -> None:
            under_way[0] = batch
            df.agg(F.sum(F.hash("id"))).collect()

        writer = routed.writeStream.foreachBatch(work).trigger(processingTime="0 seconds")
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        with kss.streaming.observe(query) as observer:
            query.processAllAvailable()
            query.stop()
            observer.wait(60)
        history, loads = observer.history(), observer.history("worker")
    history = history[history.input_rows > 0].set_index("batch")
    wide = loads.pivot(index="batch", columns="worker", values="rows").reindex(columns=range(WORKERS))
    relative = {}
    for batch, got in wide.fillna(0).iterrows():
        speeds = stream.speeds(int(batch))
        relative[batch] = float((got.to_numpy() / speeds).max() * speeds.sum() / got.sum())
    return history.assign(relative=pd.Series(relative))


def line(stream: Keys, way: str, found: pd.DataFrame, base: float) -> str:
    """Return a line of the table."""
    loads = found.relative[found.index >= 2]
    learned = "-"
    if stream.changes is not None:
        starts = [0, *stream.changes]
        since = found.index.to_series().map(lambda at: at - max(each for each in starts if each <= at))
        learned = f"{found.relative[since >= 2].mean():.2f}"
    above = f"{(loads > 1.2).mean():.0%}"
    return (
        f"| {stream.name} | {way} | {loads.mean():.2f} | {loads.quantile(0.95):.2f} | {above} "
        f"| {learned} | {found.copies.mean():.0f} | {found.version.nunique()} "
        f"| {found.duration_s.median() / base:.2f} |"
    )


def session() -> SparkSession:
    """Return a session on two cores."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(WORKERS))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
