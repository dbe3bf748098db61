"""Kill the driver of a streaming query at random moments with SIGKILL and start it again from its checkpoint;
print what came out.

usage: python killed_driver.py FOLDER [--kills N] [--seed N] [--engine columns|rust]

The query aggregates events by window and key under a frozen plan and appends to Parquet files. A kill takes
Python and the JVM, at a random moment of a batch. A line of JSON for each kill says which batch was at work;
the last one compares the totals with those of a plain groupBy over all events.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keysplit import spark as kss

FILES, FILE_ROWS, FILES_A_BATCH, WORKERS = 40, 500, 2, 8
START = datetime(2024, 1, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=["columns", "rust"], default="columns")
    parser.add_argument("--query", action="store_true", help="run the query alone, to the end of its input")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that starts fast
    folder = options.folder
    if options.query:
        query(folder, options.engine)
        return

    write_events(folder / "events")
    spark = session(folder)
    kss.plan(events(spark.read, folder), "key", WORKERS).save(folder / "plan.json")
    spark.stop()
    chance = random.Random(options.seed)
    for _ in range(options.kills):
        print(json.dumps(run_and_kill(folder, command(folder, options.engine), chance)), flush=True)
    subprocess.run(command(folder, options.engine), check=True)

    spark = session(folder)
    # the window of the last event never ends
    true = (
        events(spark.read, folder).groupBy(window(), "key").agg(*totals()).where("window.end < '2025-01-01'")
    )
    true, found = Counter(true.collect()), Counter(spark.read.parquet(str(folder / "totals")).collect())
    summary = {
        "spark": pyspark.__version__,
        "kills": options.kills,
        "batches": newest(folder / "checkpoint" / "commits") + 1,
        "totals": true.total(),
        "missing": (true - found).total(),
        "wrong or doubled": (found - true).total(),
    }
    print(json.dumps(summary))
    spark.stop()


def write_events(folder):
    """Write small files of events, one file after the other in time; events are a few minutes out of order.

    A third of the events has one key. The last files hold one event of a later year each, which ends all
    windows before.
    """
    folder.mkdir(parents=True)
    chance = random.Random(1)
    for number in range(FILES):
        first, last = number * FILE_ROWS, (number + 1) * FILE_ROWS
        rows = [
            {
                "t": START + timedelta(seconds=i + chance.randrange(300)),
                "key": chance.choice(["hot", f"key {i % 40}", f"key {i % 7}"]),
                "n": i,
                "amount": Decimal(i) / 100,
            }
            for i in range(first, last)
        ]
        if number >= FILES - 4:
            rows = [rows[0] | {"t": datetime(2025, 1, 1)}]
        schema = pa.schema(
            {
                "t": pa.timestamp("us", "UTC"),
                "key": pa.string(),
                "n": pa.int64(),
                "amount": pa.decimal128(12, 2),
            }
        )
        path = folder / f"{number:03}.parquet"
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows, schema), path)
        os.utime(path, (number, number))  # a stream reads the oldest file first


def events(reader, folder):
    """The events, as a batch or as a stream."""
    return reader.schema("t timestamp, key string, n bigint, amount decimal(12, 2)").parquet(
        str(folder / "events")
    )


def window():
    return F.window("t", "10 minutes")


def totals():
    """Aggregates with exact answers: whole numbers and a decimal."""
    return [F.sum("n").alias("n"), F.count("*").alias("rows"), F.sum("amount").alias("amount")]


def query(folder, engine):
    """Run the query from its checkpoint to the end of its input."""
    spark = session(folder)
    stream = events(spark.readStream.option("maxFilesPerTrigger", FILES_A_BATCH), folder)
    found = kss.streaming.aggregate(
        stream.withWatermark("t", "10 minutes"),
        "key",
        *totals(),
        window=window(),
        plan=kss.Plan.load(folder / "plan.json"),
        engine=engine,
    )
    writer = found.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    running = writer.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "totals"))
    running.awaitTermination()
    spark.stop()


def run_and_kill(folder, command, chance):
    """Start the query by a command and kill it, with all its processes, at a random moment of a batch."""
    offsets, commits = folder / "checkpoint" / "offsets", folder / "checkpoint" / "commits"
    batch = newest(offsets) + 1
    with (folder / "query.log").open("a") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        begin = wait_for_batch(process, offsets, batch)
        now = wait_for_batch(process, offsets, batch + 1)
        end = now + chance.random() * (now - begin)
        while time.monotonic() < end and newest(offsets) == batch + 1:
            time.sleep(0.02)
        assert process.poll() is None, "the query ended before the kill"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return {"killed in batch": newest(offsets), "batch was at work": newest(offsets) > newest(commits)}


def command(folder, engine):
    """The command that runs the query."""
    return [sys.executable, __file__, str(folder), "--query", "--engine", engine]


def wait_for_batch(process, offsets, batch):
    """Wait until the query has begun a batch, five minutes at most; return the time."""
    end = time.monotonic() + 300
    while newest(offsets) < batch:
        assert process.poll() is None, "the query ended before the kill"
        assert time.monotonic() < end, f"the query did not come to batch {batch}"
        time.sleep(0.02)
    return time.monotonic()


def newest(folder):
    """The newest batch in a folder of a checkpoint, -1 if there is none."""
    return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=-1)


def session(folder):
    """A session of two tasks at a time."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
