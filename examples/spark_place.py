"""Exact medians of a skewed table: kss.aggregate against plain groupBy, and the rows that each worker gets.

For aggregates Spark's own query is as good, and keysplit returns that. `force=True` places the rows.

Run it with `python examples/spark_median.py`. It needs `pip install '.[spark]'` and Java 17.
"""

import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keysplit import spark as kss

WORKERS = 16
CITIES = 1_000


def deliveries(spark: SparkSession) -> DataFrame:
    """Make 50,000 deliveries to a thousand cities; one city gets a quarter of them."""
    drawn = (F.xxhash64("id") % 1_000_000 + 1_000_000) / 2_000_000  # above 0, below 1
    city = F.least(F.lit(CITIES), F.floor(F.pow(drawn, -2.5)))  # Zipf's law, about
    return spark.range(50_000).select("id", city.alias("city"), (F.col("id") * 7919 % 240).alias("minutes"))


def busiest(df: DataFrame, grouping: str) -> float:
    """Return the load of the busiest worker over the mean load."""
    routed = kss.route(df, "city", workers=WORKERS, grouping=grouping)
    loads = [row["count"] for row in routed.groupBy("worker").count().collect()]
    return max(loads) * WORKERS / sum(loads)


def main(spark: SparkSession) -> None:
    df = deliveries(spark)
    columns = [
        F.count("*").alias("deliveries"),
        F.median("minutes").alias("median"),
        F.max("minutes").alias("worst"),
    ]
    plan = kss.plan(df, "city", workers=WORKERS)  # one pass; every operation below could make it by itself
    print("without force,", kss.explain(kss.aggregate(df, "city", *columns, plan=plan)))
    medians = kss.aggregate(df, "city", *columns, plan=plan, force=True)
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
