"""Heavy hitters: a SpaceSaving sketch per worker, asked key by key or merged into one.

A worker counts the messages that it gets in a fixed number of counters. With partial key grouping a key has
two workers, and they are known: only their sketches are asked for it, so only their errors add up. The
application is from "Load Balancing for Skewed Streams on Heterogeneous Cluster" (Nasir et al., 2017, section
8.2), which has the error of one sketch and of one per worker, but not that of two per key. The merge is that
of "Space-optimal Heavy Hitters with Strong Error Bounds" (Berinde et al., 2010).

Run it with `python examples/applications/heavy_hitters.py [FOLDER]`. It needs `pip install '.[spark]'`
and Java 17. Stop it and start it again with the same folder: the stream goes on where it was.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss

KEY = "page"
GROUPING = ks.PartialKeyGrouping(workers=8)
CAPACITY = 64  # counters per worker
THRESHOLD = 0.02  # the part of all messages that makes a key a heavy hitter
MESSAGES, BATCHES = 40_000, 6

Sketches = dict[int, ks.SpaceSaving]
Counts = dict[str, tuple[float, float]]


def messages(spark: SparkSession) -> DataFrame:
    """Draw 40,000 visits of 5,000 pages by Zipf's law."""
    pages = [f"page {page}" for page in ks.streams.zipf(1.2, 5_000, MESSAGES, seed=3)]
    return spark.createDataFrame(list(enumerate(pages)), "id long, page string")


def sketching(before: dict[int, bytes]) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """Return what each worker does: it goes on with its sketch, counts its rows and returns the sketch."""

    def sketch(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        worker = TaskContext.get().partitionId()
        own = ks.SpaceSaving.from_bytes(before[worker]) if before else ks.SpaceSaving(CAPACITY)
        for frame in frames:
            own.update(frame[KEY])
        yield pd.DataFrame({"worker": [worker], "sketch": [own.to_bytes()]})

    return sketch


def sketched(placed: DataFrame, before: dict[int, bytes]) -> DataFrame:
    """Return the sketch of each worker, from rows that are in their workers' partitions."""
    return placed.mapInPandas(sketching(before), "worker int, sketch binary")


def collected(sketches: DataFrame) -> dict[int, bytes]:
    """Bring the sketches to the driver."""
    return {row["worker"]: bytes(row["sketch"]) for row in sketches.collect()}


def batch(spark: SparkSession, grouping: ks.Grouping = GROUPING) -> Sketches:
    """Sketch all messages on their workers."""
    placed = kss.online.repartition(messages(spark), KEY, grouping)
    return {
        worker: ks.SpaceSaving.from_bytes(data) for worker, data in collected(sketched(placed, {})).items()
    }


def plain(rows: DataFrame) -> dict[str, int]:
    """Count all keys exactly."""
    return {row[KEY]: row["count"] for row in rows.groupBy(KEY).count().collect()}


def write_input(rows: DataFrame, part: Column, folder: Path) -> None:
    """Write the messages as files, one for each micro-batch, unless they are there."""
    if (folder / "input").exists():
        return
    parts = rows.withColumn("part", part).coalesce(1).write.partitionBy("part")
    parts.mode("overwrite").parquet(str(folder / "new"))
    for number in range(BATCHES):
        for file in (folder / f"new/part={number}").glob("*.parquet"):
            os.utime(file, (number, number))  # a stream reads the oldest file first
    (folder / "new").rename(folder / "input")


def stored(spark: SparkSession, folder: Path) -> DataFrame:
    """Return all messages of the stream, which are those of the first run with a folder."""
    return spark.read.parquet(str(folder / "input/part=*"))


def stream(spark: SparkSession, folder: Path) -> Sketches:
    """Sketch the messages in micro-batches; the folder has the sketches after each of them."""
    rows = messages(spark)
    write_input(rows, F.floor(F.col("id") * BATCHES / MESSAGES), folder)

    def after(number: int) -> DataFrame:
        return spark.read.parquet(str(folder / f"sketches/batch={number}"))

    def count(placed: DataFrame, number: int) -> None:
        """Go on from the batch before. A retry starts from there, too, and replaces what was written."""
        before = collected(after(number - 1)) if number else {}
        sketches = sketched(placed, before)
        sketches.write.mode("overwrite").parquet(str(folder / f"sketches/batch={number}"))

    source = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1)
    files = source.parquet(str(folder / "input/part=*"))
    placed = kss.online.repartition(files, KEY, GROUPING, state=folder / "routers")
    writer = placed.writeStream.foreachBatch(count).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    return {worker: ks.SpaceSaving.from_bytes(data) for worker, data in collected(after(BATCHES - 1)).items()}


