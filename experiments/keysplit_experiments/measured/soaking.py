"""A soak: two streams that adapt run for long while keys drift, workers come and go, and drivers are killed.

usage: scripts/with-env python -m keysplit_experiments.measured.soaking --out FOLDER
           [--minutes 45] [--kills 6] [--seed 0]

A file of events comes every two seconds; each third minute other keys are frequent. Two queries of one driver
compute the same totals per minute and key, in append mode:

- aggregate: rows are routed by a plan for d_choices that adapts, and `groupBy` has the worker among its keys,
  then not; two of eight workers go and come back, and one is slow for some time, by `publish`.
- apply: by Python functions, following FISH; the same workers are slow, by `Adapt(capacities=...)`.

In the first half of the time the driver is killed (SIGKILL, Python and JVM) at random moments, and starts
again from its checkpoints. After the last kill it runs on, so that memory that grows is seen.

Every five seconds the resident memory of all processes is taken, every minute what lives on the heap of the
JVM (after a collection) and the sizes of checkpoints. At the end what was written is compared with the totals
of a batch over all files. FOLDER gets `soak.json` and `soak.svg`; a table in Markdown is printed.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamReader, StreamingQuery, StreamingQueryListener

import keysplit as ks
from keysplit import spark as kss
from keysplit_experiments.measured.processes import jvm_of, resident_mb
from keysplit_experiments.measured.soaked import QUERIES, draw, table

FILE_S, FILE_ROWS, KEYS, DRIFT_S, LATE_S = 2, 2_000, 1_000, 180, 20
START, LAST = datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
SAMPLE_S, DEEP_S, TRIGGER = 5, 60, "3 seconds"
KILLED = 0.48  # the part of the time in which drivers are killed
ALL, FEWER, SLOW = (1.0,) * 8, (1.0,) * 6, (1.0,) * 3 + (0.3,) + (1.0,) * 4
SPEEDS = (
    (0.0, ALL),
    (0.15, FEWER),
    (0.3, SLOW),
    (0.45, ALL),
    (0.6, FEWER),
    (0.7, ALL),
    (0.8, SLOW),
    (0.9, ALL),
)
SCHEMA = "window struct<start: timestamp, end: timestamp>, key string, n bigint, rows bigint"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--query", type=float, help=argparse.SUPPRESS)  # run the queries; when the soak began
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if options.query is not None:
        run(options.out, options.query, options.minutes)
        return
    found = soak(options.out, options.minutes, options.kills, random.Random(options.seed))
    found["totals"] = compared(options.out)
    (options.out / "soak.json").write_text(json.dumps(found))
    draw(found, options.out / "soak.svg")
    print(table(found))


# The events


def write_file(folder: Path, number: int, keys: np.ndarray, last: bool = False) -> None:
    """Write a file of events, up to twenty seconds out of order; or of one event that ends all windows."""
    ids = np.arange(number * FILE_ROWS, (number + 1) * FILE_ROWS)[: 1 if last else None]
    phase = number * FILE_S // DRIFT_S
    keys = (keys[ids % len(keys)] + phase * 97) % KEYS
    second = np.random.default_rng(number).integers(0, LATE_S * 1000, len(ids))
    begin = LAST if last else START + timedelta(seconds=number * FILE_S)
    times = pa.array(np.datetime64(begin.replace(tzinfo=None), "us") - second.astype("timedelta64[ms]"))
    columns = {"t": times.cast(pa.timestamp("us", "UTC")), "key": pa.array(keys).cast(pa.string()), "n": ids}
    name = f"{number:06}.parquet"
    pq.write_table(pa.table(columns), folder / name)
    os.replace(folder / name, folder / "in" / name)


def events(reader: DataFrameReader | DataStreamReader, folder: Path) -> DataFrame:
    """The events, as a batch or as a stream."""
    return reader.schema("t timestamp, key string, n bigint").parquet(str(folder / "in"))


def totals() -> list[Column]:
    return [F.sum("n").alias("n"), F.count("*").alias("rows")]


# The driver that is killed


def run(folder: Path, began: float, minutes: float) -> None:
    """Run the queries until there is a file `end`, then to the end of their input."""

    def speeds() -> tuple[float, ...]:
        part = (time.time() - began) / (minutes * 60)
        return [each for since, each in SPEEDS if since <= part][-1]

    spark = session()
    spark.streams.addListener(Progress(folder / "progress.jsonl"))
    rows = events(spark.readStream, folder).withWatermark("t", "30 seconds")
    adapt = kss.streaming.Adapt(
        len(ALL),
        grouping="fish",
        capacities=lambda: speeds() + SLOW[3:4] * (len(ALL) - len(speeds())),
    )
    streams = {"aggregate": aggregated(rows), "apply": applied(rows, adapt)}
    queries = {name: started(folder, name, df) for name, df in streams.items()}
    observers = [
        kss.streaming.observe(query, log=str(folder / "observed" / name)) for name, query in queries.items()
    ]
    published = None
    while not (folder / "end").exists():
        progress, now = queries["aggregate"].lastProgress, speeds()
        if published != now and progress is not None and progress["numInputRows"]:
            plan = kss.Plan.load(versions(folder, "aggregate")[-1])
            kss.streaming.publish(plan.with_workers(len(now), now), queries["aggregate"])
            published = now
        if not all(query.isActive for query in queries.values()):
            break
        time.sleep(0.5)
    for query in queries.values():
        query.processAllAvailable()  # raises what has ended it
        query.stop()
    for observer in observers:
        observer.wait(60)
    spark.stop()


def aggregated(rows: DataFrame) -> DataFrame:
    """The totals by Spark's own aggregates: of each worker, then of all."""
    routed = kss.streaming.route(rows, "key", plan=kss.streaming.Adapt(len(ALL)))
    parts = routed.groupBy(F.window("t", "1 minute"), "key", "worker").agg(*totals())
    window = F.window(F.window_time("window"), "1 minute")
    return parts.groupBy(window, "key").agg(F.sum("n").alias("n"), F.sum("rows").alias("rows"))


