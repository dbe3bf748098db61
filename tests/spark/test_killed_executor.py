"""Rows and totals are exact when executors are killed in mid-stage; those of hand salting are not.

`killed_executor.py` says what a job is; its option `--trials 10` makes 20 kills.
"""

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

ROWS = 40_000
PROGRAM = Path(__file__).with_name("killed_executor.py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").exists(), reason="finds the executor to kill in /proc"),
]


def jobs(folder, *runs):
    """Run the program; return of each run what was found in its jobs that place rows, and that aggregate."""
    command = [sys.executable, PROGRAM, folder / "run", *" and ".join(runs).split()]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    assert ended.returncode == 0, ended.stderr[-5000:]
    *found, summary = map(json.loads, ended.stdout.splitlines())
    assert summary["jobs with a kill"] == len(found)
    assert summary["fewest tasks run again"] >= 1
    assert summary["fewest copies"] >= ("--speculation" in runs[0])
    return [
        [[job for job in found if (job["run"], job["job"]) == (run, name)] for name in ("rows", "aggregate")]
        for run in range(len(runs))
    ]


@pytest.mark.parametrize(
    "runs",
    [
        ["--shuffle-below", "--mode online --shuffle-below --sorted"],
        ["--speculation --shuffle-below --engine rust", "--speculation --mode online"],
    ],
    ids=["kills", "copies"],
)
def test_killed_executors_lose_and_double_nothing(tmp_path, runs):
    for placed, aggregated in jobs(tmp_path, *runs):
        assert placed
        assert aggregated
        for job in placed:
            assert job["outcome"] == "exact", job
            assert (job["rows"], job["distinct rows"]) == (ROWS, ROWS)
            assert job["sum"] == ROWS * (ROWS - 1) // 2
            assert job["moved"] == 0
        for job in aggregated:
            assert job["outcome"] == "exact", job
            assert (job["rows"], job["sum"]) == (ROWS, ROWS * (ROWS - 1) // 2)
            assert job["wrong totals"] == 0


def test_the_hazard_of_other_ways_to_spread_rows(tmp_path):
    """Downstream of a shuffle, a retried task sends rows that are salted or routed online elsewhere."""
    silent = tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2)
    trials = "2" if silent else "1"  # chance may spare the rows once
    runs = (f"--trials {trials} --shuffle-below --mode {mode}" for mode in ("salted", "online"))
    for placed, aggregated in jobs(tmp_path, *runs):
        if silent:
            assert all(job["outcome"] in ("exact", "wrong") for job in placed + aggregated)
            assert any((job["rows"], job["distinct rows"]) != (ROWS, ROWS) for job in placed)
            continue
        # Spark notices: it runs the stage above again from its start, or stops the job where rows are written
        for job in placed + aggregated:
            assert job["outcome"] == "exact" or "with indeterminate output" in job["error"], job
