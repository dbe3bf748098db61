"""Votes per region, a few of each phone: Python functions with state over few keys, one with most rows.

"Adaptive key partitioning in distributed stream processing" (Liu et al., 2024, section 6.1.1) aggregates the
data of voters by region. As in the Voter benchmark of databases, a phone may vote a few times only: its first
votes count, all others are rejected. A part of a region's votes is reduced to the first votes of each phone,
and so are several parts together. So the votes of a large region need not be on one worker.

Run it with `python examples/applications/votes.py [FOLDER]`. It needs `pip install '.[spark]'` and
Java 17. Stop it and start it again with the same folder: the stream goes on where it was.
"""

import os
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss

KEY = "region"
WORKERS, FILES = 8, 6
VOTES, REGIONS, PHONES, CONTESTANTS = 30_000, 40, 5_000, 6
LIMIT = 2  # votes of a phone
COUNTED = "region string, contestant string, votes bigint"
FIRST = "id bigint, phone bigint, contestant string"


def messages(spark: SparkSession) -> DataFrame:
    """Draw votes of half an hour: 60 % are of one region."""
    regions = ks.streams.zipf(ks.streams.zipf_exponent(REGIONS, 0.6), REGIONS, VOTES, seed=3)
    phones = regions * PHONES + ks.streams.zipf(0.8, PHONES, VOTES, seed=4)
    fans = (ks.streams.zipf(0.7, CONTESTANTS, VOTES, seed=5) + regions) % CONTESTANTS
    rows = pd.DataFrame({"id": np.arange(VOTES), "phone": phones})
    rows["region"] = pd.Series(regions).map("region {}".format)
    rows["contestant"] = pd.Series(fans).map("ABCDEF".__getitem__)
    votes = spark.createDataFrame(rows, "id bigint, phone bigint, region string, contestant string")
    return votes.withColumn("at", at())


def at() -> Column:
    """Return the time of a vote, by its number."""
    return F.timestamp_seconds(F.lit(1_700_000_000 // 3_600 * 3_600) + F.col("id") * 1_800 / VOTES)


def ten_minutes() -> Column:
    """Return the window of a vote."""
    return F.window("at", "10 minutes")


def first_votes(votes: pd.DataFrame) -> pd.DataFrame:
    """Keep the first votes of each phone, of all that there are or of some."""
    firsts = votes.sort_values("id").groupby("phone").head(LIMIT)
    return firsts[["id", "phone", "contestant"]]


def counted(key: tuple, votes: pd.DataFrame) -> pd.DataFrame:
    """Count the votes of a region by contestant."""
    counts = first_votes(votes).groupby("contestant").size()
    return pd.DataFrame({"region": key[-1], "contestant": counts.index, "votes": counts.to_numpy()})


def counted_in_window(key: tuple, votes: pd.DataFrame) -> pd.DataFrame:
    """Count the votes of a region in a window by contestant."""
    return counted(key, votes).assign(until=key[0]["end"])


def batch(spark: SparkSession) -> DataFrame:
    """Count votes, with a limit for each phone over all its votes."""
    votes = messages(spark)
    return kss.apply(
        votes,
        KEY,
        first_votes,
        COUNTED,
        merge=counted,
        partial_schema=FIRST,
        plan=kss.plan(votes, KEY, WORKERS, row_id="id"),
        way="place",  # two cores are too few for splitting to pay
    )


def plain(votes: DataFrame, *until: str) -> DataFrame:
    """Count votes by plain Spark, with a limit for each phone over all its votes, or in each window."""
    votes = votes.withColumn("until", ten_minutes()["end"])
    rank = F.row_number().over(Window.partitionBy(KEY, *until, "phone").orderBy("id"))
    valid = votes.withColumn("rank", rank).where(F.col("rank") <= LIMIT)
    counts = valid.groupBy(KEY, "contestant", *until).agg(F.count("*").alias("votes"))
    return counts.select(KEY, "contestant", "votes", *until)


def write_input(spark: SparkSession, folder: Path) -> None:
    """Write the votes as files, one for each micro-batch, unless they are there; the last ends windows."""
    if (folder / "input").exists():
        return
    last = spark.range(2 * VOTES, 2 * VOTES + 1).withColumn("at", at())
    votes = messages(spark).unionByName(last, allowMissingColumns=True)
    part = F.least(F.col("id") * FILES / VOTES, F.lit(FILES)).cast("int").alias("part")
    writer = votes.select("*", part).coalesce(1).write.mode("overwrite").partitionBy("part")
    writer.parquet(str(folder / "new"))
    for file in (folder / "new").glob("part=*/*.parquet"):
        number = int(file.parent.name.removeprefix("part="))
        os.utime(file, (number, number))  # a stream reads the oldest file first
    (folder / "new").rename(folder / "input")


def stored(spark: SparkSession, folder: Path) -> DataFrame:
    """Return all votes of the stream, which are those of the first run with a folder."""
    return spark.read.parquet(str(folder / "input" / "*")).where("region IS NOT NULL")


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """Count votes, with a limit for each phone in each window of ten minutes."""
    write_input(spark, folder)
    rows = messages(spark)
    source = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1)
    votes = source.parquet(str(folder / "input" / "*")).withWatermark("at", "1 minute")
    counts = kss.streaming.apply(
        votes,
        KEY,
        first_votes,
        f"{COUNTED}, until timestamp",
        merge=counted_in_window,
        partial_schema=FIRST,
        combine=first_votes,  # keeps state small: the first votes of each phone
        window=ten_minutes(),
        plan=kss.plan(rows, KEY, WORKERS, row_id="id"),  # in production: of the votes before
    )
    writer = counts.writeStream.format("parquet").option("path", str(folder / "counts"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return spark.read.schema(counts.schema).parquet(str(folder / "counts"))


def main(spark: SparkSession, folder: Path) -> None:
    """Count votes in a batch and in a stream, and compare both with plain Spark."""
    counts = batch(spark)
    print(textwrap.fill(kss.explain(counts), 80))
    counts.orderBy(F.desc("votes"), KEY, "contestant").show(3)
    expected = plain(messages(spark))
    print("equal to plain Spark, batch:", sorted(counts.collect()) == sorted(expected.collect()))
    windows = stream(spark, folder).cache()
    by_window = windows.groupBy(F.date_format("until", "HH:mm").alias("until"))
    by_window.pivot("contestant").sum("votes").orderBy("until").show()
    expected = plain(stored(spark, folder), "until")
    print("equal to plain Spark, stream:", sorted(windows.collect()) == sorted(expected.collect()))


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable  # executors need the driver's interpreter
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as temporary:
        main(session, Path(sys.argv[1] if sys.argv[1:] else temporary))
    session.stop()
