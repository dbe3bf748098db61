"""Results show themselves: in notebooks, as a frame, a plot and a report."""

import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import keysplit as ks
from keysplit.show.notebook import MOST_ROWS
from keysplit.show.palette import COLOURS

MARKUP = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def results():
    keys = ks.streams.zipf(1.4, keys=300, messages=5_000, seed=1)
    words = [MARKUP if key == 0 else f"key {key}" for key in keys.tolist()]
    compared = ks.compare(words, [4, 9], ["key", "d_choices", "fish"])
    return {
        "profile": ks.profile(words, [4, 9], top=50),
        "balanced profile": ks.profile(list(range(4_000)), 2),
        "comparison": compared,
        "empty comparison": ks.compare(words, [4], []),
        "simulation": compared[1],
        "timed simulation": ks.simulate(ks.DChoices(workers=4), words, service_time_s=0.01),
    }


NAMES = ["profile", "balanced profile", "comparison", "empty comparison", "simulation", "timed simulation"]
every = pytest.mark.parametrize("name", NAMES)


class Piece(HTMLParser):
    """Reads a piece of HTML: its text and tags; every element must be closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.tags, self.links = [], "", [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.append(tag)
        self.links += [value for key, value in attributes if key in ("href", "src")]

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@every
def test_a_notebook_shows_a_small_piece_that_needs_nothing_else(results, name):
    html = results[name]._repr_html_()
    piece = Piece(html)
    assert piece.links == []
    assert "script" not in piece.tags
    assert "http" not in html
    assert "url(" not in html
    assert "@media (prefers-color-scheme: dark)" in html
    assert len(html) < 20_000
    assert results[name]._view().title in piece.text
    for line in results[name]._view().verdict.splitlines():
        assert line in piece.text
    assert piece.tags.count("svg") <= 2


def test_text_is_escaped_and_long_tables_are_cut(results):
    piece = Piece(results["profile"]._repr_html_())
    assert MARKUP in piece.text
    assert piece.tags.count("tr") == 1 + MOST_ROWS
    assert f"... and {sum(key.certain for key in results['profile'].top) - MOST_ROWS} more" in piece.text


@every
def test_a_frame_has_the_figures(results, name):
    frame = results[name].to_pandas()
    assert isinstance(frame, pd.DataFrame)
    if name == "profile":
        for advice in results[name].advice:
            (row,) = frame[
                (frame.workers == advice.workers) & frame.recommended & (frame.routed == "plan")
            ].iloc
            assert row.grouping == advice.recommended
            assert row.busiest_over_mean == advice.planned[advice.recommended].busiest
        assert set(frame.routed) == {"plan", "online"}
    if name == "comparison":
        assert frame.equals(ks.to_frame(results[name]))
    if "simulation" in name:
        assert len(frame) == 1
        assert frame.imbalance[0] == results[name].imbalance


@every
def test_a_plot_draws_the_busiest_worker_first(results, name):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    axes = results[name].plot()
    loads = results[name]._view().loads
    drawn = axes.get_lines()[: len(loads)]
    for line, (grouping, values) in zip(drawn, loads.items(), strict=True):
        assert line.get_ydata() == pytest.approx(np.sort(values)[::-1] / values.mean())
        assert line.get_color() == COLOURS[grouping][0]
    given = plt.subplots()[1]
    assert results[name].plot(ax=given) is given
    plt.close("all")


@every
def test_a_report_is_a_page(results, name, tmp_path):
    path = tmp_path / "report.html"
    results[name].report(path, title="words & more")
    page = path.read_text(encoding="utf-8")
    assert "words &amp; more" in page
    assert MARKUP not in page
    assert page.rstrip().endswith("</html>")
    results[name].report(str(path))
    assert results[name]._view().title in path.read_text(encoding="utf-8")


def test_a_comparison_is_a_list(results):
    found = results["comparison"]
    assert isinstance(found, list)
    assert found == list(found)
    assert [result.params.name for result in found[:3]] == ["key", "d_choices", "fish"]
    assert repr(found) == repr(list(found))


@pytest.mark.parametrize(
    ("module", "call", "message"),
    [
        ("matplotlib", "plot()", "plot needs matplotlib: pip install '.[plot]' in a clone of keysplit"),
        ("pandas", "to_pandas()", "to_pandas needs pandas: pip install pandas"),
    ],
)
def test_what_is_missing_is_named(module, call, message):
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "import keysplit as ks; result = ks.simulate(ks.KeyGrouping(workers=2), [1, 2, 3])\n"
        "result._repr_html_()\n"
        f"try:\n    result.{call}\nexcept ImportError as error:\n    print(error)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == message


@pytest.mark.parametrize("weights", [None, [0.0, 0.0]])
def test_a_report_of_nothing_is_a_page(tmp_path, weights):
    keys = [] if weights is None else [1, 2]
    for result in (
        ks.simulate(ks.KeyGrouping(workers=4), keys, weights=weights),
        ks.compare(keys, [1, 4], ["key"], weights=weights),
    ):
        result.report(tmp_path / "page.html")
        assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")
