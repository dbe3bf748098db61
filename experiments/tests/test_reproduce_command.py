"""The command `keysplit reproduce`, and the page that it writes."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from keysplit.cli import main
from keysplit_experiments.harness import page, registry, runner
from keysplit_experiments.harness.experiment import (
    Cell,
    Claim,
    Judged,
    Results,
)
from made_up_experiment import Counting


def keysplit(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["reproduce", *map(str, arguments)], env={"KEYSPLIT_DATA": ""})


def assert_refused(result: Result, *texts: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("keysplit: ")
    assert result.stderr.count("\n") == 1, result.stderr
    for text in texts:
        assert text in result.stderr


def test_the_experiments_are_listed() -> None:
    result = keysplit()
    assert result.exit_code == 0
    for name, experiment in registry.registered().items():
        assert re.search(
            rf"^  {name} +{re.escape(experiment.label)} +{re.escape(experiment.title)}$", result.stdout, re.M
        )


def test_one_experiment_is_run_and_shown(tmp_path: Path) -> None:
    result = keysplit("d_choices/fig8", "--quick", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Fig. 8: load of head and tail on each worker" in result.stdout
    assert len(re.findall(r"holds|differs", result.stdout)) == 4
    for suffix in (".json", ".svg", ".png", ".cells.jsonl"):
        assert (tmp_path / f"out/quick/d_choices/fig8{suffix}").is_file()
    cells = (tmp_path / "out/quick/d_choices/fig8.cells.jsonl").read_text()
    assert keysplit("d_choices/fig8", "--quick", "--out", tmp_path / "out").stdout == result.stdout
    assert (tmp_path / "out/quick/d_choices/fig8.cells.jsonl").read_text() == cells
    assert keysplit("d_choices/fig8", "--quick", "--fresh", "--out", tmp_path / "out").exit_code == 0
    assert len((tmp_path / "out/quick/d_choices/fig8.cells.jsonl").read_text().splitlines()) == 3


def test_a_stream_of_the_users_own(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("to be or not to be " * 50)
    result = keysplit("d_choices/fig12", "--quick", "--out", tmp_path, "--stream", file, "--no-figures")
    assert result.exit_code == 0, result.output
    assert "CT: words.txt" in result.stdout
    written = json.loads((tmp_path / "quick/d_choices/fig12.json").read_text())
    assert written["streams"] == {"TW": "words.txt", "WP": "words.txt", "CT": "words.txt"}
    assert not (tmp_path / "quick/d_choices/fig12.svg").exists()


def test_what_is_wrong_is_told_in_one_line(tmp_path: Path) -> None:
    out = ("--out", tmp_path)
    assert_refused(keysplit("fig10", *out), "name must be all, a paper", "got 'fig10'")
    assert_refused(keysplit("d_choices/fig8", "--key", "word", *out), "key goes with --stream")
    assert_refused(keysplit("d_choices/fig8", "--jobs", 0, *out), "jobs must be at least 1, got 0")
    assert_refused(keysplit("--docs", tmp_path / "page.md", *out), "must hold results")
    assert_refused(keysplit("--docs", tmp_path / "none/page.md", *out), "the folder of", "must exist")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--data", "none"], "data must be a folder, got"),
        (["--data", "broken"], "drift_scoop_updates.parquet cannot be read as parquet"),
        (["--stream", "none.txt"], "path must be a file"),
        (["--stream", "empty.txt"], "must hold at least one message, got none"),
        (["--stream", "table.csv", "--key", "c"], "key must be one of the columns a, b, got 'c'"),
        (["--stream", "broken/drift_scoop_updates.parquet"], "cannot be read as parquet"),
    ],
)
def test_streams_that_cannot_be_read(options: list[str], words: str, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/drift_scoop_updates.parquet").write_text("text")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    files = [each if each.startswith("--") or each == "c" else tmp_path / each for each in options]
    result = keysplit("d_choices/fig12", "--quick", "--no-figures", "--out", tmp_path / "out", *files)
    assert_refused(result, words)


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be measured."""
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("the work was begun"))


