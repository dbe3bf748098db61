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


SILENT = tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2)
"""Whether Spark does not notice that a retried task gave other rows."""
TRIALS = 2 if SILENT else 1  # chance may spare the rows once
KILLS = ["--shuffle-below", "--mode online --shuffle-below --sorted"]
HAZARDS = [f"--trials {TRIALS} --shuffle-below --mode {mode}" for mode in ("salted", "online")]
COPIES = ["--speculation --shuffle-below", "--speculation --mode online"]


def jobs(folder, runs):
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


def test_planned_and_sorted_rows_are_exact_where_others_are_not(tmp_path):
    """All on one cluster, which takes longer to start than a job."""
    runs = jobs(tmp_path, KILLS + HAZARDS)
    all_are_exact(runs[: len(KILLS)])
    for placed, aggregated in runs[len(KILLS) :]:
        if SILENT:
            assert all(job["outcome"] in ("exact", "wrong") for job in placed + aggregated)
            assert any((job["rows"], job["distinct rows"]) != (ROWS, ROWS) for job in placed)
            continue
        # Spark notices: it runs the stage above again from its start, or stops the job where rows are written
        for job in placed + aggregated:
            assert job["outcome"] == "exact" or "with indeterminate output" in job["error"], job


def test_a_copy_of_a_task_loses_and_doubles_nothing(tmp_path):
    all_are_exact(jobs(tmp_path, COPIES))


def all_are_exact(runs):
    for placed, aggregated in runs:
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
