"""Reports: what is on the page, and that a real browser draws it."""

import dataclasses
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keysplit as ks
from keysplit.comparison import Comparison
from keysplit.plan import PLANS
from keysplit.profiling import model
from keysplit.results import view_of
from keysplit.show import charts, panels, treemap
from keysplit.show.bars import MOST_BARS
from keysplit.show.palette import COLOURS
from keysplit.show.treemap import Rectangle, squarify
from keysplit.text import format_share
from pages import Page, in_browser

MARKUP = "<script>alert(1)</script>"


def words(messages: int = 20_000, keys: int = 300, periods: int = 1) -> list[str]:
    drawn = ks.streams.zipf_drifting(1.3, keys, messages, 1, periods=periods)
    return [MARKUP if key == 0 else f"key {key}" for key in drawn.tolist()]


@pytest.fixture(scope="module")
def profile() -> ks.Profile:
    return ks.profile(words(60_000, periods=3), [10, 130], windows=12)


@pytest.fixture(scope="module")
def results() -> Comparison:
    return ks.compare(words(), workers=[5, 30])


@pytest.fixture(scope="module")
def timed() -> ks.SimulationResult:
    return ks.simulate(ks.DChoices(workers=6), words(2_000), sources=2, service_time_s=0.01)


def drawn(result: Any) -> list[dict[str, Any]]:
    return [panels.draw_panel(each) for each in result._view().panels]


@pytest.fixture(params=["profile", "comparison", "simulation"])
def page(request, tmp_path) -> Path:
    path = tmp_path / f"{request.param}.html"
    of = {"profile": "profile", "comparison": "results", "simulation": "timed"}[request.param]
    request.getfixturevalue(of).report(path, title="words & more")
    return path


def test_a_report_is_one_page_that_needs_nothing_else(page):
    text = page.read_text(encoding="utf-8")
    read = Page(page)
    assert read.links[0] == "data:,"
    assert all(link.startswith("#") for link in read.links[1:])
    assert all(f'id="{link[1:]}"' in text for link in read.links[1:])
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert read.tags["script"] == 1, "its own"
    assert "words & more" in read.words
    assert f"keysplit {ks.__version__}" in read.words


def test_a_report_of_a_profile_says_what_the_profile_says(profile, tmp_path):
    path = tmp_path / "report.html"
    profile.report(path, title="words")
    read = Page(path)
    for advice in profile.advice:
        assert all(line[1:] in read.words for line in advice.verdict.splitlines())
        assert advice.details in read.words
        key, best = advice.results["key"], advice.planned[advice.recommended]
        partials = key.distinct_keys + best.extra_partials
        assert advice.line in read.words
        assert f"{1 + key.relative_imbalance:.2f} → {1 + best.relative_imbalance:.2f}" in read.words
        assert f"{key.memory:,} → {partials:,}" in read.words
    for key in profile.top[: model.TOP_KEYS]:
        assert format_share(key.share) in read.words
        assert f"{key.count:,}" in read.words
    assert profile.drift[1:] in read.words
    assert MARKUP in read.words
    rows = min(len(profile.top), model.TOP_KEYS)
    brief = [key for key in profile.hot if key not in profile.top and key.age_share < 1]
    rows += min(len(brief), model.SHORT_LIVED_KEYS)
    assert read.classes["keyname"] == rows
    windows = len(profile.windows) - 1
    assert len(re.findall(r'title="messages [\d,]+ to', path.read_text())) == rows * windows


def test_a_report_without_need_of_action_shows_hash_grouping(tmp_path):
    path, keys = tmp_path / "report.html", ks.streams.zipf(0.0, keys=20_000, messages=40_000, seed=1)
    profile = ks.profile(keys, 2)
    assert profile.advice[0].recommended is None
    profile.report(path, title="numbers")
    read = Page(path)
    assert "No action needed" in read.words
    assert "→" not in read.words
    (number,) = drawn(profile)
    assert [panel["name"] for panel in number["large"]] == ["key"]
    assert read.classes["take"] == 1
    assert f"No key has more than {format_share(profile.top[0].share)} of the messages." in read.words
    assert read.classes["keyname"] == 0
    assert "are in any two windows" in read.words
    ks.profile([1, 2] * 50, 2).report(path, title="one window")
    assert "are in any two windows" not in Page(path).words


def test_workers_that_came_later_count(tmp_path):
    events = [ks.AddWorker(100), ks.RemoveWorker(200, 0)]
    result = ks.simulate(ks.Fish(workers=3), words(2_000), service_time_s=0.01, events=events)
    result.report(tmp_path / "report.html", title="words")
    assert "load of the busiest of 4 workers over the mean" in Page(tmp_path / "report.html").words


