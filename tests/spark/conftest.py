"""One Spark session for all tests of this folder."""

import os
import sys

import jars
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from py4j.java_gateway import java_import
from pyspark.sql import SparkSession

from keysplit_experiments.deployments.engine.broker import Broker

os.environ["PYSPARK_PYTHON"] = sys.executable  # executors need the driver's interpreter


# Files whose tests take longest. They come first, so that two processes end at about the same time.
LONG = (
    "test_on_connect",
    "test_applications",
    "test_diagnose_session",
    "test_apply",
    "test_join",
    "test_streaming",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if "spark" in item.path.parts:
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: not item.path.stem.startswith(LONG))


# Classes that PySpark asks for by their names alone: Java then looks for them in all jars each time.
OFTEN = [
    "org.apache.spark.sql.functions",
    "org.apache.spark.api.python.PythonRDD",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.api.python.SimplePythonFunction",
]


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    session = (
        SparkSession.builder.master("local[2]")
        .appName("keysplit tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.adaptive.enabled", "true")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "Europe/Berlin")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.bindAddress", "127.0.0.1")
        # Python workers are forked with all that they import
        .config("spark.python.daemon.module", "keysplit_experiments.deployments.engine.daemon")
        # over TCP a small Python task waits; from Spark 4.1 on
        .config("spark.python.unix.domain.socket.enabled", "true")
        # what has ended is written down before the bus of the listeners is empty
        .config("spark.appStateStore.asyncTracking.enable", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    for name in OFTEN:
        java_import(session._jvm, name)
    session.sparkContext.setCheckpointDir(str(tmp_path_factory.mktemp("checkpoints")))
    yield session
    session.stop()


@pytest.fixture
def conf(spark):
    """Set Spark settings for one test: conf("spark.sql.adaptive.enabled", "false")."""
    before = {}

    def set_(name, value):
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield set_
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.fixture(params=["HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"])
def state_store(request, conf):
    """Run a test with each of Spark's state stores."""
    package = "org.apache.spark.sql.execution.streaming.state"
    conf("spark.sql.streaming.stateStore.providerClass", f"{package}.{request.param}")


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """A broker of Kafka, the same for all tests: each takes topics of its own."""
    started = Broker(tmp_path_factory.mktemp("kafka"), jars.download("kafka"))
    yield started
    started.stop()
