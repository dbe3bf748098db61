"""Both runs of the demo on Spark, measured."""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import keysplit as ks
from keysplit.demo import drift, groups, job
from keysplit.demo.drift import Drift
from keysplit.demo.groups import Groups
from keysplit.demo.stream import Stream
from keysplit.extras import missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OLDEST_JAVA = 17
POLL_S = 0.1
WARM_UP_ROWS = 1000


class SparkFailed(RuntimeError):
    """Spark failed for a reason other than the user's input."""


class Progress(Protocol):
    """Receives the demo's progress."""

    def step(self, what: str) -> AbstractContextManager[None]:
        """Show the current step until the context ends."""

    def stage(self, done: int, tasks: int) -> None:
        """Show how many tasks of Spark's current stage are done."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the job.

    Args:
        label: how rows were spread.
        wall_s: seconds from the start of the run until its answers were with the driver.
        rows: rows served, by worker.
        busy_s: seconds of work, by worker, measured inside the worker.
        answers: an answer a key, in order of first arrival.
    """

    label: str
    wall_s: float
    rows: np.ndarray
    busy_s: np.ndarray
    answers: list[job.Answer]

    @classmethod
    def of(cls, label: str, wall_s: float, answers: list[job.Answer], workers: int) -> "Run":
        """Return the run that gave these answers, in any order."""
        rows = np.zeros(workers, np.int64)
        busy_s = np.zeros(workers)
        for answer in answers:
            for worker, count, busy in answer.served:
                rows[worker] += count
                busy_s[worker] = busy
        answers = sorted(answers, key=lambda answer: answer.first)
        return cls(label=label, wall_s=wall_s, rows=rows, busy_s=busy_s, answers=answers)

    @property
    def busy_ratio(self) -> float:
        """Busy time of the slowest worker over the mean of all workers."""
        return float(self.busy_s.max() / self.busy_s.mean())

    @property
    def rows_ratio(self) -> float:
        """Rows of the busiest worker over the mean of all workers."""
        return float(self.rows.max() / self.rows.mean())

    @property
    def served(self) -> dict[int, dict[int, int]]:
        """Rows by worker, for each key by the position of its first row."""
        return {answer.first: {worker: rows for worker, rows, _ in answer.served} for answer in self.answers}

    @property
    def parts(self) -> int:
        """The number of partial results: one per key and worker that served it."""
        return sum(len(answer.served) for answer in self.answers)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Both runs over one stream, and the expected results."""

    stream: Stream
    workers: int
    sources: int
    grouping: str
    service_time_s: float
    hashed: Run
    split: Run
    expected: list[job.Answer]
    groups: Groups
    drift: Drift | None
    versions: dict[str, str]
    when: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def runs(self) -> tuple[Run, Run]:
        """The run by Spark's hash and the one by keysplit."""
        return self.hashed, self.split

    def wrong(self) -> dict[str, list[str]]:
        """The keys whose results differ from plain NumPy's, by the label of the run; empty if none does."""
        found = {}
        for run in self.runs:
            firsts = job.differences(self.expected, run.answers)
            if firsts:
                found[run.label] = [self.name_of(first) for first in firsts]
        return found

    def top(self, keys: int) -> list[job.Answer]:
        """The expected results of the most frequent keys, in descending frequency."""
        return sorted(self.expected, key=lambda answer: -answer.rows)[:keys]

    def name_of(self, first: int) -> str:
        """How the key of the row at a position is shown, with its full name where that is known."""
        return self.stream.label(self.stream.table["key"][first].as_py())


def check_java() -> None:
    """Raise an error that says what to do when there is no Java that Spark can use.

    Raises:
        FileNotFoundError: there is none, or it is too old.
    """
    home, java = os.environ.get("JAVA_HOME"), _java()
    remedy = f"set JAVA_HOME to Java {OLDEST_JAVA} or newer, or use `make demo`, which brings one"
    if java is None:
        raise FileNotFoundError(
            f"Spark needs Java, found none {f'in JAVA_HOME={home}' if home else 'on the path'}: {remedy}"
        )
    found = _version_of(java)
    if found is None:
        raise FileNotFoundError(f"Spark needs Java, but {java} does not run: {remedy}")
    major = found.partition(".")[0]
    if int(major) < OLDEST_JAVA:
        raise FileNotFoundError(f"Spark needs Java {OLDEST_JAVA} or newer, got {major} from {java}: {remedy}")


