"""The costs of the applications are counted right; the tables of the documentation take all programs."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from keysplit_experiments.measured import applications

PROGRAM = """
KEY = "word"

def messages(spark):
    return spark.range(0, 20_000, 10).selectExpr("id", "if(id % 40 < 30, 'hot', 'w' || id % 700) AS word")
"""
PAGE = "a\n<!-- applications made_up -->\n\n| old |\n\n<!-- end of made_up -->\nb\n"


def test_costs_are_counted() -> None:
    rows = [(0, "a", 0, 16), (0, "a", 1, 8), (1, "a", 1, 4), (1, "b", 0, 2), (2, None, 1, 2)]
    costs = applications.costs_of(pd.DataFrame(rows, columns=["worker", "key", "period", "messages"]))
    assert costs.imbalance == 24 * 16 / 32 - 1
    assert (costs.most_keys, costs.replication, costs.partials) == (2, 4 / 3, 5)
    hashed = applications.Costs(imbalance=0.5, most_keys=1, replication=1.0, partials=4)
    assert costs.row("PKG", hashed) == "| PKG | 1100.0% | 2 | 1.33 | 1.25 |"


def test_a_table_is_replaced_on_its_page() -> None:
    assert applications.replaced(PAGE, "made_up", ["| new |"]) == PAGE.replace("old", "new")
    with pytest.raises(ValueError, match=r"^the page must have the lines <!-- applications votes -->"):
        applications.replaced(PAGE, "votes", [])


@pytest.mark.slow
@pytest.mark.spark
def test_a_program_is_measured(tmp_path: Path) -> None:
    (tmp_path / "made_up.py").write_text(PROGRAM)
    (tmp_path / "made_up.md").write_text(PAGE)
    command = [sys.executable, "-m", applications.__name__, "--examples", tmp_path, "--docs", tmp_path]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-5000:]
    assert (tmp_path / "made_up.md").read_text() == PAGE.replace("| old |", run.stdout.strip())
    title, table = run.stdout.split("\n\n")
    assert title == "made_up: 2,000 messages of 36 keys."
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    found = {name: [float(cell.rstrip("%")) for cell in row] for name, *row in cells}
    assert list(found) == list(applications.GROUPINGS)
    imbalance, most_keys, replication, merged = range(4)
    assert found["hash"][imbalance] >= 75 * 16 - 100  # the hot key has 75 %
    assert (found["hash"][replication], found["hash"][merged]) == (1, 1)
    assert found["hash"][most_keys] >= 36 / 16
    # by two workers at most, and the hot key by all
    assert 1 < found["PKG"][replication] <= 2
    assert found["W-Choices"][imbalance] < found["PKG"][imbalance] / 10
    assert found["W-Choices"][replication] >= (16 + 35) / 36
    assert found["W-Choices"][merged] > 1
