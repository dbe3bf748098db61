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
Spark, with a cluster that is emulated on one machine: each worker is a task in a Python process of its own,
and sleeps as long as its messages would take. Sources, routing, shuffle and aggregation are Spark's and
keysplit's own. Every total is compared with a plain count.

`keysplit reproduce deployments` runs all of them, `keysplit reproduce deployments/NAME` one, with `--quick`
a smaller one; it prints all numbers. They need `pip install '.[spark,kafka]' ./experiments` in a clone, and
Java. `deployments/dynamic_key` also needs the jars of a Kafka broker: `scripts/jars kafka` downloads them
into `.cache/kafka/jars`, or `KEYSPLIT_KAFKA_JARS` names their folder. `keysplit reproduce --docs-deployments
docs/deployments.md` writes this page from the results of full runs. A section from a smaller run says so.

Claims are given as on the pages of the [Experiments](experiments.md), which also name the streams that stand
in for the papers'; some are our own. Each figure is one run with one seed, so "more" and "less" hold only
from a difference of 3 per cent on. Compare groupings, not machines. The latency of a micro-batch begins when
its workers start, so compare queues, not seconds.
"""

AGREEMENT = """\
## Measured and simulated

Each cell was simulated as well, with the same sources, workers, stream, grouping and seed. In simulated
micro-batches messages arrive at 80 per cent of the workers' rate. A point is a cell: the time that its
busiest worker slept over the mean of all, against the same ratio of the simulated loads. The band is 15 per
cent. Segments and online routers agree nearly by construction, as the same routers get the same messages.

![measured against simulated balance]({figures}/agreement.svg)
"""


def write(page: Path, folder: Path) -> None:
    """Write the page, and the figures into a folder next to it with the same name.

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
    parts = [INTRODUCTION, simulated.held(list(outcomes.values())), _summary(outcomes)]
    parts += [AGREEMENT.format(figures=figures)]
    for outcome in outcomes.values():
        parts += [f"## {outcome.experiment.paper}"]
        parts += [simulated.section(outcome, f"{figures}/{_short(outcome)}.svg", 3)]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _summary(outcomes: Mapping[str, Outcome]) -> str:
    rows = []
    for outcome in outcomes.values():
        paper: Paper = papers()[outcome.experiment.paper]
        claims, hold = simulated.count([outcome])
        rows.append(
            [
                f"[{paper.title}](#{paper.slug})",
                len(outcome.results.cells),
                round(sum(outcome.results.all("took_s")) / 60, 1),
                round(max(outcome.results.all("memory_mb")) / 1000, 1),
                claims,
                hold,
                claims - hold,
            ]
        )
    heads = ["deployment of", "cells", "minutes", "memory, GB", "claims", "hold", "differ"]
    return Table(heads, rows).markdown() + "\n"


def _short(outcome: Outcome) -> str:
    return outcome.experiment.name.removeprefix(f"{DEPLOYMENTS}/")
