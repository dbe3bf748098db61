"""keysplit on Spark Connect: `on_connect.py`, run by a client of a server in the JVM of this session."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from on_connect import CLASSIC, WORKERS

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
    for name, (frame, key) in CLASSIC.items():
        df = frame(spark)
        plan = kss.plan(df, key, WORKERS, path=tmp_path / f"{name}.json")
        kss.route(df, key, plan=plan).select("id", "worker").write.parquet(str(tmp_path / name))
    run(PROGRAM, KEYSPLIT_CONNECT=server, KEYSPLIT_CLASSIC=str(tmp_path))


def test_identity(spark, server):
    run(PROGRAM.with_name("identity_on_connect.py"), KEYSPLIT_CONNECT=server)


def test_window(spark, server):
    run(PROGRAM.with_name("windows_on_connect.py"), KEYSPLIT_CONNECT=server)


def test_to_kafka(spark, server, broker):
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    topic = broker.create_topic("connect", WORKERS)
    program = f"{PROGRAM}::test_to_kafka"
    run(program, KEYSPLIT_CONNECT=server, KEYSPLIT_KAFKA=f"{broker.servers} {topic}")
    found = broker.read(topic, committed=False)
    assert Counter(int(each.value()) for each in found) == Counter(range(2000))
    partitions = {each.partition() for each in found if each.key() == b"hot"}
    assert len(partitions) > 1


def run(program, **variables):
    """Run tests of a client of a server."""
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", program],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1800,
    )
    assert found.returncode == 0, found.stdout
