"""Jars of Kafka and of table formats, downloaded for the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def download(name):
    """Download the jars of requirements/NAME.jars that are not there yet; return their folder.

    Tests are skipped where that fails, unless KEYSPLIT_JARS=required.
    """
    run = subprocess.run(
        [sys.executable, ROOT / "scripts/jars", name], capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        why = run.stderr.strip().rpartition("\n")[2] or f"scripts/jars ended with {run.returncode}"
        reason = f"the jars of {name} cannot be downloaded: {why}"
        assert os.environ.get("KEYSPLIT_JARS") != "required", reason
        pytest.skip(reason)
    return ROOT / f".cache/{name}/jars"
