"""What all experiments share: how they are declared, run, stored, judged, drawn and written as a page.

The words that an experiment is written in are here by name; they stand in `experiment.py`.
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