@pytest.mark.usefixtures("no_work")
def test_a_folder_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file/out"):
        assert_refused(keysplit("d_choices/fig8", "--quick", "--out", out), str(out))


@pytest.mark.usefixtures("no_work")
def test_without_matplotlib_the_remedy_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for more in ([], ["--no-figures", "--docs", tmp_path / "page.md"]):
        result = keysplit("d_choices/fig8", "--quick", "--out", tmp_path, *more)
        assert_refused(result, "pip install matplotlib", "--no-figures")


def test_without_matplotlib_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert keysplit("d_choices/fig8", "--quick", "--out", tmp_path, "--no-figures").exit_code == 0


def test_a_stopped_command_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", run)
    result = keysplit("d_choices/fig8", "--quick", "--out", tmp_path)
    assert result.exit_code == 130
    assert result.stderr == "keysplit: stopped; finished cells are kept, run the same command to continue\n"


def test_the_page_tells_results_and_verdicts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert keysplit("d_choices/fig8", "d_choices/table1", "--quick", "--out", out).exit_code == 0
    result = keysplit("--docs", tmp_path / "docs.md", "--out", out)
    assert result.exit_code == 0, result.output
    assert "](docs/d_choices.md) | 2 | " in (tmp_path / "docs.md").read_text(encoding="utf-8")
    text = (tmp_path / "docs/d_choices.md").read_text(encoding="utf-8")
    assert "## Fig. 8: load of head and tail on each worker" in text
    assert "`keysplit reproduce d_choices/fig8 --quick`" in text
    assert "](d_choices/fig8.svg)" in text
    assert (tmp_path / "docs/d_choices/fig8.svg").is_file()
    assert "## Table I: the datasets" in text
    assert "- CT, cashtags in tweets, which drift: drawn" in text
    assert "\n- Holds: " in text
    assert "Fig. 10" not in text


def test_results_that_are_damaged_or_out_of_date_are_refused(tmp_path: Path) -> None:
    assert keysplit("d_choices/fig8", "--quick", "--out", tmp_path, "--no-figures").exit_code == 0
    path, docs = tmp_path / "quick/d_choices/fig8.json", ("--docs", tmp_path / "page.md", "--out", tmp_path)
    text = path.read_text(encoding="utf-8")
    results = json.loads(text)
    del results["cells"][0]
    path.write_text(json.dumps(results), encoding="utf-8")
    assert_refused(keysplit(*docs), "results must match the current cells of d_choices/fig8")
    del results["standard"]
    for other in (text[:-20], json.dumps(results), "[]"):
        path.write_text(other, encoding="utf-8")
        assert_refused(keysplit(*docs), "must hold the results of d_choices/fig8")
    assert not (tmp_path / "page.md").exists()


def test_a_claim_that_differs_says_why_after_a_full_run_on_the_standard_streams() -> None:
    claim = Claim(says="none", where="here", judge=lambda _: Judged(False, "one"), because="of this")
    experiment = replace(Counting().experiment, claims=[claim])
    for standard, shown in ((True, "Ours: one, because of this.\n"), (False, "Ours: one.\n")):
        results = Results([Cell({"place": 0}, {"value": 1})], "full", standard=standard)
        outcome = runner.judged(experiment, results)
        assert shown in page.markdown(registry.papers()[experiment.paper], [outcome])


def test_a_bug_in_an_experiment_shows_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def buggy(*_: object, **__: object) -> None:
        raise ValueError("zip() argument 2 is shorter")

    monkeypatch.setattr("keysplit_experiments.harness.runner.run", buggy)
    result = keysplit("d_choices/fig8", "--quick", "--out", tmp_path)
    assert result.exit_code == 1
    assert "in buggy" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("keysplit: this is a bug in keysplit")
