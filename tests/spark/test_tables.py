"""Delta and Iceberg: streams write each row once, also when killed; batches read and write such tables."""

import json
import subprocess
import sys
from pathlib import Path

import jars
import pyspark
import pytest

PROGRAM = Path(__file__).with_name("killed_driver.py")

pytestmark = [
    pytest.mark.versions,
    pytest.mark.skipif(not pyspark.__version__.startswith("4.1."), reason="the jars are for Spark 4.1"),
]


@pytest.mark.parametrize("sink", ["delta", "iceberg"])
def test_tables_hold_each_row_once(tmp_path, sink):
    jars.download(sink)
    kinds = ["apply", "repartition"]
    run = subprocess.run(
        [sys.executable, PROGRAM, tmp_path / "run", "--kills", "1", "--sink", sink, "--kinds", *kinds],
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    *kills, _, _ = lines = list(map(json.loads, run.stdout.splitlines()))
    assert any(kill["batch was at work"] for kill in kills)
    for each in lines[-2:]:
        assert each["totals"] > 300
        assert (each["missing"], each["wrong or doubled"]) == (0, 0)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tables_are_sources_that_are_known(tmp_path, kind):
    jars.download(kind)
    program = PROGRAM.with_name("tables_as_sources.py")
    run = subprocess.run(
        [sys.executable, program, tmp_path, kind], capture_output=True, text=True, check=False, timeout=600
    )
    assert run.returncode == 0, run.stderr[-5000:]
    found = json.loads(run.stdout)
    assert found.pop("workers") > 1
    assert found.pop("files") > 1
    assert found == {"other rows": 0, "misplaced": 0, "wrongly joined": 0}
