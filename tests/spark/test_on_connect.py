"""keysplit on Spark Connect: `on_connect.py`, run by a client of a server in the JVM of this session."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from on_connect import WORKERS, rows_of

from keysplit import spark as kss

pytest.importorskip("grpc", reason="Spark Connect's client is not installed: pip install 'pyspark[connect]'")

PROGRAM = Path(__file__).with_name("on_connect.py")


@pytest.fixture
def server(spark):
    """Start Spark's Connect server and return its address."""
    if spark.version < "4":
        pytest.skip("Spark 3.5 from pip has no Connect server")
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    service = getattr(service, "MODULE$")
    settings = spark._jsc.sc().conf()
    settings.set("spark.connect.grpc.binding.port", "0")  # any that is free
    settings.set("spark.sql.artifact.isolation.enabled", "true")  # as in a server that pyspark starts
    service.start(spark._jsc.sc())
    yield f"sc://localhost:{service.localPort()}"
    none = spark._jvm.scala.Option.empty()
    service.stop(none, none)


def test_on_connect(spark, server, tmp_path):
    plan = kss.plan(rows_of(spark), "key", WORKERS)
    plan.save(tmp_path / "plan.json")
    kss.route(rows_of(spark), "key", plan=plan).write.parquet(str(tmp_path / "routed"))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", PROGRAM],
        env={**os.environ, "KEYSPLIT_CONNECT": server, "KEYSPLIT_CLASSIC": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1800,
    )
    assert run.returncode == 0, run.stdout
