"""Runs the notebooks of examples/notebooks: their code, one cell after another in one namespace."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "examples/notebooks"


def cells(path: Path) -> list[dict[str, Any]]:
    """The cells of a notebook."""
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return found


def run(name: str) -> dict[str, Any]:
    """Run a notebook; return its names."""
    path, names = FOLDER / f"{name}.ipynb", {"__name__": "__main__"}
    for number, cell in enumerate(cells(path)):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
    return names
