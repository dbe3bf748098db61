"""`keysplit profile`, `compare` and `simulate`: what they print and write, and how they fail."""

import datetime
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import keysplit as ks
from keysplit import runs
from keysplit.cli import main
from test_cli import assert_one_line

DRAWN = ("--zipf", "1.4", "--keys", "1e3", "--messages", "20_000", "--stream-seed", "3")
KEYS = ks.streams.zipf(1.4, keys=1_000, messages=20_000, seed=3)


def keysplit(*arguments: object, **options):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def good(*arguments: object, **options):
    result = keysplit(*arguments, **options)
    assert result.exit_code == 0, result.output
    assert result.stderr == "", "nothing that is no terminal gets a progress bar"
    lines = [
        line for line in result.stdout.splitlines() if not line.startswith(("Report: ", "  kss."))
    ]  # a path, a line to paste
    assert max(map(len, lines), default=0) <= 80 or "--json" in arguments
    return result


def figures(*arguments: object, **options):
    return json.loads(good(*arguments, "--json", "-", **options).stdout)


@pytest.fixture
def files(tmp_path) -> Path:
    """Good files with the same keys, and many bad ones."""
    words = [f"k{key}" for key in KEYS.tolist()]
    table = pa.table({"word": words, "size": KEYS, "nothing": pa.nulls(len(words), pa.string())})
    pq.write_table(table, tmp_path / "good.parquet", row_group_size=3_000)
    csv.write_csv(table.drop_columns("nothing"), tmp_path / "good.csv")
    (tmp_path / "good.txt").write_text(" ".join(words))
    pq.write_table(table.slice(0, 0), tmp_path / "no_rows.parquet")
    pq.write_table(pa.table({"share": [0.5, 1.5, math.nan]}), tmp_path / "floats.parquet")
    kinds = {
        "times": [datetime.time(1), datetime.time(2)],
        "lists": [[1, 2], [3]],
        "structs": [{"a": 1, "b": 2}, {"a": 3, "b": 4}],
        "spans": [datetime.timedelta(1), datetime.timedelta(2)],
    }
    pq.write_table(pa.table(kinds), tmp_path / "kinds.parquet")
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "broken.csv").write_bytes(b"word,size\na,1\n\x1b[31mred\n")
    (tmp_path / "escapes.csv").write_text("\x1b[31mword,\u202esize\na,1\n")
    (tmp_path / "twice.csv").write_text("word,word\na,1\n")
    (tmp_path / "plain.csv.gz").write_text("word,size\na,1\n")
    late = pa.table({"word": pa.array([None] * 5_000 + ["a", "b"])})
    pq.write_table(late, tmp_path / "late.parquet", row_group_size=1_000)
    (tmp_path / "not.parquet").write_text("no Parquet at all")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "good.parquet").read_bytes()[:5_000])
    (tmp_path / "no_rows.csv").write_text("word,size\n")
    (tmp_path / "only_nulls.csv").write_text("word,size\n,1\n,2\n")
    (tmp_path / "nothing.csv").write_text("")
    (tmp_path / "nothing.txt").write_text(" \n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x80")
    return tmp_path


