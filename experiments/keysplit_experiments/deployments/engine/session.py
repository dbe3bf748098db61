"""The Spark session of an emulated cluster, and the memory that it takes."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_ROWS = 1_000
"""Messages that a worker works on at once."""

ONE_FILE = 128 << 20
"""What opening a file counts, in bytes: as much as a partition may hold, so each file is a partition."""

_running: list[Any] = []
"""The slots of the session and the session, whichever thread has started it; nothing before the first."""

_PACKAGES = {"pyspark": "PySpark", "pandas": "pandas", "pyarrow": "PyArrow"}


def need_spark() -> None:
    """Check that there is a Spark to run deployments on.

    Raises:
        FileNotFoundError: If there is no Java, or it is too old.
        ImportError: If pyspark, pandas or pyarrow is missing.
    """
    for package, name in _PACKAGES.items():
        try:
            import_module(package)
        except ImportError as error:
            remedy = "pip install '.[spark]' ./experiments in a clone of keysplit"
            raise ImportError(f"deployments need {name}: {remedy}") from error
    from keysplit.demo.run import check_java

    check_java()


def session(slots: int) -> SparkSession:
    """Return a session that runs so many tasks at once; one with another number is stopped.

    Args:
        slots: The number of sources or of workers, whichever is larger.
    """
    from pyspark.sql import SparkSession

    if _running and _running[0] == slots:
        return _running[1]
    stop()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.python.daemon.module": "keysplit_experiments.deployments.engine.daemon",
        "spark.sql.execution.arrow.maxRecordsPerBatch": BATCH_ROWS,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.files.maxPartitionBytes": ONE_FILE,
        "spark.sql.files.openCostInBytes": ONE_FILE,
        "spark.sql.shuffle.partitions": 2,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{slots}]")
    for name, value in options.items():
        builder = builder.config(name, str(value))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    _running[:] = [slots, spark]
    return spark


def stop() -> None:
    """Stop the session, if there is one."""
    if _running:
        _running[1].stop()
        _running.clear()


def memory_mb() -> float:
    """Measure the memory of the driver and of all processes it has started; shared pages count once.

    Returns:
        Megabytes (Linux's Pss); nan on other systems.
    """
    waiting, found = [os.getpid()], 0.0
    while waiting:
        folder = Path(f"/proc/{waiting.pop()}")
        try:
            rollup = (folder / "smaps_rollup").read_text()
            found += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
            for thread in (folder / "task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
        except OSError:  # it has just ended
            continue
    return found * 1024 / 1e6 if found else float("nan")