def workers_of(key: str, grouping: ks.Grouping) -> list[int]:
    """Return the workers that may have had a key."""
    everywhere = grouping.workers_per_key == "n"
    return list(range(grouping.workers)) if everywhere else grouping.router().candidates(key).tolist()


def asked(sketches: Sketches, grouping: ks.Grouping = GROUPING) -> Counts:
    """Ask the workers of each key that has a counter: its count, and the bound of the error, both added up.

    A sketch never counts too low, and too high by at most its messages over its counters.
    """
    counts = {}
    for key in {key for sketch in sketches.values() for key, _, _ in sketch.top(CAPACITY)}:
        own = [sketches[worker] for worker in workers_of(key, grouping)]
        counts[key] = (
            sum(sketch.estimate(key)[0] for sketch in own),
            sum(sketch.total for sketch in own) / CAPACITY,
        )
    return counts


def merged(sketches: Sketches) -> Counts:
    """Merge all sketches into one: the bound is that of all messages in one sketch, for every key."""
    whole = ks.SpaceSaving(CAPACITY)
    for worker in sorted(sketches):
        whole.merge(sketches[worker])
    return {key: (count, whole.total / CAPACITY) for key, count, _ in whole.top(CAPACITY)}


def heavy(counts: Counts, total: int) -> Counts:
    """Return the keys that may be heavy hitters of so many messages."""
    return {key: found for key, found in counts.items() if found[0] >= THRESHOLD * total}


def right(counts: Counts, sketches: Sketches, exact: dict[str, int]) -> bool:
    """Whether all heavy hitters are found, no other beyond the bound, and each message was counted once."""
    total = sum(exact.values())
    hitters, found = {key for key, n in exact.items() if n >= THRESHOLD * total}, heavy(counts, total)
    return (
        sum(sketch.total for sketch in sketches.values()) == total
        and hitters <= found.keys()
        and all(exact[key] >= THRESHOLD * total - bound for key, (_, bound) in found.items())
        and all(exact[key] <= count <= exact[key] + bound for key, (count, bound) in counts.items())
    )


def main(spark: SparkSession, folder: Path) -> None:
    runs = {"batch": batch(spark), "stream": stream(spark, folder)}
    exacts = {"batch": plain(messages(spark)), "stream": plain(stored(spark, folder))}
    print("grouping     busiest  asked  largest bound  largest error")
    for name in ("key", "partial_key", "shuffle"):
        grouping = ks.grouping(name, workers=GROUPING.workers)
        sketches = runs["batch"] if grouping == GROUPING else batch(spark, grouping)
        counts = asked(sketches, grouping)
        busiest = max(sketch.total for sketch in sketches.values()) * len(sketches) / MESSAGES
        workers = len(workers_of("page 1", grouping))
        error = max(count - exacts["batch"][key] for key, (count, _) in counts.items())
        bound = max(bound for _, bound in counts.values())
        print(f"{name:12}{busiest:8.2f}{workers:7}{bound:15.1f}{error:15.0f}")

    for name, sketches in runs.items():
        counts, whole, exact = asked(sketches), merged(sketches), exacts[name]
        print(f"\n{name}: page, visits, by its two workers (bound), by all merged (bound)")
        found = heavy(counts, sum(exact.values()))
        for key, (count, bound) in sorted(found.items(), key=lambda item: -item[1][0]):
            print(
                f"{key:10}{exact[key]:7}{count:7.0f} ({bound:.0f}){whole[key][0]:8.0f} ({whole[key][1]:.0f})"
            )
        print(f"equal to the exact heavy hitters within the bound, {name}:", right(counts, sketches, exact))
        print(f"equal to them within the bound of the merge, {name}:", right(whole, sketches, exact))


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable  # executors need the driver's interpreter
    session = (
        SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as temporary:
        main(session, Path(sys.argv[1] if len(sys.argv) > 1 else temporary))
    session.stop()
