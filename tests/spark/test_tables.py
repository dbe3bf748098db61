"""What streams write to Delta and Iceberg tables is there once, also when their driver is killed."""

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


@pytest.mark.parametrize(
    ("sink", "kinds"), [("delta", ["complete", "repartition"]), ("iceberg", ["complete", "repartition"])]
)
def test_tables_hold_each_row_once(tmp_path, sink, kinds):
    jars.download(sink)
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
        assert each["totals"] > 500
        assert (each["missing"], each["wrong or doubled"]) == (0, 0)
