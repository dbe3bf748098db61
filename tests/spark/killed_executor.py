"""Route, place and write rows on a small cluster while an executor is killed in mid-stage; print what came
out.

usage: python killed_executor.py FOLDER [--speculation] [--shuffle-below]

The killed executor takes its map outputs along, so Spark runs some of the routing tasks again. With
`--shuffle-below` the router is put where online mode is refused, to see the damage.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keysplit import spark as kss

ROWS, SOURCES, WORKERS = 40_000, 6, 8


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--speculation", action="store_true")
    parser.add_argument("--shuffle-below", action="store_true")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable

    folder = arguments.folder
    (folder / "sources").mkdir(parents=True)
    slow = arguments.speculation

    def source(frames):
        task = TaskContext.get()
        run = f"{task.partitionId()}-{task.attemptNumber()}"
        again = any((folder / "sources").glob(f"{run}-*"))
        (folder / "sources" / f"{run}-{uuid.uuid4()}").write_text(str(executor()))
        if slow and run == "1-0" and not again:
            wait_for(lambda: any((folder / "sources").glob("1-1-*")))
            time.sleep(5)  # the copy has started, and wins
        yield from frames

    def consume(frames):
        for frame in frames:
            time.sleep(0.2)
            late = TaskContext.get().partitionId() >= WORKERS // 2
            if late and not (folder / "killed").exists() and has_outputs(executor()):
                (folder / "killed").touch()
                os.kill(executor(), signal.SIGKILL)
                time.sleep(60)
            yield frame

    def has_outputs(pid):
        # the one that the slow task was on may have run nothing else
        files = (path for path in (folder / "sources").iterdir() if not path.name.startswith("1-0-"))
        return any(path.read_text() == str(pid) for path in files)

    with cluster(folder) as master:
        spark = (
            SparkSession.builder.master(master)
            .config("spark.ui.enabled", "false")
            .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.executor.memory", "1g")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.speculation", str(arguments.speculation).lower())
            .config("spark.speculation.quantile", "0.5")
            .config("spark.speculation.multiplier", "1.2")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        key = F.when(F.col("id") % 3 == 0, F.lit(0)).otherwise(F.sqrt("id").cast("bigint"))
        df = (
            spark.range(ROWS, numPartitions=SOURCES)
            .withColumn("key", key)
            .mapInPandas(source, "id long, key long")
        )
        if arguments.shuffle_below:
            df = df.repartition(SOURCES, "id")
        placed = kss.repartition(
            df,
            "key",
            workers=WORKERS,
            grouping="partial_key",
            mode="online",
            allow_inexact=arguments.shuffle_below,
        )
        placed.mapInPandas(consume, placed.schema).write.parquet(str(folder / "rows"))

        rows = spark.read.parquet(str(folder / "rows"))
        again = kss.route(
            df, "key", workers=WORKERS, grouping="partial_key", mode="online", allow_inexact=True
        )
        runs = [path.name.split("-")[:2] for path in (folder / "sources").iterdir()]
        found = {
            "killed": (folder / "killed").exists(),
            "tasks run again": len(runs) - SOURCES,
            # a task of a stage that runs again counts its attempts anew, a copy of a slow task is attempt 1
            "copies": sum(attempt != "0" for _, attempt in runs),
            "rows": rows.count(),
            "distinct rows": rows.distinct().count(),
            "sum": rows.agg(F.sum("id")).first()[0],
            "rows routed as without a kill": rows.join(again, ["id", "key", "worker"]).count(),
            "wrong totals": kss.aggregate(rows, "key", F.count("*"), F.sum("id"), workers=3, mode="online")
            .exceptAll(df.groupBy("key").agg(F.count("*"), F.sum("id")))
            .count(),
        }
        print(json.dumps(found))
        spark.stop()


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
    with socket.create_server(("127.0.0.1", 0)) as free:
        master = f"spark://127.0.0.1:{free.getsockname()[1]}"
    command = [Path(pyspark.__file__).parent / "bin" / "spark-class"]
    ports = ["--webui-port", "0", "--port"]
    commands = [
        [
            *command,
            "org.apache.spark.deploy.master.Master",
            "--host",
            "127.0.0.1",
            *ports,
            master.split(":")[2],
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
