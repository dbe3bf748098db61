"""Average rating per product, while other products become popular: the plan of the stream adapts.

"Adaptive key partitioning in distributed stream processing" (Liu et al., 2024, section 6.1.1) looks for
products with high and low ratings in reviews. Workers keep the sum and the number of a product's ratings.
Ratings are decimals with two places, so that merging their sums is exact, and the average is their ratio.

Run it with `python examples/applications/average_rating.py [FOLDER [FILE]]`. FILE is Parquet or CSV with the
columns key (the product) and value (the rating, with at most two decimals), in the order of time. Without one
it is reviews_movietweetings.parquet in the folder that KEYSPLIT_DATA names, or else a stream that is drawn.
It needs `pip install '.[spark]'` and Java 17. Stop it and start it again with the same folder: the
stream goes on where it was, with the input of the first run.
"""

import os
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss

KEY = "product"
WORKERS, FILES, DRAWN = 8, 6, 40_000
SCHEMA = "id bigint, product string, rating decimal(12, 2)"
AVERAGE = "decimal(16, 6)"  # what avg returns for such ratings
AVERAGES = f"product string, ratings bigint, average {AVERAGE}"
DATA = os.environ.get("KEYSPLIT_DATA")
REVIEWS = Path(DATA, "reviews_movietweetings.parquet") if DATA else None
FILE = REVIEWS if REVIEWS and REVIEWS.exists() else None


def read(file: Path) -> tuple[pd.Series, pd.Series]:
    """Read products and their ratings from a file."""
    found = pd.read_csv(file) if file.suffix == ".csv" else pd.read_parquet(file)
    if not {"key", "value"} <= set(found.columns):
        raise ValueError(f"{file} must have the columns key and value, got {', '.join(map(str, found))}")
    ratings = pd.to_numeric(found["value"], errors="coerce")
    exact = (ratings.between(-1e9, 1e9) & (ratings.round(2) == ratings)).fillna(False)
    if not exact.all():
        wrong = found["value"][~exact].iloc[0]
        raise ValueError(
            f"the value of a rating in {file} must be a number within 1e9 of 0 with at most two decimals, "
            f"got {wrong}"
        )
    return found["key"].astype(str), ratings


def messages(spark: SparkSession, file: Path | None = FILE) -> DataFrame:
    """Read ratings from a file; without one draw them, other products being popular in the second half."""
    if file:
        products, ratings = read(file)
    else:
        drawn = ks.streams.zipf_drifting(1.2, 5_000, DRAWN, seed=2, periods=2)
        products = pd.Series(drawn).map("product {}".format)
        ratings = pd.Series((drawn * 7 + np.arange(DRAWN) ** 2 % 5) % 11)  # 0 to 10
    rows = pd.DataFrame({"id": np.arange(len(products)), "product": products})
    rows["rating"] = ratings.map("{:.2f}".format).map(Decimal)
    return spark.createDataFrame(rows, SCHEMA)


def sums() -> list[Column]:
    """Return what workers keep of a product."""
    return [F.sum("rating").alias("total"), F.count("rating").alias("ratings")]


def merged(parts: DataFrame) -> DataFrame:
    """Merge what several workers keep of a product."""
    return parts.groupBy(KEY).agg(F.sum("total").alias("total"), F.sum("ratings").alias("ratings"))


def averages(sums: DataFrame) -> DataFrame:
    """Divide the merged sums by the merged numbers."""
    average = (F.col("total") / F.col("ratings")).cast(AVERAGE)
    return sums.select(KEY, "ratings", average.alias("average"))


def batch(spark: SparkSession, file: Path | None = FILE) -> DataFrame:
    """Return the averages: sums of each product on each of its workers, then merged by product."""
    rows = messages(spark, file)
    parts = kss.route(rows, KEY, workers=WORKERS).groupBy(KEY, "worker").agg(*sums())
    return averages(merged(parts))


def plain(rows: DataFrame) -> DataFrame:
    """Return the averages by plain Spark."""
    return rows.groupBy(KEY).agg(F.count("rating").alias("ratings"), F.avg("rating").alias("average"))


def write_input(spark: SparkSession, folder: Path, file: Path | None) -> None:
    """Write the ratings as files, one for each micro-batch, unless they are there."""
    if (folder / "input").exists():
        return
    rows = messages(spark, file)
    part = (F.col("id") * FILES / rows.count()).cast("int").alias("part")
    writer = rows.select("*", part).coalesce(1).write.mode("overwrite").partitionBy("part")
    writer.parquet(str(folder / "new"))
    for written in (folder / "new").glob("part=*/*.parquet"):
        number = int(written.parent.name.removeprefix("part="))
        os.utime(written, (number, number))  # a stream reads the oldest file first
    (folder / "new").rename(folder / "input")


def stored(spark: SparkSession, folder: Path) -> DataFrame:
    """Return all ratings of the stream, which are those of the first run with a folder."""
    return spark.read.schema(SCHEMA).parquet(str(folder / "input" / "*"))


def stream(spark: SparkSession, folder: Path, file: Path | None = FILE) -> DataFrame:
    """Return the averages at the end of the stream; each micro-batch writes those that it has changed."""
    write_input(spark, folder, file)
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    rows = source.parquet(str(folder / "input" / "*"))
    placed = kss.streaming.repartition(rows, KEY, plan=kss.streaming.Adapt(WORKERS, row_id="id"))
    found = averages(placed.groupBy(KEY).agg(*sums()))

    def replace(changed: DataFrame, number: int) -> None:  # the same micro-batch, the same folder
        changed.write.mode("overwrite").parquet(str(folder / "averages" / f"batch={number}"))

    writer = found.writeStream.outputMode("update").foreachBatch(replace).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    with kss.streaming.observe(query) as observer:
        query.awaitTermination()
        observer.wait()
    balance = observer.history()[["batch", "version", "hash_busiest", "busiest"]]
    print(balance.round(2).to_string(index=False) if len(balance) else "all ratings had been read")
    written = spark.read.schema(f"{AVERAGES}, batch bigint").parquet(str(folder / "averages"))
    last = F.max_by(F.struct("ratings", "average"), "batch").alias("last")  # what the last micro-batch says
    return written.groupBy(KEY).agg(last).select(KEY, "last.*")


def main(spark: SparkSession, folder: Path, file: Path | None = FILE) -> None:
    """Find averages in a batch and in a stream, and compare both with plain Spark."""
    rows = messages(spark, file)
    print(f"{rows.count():,} {f'ratings of {file.name}' if file else 'drawn ratings'}")
    found = batch(spark, file)
    print("equal to avg(rating), batch:", sorted(found.collect()) == sorted(plain(rows).collect()))
    latest = stream(spark, folder, file).cache()
    rated = latest.where("ratings >= 100")
    for title, order in {"highest": F.desc("average"), "lowest": F.asc("average")}.items():
        print(f"{title} averages of products with 100 ratings and more")
        rated.withColumn("average", F.round("average", 2)).orderBy(order, KEY).show(3)
    expected = plain(stored(spark, folder))
    print("equal to avg(rating), stream:", sorted(latest.collect()) == sorted(expected.collect()))


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable  # executors need the driver's interpreter
    session = (
        SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as temporary:
        named = sys.argv[1:]
        main(session, Path(named[0] if named else temporary), *map(Path, named[1:]))
    session.stop()
