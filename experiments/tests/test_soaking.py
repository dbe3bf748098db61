"""The soak runs and loses nothing; the documentation's figures take a full run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from keysplit_experiments.measured import soaked, soaking

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory in /proc")


@pytest.mark.slow
@pytest.mark.spark
def test_a_short_soak_loses_nothing(tmp_path: Path) -> None:
    out = tmp_path / "soak"
    command = [sys.executable, "-m", soaking.__name__, "--minutes", "0.6", "--kills", "1", "--out", str(out)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert run.returncode == 0, run.stderr[-5000:]
    found = json.loads((out / "soak.json").read_text())
    assert len(found["kills"]) == 1
    assert len({sample["driver"] for sample in found["samples"]}) == 2
    for totals in found["totals"].values():
        assert totals["rows"] == found["files"] * soaking.FILE_ROWS
        assert totals["totals"] > 100
        assert (totals["missing"], totals["wrong or doubled"]) == (0, 0)
    assert (out / "soak.svg").stat().st_size
    growth, summary = run.stdout.split("\n\n")
    names = {line.split(" | ")[0].strip("| ") for line in growth.splitlines()[2:]}
    assert {"driver, Python, MB", "driver, JVM, MB", "aggregate, rows of state"} <= names
    assert [line.split(" | ")[0].strip("| ") for line in summary.splitlines()[2:]] == ["aggregate", "apply"]


def found(values: list[float]) -> dict[str, object]:
    """A soak whose driver has so much memory, sample by sample."""
    samples = [
        {"at": 60.0 * at, "driver": 2, "memory_mb": {"driver": [value]}} for at, value in enumerate(values)
    ]
    samples.insert(0, {"at": 0.0, "driver": 1, "memory_mb": {"driver": [900.0]}})
    return {"kills": [], "samples": samples, "batches": [], "totals": {}}


def test_memory_that_grows_is_seen() -> None:
    line = soaked.table(found([100.0 + 3 * minute for minute in range(21)])).splitlines()[2]
    assert line == "| driver, Python, MB | 103 | 157 | 160 | 3 | 3 |"
    flat = soaked.table(found([100.0, *[130.0] * 20])).splitlines()[2]
    assert flat.split(" | ")[-1] == "0 |" or abs(float(flat.split(" | ")[-1].strip("| "))) < 1e-9
