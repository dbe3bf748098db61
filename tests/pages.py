"""HTML pages: read without a browser, and opened in a real one."""

import json
import os
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest


class Page(HTMLParser):
    """Reads a page: its text, what it links to, and that every element is closed."""

    VOID = frozenset({"meta", "link", "br", "input"})
    SILENT = frozenset({"style", "script"})

    def __init__(self, path: Path):
        super().__init__()
        self.open, self.text, self.links, self.tags, self.classes = [], [], [], Counter(), Counter()
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        found = dict(attributes)
        self.links += [found[name] for name in ("href", "src") if name in found]
        self.classes.update((found.get("class") or "").split())
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.SILENT & set(self.open):
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def in_browser(path: Path, *, width: int = 1280, dark: bool = False, script: str = "") -> tuple[str, Any]:
    """Open a page in a browser; return its elements after that, and what the script returned.

    The test is skipped where there is no browser, unless KEYSPLIT_BROWSER=required. It fails if the page
    writes to the console.
    """
    measured = path.with_name(f"measured-{width}-{dark}.html")
    page = path.read_text(encoding="utf-8")
    answer = (
        f"<script>document.body.dataset.answer = JSON.stringify((() => {{ {script} }})() ?? null);</script>"
    )
    measured.write_text(page.replace("</body>", f"{answer}</body>"), encoding="utf-8")
    elements = elements_of(measured.as_uri(), path.parent, width=width, dark=dark)
    found: list[str] = []

    class Body(HTMLParser):
        def handle_starttag(self, tag, attributes):
            if tag == "body":
                found.append(dict(attributes)["data-answer"])

    Body().feed(elements)
    return elements, json.loads(found[0])


def elements_of(
    address: str, folder: Path, *, width: int = 1280, dark: bool = False, after_s: int = 0
) -> str:
    """Return the elements of a page that a browser has opened, after so many seconds of its own clock.

    The folder is for the browser's files. Skips and fails as `in_browser`.
    """
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        missing = "there is no chromium or google-chrome on the path"
        assert os.environ.get("KEYSPLIT_BROWSER") != "required", missing
        pytest.skip(missing)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    options += ["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]
    options += [f"--window-size={width},900", f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    options += [f"--virtual-time-budget={1000 * after_s}"] if after_s else []
    options += [f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run([browser, *options, address], capture_output=True, text=True, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout
