"""Kill executors of a small cluster with SIGKILL while they place and aggregate rows; print what came out.

usage: python killed_executor.py FOLDER [--trials N] [--mode planned|online|salted]
                                 [--shuffle-below] [--sorted] [--speculation] [and OPTION...]

A trial is two jobs, and each loses an executor with its map outputs in mid-stage, so that Spark retries tasks
of every upstream stage. One places the rows and writes them. The other aggregates them by key; it loses the
executor where the rows are added up on each worker or, in every other trial, where the totals are merged.

Mode `salted` is what users write by hand: a column made of rand() is part of the key. With `--shuffle-below`
the rows come out of a shuffle, in another order each time; kss.online is told to run there all the same,
unless the rows are `--sorted` by all columns downstream of it. With `--speculation` a task of the stage that
routes hangs, and a copy of it wins. After each `and` come the options of further trials on the same cluster,
which speculates if the first are with `--speculation`.

A line of JSON a job says what was found: "exact", "wrong", or "stopped" if Spark gave the job up. Exact rows
are there once each, on the worker that they have without a kill; salted rows, and those that kss.online
routes downstream of a shuffle, have no such worker. Exact totals equal those of a plain groupBy without a
kill. The last line counts.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pandas as pd
import pyarrow.parquet
import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from quick_java import QUICK

import keysplit as ks
from keysplit import spark as kss
from keysplit_experiments.deployments.engine.broker import free_ports

ROWS, SOURCES, WORKERS = 40_000, 6, 8


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--mode", choices=["planned", "online", "salted"], default="planned")
    parser.add_argument("--shuffle-below", action="store_true")
    parser.add_argument("--sorted", action="store_true")
    parser.add_argument("--speculation", action="store_true")
    given = [list(words) for is_and, words in groupby(sys.argv[1:], "and".__eq__) if not is_and]
    options = parser.parse_args(given[0] if given else [])
    runs = [options, *(parser.parse_args([str(options.folder), *more]) for more in given[1:])]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_TOOL_OPTIONS"] = QUICK
    options.folder.mkdir(parents=True)
    lines = []
    with cluster(options.folder) as master:
        spark = session(master, options)
        for run, each in enumerate(runs):
            for line in trials(spark, each, run):
                print(json.dumps(line), flush=True)
                lines.append(line)
        spark.stop()
    outcomes = Counter(line["outcome"] for line in lines)
    summary = {
        "spark": pyspark.__version__,
        "jobs with a kill": sum(line["killed"] for line in lines),
        "fewest tasks run again": min(line["tasks run again"] for line in lines),
        "fewest copies": min(line["copies"] for line in lines),
        **{outcome: outcomes[outcome] for outcome in ("exact", "wrong", "stopped")},
    }
    print(json.dumps(summary))


def trials(spark, options, run):
    """Run all jobs, and yield what was found in each."""
    numbers = spark.range(ROWS, numPartitions=SOURCES).selectExpr(
        "id",
        "CASE WHEN id % 3 = 0 THEN 0 ELSE CAST(sqrt(id) AS bigint) END AS key",
        "CAST(id * 0.01 AS decimal(12, 2)) AS amount",
    )
    true_totals = sorted(map(tuple, numbers.groupBy("key").agg(*totals("id")).collect()))
    inexact = options.shuffle_below and not options.sorted

    def new_job(name, stage=None, seed=0):
        job = Job(options.folder / f"{run}-{name}", stage, seed)
        job.folder.mkdir()
        return job

    def salted(df):
        return df.withColumn("salt", (F.rand() * WORKERS).cast("int")).repartition(WORKERS, "key", "salt")

    def below(job):
        df = numbers
        if options.shuffle_below:
            df = df.mapInArrow(job.noting("source"), df.schema).repartition(SOURCES, "id")
        df = df.mapInArrow(job.noting("route", hang=options.speculation), df.schema)
        return df.sortWithinPartitions(*df.columns) if options.sorted else df

    grouping = ks.PartialKeyGrouping(workers=WORKERS)
    # what notes the tasks is a function of Python, which changes nothing
    plan = options.mode == "planned" and kss.plan(below(new_job("plan")), "key", WORKERS, trust=["run"])

    def placed(df):
        if options.mode == "planned":
            return kss.repartition(df, "key", plan=plan)
        how = {"allow_inexact": True} if inexact else {"trust": ["run"]}
        return kss.online.repartition(df, "key", grouping, **how)

    workers = None
    if options.mode == "planned" or (options.mode == "online" and not inexact):
        df = numbers if options.mode == "planned" else below(new_job("without a kill"))
        workers = dict(map(tuple, placed(df).select("id", "worker").collect()))

    def rows(job):
        df = below(job)
        moved = salted(df) if options.mode == "salted" else placed(df)
        moved.mapInArrow(job.work("partial"), moved.schema).write.parquet(str(job.folder / "rows"))
        found = pyarrow.parquet.read_table(job.folder / "rows").to_pylist()
        ids = [row["id"] for row in found]
        seen = {"rows": len(ids), "distinct rows": len(set(ids)), "sum": sum(ids)}
        if workers:
            seen["moved"] = sum(row["worker"] != workers[row["id"]] for row in found)
        return seen, sorted(ids) == list(range(ROWS)) and not seen.get("moved")

    def aggregate(job):
        df = below(job)
        columns = totals(F.pandas_udf(job.work("partial"), "long")("id"))
        if options.mode == "salted":
            merged = salted(df).groupBy("key").agg(*columns)
        else:
            parts = placed(df).groupBy("worker", "key").agg(*columns)
            merged = parts.groupBy("key").agg(
                *(F.sum(name).alias(name) for name in ("ids", "rows", "amounts"))
            )
        found = [tuple(row) for row in merged.mapInArrow(job.work("merge"), merged.schema).collect()]
        wrong = Counter(found)
        wrong.subtract(true_totals)
        seen = {"keys": len(found), "wrong totals": sum(map(abs, wrong.values()))}
        seen |= {"rows": sum(row[2] for row in found), "sum": sum(row[1] for row in found)}
        return seen, sorted(found) == true_totals

    for trial in range(options.trials):
        for act, stage in ((rows, "partial"), (aggregate, ("partial", "merge")[trial % 2])):
            # all that have joined a cluster of two, and the driver
            wait_for(lambda: len(spark._jsc.sc().statusTracker().getExecutorInfos()) == 3)
            job = new_job(f"{act.__name__}-{trial}", stage, trial)
            try:
                seen, exact = act(job)
                outcome = "exact" if exact else "wrong"
            except (Py4JJavaError, PySparkException) as error:
                seen, outcome = {"error": reason(error)}, "stopped"
            found = {"run": run, "trial": trial, "job": act.__name__, "kill in": stage, "outcome": outcome}
            yield found | job.ran() | seen


def totals(number):
    """Aggregates with exact answers: whole numbers and a decimal."""
    return [
        F.sum(number).alias("ids"),
        F.count("*").alias("rows"),
        F.sum("amount").alias("amounts"),
    ]


def reason(error):
    """The line of a Spark error that says why the job was stopped."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if "ndeterminate" in line), next(filter(None, lines), ""))[:300]