def applied(rows: DataFrame, adapt: kss.streaming.Adapt) -> DataFrame:
    """The totals by Python functions, with what workers keep combined as they go."""

    def partial(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"n": [rows["n"].sum()], "rows": [len(rows)]})

    def combine(parts: pd.DataFrame) -> pd.DataFrame:
        return parts.sum().to_frame().T

    def merge(key: tuple[Any, ...], parts: pd.DataFrame) -> pd.DataFrame:
        window = {"start": key[0]["start"], "end": key[0]["end"]}
        return combine(parts).assign(window=[window], key=key[1])

    return kss.streaming.apply(
        rows,
        "key",
        partial,
        SCHEMA,
        merge=merge,
        plan=adapt,
        partial_schema="n bigint, rows bigint",
        combine=combine,
        window=F.window("t", "1 minute"),
    )


def started(folder: Path, name: str, df: DataFrame) -> StreamingQuery:
    writer = df.writeStream.queryName(name).outputMode("append").trigger(processingTime=TRIGGER)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint" / name))
    return writer.format("parquet").option("path", str(folder / "totals" / name)).start()


class Progress(StreamingQueryListener):  # type: ignore[misc]
    """Writes a line of JSON for each micro-batch."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        found = event.progress
        if "addBatch" not in found.durationMs:
            return
        line = {
            "at": time.time(),
            "query": found.name,
            "batch": found.batchId,
            "rows": found.numInputRows,
            "duration_s": found.durationMs["triggerExecution"] / 1000,
            "state_rows": sum(each.numRowsTotal for each in found.stateOperators),
            "state_mb": sum(each.memoryUsedBytes for each in found.stateOperators) / 1e6,
        }
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


# The soak around it


def soak(folder: Path, minutes: float, kills: int, chance: random.Random) -> dict[str, Any]:
    """Write files, run and kill the driver, and take samples; times are in seconds since the beginning."""
    (folder / "in").mkdir(parents=True)
    keys = ks.streams.zipf(1.2, keys=KEYS, messages=1_000_000, seed=1)
    end = minutes * 60
    due = [KILLED * end * (at + 0.5 + 0.5 * chance.random()) / kills for at in range(kills)]
    samples, killed = list[dict[str, Any]](), list[dict[str, Any]]()
    began, files, deep_at = time.time(), 0, 0.0
    command = [sys.executable, "-m", "keysplit_experiments.measured.soaking", "--out", str(folder)]
    command += ["--minutes", str(minutes), "--query", str(began)]
    with (folder / "query.log").open("a") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            while process.poll() is None:
                now = time.time() - began
                while files < min(now, end) / FILE_S:
                    write_file(folder, files, keys)
                    files += 1
                if now >= end and not (folder / "end").exists():
                    for last in range(3):
                        write_file(folder, files + last, keys, last=True)
                    (folder / "end").touch()
                if due and now >= due[0]:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    within = [
                        name
                        for name in QUERIES
                        if newest(folder, name, "offsets") > newest(folder, name, "commits")
                    ]
                    killed.append({"at": due.pop(0), "mid-batch": within})
                    process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
                if now >= len(samples) * SAMPLE_S:
                    samples.append({"at": now, "driver": process.pid, "memory_mb": resident_mb(process.pid)})
                    if now >= deep_at:
                        samples[-1] |= sizes(folder, process.pid)
                        deep_at = now + DEEP_S
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise RuntimeError(f"the queries ended: {(folder / 'query.log').read_text()[-3000:]}")
    lines = (folder / "progress.jsonl").read_text().splitlines()
    batches = [line | {"at": line["at"] - began} for line in map(json.loads, lines)]
    return {"minutes": minutes, "files": files, "kills": killed, "samples": samples, "batches": batches}


def sizes(folder: Path, driver: int) -> dict[str, float]:
    """What lives on the heap of the JVM, and how large checkpoints and plan logs are."""
    found = {}
    jvm = jvm_of(driver)
    jcmd = Path(os.environ.get("JAVA_HOME", ""), "bin", "jcmd")
    if jvm is not None and jcmd.exists():
        # this collects what does not live; the last line is: Total, instances, bytes
        command = [str(jcmd), str(jvm), "GC.class_histogram"]
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\n")
        total = [line for line in lines if line.startswith("Total")]
        if total:
            found["heap_mb"] = int(total[0].split()[2]) / 1e6
    for name in QUERIES:
        parts = {"plan log": [0, 0], "state": [0, 0], "rest": [0, 0]}
        for path, _, files in os.walk(folder / "checkpoint" / name):
            kind = {"keysplit": "plan log", "state": "state"}.get(
                next(iter(Path(path).relative_to(folder / "checkpoint" / name).parts), ""), "rest"
            )
            for file in files:
                try:
                    parts[kind][1] += (Path(path) / file).stat().st_size
                except OSError:  # deleted since
                    continue
                parts[kind][0] += 1
        for kind, (count, size) in parts.items():
            found |= {f"{name}, {kind}, files": count, f"{name}, {kind}, mb": size / 1e6}
    return found


def newest(folder: Path, query: str, kind: str) -> int:
    """The newest batch in a folder of a checkpoint, -1 if there is none."""
    paths = (folder / "checkpoint" / query / kind).glob("*")
    return max((int(path.name) for path in paths if path.name.isdigit()), default=-1)


def versions(folder: Path, query: str) -> list[Path]:
    """The versions of the plan of a query, the newest last."""
    paths = (folder / "checkpoint" / query / "keysplit").glob("*/plan-*.json")
    return sorted(paths, key=lambda path: int(path.stem.split("-")[1]))


def compared(folder: Path) -> dict[str, dict[str, float]]:
    """Compare what the queries have written with the totals of a batch over all files."""
    spark = session()
    ended = f"window.end < '{LAST - timedelta(days=1):%Y-%m-%d}'"
    rows = events(spark.read, folder)
    true = rows.groupBy(F.window("t", "1 minute"), "key").agg(*totals()).where(ended).cache()
    found = {}
    for name in QUERIES:
        written = spark.read.schema(SCHEMA).parquet(str(folder / "totals" / name)).where(ended).cache()
        seen = pd.read_parquet(folder / "observed" / name, columns=["input_rows", "busiest", "hash_busiest"])
        found[name] = {
            "versions": int(versions(folder, name)[-1].stem.split("-")[1]) + 1,
            "batches": newest(folder, name, "commits") + 1,
            "rows": rows.where(f"t < '{LAST - timedelta(days=1):%Y-%m-%d}'").count(),
            "busiest": float(seen.busiest[seen.input_rows > 0].median()),
            "by hash": float(seen.hash_busiest[seen.input_rows > 0].median()),
            "totals": true.count(),
            "missing": true.exceptAll(written).count(),
            "wrong or doubled": written.exceptAll(true).count(),
        }
    spark.stop()
    return found


def session() -> SparkSession:
    """Return a session on two cores that keeps few records of what it has run."""
    builder = SparkSession.builder.master("local[2]")
    kept = dict.fromkeys(
        ("spark.ui.retainedJobs", "spark.ui.retainedStages", "spark.sql.ui.retainedExecutions"), "50"
    )
    settings = kept | {
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
