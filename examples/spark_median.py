"""Exact medians of a skewed table: kss.aggregate against plain groupBy, and the rows that each worker gets.

Run it with `python examples/spark_median.py`. It needs `pip install 'keysplit[spark]'` and Java 17.
"""

import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss

WORKERS = 16


def deliveries(spark: SparkSession) -> DataFrame:
    """Make 50,000 deliveries to 1,000 cities; one city in a thousand gets a third of them."""
    cities = ks.streams.zipf(1.4, 1_000, 50_000, seed=1)
    rows = [(int(city), (i * 7919) % 240) for i, city in enumerate(cities)]
    return spark.createDataFrame(rows, "city long, minutes int")


def busiest(df: DataFrame, grouping: str) -> float:
    """Return the load of the busiest worker over the mean load."""
    routed = kss.route(df, "city", workers=WORKERS, grouping=grouping, mode="online")
    loads = [row["count"] for row in routed.groupBy("worker").count().collect()]
    return max(loads) * WORKERS / sum(loads)


def main(spark: SparkSession) -> None:
    df = deliveries(spark)
    columns = [
        F.count("*").alias("deliveries"),
        F.median("minutes").alias("median"),
        F.max("minutes").alias("worst"),
    ]
    medians = kss.aggregate(df, "city", *columns, workers=WORKERS, grouping="d_choices", mode="online")
    medians.orderBy(F.desc("deliveries"), "city").show(5)
    for grouping in ("key", "partial_key", "d_choices"):
        print(f"{grouping}: the busiest of {WORKERS} workers gets {busiest(df, grouping):.2f} times the mean")
    plain = df.groupBy("city").agg(*columns)
    print("equal to plain groupBy:", sorted(medians.collect()) == sorted(plain.collect()))


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable  # executors need the driver's interpreter
    session = (
        SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    main(session)
    session.stop()
