"""Rows and totals are exact when an executor is killed in mid-stage."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 40_000
PROGRAM = Path(__file__).with_name("killed_executor.py")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the executor to kill in /proc")
@pytest.mark.parametrize("options", [[], ["--speculation"]], ids=["kill", "kill and speculation"])
def test_a_killed_executor_loses_and_doubles_nothing(tmp_path, options):
    run = subprocess.run(
        [sys.executable, PROGRAM, tmp_path / "run", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found.pop("killed")
    assert found.pop("tasks run again") >= 1 + len(options)
    assert found.pop("copies") >= len(options)
    assert found == {
        "rows": ROWS,
        "distinct rows": ROWS,
        "sum": ROWS * (ROWS - 1) // 2,
        "rows routed as without a kill": ROWS,
        "wrong totals": 0,
    }
