"""Plans, drift and profiles of DataFrames show themselves."""

import pytest
from pyspark.sql import functions as F

from keysplit import spark as kss

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[plot]'")
matplotlib.use("Agg")
MARKUP = "<b>hot</b>"


@pytest.fixture(scope="module")
def results(spark):
    at = F.col("id")
    word = F.when(at % 2 == 0, MARKUP).otherwise(F.concat(F.lit("w"), at % 50))
    df = spark.range(2000).select(word.alias("word"), "id")
    plan = kss.plan(df, "word", 6, grouping="cut_to_fit")
    return {
        "plan": plan,
        "drift": kss.drift(plan, df.filter("word <> '<b>hot</b>'")),
        "profile": kss.profile(df, "word", 6),
    }


@pytest.mark.parametrize("name", ["plan", "drift", "profile"])
def test_they_show_themselves(results, name, tmp_path):
    result = results[name]
    html = result._repr_html_()
    assert MARKUP not in html
    assert "&lt;b&gt;hot&lt;/b&gt;" in html
    assert "http" not in html
    result.report(tmp_path / "report.html", title="words & more")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "words &amp; more" in page
    assert MARKUP not in page
    assert page.count('class="bar"') in (6, 12)
    lines = result.plot().get_lines()
    assert len(lines[0].get_ydata()) == 6
    matplotlib.pyplot.close("all")


def test_frames_without_rows_have_their_columns(spark, results):
    plan = kss.plan(spark.range(100), "id", 1, grouping="cut_to_fit")
    assert str(plan).startswith("Plan cut_to_fit of id for 1 worker, seed 0")
    assert list(plan.to_pandas()) == list(results["plan"].to_pandas())
    drift = kss.drift(plan, spark.range(100))
    assert (len(drift.to_pandas()), list(drift.to_pandas())) == (0, list(results["drift"].to_pandas()))


def test_frames(results):
    plan = results["plan"].to_pandas()
    assert plan.key[0] == MARKUP
    assert plan.share[0] == pytest.approx(0.5)
    assert plan.workers[0] == list(results["plan"].head[0].workers)
    drift = results["drift"].to_pandas()
    assert MARKUP in set(drift.key[drift.today == "gone"])
    profile = results["profile"].to_pandas()
    assert list(profile.grouping[profile.recommended]) == [results["profile"].recommended]
