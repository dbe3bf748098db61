"""Both runs of the demo on Spark, measured."""

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keysplit.demo import job
from keysplit.plan import PLANS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OLDEST_JAVA = 17
FILES = 5
WARM_UP_ROWS = 1000
Step = Callable[[str], AbstractContextManager[None]]
"""Shows the current step until its context ends."""


class SparkFailed(RuntimeError):
    """Spark failed for a reason other than the user's input."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the job: partial results, the results merged by key, and the seconds until then."""

    label: str
    workers: int
    wall_s: float
    parts: list[job.Part]
    results: dict[str, job.Histogram]

    @property
    def rows(self) -> np.ndarray:
        """Rows by worker."""
        found = np.zeros(self.workers, np.int64)
        np.add.at(found, [part.worker for part in self.parts], [part.rows for part in self.parts])
        return found

    @property
    def busy_s(self) -> np.ndarray:
        """Busy seconds by worker."""
        found = np.zeros(self.workers)
        found[[part.worker for part in self.parts]] = [part.busy_s for part in self.parts]
        return found

    @property
    def ratios(self) -> tuple[float, float]:
        """The slowest worker's busy time and the busiest worker's rows, both over the workers' mean."""
        return tuple(float(of.max() / of.mean()) for of in (self.busy_s, self.rows))  # type: ignore[return-value]

    def served(self, key: str) -> dict[int, int]:
        """Rows of a key by worker."""
        return {part.worker: part.rows for part in self.parts if part.key == key}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Both runs on the same stream, and the expected distributions."""

    workers: int
    grouping: str
    service_time_s: float
    runs: tuple[Run, Run]
    expected: dict[str, job.Histogram]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(histogram.total() for histogram in self.expected.values())

    def wrong(self) -> dict[str, list[str]]:
        """The keys whose results differ from PyArrow's, by the label of the run; empty if there are none."""
        found = {}
        for run in self.runs:
            every = {**self.expected, **run.results}
            if keys := [key for key in every if run.results.get(key) != self.expected.get(key)]:
                found[run.label] = keys
        return found

    def top(self, keys: int) -> list[str]:
        """The most frequent keys, in descending frequency."""
        return sorted(self.expected, key=lambda key: -self.expected[key].total())[:keys]


def check(*, workers: int, grouping: str) -> None:
    """Raise an error if pyspark or a suitable Java is missing, or the grouping is unknown."""
    import keysplit.spark  # noqa: F401

    if grouping not in PLANS:
        raise ValueError(f"grouping must be one of {', '.join(sorted(PLANS))}, got {grouping!r}")
    PLANS[grouping](workers=workers)
    check_java()


def check_java() -> None:
    """Raise FileNotFoundError if Spark can use no installed Java."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False) if java else None
    found = answer and re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    if not found or int(found[1]) < OLDEST_JAVA:
        where = f"in JAVA_HOME={home}" if home else "on the path"
        got = f"got {found[1]} from {java}" if found else f"found none that runs {where}"
        remedy = f"set JAVA_HOME to Java {OLDEST_JAVA} or newer, or use `make demo`, which brings one"
        raise FileNotFoundError(f"Spark needs Java {OLDEST_JAVA} or newer, {got}: {remedy}")


def compare(table: pa.Table, *, workers: int, grouping: str, service_time_s: float, step: Step) -> Comparison:
    """Run the job over a stream with Spark's hash and with a plan, and compute its results without Spark.

    Both runs do the same work in one session with warm Python workers. Only the run with keysplit pays for a
    plan, for routing, and for a merge by key. A row keeps its worker busy for `service_time_s`. Raises
    SparkFailed if Spark does not start or fails.

    Source: emulated service time: M. A. U. Nasir et al., The Power of Both Choices, ICDE 2015, section V.
    Deviations: the workers are tasks of one Spark job and take turns on the cores of one machine.
    """
    with step("computing the expected results with PyArrow"):
        expected = job.plain(table)
    with tempfile.TemporaryDirectory(prefix="keysplit-demo-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "stream"
        path.mkdir()
        for start, end in pairwise(len(table) * at // FILES for at in range(FILES + 1)):
            pq.write_table(table.slice(start, end - start), path / f"{start}-{end}.parquet")
        with _session(workers, folder, step) as spark:
            from pyspark.sql.pandas.types import from_arrow_schema

            from keysplit import spark as kss

            rows = spark.read.parquet(str(path))

            def served(placed: "DataFrame", service_time_s: float) -> "DataFrame":
                serve = partial(_serve, service_time_s=service_time_s)
                return placed.mapInArrow(serve, from_arrow_schema(job.SCHEMA))

            def by_hash(df: "DataFrame", service_time_s: float) -> "DataFrame":
                return served(df.repartition(workers, "key"), service_time_s)

            def by_keysplit(df: "DataFrame", service_time_s: float) -> "DataFrame":
                plan = kss.plan(df, "key", workers, grouping=grouping, row_id="position")
                placed = kss.repartition(df, "key", plan=plan)
                return served(placed, service_time_s).repartition("key")  # to be merged

            ways = {"Spark's hash": by_hash, f"keysplit {grouping}": by_keysplit}
            with step(f"warming up {workers} Python workers"):
                some = rows.where(rows.position % (len(table) // WARM_UP_ROWS + 1) == 0)
                for way in ways.values():
                    way(some, 0.0).collect()
            runs = []
            for label, way in ways.items():
                # Spark starts a Python worker if none is idle, so there is one for each concurrent task
                spark.range(0, workers, 1, workers).mapInArrow(_hold, "id long").collect()
                with step(f"running the job: {label}"):
                    began = time.monotonic()
                    parts = job.parts(way(rows, service_time_s).collect())
                    results = job.merged(parts)
                    wall_s = time.monotonic() - began
                runs.append(Run(label=label, workers=workers, wall_s=wall_s, parts=parts, results=results))
    return Comparison(
        workers=workers,
        grouping=grouping,
        service_time_s=service_time_s,
        runs=(runs[0], runs[1]),
        expected=expected,
    )


def _serve(batches: Iterator[pa.RecordBatch], *, service_time_s: float) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None  # every task has one
    return job.work(batches, worker=context.partitionId(), service_time_s=service_time_s)


def _hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    time.sleep(0.2)


@contextmanager
def _session(workers: int, folder: str, step: Step) -> Iterator["SparkSession"]:
    """Return a silent Spark session with one thread per worker."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf().setMaster(f"local[{workers}]").setAppName("keysplit demo")
    conf.set("spark.driver.bindAddress", "127.0.0.1").set("spark.driver.host", "localhost")
    conf.set("spark.driver.memory", "2g").set("spark.local.dir", folder)
    conf.set("spark.sql.shuffle.partitions", str(workers)).set("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false")
    logging.getLogger("py4j").addHandler(logging.NullHandler())  # otherwise it logs the traceback of a Ctrl-C
    context = None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        try:
            with step("starting Spark"):
                quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
                context = SparkContext(conf=conf, gateway=launch_gateway(conf, quiet))
            yield SparkSession(context)
        except (PySparkException, Py4JError) as error:
            raise SparkFailed(str(error).partition("\n")[0]) from error
        finally:
            if context is not None:
                context.stop()
