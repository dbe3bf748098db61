"""Rows that hold unsteady values stay exact when executors are killed and Spark's checksums are off.

`killed_cases.py` says what a case is.
"""

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from killed_cases import TRUSTED

PROGRAM = Path(__file__).with_name("killed_cases.py")
PLACED = [
    "zip_with_index",
    "index_trusted",
    "index_of_pandas",
    "beside_a_subquery",
    "uuids_in_python",
    "script",
    "unsteady_columns",
    "zero_trusted",
    "sample",
    "offset_and_limit",
    # Spark 3.5 has no collations
    *([] if pyspark.__version__ < "4" else ["collated"]),
]
ACTS = [
    "join",
    "window",
    "asof_join",
    "apply",
    "write",
    "write_of_few_rows",
    "in_foreach_batch",
    "join_by_broadcast",
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").exists(), reason="finds the executor to kill in /proc"),
]


def cases(folder, *arguments):
    """Run the program; return what it found, by case. Each case has lost an executor and retried a task."""
    run = subprocess.run(
        [sys.executable, PROGRAM, folder / "run", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    found = {line["case"]: line for line in map(json.loads, run.stdout.splitlines())}
    for line in found.values():
        assert line["outcome"] == "cannot run here" or (line["killed"] and line["tasks run again"] >= 1), line
    return found


@pytest.mark.parametrize("names", [PLACED, ACTS], ids=lambda names: names[0])
def test_nothing_is_lost_or_doubled(tmp_path, names):
    act = names == ACTS
    found = cases(tmp_path, *names, *(["--speculation"] if act else []))
    assert list(found) == names
    # a task that routes hung, and a copy of it won
    assert all(line["copies"] for line in found.values()) or not act, found
    trusted = {name: found.pop(name) for name in TRUSTED if name in found}
    wrong = [line for line in found.values() if line["outcome"] not in ("exact", "cannot run here")]
    assert wrong == []
    # the guard is there for this: without it the same kill gives other rows, and no error
    assert all(line["outcome"] == "wrong" for line in trusted.values()), trusted
    for name in {"zip_with_index", "uuids_in_python", "script"} & set(found):
        assert found[name]["refused"].startswith("row_id must be given"), name
