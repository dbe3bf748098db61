"""What the models in examples/applications promise beyond what the programs themselves compare."""

import re
import runpy
import subprocess
from bisect import bisect_right
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keysplit as ks
from keysplit import spark as kss

pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install scikit-learn")

ROOT = Path(__file__).resolve().parents[2]
RATING, TREE, HITTERS, BAYES = (
    runpy.run_path(str(ROOT / f"examples/applications/{name}.py"))
    for name in ("average_rating", "decision_tree", "heavy_hitters", "naive_bayes")
)

pytestmark = pytest.mark.newest


def histogram(values):
    rows = pd.DataFrame({"id": range(len(values)), "triplet": "1/0/0", "value": values})
    return TREE["histogram"](rows)["bins"].iloc[0]


def verdicts(out):
    return re.findall(r"^equal to .*: (True|False)$", out, re.MULTILINE)


def merged(*histograms):
    return TREE["merged"](pd.DataFrame({"triplet": "1/0/0", "bins": histograms}))["bins"].iloc[0]


def test_the_example_of_the_paper(monkeypatch):
    """Ben-Haim and Tom-Tov work ten points through their procedures, with five bins."""
    monkeypatch.setitem(TREE["shrunk"].__globals__, "BINS", 5)
    first, second = histogram([23.0, 19, 10, 16, 36, 2, 9]), histogram([32.0, 30, 45])
    assert [each[:2] for each in first] == [[2, 1], [9.5, 2], [17.5, 2], [23, 1], [36, 1]]
    whole = merged(first, second)
    assert [[round(centre, 2), count] for centre, count, *_ in whole] == [
        [2, 1],
        [9.5, 2],
        [19.33, 3],
        [32.67, 3],
        [45, 1],
    ]
    assert round(TREE["rank"](whole, 15), 2) == 3.28
    cuts = TREE["uniform"](whole, 3)
    assert [TREE["rank"](whole, cut) for cut in cuts] == pytest.approx([10 / 3, 20 / 3])


@given(st.permutations([(at, at**2 % 89 + at / 64) for at in range(40)]))
@settings(deadline=None, max_examples=20)
def test_a_histogram_is_the_same_in_any_order_of_the_rows(rows):
    found = TREE["histogram"](pd.DataFrame(rows, columns=["id", "value"]).assign(triplet="1/0/0"))
    assert found["bins"].iloc[0] == histogram([value for _, value in sorted(rows)])


@given(st.lists(st.lists(st.integers(-1000, 1000) | st.floats(-1e3, 1e3, width=32), max_size=60), min_size=1))
@settings(deadline=None)
def test_histograms_keep_their_bounds(parts):
    parts = [[float(value) for value in part] for part in parts if part]
    values = sorted(value for part in parts for value in part)
    if not values:
        return
    whole = merged(*map(histogram, parts))
    assert len(whole) <= TREE["BINS"]
    assert sum(count for _, count, *_ in whole) == len(values)
    mean = sum(centre * count for centre, count, *_ in whole) / len(values)
    assert mean == pytest.approx(sum(values) / len(values), abs=1e-6)
    distinct = sorted(set(values))
    if len(distinct) <= TREE["BINS"]:
        assert whole == [[value, values.count(value), value, value] for value in distinct]
    ranks = [TREE["rank"](whole, value) for value in distinct]
    assert ranks == sorted(ranks)
    for value, estimate in zip(distinct, ranks, strict=True):
        least, most = TREE["limits"](whole, value)
        assert least <= bisect_right(values, value) <= most
        assert 0 <= estimate <= len(values)


@given(st.lists(st.floats(-1e3, 1e3, width=16), min_size=2, max_size=200), st.integers(2, 8))
@settings(deadline=None)
def test_uniform_inverts_sum(values, parts):
    bins = histogram(values)
    for number, cut in enumerate(TREE["uniform"](bins, parts), start=1):
        wanted = number * len(values) / parts
        # at a point that many share, sum jumps
        assert TREE["rank"](bins, cut - 1e-6) - 1e-3 <= wanted <= TREE["rank"](bins, cut + 1e-6) + 1e-3


