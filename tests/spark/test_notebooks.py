"""The notebooks that need Spark run."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent))
import notebooks

pytestmark = pytest.mark.newest
matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[plot]'")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.mark.filterwarnings("ignore:rows of key")
@pytest.mark.parametrize("name", ["join_made_fast", "stream_that_adapts"])
def test_notebook(spark, tmp_path, monkeypatch, name):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    notebooks.run(name)
    pyplot.close("all")