def test_a_report_of_a_comparison_has_all_of_it(results, tmp_path):
    path = tmp_path / "report.html"
    results.report(path, title="words")
    read = Page(path)
    for result, front in zip(results, ks.pareto(results), strict=True):
        name = result.params.name
        assert name in read.words
        label = "key, hash partitioning" if name == "key" else name
        row = f"{label} {1 + result.relative_imbalance:.2f} "
        end = f"{result.replication:.2f} {result.memory:,}{' yes' if front else ''}"
        assert re.search(re.escape(row) + r"[\d.e-]+ % [\d.e-]+ % " + re.escape(end), read.words), row
    names = len(ks.GROUPINGS)
    text = path.read_text(encoding="utf-8")
    assert len(re.findall('<path class="mark line', text)) == 2 * names
    assert len(re.findall('<circle class="mark point', text)) == 2 * names
    assert read.classes["bar"] == names * (5 + 30)
    assert "one step down" not in read.words, "ticks may be any number of decades apart"


def test_a_report_of_a_simulation_has_its_times(timed, tmp_path):
    path = tmp_path / "report.html"
    timed.report(path, title="words")
    read = Page(path)
    for text in (
        "Queues over time",
        "How busy each worker was",
        "latency",
        "p99",
        "makespan",
        repr(timed.params),
    ):
        assert text in read.words
    assert timed.utilisation is not None
    assert f"most {format_share(timed.utilisation.max())}" in read.words
    assert "a full bar is 100.0 %" in read.words
    found = panels.draw_timing(timed._view().timing)
    assert [bar["height"] for bar in found["busy"]] == pytest.approx(100 * timed.utilisation)
    assert found["busy_mean_height"] == pytest.approx(100 * timed.utilisation.mean())
    faster = dataclasses.replace(timed, utilisation=2 * timed.utilisation / timed.utilisation.max())
    found = panels.draw_timing(faster._view().timing)
    assert (found["busy_full"], max(bar["height"] for bar in found["busy"])) == (2, pytest.approx(100))
    untimed = ks.simulate(ks.KeyGrouping(workers=3), words(500))
    untimed.report(path, title="words")
    assert "Queues" not in Page(path).words


def test_many_workers_are_drawn_together():
    result = ks.simulate(ks.KeyGrouping(workers=10_000), words(50_000, keys=5_000))
    (panel,) = drawn(result)
    (bars,) = panel["large"]
    assert len(bars["bars"]) == MOST_BARS
    assert max(bar["height"] for bar in bars["bars"]) == 100, "the busiest worker is not lost"
    for bar, part in zip(bars["bars"], np.array_split(result.loads, MOST_BARS), strict=True):
        assert bar["height"] == pytest.approx(100 * part.max() / result.loads.max())
        assert bar["mean_height"] == pytest.approx(100 * part.mean() / result.loads.max())
    (map_,) = panel["maps"]
    assert len(map_["tiles"]) <= 2 * treemap.MOST_TILES
    assert map_["idle"] == (result.loads == 0).sum()
    area = sum(tile["width"] * tile["height"] for tile in map_["tiles"])
    assert area == pytest.approx(100 * 100)
    largest = map_["tiles"][0]
    assert largest["width"] * largest["height"] / area == pytest.approx(
        result.loads.max() / result.loads.sum()
    )
    assert f"worker {result.loads.argmax()}: " in largest["title"]


def test_the_tree_map_shows_the_keys_of_hash_grouping(profile):
    numbers = drawn(profile)
    (hashed,) = numbers[0]["maps"]
    shown = {key["title"].split(": ")[0]: tile["title"] for tile in hashed["tiles"] for key in tile["keys"]}
    first = profile.top[0]
    worker = int(ks.KeyGrouping(workers=10).router().route([first.key])[0])
    assert shown[repr(first.key)].startswith(f"worker {worker}: ")
    for tile in hashed["tiles"]:
        if tile["keys"]:
            assert sum(key["width"] * key["height"] for key in tile["keys"]) == pytest.approx(1e4)
    assert any(bar.get("name") == repr(first.key) for bar in numbers[0]["large"][0]["bars"])
    assert (
        f"most frequent: {first.key!r} {format_share(first.share)}"
        in (numbers[0]["large"][0]["bars"][worker]["title"])
    )


def test_a_grouping_has_one_colour_everywhere(profile, results):
    assert set(COLOURS) == {*ks.GROUPINGS, *PLANS}
    for paper in (0, 1):
        assert len({colours[paper] for colours in COLOURS.values()}) == len(COLOURS)
    for number in drawn(results):
        for panel in [*number["large"], *number["small"], *number["table"]]:
            assert panel["style"] == f"of-{panel['name']}"


