"""Send a stream to a topic by Spark's own sink and a plan, and route what is in the topic online; print what
was found as JSON.

usage: kafka_by_spark.py FOLDER     `scripts/jars kafka` and `scripts/jars kafka-connector`, for Spark 4.1

One batch of the second query fails after its rows were routed, and is attempted again.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from killed_driver import session
from killed_kafka import CACHE
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from quick_java import QUICK

import keysplit as ks
from keysplit import spark as kss
from keysplit_experiments.deployments.engine.broker import Broker

PARTITIONS, ROWS, FAILS = 4, 2_400, 1


def main(folder: Path) -> None:
    os.environ["PYSPARK_PYTHON"], os.environ["JAVA_TOOL_OPTIONS"] = sys.executable, QUICK
    folder.mkdir(parents=True)
    broker = Broker(folder, CACHE / "kafka/jars")
    jars = ",".join(map(str, (CACHE / "kafka-connector/jars").glob("*.jar")))
    spark = session(folder, settings={"spark.jars": jars})
    try:
        print(json.dumps(by_plan(spark, broker, folder) | online(spark, broker, folder)))
    finally:
        spark.stop()
        broker.stop()


def by_plan(spark, broker, folder):
    """Send rows by a plan, half of which have one key; say how many are elsewhere than it says."""
    broker.create_topic("sink", PARTITIONS)
    rows = spark.range(ROWS, numPartitions=3).select(
        F.expr("IF(id % 2 = 0, 'hot', concat('key ', id % 50))").alias("key"),
        F.col("id").cast("string").alias("value"),
    )
    rows.write.parquet(str(folder / "events"))
    plan = kss.plan(rows, "key", PARTITIONS, row_id="value", sample=1)
    stream = spark.readStream.schema(rows.schema).parquet(str(folder / "events"))
    routed = kss.streaming.route(stream, "key", plan=plan, worker_column="partition")
    run(kafka(routed.writeStream, broker).option("topic", "sink"), folder / "to")
    planned = kss.route(rows, "key", plan=plan).collect()
    worker = {int(row.value): row.worker for row in planned}
    found = {int(each.value()): each.partition() for each in broker.read("sink")}
    return {
        "missing": ROWS - len(found),
        "elsewhere": sum(found[value] != worker[value] for value in found),
        "partitions of hot": len({found[value] for value in found if value % 2 == 0}),
    }


def online(spark, broker, folder):
    """Route what is in the topic by FISH; say in how many partitions rows went as no router sends them."""
    params, attempts = ks.Fish(workers=8), []

    def work(df, batch):
        attempts.append((batch, df.collect()))
        if batch == FAILS and sum(number == FAILS for number, _ in attempts) == 1:
            raise RuntimeError("an attempt")

    def topic(**options):
        reader = kafka(spark.readStream, broker).option("subscribe", "sink").options(**options)
        return reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", ROWS // 3).load()

    def routed(df):
        return kss.online.route(df, "key", params, state=folder / "routers")

    # Spark 4.1.1's connector fails after the batch that a query begins with once more
    for _ in range(3):
        with suppress(StreamingQueryException):
            run(routed(topic()).writeStream.foreachBatch(work), folder / "from")
    both = [sorted(map(tuple, rows)) for number, rows in attempts if number == FAILS]
    done = dict(attempts)  # the last attempt at each
    wrong = 0
    for partition in range(PARTITIONS):
        rows = [row for batch in sorted(done) for row in done[batch] if row.partition == partition]
        rows.sort(key=lambda row: row.offset)
        workers = params.router(source=partition).route([row.key for row in rows]).tolist()
        wrong += [row.worker for row in rows] != workers
    return {
        "batches": len(done),
        "rows": sum(map(len, done.values())),
        "attempts alike": len(both) == 2 and both[0] == both[1],
        "wrongly routed partitions": wrong,
        "refused": [
            refusal(lambda df=df: routed(df))
            for df in (
                topic().drop("partition"),
                topic(minPartitions=9),
                topic().union(topic()),
                topic().coalesce(1),
            )
        ],
    }


def refusal(call):
    """What an argument is refused for."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return None


def run(writer, checkpoint):
    """Run a query to the end of its input."""
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def kafka(of, broker):
    """The reader or writer of Spark's connector."""
    return of.format("kafka").option("kafka.bootstrap.servers", broker.servers)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