@dataclass(frozen=True)
class Job:
    """What the tasks of a job share: a folder where they note that they ran, and the place of the kill."""

    folder: Path
    stage: str | None
    seed: int

    def noting(self, stage, hang=False):
        """A pass-through for mapInArrow, whose tasks note their runs; with `hang` one of them hangs."""

        def run(batches):
            self.note(stage, hang)
            yield from batches

        return run

    def work(self, stage):
        """A slow pass-through for mapInArrow and pandas UDFs; one of its tasks kills an executor."""
        chance = random.Random(self.seed)
        partition = chance.randrange(2, WORKERS - 2)  # some tasks have finished, some have not started

        def run(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
            self.note(stage)
            for batch in batches:
                time.sleep(0.2)
                if stage == self.stage and TaskContext.get().partitionId() >= partition:
                    self.kill(chance)
                yield batch

        return run

    def note(self, stage, hang=False):
        """Note that a task runs, and on which executor."""
        task = TaskContext.get()
        name = f"{stage}-{task.partitionId()}-{task.attemptNumber()}"
        first = not any(self.folder.glob(f"{name}-*"))
        hangs = hang and first and name == f"{stage}-1-0"
        (self.folder / f"{name}-{uuid.uuid4()}").write_text("hung" if hangs else str(executor()))
        if hangs:
            wait_for(lambda: any(self.folder.glob(f"{stage}-1-1-*")))
            time.sleep(60)  # Spark ends this task when its copy has finished

    def kill(self, chance):
        """Kill one of the executors that hold outputs of the stage below, once a job."""
        below = {"partial": "route", "merge": "partial"}[self.stage]
        holders = {path.read_text() for path in self.folder.glob(f"{below}-*")} - {"hung"}
        try:
            with (self.folder / "killed").open("x") as file:
                victim = chance.choice(sorted(holders))
                file.write(victim)
        except FileExistsError:
            return
        os.kill(int(victim), signal.SIGKILL)
        if victim == str(executor()):
            time.sleep(60)

    def forget(self):
        """Forget all tasks so far: no executor was lost."""
        for path in self.folder.glob("*-*-*-*"):
            path.unlink()

    def ran(self):
        """Whether an executor was killed, tasks below that ran again, and copies of tasks that route."""
        # a task of a stage that runs again counts its attempts anew, a copy of a slow task is attempt 1
        runs = Counter(tuple(path.name.split("-")[:3]) for path in self.folder.glob("*-*-*-*"))
        return {
            "killed": (self.folder / "killed").exists(),
            "tasks run again": sum(
                count - 1
                for (stage, _, attempt), count in runs.items()
                if stage != self.stage and attempt == "0"
            ),
            "copies": sum(
                count for (stage, _, attempt), count in runs.items() if stage == "route" and attempt != "0"
            ),
        }


def session(master, options):
    """A session on the cluster."""
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executor.memory", "1g")
        .config("spark.sql.shuffle.partitions", str(WORKERS))
        # few rows in few partitions would leave no task to run after the kill
        .config("spark.sql.adaptive.coalescePartitions.enabled", "false")
        .config("spark.sql.warehouse.dir", str(options.folder / "warehouse"))
        .config("spark.shuffle.io.retryWait", "200ms")  # outputs of a dead executor are soon given up
        # tasks go to both executors, and what they read comes from both: all of one executor's comes in order
        .config("spark.shuffle.reduceLocality.enabled", "false")
        .config("spark.speculation", str(options.speculation).lower())
        .config("spark.speculation.quantile", "0.5")
        .config("spark.speculation.multiplier", "1.2")
        # Python workers are forked with all that they import
        .config("spark.python.daemon.module", "keysplit_experiments.deployments.engine.daemon")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def wait_for(event):
    """Wait until a thing has happened, two minutes at most."""
    end = time.monotonic() + 120
    while not event() and time.monotonic() < end:
        time.sleep(0.1)


@contextmanager
def cluster(folder):
    """Start a master and two workers with an executor each, and stop them in the end.

    `local-cluster` would not do: all its executors are on one host, and Spark starts the copy of a slow task
    on another one.
    """
    (port,) = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    command = [Path(pyspark.__file__).parent / "bin" / "spark-class"]
    ports = ["--webui-port", "0", "--port"]
    commands = [
        [
            *command,
            "org.apache.spark.deploy.master.Master",
            "--host",
            "127.0.0.1",
            *ports,
            str(port),
        ]
    ]
    for host in ("127.0.0.1", "127.0.0.2"):
        worker = ["org.apache.spark.deploy.worker.Worker", "--host", host, *ports, "0", "--cores", "1"]
        commands.append([*command, *worker, "--memory", "1g", "--work-dir", folder / host, master])
    with ExitStack() as stack, (folder / "cluster.log").open("w") as log:
        for command in commands:
            environment = os.environ | {"SPARK_LOCAL_IP": command[command.index("--host") + 1]}
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield master


def executor():
    """The executor that the calling Python worker serves: the parent process of the worker's daemon."""
    daemon = Path(f"/proc/{os.getppid()}/status").read_text()
    pid = int(daemon.split("PPid:")[1].split()[0])
    assert "CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_text()
    return pid


if __name__ == "__main__":
    main()
