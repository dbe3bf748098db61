"""What streams give is exact when their driver is killed and they start again from their checkpoints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed_driver.py")


KILLS = 3
KINDS = ["split_state", "update", "repartition", "apply", "streams", "online"]


@pytest.mark.slow
def test_killed_drivers_lose_and_double_nothing(tmp_path):
    run = subprocess.run(
        [sys.executable, PROGRAM, tmp_path / "run", "--kills", str(KILLS), "--kinds", *KINDS],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert run.returncode == 0, run.stderr[-15_000:]
    lines = list(map(json.loads, run.stdout.splitlines()))
    kills, found = lines[: -len(KINDS)], lines[-len(KINDS) :]
    assert len(kills) == KILLS * len(KINDS)
    assert any(kill["batch was at work"] for kill in kills)
    for each in found:
        assert each["totals"] > 300
        assert (each["missing"], each["wrong or doubled"]) == (0, 0)
        assert each["plans"] > 3 or each["kind"] in ("streams", "online")
