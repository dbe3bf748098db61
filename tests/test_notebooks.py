"""The notebooks run, and hold no outputs; those that need Spark run in tests/spark."""

import pytest

import notebooks


@pytest.mark.parametrize("path", sorted(notebooks.FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_outputs_are_stripped(path):
    for cell in notebooks.cells(path):
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


def test_first_look(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = notebooks.run("first_look")
    assert names["profile"].recommended == "cut_to_fit"
    assert "</html>" in (tmp_path / "first-look.html").read_text(encoding="utf-8")
    matplotlib.pyplot.close("all")
