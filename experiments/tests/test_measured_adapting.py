"""The programs that measure plans that adapt run, and their tables have every row."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "benches/spark_streaming_cost.py"

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def rows(command: list[str]) -> list[list[str]]:
    """Run a program; return the cells of the rows of its table."""
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert run.returncode == 0, run.stderr[-5000:]
    lines = [line for line in run.stdout.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


@pytest.mark.parametrize("more", [[], ["--emulated"]])
def test_adapting_measures_every_way(more: list[str]) -> None:
    module = ["-m", "keysplit_experiments.measured.adapting", "--only", "hottest", *more]
    size = ["--workers", "4", "--batches", "4", "--every", "2", "--rows", "400"]
    found = {row[1]: row for row in rows([sys.executable, *module, *size])}
    planned = ["hash", "frozen", "adapt", "fish", "consistent"]
    assert list(found) == planned + ([] if more else ["within", "online fish", "online consistent"])
    assert all(float(row[2]) >= 1 for row in found.values())
    assert float(found["adapt"][2]) < float(found["hash"][2])


def test_the_cost_of_adapting_is_measured_for_every_operation() -> None:
    found = rows([sys.executable, str(BENCH), "--rows", "2e3", "--batches", "4", "--repeats", "1"])
    assert len(found) == 2
    assert all(float(cell) >= 0 for row in found for cell in row[1:])


def test_driving_compares_the_rules_of_memory() -> None:
    found = rows([sys.executable, "-m", "keysplit_experiments.measured.driving", "--batches", "12"])
    by_stream = {row[0]: row[1:] for row in found if row[0] != "---"}
    assert float(by_stream["A, B in turn"][0]) > 4 > 1.3 > float(by_stream["A, B in turn"][3])
