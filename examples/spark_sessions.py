"""Sessions by gaps, with a bot that has most of the visits: two windows whose hot key is split.

A visit begins a session if the user's last one is more than half an hour ago. A running sum of the beginnings
numbers the sessions. Spark sorts all visits of the bot in one task; here each worker sorts a range of them.

Run it with `python examples/spark_sessions.py`. It needs `pip install '.[spark]'` and Java 17.
"""

import os
import sys

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from keysplit import spark as kss

WORKERS = 4


def visits(spark: SparkSession) -> DataFrame:
    """Make 20,000 visits, nine of ten of them by a bot, which pauses for some hours now and then."""
    pause = F.expr("id DIV 300 * 7200")
    at = F.timestamp_seconds(1_767_225_600 + F.col("id") * 60 + pause)
    user = F.when(F.col("id") % 10 > 0, "bot").otherwise(F.concat(F.lit("user "), F.col("id") % 170))
    return spark.range(20_000).select(user.alias("user"), at.alias("at"), F.col("id").alias("visit"))


def begins() -> Column:
    """Say whether a visit begins a session: 1 if the gap before it exceeds half an hour, else 0."""
    last = F.lag("at").over(by_time())
    return F.coalesce(F.col("at") > last + F.expr("INTERVAL 30 MINUTES"), F.lit(True)).cast("int")


def by_time() -> Window:
    """Return the visits of a user in their order; the visit's number makes it unique."""
    return Window.partitionBy("user").orderBy("at", "visit")


def main(spark: SparkSession) -> None:
    df = visits(spark)
    number = F.sum("begins").over(by_time()).alias("session")
    # read twice by the second window
    begun = kss.window(df, begins().alias("begins"), workers=WORKERS, way="place").cache()
    # lag depends on the order of rows, which is known here: no two visits of a user are equal in it
    plan = kss.plan(begun, "user", WORKERS, trust=["begins"])
    sessions = kss.window(begun, number, plan=plan, way="place")
    print(kss.explain(sessions))
    of_users = sessions.groupBy("user").agg(F.max("session").alias("sessions"), F.count("*").alias("visits"))
    of_users.orderBy(F.desc("visits"), "user").show(5)
    plain = df.select("*", begins().alias("begins")).select("*", number)
    print("equal to plain windows:", sorted(sessions.collect()) == sorted(plain.collect()))
    begun.unpersist()


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable  # executors need the driver's interpreter
    session = (
        SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    main(session)
    session.stop()
