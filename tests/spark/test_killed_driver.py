"""What streams give is exact when their driver is killed and they start again from their checkpoints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed_driver.py")

KILLS = 2
DRIVERS = ["apply", "table", "streams", "repartition", "online"]
EXECUTORS = ["apply", "repartition", "online"]
FROZEN = ("streams", "online")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "more"),
    [pytest.param(DRIVERS, [], id="drivers"), pytest.param(EXECUTORS, ["--executors"], id="executors")],
)
def test_kills_lose_and_double_nothing(tmp_path, kinds, more):
    command = [sys.executable, PROGRAM, tmp_path / "run", "--kills", str(KILLS), *more, "--kinds", *kinds]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert run.returncode == 0, run.stderr[-15_000:]
    lines = list(map(json.loads, run.stdout.splitlines()))
    kills, found = lines[: -len(kinds)], lines[-len(kinds) :]
    for each in found:
        assert sum(kill["batch was at work"] for kill in kills if kill["kind"] == each["kind"]) >= KILLS
        assert each["totals"] > 300
        assert (each["missing"], each["wrong or doubled"]) == (0, 0)
        assert each["plans"] > 3 or each["kind"] in FROZEN
        assert each["kind"] != "repartition" or each["elsewhere"] == 0
        assert not more or each["tasks lost"] > 0