INPUTS = {"good.parquet": ["--key", "word"], "good.csv": ["--key", "word"], "good.txt": []}
COMMANDS = {
    "profile": ["profile", "--workers", "8"],
    "compare": ["compare", "--workers", "8", "--groupings", "key,d_choices"],
    "simulate": ["simulate", "--workers", "8", "--grouping", "d_choices"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_same_keys_give_the_same_figures_from_everywhere(files, command):
    told = [figures(*command, files / name, *options) for name, options in INPUTS.items()]
    for name, options in INPUTS.items():
        if not name.endswith(".parquet"):
            told.append(figures(*command, "-", *options, input=(files / name).read_bytes()))
    titles = [each.pop("stream") for each in told]
    for each in told:
        for advice in each.get("advice", ()):  # the line to paste names the column, which words have not
            for text in ("details", "line"):
                advice[text] = advice[text].replace(" 'word',", " key,")
    assert titles == [
        "column word of good.parquet",
        "column word of good.csv",
        "words of good.txt",
        "column word of standard input",
        "words of standard input",
    ]
    lengths_known, others = told[:1], told[1:]
    assert all(each == others[0] for each in others)
    # where the length is not known beforehand, samples and windows are others
    for each in (*lengths_known, others[0]):
        results = each.get("results") or (
            each["advice"][0]["results"].values() if "advice" in each else [each]
        )
        for result in results:
            params = dict(result["params"])
            expected = ks.simulate(
                ks.grouping(params.pop("name"), **params), [f"k{key}" for key in KEYS.tolist()], sources=5
            )
            assert result["loads"] == expected.loads.tolist()
            assert result["memory"] == expected.memory


def test_profile_prints_and_writes_what_the_library_finds(files):
    expected = ks.profile(KEYS, [8, 40], sources=3, top=7, windows=4)
    options = ["--workers", "8,40", "--sources", 3, "--top", 7, "--windows", 4]
    told = figures("profile", *DRAWN, *options)
    assert told.pop("stream") == "drawn by Zipf's law with exponent 1.4 from 1,000 keys"
    assert told == json.loads(json.dumps(expected.to_dict()))
    shown = good("profile", *DRAWN, *options, "--json", files / "out.json", "--report", files / "out.html")
    words = " ".join(shown.stdout.split())
    for advice in expected.advice:
        assert " ".join(f"{advice.workers} workers: {advice.verdict}".split()) in words
        assert advice.line in words
        assert advice.details in words
    assert expected.drift[1:] in words
    assert json.loads((files / "out.json").read_text())["top"] == told["top"]
    assert "</html>" in (files / "out.html").read_text()
    assert "Figures: " in shown.stdout
    assert "Report: " in shown.stdout


def test_compare_ranks_and_marks_the_front(files):
    results = ks.compare(KEYS, workers=[4, 20], sources=5)
    shown = good("compare", *DRAWN, "--workers", "4,20", "--report", files / "out.html").stdout
    for workers in (4, 20):
        some = [result for result in results if result.params.workers == workers]
        front = dict(zip((result.params.name for result in some), ks.pareto(some), strict=True))
        head, table = shown.split(f"\n{workers} workers\n")[1].split("    grouping ")[:2]
        assert head.startswith("split the frequent keys for joins, whole-group Python and writes\n")
        assert "\n  kss.join(left, right, key, plan=kss.plan(left, key, " in head
        lines = table.splitlines()[1 : 2 + len(some)]
        assert lines.pop(0).split()[:3] == ["cut_to_fit,", "planned", "1.00"]
        rows = [line.split() for line in lines]
        assert [int(row[0]) for row in rows] == list(range(1, len(some) + 1))
        ranked = sorted(some, key=lambda result: (result.imbalance, result.memory))
        assert [row[1] for row in rows] == [result.params.name for result in ranked]
        assert {row[1]: row[-1] == "*" for row in rows} == front
        for row, result in zip(rows, ranked, strict=True):
            assert row[2] == f"{1 + result.relative_imbalance:.2f}"
            assert row[5:7] == [f"{result.replication:.2f}", f"{result.memory:,}"]
    told = figures("compare", *DRAWN, "--workers", "4,20")
    assert told["results"] == json.loads(json.dumps([result.to_dict() for result in results]))
    assert sorted(ks.GROUPINGS) == sorted({result["params"]["name"] for result in told["results"]})


def test_simulate_takes_every_parameter(files):
    params = ks.Fish(workers=4, seed=7, epoch_messages=500, decay=0.5, threshold=None)
    expected = ks.simulate(
        params,
        KEYS,
        sources=2,
        service_time_s=0.002,
        arrival_rate_per_s=1500.0,
        capacities=[1, 1, 2, 0.5],
        events=[ks.AddWorker(5_000, 2.0), ks.SetCapacity(6_000, 1, 0.25), ks.RemoveWorker(10_000, 0)],
        samples=10,
    )
    told = figures(
        *["simulate", *DRAWN, "--grouping", "fish", "--workers", 4, "--sources", 2],
        *["--set", "seed=7", "--set", "epoch_messages=500", "--set", "decay=0.5", "--set", "threshold=none"],
        *["--service-time-ms", 2, "--arrival-rate", 1500, "--capacities", "1,1,2,0.5", "--samples", 10],
        *["--event", "add:5000:2", "--event", "capacity:6e3:1:0.25", "--event", "remove:10000:0"],
    )
    assert told.pop("stream").startswith("drawn by Zipf's law")
    assert told.pop("baseline") is None, "key grouping neither gains nor loses workers"
    assert told == json.loads(json.dumps(expected.to_dict()))
    assert told["latency_s"]["p99"] > 0
    told = figures("simulate", *DRAWN, "--grouping", "d_choices", "--workers", 4)
    assert told["baseline"] == json.loads(
        json.dumps(ks.simulate(ks.KeyGrouping(workers=4), KEYS, sources=5).to_dict())
    )
    shown = good(
        *["simulate", *DRAWN, "--grouping", "d_choices", "--set", "distinct=true", "--workers", 90],
        *["--service-time-ms", 1, "--report", files / "out.html"],
    ).stdout
    for words in (
        "distinct=True",
        "key, hash partitioning",
        "max/mean load",
        "replication",
        "latency",
        "p99",
        "utilisation",
        "throughput",
    ):
        assert words in shown
    assert "Queues over time" in (files / "out.html").read_text()


def test_a_profile_shows_three_numbers_of_workers_if_none_is_given():
    advice = figures("profile", *DRAWN, "--seconds-per-row", 0.5, "--cores", 10)["advice"]
    assert [each["workers"] for each in advice] == [8, 32, 200]
    assert all(", with 500 ms per message on 10 cores\n" in each["verdict"] for each in advice)


def test_nulls_before_the_first_key_are_counted(files):
    told = figures("simulate", files / "late.parquet", "--key", "word", "--grouping", "key", "--workers", 3)
    assert told["messages"] == 5_002
    assert told["distinct_keys"] == 3


def test_standard_output_holds_the_json_alone(files):
    result = good(
        "simulate", *DRAWN, "--grouping", "key", "--workers", 2, "--json", "-", "--report", files / "r.html"
    )
    assert json.loads(result.stdout)["messages"] == 20_000
    assert (files / "r.html").is_file()


@pytest.mark.parametrize("output", [["--json", "-"], []], ids=["json", "text"])
def test_a_pipe_that_closes_early_is_no_error(output):
    workers = ",".join(map(str, range(2, 32)))  # enough of them that a pipe does not hold the text
    groupings = ["--groupings", "key,partial_key,shuffle"]
    command = [
        sys.executable,
        "-m",
        "keysplit",
        "compare",
        *DRAWN,
        "--workers",
        workers,
        *groupings,
        *output,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.read(10)
        running.stdout.close()
        assert running.stderr.read() == ""


def test_help_names_every_option():
    for name in COMMANDS:
        shown = keysplit(name, "--help").stdout
        for option in main.commands[name].params:
            assert (option.opts[0] if option.opts[0].startswith("-") else "[FILE]") in shown


ALL = ["profile", "compare", "simulate"]


def complete(command: str, *arguments: object) -> list[object]:
    """The arguments, with what the command cannot do without."""
    needed = ["--workers", "4"] if "--workers" not in arguments else []
    if command == "simulate" and "--grouping" not in arguments:
        needed += ["--grouping", "key"]
    return [command, *arguments, *needed]


@pytest.mark.parametrize("command", ALL)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "name a FILE (- for standard input), or draw a stream: --zipf, --keys and --messages"),
        (["--zipf", "1"], "--keys and --messages missing"),
        (["--zipf", "1", "--keys", "5", "--messages", "0"], "messages must be at least 1, got 0"),
        (["--zipf", "1", "--keys", "5", "--messages", "-9"], "messages must be at least 0, got -9"),
        (["--zipf", "1", "--keys", "1e16", "--messages", "9"], "keys must be a whole number of at most"),
        (["--zipf", "1", "--keys", "1e400000000", "--messages", "9"], "keys must be a whole number"),
        (["--zipf", "1", "--keys", "nan", "--messages", "9"], "keys must be a whole number"),
        (["--zipf", "-1", "--keys", "5", "--messages", "9"], "exponent must be"),
        (["--zipf", "1", "--keys", "0", "--messages", "9"], "keys must be at least 1, got 0"),
        (
            ["--zipf", "1", "--keys", "5", "--messages", "1.5"],
            "messages must be a whole number of at most 1,000,000,000,000,000, got '1.5'",
        ),
        (
            ["--zipf", "1", "--keys", "inf", "--messages", "9"],
            "keys must be a whole number of at most 1,000,000,000,000,000, got 'inf'",
        ),
        ([*DRAWN, "--key", "word"], "--key needs a FILE and cannot be used with a drawn stream"),
        ([*DRAWN, "--stream-seed", "-1"], "stream-seed must be at least 0, got -1"),
        ([*DRAWN, "--workers", "0"], "workers must be in 1..=65536, got 0"),
        ([*DRAWN, "--workers", "-1"], "workers must be in 1..=65536, got -1"),
        ([*DRAWN, "--workers", "70000"], "workers must be in 1..=65536, got 70000"),
        ([*DRAWN, "--workers", "many"], "'many'"),
        ([*DRAWN, "--sources", "0"], "sources must be in 1..=65536, got 0"),
        ([*DRAWN, "--json", "no/such/folder/out.json"], "the folder of no/such/folder/out.json must exist"),
        ([*DRAWN, "--report", "no/such/folder/out.html"], "the folder of no/such/folder/out.html must exist"),
        ([*DRAWN, "--dance"], "No such option"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(command, arguments, text):
    assert_one_line(keysplit(*complete(command, *arguments)), 2, text)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["compare", *DRAWN, "--workers", "3,0"], "workers must be in 1..=65536, got 0"),
        (["compare", *DRAWN, "--workers", "3,,4"], "workers must be whole numbers, separated by commas"),
        (
            ["compare", *DRAWN, "--workers", "3", "--groupings", "key,salt"],
            "grouping must be one of shuffle, key",
        ),
        (["compare", *DRAWN], "Missing option '--workers'"),
        (["profile", *DRAWN, "--cores", 0], "cores must be at least 1, got 0"),
        (["compare", *DRAWN, "--workers", 3, "--seconds-per-row", 0], "seconds-per-row must be above 0 and "),
        (["profile", *DRAWN, "--workers", "3", "--top", "0"], "top must be in 1..=1000, got 0"),
        (["profile", *DRAWN, "--workers", "3", "--windows", "0"], "windows must be in 1..=1000, got 0"),
    ],
)
def test_bad_options_of_one_command(arguments, text):
    assert_one_line(keysplit(*arguments), 2, text)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--grouping", "salt"], "grouping must be one of shuffle, key"),
        (["--set", "choice=2"], "set must name one of seed, choices, distinct, got 'choice'"),
        (["--set", "workers=2"], "set must name one of seed, choices, distinct, got 'workers'"),
        (["--set", "choices"], "set must be NAME=VALUE, got 'choices'"),
        (["--set", "choices=two"], "set must give a number, true, false or none, got 'choices=two'"),
        (["--set", "choices=0"], "choices must be in"),
        (["--arrival-rate", "5"], "--arrival-rate belongs to the timing model: --service-time-ms is missing"),
        (["--capacities", "1,1,1,1"], "--capacities belongs to the timing model"),
        (["--event", "capacity:0:1:2"], "--event capacity:0:1:2 belongs to the timing model"),
        (["--service-time-ms", "-1"], "service-time-ms must be at least 0, got -1.0"),
        (["--service-time-ms", "1", "--capacities", "1,1"], "capacities"),
        (
            ["--service-time-ms", "1", "--capacities", "1,fast"],
            "capacities must be numbers, separated by commas",
        ),
        (["--service-time-ms", "1", "--arrival-rate", "0"], "arrival_rate_per_s must be"),
        (["--event", "add"], "event must be add:POSITION[:CAPACITY], remove:POSITION:WORKER or"),
        (["--event", "remove:0.5:1"], "got 'remove:0.5:1'"),
        (["--event", "add:inf"], "got 'add:inf'"),
        (["--event", "remove:0:worker"], "got 'remove:0:worker'"),
        (["--event", "remove:0:1"], "partial_key has a fixed number of workers"),
        (["--samples", "0"], "samples must be in 1..=1000000, got 0"),
    ],
)
def test_bad_options_of_simulate(arguments, text):
    grouping = [] if "--grouping" in arguments else ["--grouping", "partial_key"]
    assert_one_line(keysplit("simulate", *DRAWN, "--workers", 4, *grouping, *arguments), 2, text)


