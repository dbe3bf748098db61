"""Columns that Spark finds by their names although the rows below do not list them, and values by chance."""

from pyspark.sql import functions as F


def drawn(df):
    return df.withColumn("r", F.rand(1))


def by_its_frame(drawn, change):
    return change(drawn).filter(drawn["r"] < 0.5)


ROWS = {
    "of its frame": lambda df: by_its_frame(drawn(df), lambda d: d.select("id", "key")),
    "of its frame, dropped": lambda df: by_its_frame(drawn(df), lambda d: d.drop("r")),
    "of its frame, renamed": lambda df: by_its_frame(drawn(df), lambda d: d.withColumnRenamed("r", "q")),
    "of its frame, called otherwise": lambda df: by_its_frame(
        drawn(df), lambda d: d.select("id", "r").toDF("id", "x")
    ),
    "of its frame, further up": lambda df: by_its_frame(
        drawn(df), lambda d: d.select("id", "key", "r").select("id", "key").filter(F.col("id") > 3)
    ),
    "selected": lambda df: drawn(df).select("id", "key").filter(F.col("r") < 0.5),
    "dropped": lambda df: drawn(df).drop("r").filter(F.col("r") < 0.5),
    "renamed": lambda df: drawn(df).withColumnRenamed("r", "q").filter(F.col("r") < 0.5),
    "sorted": lambda df: drawn(df).select("id", "key").sort("r"),
    "repartitioned": lambda df: drawn(df).select("id", "key").repartition(3, "r"),
    "one of several": lambda df: df.select("key").distinct().filter(F.col("id") > 3),
    "sorted by one of several": lambda df: df.drop("id").distinct().sort("id"),
}
"""Queries of rows with the columns id and key, whose rows are chosen or placed by chance."""

COLUMNS = {
    "uuid": lambda df: df.select("id", F.expr("uuid()").alias("u"), F.col("u").alias("w")),
    "one after the other": lambda df: df.select(
        "id", F.rand().alias("u"), (F.col("u") + 1).alias("v"), F.col("v").alias("w")
    ),
    "a field": lambda df: df.select("id", F.struct(F.rand().alias("f")).alias("u"), F.col("u.f").alias("w")),
    "of a text": lambda df: df.select("id", F.expr("rand() AS u"), F.col("u").alias("w")),
    "of a text without AS": lambda df: df.select("id", F.expr("rand() u"), F.col("u").alias("w")),
    "called by Spark": lambda df: df.select("id", F.rand(5), F.col("`rand(5)`").alias("w")),
    "with columns": lambda df: df.withColumns({"u": F.rand(), "w": F.col("u")}),
    "of a group": lambda df: df.groupBy("id").agg(F.first("key").alias("u"), F.col("u").alias("w")),
    "of a key": lambda df: df.groupBy("id", F.sqrt(F.rand()).alias("u")).agg(F.col("u").alias("w")),
    "renamed twice": lambda df: df.withColumn("a", F.rand()).withColumnsRenamed({"a": "b", "b": "w"}),
    "names exchanged": lambda df: (
        df.withColumn("a", F.rand()).withColumn("w", F.lit(1)).withColumnsRenamed({"w": "other", "a": "w"})
    ),
}
"""Queries whose column w is made by chance."""
