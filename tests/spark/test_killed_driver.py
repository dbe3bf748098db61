"""The totals of a stream are exact when its driver is killed and starts again from the checkpoint."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed_driver.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "times"),
    [
        *(("split_state", 1), ("update", 1), ("apply", 1)),
        *(("streams", 1), ("adapt", 2), ("online", 1)),
    ],
)
def test_killed_drivers_lose_and_double_nothing(tmp_path, kind, times):
    run = subprocess.run(
        [sys.executable, PROGRAM, tmp_path / "run", "--kind", kind, "--kills", str(times)],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    *kills, found = map(json.loads, run.stdout.splitlines())
    assert len(kills) == times
    assert any(kill["batch was at work"] for kill in kills)
    assert found["totals"] > 1000
    assert (found["missing"], found["wrong or doubled"]) == (0, 0)
