"""Rows of a skewed table on their workers: by Spark's hash and by plans, and what then runs on each worker.

Run it with `python examples/spark_place.py`. It needs `pip install '.[spark]'` and Java 17.
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


def busiest(placed: DataFrame) -> float:
    """Return the load of the busiest worker over the mean load."""
    loads = [row["count"] for row in placed.groupBy(F.spark_partition_id()).count().collect()]
    return max(loads) * WORKERS / sum(loads)


def main(spark: SparkSession) -> None:
    df = deliveries(spark)
    hashed = busiest(df.repartition(WORKERS, "city"))
    print(f"Spark's hash: the busiest of {WORKERS} workers gets {hashed:.2f} times the mean")
    for grouping in ("partial_key", "d_choices"):
        plan = kss.plan(df, "city", WORKERS, grouping=grouping)
        print(f"{grouping}: it gets {busiest(kss.repartition(df, 'city', plan=plan)):.2f} times the mean")
    worst = [F.count("*").alias("deliveries"), F.max("minutes").alias("worst")]
    parts = kss.repartition(df, "city", plan=plan).groupBy("city", "worker").agg(*worst)
    merged = parts.groupBy("city").agg(F.sum("deliveries").alias("deliveries"), F.max("worst").alias("worst"))
    merged.orderBy(F.desc("deliveries"), "city").show(5)
    plain = df.groupBy("city").agg(*worst)
    print("equal to plain groupBy:", sorted(merged.collect()) == sorted(plain.collect()))


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable  # executors need the driver's interpreter
    session = (
        SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    main(session)
    session.stop()