@pytest.mark.parametrize("command", ALL)
@pytest.mark.parametrize(
    ("name", "options", "texts"),
    [
        ("missing.parquet", ["--key", "word"], ["must be a file", "missing.parquet"]),
        ("good.parquet", ["--key", "colour"], ["columns word, size, nothing", "'colour'"]),
        ("good.parquet", [], ["columns word, size, nothing", "None"]),
        ("good.csv", ["--key", "colour"], ["columns word, size", "'colour'"]),
        ("good.txt", ["--key", "word"], ["key must be None for text", "'word'"]),
        ("good.parquet", ["--key", "nothing"], ["a key that is not null", "20,000 nulls", "good.parquet"]),
        ("only_nulls.csv", ["--key", "word"], ["a key that is not null", "2 nulls", "only_nulls.csv"]),
        ("floats.parquet", ["--key", "share"], ["keys must not be floats"]),
        ("kinds.parquet", ["--key", "times"], ["keys must be integers, strings, ", "Time64"]),
        ("kinds.parquet", ["--key", "lists"], ["keys must be integers, strings, ", "List"]),
        ("kinds.parquet", ["--key", "structs"], ["keys must be one column"]),
        ("kinds.parquet", ["--key", "structs.a"], ["columns times, lists, structs, spans", "'structs.a'"]),
        ("kinds.parquet", ["--key", "spans"], ["keys must be integers, strings, ", "Duration"]),
        ("folder.parquet", ["--key", "word"], ["must be a file", "folder.parquet"]),
        ("binary.csv", ["--key", "word"], ["binary.csv"]),
        ("broken.csv", ["--key", "word"], ["broken.csv", "\\x1b[31mred"]),
        ("escapes.csv", ["--key", "word"], ["columns \\x1b[31mword, \\u202esize"]),
        ("twice.csv", ["--key", "word"], ["key must be the name of one column, got 'word', the name of 2"]),
        ("plain.csv.gz", ["--key", "word"], ["plain.csv.gz cannot be read as csv"]),
        ("no_rows.parquet", ["--key", "word"], ["at least one key", "no_rows.parquet"]),
        ("no_rows.csv", ["--key", "word"], ["at least one key", "no_rows.csv"]),
        ("nothing.csv", ["--key", "word"], ["nothing.csv"]),
        ("nothing.txt", [], ["at least one key", "nothing.txt"]),
        ("binary.txt", [], ["binary.txt"]),
        ("not.parquet", ["--key", "word"], ["not.parquet"]),
        ("cut.parquet", ["--key", "word"], ["cut.parquet"]),
        ("good.txt", list(DRAWN), ["--zipf and --keys and --messages draw a stream", "good.txt"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(files, command, name, options, texts):
    outputs = ["--json", files / "out.json", "--report", files / "out.html"]
    result = keysplit(*complete(command, files / name, *options, *outputs))
    assert_one_line(result, 2, *texts)
    assert result.stderr.removesuffix("\n").isprintable()
    assert result.stdout == ""
    assert not list(files.glob("out.*"))


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_outputs_that_cannot_be_written_are_refused_before_the_work(files, monkeypatch, option):
    for command in ALL:
        monkeypatch.setattr(ks, command, None)
    (files / "old.json").write_text("old")
    for path, text in (
        (files / ("x" * 300), "xxx cannot be written: File name too long"),
        (files / "no" / "out", "no/out must exist"),
        (files, "is a directory"),
    ):
        for command in ALL:
            assert_one_line(keysplit(*complete(command, *DRAWN, option, path)), 2, text)
    result = keysplit(*complete("profile", files / "missing.csv", option, files / "old.json"))
    assert_one_line(result, 2, "missing.csv")
    assert (files / "old.json").read_text() == "old", "kept until there is something to write"


def test_a_report_is_a_file():
    assert_one_line(keysplit(*complete("profile", *DRAWN, "--report", "-")), 2, "report must be a file")


@pytest.mark.parametrize("command", ALL)
def test_ctrl_c_ends_quietly_with_exit_code_130(files, monkeypatch, command):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(ks, command, interrupt)
    result = keysplit(*complete(command, *DRAWN, "--json", files / "out.json"))
    assert result.exit_code == 130
    assert (result.stdout, result.stderr.strip()) == ("", "")
    assert not (files / "out.json").exists()


HOSTILE = [
    "\x1b[31mred",
    "a\nb\tc\r",
    "\x00",
    "\u202ertl",
    "<script>alert(1)</script>",
    "[bold]b[/]",
    "żółć 🎉",
    "",
]


def test_keys_and_names_do_nothing_to_the_terminal_or_the_page(tmp_path):
    path, page = tmp_path / "\x1b[31mred.parquet", tmp_path / "out.html"
    pq.write_table(pa.table({"<b>\x1b[32mkey": HOSTILE * 20}), path)
    for command in ALL:
        result = keysplit(*complete(command, path, "--key", "<b>\x1b[32mkey", "--report", page))
        assert result.exit_code == 0, result.output
        assert all(line.isprintable() for line in result.stdout.split("\n"))
        assert "\\x1b[32mkey of \\x1b[31mred.parquet" in result.stdout
        html = page.read_text(encoding="utf-8")
        assert "<script>alert" not in html
        assert "<b>\\x1b" not in html
        assert "\x1b" not in html
        if command == "profile":
            for key in HOSTILE:
                assert repr(key)[:20] in result.stdout


def test_a_long_key_is_shown_by_its_start_and_leaves_room_for_the_figures(tmp_path):
    path, page, long = tmp_path / "keys.parquet", tmp_path / "out.html", "long " * 200_000
    pq.write_table(pa.table({"key": [long] * 30 + ["b"] * 20}), path)
    shown = good("profile", path, "--key", "key", "--workers", 2, "--report", page).stdout
    assert f"'{'long ' * 12}'..., 1,000,000 long, has 60.0 %" in " ".join(shown.split())
    (row,) = [line for line in shown.splitlines() if line.endswith("60.0 %   always   1 of 1")]
    assert row.split("…")[1].split()[:2] == ["30", "0"]
    assert len(page.read_text()) < 100_000
    assert figures("profile", path, "--key", "key", "--workers", 2)["top"][0]["key"] == long


@pytest.mark.parametrize("command", ALL)
def test_the_smallest_streams(tmp_path, command):
    (tmp_path / "one.txt").write_text("word")
    (tmp_path / "same.txt").write_text("word " * 1000)
    for name, messages in (("one.txt", "1 message,"), ("same.txt", "1,000 messages,")):
        for workers in (1, 3):
            report = tmp_path / "out.html"
            arguments = complete(command, tmp_path / name, "--workers", workers, "--report", report)
            assert f"words of {name}: {messages} 1 key, 5 sources" in good(*arguments).stdout
            assert "</html>" in report.read_text()


@pytest.mark.parametrize("options", [[], ["--key", "word"]])
def test_empty_standard_input(options):
    result = keysplit("profile", "-", "--workers", 4, *options, input=b"")
    assert_one_line(result, 2)


def test_a_csv_that_changes_its_type_is_named(tmp_path):
    path = tmp_path / "turns.csv"
    with path.open("w") as file:
        file.write("word\n")
        file.writelines(f"{number}\n" for number in range(3_000_000))
        file.write("word\n")
    assert_one_line(keysplit("profile", path, "--key", "word", "--workers", 4), 2, "turns.csv", "column word")


def test_a_terminal_gets_a_progress_bar():
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
    lead, follow = pty.openpty()
    command = [sys.executable, "-m", "keysplit", "profile", *DRAWN, "--workers", "2", "--json", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follow, text=True) as running:
        os.close(follow)
        assert running.stdout is not None
        assert json.loads(running.stdout.read())["messages"] == 20_000
    shown = os.read(lead, 100_000).decode()
    os.close(lead)
    assert "messages" in shown
    assert "/20000" in shown


@pytest.mark.parametrize("command", ALL)
@pytest.mark.parametrize("kind", [ValueError, TypeError, KeyError, FileNotFoundError, ImportError])
def test_a_bug_shows_where_it_is(monkeypatch, command, kind):
    def buggy(*_, **__):
        raise kind("zip() argument 2 is shorter\x1b[31m")

    monkeypatch.setattr("keysplit.simulation.Simulation.add", buggy)
    result = keysplit(*complete(command, *DRAWN))
    assert result.exit_code == 1
    assert result.stderr.startswith("Traceback (most recent call last):")
    assert "in buggy" in result.stderr
    assert result.stderr.splitlines()[-1] == (
        f"keysplit: this is a bug in keysplit {ks.__version__}: "
        "please report it with the command and the lines above"
    )
    assert "\x1b" not in result.stderr


def test_a_bug_in_a_report_shows_where_it_is(monkeypatch, files):
    monkeypatch.setattr("keysplit.show.panels.render", lambda *_, **__: 1 / 0)
    result = keysplit(*complete("simulate", *DRAWN, "--report", files / "out.html"))
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.stderr


def test_what_the_system_refuses_is_one_line(monkeypatch, files):
    def full(self, *_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    for option in ("--report", "--json"):
        result = keysplit(*complete("profile", *DRAWN, option, files / "out.html"))
        assert_one_line(result, 2, "No space left on device", "out.html")


@pytest.mark.parametrize("size", ["99MB", "much", "-3GB", "", "nan", "1TB", "1e99"])
def test_bad_sizes_of_memory(size):
    for command in ("profile", "compare"):
        text = f"memory must be a size of at least 100MB, such as 2GB, got {size!r}"
        assert_one_line(keysplit(*complete(command, *DRAWN, "--memory", size)), 2, text)


@pytest.mark.parametrize(
    ("size", "memory"), [("2GB", 2 * 10**9), ("500mb", 5 * 10**8), ("1.5e9", 1500000000)]
)
def test_memory_reaches_the_library(monkeypatch, size, memory):
    given = []
    run = runs.run
    monkeypatch.setattr(runs, "run", lambda *a, **o: given.append(o["memory"]) or run(*a, **o))
    for command in ("profile", "compare"):
        good(*complete(command, *DRAWN, "--memory", size))
    assert given == [memory, memory]


@pytest.mark.parametrize("name", ["profile", "compare"])
def test_little_memory_changes_no_figure(monkeypatch, files, name):
    for path, text in ((files / "good.parquet", None), ("-", (files / "good.csv").read_bytes())):
        arguments, options = [*COMMANDS[name], path, "--key", "word"], {} if text is None else {"input": text}
        plenty = figures(*arguments, **options)
        with monkeypatch.context() as patch:
            choosing = MagicMock(wraps=runs.choose)
            patch.setattr(runs, "choose", choosing)
            little = figures(*arguments, "--memory", "100MB", **options)
        assert choosing.call_count > (path == "-"), "several runs where the number of keys is not known"
        assert little == plenty
