"""Kill the driver of a query that sends a stream to Kafka, at random moments, and start it again; print what
was at work.

usage: python killed_kafka.py FOLDER SERVERS TOPIC [--kills N] [--seed N] [--source TOPIC]

The query sends events by plans that change while it runs. A line of JSON for each kill says which batch was
at work; the last line counts the events, whose values are 0, 1, 2 ..., and the plans that batches went by.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from killed_driver import Queries, newest, other_plan, run_and_kill, session
from pyspark.sql import functions as F
from quick_java import QUICK

from keysplit import spark as kss

FILES, FILE_ROWS, FILES_A_BATCH = 48, 400, 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--source", help="a topic to read the events from, by the connector of Spark")
    parser.add_argument("--query", action="store_true", help="run the query alone, to the end of its input")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_TOOL_OPTIONS"] = QUICK
    if options.query:
        query(options)
        return
    options.folder.mkdir(parents=True)
    spark = session(options.folder)
    if options.source is None:
        events(spark).write.parquet(str(options.folder / "events"))
    else:
        kafka(events(spark).write, options).option("topic", options.source).save()
    spark.stop()
    command = [sys.executable, __file__, str(options.folder), options.servers, options.topic, "--query"]
    command += [] if options.source is None else ["--source", options.source]
    chance, queries = random.Random(options.seed), Queries(options.folder, [""])
    for _ in range(options.kills):
        print(json.dumps(run_and_kill(queries, command, chance)[0]), flush=True)
    subprocess.run(command, check=True)
    records = (options.folder / "checkpoint/keysplit").glob("*/batch-*.json")
    plans = {json.loads(each.read_text())["plan"] for each in records}
    print(json.dumps({"events": FILES * FILE_ROWS, "plans": len(plans)}))


def events(spark):
    """Events of which half have one key, another one in every four files."""
    hot = f"concat('hot ', id div {4 * FILE_ROWS})"
    return spark.range(FILES * FILE_ROWS, numPartitions=FILES).select(
        F.expr(f"IF(id % 2 = 0, {hot}, concat('key ', id % 50))").alias("key"),
        F.expr("CAST(id AS STRING)").alias("value"),
    )


def query(options):
    """Run the query from its checkpoint to the end of its input."""
    spark = session(options.folder)
    reader = spark.readStream
    if options.source is None:
        reader = reader.schema("key string, value string").option("maxFilesPerTrigger", FILES_A_BATCH)
        stream = reader.parquet(str(options.folder / "events"))
    else:
        reader = kafka(reader, options).option("subscribe", options.source)
        reader = reader.option("startingOffsets", "earliest")
        stream = reader.option("maxOffsetsPerTrigger", FILES_A_BATCH * FILE_ROWS).load()
    writer = kss.streaming.to_kafka(
        stream,
        "key",
        topic=options.topic,
        servers=options.servers,
        row_id="value",
        adapt=kss.streaming.Adapt(decay=0, gain=1e-3, horizon=1000, copy_cost=0),
    ).trigger(availableNow=True)
    running = writer.option("checkpointLocation", str(options.folder / "checkpoint")).start()
    seen, checkpoint = -1, options.folder / "checkpoint"
    while running.isActive:
        if newest(checkpoint / "offsets") > seen:
            seen = newest(checkpoint / "offsets")
            for first in checkpoint.glob("keysplit/*/plan-0.json"):
                kss.streaming.publish(other_plan(kss.Plan.load(first)), first.parent)
        time.sleep(0.05)
    running.awaitTermination()
    spark.stop()


def kafka(reader, options):
    """The reader or writer of Spark's connector."""
    return reader.format("kafka").option("kafka.bootstrap.servers", options.servers)


if __name__ == "__main__":
    main()
