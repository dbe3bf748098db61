"""The documentation pages with all results: one with what holds, and one per paper."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from keysplit.streams import UnreadableError
from keysplit_experiments.harness.experiment import FULL, QUICK, Claim, Experiment, Judged, Results
from keysplit_experiments.harness.figure import draw, save
from keysplit_experiments.harness.paper import Paper
from keysplit_experiments.harness.registry import papers, registered
from keysplit_experiments.harness.runner import Outcome, judged
from keysplit_experiments.harness.store import Store
from keysplit_experiments.harness.table import Table

WIDTH = 125
LIMITS = re.compile(r" \((?:[^()]|\([^()]*\))*\)")
"""What a claim has in parentheses: the limits of its rule."""

INTRODUCTION = """\
# Experiments

The figures and tables of five papers that a simulation can repeat, a page per paper. `keysplit reproduce`
(`pip install . ./experiments` in a clone) lists them; `keysplit reproduce NAME` runs one and prints all its
numbers; with `--quick` it takes seconds. `keysplit reproduce --docs docs/experiments.md` writes these pages
from the results of full runs. A section from a smaller run says so.

Each claim is a statement of the paper's text, which a rule tests on our results. It *holds*, or it *differs*
for the reason given. The limits of the rule are in parentheses where a claim differs; `keysplit reproduce
NAME` prints those of all claims. Our figures are given where the paper states a number, or where we differ.
No number is read off the paper's figures. Most of the papers' real streams are available only to their
authors; each page names what was read instead.
"""


def write(page: Path, folder: Path) -> None:
    """Write the page, and the papers' pages and figures into a folder next to it with the same name.

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
    own_folder = page.parent / page.stem
    for slug in papers():
        for old in (own_folder / slug).glob("*.svg"):
            old.unlink()
        (own_folder / f"{slug}.md").unlink(missing_ok=True)
    for name, outcome in outcomes.items():
        drawn = draw(outcome.experiment, outcome.results)
        if drawn is not None:
            save(drawn, own_folder / f"{name}.svg")
    page.write_text(overview(outcomes, page.stem), encoding="utf-8")
    for paper, own in _by_paper(outcomes):
        own_folder.mkdir(exist_ok=True)
        (own_folder / f"{paper.slug}.md").write_text(markdown(paper, own), encoding="utf-8")


def read(folder: Path, experiments: Mapping[str, Experiment]) -> dict[str, Outcome]:
    """Read and judge the results in a folder, as far as there are some, by the names of the experiments."""
    found = {}
    for name, experiment in experiments.items():
        results = _results(experiment, folder)
        if results is not None:
            found[name] = judged(experiment, results)
    return found


def overview(outcomes: Mapping[str, Outcome], folder: str) -> str:
    """Write how many claims of each paper hold as a page of Markdown.

    Args:
        outcomes: By name of the experiment.
        folder: The papers' pages, relative to this one.
    """
    rows: list[list[str | int]] = []
    for paper, own in _by_paper(outcomes):
        claims, hold = count(own)
        rows.append([f"[{paper.title}]({folder}/{paper.slug}.md)", len(own), claims, hold, claims - hold])
    table = Table(["paper", "experiments", "claims", "hold", "differ"], rows).markdown()
    return f"{INTRODUCTION}\n{held(list(outcomes.values()))}\n\n{table}\n"


def count(outcomes: Sequence[Outcome]) -> tuple[int, int]:
    """Count the claims, and those that hold."""
    verdicts = [verdict.holds for outcome in outcomes for verdict in outcome.verdicts]
    return len(verdicts), sum(verdicts)


def held(outcomes: Sequence[Outcome]) -> str:
    """Write how many claims hold as a sentence."""
    claims, hold = count(outcomes)
    return f"**{hold} of {claims} claims hold.**"


def markdown(paper: Paper, outcomes: Sequence[Outcome]) -> str:
    """Write results of a paper's experiments as a page of Markdown."""
    parts = [head(paper), _filled(f"{held(outcomes)} {paper.setting}"), *streams(paper, outcomes)]
    parts += [section(each, f"{each.experiment.name}.svg", 2) for each in outcomes]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _by_paper(outcomes: Mapping[str, Outcome]) -> Iterator[tuple[Paper, list[Outcome]]]:
    for paper in papers().values():
        own = [outcome for outcome in outcomes.values() if outcome.experiment.paper == paper.slug]
        if own:
            yield paper, own


def _results(experiment: Experiment, folder: Path) -> Results | None:
    for scale in (FULL, QUICK):
        results = Store(folder, scale.name).read(experiment)
        if results is not None:
            if [cell.parameters for cell in results] != list(experiment.cells(scale)):
                text = f"results must match the current cells of {experiment.name}: run it again"
                raise UnreadableError(text)
            return results
    return None


def head(paper: Paper) -> str:
    """Write the head of a paper's page."""
    return f"""\
# {paper.slug}

*{paper.title}*, {paper.authors}, {paper.published}.
"""


def streams(paper: Paper, outcomes: Sequence[Outcome]) -> list[str]:
    """Write what was read in place of the paper's real streams as a list; empty if nothing was."""
    read = {
        f"- {symbol}, {paper.datasets[symbol].title}: {what}"
        for outcome in outcomes
        for symbol, what in outcome.results.streams.items()
    }
    return ["Read in place of the paper's streams:", "\n".join(sorted(read))] if read else []


def section(outcome: Outcome, figure: str, level: int) -> str:
    """Write the section of an experiment, with a figure at that path, under a heading of that level."""
    experiment, results = outcome.experiment, outcome.results
    command = f"keysplit reproduce {experiment.name}" + (
        "" if results.scale == "full" else f" --{results.scale}"
    )
    shown = f"![{experiment.label}]({figure})" if experiment.draw else experiment.table(results).markdown()
    lines = [f"{'#' * level} {experiment.label}: {experiment.title}", ""]
    lines += [_filled(f"`{command}`. {experiment.setting}"), "", shown, "", *_claims(outcome)]
    return "\n".join(lines)


def _claims(outcome: Outcome) -> Iterator[str]:
    for claim, verdict, because in outcome.rows():
        line = f"- {'Holds' if verdict.holds else '**Differs**'}: {stated(claim, verdict)} [{claim.where}]."
        figures = bool(claim.paper and outcome.experiment.draw)  # a table has them
        if figures or not verdict.holds:
            line += f" Paper: {claim.paper}." if claim.paper else ""
            line += f" Ours: {verdict.ours}{f', because {because}' if because else ''}."
        yield line


def stated(claim: Claim, verdict: Judged) -> str:
    """Write a claim; without the limits of its rule if it holds."""
    return LIMITS.sub("", claim.says) if verdict.holds else claim.says


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)
