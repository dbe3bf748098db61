"""The documentation page of the deployments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from keysplit.streams import UnreadableError
from keysplit_experiments.deployments.engine import agreement
from keysplit_experiments.harness import page as simulated
from keysplit_experiments.harness.figure import SETTINGS, draw, save
from keysplit_experiments.harness.paper import Paper
from keysplit_experiments.harness.registry import DEPLOYMENTS, deployments, papers
from keysplit_experiments.harness.runner import Outcome
from keysplit_experiments.harness.table import Table

INTRODUCTION = """\
# Deployments

The papers deployed their groupings on Apache Storm, most of them on a cluster. This page repeats that on
Spark. The cluster is emulated on one machine: each worker is a task in a Python process of its own, and
sleeps as long as its messages would take. Sources, routing, shuffle, partial aggregation and the final
aggregation are Spark's and keysplit's own, and every total is compared with a plain count.

`keysplit reproduce deployments` runs all of them, `keysplit reproduce deployments/NAME` one, with `--quick`
a smaller one. They need `pip install '.[spark,kafka]' ./experiments` in a clone of keysplit, and Java.
`deployments/dynamic_key` also needs the jars of a Kafka broker: `scripts/jars kafka` downloads them into
`.cache/kafka/jars`, or `KEYSPLIT_KAFKA_JARS` names their folder.

`keysplit reproduce --docs-deployments docs/deployments.md` writes this page from the results of full runs. A
section from a smaller run says so.

Each claim is a statement of the paper's text, or one of ours where it says so, with a rule that tests it on
our results. It *holds*, or it *differs* for the reason given. Absolute figures are those of an emulated
cluster: compare groupings, not machines. For what a simulation can repeat, see
[Experiments](experiments.md).
"""

AGREEMENT = """\
## Measured and simulated

Each cell was simulated as well, with the same sources, workers, stream, grouping and seed, except FISH's
with workers that leave and come back. A point is a cell: the time that its busiest worker slept, over the
mean of all workers, against the same ratio of the simulated loads. The band is 15 per cent.

![measured against simulated balance]({figures}/agreement.svg)
"""


def write(page: Path, folder: Path) -> None:
    """Write the page, and the figures into a folder beside it with the same name.

    Args:
        page: The file of the page.
        folder: The folder of all results: full runs if present, else quick ones.

    Raises:
        ValueError: If there are no results, or some are damaged or out of date.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    outcomes = simulated.read(folder, deployments())
    if not outcomes:
        text = f"{str(folder)!r} must hold results, got none: run `keysplit reproduce {DEPLOYMENTS}` first"
        raise UnreadableError(text)
    figures = page.parent / page.stem
    for old in figures.glob("*.svg"):
        old.unlink()
    for outcome in outcomes.values():
        drawn = draw(outcome.experiment, outcome.results)
        if drawn is not None:
            save(drawn, figures / f"{_short(outcome)}.svg")
    with rc_context(SETTINGS):
        figure = Figure(figsize=agreement.SIZE, layout="constrained")
        agreement.draw(figure, {name: outcome.results for name, outcome in outcomes.items()})
    save(figure, figures / "agreement.svg")
    page.write_text(markdown(outcomes, page.stem), encoding="utf-8")


def markdown(outcomes: Mapping[str, Outcome], figures: str) -> str:
    """Write results of deployments as a page of Markdown.

    Args:
        outcomes: By name of the deployment.
        figures: Folder of the figures, relative to the page.
    """
    parts = [INTRODUCTION, _summary(outcomes), AGREEMENT.format(figures=figures)]
    for outcome in outcomes.values():
        paper = papers()[outcome.experiment.paper]
        figure = f"{figures}/{_short(outcome)}.svg"
        parts += [simulated.head(paper, 2), simulated.section(outcome, paper, figure, 3)]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _summary(outcomes: Mapping[str, Outcome]) -> str:
    rows = []
    for outcome in outcomes.values():
        paper: Paper = papers()[outcome.experiment.paper]
        verdicts = [verdict.holds for verdict in outcome.verdicts]
        rows.append(
            [
                f"[{paper.title}](#{paper.slug})",
                len(outcome.results.cells),
                round(sum(outcome.results.all("took_s")) / 60, 1),
                round(max(outcome.results.all("memory_mb")) / 1000, 1),
                len(verdicts),
                sum(verdicts),
                len(verdicts) - sum(verdicts),
            ]
        )
    heads = ["deployment of", "cells", "minutes", "memory, GB", "claims", "hold", "differ"]
    return Table(heads, rows).markdown() + "\n"


def _short(outcome: Outcome) -> str:
    return outcome.experiment.name.removeprefix(f"{DEPLOYMENTS}/")