def _java() -> str | None:
    """Return the Java that Spark uses, None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")


def _version_of(java: str) -> str | None:
    """Return the version of a Java, None if it does not run."""
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d[^"]*)', answer.stderr + answer.stdout)
    return found and found[1]


def check_packages() -> None:
    """Raise an error that says what to install when a package is missing.

    Raises:
        ImportError: pyspark or pandas is not installed.
    """
    for name in ("pyspark", "pandas"):
        try:
            version(name)
        except PackageNotFoundError as error:
            raise ImportError(missing("the demo", f"the package {name}", "demo")) from error


def check_grouping(stream: Stream, *, workers: int, grouping: str) -> None:
    """Raise an error when there is no such grouping, or when it cannot route the keys of a stream.

    Args:
        stream: the rows.
        workers: number of workers, 1..=65536.
        grouping: a name in `keysplit.GROUPINGS`.

    Raises:
        ValueError: a parameter is out of its range.
        TypeError: keys of this type cannot be routed.
    """
    ks.grouping(grouping, workers=workers).router(source=0).route(stream.table["key"].slice(0, 1))


def compare(
    stream: Stream,
    *,
    workers: int,
    grouping: str,
    sources: int,
    service_time_s: float,
    batches: int,
    progress: Progress,
) -> Comparison:
    """Run the job over a stream by Spark's hash and by keysplit, and compute its answers without Spark.

    Guarantees: both runs do the same work on the same session of Spark, whose Python workers have all been
    started and warmed up before; only the run by keysplit pays for routing and for a merge by key.

    Args:
        stream: the rows.
        workers: number of workers, 1..=65536; as many tasks run at once.
        grouping: a name in `keysplit.GROUPINGS`.
        sources: number of tasks that route, each with a router of its own, at least 1.
        service_time_s: emulated service time of a row in seconds, at least 0.
        batches: micro-batches of the stream whose keys drift, at least 0.
        progress: is told how far it is.

    Returns:
        What was measured.

    Raises:
        SparkFailed: Spark did not start or gave up.

    Source: emulated service time: M. A. U. Nasir et al., The Power of Both Choices, ICDE 2015, section V.
    Deviations: the workers are tasks of one Spark job and take turns on the cores of one machine.
    """
    with progress.step("computing the expected results with NumPy"):
        expected = job.plain(stream.table)
    with tempfile.TemporaryDirectory(prefix="keysplit-demo-", ignore_cleanup_errors=True) as folder:
        _write(stream, Path(folder) / "stream", sources)
        with _session(workers, Path(folder), progress) as spark:
            from keysplit import spark as kss

            rows = spark.read.parquet(str(Path(folder) / "stream"))
            sample = rows.where(rows.position % (stream.rows // WARM_UP_ROWS + 1) == 0)

            def by_hash(df: "DataFrame", service_time_s: float) -> "DataFrame":
                return _map(df.repartition(workers, "key"), partial(_serve, service_time_s=service_time_s))

            def by_keysplit(df: "DataFrame", service_time_s: float) -> "DataFrame":
                placed = kss.online.repartition(df, "key", ks.grouping(grouping, workers=workers))
                parts = _map(placed, partial(_serve, service_time_s=service_time_s))
                return _map(parts.repartition("key"), job.merge)

            with progress.step(f"warming up {workers} Python workers"):
                _start_python(spark, workers)
                for way in (by_hash, by_keysplit):
                    _collect(way(sample, 0.0))
            runs = []
            for label, way in (("Spark's hash", by_hash), (f"keysplit {grouping}", by_keysplit)):
                _start_python(spark, workers)
                with progress.step(f"running the job: {label}"), _watched(spark, progress):
                    start = time.monotonic()
                    answers = _collect(way(rows, service_time_s))
                    wall_s = time.monotonic() - start
                runs.append(Run.of(label, wall_s, answers, workers))
            with progress.step("running a function over small groups, without emulation"):
                small = groups.measure(rows)
            drifting = drift.measure(spark, stream.table["key"], batches, progress.step)
    return Comparison(
        stream=stream,
        workers=workers,
        sources=sources,
        grouping=grouping,
        service_time_s=service_time_s,
        hashed=runs[0],
        split=runs[1],
        expected=expected,
        groups=small,
        drift=drifting,
        versions={
            "keysplit": ks.__version__,
            "Spark": version("pyspark"),
            "Java": _version_of(_java() or "java") or "unknown",
            "Python": ".".join(map(str, sys.version_info[:3])),
            "pyarrow": pa.__version__,
        },
    )


def _write(stream: Stream, folder: Path, sources: int) -> None:
    """Cut the stream into stretches, one file per source: Spark reads each with its own task."""
    folder.mkdir()
    cuts = [stream.rows * i // sources for i in range(sources + 1)]
    for i, (start, end) in enumerate(pairwise(cuts)):
        if end > start:
            pq.write_table(stream.table.slice(start, end - start), folder / f"source-{i:05}.parquet")


# These functions run in Spark's Python workers.


def _serve(batches: Iterator[pa.RecordBatch], *, service_time_s: float) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None  # there is one in every task
    return job.work(batches, worker=context.partitionId(), service_time_s=service_time_s)


def _hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    time.sleep(0.2)


# These run in the driver.


def _start_python(spark: "SparkSession", workers: int) -> None:
    """Have as many Python workers ready as tasks at once: Spark starts one when it finds none idle."""
    spark.range(0, workers, 1, workers).mapInArrow(_hold, "id long").collect()


def _map(df: "DataFrame", function: Any) -> "DataFrame":
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    schema = StructType([df.schema["key"], *from_arrow_schema(job.ANSWER_FIELDS).fields])
    return df.mapInArrow(function, schema)


def _collect(df: "DataFrame") -> list[job.Answer]:
    # the key itself stays in Spark: the position of its first row says which key it is, whatever its type
    return job.from_rows(df.drop("key").collect())


@contextmanager
def _watched(spark: "SparkSession", progress: Progress) -> Iterator[None]:
    """Report how many tasks of the current stage are done, until the context ends."""
    done = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        while not done.wait(POLL_S):
            for stage in sorted(tracker.getActiveStageIds())[:1]:
                info = tracker.getStageInfo(stage)
                if info is not None:
                    progress.stage(info.numCompletedTasks, info.numTasks)

    thread = threading.Thread(target=watch, name="keysplit-demo-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def _session(workers: int, folder: Path, progress: Progress) -> Iterator["SparkSession"]:
    """A session of Spark with one thread per worker, whose log goes to a file."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(workers),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    conf = (
        SparkConf().setMaster(f"local[{workers}]").setAppName("keysplit demo").setAll(list(settings.items()))
    )
    log_path = folder / "spark.log"
    silence = logging.NullHandler()
    logging.getLogger().addHandler(silence)  # py4j logs the traceback of a Ctrl-C there
    with warnings.catch_warnings(), log_path.open("w", encoding="utf-8", errors="replace") as log:
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        context = None
        try:
            with progress.step("starting Spark"), _interrupt_held_back():
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
                context = SparkContext(conf=conf, gateway=gateway)
            yield SparkSession(context)
        except (PySparkException, Py4JError) as error:
            log.flush()
            raise SparkFailed(_cause(error, log_path)) from error
        finally:
            if context is not None:
                context.stop()
            logging.getLogger().removeHandler(silence)


@contextmanager
def _interrupt_held_back() -> Iterator[None]:
    """Raise a Ctrl-C when the context ends: a JVM that nobody connects to would never end."""
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)  # Spark has put its own there, which talks to a busy JVM
    if pressed:
        raise KeyboardInterrupt


def _cause(error: Exception, log_path: Path) -> str:
    """Return the line that says most about why Spark failed."""
    texts = [*str(error).splitlines(), *log_path.read_text(encoding="utf-8", errors="replace").splitlines()]
    for pattern in (r"^\w*(?:Error|Exception)\b.*\S", r"Caused by: .*", r".*(?:Error|Exception)\b.*"):
        for line in texts:
            found = re.match(pattern, line.strip())
            if found:
                return found[0]
    return texts[0] if texts else type(error).__name__