def test_a_simulation_stands_beside_key_grouping(timed, tmp_path):
    path = tmp_path / "report.html"
    baseline = ks.simulate(ks.KeyGrouping(workers=6), words(2_000), sources=2, service_time_s=0.01)
    panels.write(view_of(timed, baseline), path, title="words")
    read = Page(path)
    assert f"{1 + baseline.relative_imbalance:.2f} → {1 + timed.relative_imbalance:.2f}" in read.words
    assert "key, hash partitioning" in read.words


# Pieces

SIZES = st.lists(st.floats(0.01, 100), min_size=1, max_size=40).map(lambda sizes: sorted(sizes, reverse=True))


@given(sizes=SIZES, width=st.floats(1, 100), height=st.floats(1, 100))
def test_rectangles_of_a_tree_map_fill_it_and_do_not_overlap(sizes, width, height):
    found = squarify(sizes, Rectangle(0, 0, width, height))
    for size, each in zip(sizes, found, strict=True):
        assert each.width * each.height == pytest.approx(size / sum(sizes) * width * height, rel=1e-6)
        assert -1e-6 <= each.x <= each.x + each.width <= width * (1 + 1e-6)
        assert -1e-6 <= each.y <= each.y + each.height <= height * (1 + 1e-6)
    slack = 1e-6 * (width + height)
    for place, one in enumerate(found):
        for other in found[:place]:
            apart_x = one.x + one.width <= other.x + slack or other.x + other.width <= one.x + slack
            apart_y = one.y + one.height <= other.y + slack or other.y + other.height <= one.y + slack
            assert apart_x or apart_y


@given(low=st.floats(1e-9, 1e3), ratio=st.floats(1.2, 1e9), most=st.integers(2, 8), logarithmic=st.booleans())
def test_an_axis_has_a_few_round_ticks_inside(low, ratio, most, logarithmic):
    axis = charts.Axis(low, low * ratio, 0, 100, logarithmic)
    ticks = axis.ticks(most)
    assert len(ticks) <= most + 1
    for tick in ticks:
        assert -0.5 <= axis.at(tick) <= 100
        digits = f"{tick:.6e}".split("e")[0].rstrip("0").rstrip(".")
        assert len(digits) <= 4
    assert axis.at(0) == (0 if logarithmic else axis.at(low))
    assert axis.at(low) == 0
    assert axis.at(math.sqrt(low * low * ratio) if logarithmic else low * (1 + ratio) / 2) == pytest.approx(
        50
    )


@pytest.mark.parametrize("top", [9.5, 2.3e4, 1.26e6, 7.7e9, 3e-4])
def test_no_two_ticks_have_one_text(top):
    series = [charts.Line("a", "third", [0, 10], [top / 2, top])]
    drawn = str(charts.lines(series, x_name="x", y_name="y", logarithmic=False, label="x"))
    texts = re.findall(r'<text class="tick end"[^>]*>([^<]*)<', drawn)[:-1]
    assert len(texts) > 3
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("low", [1e-7, 1e-6, 0.01])
def test_no_two_shares_have_one_text(low):
    texts = [charts.format_tick(tick) for tick in charts.Axis(low, low * 9, 0, 1, True).ticks(7)]
    assert len(set(texts)) == len(texts) > 3


@pytest.mark.parametrize(
    ("span_s", "texts"),
    [
        (20, ["03:04:10", "03:04:15", "03:04:20", "03:04:25"]),
        (900, ["03:05", "03:10", "03:15"]),
        (4 * 86_400, ["01-03", "01-04", "01-05", "01-06"]),
    ],
)
def test_a_clock_has_round_times(span_s, texts):
    start = datetime(2026, 1, 2, 3, 4, 7, tzinfo=UTC).timestamp()
    series = [charts.Line("a", "third", [start, start + span_s], [1.0, 2.0])]
    drawn = charts.lines(series, x_name="t", y_name="y", logarithmic=False, label="x", left=start, clock=True)
    found = re.findall(r'<text class="tick middle[^>]*>([^<]*)<', str(drawn))
    assert found == texts


def test_names_of_lines_do_not_lie_on_one_another():
    series = [charts.Line(f"line {i}", "third", [1, 2], [0.5, 0.1]) for i in range(10)]
    drawn = str(charts.lines(series, x_name="x", y_name="y", logarithmic=True, label="ten lines"))
    heights = sorted(float(y) for y in re.findall(r'<text class="name third"[^>]* y="([\d.]+)"', drawn))
    assert len(heights) == 10
    assert min(np.diff(heights)) >= 12


