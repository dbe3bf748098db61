"""What the documentation needs in addition to its pages: the extension's classes, and the notebooks as pages.

The names of the classes are `keysplit.Router` and `keysplit.SpaceSaving`, where users import them from. A
tool that reads the package takes each of the two places for an alias of the other and shows neither.
"""

import json
import re
from pathlib import Path

from mkdocs.structure.files import File

from keysplit import _core

for kind in (_core.Router, _core.SpaceSaving):
    kind.__module__ = _core.__name__

NOTEBOOKS = Path(__file__).parent.parent / "examples/notebooks"


def on_files(files, config):
    """Add a page for each notebook."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page(path)))
    return files


def on_page_markdown(markdown, page, **_):
    """Name the files of the repository that are not in the documentation, in place of a link."""
    up = "../" * (page.file.src_uri.count("/") + 1)
    return re.sub(rf"\[([^\]]*)\]\({re.escape(up)}((?!\.\./)[^)]+)\)", r"\1 (`\2`)", markdown)


def page(path):
    """Return a notebook as Markdown: its text, and its code in blocks."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
    parts.append(f"The notebook is `examples/notebooks/{path.name}`.")
    return "\n\n".join(parts) + "\n"
