"""A stream whose hot key changes: its plan follows, and an observer shows how balanced its workers are.

Run it with `python examples/spark_observe_stream.py`. It needs `pip install '.[observe]'` and Java 17.
The page at the address that it prints is live while the stream runs.
"""

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keysplit import spark as kss

WORKERS, FILES, ROWS = 8, 6, 2_000


def write_visits(spark: SparkSession, folder: Path) -> None:
    """Write files of visits, each for a micro-batch: in half of them one page is hot, then another one."""
    for number in range(FILES):
        hot = "home" if number < FILES // 2 else "sale"
        page = f"IF(pmod(hash(id), 5) < 2, '{hot}', 'page ' || pmod(hash(id), 300))"
        first = number * ROWS
        visits = spark.range(first, first + ROWS, 1, 1).select(
            F.col("id").alias("visit"), F.expr(page).alias("page")
        )
        visits.write.parquet(str(folder / f"part={number}"))


def main(spark: SparkSession) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_visits(spark, folder / "visits")
        files = str(folder / "visits" / "*")
        stream = (
            spark.readStream.schema("visit long, page string").option("maxFilesPerTrigger", 1).parquet(files)
        )
        plan = kss.streaming.Adapt(WORKERS, row_id="visit")
        routed = kss.streaming.route(stream, "page", plan=plan)
        writer = routed.writeStream.format("parquet").option("path", str(folder / "routed"))
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        with kss.streaming.observe(query, port=0, log=folder / "log") as observer:
            print("live:", observer.url)
            query.processAllAvailable()
            query.stop()
            observer.wait()
        print(
            observer.history()[["batch", "version", "busiest", "hash_busiest"]]
            .round(2)
            .to_string(index=False)
        )
        print(observer.history("key")[["batch", "key", "share", "age"]].round(2).to_string(index=False))
        seen = observer.history("worker").groupby("worker")["rows"].sum()
        written = spark.read.parquet(str(folder / "routed")).groupBy("worker").count().toPandas()
        print("equal to the rows that were written:", seen.to_dict() == dict(written.to_numpy().tolist()))


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable  # executors need the driver's interpreter
    session = (
        SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    main(session)
    session.stop()
