"""The experiments: each runs, is judged and drawn; what is finished is kept; the command and the page."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from click.testing import CliRunner, Result

from keysplit.cli import main
from keysplit_experiments.harness import figure, page, registry, runner
from keysplit_experiments.harness.experiment import (
    FULL,
    QUICK,
    Cell,
    Claim,
    Experiment,
    Judged,
    Results,
    Scale,
    plain,
    steps,
)
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.paper import Dataset
from keysplit_experiments.harness.store import Store
from keysplit_experiments.harness.table import Table, share, told

ROOT = Path(__file__).parents[2]
TINY = Scale("tiny", 2_000)
NAMES = list(registry.registered())
REAL = [
    name
    for name, experiment in registry.registered().items()
    if any("stream" in cell for cell in experiment.cells(TINY))
]


@pytest.fixture(scope="session")
def inputs() -> Inputs:
    """Streams that are drawn: real ones are not needed."""
    return Inputs()


# each experiment


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_runs_and_is_judged_and_drawn(name: str, inputs: Inputs, tmp_path: Path) -> None:
    experiment = registry.registered()[name]
    store = Store(tmp_path, TINY.name)
    outcome = runner.run(experiment, TINY, inputs, store)
    assert len(outcome.results.cells) == len(list(experiment.cells(TINY))) > 0
    assert experiment.claims
    assert len(outcome.verdicts) == len(experiment.claims)
    for claim, judged in zip(experiment.claims, outcome.verdicts, strict=True):
        assert claim.says
        assert claim.where
        assert judged.ours
    table = experiment.table(outcome.results)
    assert table.rows
    assert table.rich().row_count == len(table.rows)
    drawn = figure.draw(experiment, outcome.results)
    assert (drawn is None) == (experiment.draw is None)
    if drawn is not None:
        assert any(axes.has_data() for axes in drawn.axes)
        figure.save(drawn, tmp_path / "figure.svg", tmp_path / "figure.png")
        assert (tmp_path / "figure.svg").read_text(encoding="utf-8").startswith("<?xml")
    written = json.loads(store.path(experiment, ".json").read_text(encoding="utf-8"))
    assert [claim["verdict"] for claim in written["claims"]] == [
        "holds" if judged.holds else "differs" for judged in outcome.verdicts
    ]
    kept = store.read(experiment)
    assert kept is not None
    assert runner.judged(experiment, kept).verdicts == outcome.verdicts, "the page would tell something else"


@pytest.mark.parametrize("name", NAMES)
def test_the_cells_of_an_experiment_are_json_and_differ(name: str) -> None:
    experiment = registry.registered()[name]
    for scale in (FULL, QUICK, TINY):
        cells = [json.dumps(cell, sort_keys=True) for cell in experiment.cells(scale)]
        assert len(set(cells)) == len(cells)
    most = [cell["messages"] for cell in experiment.cells(TINY) if "messages" in cell]
    assert all(messages <= 2_000 for messages in most)


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_says_what_it_is(name: str) -> None:
    experiment = registry.registered()[name]
    number = re.sub(r"\D", "", experiment.name.split("/")[1])
    assert re.fullmatch(r"(Fig\.|Table) ([0-9]+|[IVX]+)( .*)?", experiment.label)
    assert experiment.label.split()[1] in (number, {"1": "I", "2": "II", "3": "III"}.get(number))
    assert experiment.title
    assert experiment.setting.rstrip(")").endswith(".")


def test_finding_the_experiments_brings_no_matplotlib() -> None:
    code = "import sys; from keysplit_experiments.harness import figure, registry; registry.registered(); "
    code += "print('matplotlib' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"


# results


def test_results_are_chosen_by_their_parameters() -> None:
    cells = [
        Cell({"n": n, "grouping": g, "seed": s}, {"load": n * 10 + s, "list": [1]})
        for n in (5, 10)
        for g in "ab"
        for s in (1, 2, 3)
    ]
    results = Results(cells)
    assert results.values("n") == [5, 10]
    assert results.median("load", n=5, grouping="a") == 52
    assert results.line("n", "load", grouping="b") == ([5, 10], [52, 102])
    assert results.medians("load", "grouping", "n", seed=[1, 2]) == {
        ("a", 5): 51.5,
        ("b", 5): 51.5,
        ("a", 10): 101.5,
        ("b", 10): 101.5,
    }
    assert results.one("load", n=10, grouping="a", seed=3) == 103
    assert len(list(results.where(n=[5, 10], seed=1))) == 4
    with pytest.raises(LookupError, match="6 cells"):
        results.one("load", n=5)
    for empty in (lambda: results.all("load", n=6), lambda: results.line("n", "load", grouping="c")):
        with pytest.raises(LookupError, match="no cell"):
            empty()


def test_scales() -> None:
    assert FULL.messages(10**7) == 10**7
    assert QUICK.messages(10**7) == 100_000
    assert QUICK.messages(10**7, quick=5) == 5
    assert TINY.messages(10**7) == 2_000
    assert FULL.grid([1, 2], [1]) == [1, 2]
    assert TINY.grid([1, 2], [1]) == QUICK.grid([1, 2], [1]) == [1]


def test_steps_have_no_noise() -> None:
    assert steps(0.1, 0.5, 0.1) == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert steps(1.0, 2.0, 0.25) == [1.0, 1.25, 1.5, 1.75, 2.0]
    assert steps(10, 30, 10) == [10, 20, 30]


def test_plain_is_what_json_takes() -> None:
    import numpy as np

    value = {"a": np.arange(3), "b": (np.float64(0.5), [np.int64(2)]), "c": None}
    assert json.dumps(plain(value)) == '{"a": [0, 1, 2], "b": [0.5, [2]], "c": null}'


# tables


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("word", "word"),
        (True, "yes"),
        (12_345, "12,345"),
        (0.0, "0"),
        (0.4, "0.4"),
        (-76.6, "-76.6"),
        (0.0960001, "0.096"),
        (1.23e-5, "1.2e-05"),
        (2.345, "2.35"),
        (123_456.7, "123,457"),
        (float("nan"), ""),
        (float("inf"), "inf"),
    ],
)
def test_entries_of_a_table(value: Any, text: str) -> None:
    assert told(value) == text


def test_a_table_as_markdown() -> None:
    table = Table(["name", "load"], [["a|b", 1], ["c", None]])
    assert table.markdown() == "| name | load |\n| --- | ---: |\n| a\\|b | 1 |\n| c |  |"
    with pytest.raises(ValueError, match="must have 2 entries"):
        Table(["name", "load"], [["a"]])
    assert (share(0.0012), share(0.301), share(0)) == ("0.12%", "30.1%", "0.0%")


# registry


def test_names_are_found_in_order() -> None:
    names = [experiment.name for experiment in registry.chosen(["d_choices"])]
    assert names == [f"d_choices/fig{n}" for n in (1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)] + ["d_choices/table1"]
    assert registry.chosen(["d_choices/fig10", "d_choices/fig3", "d_choices/fig10"]) == [
        registry.registered()[name] for name in ("d_choices/fig3", "d_choices/fig10")
    ]
    assert registry.chosen(["all"]) == list(registry.registered().values())
    with pytest.raises(ValueError, match=r"name must be all, a paper \(d_choices.*got 'fig10'"):
        registry.chosen(["fig10"])
    with pytest.raises(ValueError, match=r"one of its experiments \(flexd/fig7, flexd/fig8, .*'flexd/fig99'"):
        registry.chosen(["flexd/fig99"])


# what is finished is kept


class Counting:
    """An experiment that counts its measurements, and can fail."""

    def __init__(self, cells: int = 4, version: int = 1, stream: str | None = None) -> None:
        self.measured: list[int] = []
        self.fails_at: int | None = None
        more = {"stream": stream} if stream else {}

        def measure(inputs: Inputs, *, place: int, stream: str | None = None) -> dict[str, Any]:
            if place == self.fails_at:
                raise KeyboardInterrupt
            self.measured.append(place)
            return {"value": place / 3, "list": [float("nan")]}

        self.experiment = Experiment(
            name="d_choices/fig10",
            label="Fig. 10",
            title="a test",
            setting="None.",
            cells=lambda scale: [{"place": place, **more} for place in range(cells)],
            measure=measure,
            claims=[Claim(says="four", where="here", judge=lambda r: Judged(len(r.cells) == 4, "cells"))],
            table=lambda results: Table(["value"], [[cell.figures["value"]] for cell in results]),
            version=version,
        )

    def run(self, folder: Path, inputs: Inputs | None = None) -> runner.Outcome:
        store = Store(folder, "quick")
        return runner.run(self.experiment, QUICK, inputs or Inputs(), store, jobs=1)


def test_finished_cells_are_not_measured_again(tmp_path: Path) -> None:
    counting = Counting()
    first = counting.run(tmp_path)
    assert counting.measured == [0, 1, 2, 3]
    again = counting.run(tmp_path)
    assert counting.measured == [0, 1, 2, 3]
    assert repr(first.results) == repr(again.results)
    more = Counting(cells=5)
    assert not more.run(tmp_path).verdicts[0].holds
    assert more.measured == [4]
    other = Counting(version=2)
    other.run(tmp_path)
    assert other.measured == [0, 1, 2, 3]


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    counting = Counting()
    counting.fails_at = 2
    with pytest.raises(KeyboardInterrupt):
        counting.run(tmp_path)
    assert counting.measured[:2] == [0, 1]
    assert not Store(tmp_path, "quick").path(counting.experiment, ".json").exists()
    kept = len(Store(tmp_path, "quick").finished(counting.experiment))
    assert kept >= 2
    counting.fails_at = None
    before = len(counting.measured)
    assert counting.run(tmp_path).verdicts[0].holds
    assert len(counting.measured) - before == 4 - kept


def test_what_is_under_way_when_a_run_is_stopped_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, shutdown = Event(), ThreadPoolExecutor.shutdown

    def stop(pool: ThreadPoolExecutor, **options: bool) -> None:
        stopping.set()
        shutdown(pool, **options)

    def measure(inputs: Inputs, *, place: int) -> dict[str, Any]:
        if place == 1:
            raise KeyboardInterrupt
        assert stopping.wait(60)
        return {"value": 1}

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", stop)
    experiment, store = replace(Counting(cells=2).experiment, measure=measure), Store(tmp_path, "quick")
    with pytest.raises(KeyboardInterrupt):
        runner.run(experiment, QUICK, Inputs(), store, jobs=2)
    assert list(store.finished(experiment).values()) == [{"value": 1}]


def test_a_line_that_was_cut_off_is_measured_again(tmp_path: Path) -> None:
    counting = Counting()
    counting.run(tmp_path)
    path = Store(tmp_path, "quick").path(counting.experiment, ".cells.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    counting.run(tmp_path)
    assert sorted(counting.measured) == [0, 1, 2, 3, 3]
    counting.run(tmp_path)
    assert len(counting.measured) == 5, "the line behind the one cut off was lost"


def test_another_stream_is_measured_anew(tmp_path: Path) -> None:
    counting = Counting(stream="CT")
    drawn = counting.run(tmp_path).results
    assert drawn.streams["CT"].startswith("drawn: Zipf")
    assert not drawn.standard
    for number, words in enumerate(("a b c", "a b c d"), start=1):
        file = tmp_path / f"words{number}.txt"
        file.write_text(words)
        outcome = counting.run(tmp_path, Inputs(stream=file))
        assert outcome.results.streams == {"CT": file.name}
    assert len(counting.measured) == 12


def test_a_stream_that_the_paper_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stream must be one of WP, TW, CT, got 'XX'"):
        Counting(stream="XX").run(tmp_path)


def test_progress_is_told(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def progress(done: int, cells: int) -> None:
        seen.append((done, cells))

    experiment, store = Counting().experiment, Store(tmp_path, "quick")
    runner.run(experiment, QUICK, Inputs(), store, jobs=1, progress=progress)
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    runner.run(experiment, QUICK, Inputs(), store, jobs=1, progress=progress)
    assert seen[5:] == [(4, 4)]


# inputs


DATASET = Dataset(
    symbol="X", title="x", messages=1_000_000, keys=50_000, top_share=0.2, stands_in="x.parquet", periods=4
)


def test_a_stream_with_the_papers_statistics_is_drawn() -> None:
    import numpy as np

    keys = Inputs().real(DATASET, 20_000)
    assert len(keys) == 20_000
    shares = [np.bincount(part).max() / 5_000 for part in np.split(keys, 4)]
    assert shares == pytest.approx([0.2] * 4, abs=0.03)
    hot = [int(np.bincount(part).argmax()) for part in np.split(keys, 4)]
    assert len(set(hot)) == 4


def test_files_are_read_and_the_first_messages_taken(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    parquet.write_table(pa.table({"key": ["a", "b", "a"], "other": [1, 2, 3]}), tmp_path / "x.parquet")
    inputs = Inputs(data=tmp_path)
    assert inputs.real(DATASET).to_pylist() == ["a", "b", "a"]
    assert inputs.real(DATASET, 2).to_pylist() == ["a", "b"]
    assert inputs.told(DATASET) == "x.parquet"
    own = Inputs(stream=tmp_path / "x.parquet", key="other")
    assert own.real(DATASET).to_pylist() == [1, 2, 3]
    assert own.told(DATASET) == "x.parquet, column other"
    assert own.identity(DATASET) != inputs.identity(DATASET) != Inputs().identity(DATASET)


def test_streams_are_made_once() -> None:
    inputs, made = Inputs(), []
    for name in (1, 1, 2, 1, 3, 1, 2):
        inputs.once(name, lambda name=name: made.append(name))
    assert made == [1, 2, 3, 2]


@pytest.mark.parametrize("name", REAL)
def test_a_stream_of_one_message_is_judged_and_drawn(name: str, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("word", encoding="utf-8")
    experiment, inputs = registry.registered()[name], Inputs(stream=tmp_path / "one.txt")
    outcome = runner.run(experiment, TINY, inputs, Store(tmp_path, TINY.name))
    assert experiment.table(outcome.results).markdown()
    figure.draw(experiment, outcome.results)


# figures


def test_a_figure_is_the_same_whenever_it_is_drawn(inputs: Inputs, tmp_path: Path) -> None:
    experiment = registry.registered()["d_choices/fig8"]
    outcome = runner.run(experiment, TINY, inputs, Store(tmp_path, TINY.name))
    for name in ("first.svg", "second.svg"):
        drawn = figure.draw(experiment, outcome.results)
        assert drawn is not None
        figure.save(drawn, tmp_path / name)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()


def test_every_grouping_has_a_look() -> None:
    import keysplit as ks

    assert set(figure.LOOKS) == set(ks.GROUPINGS)
    assert len({look.color for look in figure.LOOKS.values()}) == len(figure.LOOKS)


# the command


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
        assert_refused(result, "pip install keysplit-experiments", "--no-figures")


def test_without_matplotlib_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert keysplit("d_choices/fig8", "--quick", "--out", tmp_path, "--no-figures").exit_code == 0


def test_a_stopped_command_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", run)
    result = keysplit("d_choices/fig8", "--quick", "--out", tmp_path)
    assert result.exit_code == 130
    assert result.stderr == "keysplit: stopped; what is finished is kept, the same command goes on\n"


# the page


def test_the_page_tells_results_and_verdicts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert keysplit("d_choices/fig8", "d_choices/table1", "--quick", "--out", out).exit_code == 0
    result = keysplit("--docs", tmp_path / "docs.md", "--out", out)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "docs.md").read_text(encoding="utf-8")
    assert "### Fig. 8: load of head and tail on each worker" in text
    assert "`keysplit reproduce d_choices/fig8 --quick`" in text
    assert "](docs/d_choices/fig8.svg)" in text
    assert (tmp_path / "docs/d_choices/fig8.svg").is_file()
    assert "### Table I: the datasets" in text
    assert "- CT, cashtags in tweets, which drift: drawn" in text
    assert "| holds |" in text
    assert "Fig. 10" not in text


def test_results_that_are_damaged_or_out_of_date_are_refused(tmp_path: Path) -> None:
    assert keysplit("d_choices/fig8", "--quick", "--out", tmp_path, "--no-figures").exit_code == 0
    path, docs = tmp_path / "quick/d_choices/fig8.json", ("--docs", tmp_path / "page.md", "--out", tmp_path)
    text = path.read_text(encoding="utf-8")
    results = json.loads(text)
    del results["cells"][0]
    path.write_text(json.dumps(results), encoding="utf-8")
    assert_refused(keysplit(*docs), "results must be of the cells that d_choices/fig8 has now")
    del results["standard"]
    for other in (text[:-20], json.dumps(results), "[]"):
        path.write_text(other, encoding="utf-8")
        assert_refused(keysplit(*docs), "must hold the results of d_choices/fig8")
    assert not (tmp_path / "page.md").exists()


def test_a_claim_that_differs_says_why_after_a_full_run_on_the_standard_streams() -> None:
    claim = Claim(says="none", where="here", judge=lambda _: Judged(False, "one"), because="of this")
    experiment = replace(Counting().experiment, claims=[claim])
    for standard, shown in ((True, "| **differs**, because of this |"), (False, "| **differs** |")):
        results = Results([Cell({"place": 0}, {"value": 1})], "full", standard=standard)
        outcome = runner.judged(experiment, results)
        assert shown in page.markdown({experiment.name: outcome}, "figures")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_the_documentation_is_up_to_date_in_form(name: str) -> None:
    text = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
    experiment = registry.registered()[name]
    section = text.split(f"\n### {experiment.label}: {experiment.title}\n")
    assert len(section) == 2, "write the page anew: keysplit reproduce --docs docs/experiments.md"
    own = section[1].split("\n### ")[0].split("\n## ")[0]
    assert experiment.setting in " ".join(own.split())
    claims = re.findall(r"^\| (.*) \[([^]]*)\] \|.*\| (?:holds|\*\*differs\*\*.*) \|$", own, re.MULTILINE)
    assert claims == [(claim.says.replace("|", "\\|"), claim.where) for claim in experiment.claims]
    if experiment.draw is not None:
        assert f"](experiments/{name}.svg)" in own
        assert (ROOT / f"docs/experiments/{name}.svg").is_file()


def test_the_page_of_the_documentation_has_this_introduction() -> None:
    assert (ROOT / "docs/experiments.md").read_text(encoding="utf-8").startswith(page.INTRODUCTION)


def test_a_full_run_that_differs_says_why_on_the_page() -> None:
    text = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
    sections = text.split("\n### ")[1:]
    unexplained = [
        line
        for section in sections
        if "--quick`" not in section
        for line in section.splitlines()
        if line.endswith("| **differs** |")
    ]
    assert unexplained == []
