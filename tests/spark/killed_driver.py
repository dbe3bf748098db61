"""Kill the driver of a streaming query at random moments with SIGKILL and start it again from its checkpoint;
print what came out.

usage: python killed_driver.py FOLDER [--kills N] [--seed N] [--engine columns|rust] [--kind KIND]

By KIND the query

- aggregates events by window and key, their state being spread (split_state, the default) or their rows
  placed (force), by Python functions (apply), or in update mode, each batch replacing what it wrote (update);
- joins them with a table (table) or with another stream of them (streams);
- routes them by a plan that changes after every batch (adapt), or online (online).

All but adapt and online go by a frozen plan. A kill takes Python and the JVM, at a random moment of a batch.
A line of JSON for each kill says which batch was at work; the last one compares what came out with what plain
Spark gives for a batch of all events.
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

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keysplit import spark as kss

FILES, FILE_ROWS, FILES_A_BATCH, WORKERS = 40, 500, 2, 8
KINDS = ["split_state", "force", "apply", "update", "table", "streams", "adapt", "online"]
ROUTED = ("adapt", "online")
PARTS = "n bigint, rows bigint, amount decimal(22, 2)"
RANGE = "u BETWEEN t AND t + INTERVAL 1 MINUTE"
START = datetime(2024, 1, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=["columns", "rust"], default="columns")
    parser.add_argument("--kind", choices=KINDS, default="split_state")
    parser.add_argument("--query", action="store_true", help="run the query alone, to the end of its input")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that starts fast
    folder = options.folder
    if options.query:
        query(folder, options.engine, options.kind)
        return

    write_events(folder / "events")
    spark = session(folder)
    kss.plan(events(spark.read, folder), "key", WORKERS).save(folder / "plan.json")
    spark.stop()
    chance = random.Random(options.seed)
    run = command(folder, options.engine, options.kind)
    for _ in range(options.kills):
        print(json.dumps(run_and_kill(folder, run, chance)), flush=True)
    subprocess.run(run, check=True)

    spark = session(folder)
    # the window of the last event never ends
    of_rows = options.kind in ("table", "streams", *ROUTED)
    ends = "t < '2025-01-01'" if of_rows else "window.end < '2025-01-01'"
    true = plain(spark, folder, options.kind).where(ends)
    found = written(spark, folder, options.kind, true.schema).where(ends)
    true, found = Counter(true.collect()), Counter(found.collect())
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


def clicks(events):
    """A tenth of the events of a stream or a batch, as another one."""
    return events.filter("n % 10 = 0").selectExpr("t AS u", "key", "n AS m")


def table(spark):
    """Names of some keys, two of the most frequent one."""
    return spark.range(30).selectExpr("if(id < 2, 'hot', concat('key ', id)) AS key", "id AS name")


def plain(spark, folder, kind):
    """What plain Spark gives for a batch of all events."""
    rows = events(spark.read, folder)
    if kind == "table":
        return rows.join(table(spark), "key", "left")
    if kind == "streams":
        others = clicks(events(spark.read, folder)).withColumnRenamed("key", "other")
        return rows.join(others, F.expr(f"key = other AND {RANGE}"), "left").select(
            "key", "t", "n", "amount", "u", "m"
        )
    if kind in ROUTED:
        return rows
    return rows.groupBy(window(), "key").agg(*totals())


def written(spark, folder, kind, schema):
    """What the query has written."""
    if kind != "update":
        return spark.read.schema(schema).parquet(str(folder / "totals"))
    # of each total what the last batch says
    rows = spark.read.schema(f"{ddl(schema)}, batch bigint").parquet(str(folder / "totals"))
    last = rows.groupBy("window", "key").agg(F.max_by(F.struct("n", "rows", "amount"), "batch").alias("last"))
    return last.select("window", "key", "last.*")


def ddl(schema):
    """The columns of a schema as SQL."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)


def query(folder, engine, kind):
    """Run the query from its checkpoint to the end of its input."""
    spark = session(folder)

    def stream():
        return events(spark.readStream.option("maxFilesPerTrigger", FILES_A_BATCH), folder)

    rows = stream().withWatermark("t", "10 minutes")
    by = {"plan": kss.Plan.load(folder / "plan.json"), "engine": engine, "force": True}
    if kind == "adapt":
        # each plan is replaced by the next one, whatever it gains
        adapt = kss.streaming.Adapt(gain=1e-9, copy_cost=0.0, horizon=10**9)
        found = kss.streaming.repartition(rows, "key", workers=WORKERS, adapt=adapt).drop("worker")
    elif kind == "online":
        state = folder / "routers"
        found = kss.streaming.repartition(
            rows, "key", workers=WORKERS, grouping="fish", mode="online", state=state
        ).drop("worker")
    elif kind == "apply":
        found = applied(rows, by["plan"])
    elif kind == "update":
        found = kss.streaming.aggregate(rows, "key", *totals(), window=window(), **by)
    elif kind == "table":
        found = kss.streaming.join(rows, table(spark), "key", "left", **by)
    elif kind == "streams":
        others = clicks(stream()).withWatermark("u", "10 minutes")
        found = kss.streaming.join(rows, others, "key", "left", condition=F.expr(RANGE), **by)
    else:
        by |= {kind: True, "force": kind == "force"}
        found = kss.streaming.aggregate(rows, "key", *totals(), window=window(), **by)
    mode = "update" if kind == "update" else "append"
    writer = found.writeStream.outputMode(mode).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    if kind == "update":
        writer = writer.foreachBatch(lambda df, batch: replace(df, batch, folder / "totals"))
    else:
        writer = writer.format("parquet").option("path", str(folder / "totals"))
    writer.start().awaitTermination()
    spark.stop()


def replace(df, batch, folder):
    """Write what a batch gave in the place of what an attempt at it may have written."""
    df.write.mode("overwrite").parquet(str(folder / f"batch={batch}"))


def applied(rows, plan):
    """The same totals by Python functions, with what workers keep combined as they go."""

    def partial(rows):
        return pd.DataFrame({"n": [rows["n"].sum()], "rows": [len(rows)], "amount": [rows["amount"].sum()]})

    def combine(parts):
        return parts.sum().to_frame().T

    def merge(key, parts):
        window = {"start": key[0]["start"], "end": key[0]["end"]}
        return combine(parts).assign(window=[window], key=key[1])

    return kss.streaming.apply(
        rows,
        "key",
        partial,
        merge,
        f"window struct<start: timestamp, end: timestamp>, key string, {PARTS}",
        partial_schema=PARTS,
        combine=combine,
        window=window(),
        plan=plan,
    )


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
        while time.monotonic() < end and newest(commits) <= batch:
            time.sleep(0.02)
        if newest(commits) > batch:  # it was faster: kill the next one as it begins
            wait_for_batch(process, offsets, batch + 2)
        assert process.poll() is None, "the query ended before the kill"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return {"killed in batch": newest(offsets), "batch was at work": newest(offsets) > newest(commits)}


def command(folder, engine, kind):
    """The command that runs the query."""
    return [sys.executable, __file__, str(folder), "--query", "--engine", engine, "--kind", kind]


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