def test_sketches_are_those_of_the_workers(spark):
    messages = HITTERS["messages"](spark)
    routed = kss.online.route(messages, "page", HITTERS["GROUPING"])
    of_worker: dict[int, dict[str, int]] = {}
    for row in routed.groupBy("worker", "page").count().collect():
        of_worker.setdefault(row["worker"], {})[row["page"]] = row["count"]
    sketches = HITTERS["batch"](spark)
    assert sketches.keys() == of_worker.keys()
    for worker, sketch in sketches.items():
        assert sketch.total == sum(of_worker[worker].values())
        for page, count in of_worker[worker].items():
            assert worker in HITTERS["workers_of"](page, HITTERS["GROUPING"])
            assert 0 <= sketch.estimate(page)[0] - count <= sketch.total / HITTERS["CAPACITY"]


def test_wrong_counts_are_noticed(spark):
    exact, sketches = HITTERS["plain"](HITTERS["messages"](spark)), HITTERS["batch"](spark)
    counts = HITTERS["asked"](sketches)
    assert HITTERS["right"](counts, sketches, exact)
    for more in (1, -400):  # too low, or too high by more than the bound; as many messages in all
        wrong = exact | {"page 0": exact["page 0"] + more, "page 4999": exact.get("page 4999", 0) - more}
        assert not HITTERS["right"](counts, sketches, wrong)
    assert not HITTERS["right"](counts, sketches | {0: ks.SpaceSaving(64)}, exact)
    del counts["page 3"]
    assert not HITTERS["right"](counts, sketches, exact)


def test_the_texts_are_there(monkeypatch):
    fetched = subprocess.run([ROOT / "scripts/texts"], capture_output=True, text=True, check=False)
    if fetched.returncode:
        pytest.skip(f"scripts/texts cannot download: {fetched.stderr.strip()[-300:]}")
    monkeypatch.setitem(BAYES["main"].__globals__, "TWEETS", True)
    documents = BAYES["documents"]()
    assert (len(documents), documents["positive"].sum()) == (4_200, 2_897)
    assert documents["text"][1] == "Yay. Another good phone interview."


@pytest.mark.slow
def test_without_texts_documents_are_drawn(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(BAYES["main"].__globals__, "TWEETS", False)
    BAYES["main"](spark, tmp_path)
    out = capsys.readouterr().out
    assert out.startswith("3,000 drawn documents")
    assert verdicts(out) == ["True"] * 4
    # the stream has its input from the run before
    texts, positive = BAYES["drawn"]()
    monkeypatch.setitem(BAYES["main"].__globals__, "drawn", lambda: (texts[:2_000], positive[1_000:]))
    BAYES["main"](spark, tmp_path)
    out = capsys.readouterr().out
    assert out.startswith("2,000 drawn documents")
    assert verdicts(out) == ["True"] * 4


def test_averages_of_a_file(spark, tmp_path, capsys):
    halves, others = tmp_path / "halves.csv", tmp_path / "others.parquet"
    halves.write_text("key,value\n" + "a,3.5\nb,4\na,0.05\nc,-1.25\n" * 3)
    RATING["main"](spark, tmp_path / "run", halves)
    out = capsys.readouterr().out
    assert out.startswith("12 ratings of halves.csv")
    assert verdicts(out) == ["True"] * 2
    averages = {
        product: (ratings, average) for product, ratings, average in RATING["batch"](spark, halves).collect()
    }
    assert averages == {"a": (6, Decimal("1.775")), "b": (3, 4), "c": (3, Decimal("-1.25"))}
    # the stream has its input from the run before
    pd.DataFrame({"key": [1, 1], "value": [4.1, 4.2]}).astype({"value": "float32"}).to_parquet(others)
    RATING["main"](spark, tmp_path / "run", others)
    out = capsys.readouterr().out
    assert out.startswith("2 ratings of others.parquet")
    assert verdicts(out) == ["True"] * 2
    assert RATING["batch"](spark, others).first() == ("1", 2, Decimal("4.15"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("film,stars\na,3\n", "must have the columns key and value, got film, stars"),
        ("key,value\na,3\na,3.125\n", "at most two decimals, got 3.125"),
        ("key,value\na,3\na,\n", "at most two decimals, got nan"),
        ("key,value\na,good\n", "at most two decimals, got good"),
        ("key,value\na,1e300\n", "at most two decimals, got 1e+300"),
    ],
)
def test_files_without_ratings_are_refused(tmp_path, text, message):
    (tmp_path / "file.csv").write_text(text)
    with pytest.raises(ValueError, match=f"file.csv .*{re.escape(message)}"):
        RATING["read"](tmp_path / "file.csv")
