"""The notebooks run, and hold their outputs; those that need Spark run in tests/spark."""

import runpy
from typing import Any

import pytest

import notebooks

faults = runpy.run_path(str(notebooks.FOLDER.parent.parent / "scripts/notebooks"))["faults"]


@pytest.mark.parametrize("path", sorted(notebooks.FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_outputs_are_stored(path):
    assert faults(notebooks.cells(path)) == [], "run make notebooks"


@pytest.mark.parametrize(
    ("source", "outputs", "fault"),
    [
        ("x = 1\nx", [], "shows nothing"),
        ("x", [{"output_type": "error", "ename": "NameError"}], "shows an error"),
        ("f()", [{"output_type": "stream", "name": "stderr", "text": ["careful"]}], "shows an error"),
        ("f()", [{"output_type": "stream", "name": "stdout", "text": ["see /tmp/x"]}], "a path of a machine"),
        ("p", [{"output_type": "execute_result", "data": {"text/html": "<b>/home/me</b>"}}], "a path of a"),
    ],
)
def test_wrong_outputs_are_found(source: str, outputs: list[dict[str, Any]], fault: str) -> None:
    cell = {"cell_type": "code", "id": "a", "source": [source], "outputs": outputs}
    (found,) = faults([cell])
    assert fault in found
    assert faults([{**cell, "source": ["x = 1"], "outputs": []}]) == []


def test_first_look(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = notebooks.run("first_look")
    assert names["profile"].recommended == "cut_to_fit"
    assert "</html>" in (tmp_path / "first-look.html").read_text(encoding="utf-8")
    matplotlib.pyplot.close("all")
