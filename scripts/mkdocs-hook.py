"""What the documentation needs in addition to its pages: the extension's classes, and no dead links.

The names of the classes are `keysplit.Router` and `keysplit.SpaceSaving`, where users import them from. A
tool that reads the package takes each of the two places for an alias of the other and shows neither.
"""

import re

from keysplit import _core

for kind in (_core.Router, _core.SpaceSaving):
    kind.__module__ = _core.__name__


def on_page_markdown(markdown, page, **_):
    """Name the files of the repository that are not in the documentation, in place of a link."""
    up = "../" * (page.file.src_uri.count("/") + 1)
    return re.sub(rf"\[([^\]]*)\]\({re.escape(up)}((?!\.\./)[^)]+)\)", r"\1 (`\2`)", markdown)
