"""The registry of experiments: the files in the folders of `papers`, and in `deployments`."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module

import keysplit_experiments.deployments
import keysplit_experiments.papers
from keysplit_experiments.harness.experiment import Experiment
from keysplit_experiments.harness.paper import Paper

ROOM = keysplit_experiments.papers
ORDER = ("d_choices", "consistent", "dynamic_key", "fish", "flexd")
"""The papers, in listing order."""

DEPLOYMENTS = "deployments"
"""The folder of the papers' deployments, on Spark."""


@cache
def papers() -> dict[str, Paper]:
    """Find the papers, by slug: every folder has a ``PAPER``."""
    folders = {module.name for module in pkgutil.iter_modules(ROOM.__path__) if module.ispkg}
    found = {}
    for slug in [*(slug for slug in ORDER if slug in folders), *sorted(folders - set(ORDER))]:
        paper: Paper = import_module(f"{ROOM.__name__}.{slug}").PAPER
        if paper.slug != slug:
            raise ValueError(f"the paper in {slug} must have that slug, got {paper.slug!r}")
        found[slug] = paper
    return found


@cache
def experiments_of(slug: str) -> dict[str, Experiment]:
    """Find the experiments of a paper, by name: every file in its folder has an ``EXPERIMENT``."""
    if slug == DEPLOYMENTS:
        folder = keysplit_experiments.deployments
    else:
        folder = import_module(f"{ROOM.__name__}.{slug}")
    names = [module.name for module in pkgutil.iter_modules(folder.__path__) if not module.ispkg]
    found = {}
    for file in sorted((name for name in names if not name.startswith("_")), key=_natural):
        experiment: Experiment = import_module(f"{folder.__name__}.{file}").EXPERIMENT
        if experiment.name != f"{slug}/{file}":
            raise ValueError(f"the experiment in {slug}/{file} must have that name, got {experiment.name!r}")
        found[experiment.name] = experiment
    return found


def registered() -> dict[str, Experiment]:
    """Find all simulated experiments, by name, in listing order."""
    return {name: experiment for slug in papers() for name, experiment in experiments_of(slug).items()}


def deployments() -> dict[str, Experiment]:
    """Find all deployments, by name, in the order of their papers."""
    found = experiments_of(DEPLOYMENTS)
    order = list(papers())
    return dict(sorted(found.items(), key=lambda item: order.index(item[1].paper)))


def chosen(names: Sequence[str]) -> list[Experiment]:
    """Find experiments by name.

    Args:
        names: ``all`` (simulated ones), the slug of a paper, ``deployments``, or the name of an experiment
            each.

    Returns:
        The experiments, each once, in listing order.

    Raises:
        ValueError: If a name is unknown.
    """
    wanted: set[str] = set()
    for name in names:
        slug = name.split("/")[0]
        if name == "all":
            wanted |= registered().keys()
        elif slug in (*papers(), DEPLOYMENTS) and (name == slug or name in experiments_of(slug)):
            wanted |= experiments_of(slug).keys() if name == slug else {name}
        else:
            raise ValueError(f"name must be {_allowed(slug)}, got {name!r}")
    slugs = [slug for slug in (*papers(), DEPLOYMENTS) if any(name.startswith(f"{slug}/") for name in wanted)]
    return [each for slug in slugs for name, each in _folder(slug).items() if name in wanted]


def _folder(slug: str) -> dict[str, Experiment]:
    return deployments() if slug == DEPLOYMENTS else experiments_of(slug)


def _allowed(slug: str) -> str:
    if slug in (*papers(), DEPLOYMENTS):
        return f"{slug} or one of its experiments ({', '.join(experiments_of(slug))})"
    folders = f"a paper ({', '.join(papers())}), {DEPLOYMENTS}"
    return f"all, {folders} or an experiment (`keysplit reproduce` lists them)"


def _natural(name: str) -> list[tuple[str, int]]:
    """Sort fig9 before fig10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"([^0-9]*)([0-9]*)", name)]
