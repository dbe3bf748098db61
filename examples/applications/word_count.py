"""Word count and the most frequent words: partial counts on each worker, merged per word.

This is the papers' common application: "When Two Choices Are not Enough" (Nasir et al., ICDE 2016, section
V-A) and "Adaptive key partitioning in distributed stream processing" (Liu et al., 2024, section 6.1.1).
Sources split text into words, workers count, and an aggregator merges the counts of each word.

Run it with `python examples/applications/word_count.py [FOLDER]`. It needs `pip install '.[spark]'`
and Java 17. Stop it and start it again with the same folder: the stream goes on where it was.
"""

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss

KEY = "word"
WORKERS, FILES, TOP = 8, 6, 3
LINES, LENGTH = 3_600, 10  # a line of ten words per second


def lines(spark: SparkSession) -> DataFrame:
    """Make an hour of text whose words follow Zipf's law; a last line without words ends the last window."""
    words = ks.streams.zipf(1.2, 10_000, LINES * LENGTH, seed=1).reshape(LINES, LENGTH)
    text = [(at, " ".join(f"w{word}" for word in line)) for at, line in enumerate(words)]
    rows = spark.createDataFrame([*text, (2 * LINES, "")], "line long, text string")
    return rows.withColumn("at", F.timestamp_seconds(F.lit(1_700_000_000 // 3_600 * 3_600) + F.col("line")))


def split(lines: DataFrame) -> DataFrame:
    """Split lines into words, as the papers' sources do."""
    words = lines.select("line", "at", F.posexplode(F.split("text", " ")).alias("place", KEY))
    return words.where("word <> ''").selectExpr("line * 100 + place AS id", "at", KEY)


def messages(spark: SparkSession) -> DataFrame:
    """Return the words of all lines."""
    return split(lines(spark))


def ten_minutes(time: str | Column = "at") -> Column:
    """Return the window of a time."""
    return F.window(time, "10 minutes")


def batch(spark: SparkSession) -> DataFrame:
    """Count all words: on each worker, then merged."""
    routed = kss.route(messages(spark), KEY, workers=WORKERS)
    counts = routed.groupBy(KEY, "worker").agg(F.count("*").alias("n"))
    return counts.groupBy(KEY).agg(F.sum("n").alias("n"))


def plain(words: DataFrame, *windows: Column) -> DataFrame:
    """Count words, of each window if there are some, with plain Spark."""
    return words.groupBy(*windows, KEY).agg(F.count("*").alias("n"))


def write_input(spark: SparkSession, folder: Path) -> None:
    """Write the lines as files, one for each micro-batch, unless they are there."""
    if (folder / "input").exists():
        return
    part = F.least(F.col("line") * FILES / LINES, F.lit(FILES)).cast("int").alias("part")
    writer = lines(spark).select("*", part).coalesce(1).write.mode("overwrite").partitionBy("part")
    writer.parquet(str(folder / "new"))
    for file in (folder / "new").glob("part=*/*.parquet"):
        number = int(file.parent.name.removeprefix("part="))
        os.utime(file, (number, number))  # a stream reads the oldest file first
    (folder / "new").rename(folder / "input")


def stored(spark: SparkSession, folder: Path) -> DataFrame:
    """Return all words of the stream, which are those of the first run with a folder."""
    return split(spark.read.parquet(str(folder / "input" / "*")))


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """Count the words of each window of ten minutes; a frequent word's counts lie on several workers."""
    write_input(spark, folder)
    source = spark.readStream.schema("line long, text string, at timestamp").option("maxFilesPerTrigger", 1)
    words = split(source.parquet(str(folder / "input" / "*")).withWatermark("at", "1 minute"))
    plan = kss.plan(messages(spark), KEY, WORKERS)  # in production: of yesterday's words
    routed = kss.streaming.route(words, KEY, plan=plan)
    parts = routed.groupBy(ten_minutes(), KEY, "worker").agg(F.count("*").alias("n"))
    counts = parts.groupBy(ten_minutes(F.window_time("window")), KEY).agg(F.sum("n").alias("n"))
    writer = counts.writeStream.format("parquet").option("path", str(folder / "counts"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return spark.read.schema(counts.schema).parquet(str(folder / "counts"))


def top(counts: DataFrame) -> DataFrame:
    """Return the most frequent words of each window: of the merged counts, since no worker has them all."""
    rank = F.row_number().over(Window.partitionBy("window").orderBy(F.desc("n"), KEY))
    return counts.withColumn("rank", rank).where(F.col("rank") <= TOP)


def main(spark: SparkSession, folder: Path) -> None:
    """Count words in a batch and in a stream, and compare both with plain Spark."""
    counts = batch(spark)
    counts.orderBy(F.desc("n"), KEY).show(TOP)
    expected = plain(messages(spark))
    print("equal to plain Spark, batch:", sorted(counts.collect()) == sorted(expected.collect()))
    windows = stream(spark, folder)
    until, word = F.date_format("window.end", "HH:mm").alias("until"), F.concat_ws(": ", KEY, "n").alias(KEY)
    ranked = top(windows).select(until, "rank", word).groupBy("until").pivot("rank", [*range(1, TOP + 1)])
    ranked.agg(F.first(KEY)).orderBy("until").show()
    expected = plain(stored(spark, folder), ten_minutes())
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
