"""What streams give is exact when their driver is killed and they start again from their checkpoints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed_driver.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    [
        ["split_state", "update", "repartition"],
        ["apply", "streams", "online"],
    ],
    ids=lambda kinds: kinds[0],
)
def test_killed_drivers_lose_and_double_nothing(tmp_path, kinds):
    run = subprocess.run(
        [sys.executable, PROGRAM, tmp_path / "run", "--kills", "2", "--kinds", *kinds],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert run.returncode == 0, run.stderr[-15_000:]
    lines = list(map(json.loads, run.stdout.splitlines()))
    kills, found = lines[: -len(kinds)], lines[-len(kinds) :]
    assert len(kills) == 2 * len(kinds)
    assert any(kill["batch was at work"] for kill in kills)
    for each in found:
        assert each["totals"] > 500
        assert (each["missing"], each["wrong or doubled"]) == (0, 0)
        assert each["plans"] > 3 or each["kind"] in ("streams", "online")
