"""The documentation page with all results."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from keysplit.streams import UnreadableError
from keysplit_experiments.harness.experiment import FULL, QUICK, Experiment, Results
from keysplit_experiments.harness.figure import draw, save
from keysplit_experiments.harness.paper import Paper
from keysplit_experiments.harness.registry import papers, registered
from keysplit_experiments.harness.runner import Outcome, judged
from keysplit_experiments.harness.store import Store
from keysplit_experiments.harness.table import Table

WIDTH = 125
INTRODUCTION = """\
# Experiments

This page reproduces the figures and tables of five papers that a simulation can repeat. Install the
experiments with `pip install keysplit-experiments`. `keysplit reproduce` lists them.
`keysplit reproduce NAME` runs one and writes its figure and all numbers; with `--quick` it takes seconds.
`keysplit reproduce --docs docs/experiments.md` writes this page from the results of full runs. A section
from a smaller run says so.

Each claim is a statement of the paper's text, with a rule that tests it on our results. It *holds*, or it
*differs* for the reason given. If the text gives a number, it is listed next to ours. No number is read off
the paper's figures. Most of the papers' real streams are available only to their authors. Each section names
what was read instead.

For other measurements, some of them compared with the authors' own programs, see [Measured](measured.md).
"""


def write(page: Path, folder: Path) -> None:
    """Write the page, and the figures into a folder beside it with the same name.

    Args:
        page: The file of the page.
        folder: The folder of all results: full runs if present, else quick ones.

    Raises:
        ValueError: If there are no results, or some are damaged or out of date.
    """
    outcomes = read(folder, registered())
    if not outcomes:
        text = f"{str(folder)!r} must hold results, got none: run `keysplit reproduce all` first"
        raise UnreadableError(text)
    figures = page.parent / page.stem
    for old in (path for slug in papers() for path in (figures / slug).glob("*.svg")):
        old.unlink()
    for name, outcome in outcomes.items():
        drawn = draw(outcome.experiment, outcome.results)
        if drawn is not None:
            save(drawn, figures / f"{name}.svg")
    page.write_text(markdown(outcomes, page.stem), encoding="utf-8")


def read(folder: Path, experiments: Mapping[str, Experiment]) -> dict[str, Outcome]:
    """Read and judge the results in a folder, as far as there are some, by the names of the experiments."""
    found = {}
    for name, experiment in experiments.items():
        results = _results(experiment, folder)
        if results is not None:
            found[name] = judged(experiment, results)
    return found


def markdown(outcomes: Mapping[str, Outcome], figures: str) -> str:
    """Write results as a page of Markdown.

    Args:
        outcomes: By name of the experiment.
        figures: Folder of the figures, relative to the page.
    """
    parts = [INTRODUCTION, _summary(outcomes)]
    for paper in papers().values():
        own = [outcome for outcome in outcomes.values() if outcome.experiment.paper == paper.slug]
        if own:
            parts.append(head(paper))
            parts += [section(each, paper, f"{figures}/{each.experiment.name}.svg") for each in own]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _results(experiment: Experiment, folder: Path) -> Results | None:
    for scale in (FULL, QUICK):
        results = Store(folder, scale.name).read(experiment)
        if results is not None:
            if [cell.parameters for cell in results] != list(experiment.cells(scale)):
                text = f"results must match the current cells of {experiment.name}: run it again"
                raise UnreadableError(text)
            return results
    return None


def _summary(outcomes: Mapping[str, Outcome]) -> str:
    rows: list[list[str | int]] = []
    for paper in papers().values():
        own = [outcome for outcome in outcomes.values() if outcome.experiment.paper == paper.slug]
        verdicts = [verdict.holds for outcome in own for verdict in outcome.verdicts]
        if own:
            link = f"[{paper.title}](#{paper.slug})"
            rows.append([link, len(own), len(verdicts), sum(verdicts), len(verdicts) - sum(verdicts)])
    return Table(["paper", "experiments", "claims", "hold", "differ"], rows).markdown() + "\n"


def head(paper: Paper) -> str:
    """Write the head of a paper's sections."""
    return f"""\
## {paper.slug}

*{paper.title}*, {paper.authors}, {paper.published}.
"""


def section(outcome: Outcome, paper: Paper, figure: str) -> str:
    """Write the section of an experiment, with a figure at that path."""
    experiment, results = outcome.experiment, outcome.results
    lines = [f"### {experiment.label}: {experiment.title}", ""]
    command = f"keysplit reproduce {experiment.name}" + (
        "" if results.scale == "full" else f" --{results.scale}"
    )
    lines += [textwrap.fill(f"`{command}`. {experiment.setting}", WIDTH, break_on_hyphens=False), ""]
    for symbol, what in results.streams.items():
        line = f"- {symbol}, {paper.datasets[symbol].title}: {what}"
        lines += [textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False)]
    lines += [""] if results.streams else []
    if experiment.draw is not None:
        lines += [f"![{experiment.title}]({figure})", ""]
    lines += [_claims(outcome).markdown(), "", experiment.table(results).markdown(), ""]
    return "\n".join(lines)


def _claims(outcome: Outcome) -> Table:
    rows = []
    for claim, verdict, because in outcome.rows():
        word = "holds" if verdict.holds else "**differs**" + (f", because {because}" if because else "")
        rows.append([f"{claim.says} [{claim.where}]", claim.paper, verdict.ours, word])
    return Table(["claim", "paper", "ours", "verdict"], rows)
