"""Kill the driver of streaming queries, or one of its executors, at random moments with SIGKILL; print what
came out.

usage: python killed_driver.py FOLDER [--kills N] [--seed N] [--kinds KIND...] [--frozen]
                               [--sink parquet|delta|iceberg] [--executors]

Queries of several kinds run in the driver at the same time. By KIND a query

- aggregates events by window and key with Python functions (apply, the default);
- joins them with a table (table) or with another stream of them (streams);
- places them (repartition), also online (online).

All but streams and online use a plan that changes in every batch: it adapts, and another one is published
while a batch is at work. With `--frozen` it stays, as it does in streams. With `--sink delta` or `iceberg` a
table takes the place of files; `scripts/jars` has their jars, for Spark 4.1.

A kill takes Python and the JVM of the driver, at a random moment of a batch of one of the queries, and they
start again from their checkpoints. With `--executors` a kill takes one of two executors of a local cluster,
and the queries go on. There are kills until N of them have met each query in the midst of a batch, three
times as many at most. Of executors, those count that had a task, of whichever query.

A line of JSON for each kill and query says which batch was at work. The last ones compare what came out of
each query with what plain Spark gives for a batch of all events, and count the rows that repartition has sent
elsewhere than the plan says by whose version their batch went.
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
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from quick_java import QUICK

import keysplit as ks
from keysplit import spark as kss

FILE_ROWS, FILES_A_BATCH, WORKERS = 500, 2, 4
FILES, FILES_A_KILL = 32, 6
KINDS = ["apply", "table", "streams", "repartition", "online"]
TABLES = ("delta", "iceberg")
OF_ROWS = ("table", "streams", "repartition", "online")
IDENTITY = ["t", "n", "amount"]
PARTS = "n bigint, rows bigint, amount decimal(22, 2)"
RANGE = "u BETWEEN t AND t + INTERVAL 1 MINUTE"
START = datetime(2024, 1, 1)
ROOT = Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["apply"], metavar="KIND")
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--sink", choices=["parquet", *TABLES], default="parquet")
    parser.add_argument("--executors", action="store_true")
    parser.add_argument(
        "--query", action="store_true", help="run the queries alone, to the end of their input"
    )
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_TOOL_OPTIONS"] = QUICK
    folder = options.folder
    if options.query:
        run_queries(options)
        return

    files = max(FILES, FILES_A_KILL * options.kills)
    write_events(folder / "events", files)
    spark = session(folder, settings=settings_of(folder, options.sink))
    kss.plan(events(spark.read, folder), "key", WORKERS, row_id=IDENTITY).save(folder / "plan.json")
    spark.stop()
    command = [sys.executable, __file__, *sys.argv[1:], "--query"]
    queries = Queries(folder, options.kinds, files // FILES_A_BATCH)
    kills = 0
    for kill in (kill_executors if options.executors else kill_drivers)(
        queries, command, options.kills, random.Random(options.seed)
    ):
        kills += 1
        for line in kill:
            print(json.dumps(line), flush=True)

    spark = session(folder, settings=settings_of(folder, options.sink))
    for kind in options.kinds:
        summary = {"spark": pyspark.__version__, "kind": kind, "kills": kills}
        summary |= {"batches at work": queries.at_work[kind], "tasks lost": queries.lost()}
        print(json.dumps(summary | outcome(spark, folder, kind, options.sink)))
    spark.stop()


def outcome(spark, folder, kind, sink):
    """Compare what a query has written with what plain Spark gives."""
    # the window of the last event never ends
    ends = "t < '2025-01-01'" if kind in OF_ROWS else "window.end < '2025-01-01'"
    true = plain(spark, folder, kind).where(ends)
    found = written(spark, folder / kind, kind, sink, true.schema).where(ends)
    true, found = Counter(true.collect()), Counter(found.collect())
    versions = versions_of(folder / kind)
    figures = {
        "batches": newest(folder / kind / "checkpoint" / "commits") + 1,
        "plans": len(set(versions.values())),
        "totals": true.total(),
        "missing": (true - found).total(),
        "wrong or doubled": (found - true).total(),
    }
    if kind == "repartition" and versions:
        figures["elsewhere"] = elsewhere(spark, folder, kind, sink, versions)
    return figures


def versions_of(own):
    """The plan by which each batch of a query went, as the plan log has it."""
    return {
        int(path.stem.removeprefix("batch-")): json.loads(path.read_text())["plan"]
        for path in own.glob("checkpoint/keysplit/*/batch-*")
    }


def elsewhere(spark, folder, kind, sink, versions):
    """The number of rows that are not on the worker of the plan of their batch."""
    own = folder / kind
    rows = written(spark, own, kind, sink, None)
    (log,) = own.glob("checkpoint/keysplit/*")
    found, last = 0, -1
    for batch, version in sorted(versions.items()):
        # A stream reads the oldest files first, as many in each step of its source. A batch has one step, or
        # two where the driver was killed between the step and the batch.
        step = json.loads((own / f"checkpoint/offsets/{batch}").read_text().splitlines()[-1])["logOffset"]
        of_batch = rows.where(F.expr(f"n div {FILE_ROWS * FILES_A_BATCH} BETWEEN {last + 1} AND {step}"))
        last = step
        plan = kss.Plan.load(log / f"plan-{version}.json")
        by_plan = kss.route(of_batch, "key", plan=plan, worker_column="wanted")
        found += by_plan.where("worker <> wanted").count()
    return found


def write_events(folder, files):
    """Write small files of events, one file after the other in time; events are a few minutes out of order.

    A third of the events has one key, which is another one in each batch. The last files hold one event of a
    later year each, which ends all windows before.
    """
    folder.mkdir(parents=True)
    chance = random.Random(1)
    for number in range(files):
        first, last = number * FILE_ROWS, (number + 1) * FILE_ROWS
        hot = f"hot {number // FILES_A_BATCH % 3}"
        rows = [
            {
                "t": START + timedelta(seconds=i + chance.randrange(300)),
                "key": chance.choice([hot, f"key {i % 40}", f"key {i % 7}"]),
                "n": i,
                "amount": Decimal(i) / 100,
            }
            for i in range(first, last)
        ]
        if number >= files - 4:
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


def clicks(events):
    """A tenth of the events of a stream or a batch, as another one."""
    return events.filter("n % 10 = 0").selectExpr("t AS u", "key", "n AS m")


def table(spark):
    """Names of some keys, two of each frequent one."""
    return spark.range(30).selectExpr(
        "concat(if(id < 6, 'hot ', 'key '), if(id < 6, id % 3, id)) AS key", "id AS name"
    )


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
    if kind in ("repartition", "online"):
        return rows
    totals = [F.sum("n").alias("n"), F.count("*").alias("rows"), F.sum("amount").alias("amount")]
    return rows.groupBy(window(), "key").agg(*totals)


def written(spark, folder, kind, sink, schema):
    """The columns of a schema, all if it is None, of what a query has written."""
    totals = str(folder / "totals")
    if sink in TABLES:
        is_delta = sink == "delta"
        rows = spark.read.format("delta").load(totals) if is_delta else spark.read.table(f"totals.{kind}")
        return rows if schema is None else rows.select(schema.names)
    reader = spark.read if schema is None else spark.read.schema(schema)
    return reader.parquet(totals)


def run_queries(options):
    """Run the queries from their checkpoints to the end of their input."""
    settings = settings_of(options.folder, options.sink)
    spark = (cluster if options.executors else session)(options.folder, settings=settings)
    running = [start_query(spark, options, kind) for kind in options.kinds]
    seen, plan = dict.fromkeys(options.kinds, -1), kss.Plan.load(options.folder / "plan.json")
    while any(each.isActive for each in running):
        for kind in options.kinds:
            checkpoint = options.folder / kind / "checkpoint"
            if newest(checkpoint / "offsets") > seen[kind]:
                seen[kind] = newest(checkpoint / "offsets")
                for first in checkpoint.glob("keysplit/*/plan-0.json"):
                    kss.streaming.publish(other_plan(plan), first.parent)
        time.sleep(0.05)
    for each in running:
        each.awaitTermination()
    spark.stop()


def other_plan(plan):
    """The same plan for workers of other speeds."""
    return plan.with_workers(WORKERS, [random.uniform(0.5, 1.5) for _ in range(WORKERS)])


def start_query(spark, options, kind):
    """Start a query from its checkpoint."""
    folder, own = options.folder, options.folder / kind

    def stream():
        return events(spark.readStream.option("maxFilesPerTrigger", FILES_A_BATCH), folder)

    rows = stream().withWatermark("t", "10 minutes")
    plan = kss.Plan.load(folder / "plan.json")
    if not options.frozen and kind != "streams":
        # each plan is replaced by the next one, whatever it gains
        plan = kss.streaming.Adapt(start=plan, gain=1e-9, copy_cost=0.0, horizon=10**9)
    if kind == "repartition":
        found = kss.streaming.repartition(rows, "key", plan=plan)
    elif kind == "online":
        found = kss.online.repartition(rows, "key", ks.Fish(workers=WORKERS), state=own / "routers").drop(
            "worker"
        )
    elif kind == "apply":
        found = applied(rows, plan)
    elif kind == "table":
        found = kss.streaming.join(rows, table(spark), "key", "left", plan=plan, way="place")
    else:
        others = clicks(stream()).withWatermark("u", "10 minutes")
        found = kss.streaming.join(rows, others, "key", "left", condition=F.expr(RANGE), plan=plan)
    writer = found.writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(own / "checkpoint"))
    if options.sink == "iceberg":
        return writer.format("iceberg").toTable(f"totals.{kind}")
    return writer.format(options.sink).option("path", str(own / "totals")).start()


def applied(rows, plan):
    """Totals by Python functions, with what workers keep combined as they go."""

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
        f"window struct<start: timestamp, end: timestamp>, key string, {PARTS}",
        merge=merge,
        partial_schema=PARTS,
        combine=combine,
        window=window(),
        plan=plan,
    )


class Queries:
    """Queries of one driver, each with a checkpoint in a folder of its own.

    Args:
        folder: where the log is.
        kinds: the folders below it; "" is the folder itself.
        batches: how many batches each of them has.
    """

    def __init__(self, folder, kinds, batches=10**9):
        self.log, self.batches = folder / "query.log", batches
        self.checkpoints = {kind: folder / kind / "checkpoint" for kind in kinds}
        self.at_work = Counter()

    @contextmanager
    def started(self, command):
        """Start the driver by a command; in the end kill all processes that it has left."""
        with self.log.open("a") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def wait_for_moment(self, process, chance):
        """Wait for a random moment of the next batch of a query; one takes about a second for each query.

        It is one of those that kills have met least in the midst of a batch.
        """
        going_on = self.going_on()
        least = min(self.at_work[kind] for kind in going_on)
        checkpoint = self.checkpoints[
            chance.choice([each for each in going_on if self.at_work[each] == least])
        ]
        offsets, commits = checkpoint / "offsets", checkpoint / "commits"
        batch = newest(offsets) + 1
        wait_for_batch(process, offsets, batch)
        end = time.monotonic() + chance.random() * len(self.checkpoints)
        while time.monotonic() < end and newest(commits) < batch:
            time.sleep(0.02)
        if newest(commits) >= batch:  # it was faster: take the next one as it begins
            wait_for_batch(process, offsets, batch + 1)
        assert process.poll() is None, "the queries ended before the kill"

    def wait_for_end(self, process):
        """Wait until the driver has ended as it should, twenty minutes at most."""
        assert process.wait(timeout=1200) == 0, f"a query failed: {self.log.read_text()[-10_000:]}"

    def met(self):
        """Which batch of each query a kill has met."""
        found = []
        for kind, checkpoint in self.checkpoints.items():
            offsets, commits = newest(checkpoint / "offsets"), newest(checkpoint / "commits")
            found.append({"kind": kind, "killed in batch": offsets, "batch was at work": offsets > commits})
        return found

    def count(self, met):
        """Count the queries that a kill has met in the midst of a batch."""
        for line in met:
            self.at_work[line["kind"]] += line["batch was at work"]

    def going_on(self):
        """The queries that have two more batches to begin, or more."""
        return [
            kind
            for kind, checkpoint in self.checkpoints.items()
            if newest(checkpoint / "offsets") + 3 < self.batches
        ]

    def wants_more(self, kills, done):
        """Whether a query has been met in the midst of a batch less often than it should be."""
        return done < 3 * kills and any(self.at_work[kind] < kills for kind in self.going_on())

    def lost(self):
        """The number of tasks that Spark has lost so far."""
        return self.log.read_text().count("Lost task ")


def kill_drivers(queries, command, kills, chance):
    """Start the driver and kill it, again and again, and then let it run to its end."""
    done = 0
    while queries.wants_more(kills, done):
        done += 1
        met = run_and_kill(queries, command, chance)
        queries.count(met)
        yield met
    with queries.started(command) as process:
        queries.wait_for_end(process)


def run_and_kill(queries, command, chance):
    """Start the driver and kill it, with all its processes, at a random moment of a batch."""
    with queries.started(command) as process:
        queries.wait_for_moment(process, chance)
    return queries.met()


def kill_executors(queries, command, kills, chance):
    """Start the driver, kill one of its executors again and again, and let it run to its end."""
    done = 0
    with queries.started(command) as process:
        wait_for_executors(process)
        while queries.wants_more(kills, done):
            done += 1
            queries.wait_for_moment(process, chance)
            before = queries.lost()
            killed = chance.choice(executors(process))
            os.kill(killed, signal.SIGKILL)
            met = queries.met()
            while killed in executors(process):
                time.sleep(0.02)
            wait_for_executors(process)  # until then the driver has said which tasks are lost
            lost = queries.lost() - before
            if lost:  # else the executor was idle
                queries.count(met)
            yield [line | {"tasks lost": lost} for line in met]
        queries.wait_for_end(process)


def wait_for_executors(process):
    """Wait until a driver has both executors."""
    while len(executors(process)) < 2:
        assert process.poll() is None, "the queries ended before the kill"
        time.sleep(0.1)


def executors(driver):
    """The process ids of the executors of a driver."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            of_driver = os.getsid(int(path.name)) == driver.pid
            if of_driver and b"CoarseGrainedExecutorBackend" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:  # it has ended
            continue
    return sorted(found)


