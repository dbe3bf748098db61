"""Runs the notebooks of docs/notebooks in one namespace each, and any cells in a kernel of Jupyter."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "docs/notebooks"


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


def run_in_kernel(*sources: str) -> list[list[dict[str, Any]]]:
    """Run cells in a kernel; return the messages of each, which are what it shows."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel()
    try:
        shown: list[list[dict[str, Any]]] = [[] for _ in sources]
        for source, messages in zip(sources, shown, strict=True):
            client.execute_interactive(source, output_hook=messages.append, timeout=100)
        return shown
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