def test_an_axis_begins_where_it_is_told_and_events_are_marked():
    series = [charts.Line("a", "third", [100, 110], [1.0, 2.0])]
    events = [(105, "half & way")]
    drawn = str(
        charts.lines(series, x_name="x", y_name="y", logarithmic=False, label="x", left=100, events=events)
    )
    start, end = map(
        float, re.findall(r'class="mark line third"[^>]* d="M([\d.]+) [\d.]+L([\d.]+) ', drawn)[0]
    )
    (at,) = map(float, re.findall(r'class="event" x1="([\d.]+)%"', drawn))
    assert start == 0
    assert at == pytest.approx((start + end) / 2, abs=0.1)
    assert "<title>half &amp; way</title>" in drawn


# In a browser

MEASURE = """
  const size = mark => mark.getBoundingClientRect();
  const seen = mark => mark.checkVisibility();
  const all = (selector, inside) => [...(inside || document).querySelectorAll(selector)].filter(seen);
  const sizes = (selector, inside) => all(selector, inside).map(size);
  const text = all(".chart text");
  return {
    width: innerWidth,
    scroll: document.documentElement.scrollWidth,
    paper: getComputedStyle(document.body).backgroundColor,
    charts: all(".chart").map(chart => ({
      marks: chart.querySelectorAll(".mark").length,
      drawn: sizes(".mark", chart).filter(r => r.width + r.height > 2).length,
      width: size(chart).width,
      panel: size(chart.parentElement).width,
    })),
    bars: sizes(".plot .bar > div").map(r => r.height),
    maps: all(".map").map(map => {
      const tiles = sizes(".tile", map);
      return tiles.reduce((sum, r) => sum + r.width * r.height, 0) / (size(map).width * size(map).height);
    }),
    letters: Math.min(...text.map(each => size(each).height)),
    numbers: all(".number").length,
  };
"""


CUT = """
  document.body.style.width = "390px";  // the narrowest window is wider
  const all = selector => [...document.querySelectorAll(selector)].filter(each => each.checkVisibility());
  const cut = selector => all(selector).filter(each => each.scrollWidth > each.clientWidth);
  const texts = found => found.map(each => each.textContent);
  const ends = all(".axis > :first-child, .axis > :last-child");
  return {
    lines: texts(cut("pre")),
    short_keys: texts(cut(".tile span")).filter(each => each.length < 4),
    broken: texts(ends.filter(each => each.getBoundingClientRect().height > 25)),
    seen: ends.length > 0,
  };
"""


def test_nothing_is_cut_on_a_phone(page):
    _, found = in_browser(page, width=500, script=CUT)
    assert found == {"lines": [], "short_keys": [], "broken": [], "seen": True}


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (500, True)], ids=["laptop", "phone, dark"])
def test_a_browser_draws_the_charts_without_a_word_of_complaint(page, width, dark):
    _, found = in_browser(page, width=width, dark=dark, script=MEASURE)
    assert found["width"] == width
    assert found["scroll"] <= width, "the page does not scroll sideways"
    red = int(re.match(r"rgb\((\d+)", found["paper"])[1])
    assert red < 60 if dark else red > 200
    assert found["numbers"] == 1
    assert len(found["charts"]) == 2
    for chart in found["charts"]:
        assert chart["drawn"] == chart["marks"] > 0
        assert 0.8 * chart["panel"] < chart["width"] <= chart["panel"]
    assert max(found["bars"]) > 100
    assert found["maps"] or page.name == "simulation.html", "balanced loads have no map"
    for filled in found["maps"]:
        assert filled == pytest.approx(1, abs=0.01)
    assert found["letters"] >= 9, "the text of charts can be read"


def test_numbers_of_workers_and_names_can_be_chosen(results, tmp_path):
    path = tmp_path / "report.html"
    results.report(path, title="words")
    script = """
      const shown = () => [...document.querySelectorAll(".number")].map(each => each.checkVisibility());
      const before = shown();
      document.querySelector('label[for="w1"]').click();
      const after = shown();
      const chip = [...document.querySelectorAll(".chips button")].find(each => each.checkVisibility());
      const name = chip.closest(".number").querySelector(`.name[data-name="${chip.dataset.name}"]`);
      const hidden = !name.checkVisibility();
      chip.click();
      const named = name.checkVisibility(), pressed = chip.getAttribute("aria-pressed");
      return {before, after, hidden, named, pressed};
    """
    _, found = in_browser(path, script=script)
    assert found == {
        "before": [True, False],
        "after": [False, True],
        "hidden": True,
        "named": True,
        "pressed": "true",
    }