def wait_for_batch(process, offsets, batch):
    """Wait until a query has begun a batch, five minutes at most."""
    end = time.monotonic() + 300
    while newest(offsets) < batch:
        assert process.poll() is None, "the queries ended before the kill"
        assert time.monotonic() < end, f"the query did not come to batch {batch}"
        time.sleep(0.02)


def newest(folder):
    """The newest batch in a folder of a checkpoint, -1 if there is none."""
    return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=-1)


def session(folder, master="local[2]", settings=None):
    """A session of two tasks at a time."""
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.bindAddress", "127.0.0.1")
    )
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def cluster(folder, settings=None):
    """A session on two executors with a task each, which says which tasks it loses."""
    harder = {
        # tasks go to both executors, and what they read comes from both: all of one executor's comes in order
        "spark.shuffle.reduceLocality.enabled": "false",
        "spark.shuffle.io.retryWait": "200ms",  # outputs of a dead executor are soon given up
    }
    spark = session(folder, "local-cluster[2,1,1024]", harder | (settings or {}))
    spark.sparkContext.setLogLevel("WARN")
    return spark


def settings_of(folder, sink):
    """What a session needs for a sink."""
    if sink not in TABLES:
        return {}
    settings = {"spark.jars": ",".join(map(str, (ROOT / f".cache/{sink}/jars").glob("*.jar")))}
    if sink == "delta":
        settings["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        settings["spark.databricks.delta.snapshotPartitions"] = "2"
    else:
        settings["spark.sql.defaultCatalog"] = "iceberg"
        settings["spark.sql.catalog.iceberg"] = "org.apache.iceberg.spark.SparkCatalog"
        settings["spark.sql.catalog.iceberg.type"] = "hadoop"
        settings["spark.sql.catalog.iceberg.warehouse"] = str(folder / "iceberg")
    return settings


if __name__ == "__main__":
    main()
