"""Each experiment runs, is judged and drawn, and stands on the page of the documentation."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from keysplit_experiments.harness import figure, page, registry, runner
from keysplit_experiments.harness.experiment import (
    FULL,
    QUICK,
    Judged,
    Scale,
)
from keysplit_experiments.harness.inputs import Inputs
from keysplit_experiments.harness.store import Store

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


@pytest.mark.parametrize("name", REAL)
def test_a_stream_of_one_message_is_judged_and_drawn(name: str, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("word", encoding="utf-8")
    experiment, inputs = registry.registered()[name], Inputs(stream=tmp_path / "one.txt")
    outcome = runner.run(experiment, TINY, inputs, Store(tmp_path, TINY.name))
    assert experiment.table(outcome.results).markdown()
    figure.draw(experiment, outcome.results)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_the_documentation_is_up_to_date_in_form(name: str) -> None:
    experiment = registry.registered()[name]
    text = (ROOT / f"docs/experiments/{experiment.paper}.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {experiment.label}: {experiment.title}\n")
    assert len(section) == 2, "write the page again: keysplit reproduce --docs docs/experiments.md"
    own = section[1].split("\n## ")[0]
    assert experiment.setting in " ".join(own.split())
    found = re.findall(r"^- (Holds|\*\*Differs\*\*): (.*?) \[([^]]*)\]\.", own, re.MULTILINE)
    for (verdict, says, where), claim in zip(found, experiment.claims, strict=True):
        assert (says, where) == (page.stated(claim, Judged(verdict == "Holds", "")), claim.where)
    if experiment.draw is not None:
        assert f"]({name}.svg)" in own
        assert (ROOT / f"docs/experiments/{name}.svg").is_file()


def test_the_page_of_the_documentation_has_this_introduction() -> None:
    assert (ROOT / "docs/experiments.md").read_text(encoding="utf-8").startswith(page.INTRODUCTION)


def test_a_full_run_that_differs_says_why_on_the_page() -> None:
    pages = [(ROOT / f"docs/experiments/{slug}.md").read_text(encoding="utf-8") for slug in registry.papers()]
    sections = [section for text in pages for section in text.split("\n## ")[1:]]
    assert len(sections) == len(NAMES)
    unexplained = [
        line
        for section in sections
        if "--quick`" not in section
        for line in section.splitlines()
        if line.startswith("- **Differs**") and ", because " not in line
    ]
    assert unexplained == []


def test_the_pages_count_the_claims_that_hold() -> None:
    counted = []
    for slug in registry.papers():
        text = (ROOT / f"docs/experiments/{slug}.md").read_text(encoding="utf-8")
        hold, differ = (
            len(re.findall(rf"^- {word}: ", text, re.M)) for word in ("Holds", r"\*\*Differs\*\*")
        )
        assert f"**{hold} of {hold + differ} claims hold.**" in text
        counted.append((hold, differ))
    overview = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| (\d+) \| (\d+) \| (\d+) \|$", overview, re.M)
    assert [(int(hold), int(differ)) for _, hold, differ in rows] == counted
    assert f"**{sum(hold for hold, _ in counted)} of {sum(map(sum, counted))} claims hold.**" in overview
