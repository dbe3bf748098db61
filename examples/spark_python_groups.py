"""Python code over whole groups of a skewed table: in parts on the workers, then merged per key.

Spark passes all rows of a key to `applyInPandas` at once, in one task. If the work can be done in parts,
kss.apply spreads a hot key's rows, works on each part, and merges the small partial results.

Run it with `python examples/spark_python_groups.py`. It needs `pip install '.[spark]'` and Java 17.
"""

import os
import sys

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import keysplit as ks
from keysplit import spark as kss

WORKERS = 8


def visits(spark: SparkSession) -> DataFrame:
    """Make 20,000 visits to 100 pages; the first pages have by far the most visits."""
    pages = ks.streams.zipf(1.6, 100, 20_000, seed=2)
    rows = [(f"page {page}", (i * i) % 1013) for i, page in enumerate(pages)]
    return spark.createDataFrame(rows, "page string, visitor long")


def visitors(part: pd.DataFrame) -> pd.DataFrame:
    """Find the visitors of one page on one worker: the expensive part."""
    return pd.DataFrame({"page": part["page"].iloc[:1], "visitors": [sorted(set(part["visitor"]))]})


def merge(parts: pd.DataFrame) -> pd.DataFrame:
    """Count the distinct visitors of one page over all its workers."""
    return pd.DataFrame({"page": parts["page"].iloc[:1], "visitors": [len(set().union(*parts["visitors"]))]})


def main(spark: SparkSession) -> None:
    df = visits(spark)
    merged = kss.apply(
        df,
        "page",
        visitors,
        "page string, visitors long",
        merge=merge,
        partial_schema="page string, visitors array<long>",
        workers=WORKERS,
    )
    merged.orderBy(F.desc("visitors"), "page").show(5)
    plain = df.groupBy("page").agg(F.countDistinct("visitor"))
    print("equal to count(distinct visitor):", sorted(merged.collect()) == sorted(plain.collect()))


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable  # executors need the driver's interpreter
    session = (
        SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    main(session)
    session.stop()
