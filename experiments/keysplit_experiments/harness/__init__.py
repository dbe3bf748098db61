"""The common parts of all experiments: declaring, running, storing, judging, plotting and the results page.

The names that an experiment is written with are exported here; `experiment.py` defines them.
"""

from keysplit_experiments.harness.experiment import (
    FULL,
    QUICK,
    Cell,
    Claim,
    Experiment,
    Figures,
    Judged,
    Parameters,
    Results,
    Scale,
    figures_of,
    plain,
    steps,
)

__all__ = [
    "FULL",
    "QUICK",
    "Cell",
    "Claim",
    "Experiment",
    "Figures",
    "Judged",
    "Parameters",
    "Results",
    "Scale",
    "figures_of",
    "plain",
    "steps",
]
