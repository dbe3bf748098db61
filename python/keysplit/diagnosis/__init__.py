"""Diagnoses: which stages of a Spark job wait for a slow task, why, and what would help."""

from keysplit.diagnosis.diagnosis import Application, Diagnosis, conclude, diagnose
from keysplit.diagnosis.model import Bounds, Finding, Spread, Stage, Tasks

__all__ = [
    "Application",
    "Bounds",
    "Diagnosis",
    "Finding",
    "Spread",
    "Stage",
    "Tasks",
    "conclude",
    "diagnose",
]
